"""The command line of the package: ``python -m reduce_ops --help`` lists its commands."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from reduce_ops.explanation import MAX_N, REFERENCE_N, Explanation, explain
from reduce_ops.explanation_view import view
from reduce_ops.files import replacing, try_folder
from reduce_ops.rungs import LADDER, Rung

# PyTorch, and what needs it, is imported where it is used: that takes longer than `explain` takes to answer.
if TYPE_CHECKING:
    import torch
    from rich.progress import Progress

DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)


def _count(text: str) -> int:
    try:
        n = int(text)
    except ValueError:
        n = 0
    if not 1 <= n <= MAX_N:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of elements; accepted are integers from 1 to 2**62")
    return n


def _rungs(text: str) -> list[Rung]:
    by_name = {name: rung for rung in LADDER for name in (str(rung.number), f"v{rung.number}", rung.name)}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown rung {unknown[0]!r}; accepted are v0 to v{LADDER[-1].number}")
    numbers = {by_name[name].number for name in text.split(",")}
    return [rung for rung in LADDER if rung.number in numbers]


def _rung(text: str) -> Rung:
    rungs = _rungs(text)
    if len(rungs) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is more than one rung")
    return rungs[0]


def _architecture(text: str) -> str:
    from reduce_ops.kernels import normalize_architecture

    try:
        return normalize_architecture(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _tensor(text: str) -> "torch.Tensor":
    from reduce_ops.tensor_file import read_tensor

    try:
        return read_tensor(Path(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _device_name(text: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a device; accepted are cpu, cuda and cuda:N")
    return text


def _is_out_of_memory(error: RuntimeError) -> bool:
    import torch

    too_many = "DefaultCPUAllocator" in str(error) or "Storage size calculation overflowed" in str(error)
    return isinstance(error, torch.OutOfMemoryError) or too_many


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reduce_ops", description="Sums for PyTorch on CUDA.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    bench = commands.add_parser(
        "bench",
        help="race the sums against torch.sum and other peers",
        description="ladder (the default): the rungs on one input. sum: reduce.sum over sizes, dtypes, alignments and "
        "layouts. dims: reduce.sum along dimensions, over shapes, dtypes and layouts. exact: reduce.sum_exact over "
        "sizes, kinds of data and dtypes, with the errors of all.",
    )
    bench.add_argument(
        "race",
        nargs="?",
        choices=("ladder", "sum", "dims", "exact"),
        default="ladder",
        help="what to race (default ladder)",
    )
    source = bench.add_mutually_exclusive_group()
    source.add_argument("--n", type=_count, help=f"ladder: elements (default 32 * 2**20 = {REFERENCE_N})")
    source.add_argument(
        "--input", type=_tensor, metavar="FILE", help="ladder: sum the tensor of a .npy, .pt or .safetensors"
    )
    bench.add_argument(
        "--dtype", choices=DTYPES, help="element type (ladder: default float32, or the file's; others: all)"
    )
    bench.add_argument("--rungs", type=_rungs, metavar="v0,v7", help="ladder: rungs (default all)")
    bench.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="sum, dims, exact: also draw the figures, as .png or .svg; exact: and the errors, in FILE_errors",
    )
    bench.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    bench.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="also write a page with pictures there, and a summary",
    )
    bench.add_argument(
        "--compare", type=Path, nargs="+", metavar="FILE", help="show these results, of any race, in the report too"
    )
    bench.set_defaults(run=_bench, parser=bench)

    explain = commands.add_parser(
        "explain",
        help="show what a rung does, round by round",
        description="Counts from the schedule that the rung's CPU twin runs: threads, bank conflicts, barriers, adds.",
    )
    explain.add_argument("rung", type=_rung, help="v0 to v8")
    explain.add_argument("--n", type=_count, help=f"elements (default 32 * 2**20 = {REFERENCE_N})", default=REFERENCE_N)
    explain.add_argument("--block-size", type=int, metavar="T", help="threads a block, where the rung takes it")
    explain.add_argument("--against", type=_rung, metavar="vM", help="show another rung's totals beside it")
    explain.add_argument("--json", action="store_true", help="print JSON instead of tables")
    explain.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as .svg or .png, instead of printing it")
    explain.set_defaults(run=_explain, parser=explain)

    profile = commands.add_parser(
        "profile",
        help="set Nsight Compute's counters beside what explain predicts",
        description="Runs ncu on the first pass of each rung, on float32 and float64. Needs a GPU and ncu on the PATH.",
    )
    profile.add_argument("--n", type=_count, help=f"elements (default 32 * 2**20 = {REFERENCE_N})", default=REFERENCE_N)
    profile.add_argument("--rungs", type=_rungs, metavar="v0,v7", help="rungs (default all)", default=LADDER)
    profile.add_argument("--json", type=Path, metavar="FILE", help="also write the counters there")
    profile.set_defaults(run=_profile, parser=profile)

    compile_ = commands.add_parser(
        "compile",
        help="compile the common kernels now, for GPUs that need not be at hand",
        description="Kernels are compiled when a call first needs them, 0.1 to 1 s each, and kept on disk. This does "
        "so beforehand. What is on disk already is not compiled again.",
    )
    compile_.add_argument(
        "--arch",
        type=_architecture,
        nargs="+",
        metavar="9.0",
        help="compute capabilities (default: those of this machine's GPUs; without one 8.0 9.0 10.0 12.0)",
    )
    compile_.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="write them there: reduce_ops/kernels goes into wheels built afterwards",
    )
    compile_.set_defaults(run=_compile, parser=compile_)

    cache = commands.add_parser(
        "cache", help="show where compiled kernels are kept", description="$REDUCE_OPS_CACHE sets the folder."
    )
    cache.add_argument("--clear", action="store_true", help="remove them all")
    cache.set_defaults(run=_cache, parser=cache)

    tune = commands.add_parser(
        "tune",
        help="time every legal plan of a list of sums on this GPU",
        description="A plan says which kernels sum a tensor, and by how many blocks; the result has the same bits by "
        "any of them. Says where another plan than the chosen one is faster.",
    )
    tune.add_argument(
        "--shapes",
        type=Path,
        metavar="FILE",
        help='a JSON object a line, such as {"shape": [64, 1000], "dim": [1], "dtype": "bfloat16", "strides": '
        "[1000, 1]}; dtype and strides may be left out (default: the contiguous sums of bench dims)",
    )
    tune.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, gzipped if it ends in .gz")
    tune.set_defaults(run=_tune, parser=tune)

    verify = commands.add_parser(
        "verify",
        help="check that sums have their bits on this machine",
        description="Computes the cases of order 1 (docs/order.md) on the GPUs, and on the CPU with each instruction "
        "set that it has, and compares hashes of the results. Exits with 1 where one differs.",
    )
    verify.add_argument(
        "--device",
        type=_device_name,
        nargs="+",
        metavar="DEVICE",
        help="cpu, cuda (all of them) or cuda:N (default: cpu and, where there is one, cuda)",
    )
    verify.add_argument("--cases", type=Path, metavar="FILE", help="another file of cases")
    verify.set_defaults(run=_verify, parser=verify)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 if the run failed, 2 (by SystemExit) for bad arguments."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def _explain(options: argparse.Namespace) -> int:
    try:
        explanation = explain(options.rung.number, n=options.n, block_size=options.block_size)
        against = _explain_other(options) if options.against else None
    except (ValueError, RuntimeError) as error:
        options.parser.error(str(error).partition("\n")[0])
    if options.plot:
        return _draw(explanation, options)
    if options.json:
        shown = explanation.as_json() | ({"against": against.as_json()} if against else {})
        print(json.dumps(shown, indent=2))
    else:
        console = Console()
        (console if console.is_terminal else Console(width=80)).print(view(explanation, against))
    return 0


def _explain_other(options: argparse.Namespace) -> Explanation:
    """Explain the rung of --against, in blocks of the same size where it takes them."""
    other: Rung = options.against
    block_size = options.block_size if options.block_size in other.block_sizes else None
    return explain(other.number, n=options.n, block_size=block_size)


def _draw(explanation: Explanation, options: argparse.Namespace) -> int:
    from reduce_ops import pictures

    _check_files(options.parser, {"--plot": options.plot})
    if options.against or options.json:
        options.parser.error("argument --plot: goes with neither --against nor --json")
    with _writing(options.parser, "--plot"):
        pictures.draw(explanation, options.plot)
    return 0


def _profile(options: argparse.Namespace) -> int:
    from reduce_ops import profile

    parser: argparse.ArgumentParser = options.parser
    _check_files(parser, {"--json": options.json})
    try:
        report = profile.run(options.n, options.rungs)
    except profile.ProfileError as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    _publish(profile.table(report), profile.as_json(report), options)
    return 0


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _progress() -> "Progress":
    """Return a bar with the number done and the time left, on standard error if that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _compile(options: argparse.Namespace) -> int:
    from reduce_ops import kernels

    try:
        architectures = options.arch or kernels.architectures_at_hand()
        with _progress() as progress:
            task = progress.add_task("compiling", total=None)
            compiled = kernels.compile_common(
                architectures, into=options.into, done=lambda _, total: progress.update(task, advance=1, total=total)
            )
    except kernels.CompileError as error:
        print(f"compile: {error}", file=sys.stderr)
        return 1
    table = Table("architecture", "kernels", "compiled now", "seconds", "size")
    for architecture in architectures:
        those = [one for one in compiled if one.architecture == architecture]
        new = [one for one in those if one.seconds > 0]
        seconds = sum(one.seconds for one in new)
        table.add_row(
            architecture, f"{len(those)}", f"{len(new)}", f"{seconds:.1f}", _size(sum(o.bytes for o in those))
        )
    Console().print(table)
    print(f"in {options.into or kernels.cache().folder}")
    return 0


