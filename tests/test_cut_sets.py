"""The cut set is a value: whatever is stored besides, or not stored, the regions compute what the graph does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.graph import Graph, Node, tensor_of, toposort
from lumigen.index import Dim
from lumigen.interp.graph import evaluate as evaluate_graph
from lumigen.interp.region import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.partition import default_cuts, obligatory_cuts, partition, regions
from lumigen.lower.skeletons import Skeletons
from lumigen.ops import SOURCES
from lumigen.targets.cuda.machines import SM_80

Array = np.ndarray[Any, Any]
ROWS = Dim("rows", 1, 16, typical=8)
STORING = replace(SM_80.storing, short=0)
IN_LOOPS = Skeletons(lambda _: False, lambda _: True, lambda _: 0, STORING)
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "softmax": (lambda x: x.softmax(-1) * 2, {"x": lg.spec(ROWS, 9)}),
    "feed forward": (
        lambda x, w, v: F.gelu(x @ w) @ v,
        {"x": lg.spec(ROWS, 9), "w": lg.spec(9, 12), "v": lg.spec(12, 5)},
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        {n: lg.spec(2, ROWS, 4) for n in "qkv"},
    ),
    "steps": (lambda x: (x * 2).cumsum(0).exp().sum(1), {"x": lg.spec(ROWS, 6)}),
}


def graph_of(name: str) -> Graph:
    function, inputs = MODELS[name]
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return graph


def run(graph: Graph, cuts: frozenset[Node], inputs: dict[str, Array]) -> dict[str, Array]:
    memory: dict[str, Array] = dict(inputs)
    for region in regions(graph, cuts):
        memory |= evaluate(region, memory, {ROWS: 7})
    return {name: memory[name] for name, _ in graph.outputs}


@pytest.mark.parametrize("name", MODELS)
def test_each_value_may_be_stored_or_not(name: str) -> None:
    graph = graph_of(name)
    rng = np.random.default_rng(0)
    inputs = {
        tensor_of(n).name: rng.standard_normal(
            [int(e.evaluate({ROWS: 7})) for e in n.shape]
        ).astype("f4")
        for n in graph.inputs
    }
    want = evaluate_graph(graph, inputs, {})
    chosen, fixed = default_cuts(graph, IN_LOOPS), obligatory_cuts(graph)
    nodes = toposort(tuple(e.node for e in graph.roots()))
    flips = [n for n in nodes if n.op not in SOURCES and n not in fixed]
    assert flips
    assert fixed <= chosen
    for n in flips:
        found = run(graph, chosen ^ {n}, inputs)
        for out, value in want.items():
            np.testing.assert_allclose(found[out], value, rtol=2e-5, atol=2e-6, err_msg=str(n.op))


def test_the_heuristic_is_one_set_of_cuts() -> None:
    graph = graph_of("attention")
    assert partition(graph, IN_LOOPS) == regions(graph, default_cuts(graph, IN_LOOPS))
    everything = frozenset(
        n for n in toposort(tuple(e.node for e in graph.roots())) if n.op not in SOURCES
    )
    assert len(regions(graph, everything)) > len(regions(graph, frozenset()))


def test_a_stored_integer_has_the_range_that_it_is_clamped_to() -> None:
    """So that what reads at it has nothing to check."""
    given = {"x": lg.spec(9), "i": lg.spec(5, dtype=lg.i64)}
    graph = traced(lambda x, i: x[i.clamp(0, 7)], **given)
    known = [n for n in toposort(e.node for e in graph.roots()) if n.op not in SOURCES]
    for n in (n for n in known if n.dtype is lg.i64):
        found = {r.stores[0].dst.range for r in regions(graph, obligatory_cuts(graph) | {n})}
        if found == {(0, 7), None}:
            return
    pytest.fail("no integer of it has the range")
