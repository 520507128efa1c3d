#!/usr/bin/env bash
# Runs the kernels under compute-sanitizer's four tools, the operators under memcheck, and shows that racecheck bites.
# Needs a GPU, nvcc and, as $PYTHON, a Python that has the package; takes some minutes. `make sanitize` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/sanitizer
mkdir -p "$build"

# The engine, which compiles the kernels that a driver asks for.
engine=("$build/device_sources.cpp" csrc/{early_start,gpu}_cuda.cpp csrc/jit/{cache,compiler,kernel,warn}_cuda.cpp)
python3 csrc/jit/embed.py "${engine[0]}"

# compile DRIVER SOURCE...
compile() {
  echo "building $1" >&2
  nvcc -std=c++20 -O3 -lineinfo -arch=native -cudart shared --threads 4 -Icsrc -o "$build/$1" \
    "tests/sanitizer/$1.cu" "${@:2}"
}

# under TOOL DRIVER LARGEST_N_FOR_RACECHECK: the tool reports nothing on the driver
under() {
  local tool=$1 driver=$2 largest=600000 options=() log="$build/$2.$1.log"
  case $tool in
    memcheck) options=(--leak-check full) ;;
    racecheck) options=(--racecheck-report all) largest=$3 ;; # shared memory only: large grids add nothing
  esac
  echo "$tool $driver" >&2
  if ! compute-sanitizer --tool "$tool" --error-exitcode 3 "${options[@]}" "$build/$driver" "$largest" >"$log" 2>&1 ||
    ! grep -qE 'SUMMARY: 0 (errors|hazards)' "$log"; then
    cat "$log"
    return 1
  fi
}

# check DRIVER LARGEST_N_FOR_RACECHECK SOURCE...: the driver passes, also under every tool
check() {
  local driver=$1 tools=() tool failed=0
  compile "$driver" "${@:3}"
  "$build/$driver"
  for tool in memcheck initcheck synccheck racecheck; do
    under "$tool" "$driver" "$2" &
    tools+=($!)
  done
  for tool in "${tools[@]}"; do wait "$tool" || failed=1; done
  return "$failed"
}

# Through PyTorch, without its caching allocator, whose blocks would hide what is read beside a tensor: every layout.
check_operators() {
  local log="$build/operators.memcheck.log"
  echo "memcheck operators" >&2
  # shellcheck disable=SC2086 # $PYTHON may have options
  if ! PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 3 \
    $PYTHON -m pytest -q -p no:cacheprovider tests/test_sum_dims.py -k 'cuda and (special_values or misaligned)' \
    >"$log" 2>&1 || ! grep -q 'SUMMARY: 0 errors' "$log"; then
    cat "$log"
    return 1
  fi
  grep -E '^[0-9]+ passed' "$log"
}

# Hazards within a warp are reported as warnings, hence "hazards", not "errors".
check_that_racecheck_bites() {
  local log="$build/v4_without_syncwarp.log"
  compile v4_without_syncwarp
  echo "racecheck v4_without_syncwarp" >&2
  compute-sanitizer --tool racecheck --racecheck-report all "$build/v4_without_syncwarp" >"$log" 2>&1 || true
  if ! grep -qE 'RACECHECK SUMMARY: [1-9][0-9]* hazard' "$log"; then
    cat "$log"
    echo "racecheck did not see the race in v4 without __syncwarp()" >&2
    return 1
  fi
}

check ladder_driver 70001 csrc/ladder/{ladder_kernels.cu,launch_cuda.cpp,schedule.cpp} "${engine[@]}" &
checks=($!)
check sum_driver 70001 csrc/sum/{instance_cuda,launch_cuda}.cpp csrc/plan/*.cpp "${engine[@]}" &
checks+=($!)
check transform_driver 70001 csrc/transform/{launch_cuda,formula}.cpp csrc/sum/instance_cuda.cpp csrc/plan/*.cpp \
  "${engine[@]}" &
checks+=($!)
check exact_driver 16385 csrc/exact/{launch_cuda,exact_plan}.cpp "${engine[@]}" &
checks+=($!)
check_that_racecheck_bites &
checks+=($!)
check_operators &
checks+=($!)
failed=0
for one in "${checks[@]}"; do wait "$one" || failed=1; done
if [ "$failed" = 0 ]; then echo "every driver clean under every tool, the operators under memcheck, and the race in v4 without __syncwarp() seen"; fi
exit "$failed"
