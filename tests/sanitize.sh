#!/usr/bin/env bash
# Runs the kernels under compute-sanitizer's four tools, and shows that racecheck bites. Needs a GPU and nvcc; takes
# some minutes. `make sanitize` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/sanitizer
mkdir -p "$build"

echo "building the drivers" >&2
nvcc=(nvcc -std=c++20 -O3 -lineinfo -arch=native -Icsrc)
"${nvcc[@]}" -o "$build/ladder_driver" tests/sanitizer/ladder_driver.cu csrc/ladder/{ladder_kernels.cu,schedule.cpp} &
ladder=$!
"${nvcc[@]}" --threads 4 -o "$build/sum_driver" tests/sanitizer/sum_driver.cu csrc/sum/*.cu csrc/sum/plan.cpp &
sum=$!
"${nvcc[@]}" -o "$build/exact_driver" tests/sanitizer/exact_driver.cu csrc/exact/{exact_kernels.cu,exact_plan.cpp} &
exact=$!
"${nvcc[@]}" -o "$build/v4_without_syncwarp" tests/sanitizer/v4_without_syncwarp.cu
wait "$ladder"
wait "$sum"
wait "$exact"

"$build/ladder_driver"
"$build/sum_driver"
"$build/exact_driver"
passed=0
# check TOOL LARGEST_N OPTIONS...: the tool reports nothing on any driver
check() {
  local tool=$1 largest=$2 log
  shift 2
  for driver in ladder_driver sum_driver exact_driver; do
    echo "$tool $driver" >&2
    log="$build/$driver.$tool.log"
    if ! compute-sanitizer --tool "$tool" --error-exitcode 3 "$@" "$build/$driver" "$largest" >"$log" 2>&1 ||
      ! grep -qE 'SUMMARY: 0 (errors|hazards)' "$log"; then
      cat "$log"
      exit 1
    fi
    passed=$((passed + 1))
  done
}
check memcheck 300000 --leak-check full
check initcheck 300000
check synccheck 300000
check racecheck 70001 --racecheck-report all  # shared memory only: large grids add nothing

# Hazards within a warp are reported as warnings, hence "hazards", not "errors".
echo "racecheck on v4 without __syncwarp()" >&2
log="$build/v4_without_syncwarp.log"
compute-sanitizer --tool racecheck --racecheck-report all "$build/v4_without_syncwarp" >"$log" 2>&1 || true
if grep -qE 'RACECHECK SUMMARY: [1-9][0-9]* hazard' "$log"; then
  passed=$((passed + 1))
else
  cat "$log"
  echo "racecheck did not see the race in v4 without __syncwarp()" >&2
  exit 1
fi
echo "$passed passed, 0 failed"
