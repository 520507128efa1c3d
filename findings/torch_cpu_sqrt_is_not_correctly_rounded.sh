#!/usr/bin/env bash
# Package: torch 2.11.0, on an x86-64 CPU; numpy 2.3.5 beside it.
#
# A good guess: the square root is one of the operations that IEEE 754 rounds correctly, CPUs have an instruction for
# it, and CUDA's is correctly rounded by default. So torch.sqrt gives the nearest number, the same everywhere.
#
# What happens: of 4096 random float32 it gives 23 roots that are one unit in the last place off, of float64 20.
# numpy.sqrt and math.sqrt have none. On a CPU torch.sqrt goes through MKL's vector mathematics, which promises an
# error of less than one unit, not of a half.
#
# Why it matters: norms and standard deviations of a CPU and of a GPU differ in their last bit even where the sums
# below the root agree, and a test that takes torch.sqrt as its oracle blames the wrong side.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.11.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import math
import sys

import numpy as np
import torch

torch.manual_seed(0)
x = torch.rand(4096)
float32 = torch.sqrt(x)
nearest = torch.sqrt(x.double()).float()  # of a root with twice the digits: what is a last bit there is lost
float64 = torch.sqrt(x.double())
roots = torch.tensor([math.sqrt(value) for value in x.double().tolist()], dtype=torch.float64)

off32 = int((float32 != nearest).sum())
off64 = int((float64 != roots).sum())
numpy32 = int((np.sqrt(x.numpy()) != nearest.numpy()).sum())
numpy64 = int((np.sqrt(x.double().numpy()) != roots.numpy()).sum())
print(f"torch {torch.__version__}, MKL {torch.backends.mkl.is_available()}")
print(f"of {x.numel()} roots not the nearest: torch float32 {off32}, float64 {off64}; numpy {numpy32}, {numpy64}")
sys.exit(0 if off32 > 0 and off64 > 0 and numpy32 == numpy64 == 0 else 1)
PYTHON
