"""The command line: ``python -m reduce_ops bench``."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from reduce_ops import bench_ladder
from reduce_ops.ladder import LADDER, Rung
from reduce_ops.tensor_file import read_tensor

DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
        *("int64", "int32", "int16", "int8", "uint8", "bool"),
    )
}


def _count(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of elements; accepted are integers from 1")
    return n


def _rungs(text: str) -> list[Rung]:
    by_name = {name: rung for rung in LADDER for name in (str(rung.number), f"v{rung.number}", rung.name)}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown rung {unknown[0]!r}; accepted are v0 to v{LADDER[-1].number}")
    numbers = {by_name[name].number for name in text.split(",")}
    return [rung for rung in LADDER if rung.number in numbers]


def _tensor(text: str) -> torch.Tensor:
    try:
        return read_tensor(Path(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reduce_ops", description="Sums for PyTorch on CUDA.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    bench = commands.add_parser("bench", help="race the ladder against torch.sum", description=bench_ladder.__doc__)
    source = bench.add_mutually_exclusive_group()
    source.add_argument(
        "--n", type=_count, default=bench_ladder.REFERENCE_N, help="elements (default 32 * 2**20 = %(default)s)"
    )
    source.add_argument("--input", type=_tensor, metavar="FILE", help="sum the tensor of a .npy, .pt or .safetensors")
    bench.add_argument("--dtype", choices=DTYPES, help="element type (default float32, or the file's)")
    bench.add_argument("--rungs", type=_rungs, default=list(LADDER), metavar="v0,v7", help="rungs to run (default all)")
    bench.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 if the run failed, 2 (by SystemExit) for bad arguments."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.json and not options.json.parent.is_dir():
        parser.error(f"argument --json: {options.json.parent} is not a folder")  # before minutes of measuring

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if options.input is not None:
            x = options.input.to(device, DTYPES.get(options.dtype)).flatten()
        else:
            x = bench_ladder.random_input(options.n, DTYPES[options.dtype or "float32"], device)
        report = bench_ladder.run(x, options.rungs, show_progress=sys.stderr.isatty())
    except NotImplementedError as error:  # a dtype, which only a file can bring, that has no sum
        parser.error(f"argument --input: {error}")
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        print(f"out of memory: {str(error).partition('. ')[0]}; try a smaller --n", file=sys.stderr)
        return 1

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(bench_ladder.table(report))
    if options.json:
        options.json.write_text(json.dumps(bench_ladder.as_json(report), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
