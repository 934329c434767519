"""Places of 32 bits in kernels for GPUs: where bounds prove them, and there alone."""

from __future__ import annotations

from typing import Any

import pytest
from tiles import traced

import lumigen as lg
from lumigen.emit.kernel import device_kernel_body
from lumigen.emit.places import NARROW, WIDE, counted_in, is_small
from lumigen.index import Axis, ix
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.lower.devices import CUDA

FEW, MANY = lg.Dim("few", 1, 1 << 16), lg.Dim("many", 1, 1 << 40, typical=1 << 16)


def kernel(function: Any, **inputs: Any) -> LoweredKernel:
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), CUDA).kernels[-1]


def text(k: LoweredKernel) -> str:
    return device_kernel_body(k.name, k.program, k.parameters, "model.py:1")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((FEW, 4096), NARROW),
        ((FEW, 1 << 14), WIDE),  # 2^30 elements: twice as many might end past an int
        ((MANY,), WIDE),
        ((1 << 29,), NARROW),
        ((1 << 31,), WIDE),
    ],
)
def test_a_map_counts_in_what_its_elements_need(shape: Any, expected: str) -> None:
    made = kernel(lambda x: x + 1, x=lg.spec(*shape))
    assert counted_in(made.program) == expected
    assert ("int64_t" in text(made)) == (expected == WIDE)


def test_what_lies_between_counts_too() -> None:
    """A result of few elements may be reached through a product that is large."""
    a = Axis("a", ix(1 << 20))
    assert is_small(ix(a) * 64)
    assert (ix(a) * 4097 // 8192).bounds()[1] < 1 << 20
    assert not is_small(ix(a) * 4097 // 8192)


def test_values_are_computed_in_their_own_type() -> None:
    """Places are of 32 bits here; what is made of them, and of what memory has, may be greater."""
    made = kernel(lambda x: lg.arange(x.shape[0]) * 5_000_000_000 + x, x=lg.spec(FEW, dtype=lg.i64))
    assert counted_in(made.program) == NARROW
    assert "UINT64_C(5000000000)" in text(made)
    below = kernel(lambda x: x < 3, x=lg.spec(FEW, dtype=lg.i64))
    assert counted_in(below.program) == NARROW
    assert "x0[i0] <= 2" in text(below)


def test_sums_of_any_integers_wrap() -> None:
    made = text(
        kernel(lambda x, y: x - y, x=lg.spec(FEW, dtype=lg.i64), y=lg.spec(FEW, dtype=lg.i64))
    )
    assert (
        "static_cast<int64_t>(static_cast<uint64_t>(x0[i0]) - static_cast<uint64_t>(x1[i0]))"
        in made
    )