def _cache(options: argparse.Namespace) -> int:
    from reduce_ops import kernels

    try:
        found = kernels.cache()
        if options.clear:
            removed = kernels.clear_cache()
            print(f"removed {removed} kernels, {_size(found.bytes)}, from {found.folder}")
            return 0
    except (kernels.CompileError, OSError) as error:
        print(f"cache: {error}", file=sys.stderr)
        return 1
    stale = f", {found.stale} of them of other versions of the package" if found.stale else ""
    architectures = f" for {', '.join(found.architectures)}" if found.architectures else ""
    print(f"{found.folder}: {found.kernels} kernels{architectures}, {_size(found.bytes)}{stale}")
    return 0


def _tune(options: argparse.Namespace) -> int:
    from reduce_ops import tune

    parser: argparse.ArgumentParser = options.parser
    _check_files(parser, {"--json": options.json})
    timed: list[tune.Timed] = []
    failure = ""
    try:
        sums = tune.read_sums(options.shapes) if options.shapes else tune.default_sums()
        with _progress() as progress:
            timed.extend(progress.track(tune.run(sums), total=len(sums), description="timing"))
    except tune.TuneError as error:
        failure = str(error)
    except KeyboardInterrupt:
        failure = f"interrupted after {len(timed)} sums"
    if timed:  # also of what was done before it failed
        _print(tune.table(timed))
        for line in tune.summary(timed):
            print(line)
        if options.json:
            with _writing(parser, "--json"):
                tune.write(options.json, timed)
    if failure:
        print(f"tune: {failure}", file=sys.stderr)
    return 2 if failure else 0


