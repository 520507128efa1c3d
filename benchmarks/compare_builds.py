"""Times two builds of the package side by side: ``python benchmarks/compare_builds.py OLD NEW [--json FILE]``.

OLD and NEW are folders that hold a ``reduce_ops`` package each, as ``pip install --target`` makes them. Each runs in a
process of its own, since both define the same operators; the processes take turns case by case, old, new, old, new, so
that a clock or a neighbour that drifts meets both. A case's time is the shorter of its two.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

TURNS = 2
WORST = 12
"""Cases that are printed: those that lost most."""


def serve() -> None:
    """Answer each case, a number on standard input, with the seconds of one call."""
    import torch

    from reduce_ops import bench_dims, bench_exact, bench_sum, canonical, measure
    from reduce_ops.bench_ladder import random_input

    device = torch.device("cuda")
    sums = [("sum", case) for case in bench_sum.cases(device)]
    dims = [("dims", case) for case in bench_dims.cases(device)]
    exact = [("exact", case) for case in bench_exact.cases(device)]
    cases = [*sums, *dims, *exact]
    host = ("torch.ops.reduce.sum", "torch.ops.reduce.sum.default", "reduce_ops.sum")
    names = [f"{race} {tuple(case)}" for race, case in cases] + [f"host {name}" for name in host]
    print(json.dumps({"cases": names, "environment": measure.environment(device)}), flush=True)
    for line in sys.stdin:
        index = int(line)
        if index >= len(cases):
            x = random_input(measure.HOST_N, torch.float32, device)
            name = host[index - len(cases)]
            contenders = {name: bench_sum._host_contenders()[name]}
            print(measure.host_times(contenders, x)[name].median, flush=True)
            continue
        race, case = cases[index]
        if race == "sum":
            function = torch.ops.reduce.sum
            if case.layout == "contiguous":
                x = random_input(case.n + case.offset, case.dtype, device)[case.offset :]
            else:
                x = bench_sum.LAYOUTS[case.layout](random_input(bench_sum.LAYOUT_N, case.dtype, device))
        elif race == "dims":
            x = bench_dims.make_input(case, device)
            function = lambda t, dim=case.dim: canonical.sum(t, dim)  # noqa: E731
        else:
            x = bench_exact.make_input(case, device)
            function = lambda t, dim=case.dim: torch.ops.reduce.sum_exact(t, dim)  # noqa: E731
        times = measure._graph_times({"ours": function}, x, lambda: None, replays=14)
        del x
        print(times["ours"].median, flush=True)


class Build:
    """A process that times one build."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(folder.resolve())},
        )
        first = json.loads(self._line())
        self.cases: list[str] = first["cases"]
        self.environment: dict[str, Any] = first["environment"]

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("compare_builds: a build failed, see above")
        return line

    def seconds(self, index: int) -> float:
        assert self.process.stdin is not None
        print(index, file=self.process.stdin, flush=True)
        return float(self._line())


def compare(builds: tuple[Build, Build], only: str, step: int) -> list[dict[str, Any]]:
    """Return a row for each case that both builds, old and new, have, and that starts with `only`."""
    names = [name for name in builds[0].cases if name in set(builds[1].cases) and name.startswith(only)]
    rows = []
    for name in names[::step]:
        seconds = [math.inf, math.inf]
        for _ in range(TURNS):
            for i, build in enumerate(builds):
                seconds[i] = min(seconds[i], build.seconds(build.cases.index(name)))
        rows.append({"case": name, "old": seconds[0], "new": seconds[1], "speed": seconds[0] / seconds[1]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--json", type=Path, help="also write all rows there")
    parser.add_argument("--only", default="", help="cases whose name starts so: sum, dims, exact, host")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="every K-th case")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    builds = Build(options.old), Build(options.new)
    rows = compare(builds, options.only, options.every)
    for race in ("sum", "dims", "exact", "host"):
        speeds = [row["speed"] for row in rows if row["case"].startswith(race)]
        if speeds:
            mean = statistics.geometric_mean(speeds)
            print(f"{race}: {len(speeds)} cases, new over old: mean {mean:.4f}, least {min(speeds):.3f}")
    for row in sorted(rows, key=lambda row: row["speed"])[:WORST]:
        print(f"  {row['speed']:.3f}  {row['old'] * 1e6:9.2f} {row['new'] * 1e6:9.2f} us  {row['case']}")
    if options.json:
        environment = builds[1].environment
        lines = ",\n".join(json.dumps(row) for row in rows)
        options.json.write_text(f'{{"environment": {json.dumps(environment)},\n"rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
