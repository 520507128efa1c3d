#!/usr/bin/env bash
# Package: torch 2.15.0, on a CPU.
#
# A good guess: a conversion to torch.float8_e4m3fn, which has no infinities, makes NaN of an infinity and of what is more
# than its largest number, as PyTorch 2.11 does (448 and up to 464 become 448, 480 and inf become NaN) and as the
# conversion to float8_e5m2 makes infinities of such.
#
# What happens: 2.15.0 makes 448 of all of them, of infinities too, with the sign of each. NaN stays NaN.
#
# Why it matters: a value that has overflowed is an ordinary number afterwards, so that a check for NaN or infinity behind
# a cast to float8 finds nothing any more; and bits of one program differ between two versions of PyTorch.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import torch

inf, nan = float("inf"), float("nan")
x = torch.tensor([448.0, 464.0, 480.0, 1e4, inf, -inf, nan])
e4m3fn = x.to(torch.float8_e4m3fn).float().tolist()
e5m2 = torch.tensor([57344.0, 65536.0, inf, -inf]).to(torch.float8_e5m2).float().tolist()
print("torch", torch.__version__)
print("to float8_e4m3fn:", x.tolist(), "->", e4m3fn)
print("to float8_e5m2: [57344, 65536, inf, -inf] ->", e5m2)
assert e4m3fn[:6] == [448, 448, 448, 448, 448, -448] and e4m3fn[6] != e4m3fn[6], "this has changed"
assert e5m2 == [57344, inf, inf, -inf], "this has changed"
PYTHON