def _verify(options: argparse.Namespace) -> int:
    from reduce_ops import verify

    parser: argparse.ArgumentParser = options.parser
    file: Path = options.cases or verify.FILE
    try:
        devices = verify.devices(options.device)
    except verify.VerifyError as error:
        parser.error(f"argument --device: {error}")
    try:
        with Console(stderr=True).status("checking") if sys.stderr.isatty() else nullcontext():
            checks = verify.run(file, devices)
    except verify.VerifyError as error:
        parser.error(f"argument --cases: {error}")
    _print(verify.table(checks, file))
    if not options.device and (reason := verify.why_no_gpu()):
        print(f"cuda: skipped, {reason}")
    failures = [check for check in checks if check.passed < check.cases]
    for check in failures:
        print(check.explain(), file=sys.stderr)
    return 1 if failures else 0


@contextmanager
def _writing(parser: argparse.ArgumentParser, argument: str) -> Iterator[None]:
    """Exit with one sentence where a file cannot be written after all: no space is left, say."""
    try:
        yield
    except OSError as error:
        parser.error(f"argument {argument}: {error}")


def _check_files(parser: argparse.ArgumentParser, files: dict[str, Path | None]) -> None:
    """Exit, before minutes of measuring, where a file could not be written in the end."""
    from reduce_ops import pictures

    for name, path in files.items():
        if path is None:
            continue
        if path.is_dir():
            parser.error(f"argument {name}: {path} is a folder")
        try:
            try_folder(path.parent)
        except OSError:
            parser.error(f"argument {name}: {path.parent} is not a folder that can be written to")
        if path.exists() and not os.access(path, os.W_OK):
            parser.error(f"argument {name}: {path} is not a file that can be written to")
        if name == "--plot":
            try:
                pictures.check_format(path)
            except ValueError as error:
                parser.error(f"argument --plot: {error}")


