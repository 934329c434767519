"""state_parts: parts of expressions over the scores of a tile and the states of its rows, which are computed once."""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.region import Carried, Expr, children, free_axes, local, map_expr, walk


def common_part(roots: list[Expr], inner: Expr) -> Expr:
    """The largest expression around `inner` through which alone the roots depend on it, and on no state."""
    chosen = inner
    mark = local("inner", frozenset(), f32)
    for e in walk(roots):  # operands before users
        if e.dtype is not f32 or any(isinstance(x, Carried) for x in walk([e])):
            continue
        if inner not in walk([e]):
            continue
        left = [map_expr(r, {e: mark}) for r in roots]
        if all(inner not in walk([r]) for r in left):
            chosen = e
    return chosen


def parts_of_rows(e: Expr, states: frozenset[Expr]) -> list[Expr]:
    """The largest parts of an expression that are made of numbers of a row alone."""
    if any(x in states for x in walk([e])):
        if all((not free_axes(x) and not isinstance(x, Carried)) or x in states for x in walk([e])):
            return [e]
        return list(dict.fromkeys(x for c in children(e) for x in parts_of_rows(c, states)))
    return []
