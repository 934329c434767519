"""Loops over lanes that are cut where a choice between reads changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.graph import Graph
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.targets.cpu.device import CPU
from lumigen.tile import For, StoreTile

N = lg.Dim("n", 1, 40)


def rotated(x, turn):
    a, b = x.chunk(2, -1)
    return lg.cat([a * turn - b, b * turn + a], -1)


def three(x, turn):
    a, b = x.chunk(2, -1)
    return lg.cat([turn, a * turn, b - turn], -1)


def padded(x, turn):
    return lg.functional.pad(x, (2, 3)) * turn[:, :1]


def many(x, turn):
    return lg.cat(list(x.chunk(x.shape[1] // 7, -1))[::-1], -1)


def of_any_length(x, turn):
    return lg.cat([turn, x], -1)


def windows(x, turn):
    padding = turn.shape[1] // 2
    return lg.functional.conv1d(x, turn.unsqueeze(1), padding=padding, groups=x.shape[0])


def maxima(x, turn):
    return lg.functional.max_pool1d(x, 5, 1, 2) * turn[:, :1]


CASES: dict[str, tuple[Callable, tuple, tuple, int]] = {
    "halves": (rotated, (5, 34), (5, 17), 2),
    "halves of a row that tasks share": (rotated, (2, 17000), (2, 8500), 2),
    "numbers, that lanes choose between": (rotated, (5, 2), (5, 1), 1),
    "three parts": (three, (5, 34), (5, 17), 3),
    "edges": (padded, (5, 21), (5, 3), 3),
    "five parts": (many, (5, 35), (5, 3), 5),
    "more parts than are worth their code": (many, (5, 280), (5, 3), 1),
    "sums of windows, and edges": (windows, (5, 21), (5, 3), 3),
    "maxima of windows, and edges": (maxima, (5, 21), (5, 3), 3),
    "windows as wide as what they are of": (windows, (5, 5), (5, 7), 1),
    "lanes of no fixed number": (of_any_length, (5, N), (5, 7), 1),
}


def lowered(name: str, dtype: lg.DType) -> tuple[LoweredModel, Graph]:
    function, x, turn, _ = CASES[name]
    graph = traced(function, None, x=lg.spec(*x, dtype=dtype), turn=lg.spec(*turn, dtype=dtype))
    for change in GRAPH_PASSES:
        graph = change(graph)
    return assemble((("entry", graph),), CPU), graph


def loops(model: LoweredModel) -> int:
    """Loops over lanes around the store of the result."""
    program = model.kernels[-1].program
    return sum(
        isinstance(s, For) and s.lanes and any(isinstance(x, StoreTile) for x in s.body)
        for s in program.statements()
    )


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_parts_and_their_numbers(name: str, dtype: lg.DType, rng: np.random.Generator):
    model, graph = lowered(name, dtype)
    _, x, turn, parts = CASES[name]
    assert loops(model) == parts
    for n in (1, 7, 33) if "no fixed number" in name else (0,):
        shapes = {"x": [d if isinstance(d, int) else n for d in x], "turn": turn}
        given = {k: rng.normal(size=s).astype(dtype.numpy) for k, s in shapes.items()}
        expected = evaluate(graph, given, {})["out"].astype(np.float64)
        compiled = fast_lane.load(model, "-O1").run("entry", given, {})["out"]
        for found in (run_entry(model, given, {})["out"], compiled):
            tolerance = 1e-6 if dtype is lg.f32 else 1e-2
            np.testing.assert_allclose(
                found.astype(np.float64), expected, rtol=tolerance, atol=tolerance
            )
