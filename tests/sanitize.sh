#!/usr/bin/env bash
# Runs the kernels under compute-sanitizer's four tools, and shows that racecheck bites. Needs a GPU and nvcc; takes
# some minutes. `make sanitize` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/sanitizer
mkdir -p "$build"

# compile DRIVER SOURCE...
compile() {
  echo "building $1" >&2
  nvcc -std=c++20 -O3 -lineinfo -arch=native --threads 4 -Icsrc -o "$build/$1" "tests/sanitizer/$1.cu" "${@:2}"
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

check ladder_driver 70001 csrc/ladder/{ladder_kernels.cu,schedule.cpp} &
checks=($!)
check sum_driver 70001 csrc/sum/*.cu csrc/sum/plan.cpp &
checks+=($!)
check exact_driver 16385 csrc/exact/{exact_kernels.cu,exact_plan.cpp} &
checks+=($!)
check_that_racecheck_bites &
checks+=($!)
failed=0
for one in "${checks[@]}"; do wait "$one" || failed=1; done
if [ "$failed" = 0 ]; then echo "every driver clean under every tool, and the race in v4 without __syncwarp() seen"; fi
exit "$failed"
