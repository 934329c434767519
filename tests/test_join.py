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
from lumigen import nn
from lumigen.dtype import f32
from lumigen.index import Axis, ix
from lumigen.interp.graph import evaluate
from lumigen.interp.graph import step as evaluate_step
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.join import join_regions
from lumigen.ops import Op
from lumigen.region import Buffer, Expr, Region, Role, Store, prim, read
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

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
    "three": (three, [2, 3]),
    "columns": (columns, [1, 2]),
    "other_axes": (other_axes, [1, 1]),
    "other_types": (other_types, [1, 1]),
}
FUNCTIONS = (residual, three, columns, other_axes, other_types, product)


POSITIONS = lg.Dim("positions", 1, 300, typical=200)


def weighted(q: Any, k: Any, v: Any) -> Any:
    """What a softmax weights, with what several of them are merged by."""
    scores = q @ k.mT * 0.25
    return {"mixed": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}


def masked(q: Any, k: Any, v: Any) -> Any:
    """No key is seen by some queries: their sum is 0, its logarithm -inf."""
    i, j = lg.arange(q.shape[-2]).unsqueeze(-1), lg.arange(k.shape[-2])
    scores = (q @ k.mT * 0.25).masked_fill(j >= i, -np.inf)
    weights = (scores - scores.amax(-1, keepdim=True).maximum(-1e30)).exp()
    return {"mixed": weights @ v, "total": scores.logsumexp(-1), "sum": weights.sum(-1)}


def at_position(q: Any, k: Any, v: Any, position: Any) -> Any:
    """One query, which sees the keys up to its own."""
    scores = (q @ k.mT * 0.25).masked_fill(lg.arange(k.shape[-2]) > position, -np.inf)
    return {"mixed": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}


def rectified(q: Any, k: Any, v: Any) -> Any:
    """Nothing is carried but sums."""
    weights = (q @ k.mT * 0.25).relu()
    return {"sum": weights.sum(-1, keepdim=True), "mixed": (weights @ v).transpose(1, 2)}


def merged_heads(q: Any, k: Any, v: Any) -> Any:
    """A result that is seen otherwise than it is folded."""
    scores = q @ k.mT * 0.25
    mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    return {"mixed": mixed, "total": scores.logsumexp(-1)[None]}


def read_again(q: Any, k: Any, v: Any) -> Any:
    """What the fold carries is an operand of something else."""
    scores = q @ k.mT * 0.25
    total = scores.logsumexp(-1)
    return {
        "mixed": scores.softmax(-1) @ v,
        "both": lg.stack([total, total * 2]),
        "z": total.sum(-1),
    }


KEYS = {"k": lg.spec(2, 3, POSITIONS, 16), "v": lg.spec(2, 3, POSITIONS, 40)}
MANY = {"q": lg.spec(2, 3, POSITIONS, 16), **KEYS}
POSITION = lg.spec(1, dtype=lg.i64, range=(0, 299))
ONE = {
    "q": lg.spec(2, 3, 1, 16),
    "k": lg.spec(2, 3, 300, 16),
    "v": lg.spec(2, 3, 300, 40),
    "position": POSITION,
}
POINTS = (({"positions": 1}, {"positions": 77}), ({},))
FOLDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "weighted": (weighted, MANY),
    "at_position": (at_position, ONE),
    "masked": (masked, MANY),
    "rectified": (rectified, MANY),
    "merged_heads": (merged_heads, MANY),
    "read_again": (read_again, MANY),
}
BEHIND = {"read_again": 2}  # kernels that read what the fold has stored


def lowered(
    function: Callable[..., Any], device: Device, specs: dict[str, Any] = SPECS
) -> tuple[Any, LoweredModel]:
    graph = traced(function, **specs)
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
    (joined, behind) = join_regions((first, reads, second), lambda _: True)
    assert [s.dst for s in joined.stores] == [t, y]
    assert behind == reads
    both = stored(y, prim(Op.ADD, (half, read(u, (ix(i),))), f32))
    assert join_regions((first, reads, both), lambda _: True) == (first, reads, both)
    assert join_regions((first, second), lambda r: r is first) == (first, second)
    assert len(join_regions((first, second, reads), lambda _: True)) == 2


