"""spread: sums of squares about a value, from those about another one.

    sum_k (t[k] - c)^2 = sum_k (t[k] - a)^2 + n (a - c)^2     where a is the mean of n terms t[k]

So a part of a row sums up squares about its own mean as long as nobody knows that of the row, and what is large in both
terms does not cancel: both are sums of squares. A fact of a reduction; it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.condition import Cmp
from lumigen.dtype import f32, i64
from lumigen.index import Axis, Ix, ix
from lumigen.ops import Op
from lumigen.region import (
    Expr,
    Monoid,
    Prim,
    Reduce,
    const,
    free_axes,
    index,
    prim,
    reduce,
    substitute,
)


@dataclass(frozen=True)
class Spread:
    """`squares` = the sum over its axes of `(term + apart)^2`, where `apart` varies with none of them.

    `total` is the sum of the terms over the same axes.
    """

    squares: Reduce
    total: Reduce
    term: Expr
    apart: Expr


def find_spread(squares: Reduce, total: Reduce) -> Spread | None:
    """The squares as those of the terms of a total, about something; None where they are not, or not of all points."""
    body = squares.body
    if squares.where or total.where or {squares.monoid, total.monoid} != {Monoid.SUM}:
        return None
    if squares.dtype is not f32 or not isinstance(body, Prim) or body.op is not Op.MUL:
        return None
    difference, other = body.args
    if difference is not other or not isinstance(difference, Prim) or difference.op is not Op.ADD:
        return None
    lengths = [[a.extent for a in r.axes] for r in (squares, total)]
    if lengths[0] != lengths[1] or free_axes(squares) != free_axes(total):
        return None
    own: dict[Axis, Ix] = {a: ix(b) for a, b in zip(total.axes, squares.axes, strict=True)}
    for term, apart in (difference.args, difference.args[::-1]):
        if not free_axes(apart) & set(squares.axes) and term is substitute(total.body, own):
            return Spread(squares, total, term, apart)
    return None


def about_own_mean(
    term: Expr, axes: tuple[Axis, ...], count: Ix, inside: tuple[Cmp, ...]
) -> tuple[Expr, Expr]:
    """(the sum of a part's `count` terms, that of their squares about their mean), at the points `inside`."""
    total = reduce(Monoid.SUM, axes, term, f32, inside)
    apart = prim(Op.ADD, (term, _negated(_mean_of(total, count))), f32)
    return total, reduce(Monoid.SUM, axes, prim(Op.MUL, (apart, apart), f32), f32, inside)


def about(squares: Expr, total: Expr, count: Ix, apart: Expr) -> Expr:
    """What a part contributes to the squares about `-apart`, from those about its own mean."""
    moved = prim(Op.ADD, (_mean_of(total, count), apart), f32)
    both = prim(Op.MUL, (prim(Op.MUL, (moved, moved), f32), _as_float(count)), f32)
    return prim(Op.ADD, (squares, both), f32)


def _mean_of(total: Expr, count: Ix) -> Expr:
    return prim(Op.MUL, (total, prim(Op.RECIP, (_as_float(count),), f32)), f32)


def _as_float(count: Ix) -> Expr:
    if count.is_const:
        return const(float(count.const), f32)
    return prim(Op.CONTIGUOUS, (index(count, i64),), f32)


def _negated(e: Expr) -> Expr:
    return prim(Op.MUL, (e, const(-1.0, f32)), f32)
