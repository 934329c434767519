"""Reads over lanes at their quotients and remainders: which become vectors, and what they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.index import Axis, ix
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.lower.phases import Phases, in_phases
from lumigen.targets.cpu.device import CPU

N = lg.Dim("n", 1, 40)


def between(x: Any, count: int) -> Any:
    """(count, rows, n) -> (rows, n * count): elements of each part in turn."""
    return x.permute((1, 2, 0)).flatten(1)


CASES: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], bool]] = {
    "two in turn": (lambda x: between(x, 2), (2, 3, 21), True),
    "three in turn": (lambda x: between(x, 3), (3, 2, 7), True),
    "four in turn": (lambda x: between(x, 4), (4, 2, 9), True),
    "five in turn": (lambda x: between(x, 5), (5, 2, 9), False),
    "two in turn, from the second on": (lambda x: between(x, 2)[:, 1:-2], (2, 3, 21), True),
    "two of any length": (lambda x: between(x, 2), (2, 3, N), True),
    "each twice": (lambda x: x.repeat_interleave(2, -1), (3, 19), True),
    "each three times": (lambda x: x.repeat_interleave(3, -1), (3, 11), True),
    "each four times, less one": (lambda x: x.repeat_interleave(4, -1)[:, 1:], (3, 6), True),
    "pixels": (lambda x: F.pixel_shuffle(x, 2) + 1, (2, 4, 3, 9), True),
}


@pytest.mark.parametrize("name", CASES)
def test_phases_are_vectors_with_the_graphs_numbers(name: str, rng: np.random.Generator) -> None:
    function, shape, is_vector = CASES[name]
    graph = traced(lambda x: function(x) * 2, None, x=lg.spec(*shape))
    for change in GRAPH_PASSES:
        graph = change(graph)
    model = assemble((("entry", graph),), CPU)
    assert ("load_phases<" in fast_lane.source(model)) is is_vector
    for n in (1, 7, 33) if any(d is N for d in shape) else (0,):
        x = rng.standard_normal([n if d is N else d for d in shape]).astype(np.float32)
        expected = evaluate(graph, {"x": x}, {})["out"]
        np.testing.assert_array_equal(run_entry(model, {"x": x}, {})["out"], expected)
        compiled = fast_lane.load(model, "-O1").run("entry", {"x": x}, {})["out"]
        np.testing.assert_array_equal(compiled, expected)


def test_what_an_address_is_made_of() -> None:
    i, r = Axis("i", ix(80)), Axis("r", ix(9))
    k = ix(i) + 1
    row = 100 * ix(r)
    assert in_phases(row + k // 2 + 40 * (k % 2), i) == Phases(row, 2, k, ix(40))
    assert in_phases(row + k // 3, i) == Phases(row, 3, k, ix(0))
    for other in (
        row + ix(i),  # side by side
        2 * (k // 2) + 40 * (k % 2) + 7,  # steps that are no neighbours
        k % 2,  # no steps
        k // 2 + ix(i),
        k // 2 + (ix(i) // 2) % 2,
        k // 8,  # many lanes of a phase
        (2 * ix(i)) // 3,
    ):
        assert in_phases(other, i) is None, other
