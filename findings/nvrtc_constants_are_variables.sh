#!/usr/bin/env bash
# Package: nvidia-cuda-nvrtc 13.0.88 (NVRTC of CUDA 13.0), on a CPU; no GPU is needed.
#
# A good guess: a constant such as `constexpr int kSize = 32;` in a namespace, which a kernel uses as a number and nothing
# else, leaves nothing in the machine code, as with nvcc; and the same source gives the same bytes in every process.
#
# What happens: NVRTC makes each such constant a variable of the device, though nothing refers to it: a symbol, a place in
# .nv.global.init and an entry in .nv.constant4. Where the program has a kernel template, the symbol's name holds the id of
# the process that compiled it, so that two processes make different bytes of the same source.
#
# Why it matters: who keeps compiled kernels by a hash of their bytes, or compares two builds, finds no two the same. And
# fifty constants in headers made the cubin of a small kernel 1.7 times as large, and its compilation a third longer.
# `inline constexpr` gives the same bytes everywhere, for its name needs no process id. An enumerator is no variable.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nvidia-cuda-nvrtc==13.0.88
cat >"$folder/compile.py" <<'PYTHON'
import ctypes, glob, sys

(library,) = glob.glob(sys.prefix + "/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13")
nvrtc = ctypes.CDLL(library)
source = f"""
namespace numbers {{ {sys.argv[2]} }}
template <int kFactor> __global__ void scale(float* x) {{ x[threadIdx.x] *= kFactor * numbers::kSize; }}
"""
program = ctypes.c_void_p()
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"scale.cu", 0, None, None) == 0
assert nvrtc.nvrtcAddNameExpression(program, b"scale<3>") == 0
flags = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
assert nvrtc.nvrtcCompileProgram(program, 1, flags) == 0
size = ctypes.c_size_t()
assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
cubin = ctypes.create_string_buffer(size.value)
assert nvrtc.nvrtcGetCUBIN(program, cubin) == 0
open(sys.argv[1], "wb").write(cubin.raw)
PYTHON

# compile NAME DECLARATION: in two processes, whose ids differ
compile() {
  for turn in 1 2; do "$folder/venv/bin/python" "$folder/compile.py" "$folder/$1.$turn" "$2"; done
  same=no variable=no
  if cmp -s "$folder/$1.1" "$folder/$1.2"; then same=yes; fi
  if grep -qa 'kSize' "$folder/$1.1"; then variable=yes; fi
  echo "$1: $(stat -c %s "$folder/$1.1") bytes, same bytes in two processes: $same, a variable kSize: $variable"
}

seen=$(
  compile constexpr 'constexpr int kSize = 32;'
  compile inline_constexpr 'inline constexpr int kSize = 32;'
  compile enumerator 'enum : int { kSize = 32 };'
)
echo "$seen"
expected='constexpr no yes
inline_constexpr yes yes
enumerator yes no'
got=$(sed -E 's/: [0-9]+ bytes, same bytes in two processes: (yes|no), a variable kSize: (yes|no)/ \1 \2/' <<<"$seen")
if [ "$got" != "$expected" ]; then
  echo "this has changed" >&2
  exit 1
fi