def test_no_loop_is_split_around_a_joined_region() -> None:
    i, s = Axis("i0", ix(8)), Axis("step", ix(3))
    x, t, u, v, y = (Buffer(name, Role.TEMP, (ix(8),), f32) for name in "xtuvy")

    def stored(dst: Buffer, value: Expr, *steps: Axis) -> Region:
        return Region((Store(dst, (i,), (ix(i),), value),), steps=steps)

    half = prim(Op.EXP2, (read(x, (ix(i),)),), f32)
    first, second = stored(t, half), stored(y, prim(Op.SQRT, (half,), f32))
    begins = stored(u, prim(Op.SIN, (read(v, (ix(i),)),), f32), s)
    reads = stored(v, prim(Op.ADD, (read(t, (ix(i),)), read(u, (ix(i),))), f32), s)
    apart = (first, begins, reads, second)
    assert join_regions(apart, lambda _: True) == apart
    (joined, *body) = join_regions((first, reads, second), lambda _: True)
    assert [s.dst for s in joined.stores] == [t, y]
    assert body == [reads]


def test_a_store_is_not_moved_behind_what_overwrites_what_it_reads() -> None:
    i = Axis("i0", ix(8))
    t, u, y = (Buffer(name, Role.TEMP, (ix(8),), f32) for name in "tuy")
    held = Buffer("held", Role.STATE, (ix(8),), f32)

    def stored(dst: Buffer, value: Expr) -> Region:
        return Region((Store(dst, (i,), (ix(i),), value),))

    old = prim(Op.EXP2, (read(held, (ix(i),)),), f32)
    before, update = stored(t, old), stored(held, read(u, (ix(i),)))
    behind = stored(y, prim(Op.SQRT, (old,), f32))  # of the new version, which lies in its place
    assert join_regions((before, update, behind), lambda _: True) == (before, update, behind)
    turned = stored(t, prim(Op.ADD, (old, read(held, (ix(7) - i,))), f32))
    over = stored(held, old)
    assert join_regions((turned, over), lambda _: True) == (turned, over)


def old_and_new(x: Any) -> Any:
    held = nn.State("held", (40, 40), lg.f32)
    old = held[:].exp()
    held[:] = held[:] * x
    return {"before": old, "after": held[:].exp() + 1}


def turned_and_new(x: Any) -> Any:
    held = nn.State("held", (40, 40), lg.f32)
    new = held[:] * x
    out = new.exp() + held[:].transpose(0, 1).sum(-1, keepdim=True)
    held[:] = new
    return out


def weighted_before_and_after(x: Any) -> Any:
    held = nn.State("held", (40, 40), lg.f32)

    def fold() -> tuple[Any, Any]:
        scores = x @ held[:].mT * 0.1
        return scores.softmax(-1) @ x, scores.logsumexp(-1)

    mixed, total = fold()
    held[:] = held[:] * 2 + x
    later, after = fold()
    return {"mixed": mixed, "total": total, "later": later, "after": after}


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("by_region", [False, True], ids=["programs", "regions"])
@pytest.mark.parametrize("function", [old_and_new, turned_and_new, weighted_before_and_after])
def test_what_is_made_of_an_old_version_of_a_state_is_not_made_of_the_new_one(
    function: Callable[[Any], Any], by_region: bool, device: Device, rng: np.random.Generator
) -> None:
    graph, model = lowered(function, device, {"x": lg.spec(40, 40)})
    given = {"x": rng.standard_normal((40, 40)).astype(np.float32)}
    held = {"held": rng.standard_normal((40, 40)).astype(np.float32)}
    expected, after = evaluate_step(graph, given, {}, held)
    found = run_entry(model, given, {}, states=held, by_region=by_region)
    for out, value in found.items():
        agree(value, expected[out], out)
    agree(held["held"], after["held"], "held")


@pytest.mark.slow
def test_joined_kernels_of_a_cpu() -> None:
    programs = [
        SmallProgram(f.__name__, f, tuple(SPECS.items()), ({"rows": 37},)) for f in FUNCTIONS
    ]
    library = Library(programs)
    for p in programs:
        library.check(p)


@pytest.mark.parametrize("name", FOLDS)
def test_what_a_fold_carries_is_stored_beside_what_it_weights(name: str) -> None:
    function, specs = FOLDS[name]
    kernel, *others = lowered(function, CPU, specs)[1].kernels
    assert kernel.program.skeleton == "cascade"
    assert len(kernel.region.stores) > 1
    assert [k.program.skeleton for k in others] == ["simt"] * BEHIND.get(name, 0)


@pytest.mark.slow
def test_kernels_that_store_what_they_carry() -> None:
    programs = [
        SmallProgram(name, function, tuple(specs.items()), POINTS[specs is ONE])
        for name, (function, specs) in FOLDS.items()
    ]
    library = Library(programs)
    for p in programs:
        library.check(p)
