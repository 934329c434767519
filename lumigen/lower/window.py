"""window: a store over an old value writes only the elements that change.

Before: `dst[i] = new if 0 <= i - p < n else dst[i]` for every i.  After: `dst[p + j] = new` for j below n, where
p + j is inside the buffer. p may be an integer that is read when the kernel runs. A window that wraps around to 0
at the end, `(i - p) % extent < n`, is `dst[(p + j) % extent]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard

from lumigen.condition import Cmp
from lumigen.index import Atom, Axis, Ix, Lookup, Remainder, is_nonnegative, ix, of_atom
from lumigen.lower.scope import is_safe
from lumigen.region import (
    Choose,
    Expr,
    Holds,
    Read,
    Store,
    choose,
    const,
    holds,
    rebuild,
    substitute,
)


def windowed(store: Store) -> tuple[Store, tuple[Cmp, ...]]:
    """The store over what changes alone, and where it is to store; the store itself where it says no such thing."""
    changed = store.value
    if not isinstance(changed, Choose) or not isinstance(changed.condition, Holds):
        return store, ()
    kept = changed.otherwise
    if not isinstance(kept, Read) or kept.source != store.dst or not is_at(kept, store):
        return store, ()
    where = changed.condition.conditions
    moved: dict[Axis, Ix] = {}
    back: dict[Atom, Ix] = {}
    axes: list[Axis] = []
    for axis in store.axes:
        found = _window(axis, where)
        if found is None:
            axes.append(axis)
            continue
        start, length, turns = found
        inner = Axis(axis.name, length)
        axes.append(inner)
        moved[axis] = (start + inner) % axis.extent if turns else start + inner
        if turns:
            turned = Remainder(moved[axis] - start, axis.extent)
            back[turned] = ix(inner)  # as the window is no longer than the ring
        where += (Cmp(ix(axis)), Cmp(axis.extent - 1 - axis))
    left = dict.fromkeys(c.substitute(moved).substitute(back) for c in where)
    at = tuple(i.substitute(moved) for i in store.at)
    value = _with_places(substitute(changed.then, moved), back)
    asked = tuple(c for c in left if c.known() is not True)
    if asked and not is_safe(value, inside=True):
        value = choose(holds(asked), value, const(0, value.dtype))
    return replace(store, axes=tuple(axes), at=at, value=value), asked


def is_at(e: Read, store: Store) -> bool:
    """Whether a read of a buffer of the same extents is of the place that is stored; one element has one place."""
    places = zip(e.at, store.at, store.dst.dims, strict=True)
    return all(a == b or extent == 1 for a, b, extent in places)


def _window(axis: Axis, conditions: tuple[Cmp, ...]) -> tuple[Ix, Ix, bool] | None:
    """(start, length, whether it begins again at 0) of the points that conditions leave of an axis.

    None unless they leave as many wherever it starts.
    """
    ends: dict[int, list[Ix]] = {1: [], -1: []}
    for c in conditions:
        factor = c.slack.coefficient(axis)
        if factor is not None and factor.is_const and factor.const in ends:
            ends[factor.const].append(c.slack - factor * axis)
    for low in (*ends[1], ix(0)):
        for high in (*ends[-1], axis.extent - 1):
            length = low + high + 1  # -low <= axis <= high
            if _is_fixed(length) and length is not axis.extent:
                return -low, length, False
    for c in conditions:
        for monomial, k in c.slack.terms:
            turned, length = monomial[0], c.slack + of_atom(monomial[0]) + 1
            if len(monomial) > 1 or k != -1 or not _turns(turned, axis) or not _is_fixed(length):
                continue
            if is_nonnegative(axis.extent - length) and length is not axis.extent:
                return axis - turned.numerator, length, True
    return None


def _with_places(e: Expr, places: Mapping[Atom, Ix]) -> Expr:
    """The expression with parts of its index expressions replaced."""
    memo: dict[Expr, Expr] = {}

    def visit(x: Expr) -> Expr:
        found = memo.get(x)
        if found is None:
            found = memo[x] = rebuild(x, visit, lambda i: i.substitute(places))
        return found

    return visit(e) if places else e


def _is_fixed(length: Ix) -> bool:
    return not length.axes and not any(isinstance(a, Lookup) for a in length.atoms())


def _turns(atom: Atom, axis: Axis) -> TypeGuard[Remainder]:
    """Whether it is (axis + start) % extent: each point of the axis once, in turn."""
    return (
        isinstance(atom, Remainder)
        and atom.denominator is axis.extent
        and atom.numerator.coefficient(axis) == 1
    )
