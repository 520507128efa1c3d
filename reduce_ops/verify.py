"""Checks that results have the bits of order 1: on GPUs, and on the CPU with each instruction set that it has.

The cases and their hashes are in ``order1.json``; docs/order.md describes that file. The hashes come from
examples/order1.py, with which this module shares no code: what one of them gets wrong, the other one shows.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from rich.table import Table
from torch import Tensor

from reduce_ops import canonical, norms, transforms

FILE = Path(__file__).with_name("order1.json")

ORDER = 1

CAPABILITIES = ("default", "avx2", "avx512")
"""The instruction sets, by their names in ATEN_CPU_CAPABILITY. A CPU has all of them up to its best one."""

Case = dict[str, Any]
Words = npt.NDArray[Any]  # of 64 bits


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "sum": canonical.sum,
    "mean": canonical.mean,
    "nansum": canonical.nansum,
    "vector_norm": norms.vector_norm,
    "amax": norms.amax,
    "amin": norms.amin,
    "transform_sum": transforms.transform_sum,
    "vecdot": transforms.vecdot,
    "var": transforms.var,
    "std": transforms.std,
}
"""The operators that a case may name."""


def _result(x: Tensor, y: Tensor, case: Case) -> Tensor:
    """Call the operator of a case; y: its other operand, if it has one."""
    name = case["operator"]
    options: dict[str, Any] = {"dim": case.get("dim") or ()}
    if "to" in case:
        options["dtype"] = getattr(torch, case["to"])
    if "ord" in case:
        options["ord"] = float(case["ord"])
    if "correction" in case:
        options["correction"] = case["correction"]
    if name == "vecdot":
        return OPERATORS[name](x, y, dim=case["dim"][0] if "dim" in case else None)
    if name == "transform_sum":
        return OPERATORS[name](case["expression"], x=x, y=y, **options)
    return OPERATORS[name](x, **options)


class VerifyError(Exception):
    """Why nothing can be checked, in one sentence."""


@dataclass(frozen=True)
class Difference:
    """A case whose result has another hash."""

    number: int
    """The case's place in its file, from 1 on."""
    case: Case
    got: str
    """The hash of the result, or the error that was raised."""

    def __str__(self) -> str:
        described = json.dumps({key: value for key, value in self.case.items() if key != "hash"})
        return f"case {self.number}: {described}\n  expected {self.case['hash']}\n  got      {self.got}"


@dataclass(frozen=True)
class Check:
    """The outcome of all cases on one device with one instruction set."""

    device: str
    instructions: str
    cases: int
    passed: int
    seconds: float
    first: Difference | None = None
    failure: str = ""
    """Why there is no outcome, where a process died."""

    def explain(self) -> str:
        """Return the first difference, or the failure, as text."""
        where = f"{self.device}, {self.instructions}: "
        if self.first is None:
            return where + self.failure
        return f"{where}{self.cases - self.passed} of {self.cases} cases differ, the first of them\n{self.first}"


@dataclass(frozen=True)
class Suite:
    """A file of cases."""

    formats: dict[str, dict[str, Any]]
    """For each format of floats: bits, mantissa, exponents, special values and the NaN that stands for all others."""
    cases: list[Case]


def read(path: Path) -> Suite:
    """Read a file of cases.

    Raises:
        VerifyError: The file cannot be read, is of another order, or has a case of an operator that is not known here.
    """
    try:
        document = json.loads(path.read_text())
        order, suite = document["order"], Suite(document["formats"], document["cases"])
        operators = {case["operator"] for case in suite.cases}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VerifyError(f"{path} is not a file of cases: {type(error).__name__}: {error}") from error
    if order != ORDER:
        raise VerifyError(f"{path} is of order {order!r}; this version of reduce_ops has order {ORDER}")
    for unknown in sorted(operators - OPERATORS.keys()):
        raise VerifyError(f"{path} has cases of the operator {unknown!r}; known are {', '.join(OPERATORS)}")
    return suite


# ---- one device


class _Storage(NamedTuple):
    """The fields that decide what a storage holds. Cases that agree in them share one."""

    dtype: str
    values: str
    period: int | None

    @classmethod
    def of(cls, case: Case) -> "_Storage":
        return cls(case["dtype"], case.get("values", "mixed"), case.get("period"))


