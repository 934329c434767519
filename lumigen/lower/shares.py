"""shares: what is known of a fold's shares 2^a / sum(2^a), where no a is above zero.

A share is NaN just where the total is NaN or zero, at all points alike: a term that is NaN makes the total NaN.
So to choose by whether a share is NaN is one choice for all points, which leaves the sums of the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from lumigen.dtype import boolean
from lumigen.index import Axis
from lumigen.lower.algebra import is_not_nan
from lumigen.lower.terms import NoNormalForm, NormalForm, Term
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Expr,
    Monoid,
    Prim,
    Reduce,
    const,
    free_axes,
    is_zero,
    map_expr,
    prim,
    reduce,
    walk,
)

IsBelowZero = Callable[[Term], bool]  # whether no exponent of a term is above zero


def sums_of_sides(
    r: Reduce, form: NormalForm, is_below_zero: IsBelowZero
) -> tuple[Expr, tuple[Expr, Expr]] | None:
    """A choice in a sum's body that is one for all points: its condition, and the sum of each side."""
    if r.monoid is not Monoid.SUM:
        return None
    for c in _choices(r.body):
        if not form.mixed(c.condition):
            continue
        condition = _of_all_points(c.condition, r.axes, form, is_below_zero)
        if condition is not None:
            return condition, (_side(r, c, c.then), _side(r, c, c.otherwise))
    return None


def _side(r: Reduce, c: Choose, side: Expr) -> Expr:
    if is_zero(side):  # no point has a term, whatever the factors are
        return const(0, r.dtype)
    return reduce(Monoid.SUM, r.axes, map_expr(r.body, {c: side}), r.dtype, r.where)


def _choices(e: Expr) -> Iterator[Choose]:
    """The choices among the factors of a product, casts looked through."""
    if isinstance(e, Choose):
        yield e
    elif isinstance(e, Prim) and e.op in (Op.MUL, Op.CONTIGUOUS):
        for a in e.args:
            yield from _choices(a)


def _of_all_points(
    condition: Expr, axes: tuple[Axis, ...], form: NormalForm, is_below_zero: IsBelowZero
) -> Expr | None:
    """The condition, said without what varies over `axes`; None if that cannot be shown."""
    said: dict[Expr, Expr] = {}
    for c in walk([condition]):
        x = is_not_nan(c)
        total = _total(x, form, is_below_zero) if x is not None and form.mixed(x) else None
        if total is not None:
            said[c] = prim(Op.LESS_THAN, (const(0, total.dtype), total), boolean)
    out = map_expr(condition, said)
    return None if free_axes(out) & set(axes) else out


def _total(x: Expr, form: NormalForm, is_below_zero: IsBelowZero) -> Expr | None:
    """The sum whose share `x` is."""
    while isinstance(x, Prim) and x.op is Op.CONTIGUOUS and x.args[0].dtype.is_float:
        x = x.args[0]
    try:
        terms = form.terms(x)
        divided = {t.state for t in terms}
        if len(divided) != 1:
            return None
        (state,) = divided
        total = _inverted(state)
        if total is None or total.where or total not in form.targets:
            return None
        powers = [replace(t, state=()) for t in terms]
        is_share = set(powers) == set(form.terms(total.body)) and all(
            not t.data and not t.fixed and not t.rounded and t.coef == 1 and is_below_zero(t)
            for t in powers
        )
    except NoNormalForm:
        return None
    return total if is_share else None


def _inverted(state: tuple[Expr, ...]) -> Reduce | None:
    """The sum of which a state is the reciprocal."""
    match state:
        case (Prim(op=Op.RECIP, args=(Reduce(monoid=Monoid.SUM) as total,)),):
            return total
        case _:
            return None
