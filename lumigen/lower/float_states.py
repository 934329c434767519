"""float_states: integers that a fold carries, as floats of one type with all its other states.

Before: a fold, some of whose carries are integers.  After: those that f32 holds exactly, whatever they may be, are
carried in f32, and cast back where they are read: positions along an axis, and counts of its points.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.dtype import DType, f32, i32
from lumigen.index import Axis, Ix, extent_of
from lumigen.ops import Op
from lumigen.plan import Carry, LoopFold
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Index,
    Monoid,
    Prim,
    Reduce,
    carried,
    choose,
    const,
    index,
    map_expr,
    prim,
    reduce,
)

EXACT = 1 << 24  # no integer up to here is rounded in f32


def in_floats(fold: LoopFold) -> LoopFold:
    """The fold with integers in f32, as far as it holds them."""
    carries = tuple(_in_floats(c, fold) for c in fold.carries)
    cast: dict[Expr, Expr] = {}
    for i, (c, made) in enumerate(zip(fold.carries, carries, strict=True)):
        if made is not c:
            total = prim(Op.CONTIGUOUS, (carried(i, "new", f32),), c.dtype)
            narrow = prim(Op.CONTIGUOUS, (total,), c.value.dtype)  # in which a sum may wrap around
            cast |= {carried(i, "new", c.value.dtype): narrow, carried(i, "new", c.dtype): total}
    results = tuple((r, map_expr(e, cast)) for r, e in fold.results)
    return replace(fold, carries=carries, results=results) if cast else fold


def _in_floats(c: Carry, fold: LoopFold) -> Carry:
    value = c.value
    if not c.dtype.is_int or not isinstance(value, Reduce):
        return c
    tile, body = _float(c.tile), _float(value.body)
    if tile is None or body is None or most_of(c.monoid, c.tile, fold.axes) is None:
        return c
    return replace(c, value=reduce(c.monoid, value.axes, body, f32, value.where), tile=tile)


def small_in_floats(e: Expr) -> tuple[Expr, int] | None:
    """A choice of indices and constants in f32, and the greatest magnitude that it can be; None if f32 rounds it."""
    value, most = _float(e, i32), _most(e)
    return None if value is None or most is None or most > EXACT else (value, most)


def total_in_floats(r: Reduce) -> tuple[Expr, int] | None:
    """The same reduction in f32, and the greatest magnitude that it can be; None where f32 does not hold it."""
    body, most = _float(r.body, i32), most_of(r.monoid, r.body, r.axes)
    if not r.dtype.is_int or body is None or most is None:
        return None
    return reduce(r.monoid, r.axes, body, f32, r.where), most


def most_of(monoid: Monoid, tile: Expr, axes: tuple[Axis, ...]) -> int | None:
    """The greatest magnitude of a reduction of such terms, if f32 holds all integers up to there."""
    most = _most(tile)
    if monoid is Monoid.SUM and most is not None:
        points = extent_of(axes).bounds()[1]
        most = None if points is None else most * points
    return None if most is None or most > EXACT else most


def _float(e: Expr, dtype: DType | None = None) -> Expr | None:
    """A choice of indices, constants and truth values as f32; indices are computed in a `dtype` if there is one."""
    match e:
        case Choose():
            then, otherwise = _float(e.then, dtype), _float(e.otherwise, dtype)
            if then is None or otherwise is None:
                return None
            return choose(e.condition, then, otherwise)
        case Const():
            return const(float(e.value), f32)
        case Index():
            return prim(Op.CONTIGUOUS, (index(e.value, dtype or e.dtype),), f32)
        case Prim(op=Op.CONTIGUOUS, args=(x,)) if x.dtype.is_bool:
            return prim(Op.CONTIGUOUS, (x,), f32)
        case _:
            return None


def _most(e: Expr) -> int | None:
    """The greatest magnitude that such a choice can be."""
    match e:
        case Choose():
            sides = (_most(e.then), _most(e.otherwise))
            return None if None in sides else max(s for s in sides if s is not None)
        case Const():
            return abs(int(e.value))
        case Index():
            low, high = e.value.bounds()
            return None if low is None or high is None else max(abs(low), abs(high))
        case Prim(op=Op.CONTIGUOUS, args=(x,)) if x.dtype.is_bool:
            return 1
        case _:
            return None


def affine_places(e: Expr, lanes: Axis) -> tuple[Ix, Ix] | None:
    """The integer and its step from lane to lane, if the value is a float of one that floats hold exactly."""
    if not isinstance(e, Prim) or e.op is not Op.CONTIGUOUS or e.dtype is not f32:
        return None
    (place,) = e.args
    step = place.value.coefficient(lanes) if isinstance(place, Index) else None
    if not isinstance(place, Index) or step is None or not step.is_const:
        return None
    is_exact = all(b is not None and abs(b) <= EXACT for b in place.value.bounds())
    return (place.value, step) if is_exact else None
