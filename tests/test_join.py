"""Regions that have values of each other are one, unless that would move a store behind what reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_programs import Library, SmallProgram, agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.dtype import f32
from lumigen.index import Axis, ix
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import CPU, CUDA, Device
from lumigen.lower.join import join_regions
from lumigen.ops import Op
from lumigen.region import Buffer, Expr, Region, Role, Store, prim, read

ROWS = lg.Dim("rows", 1, 300, typical=40)
SPECS = {"x": lg.spec(ROWS, 40), "r": lg.spec(ROWS, 40)}


def residual(x: Any, r: Any) -> Any:
    total = x + r
    return {"total": total, "y": F.rms_norm(total, (40,))}


def three(x: Any, r: Any) -> Any:
    total = x + r
    return {"y": total.softmax(-1), "total": total, "twice": total * 2 + total.softmax(-1)}


def columns(x: Any, r: Any) -> Any:
    total = x + r
    return {"columns": total.sum(0), "y": total * total.sum(0), "total": total}


def other_axes(x: Any, r: Any) -> Any:
    total = x + r
    return {"total": total, "turned": total.transpose(0, 1).softmax(-1)}


def other_types(x: Any, r: Any) -> Any:
    return {"which": x < r, "y": lg.where(x < r, x, r * 2)}


def product(x: Any, r: Any) -> Any:
    scores = x @ r.transpose(0, 1)
    return {"scores": scores, "y": scores.exp()}


# what the model makes, and how many tensors each of its kernels stores
CASES: dict[str, tuple[Callable[[Any, Any], Any], list[int]]] = {
    "residual": (residual, [2]),
    "three": (three, [1, 1, 3]),
    "columns": (columns, [1, 2]),
    "other_axes": (other_axes, [1, 1]),
    "other_types": (other_types, [1, 1]),
}
FUNCTIONS = (residual, three, columns, other_axes, other_types, product)


def lowered(function: Callable[[Any, Any], Any], device: Device) -> tuple[Any, LoweredModel]:
    graph = traced(function, x=SPECS["x"], r=SPECS["r"])
    entry = graph
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), device)


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_joined(name: str, device: Device) -> None:
    function, stored = CASES[name]
    kernels = lowered(function, device)[1].kernels
    assert [len(k.region.stores) for k in kernels] == stored
    assert [sum(p.written for p in k.parameters) for k in kernels] == stored


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("by_region", [False, True], ids=["programs", "regions"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_joined_regions_mean_the_same(
    function: Callable[[Any, Any], Any], by_region: bool, device: Device, rng: np.random.Generator
) -> None:
    graph, model = lowered(function, device)
    given = {n: rng.standard_normal((37, 40)).astype(np.float32) for n in SPECS}
    expected = evaluate(graph, given, {})
    for out, value in run_entry(model, given, {}, by_region=by_region).items():
        agree(value, expected[out], out)


def test_a_store_stays_before_what_reads_it() -> None:
    i = Axis("i0", ix(8))
    x, t, u, y = (Buffer(name, Role.TEMP, (ix(8),), f32) for name in "xtuy")

    def stored(dst: Buffer, value: Expr) -> Region:
        return Region((Store(dst, (i,), (ix(i),), value),))

    half = prim(Op.EXP2, (read(x, (ix(i),)),), f32)
    first, second = stored(t, half), stored(y, prim(Op.SQRT, (half,), f32))
    reads = stored(u, prim(Op.SIN, (read(t, (ix(7) - i,)),), f32))
    (joined,) = join_regions((first, second), lambda _: True)
    assert [s.dst for s in joined.stores] == [t, y]
    (joined,) = join_regions((second, first), lambda _: True)
    assert [s.dst for s in joined.stores] == [t, y]
    assert join_regions((first, reads, second), lambda _: True) == (first, reads, second)
    assert join_regions((first, second), lambda r: r is first) == (first, second)
    assert len(join_regions((first, second, reads), lambda _: True)) == 2


def test_joined_kernels_of_a_cpu() -> None:
    programs = [
        SmallProgram(f.__name__, f, tuple(SPECS.items()), ({"rows": 37},)) for f in FUNCTIONS
    ]
    library = Library(programs)
    for p in programs:
        library.check(p)
