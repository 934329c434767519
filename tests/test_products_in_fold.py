"""Folds around several products: no scores are stored, and each is its region in the interpreter and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import CASES, FEATURES, FEW_COLUMNS, KEYS, QUERIES, arrays, gradients, graph_of
from small_programs import agree
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen.compile import lower_model
from lumigen.frontend import Traced
from lumigen.graph import Graph
from lumigen.index import product
from lumigen.interp import tile
from lumigen.interp.graph import evaluate
from lumigen.interp.region import evaluate as meaning
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel
from lumigen.lower.axes import unify_axes
from lumigen.lower.built import Built
from lumigen.lower.devices import CPU
from lumigen.lower.join import fold_together
from lumigen.lower.partition import obligatory_cuts, regions
from lumigen.plan import Product
from lumigen.region import Region
from lumigen.target import HOST
from lumigen.verify.plan import verify_kernel
from lumigen.verify.tile import verify as verify_tile

SIZES = ((1, 1), (5, 130), (97, 64), (130, 97))


def lowered(name: str, dtype: lg.DType = lg.f32) -> LoweredModel:
    made = Traced("fold", "0", (("entry", graph_of(CASES[name], dtype)),), ())
    return lower_model(made, {}, target=HOST, dtype=lg.f32).lowered


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
        dims = {QUERIES: queries, KEYS: keys}
        given = arrays(case, queries, keys, dtype)
        wanted = meaning(built.meaning, given, dims)
        found = tile.run(built.program, given, dims)
        for out, value in wanted.items():
            agree(found[out], value, f"{name}: {out} of {queries} queries, {keys} keys")
