#!/usr/bin/env bash
# Takes all figures of benchmarks/results that one GPU and Nsight Compute can take, in some ten minutes:
#   bash benchmarks/measure.sh FOLDER NAME     (NAME: the GPU's, as in sum_NAME.json)
# PYTHON is the interpreter that has reduce_ops, and REDUCE_OPS_COMMIT the commit where there is no git. What fails is
# told, and the rest goes on; what a program prints is in FOLDER/*.log.
set -uo pipefail
folder=$1 name=$2 python=${PYTHON:-.venv/bin/python} failed=0
cd "$(dirname "$0")/.."
mkdir -p "$folder"

# take FILE COMMAND...: the command writes FOLDER/FILE_NAME.json
take() {
  local start=$SECONDS json="$folder/$1_$name.json" log="$folder/$1.log"
  "$python" "${@:2}" --json "$json" >"$log" 2>&1 || { failed=1 && tail -n 1 "$log" >&2; }
  echo "$1: $((SECONDS - start)) s" >&2
}

for race in dims sum exact; do take "$race" -m reduce_ops bench "$race" --plot "$folder/${race}_$name.png"; done
take ladder -m reduce_ops bench --report "$folder/report"
take order benchmarks/order_errors.py
take context benchmarks/in_context.py
take means benchmarks/means.py
take profile -m reduce_ops profile
take stalls benchmarks/stalls.py
take random benchmarks/random_layouts.py
take random_converting benchmarks/random_layouts.py --converting --seconds 30
exit "$failed"