def _words(i: Words) -> Words:
    """Return word i of SplitMix64 with the seed 0."""
    z: Words = (i + 1) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z ^= z >> 31
    return z


def _floats(z: Words, values: str, fields: dict[str, Any]) -> Words:
    """Return the bits of a float for each word."""
    bits, mantissa, (first, count) = fields["bits"], fields["mantissa"], fields["exponents"]
    codes: Words = (z >> 63) << (bits - 1)  # the sign; fraction and exponent follow
    if values == "minus zero":
        codes[:] = 1 << (bits - 1)
        return codes
    if values == "positive":
        codes[:] = 0
    codes |= z & ((1 << mantissa) - 1)
    if values == "subnormal":
        return codes
    codes |= (first + ((z >> 52) & 0x7FF) % count) << mantissa
    if values == "special":
        special = np.array([int(code, 16) for code in fields["special"]], np.uint64)
        codes = np.where((z >> 32) & 15, codes, special[(z >> 36) % len(special)])
    return codes


def _elements(n: int, key: _Storage, formats: dict[str, dict[str, Any]]) -> Tensor:
    """Return the first n elements of a storage, on the CPU."""
    dtype: torch.dtype = getattr(torch, key.dtype)
    component = dtype.to_real() if dtype.is_complex else dtype
    i = np.arange(2 * n if dtype.is_complex else n, dtype=np.uint64)
    is_negative = i // key.period % 2 if key.period else np.zeros_like(i)
    codes = _words(i - is_negative * (key.period or 0))
    if component.is_floating_point:
        fields = formats[_name(component)]
        codes = _floats(codes, key.values, fields) ^ (is_negative << (fields["bits"] - 1))
    elif dtype == torch.bool:
        codes &= 1
    return torch.from_numpy(codes.astype(f"u{component.itemsize}")).view(component).view(dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _length(case: Case) -> int:
    """Return how many elements of its storage a case needs."""
    if 0 in case["size"]:
        return 0
    places = [(case["stride"], case.get("offset", 0)), *([case["other"]] if "other" in case else [])]
    return max(
        int(offset + sum((n - 1) * step for n, step in zip(case["size"], stride, strict=True)) + 1)
        for stride, offset in places
    )


_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def _hash(result: Tensor, formats: dict[str, dict[str, Any]]) -> str:
    result = result.cpu().contiguous()
    if result.is_complex():
        result = torch.view_as_real(result)
    codes = result.view(_UNSIGNED[result.itemsize]).numpy()
    if result.is_floating_point():
        nan = int(formats[_name(result.dtype)]["nan"], 16)
        codes = np.where(result.double().isnan().numpy(), codes.dtype.type(nan), codes)
    return hashlib.sha256(codes.astype(codes.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]


def check(suite: Suite, device: torch.device) -> Check:
    """Compute all cases on a device, in the order of the file. A CPU uses the instruction set of this process."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.empty(0, dtype=torch.complex32)  # PyTorch warns once that this dtype is experimental
    lengths: dict[_Storage, int] = {}
    for case in suite.cases:
        key = _Storage.of(case)
        lengths[key] = max(lengths.get(key, 1), _length(case))  # an empty tensor has no complex view
    storages = {key: _elements(length, key, suite.formats).to(device) for key, length in lengths.items()}

    def hash_of(case: Case) -> str:
        offset = case.get("offset", 0) if _length(case) else 0
        storage = storages[_Storage.of(case)]
        x = storage.as_strided(case["size"], case["stride"], offset)
        y = storage.as_strided(case["size"], *case["other"]) if "other" in case else x
        try:
            return _hash(_result(x, y, case), suite.formats)
        except RuntimeError as error:
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"

    # On a GPU by many threads, each of which compiles the kernels that its cases need.
    with ThreadPoolExecutor(1 if device.type == "cpu" else os.cpu_count()) as pool:
        hashes = list(pool.map(hash_of, suite.cases))
    differences = [
        Difference(number, case, got)
        for number, (case, got) in enumerate(zip(suite.cases, hashes, strict=True), 1)
        if got != case["hash"]
    ]
    return Check(
        *names_of(device),
        cases=len(suite.cases),
        passed=len(suite.cases) - len(differences),
        seconds=time.perf_counter() - start,
        first=differences[0] if differences else None,
    )


def names_of(device: torch.device) -> tuple[str, str]:
    """Return the names of a device and of the instruction set that it uses."""
    if device.type == "cpu":
        return "cpu", torch.ops.reduce._cpu()[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"{device}, {torch.cuda.get_device_name(device)}", f"sm_{major}{minor}"


# ---- all of them


def why_no_gpu() -> str | None:
    """Return why no CUDA device can be checked, or None where one can."""
    if torch.version.cuda is None:
        return "this PyTorch is without CUDA"
    if not torch.cuda.is_available():
        return "no CUDA device is there"
    if not torch._C._dispatch_has_kernel_for_dispatch_key("reduce::sum", "CUDA"):
        return "this build of reduce_ops is for CPUs only"
    return None


def devices(names: Sequence[str] | None) -> list[torch.device]:
    """Return the devices of these names, of which ``cuda`` stands for all GPUs; without names, all there are.

    Raises:
        VerifyError: There is no such GPU.
    """
    reason = why_no_gpu()
    gpus = [] if reason else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    found = ["cpu", *gpus] if names is None else []
    for name in names or ():
        if name.startswith("cuda") and reason:
            raise VerifyError(reason)
        if name not in ("cpu", "cuda", *gpus):
            raise VerifyError(f"there is no {name}; accepted are {', '.join(('cpu', 'cuda', *gpus))}")
        found += gpus if name == "cuda" else [name]
    return [torch.device(name) for name in dict.fromkeys(found)]


def run(path: Path, devices: Sequence[torch.device]) -> list[Check]:
    """Check each device, and the CPU with each of its instruction sets.

    A process chooses its instruction set once. So each instruction set is checked in a process of its own.

    Raises:
        VerifyError: See `read`.
    """
    suite = read(path)
    best: str = torch.ops.reduce._cpu()[0]
    sets = CAPABILITIES[: CAPABILITIES.index(best) + 1] if torch.device("cpu") in devices else ()
    processes = {name: _start(path, name) for name in sets}
    of_gpus = [check(suite, device) for device in devices if device.type != "cpu"]
    return [*(_finish(name, process, len(suite.cases)) for name, process in processes.items()), *of_gpus]


def _start(path: Path, capability: str) -> "subprocess.Popen[str]":
    # Threads that spin while they wait take the cores from the other processes: 3.9 s of CPU time instead of 1.1.
    environment = os.environ | {
        "ATEN_CPU_CAPABILITY": capability,
        "OMP_WAIT_POLICY": "passive",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    safe_path = ["-P"] if getattr(sys.flags, "safe_path", False) else []  # so that it finds this very package
    command = [sys.executable, *safe_path, "-m", "reduce_ops.verify", str(path)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _finish(capability: str, process: "subprocess.Popen[str]", cases: int) -> Check:
    output, errors = process.communicate()
    if process.returncode == 0:
        figures = json.loads(output)
        first = figures.pop("first")
        return Check(**figures, first=Difference(**first) if first else None)
    if process.returncode < 0:
        failure = f"the process was ended by {signal.Signals(-process.returncode).name}"
    else:
        last_line = errors.strip().rpartition("\n")[2]
        failure = f"the process ended with exit code {process.returncode}: {last_line}"
    return Check("cpu", capability, cases, 0, 0.0, failure=failure)


def table(checks: Sequence[Check], path: Path) -> Table:
    """Return a table with a line for each device and instruction set."""
    table = Table(title=f"order {ORDER}, {path.name}", title_justify="left")
    table.add_column("device")
    table.add_column("instruction set")
    for heading in ("cases", "passed", "time, s"):
        table.add_column(heading, justify="right")
    for check in checks:
        style = None if check.passed == check.cases else "red"
        numbers = (str(check.cases), str(check.passed), f"{check.seconds:.1f}")
        table.add_row(check.device, check.instructions, *numbers, style=style)
    return table


if __name__ == "__main__":
    print(json.dumps(asdict(check(read(Path(sys.argv[1])), torch.device("cpu")))))
