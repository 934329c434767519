"""axes: give a region canonical axis names, so that reductions over the same factor share one axis.

Before: bound axes are named after the nodes they come from.  After: stores run over i0, i1, ...; reductions over
k0, k1, ...; two reductions over equal extents share an axis unless one would capture the other's.
Renaming bound axes is always sound. Shared names let later analysis see that a maximum, a sum and a contraction
range over the same axis. Equal computations get equal text, which is the structural hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lumigen.condition import Cmp
from lumigen.index import Axis, Ix, ix
from lumigen.memo import remembered
from lumigen.region import (
    Expr,
    Reduce,
    Region,
    Store,
    free_axes,
    rebuild,
    reduce,
    substitute,
    walk,
)


@remembered
def unify_axes(region: Region) -> Region:
    """The region over canonical axes, which its stores share."""
    own = dict.fromkeys(a for s in reversed(region.stores) for a in s.axes)
    axes = {a: Axis(f"i{d}", a.extent) for d, a in enumerate(own)}
    names: dict[Axis, Ix] = {old: ix(new) for old, new in axes.items()}
    values = _canonical([substitute(s.value, names) for s in region.stores])
    stores = (
        Store(
            s.dst,
            tuple(axes[a] for a in s.axes),
            tuple(i.substitute(names) for i in s.at),
            value,
        )
        for s, value in zip(region.stores, values, strict=True)
    )
    return replace(region, stores=tuple(stores))


def shared_axes(e: Expr) -> Expr:
    """The expression with bound axes named by what they range over: equal reductions become one expression."""
    return _share(e)


def _canonical(exprs: Iterable[Expr]) -> list[Expr]:
    values = list(map(_share, exprs))
    bound = dict.fromkeys(a for e in walk(values) if isinstance(e, Reduce) for a in e.axes)
    names = {a: Axis(f"k{n}", a.extent) for n, a in enumerate(bound)}
    renamed: dict[Expr, Expr] = {}
    return [_rename(e, names, renamed) for e in values]


@remembered
def _share(e: Expr) -> Expr:
    """Rename each bound axis to the first shared name of its extent that captures nothing."""
    out = rebuild(e, _share, lambda i: i)
    if isinstance(out, Reduce):
        body, where = out.body, out.where
        axes: list[Axis] = []
        for axis in out.axes:
            new = _first_free(axis, body, frozenset(axes) | frozenset(out.axes) - {axis})
            body = substitute(body, {axis: ix(new)})
            where = _moved(where, axis, new)
            axes.append(new)
        out = reduce(out.monoid, tuple(axes), body, out.dtype, where)
    return out


def _moved(where: tuple[Cmp, ...], old: Axis, new: Axis) -> tuple[Cmp, ...]:
    return tuple(c.substitute({old: ix(new)}) for c in where)


def _first_free(axis: Axis, body: Expr, siblings: frozenset[Axis]) -> Axis:
    taken = (free_axes(body) - {axis}) | siblings
    for e in walk([body]):
        if isinstance(e, Reduce) and axis in free_axes(e):
            taken |= frozenset(e.axes)
    number = 0
    while (candidate := Axis(f"r{number}({axis.extent})", axis.extent)) in taken:
        number += 1
    return candidate


def _rename(e: Expr, names: dict[Axis, Axis], memo: dict[Expr, Expr]) -> Expr:
    """Rename bound axes everywhere at once; the new names are distinct and unused, so nothing is captured."""
    if e in memo:
        return memo[e]
    mapping = {old: ix(new) for old, new in names.items()}

    def visit(x: Expr) -> Expr:
        if x not in memo:
            out = rebuild(x, visit, lambda i: i.substitute(mapping))
            if isinstance(x, Reduce) and isinstance(out, Reduce):
                axes = tuple(names.get(a, a) for a in x.axes)
                out = reduce(out.monoid, axes, out.body, out.dtype, out.where)
            memo[x] = out
        return memo[x]

    return visit(e)
