"""guard: give reductions the conditions that their reads need.

Before: a reduction may be masked, and read outside its buffers where the mask excludes it (a padded
view of sums).  After: the conditions of the masks that its reads need are among its own, so that it
can be computed before them.
"""

from __future__ import annotations

from lumigen.condition import Cmp
from lumigen.lower.scope import is_safe
from lumigen.region import (
    Choose,
    Expr,
    Holds,
    Reduce,
    choose,
    free_axes,
    negation,
    rebuild,
    reduce,
)


def guard_reductions(e: Expr) -> Expr:
    memo: dict[tuple[Expr, frozenset[Cmp]], Expr] = {}

    def visit(x: Expr, known: frozenset[Cmp]) -> Expr:
        key = x, known
        if key not in memo:
            memo[key] = step(x, known)
        return memo[key]

    def step(x: Expr, known: frozenset[Cmp]) -> Expr:
        if isinstance(x, Choose) and isinstance(x.condition, Holds):
            then = visit(x.then, known | frozenset(x.condition.conditions))
            denied = negation(x.condition)
            here = frozenset(denied.conditions) if isinstance(denied, Holds) else frozenset[Cmp]()
            return choose(x.condition, then, visit(x.otherwise, known | here))
        if isinstance(x, Reduce):
            body = visit(x.body, known | frozenset(x.where))
            out = reduce(x.monoid, x.axes, body, x.dtype, x.where)
            if not known or is_safe(x.body, inside=True) or not isinstance(out, Reduce):
                return out
            have = free_axes(out) | frozenset(out.axes)
            wanted = tuple(sorted((c for c in known if c.slack.axes <= have), key=str))
            return reduce(out.monoid, out.axes, out.body, out.dtype, (*out.where, *wanted))
        return rebuild(x, lambda c: visit(c, known), lambda i: i)

    return visit(e, frozenset())
