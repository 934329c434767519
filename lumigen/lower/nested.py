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
from lumigen.region import Buffer, Reduce, Region, Role, Store, free_axes, map_expr, read, reduce


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
    kept = (*(a for a in store.axes if a in free_axes(r)), *rows)
    along = tuple(a for a in r.axes if a not in rows)
    of_rows = tuple(c for c in r.where if not c.axes & {*along})
    of_terms = tuple(c for c in r.where if c not in of_rows)
    name = fresh("rows", {b.name for b in region.buffers()})
    b = Buffer(name, Role.TEMP, tuple(a.extent for a in kept), r.dtype)
    place = tuple(map(ix, kept))
    value = reduce(r.monoid, along, r.body, r.dtype, of_terms)
    whole = reduce(r.monoid, rows, read(b, place), r.dtype, of_rows)
    rest = replace(store, value=map_expr(store.value, {r: whole}))
    return (
        replace(region, stores=(Store(b, kept, place, value),)),
        replace(region, stores=(rest,)),
    )
