"""Whole quotients of positions are index expressions, as masks of blocks need them."""

from __future__ import annotations

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.ops import Op
from lumigen.region import Expr, Index, Prim, children, walk
from lumigen.targets.cpu.device import CPU


def is_of_floats(e: Expr) -> bool:
    """Whether it is an integer that was computed as a float."""
    is_integer = isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype.is_int
    return is_integer and any(a.dtype.is_float for a in children(e))


@pytest.mark.parametrize("by", [2, 7, 40, 128, 300])
@pytest.mark.parametrize("shift", [0, -450])
def test_a_quotient_of_positions_is_an_index(by: int, shift: int) -> None:
    graph = traced(lambda x: x + (lg.arange(900) + shift) // by, x=lg.spec(900))
    for step in GRAPH_PASSES:
        graph = step(graph)
    model = assemble((("entry", graph),), CPU)
    values = list(walk(s.value for k in model.kernels for s in k.region.stores))
    assert any(isinstance(e, Index) for e in values)
    assert not any(map(is_of_floats, values))
    x = np.zeros(900, np.float32)
    found = next(iter(run_entry(model, {"x": x}, {}).values()))
    np.testing.assert_array_equal(found, (np.arange(900) + shift) // by)


def test_a_quotient_of_data_is_computed() -> None:
    graph = traced(lambda i: (i // 7).to(lg.f32), i=lg.spec(9, dtype=lg.i64))
    model = assemble((("entry", graph),), CPU)
    values = walk(s.value for k in model.kernels for s in k.region.stores)
    assert any(map(is_of_floats, values))
    i = np.arange(-4, 5) * 5
    found = next(iter(run_entry(model, {"i": i}, {}).values()))
    np.testing.assert_array_equal(found, i // 7)
