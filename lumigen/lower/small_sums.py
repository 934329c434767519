"""small_sums: sums of small integers as sums in f32, which vectors add up.

Before: regions with sums in i32.  After: those whose every part f32 holds exactly, as of products of bytes over a
window, are sums of floats that are cast to integers. So no step rounds, in whatever order terms are added. Those whose
floats only a word of a target says, as remainders, stay: a region is in primitives, which its reference is written of.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.dtype import f32, i32
from lumigen.index import extent_of
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.whole import MOST, in_floats
from lumigen.ops import Op
from lumigen.region import Expr, Intrinsic, Monoid, Reduce, Region, map_expr, prim, reduce, walk


def sums_in_floats(region: Region) -> Region:
    """The region with its small sums in f32."""
    found = {r: _in_floats(r) for r in kernel_reductions(s.value for s in region.stores)}
    made: dict[Expr, Expr] = {r: e for r, e in found.items() if e is not None}
    stores = (replace(s, value=map_expr(s.value, made)) for s in region.stores)
    return replace(region, stores=tuple(stores)) if made else region


def _in_floats(r: Reduce) -> Expr | None:
    """A sum in i32 as one in f32, cast; None where bounds do not show that it is small."""
    points = extent_of(r.axes).bounds()[1]
    if r.monoid is not Monoid.SUM or r.dtype is not i32 or points is None:
        return None
    body = in_floats(r.body)
    if body is None or not body.is_whole or max(-body.lo, body.hi) * points > MOST:
        return None
    if any(isinstance(e, Intrinsic) for e in walk([body.value])):
        return None
    total = reduce(r.monoid, r.axes, body.value, f32, r.where)
    return prim(Op.CONTIGUOUS, (total,), i32)
