"""Plans that are given, and ``python -m reduce_ops tune``."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
import torch

import reduce_ops
from reduce_ops import tune
from reduce_ops.__main__ import main
from support import assert_same_bits, random_values

GPU = pytest.mark.gpu


def plans(x: torch.Tensor, dim: list[int], multiprocessors: int = 132) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(torch.ops.reduce._plans(x, dim, multiprocessors=multiprocessors))
    return found


def random_view(rng: random.Random, most: int) -> tuple[torch.Tensor, list[int]]:
    """Return a meta tensor of up to 2**most elements, in some order in memory, and what to sum it over."""
    dtype = rng.choice([torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float64, torch.complex64])
    dims = rng.randint(1, 4)
    shape = [max(1, int(2 ** rng.uniform(0, most / dims))) for _ in range(dims)]
    x = torch.empty(shape, dtype=dtype, device="meta").permute(*rng.sample(range(dims), dims))
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
    with pytest.raises(RuntimeError, match="_plans: multiprocessors is 0; accepted are numbers from 1"):
        torch.ops.reduce._plans(x, multiprocessors=0)
    with pytest.raises(RuntimeError, match="_plans: self has no elements"):
        torch.ops.reduce._plans(x[:0], multiprocessors=1)


@GPU
@pytest.mark.parametrize("seed", range(8))
def test_every_legal_plan_has_the_same_bits(seed: int) -> None:
    rng = random.Random(seed)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    for _ in range(60):
        like, dim = random_view(rng, 21)
        x = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).copy_(
            random_values(like.numel(), like.dtype).view(like.shape)
        )
        expected = reduce_ops.sum(x, dim)
        on_gpu = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda").copy_(x)
        for plan in plans(on_gpu, dim, multiprocessors):
            sums = torch.ops.reduce._sum_with_plan(on_gpu, dim, plan=json.dumps(plan), multiprocessors=multiprocessors)
            assert_same_bits(sums, expected)


@GPU
def test_a_plan_that_is_not_legal_is_refused() -> None:
    x = torch.ones(100, 100, device="cuda")
    plan = plans(x, [1])[0] | {"threads": 96}
    with pytest.raises(RuntimeError, match=r"_sum_with_plan: plan is .*; accepted are the \d+ of _plans"):
        torch.ops.reduce._sum_with_plan(x, 1, plan=json.dumps(plan), multiprocessors=132)
    with pytest.raises(RuntimeError, match="multiprocessors is 0; accepted are numbers from 1"):
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
        ('{"shape": [4]}', "'dim'"),
        ('{"shape": [4], "dim": [1]}', "Dimension out of range"),
        ('{"shape": [4], "dim": [0], "dtype": "floaty"}', "dtype is 'floaty'; accepted are names such as float32"),
        ('{"shape": [4, 5], "dim": [0], "strides": [1]}', "strid"),
        ("[4]", "it is no JSON object"),
        ("{", "Expecting"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "shapes"
    path.write_text(f'{{"shape": [4], "dim": [0]}}\n{line}\n')
    with pytest.raises(tune.TuneError, match=rf"shapes, line 2: .*({what})"):
        tune.read_sums(path)


def timed(chosen: str, other: str, *seconds: float) -> tune.Timed:
    plans = [{"family": f, "layout": "aligned", "segments": 1, "threads": 128} for f in (chosen, other)]
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
    assert tune.table(of).row_count == 2


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
