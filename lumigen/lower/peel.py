"""peel: remove from a reduction a first or last point that differs from the rest.

Before: a reduction over a concatenation with a single element, as of attention scores and a sink, which asks at each
point whether it is that one.  After: the reduction of the rest, combined with the value of that point.
"""

from __future__ import annotations

from lumigen.condition import Cmp
from lumigen.dtype import boolean
from lumigen.index import Axis, Ix, is_nonnegative, ix
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Expr,
    Holds,
    Monoid,
    Reduce,
    choose,
    const,
    prim,
    rebuild,
    reduce,
    substitute,
    walk,
)


def peel_reductions(e: Expr) -> Expr:
    memo: dict[Expr, Expr] = {}

    def visit(x: Expr) -> Expr:
        if x not in memo:
            inner = rebuild(x, visit, lambda i: i)
            memo[x] = _peeled(inner) if isinstance(inner, Reduce) else inner
        return memo[x]

    return visit(e)


def _peeled(r: Reduce) -> Expr:
    # a sum that is rounded from a wider one would be rounded twice
    is_narrow = r.monoid is Monoid.SUM and r.acc is not r.dtype
    if r.where or is_narrow or r.dtype.is_bool:
        return r
    for axis in r.axes:
        if not is_nonnegative(axis.extent - 1):
            continue  # there may be no such point
        for point in _points(r, axis):
            left = Axis(axis.name, axis.extent - 1)
            axes = tuple(left if a == axis else a for a in r.axes)
            body = substitute(r.body, {axis: ix(left) + 1 if point == 0 else ix(left)})
            rest = reduce(r.monoid, axes, body, r.dtype)
            rest = _peeled(rest) if isinstance(rest, Reduce) else rest
            one = substitute(r.body, {axis: point})
            others = tuple(a for a in r.axes if a != axis)
            one = reduce(r.monoid, others, one, r.dtype) if others else one
            return _both(r.monoid, rest, one)
    return r


def _both(monoid: Monoid, a: Expr, b: Expr) -> Expr:
    """The sum; or the greater, NaN if one is: b where a < b or b is NaN, as `maximum` of the frontend says it."""
    if monoid is Monoid.SUM:
        return prim(Op.ADD, (a, b), a.dtype)
    true = const(True, boolean)
    stays = prim(Op.LESS_THAN, (prim(Op.LESS_THAN, (a, b), boolean), true), boolean)
    if b.dtype.is_float:
        square = prim(Op.MUL, (b, b), b.dtype)
        is_number = prim(Op.LESS_THAN, (const(-1.0, b.dtype), square), boolean)
        stays = prim(Op.MUL, (stays, is_number), boolean)
    return choose(prim(Op.LESS_THAN, (stays, true), boolean), b, a)


def _points(r: Reduce, axis: Axis) -> list[Ix]:
    """The first or the last point of an axis, if a choice in the reduction is made for it alone."""
    found: list[Ix] = []
    for e in walk([r.body]):
        if isinstance(e, Choose) and isinstance(e.condition, Holds):
            found += [p for c in e.condition.conditions if (p := _alone(c, axis)) is not None]
    return found


def _alone(c: Cmp, axis: Axis) -> Ix | None:
    """The end of the axis at which a condition on nothing else is not what it is at all other points."""
    factor = c.slack.coefficient(axis)
    if factor is None or factor not in (1, -1):
        return None
    bound = -(c.slack - factor * axis) * factor  # axis >= bound, or axis <= bound
    if bound.axes:
        return None
    last = axis.extent - 1
    if bound == (1 if factor == 1 else 0):
        return ix(0)
    return last if bound == (last if factor == 1 else last - 1) else None
