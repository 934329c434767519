"""float_columns: integers that folds of columns come to, in floats, which vectors of columns carry.

Before: a region whose stores are integers, made of reductions that vary with the lanes, as places of the greatest are.
After: the same in f32, cast once as it is stored, wherever f32 holds each step exactly. Other regions stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lumigen.dtype import f32, i32, i64
from lumigen.index import extent_of, is_less, ix
from lumigen.lower.float_states import EXACT, small_in_floats, total_in_floats
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.sweeps import lane_axis, vectors_store
from lumigen.machine import Machine
from lumigen.ops import Op
from lumigen.region import Expr, Monoid, Prim, Region, Store, free_axes, prim

WHOLE = (i32, i64)


def in_float_columns(region: Region, machine: Machine) -> Region:
    """The region with such integers in f32, if vectors compute all of it then."""
    lane = lane_axis(region.stores[-1], machine.vectors)
    found = kernel_reductions(s.value for s in region.stores)
    if lane is None or not machine.vectors.wholes or region.native:
        return region
    totals: dict[Expr, tuple[Expr, int]] = {
        r: total
        for r in found
        if lane in free_axes(r)
        and r.dtype in WHOLE
        and (r.monoid is Monoid.SUM or (not r.where and is_less(ix(0), extent_of(r.axes))))
        and (total := total_in_floats(r)) is not None
    }
    if not totals:
        return region
    stores = tuple(_in_floats(s, totals) for s in region.stores)
    return (
        replace(region, stores=stores) if vectors_store(stores, lane, machine.vectors) else region
    )


def stores_types(region: Region, machine: Machine) -> bool:
    """Whether threads of a team compute floats and integers of a region together, as the greatest and its place."""
    lane = lane_axis(region.stores[-1], machine.vectors)
    if machine.teams is None or not machine.vectors.wholes:
        return False
    made = in_float_columns(region, machine)
    return lane is None or vectors_store(made.stores, lane, machine.vectors)


def _in_floats(s: Store, totals: Mapping[Expr, tuple[Expr, int]]) -> Store:
    found = _made_of(s.value, totals) if s.dst.dtype in WHOLE else None
    if found is None:
        return s
    whole = prim(Op.CONTIGUOUS, (found[0],), i32)
    return replace(s, value=whole if s.dst.dtype is i32 else prim(Op.CONTIGUOUS, (whole,), i64))


def _made_of(e: Expr, totals: Mapping[Expr, tuple[Expr, int]]) -> tuple[Expr, int] | None:
    """Sums and products of totals and indices in f32, and the greatest magnitude of them, which f32 holds."""
    if e in totals:
        return totals[e]
    if e.dtype not in WHOLE:
        return None
    if (leaf := small_in_floats(e)) is not None:
        return leaf
    parts = [_made_of(x, totals) for x in e.args] if isinstance(e, Prim) else []
    known = [x for x in parts if x is not None]
    if not known or len(known) < len(parts) or not isinstance(e, Prim):
        return None
    if e.op is Op.CONTIGUOUS:
        return known[0]
    if e.op not in (Op.ADD, Op.MUL):
        return None
    (a, most), (b, other) = known
    most = most + other if e.op is Op.ADD else most * other
    return (prim(e.op, (a, b), f32), most) if most <= EXACT else None
