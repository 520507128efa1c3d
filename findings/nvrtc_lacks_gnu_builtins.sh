#!/usr/bin/env bash
# Packages: nvidia-cuda-nvrtc 13.0.88 (NVRTC) and nvidia-cuda-nvcc 13.0.88 (nvcc), both of CUDA 13.0, on a CPU.
#
# A good guess: NVRTC and nvcc have the same front end, so that device code that one compiles the other compiles, too,
# if it includes nothing. A header shared with a GNU host compiler may say `__builtin_huge_val()` for an infinity that
# is a constant expression, since nvcc takes it in a kernel.
#
# What happens: NVRTC says that the identifier is undefined. So it does of __builtin_nanf. It has __builtin_isnan and
# __builtin_bit_cast, though.
#
# Why it matters: code that moves from nvcc to NVRTC compiles in every test that nvcc or g++ runs, and fails when a
# user's first call needs that kernel. `__builtin_bit_cast(float, 0x7f800000u)` is an infinity in both, and a constant
# expression.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
  nvidia-cuda-runtime==13.0.96
cat >"$folder/compile.py" <<'PYTHON'
import ctypes, glob, sys

(library,) = glob.glob(sys.prefix + "/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13")
nvrtc = ctypes.CDLL(library)
program = ctypes.c_void_p()
source = open(sys.argv[1], "rb").read()
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None) == 0
flags = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90", b"--std=c++20")
sys.exit(0 if nvrtc.nvrtcCompileProgram(program, 2, flags) == 0 else 1)
PYTHON
toolkit=$(echo "$folder"/venv/lib/python3*/site-packages/nvidia/cu13)

compiles() { if "$@" >"$folder/log" 2>&1; then echo yes; else echo no; fi; }

seen=$(
  for expression in '__builtin_huge_val()' '__builtin_nanf("")' '__builtin_isnan(p[1])' \
    '__builtin_bit_cast(float, 0x7f800000u)'; do
    echo "__global__ void kernel(double* p) { p[0] = $expression; }" >"$folder/k.cu"
    by_nvrtc=$(compiles "$folder/venv/bin/python" "$folder/compile.py" "$folder/k.cu")
    by_nvcc=$(compiles "$toolkit/bin/nvcc" -arch=sm_90 -std=c++20 -cubin "$folder/k.cu" -o "$folder/k.cubin")
    echo "$expression: nvcc $by_nvcc, NVRTC $by_nvrtc"
  done
)
echo "$seen"
expected='__builtin_huge_val(): nvcc yes, NVRTC no
__builtin_nanf(""): nvcc yes, NVRTC no
__builtin_isnan(p[1]): nvcc yes, NVRTC yes
__builtin_bit_cast(float, 0x7f800000u): nvcc yes, NVRTC yes'
if [ "$seen" != "$expected" ]; then
  echo "this has changed" >&2
  exit 1
fi
