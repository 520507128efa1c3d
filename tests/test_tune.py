"""Plans that are given, and ``python -m reduce_ops tune``."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import reduce_ops
from reduce_ops import tune
from reduce_ops.__main__ import main
from support import assert_same_bits, moved, random_values

GPU = pytest.mark.gpu


def plans(x: torch.Tensor, dim: list[int], multiprocessors: int = 132) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(torch.ops.reduce._plans(x, dim, multiprocessors=multiprocessors))
    return found


def random_view(rng: random.Random, most: int, device: str = "meta") -> tuple[torch.Tensor, list[int]]:
    """Return a tensor of up to 2**most elements, in some order in memory, with gaps or not, and what to sum it over."""
    dtype = rng.choice([torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float64, torch.complex64])
    dims = rng.randint(1, 4)
    shape = [max(1, int(2 ** rng.uniform(0, most / dims))) for _ in range(dims)]
    memory = (
        random_values(math.prod(shape), dtype) if device != "meta" else torch.empty(shape, dtype=dtype, device=device)
    )
    x = memory.view(shape).permute(*rng.sample(range(dims), dims))
    d = rng.randrange(dims)
    x = x[(slice(None),) * d + (slice(rng.randrange(min(3, x.size(d))), None, rng.choice((1, 1, 2))),)]
    if rng.randrange(8) == 0:
        x = x[(slice(None),) * d + (slice(0, 1),)].expand([n if i != d else 5 for i, n in enumerate(x.shape)])
    if dtype == torch.complex64 and rng.randrange(2) == 0:
        x = x.conj()
    return x, rng.sample(range(dims), rng.randint(1, dims))


def test_the_chosen_plan_comes_first_and_none_twice() -> None:
    rng = random.Random(0)
    families = set()
    for _ in range(2000):
        x, dim = random_view(rng, 24)
        chosen = json.loads(torch.ops.reduce._plan(x, dim, multiprocessors=132))
        legal = plans(x, dim)
        if chosen["family"] not in ("copy", "rows_across_memory"):
            assert legal[0] == chosen
        assert len({json.dumps(plan) for plan in legal}) == len(legal) > 0
        families |= {str(plan["family"]) for plan in legal}
    assert len(families) == 12


def test_bad_arguments() -> None:
    x = torch.empty(3, device="meta")
    with pytest.raises(RuntimeError, match="_plans: multiprocessors is 0; accepted are 1 to 1048576"):
        torch.ops.reduce._plans(x, multiprocessors=0)
    for op in (torch.ops.reduce._plans, torch.ops.reduce._plan, torch.ops.reduce._kernels):
        with pytest.raises(RuntimeError, match="multiprocessors is 4294967296; accepted are 1 to 1048576"):
            op(x, multiprocessors=2**32)
    with pytest.raises(RuntimeError, match="_plans: l2_bytes is -1; accepted are 0 and more"):
        torch.ops.reduce._plans(x, multiprocessors=1, l2_bytes=-1)
    with pytest.raises(RuntimeError, match="_plans: self has no elements"):
        torch.ops.reduce._plans(x[:0], multiprocessors=1)


@GPU
@pytest.mark.parametrize("seed", range(8))
def test_every_legal_plan_has_the_same_bits(seed: int) -> None:
    rng = random.Random(seed)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    for _ in range(60):
        x, dim = random_view(rng, 21, "cpu")
        expected = reduce_ops.sum(x, dim)
        on_gpu = moved(x, torch.device("cuda"))
        lazy = on_gpu.conj() if x.is_conj() else on_gpu
        for plan in plans(lazy.resolve_conj(), dim, multiprocessors):
            sums = torch.ops.reduce._sum_with_plan(lazy, dim, plan=json.dumps(plan), multiprocessors=multiprocessors)
            assert_same_bits(sums, expected)


@GPU
def test_a_plan_that_is_not_legal_is_refused() -> None:
    x = torch.ones(100, 100, device="cuda")
    plan = plans(x, [1])[0] | {"threads": 96}
    with pytest.raises(RuntimeError, match=r"_sum_with_plan: plan is .*; accepted are the \d+ of _plans"):
        torch.ops.reduce._sum_with_plan(x, 1, plan=json.dumps(plan), multiprocessors=132)
    with pytest.raises(RuntimeError, match="multiprocessors is 0; accepted are 1 to 1048576"):
        torch.ops.reduce._sum_with_plan(x, 1, plan="{}", multiprocessors=0)


# ---- tune


def test_a_file_of_shapes(tmp_path: Path) -> None:
    path = tmp_path / "shapes"
    path.write_text('{"shape": [64, 1000], "dim": [1]}\n\n{"shape": [4, 5], "dim": [0], "strides": [1, 4]}\n')
    assert tune.read_sums(path) == [tune.Sum([64, 1000], [1]), tune.Sum([4, 5], [0], strides=[1, 4])]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"shape": [4], "dim": [0], "dtyp": 1}', "'dtyp' is none of shape, dim, dtype, strides"),
        ('{"shape": [4]}', "dim is null; accepted are lists of integers"),
        ('{"shape": [4], "dim": 0}', "dim is 0; accepted are lists of integers"),
        ('{"shape": 4, "dim": [0]}', "shape is 4; accepted are lists of integers"),
        ('{"shape": [4.5], "dim": [0]}', "shape is .4.5.; accepted are lists of integers"),
        ('{"shape": [4], "dim": [1]}', "Dimension out of range"),
        ('{"shape": [4], "dim": [0], "dtype": "floaty"}', 'dtype is "floaty"; accepted are float32, '),
        ('{"shape": [4], "dim": [0], "dtype": null}', "dtype is null; accepted are float32, "),
        ('{"shape": [4, 5], "dim": [0], "strides": [1]}', "strid"),
        ('{"shape": [0], "dim": [0]}', "_plans: self has no elements"),
        ('{"shape": [35184372088832], "dim": [0], "strides": [0]}', "more elements than one launch covers"),
        ("[4]", "it is no JSON object"),
        ("{", "Expecting"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "shapes"
    path.write_text(f'{{"shape": [4], "dim": [0]}}\n{line}\n')
    with pytest.raises(tune.TuneError, match=rf"shapes, line 2: .*({what})"):
        tune.read_sums(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").touch()
    for name, what in (("text", "cannot be read"), ("none", "cannot be read"), ("empty", "has no line such as")):
        with pytest.raises(tune.TuneError, match=f"{name} {what}"):
            tune.read_sums(tmp_path / name)


def timed(chosen: str, other: str, *seconds: float) -> tune.Timed:
    numbers = dict.fromkeys(tune.NUMBERS, 1)
    plans = [{"family": f, "layout": "aligned"} | numbers for f in (chosen, other)]
    plans[1]["threads"] = 64
    return tune.Timed(tune.Sum([64, 1000], [1]), plans, [[second] * 3 for second in seconds])


def test_what_the_choice_costs() -> None:
    of = [
        timed("rows", "boxes", 2e-6, 1e-6),
        timed("rows", "boxes", 1e-6, 1.01e-6),
        timed("boxes", "boxes", 8e-6, 4e-6),
    ]
    lines = list(tune.summary(of))
    assert "3 sums, 6 plans" in lines[0] and " 1.5874 " in lines[0] and "of 2 sums" in lines[0]
    assert [" ".join(line.split()) for line in lines[1:]] == ["1 rows -> boxes", "1 boxes -> other numbers"]
    table = tune.table(of)
    assert table.row_count == 2
    assert list(table.columns[6].cells) == ["boxes", "boxes: threads 64"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, tune.TuneError("too large")])
def test_what_was_timed_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def run(_: object) -> Iterator[tune.Timed]:
        yield timed("rows", "boxes", 2e-6, 1e-6)
        raise error

    monkeypatch.setattr(tune, "run", run)
    path = tmp_path / "figures.json"
    assert main(["tune", "--json", str(path)]) == 2
    output = capsys.readouterr()
    assert "1 sums, 2 plans" in output.out and len(json.loads(path.read_text())["sums"]) == 1
    assert output.err in ("tune: interrupted after 1 sums\n", "tune: too large\n")


def test_where_figures_cannot_be_written_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "run", lambda _: pytest.fail("it was timed"))
    for path in (tmp_path, tmp_path / "none" / "figures.json"):
        with pytest.raises(SystemExit):
            main(["tune", "--json", str(path)])


@pytest.mark.parametrize("name", ["tune.json", "tune.json.gz"])
def test_every_figure_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    tune.write(path, [timed("rows", "boxes", 2e-6, 1e-6)])
    data = path.read_bytes()
    figures = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    assert figures["sums"][0]["seconds"] == [[2e-6] * 3, [1e-6] * 3] and "torch" in figures["environment"]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes, figures = tmp_path / "shapes", tmp_path / "figures.json.gz"
    shapes.write_text('{"shape": [64, 1000], "dim": [1]}\n')
    code = main(["tune", "--shapes", str(shapes), "--json", str(figures)])
    output = capsys.readouterr()
    if torch.cuda.is_available():
        assert code == 0 and "1 sums, " in output.out and figures.exists()
    else:
        assert code == 2 and output.err == "tune: there is no GPU\n" and not figures.exists()
