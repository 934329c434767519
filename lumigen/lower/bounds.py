"""Bounds of loops from the comparisons that guard a reduction: masked work is skipped.

Promises that no point outside the bounds satisfies all conditions, and that a point inside
satisfies those that are not listed as residual.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from lumigen.condition import Cmp
from lumigen.index import (
    Atom,
    Axis,
    Ix,
    Quotient,
    Remainder,
    ceildiv,
    floordiv,
    is_nonnegative,
    ix,
    maximum,
    minimum,
    of_atom,
)
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Holds,
    Monoid,
    Prim,
    Reduce,
    choose,
    holds,
    is_zero,
    map_expr,
    rebuild,
    walk,
)

Ranges = Mapping[Axis, tuple[Ix, Ix]]  # first and last value, inclusive


@dataclass(frozen=True)
class Bounds:
    """`lo <= axis < hi`, and the conditions that must still be tested inside."""

    lo: Ix
    hi: Ix
    residual: tuple[Cmp, ...]


def loop_bounds(conditions: Iterable[Cmp], axis: Axis, ranges: Ranges | None = None) -> Bounds:
    """The least loop over `axis` that meets every point where all conditions hold.

    Axes in `ranges` run over a tile, from the first to the last value given: the bounds are the
    hull over it. All other axes have one value each, and bounds may name them.
    """
    tiles = ranges or {}
    lo, hi = ix(0), axis.extent
    residual: list[Cmp] = []
    for c in conditions:
        bound = _bound(c, axis, tiles)
        if bound is None:
            residual.append(c)
            continue
        is_upper, value, exact = bound
        if is_upper:
            hi = minimum(hi, value)
        else:
            lo = maximum(lo, value)
        if not exact:
            residual.append(c)
    return Bounds(lo, hi, tuple(residual))


def held_in_steps(conditions: Iterable[Cmp], axis: Axis, step: int) -> tuple[Cmp, ...]:
    """Those that hold at all points of tiles of `step` points, which begin at multiples of it in such a loop."""
    bounds = ((c, _bound(c, axis, {})) for c in conditions)
    return tuple(c for c, bound in bounds if bound is not None and bound[1] % step == 0)


def _bound(c: Cmp, axis: Axis, tiles: Ranges) -> tuple[bool, Ix, bool] | None:
    """Whether a condition bounds `axis` from above, by what (exclusive), and if it says no more."""
    factor = c.slack.coefficient(axis)
    if factor is None or not factor.is_const or factor.const == 0:
        return None
    rest = c.slack - factor * axis  # factor * axis + rest >= 0
    highest = extreme(rest, tiles, highest=True)
    if highest is None:
        return None
    exact = not (rest.axes & frozenset(tiles))
    if factor.const > 0:
        return False, ceildiv(-highest, factor.const), exact
    return True, floordiv(highest, ix(-factor.const)) + 1, exact


def extreme(e: Ix, ranges: Ranges, *, highest: bool) -> Ix | None:
    """The highest or lowest `e` while the given axes run over their ranges; None if unknown."""
    total = ix(e.const)
    for monomial, c in e.terms:
        inside = [a for a in monomial if of_atom(a).axes & ranges.keys()]
        if len(inside) > 1:
            return None
        value = ix(c)
        for a in monomial:
            if a not in inside:
                value = value * of_atom(a)
        if inside:
            if not (is_nonnegative(value) or is_nonnegative(-value)):
                return None
            end = _extreme_atom(inside[0], ranges, highest=highest == is_nonnegative(value))
            if end is None:
                return None
            value = value * end
        total = total + value
    return total


def _extreme_atom(atom: Atom, ranges: Ranges, *, highest: bool) -> Ix | None:
    if isinstance(atom, Axis):
        return ranges[atom][1 if highest else 0]
    if isinstance(atom, Quotient) and not atom.denominator.axes & ranges.keys():
        end = extreme(atom.numerator, ranges, highest=highest)
        return None if end is None else floordiv(end, atom.denominator)
    if isinstance(atom, Remainder) and not atom.denominator.axes & ranges.keys():
        return atom.denominator - 1 if highest else ix(0)
    return None


# ---- conditions that an expression hides ----


def absent_unless(monoid: Monoid, e: Expr) -> tuple[Cmp, ...]:
    """Conditions without which `e` contributes nothing: it is zero (Sum) or lowest (Max)."""
    return tuple(_zero_unless(e) if monoid is Monoid.SUM else _lowest_unless(e))


def _zero_unless(e: Expr) -> list[Cmp]:
    match e:
        case Choose(condition=Holds() as c) if is_zero(e.otherwise):
            return _merged(c.conditions, _zero_unless(e.then))
        case Choose() if is_zero(e.otherwise):
            return _zero_unless(e.then)
        case Prim(op=Op.MUL) if not e.dtype.is_bool:
            return _merged(*(_zero_unless(a) for a in e.args))
        case Prim(op=Op.ADD):
            left, right = (_zero_unless(a) for a in e.args)
            return [c for c in left if c in right]
        case Prim(op=Op.EXP2):
            return _lowest_unless(e.args[0])
        case Prim(op=Op.CONTIGUOUS) if e.args[0].dtype.is_float:
            return _zero_unless(e.args[0])
        case Reduce(monoid=Monoid.SUM):
            bound = frozenset(e.axes)
            return [c for c in _merged(e.where, _zero_unless(e.body)) if not c.axes & bound]
        case _:
            return []


def _lowest_unless(e: Expr) -> list[Cmp]:
    match e:
        case Choose(condition=Holds() as c) if is_lowest(e.otherwise):
            return _merged(c.conditions, _lowest_unless(e.then))
        case Choose() if is_lowest(e.otherwise):
            return _lowest_unless(e.then)
        case Prim(op=Op.ADD) if e.dtype.is_float:
            return _merged(*(_lowest_unless(a) for a in e.args))
        case Prim(op=Op.MUL) if e.dtype.is_float:
            for n, a in enumerate(e.args):
                if isinstance(a, Const) and a.value > 0:
                    return _lowest_unless(e.args[1 - n])
            return []
        case Prim(op=Op.CONTIGUOUS) if e.dtype.is_float and e.args[0].dtype.is_float:
            return _lowest_unless(e.args[0])
        case Reduce(monoid=Monoid.MAX):
            bound = frozenset(e.axes)
            return [c for c in _merged(e.where, _lowest_unless(e.body)) if not c.axes & bound]
        case _:
            return []


def unmasked(e: Expr) -> tuple[Expr, tuple[Cmp, ...]]:
    """`e` without the masks around it, and where it is that; elsewhere it is lowest."""
    if isinstance(e, Choose) and isinstance(e.condition, Holds) and is_lowest(e.otherwise):
        inner, conditions = unmasked(e.then)
        return inner, (*e.condition.conditions, *conditions)
    return e, ()


def assuming(e: Expr, known: Container[Cmp]) -> Expr:
    """`e` where the known conditions hold: masks say no more than the others."""
    memo: dict[Expr, Expr] = {}

    def visit(x: Expr) -> Expr:
        if x not in memo:
            y = rebuild(x, visit, lambda i: i)
            if isinstance(y, Choose) and isinstance(y.condition, Holds):
                left = tuple(c for c in y.condition.conditions if c not in known)
                y = choose(holds(left), y.then, y.otherwise) if left else y.then
            memo[x] = y
        return memo[x]

    return visit(e)


def chosen_in_tile(
    roots: Iterable[Expr], places: Mapping[Axis, Ix], ranges: Ranges
) -> tuple[dict[Expr, Expr], tuple[Cmp, ...]]:
    """Each choice that all points of a tile make alike, with what they choose; and where that is so.

    `places` are axes of the roots in terms of those that run over the tile, within `ranges`.
    """
    chosen: dict[Expr, Expr] = {}
    conditions: dict[Cmp, None] = {}
    for x in walk(roots):
        if not isinstance(x, Choose) or not isinstance(x.condition, Holds):
            continue
        slacks = [c.substitute(places).slack for c in x.condition.conditions]
        lowest = [extreme(slack, ranges, highest=False) for slack in slacks]
        if any(slack is None or slack.axes & ranges.keys() for slack in lowest):
            continue
        if any(
            isinstance(a, Remainder) and a.numerator.axes & ranges.keys()
            for s in slacks
            for a in s.atoms()
        ):
            continue  # it begins again within the tile: what is known of it hardly ever decides
        found = [Cmp(slack) for slack in lowest if slack is not None]
        if any(c.known() is False for c in found):
            continue
        chosen[x] = map_expr(x.then, chosen)
        conditions |= dict.fromkeys(found)
    return chosen, tuple(conditions)


def is_lowest(e: Expr) -> bool:
    """Whether the value is the neutral element of Max."""
    return isinstance(e, Const) and e.value == e.dtype.lowest


def _merged(*lists: Iterable[Cmp]) -> list[Cmp]:
    return list(dict.fromkeys(c for conditions in lists for c in conditions))
