"""Folds around several products: no scores are stored, and each is its region in the interpreter and compiled."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import compiled_kernels, every_variant_agrees
from device_cases import lowered as lowered_for_blocks
from gradients import (
    CASES,
    FEATURES,
    FEW_COLUMNS,
    KEYS,
    QUERIES,
    Case,
    arrays,
    gradients,
    graph_of,
    of_all,
    specs_of,
)
from small_programs import agree
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.frontend import Traced
from lumigen.graph import Graph
from lumigen.index import Dim, product
from lumigen.interp import tile
from lumigen.interp.graph import evaluate
from lumigen.interp.region import evaluate as meaning
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.axes import unify_axes
from lumigen.lower.built import Built
from lumigen.lower.devices import Device
from lumigen.lower.join import fold_together
from lumigen.lower.partition import obligatory_cuts, regions
from lumigen.pipeline import lower_model
from lumigen.plan import Product
from lumigen.region import Region
from lumigen.target import HOST
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cpu.device import device_of as cpu_of
from lumigen.targets.cpu.machines import PLANNED
from lumigen.targets.cuda.device import CUDA
from lumigen.verify.plan import verify_kernel
from lumigen.verify.tile import verify as verify_tile

SIZES = ((1, 1), (5, 130), (97, 64), (130, 97))
# a processor that computes scores again sooner than it stores them
LOOPING = cpu_of(replace(PLANNED, storing=replace(PLANNED.storing, short=1 << 20)))


def lowered(name: str, dtype: lg.DType = lg.f32) -> LoweredModel:
    made = Traced("fold", "0", (("entry", graph_of(CASES[name], dtype)),), ())
    return lower_model(made, {}, target=HOST, dtype=lg.f32).lowered


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_one_launch_stores_no_scores(name: str, dtype: lg.DType) -> None:
    model = lowered(name, dtype)
    (program,) = model.programs
    (kernel,) = model.kernels
    assert len(program.launches) == 1
    assert kernel.plan is not None
    assert kernel.schedule is not None
    assert kernel.schedule.builder == "cascade"
    inner = [s for s in kernel.plan.steps() if isinstance(s, Product)]
    assert len(inner) == (1 if name == "values" else 2)
    stored = [s.dst for s in kernel.region.stores]
    assert all(product(b.dims[-1:]).estimate() == FEATURES for b in stored)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_tiles_compute_the_graph(name: str, dtype: lg.DType) -> None:
    case = CASES[name]
    graph, model = graph_of(case, dtype), lowered(name, dtype)
    for queries, keys in SIZES:
        inputs = arrays(case, queries, keys, dtype)
        expected = evaluate(graph, inputs, {})
        for by_region in (False, True):
            found = run_entry(model, inputs, {}, by_region=by_region)
            for out, value in found.items():
                agree(value, expected[out], f"{name}: {out} of {queries} queries, {keys} keys")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
def test_the_compiled_kernels_do(dtype: lg.DType) -> None:
    graphs = {name: graph_of(case, dtype) for name, case in CASES.items()}
    made = Traced("fold", "0", tuple(graphs.items()), ())
    lane = fast_lane.load(lower_model(made, {}, target=HOST, dtype=lg.f32).lowered, "-O1")
    for name, case in CASES.items():
        for queries, keys in SIZES:
            inputs = arrays(case, queries, keys, dtype)
            expected = evaluate(graphs[name], inputs, {})
            for out, value in lane.run(name, inputs, {}).items():
                agree(value, expected[out], f"{name}: {out} of {queries} queries, {keys} keys")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["queries", "queries_causal", "keys_and_values", "keys_and_values_causal"]
)
def test_gradients_are_those_of_numpy(name: str) -> None:
    inputs = arrays(CASES[name], 97, 130)
    wanted = gradients(inputs, causal="causal" in name)
    inputs["delta"] = wanted["delta"].astype(np.float32)
    found = fast_lane.load(lowered(name), "-O1").run("entry", inputs, {})
    for out, value in found.items():
        np.testing.assert_allclose(value, wanted[out], rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("changed", [{"columns": 16}, {"depth": 16}], ids=str)
@pytest.mark.parametrize("name", ["queries_causal", "keys_and_values_causal", "keys_heads_last"])
def test_other_tiles_compute_the_same(name: str, changed: dict[str, int]) -> None:
    (kernel,) = lowered(name).kernels
    assert kernel.plan is not None
    assert kernel.schedule is not None
    sizes = kernel.schedule
    for site, size in changed.items():
        sizes = sizes.at(site, size)
    built = CPU.build(verify_kernel(kernel.plan), sizes)
    assert isinstance(built, Built)
    verify_tile(built.program)
    assert built.program != kernel.program


def whole(graph: Graph) -> Region:
    """All of a graph as one region, that stores nothing but its outputs."""
    for step in GRAPH_PASSES:
        graph = step(graph)
    found = regions(graph, obligatory_cuts(graph))
    together = found[0] if len(found) == 1 else fold_together(found)
    assert together is not None
    return unify_axes(together)


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", FEW_COLUMNS)
def test_few_columns_run_one_at_a_time(name: str, dtype: lg.DType) -> None:
    """Where the scores of few columns are not stored, which takes no longer."""
    case = FEW_COLUMNS[name]
    graph = graph_of(case, dtype)
    candidate, (built,) = CPU.lower(whole(graph))
    assert [s.builder for s in candidate.schedules] == ["cascade_row"]
    verify_tile(built.program)
    for queries, keys in SIZES:
        dims: dict[Dim, int] = {QUERIES: queries, KEYS: keys}
        given = arrays(case, queries, keys, dtype)
        wanted = meaning(built.meaning, given, dims)
        found = tile.run(built.program, given, dims)
        for out, value in wanted.items():
            agree(found[out], value, f"{name}: {out} of {queries} queries, {keys} keys")


# ---- blocks of threads ----


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_blocks_compute_the_graph(name: str, dtype: lg.DType) -> None:
    case = CASES[name]
    graph = entry = graph_of(case, dtype)
    for step in GRAPH_PASSES:
        entry = step(entry)
    model = assemble((("entry", entry),), CUDA)
    (kernel,) = model.kernels
    assert kernel.schedule is not None
    assert kernel.schedule.builder == "stream"
    verify_tile(kernel.program)
    for queries, keys in SIZES:
        inputs = arrays(case, queries, keys, dtype)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name}: {out} of {queries} queries, {keys} keys")


def learned_queries(x: lg.Tensor) -> lg.Tensor:
    q = nn.Parameter(2, 40, 16, name="q", dtype=lg.bf16)
    return (q @ x.mT).softmax(-1) @ x


def learned_keys(x: lg.Tensor) -> lg.Tensor:
    a, b = (nn.Parameter(*shape, name=n, dtype=lg.bf16) for n, shape in LEARNED.items())
    return (x @ a).softmax(-1) @ b


LEARNED = {"a": (16, 140), "b": (140, 24)}


@pytest.mark.parametrize("function", [learned_queries, learned_keys])
def test_operands_may_be_weights(function: Any, rng: np.random.Generator) -> None:
    """Blocks read them as they do others; only panels are of weights alone."""
    graph, model = lowered_for_blocks((function, {"x": lg.spec(2, 150, 16, dtype=lg.bf16)}))
    (kernel,) = model.kernels
    assert kernel.schedule is not None
    assert kernel.schedule.builder == "stream"
    shapes = {"q": (2, 40, 16), "x": (2, 150, 16), **LEARNED}
    values = {n: rng.normal(size=s).astype(lg.bf16.numpy) for n, s in shapes.items()}
    (expected,) = evaluate(graph, values, values).values()
    (found,) = run_entry(model, {"x": values["x"]}, values).values()
    agree(found, expected, "with weights")


def both(a: lg.Tensor, b: lg.Tensor, c: lg.Tensor, d: lg.Tensor) -> dict[str, lg.Tensor]:
    x, y = a @ b.mT, c @ d.mT
    return {"sum": (x + y).relu().mT @ a, "difference": (x * y).relu().mT @ c}


def test_weights_of_two_products_have_places_of_their_own() -> None:
    """Where both need both scores, one of them stands in a fragment more."""
    graph, model = lowered_for_blocks((both, {n: lg.spec(2, QUERIES, FEATURES) for n in "abcd"}))
    (kernel,) = model.kernels
    assert [b.name for b in kernel.program.scratch if len(b.dims) == 2][-1] == "weights"
    every_variant_agrees(graph, model, {QUERIES: 70}, np.random.default_rng(1), "both")


@pytest.mark.slow
@pytest.mark.parametrize("device", [LOOPING, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
def test_two_loops_compute_the_same_scores_again(device: Device, dtype: lg.DType) -> None:
    """Where to store them takes longer: what else the gradients share is stored."""
    case = Case(of_all)
    _, model = lowered_for_blocks((of_all, specs_of(case, dtype, 64)), device=device)
    stored = [[s.dst.name for s in k.region.stores] for k in model.kernels]
    assert stored == [["delta"], ["dq"], ["dk", "dv"]]
    assert len(model.programs[0].launches) == 3
    small, model = lowered_for_blocks((of_all, specs_of(case, dtype)), device=device)
    for queries, keys in SIZES:
        inputs = arrays(case, queries, keys, dtype)
        expected = evaluate(small, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{out} of {queries} queries, {keys} keys")


FEW = ("queries_causal", "keys_and_values_causal")


@nvcc.needed
@pytest.mark.parametrize(
    ("arch", "dtype", "features", "names"),
    [
        ("80", lg.bf16, 64, FEW),
        ("80", lg.f32, 64, FEW),
        ("90a", lg.f32, 64, FEW),
        ("80", lg.f32, 128, FEW),
        ("80", lg.bf16, 128, tuple(CASES)),
        ("90a", lg.f32, 128, tuple(CASES)),
    ],
    ids=str,
)
def test_kernels_compile_without_a_warning_or_a_spill(
    arch: str, dtype: lg.DType, features: int, names: tuple[str, ...], tmp_path: Path
) -> None:
    cases = {n: (CASES[n].function, specs_of(CASES[n], dtype, features)) for n in names}
    kernels = compiled_kernels(cases, names, "", arch, tmp_path)
    assert len(kernels) >= len(names) - 3  # equal ones are one
    for kernel, said in kernels:
        assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, kernel + said
