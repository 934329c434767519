"""Folds of a product's rows that store none of its elements: which there are, what they compute, what nvcc says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, every_variant_agrees, lowered
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.dtype import bf16
from lumigen.interp import program as interp_program
from lumigen.interp import tile
from lumigen.interp.graph import bind_dims
from lumigen.interp.graph import evaluate as evaluate_graph
from lumigen.interp.region import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.lower.axes import unify_axes
from lumigen.lower.built import Built
from lumigen.lower.canonical import canonical
from lumigen.lower.partition import obligatory_cuts, regions
from lumigen.printer.tile import show as show_tile
from lumigen.targets.cuda.device import CUDA
from lumigen.verify.plan import verify as verify_plan
from lumigen.verify.tile import verify

ROWS = lg.Dim("rows", 1, 500, typical=300)
MANY = lg.Dim("many", 1, 1 << 16, typical=1 << 15)
COLUMNS = lg.Dim("columns", 1, 700, typical=640)
WIDE = lg.Dim("wide", 1, 1 << 16, typical=1 << 13)
DEEP = lg.Dim("deep", 1, 300, typical=256)


def spec(*shape: Any, dtype: Any = lg.bf16) -> Any:
    return lg.spec(*shape, dtype=dtype)


def operands(
    rows: Any = ROWS, columns: Any = COLUMNS, depth: Any = 64, dtype: Any = lg.bf16
) -> dict[str, Any]:
    return {"q": spec(rows, depth, dtype=dtype), "k": spec(columns, depth, dtype=dtype)}


def log_sum_exp(q: Any, k: Any) -> Any:
    return (q @ k.T).logsumexp(-1)


def causal(q: Any, k: Any) -> Any:
    """Rows whose columns end where they stand."""
    i, j = lg.arange(q.shape[0]).unsqueeze(-1), lg.arange(k.shape[0])
    return lg.where(j < i + 1, q @ k.T * 0.125, float("-inf")).logsumexp(-1)


def maximum_and_sum(q: Any, k: Any) -> dict[str, Any]:
    scores = q @ k.T
    return {"most": scores.amax(-1), "sum": scores.sum(-1)}


def count_of_most(scores: Any) -> Any:
    return (scores == scores.amax(-1, keepdim=True)).sum(-1)


def distances(q: lg.Tensor, k: lg.Tensor) -> lg.Tensor:
    """Squared, of each row of q from each of k, by sums of squares that are no products of matrices."""
    squares = [(x.float() * x.float()).sum(-1) for x in (q, k)]
    return squares[0].unsqueeze(1) + squares[1] - 2 * (q @ k.T).float()


FOLDED: dict[str, Case] = {
    "log_sum_exp": (log_sum_exp, operands()),
    "half": (log_sum_exp, operands(dtype=lg.f16)),
    "deepest": (log_sum_exp, operands(MANY, depth=500)),
    "depth_of_a_dim": (log_sum_exp, operands(MANY, depth=DEEP)),
    "many_rows": (log_sum_exp, operands(MANY)),
    "commuted": (lambda q, k: (k @ q.T).logsumexp(0), operands()),
    "turned": (
        lambda q, k: (q.T @ k * 0.25).logsumexp(-1),
        {"q": spec(72, ROWS), "k": spec(72, COLUMNS)},
    ),
    "batched": (
        lambda q, k: (q @ k.mT * 0.1).logsumexp(-1),
        {"q": spec(2, 3, ROWS, 40), "k": spec(2, 3, COLUMNS, 40)},
    ),
    "causal": (causal, operands()),
    "maximum_and_sum": (maximum_and_sum, operands()),
    "place": (lambda q, k: (q @ k.T).argmax(-1), operands()),
    "place_commuted": (lambda q, k: (k @ q.T).argmin(0), operands()),
    "place_and_most": (lambda q, k: dict(zip("vi", (q @ k.T).max(-1), strict=True)), operands()),
    "place_in_parts": (lambda q, k: (q @ k.T).argmax(-1), operands(columns=WIDE)),
    "place_batched": (
        lambda q, k: (q @ k.mT * -0.1).argmax(-1),
        {"q": spec(2, 3, ROWS, 40), "k": spec(2, 3, COLUMNS, 40)},
    ),
    "ties": (lambda q, k: count_of_most(q @ k.T), operands()),
    "squares_beside": (lambda q, k: (distances(q, k) * -0.01).exp().sum(-1), operands()),
    "nearest": (lambda q, k: distances(q, k).argmin(-1), operands(MANY)),
    "bias": (
        lambda q, k, b: F.linear(q, k, b).logsumexp(-1),
        {**operands(), "b": spec(COLUMNS)},
    ),
    "label": (
        lambda q, k, y: F.cross_entropy(q @ k.T, y),
        {**operands(), "y": lg.spec(ROWS, dtype=lg.i64)},
    ),
    "label_of_many": (
        lambda q, k, y: F.cross_entropy(q @ k.T, y, reduction="none"),
        {**operands(MANY, depth=300), "y": lg.spec(MANY, dtype=lg.i64)},
    ),
    "parts": (log_sum_exp, operands(columns=WIDE, depth=72)),
    "parts_with_label": (
        lambda q, k, y: F.cross_entropy(q @ k.T, y),
        {**operands(columns=WIDE), "y": lg.spec(ROWS, dtype=lg.i64)},
    ),
    "causal_parts": (causal, operands(columns=WIDE)),
    "few_rows_in_parts": (maximum_and_sum, operands(48, WIDE)),
    "squares": (lambda q, k: (q @ k.T).square().sum(-1).sqrt(), operands()),
}
NOT_FOLDED: dict[str, Case] = {
    "f32": (log_sum_exp, operands(dtype=lg.f32)),
    "deep": (log_sum_exp, operands(depth=800)),
    "parts_of_deep": (log_sum_exp, operands(columns=WIDE, depth=4096)),
    "elements_are_wanted": (lambda q, k: (q @ k.T).softmax(-1), operands(depth=800)),
    "elements_are_stored": (
        lambda q, k: {"scores": q @ k.T, "total": (q @ k.T).logsumexp(-1)},
        operands(depth=800),
    ),
}


def folds(model: LoweredModel) -> list[LoweredKernel]:
    return [k for k in model.kernels if k.program.skeleton == "block_fold"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDED)
def test_kernels_compute_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(FOLDED[name])
    (kernel,) = folds(model)
    verify(kernel.program, name)
    for rows, columns, deep in ((1, 1, 1), (130, 257, 70), (3, 700, 33)):
        dims = {ROWS: rows, MANY: rows, COLUMNS: columns, WIDE: columns, DEEP: deep}
        every_variant_agrees(graph, model, dims, rng, f"{name} at {rows}, {columns}")


@pytest.mark.parametrize("name", NOT_FOLDED)
def test_what_stores_its_products(name: str) -> None:
    _, model = lowered(NOT_FOLDED[name])
    assert not folds(model)
    assert sum(k.program.skeleton == "pipeline" for k in model.kernels) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deep", "parts_of_deep"])
def test_folds_of_deep_products_come_later_in_the_space(
    name: str, rng: np.random.Generator
) -> None:
    function, inputs = NOT_FOLDED[name]
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    (whole,) = regions(graph, obligatory_cuts(graph))
    region = canonical(unify_axes(whole)).region
    loops, *later = CUDA.space(region)
    assert {s.builder for s in loops.schedules} <= {"simt", "across"}
    dims = {ROWS: 70, COLUMNS: 130, WIDE: 700}
    shapes = {b: [int(e.evaluate(dims)) for e in b.dims] for b in region.reads()}
    buffers = {
        b.name: rng.standard_normal(shape).astype(b.dtype.numpy) for b, shape in shapes.items()
    }
    want = evaluate(region, buffers, dims)
    assert len(later) == (2 if name == "parts_of_deep" else 1)
    for found in later:
        temps: dict[str, Any] = {}
        for plan, sizes in zip(verify_plan(found.plan).kernels, found.schedules, strict=True):
            built = CUDA.build(plan, sizes)
            assert isinstance(built, Built)
            verify(built.program, name)
            temps |= tile.run(built.program, {**buffers, **temps}, dims)
        for out, value in want.items():
            np.testing.assert_allclose(temps[out].astype(float), value.astype(float), 2e-2)


@pytest.mark.parametrize("name", ["place", "place_commuted", "place_in_parts", "ties"])
def test_ties_and_what_is_no_number(name: str, rng: np.random.Generator) -> None:
    """The first of equal ones, the first NaN: operands of small integers have many of them."""
    graph, model = lowered(FOLDED[name])
    (program,) = model.programs
    assert len(program.launches) == (2 if name == "place_in_parts" else 1)
    kernels = {k.name: k.program for k in model.kernels}
    q, k = rng.integers(-2, 3, (140, 64)), rng.integers(-2, 3, (600, 64))
    inputs = {"q": q.astype(bf16.numpy), "k": k.astype(bf16.numpy)}
    inputs["q"][3], inputs["k"][77], inputs["k"][500, 5] = 0, np.nan, np.inf
    for given in (inputs, {**inputs, "k": inputs["k"][78:499]}):
        found = interp_program.run(program, kernels, {}, given, bind_dims(program.inputs, given))
        np.testing.assert_array_equal(found["out"], evaluate_graph(graph, given, {})["out"])


def test_few_rows_are_folded_in_parts() -> None:
    _, model = lowered(FOLDED["parts"])
    assert [k.program.skeleton for k in model.kernels] == ["block_fold", "simt"]
    (fold, merge) = model.kernels
    assert [b.name for b in merge.program.args[:2]] == ["parts0", "parts1"]
    assert "k_begin in 128*((wide + 2047)//2048)*k1_part" in show_tile(fold.program)


def test_the_text_of_a_tile(golden: Callable[[str, str], None]) -> None:
    (kernel,) = folds(lowered(FOLDED["label_of_many"])[1])
    golden("tile/block_fold.txt", show_tile(kernel.program))


# ---- as text for a compiler ----


@nvcc.needed
@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("80", ("deepest", "label_of_many", "place_and_most", "place_in_parts")),
        pytest.param("80", tuple(FOLDED), marks=pytest.mark.slow),
        pytest.param("90a", tuple(FOLDED), marks=pytest.mark.slow),
    ],
)
def test_kernels_compile_without_a_warning_or_a_spill(
    arch: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    kernels = compiled_kernels(FOLDED, names, "block_fold", arch, tmp_path)
    assert len(kernels) >= len(names) - 3  # equal ones are one
    for kernel, said in kernels:
        assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, kernel + said
