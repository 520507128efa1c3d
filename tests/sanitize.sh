#!/usr/bin/env bash
# Runs the kernels under compute-sanitizer's four tools, and shows that racecheck bites. Needs a GPU and nvcc; takes
# some minutes. `make sanitize` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/sanitizer
mkdir -p "$build"

echo "building the drivers" >&2
nvcc=(nvcc -std=c++17 -O3 -lineinfo -arch=native -Icsrc)
"${nvcc[@]}" -o "$build/ladder_driver" tests/sanitizer/ladder_driver.cu csrc/ladder/{ladder_kernels.cu,schedule.cpp} &
"${nvcc[@]}" -o "$build/v4_without_syncwarp" tests/sanitizer/v4_without_syncwarp.cu
wait $!

"$build/ladder_driver"
passed=0
# check TOOL ARGUMENTS...: the tool reports nothing on all rungs
check() {
  local tool=$1 log="$build/$1.log"
  shift
  echo "$tool" >&2
  if ! compute-sanitizer --tool "$tool" --error-exitcode 3 "$@" >"$log" 2>&1 || ! grep -qE 'SUMMARY: 0 (errors|hazards)' "$log"; then
    cat "$log"
    exit 1
  fi
  passed=$((passed + 1))
}
check memcheck --leak-check full "$build/ladder_driver"
check initcheck "$build/ladder_driver"
check synccheck "$build/ladder_driver"
check racecheck --racecheck-report all "$build/ladder_driver" 5000  # shared memory only: large grids add nothing

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
