"""gathers: a sum that adds one element, at an integer that its own kernel computes, reads that element.

Before: `sum_k select(k = p, x[k])` with a p that is no index expression, as the position of a search or a clamped
product.  After: `x[p]` where p is a point of the axis, else 0. What p is at least and at most follows from what it is
made of (`span`); where that proves it to be a point, nothing asks. Else the nearest point is read, so that a gather is
inside its buffer wherever it is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.dtype import boolean
from lumigen.index import Axis, Ix, is_nonnegative, ix, lower, upper
from lumigen.integers import range_of
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Gather,
    Index,
    Monoid,
    Prim,
    Read,
    Reduce,
    Scan,
    choose,
    const,
    free_axes,
    gather,
    index,
    is_true,
    is_zero,
    negation,
    prim,
    rebuild,
    walk,
)

Span = tuple[Ix | None, Ix | None]  # the least and the greatest, of dims


def gathered(e: Expr) -> Expr:
    """The element that a sum adds, if it adds one at an integer that is computed; else the sum."""
    if not isinstance(e, Reduce) or e.monoid is not Monoid.SUM or len(e.axes) != 1 or e.where:
        return e
    (axis,), body = e.axes, e.body
    if not isinstance(body, Choose) or not is_zero(body.otherwise):
        return e
    asked = list(_factors(body.condition))
    place = next(_places(asked, axis), None)
    if place is None or axis in free_axes(place):
        return e
    mirrors = (
        _not_below(index(ix(axis), place.dtype), place),
        _not_below(place, index(ix(axis), place.dtype)),
    )
    rest = [c for c in asked if c not in mirrors]
    place = _narrow(place, axis.extent)
    outside = list(_outside(place, axis.extent))
    if outside and not is_nonnegative(axis.extent - 1):
        return e  # there may be no element to read instead
    place = _inside(place, axis.extent)
    then = _at(body.then, axis, place)
    conditions = [_at(c, axis, place) for c in rest]
    if then is None or None in conditions:
        return e
    value = then
    for c in (*reversed(conditions), *reversed(outside)):
        assert c is not None
        value = choose(c, value, body.otherwise)
    return value


def is_gathered(value: Expr) -> bool:
    """Whether a value is made of elements at places computed on the way, without a loop."""
    inside = walk([value])
    return any(isinstance(x, Gather) for x in inside) and not any(
        isinstance(x, Reduce | Scan) for x in inside
    )


def _factors(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Prim) and condition.op is Op.MUL and condition.dtype.is_bool:
        for a in condition.args:
            yield from _factors(a)
    else:
        yield condition


def _not_below(a: Expr, b: Expr) -> Expr:
    return negation(prim(Op.LESS_THAN, (a, b), boolean))


def _places(asked: list[Expr], axis: Axis) -> Iterator[Expr]:
    """The integers that the axis is neither below nor above."""
    for c in asked:
        below = negation(c)
        if not isinstance(below, Prim) or below.op is not Op.LESS_THAN or is_true(below.args[1]):
            continue
        point, place = below.args
        is_axis = isinstance(point, Index) and point.value == ix(axis)
        if is_axis and _not_below(place, point) in asked:
            yield place


def _narrow(place: Expr, extent: Ix) -> Expr:
    """What a place was widened from, if that type has all points of the axis too."""
    most = extent.bounds()[1]
    while isinstance(place, Prim) and place.op is Op.CONTIGUOUS and place.args[0].dtype.is_int:
        (inner,) = place.args
        high = range_of(inner.dtype)[1]
        if inner.dtype.bits > place.dtype.bits or most is None or high is None or most > high:
            break
        place = inner
    return place


def _outside(place: Expr, extent: Ix) -> Iterator[Expr]:
    """The conditions of a place in an axis that its span does not prove."""
    lo, hi = span(place)
    if lo is None or not is_nonnegative(lo):
        yield negation(prim(Op.LESS_THAN, (place, const(0, place.dtype)), boolean))
    if hi is None or not is_nonnegative(extent - 1 - hi):
        yield prim(Op.LESS_THAN, (place, index(extent, place.dtype)), boolean)


def _inside(place: Expr, extent: Ix) -> Expr:
    """The nearest point of an axis: elements are read before it is known whether they are asked for."""
    lo, hi = span(place)
    if hi is None or not is_nonnegative(extent - 1 - hi):
        last = index(extent - 1, place.dtype)
        place = choose(prim(Op.LESS_THAN, (last, place), boolean), last, place)
    if lo is None or not is_nonnegative(lo):
        first = const(0, place.dtype)
        place = choose(prim(Op.LESS_THAN, (place, first), boolean), first, place)
    return place


def _at(e: Expr, axis: Axis, place: Expr) -> Expr | None:
    """The value where an axis has the value of an integer that is computed; None where only a loop computes it."""
    memo: dict[Expr, Expr] = {}
    for x in walk([e]):
        if axis not in free_axes(x):
            memo[x] = x
        elif isinstance(x, Read):
            memo[x] = _taken(x.source, x.at, (), (), axis, place)
        elif isinstance(x, Gather):
            places = tuple(memo[p] for p in x.places)
            at_axis = any(axis in i.axes for i in x.at)
            same = gather(x.source, x.at, x.axes, places)
            memo[x] = _taken(x.source, x.at, x.axes, places, axis, place) if at_axis else same
        elif isinstance(x, Index) and x.value == ix(axis):
            memo[x] = prim(Op.CONTIGUOUS, (place,), x.dtype)
        elif isinstance(x, Prim | Choose):
            memo[x] = rebuild(x, memo.__getitem__, lambda i: i)
        else:
            return None
    return memo[e]


def _taken(
    source: Buffer,
    at: tuple[Ix, ...],
    axes: tuple[Axis, ...],
    places: tuple[Expr, ...],
    axis: Axis,
    place: Expr,
) -> Expr:
    bound = Axis(f"place{len(axes)}", axis.extent)
    moved = tuple(i.substitute({axis: ix(bound)}) for i in at)
    return gather(source, moved, (*axes, bound), (*places, place))


@remembered
def span(e: Expr) -> Span:
    """What an integer is at least and at most, as far as its operands show."""
    low, high = range_of(e.dtype)
    whole: Span = (None if low is None else ix(low), None if high is None else ix(high))
    if isinstance(e, Const):
        return ix(int(e.value)), ix(int(e.value))
    if isinstance(e, Index):
        return lower(e.value), upper(e.value)
    if isinstance(e, Read | Gather):
        least, most = e.source.range or (low, high)
        return (None if least is None else ix(least), None if most is None else ix(most))
    if isinstance(e, Choose):
        return _of_choice(e)
    found = _of_prim(e) if isinstance(e, Prim) else None
    return found if found is not None and _fits(found, e) else whole


def _fits(found: Span, e: Expr) -> bool:
    """Whether nothing wraps around."""
    if found[0] is None or found[1] is None:
        return False
    least, most = found[0].bounds()[0], found[1].bounds()[1]
    low, high = (e.dtype.lowest, e.dtype.greatest)
    return least is not None and most is not None and low <= least and most <= high


def _of_prim(e: Prim) -> Span | None:
    if e.op is Op.CONTIGUOUS:
        (x,) = e.args
        return (ix(0), ix(1)) if x.dtype.is_bool else span(x) if x.dtype.is_int else None
    if e.op is not Op.ADD:
        return None
    (a_low, a_high), (b_low, b_high) = map(span, e.args)
    if a_low is None or a_high is None or b_low is None or b_high is None:
        return None
    return a_low + b_low, a_high + b_high


def _of_choice(e: Choose) -> Span:
    """From the lesser of both sides to the greater; a comparison says more of a side that it compares."""
    condition, sides = e.condition, (e.then, e.otherwise)
    denied = negation(condition)
    if not (isinstance(denied, Prim) and is_true(denied.args[1])):
        condition, sides = denied, sides[::-1]
    (lo, hi), (lo2, hi2) = map(span, sides)
    if (
        isinstance(condition, Prim)
        and condition.op is Op.LESS_THAN
        and condition.args[0].dtype.is_int
    ):
        (a, b), (then, otherwise) = condition.args, sides
        if then is a:
            hi = _lesser(hi, _less_one(span(b)[1]))
        if then is b:
            lo = _greater(lo, span(a)[0])
        if otherwise is a:
            lo2 = _greater(lo2, span(b)[0])
        if otherwise is b:
            hi2 = _lesser(hi2, span(a)[1])
    return _outer(lo, lo2, 0), _outer(hi, hi2, 1)


def _less_one(i: Ix | None) -> Ix | None:
    return None if i is None else i - 1


def _lesser(a: Ix | None, b: Ix | None) -> Ix | None:
    """The one that is provably not greater; if nothing shows which, the one that says something of dims."""
    if a is None or b is None:
        return b if a is None else a
    if is_nonnegative(b - a):
        return a
    return b if is_nonnegative(a - b) or a.is_const else a


def _greater(a: Ix | None, b: Ix | None) -> Ix | None:
    if a is None or b is None:
        return b if a is None else a
    if is_nonnegative(a - b):
        return a
    return b if is_nonnegative(b - a) or a.is_const else a


def _outer(a: Ix | None, b: Ix | None, end: int) -> Ix | None:
    """The lesser of two lower ends, or the greater of two upper ones: by number where nothing shows which."""
    if a is None or b is None:
        return None
    for x, y in ((a, b), (b, a)):
        if is_nonnegative(y - x if end == 0 else x - y):
            return x
    ends = [i.bounds()[end] for i in (a, b)]
    if ends[0] is None or ends[1] is None:
        return None
    return ix(min(ends[0], ends[1]) if end == 0 else max(ends[0], ends[1]))
