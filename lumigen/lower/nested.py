"""nested: a reduction whose terms hold reductions of rows is one along each row, then one over the rows.

Before: a region of vector loops.  After: a region that stores what each row comes to, in a launch whose tasks compute
the reductions of their rows once; and the region itself, which reads it. No term is stored.

    y = sum_{i, k} f(x[i, k], max_k x[i, k])     rows[i] = sum_k f(x[i, k], max_k x[i, k]);  y = sum_i rows[i]
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.index import Axis, ix
from lumigen.lower.scope import kernel_reductions
from lumigen.names import fresh
from lumigen.region import (
    Buffer,
    Expr,
    Reduce,
    Region,
    Role,
    Store,
    free_axes,
    map_expr,
    read,
    reduce,
    substitute,
)


def nested(region: Region) -> tuple[Region, Region] | None:
    """What the rows come to, and the region over these; None where no reduction holds some of rows."""
    store, *others = region.stores
    if others or region.native:
        return None
    own = frozenset(store.axes)
    for r in kernel_reductions([store.value]):
        rows = row_axes(r)
        if rows and free_axes(r) <= own:
            return _apart(region, r, rows)
    return None


def row_axes(r: Reduce) -> tuple[Axis, ...]:
    """The axes of a reduction that reductions in its terms vary with, if these do not vary with all of its axes."""
    inside = frozenset(a for e in kernel_reductions([r.body]) for a in free_axes(e))
    varying = tuple(a for a in r.axes if a in inside)
    return varying if len(varying) < len(r.axes) else ()


def _apart(region: Region, r: Reduce, rows: tuple[Axis, ...]) -> tuple[Region, Region]:
    (store,) = region.stores
    along = tuple(a for a in r.axes if a not in rows)
    of_rows = tuple(c for c in r.where if not c.axes & {*along})
    of_terms = tuple(c for c in r.where if c not in of_rows)
    kept = tuple(a for a in store.axes if a in free_axes(r))
    name = fresh("rows", {b.name for b in region.buffers()})
    b = Buffer(name, Role.TEMP, tuple(a.extent for a in (*kept, *rows)), r.dtype)
    value = reduce(r.monoid, along, r.body, r.dtype, of_terms)
    stored = _with_own_axes(b, (*kept, *rows), value)
    whole = reduce(r.monoid, rows, read(b, tuple(map(ix, (*kept, *rows)))), r.dtype, of_rows)
    rest = replace(store, value=map_expr(store.value, {r: whole}))
    return replace(region, stores=(stored,)), replace(region, stores=(rest,))


def _with_own_axes(b: Buffer, axes: tuple[Axis, ...], value: Expr) -> Store:
    """The store of a value for each point of the axes; they have other names than what reductions inside are over.

    The squares about a mean of all rows are over the same rows as the mean.
    """
    inside = {a for e in kernel_reductions([value]) for a in e.axes}
    taken = {a.name for a in inside | {*axes}}
    own: list[Axis] = []
    for a in axes:
        own.append(replace(a, name=fresh(a.name, taken)) if a in inside else a)
        taken.add(own[-1].name)
    places = tuple(map(ix, own))
    return Store(b, tuple(own), places, substitute(value, dict(zip(axes, places, strict=True))))