def _bench(options: argparse.Namespace) -> int:
    parser: argparse.ArgumentParser = options.parser
    _check_files(parser, {"--json": options.json, "--plot": options.plot})
    if options.race == "ladder":
        if options.plot:
            parser.error("argument --plot: only the other races are drawn; --report draws the ladder")
    else:
        for argument in ("n", "input", "rungs"):
            if getattr(options, argument) is not None:
                parser.error(f"argument --{argument}: only the ladder takes it, not {options.race}")
    if options.race == "exact" and options.dtype and not options.dtype.startswith(("float", "bfloat")):
        parser.error(f"argument --dtype: exact sums floats, not {options.dtype}")
    if options.compare and not options.report:
        parser.error("argument --compare: needs --report")

    try:
        return _bench_ladder(options) if options.race == "ladder" else _bench_over_cases(options)
    except NotImplementedError as error:  # a dtype, which only a file can bring, that has no sum
        parser.error(f"argument --input: {error}")
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        advice = "; try a smaller --n" if options.race == "ladder" else ""
        print(f"out of memory: {str(error).partition('. ')[0]}{advice}", file=sys.stderr)
        return 1


def _dtype(options: argparse.Namespace) -> "torch.dtype | None":
    import torch

    return getattr(torch, options.dtype) if options.dtype else None


def _device() -> "torch.device":
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _bench_ladder(options: argparse.Namespace) -> int:
    import torch

    from reduce_ops import bench_ladder

    others = _others(options)
    if options.input is not None:
        x = options.input.to(_device(), _dtype(options)).flatten()
    else:
        n = options.n or REFERENCE_N
        x = bench_ladder.random_input(n, _dtype(options) or torch.float32, _device())
    run = bench_ladder.run(
        x, options.rungs or LADDER, over_sizes=options.report is not None, show_progress=sys.stderr.isatty()
    )
    figures = bench_ladder.as_json(run)
    _publish(bench_ladder.table(run), figures, options)
    _report(options, figures, others)
    return 0


def _others(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What --compare names; exits where that, or the folder of --report, is none: before minutes of measuring."""
    if not options.report:
        return []
    from reduce_ops import report

    parser: argparse.ArgumentParser = options.parser
    try:
        report.check_folder(options.report)
        return [report.read(path) for path in options.compare or ()]
    except report.ReportError as error:
        parser.error(str(error))


def _report(options: argparse.Namespace, figures: dict[str, Any], others: list[dict[str, Any]]) -> None:
    if options.report:
        from reduce_ops import report

        with _writing(options.parser, "--report"):
            report.write(options.report, [figures, *others])


def _bench_over_cases(options: argparse.Namespace) -> int:
    from reduce_ops import bench_dims, bench_exact, bench_sum

    races: dict[str, ModuleType] = {"sum": bench_sum, "dims": bench_dims, "exact": bench_exact}
    bench = races[options.race]
    others = _others(options)
    report = bench.run(bench.cases(_device(), _dtype(options)), show_progress=sys.stderr.isatty())
    figures = bench.as_json(report)
    _publish(bench.table(report), figures, options)
    if options.plot:
        with _writing(options.parser, "--plot"):
            bench.plot(report, options.plot)
    _report(options, figures, others)
    return 0


def _print(table: Table) -> None:
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)


def _publish(table: Table, figures: dict[str, Any], options: argparse.Namespace) -> None:
    _print(table)
    if options.json:
        with _writing(options.parser, "--json"), replacing(options.json) as new:
            new.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # of `| head`; Python would complain of it again when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
