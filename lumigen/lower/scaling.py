"""scaling: constant factors in a cascade, moved to where they cost one instruction or none."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan, nan

from lumigen.dtype import f32
from lumigen.lower.bounds import is_lowest
from lumigen.lower.cascade import Cascade
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Monoid,
    Prim,
    carried,
    choose,
    const,
    map_expr,
    prim,
    walk,
)


def unscaled(found: Cascade) -> Cascade:
    """The cascade with the positive constants outside that its maxima are of: max(c x) is c max(x).

    Exactly so: rounding keeps the order. What is c times something is then the affair of its users.
    """
    for i, c in enumerate(found.fold.carries):
        parts = _scaled(c.tile) if c.monoid is Monoid.MAX else None
        if parts is None:
            continue
        factor, rest = parts
        scaled: dict[Expr, Expr] = {c.tile: prim(Op.MUL, (rest, factor), f32)}
        for which in ("old", "new"):
            state = carried(i, which, f32)
            scaled[state] = prim(Op.MUL, (state, factor), f32)
        found = _rewritten(found, i, rest, scaled)
    return found


def _scaled(tile: Expr) -> tuple[Expr, Expr] | None:
    """(c, x) of c x for a constant c > 0, also where conditions hold and the lowest elsewhere."""
    if isinstance(tile, Choose) and is_lowest(tile.otherwise):
        parts = _scaled(tile.then)
        return parts and (parts[0], choose(tile.condition, parts[1], tile.otherwise))
    if isinstance(tile, Prim) and tile.op is Op.MUL:
        for x, c in (tile.args, tile.args[::-1]):
            if 0 < _factor(c) < inf:
                return c, x
    return None


def _factor(e: Expr) -> float:
    """The value of a constant, or of the reciprocal of one; NaN of anything else."""
    if isinstance(e, Prim) and e.op is Op.RECIP and isinstance(e.args[0], Const):
        return 1 / e.args[0].value if e.args[0].value else inf
    return e.value if isinstance(e, Const) else nan


def _rewritten(found: Cascade, number: int, tile: Expr, scaled: dict[Expr, Expr]) -> Cascade:
    carries = tuple(
        replace(c, tile=tile)
        if i == number
        else replace(
            c,
            tile=map_expr(c.tile, scaled),
            correct=None if c.correct is None else map_expr(c.correct, scaled),
        )
        for i, c in enumerate(found.fold.carries)
    )
    outers = tuple(replace(o, weights=map_expr(o.weights, scaled)) for o in found.outers)
    fold = replace(found.fold, carries=carries)
    others = tuple(replace(s, value=map_expr(s.value, scaled)) for s in found.others)
    after = map_expr(found.after, scaled)
    return replace(found, fold=fold, outers=outers, after=after, others=others)


def straightened(e: Expr, x: Expr) -> Expr:
    """With a x + b, one instruction, for the exponents that are linear in x: (x - row) c is c x + (-c row).

    The rounding of c row is common to all weights of a row and goes with their sum, which is of the same weights.
    """
    exponents = (p for p in walk([e]) if isinstance(p, Prim) and p.op is Op.EXP2)
    simpler: dict[Expr, Expr] = {}
    for p in exponents:
        parts = linear(p.args[0], x)
        if parts is not None and parts[0] != 0:
            slope, rest = parts
            product_of = x if slope == 1 else prim(Op.MUL, (x, const(slope, f32)), f32)
            line = product_of if rest is None else prim(Op.ADD, (product_of, rest), f32)
            simpler[p] = prim(Op.EXP2, (line,), f32)
    return map_expr(e, simpler)


def linear(e: Expr, x: Expr) -> tuple[float, Expr | None] | None:
    """(a, b) of e = a x + b with constant a and b without x; None if it is of another form."""
    if e == x:
        return 1.0, None
    if x not in walk([e]):
        return 0.0, e
    if not isinstance(e, Prim) or e.op not in (Op.ADD, Op.MUL):
        return None
    if e.op is Op.MUL:
        for y, c in (e.args, e.args[::-1]):
            parts = None if isnan(_factor(c)) else linear(y, x)
            if parts is not None:
                rest = None if parts[1] is None else prim(Op.MUL, (parts[1], c), f32)
                return parts[0] * _factor(c), rest
        return None
    found = [f for f in (linear(a, x) for a in e.args) if f is not None]
    if len(found) < len(e.args):
        return None
    kept = [b for _, b in found if b is not None]
    rest = prim(Op.ADD, tuple(kept), f32) if len(kept) > 1 else next(iter(kept), None)
    return sum(slope for slope, _ in found), rest
