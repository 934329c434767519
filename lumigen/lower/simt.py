"""simt: the skeleton of vector loops. Any region runs in it: maps, row reductions, column reductions, gathers.

Work tiles are runs of rows (the axes of the store but the last) or runs of the last axis, which is the lane axis.
Reductions that do not vary with the lane axis run before the lane loop, over lanes of their own; those that do run
inside it, one accumulator for each lane.
"""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.index import Axis, Dim, Ix, ceildiv, ix, minimum, product
from lumigen.lower.scope import Names, Scope, address, kernel_reductions, lanes_fit
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
    Region,
    Store,
    free_axes,
    indices_of,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import For, StoreTile, TileProgram


def simt(region: Region, sizes: Schedule) -> TileProgram:
    """The tile program of a region of one store."""
    (store,) = region.stores
    store = merge_axes(store)
    lane = store.axes[-1] if store.axes and store.axes[-1].extent != 1 else None
    rows = tuple(a for a in store.axes if a is not lane)
    reductions = kernel_reductions([store.value])
    per_row, chunk = _grain(store, lane, sizes)

    row_axis = rows[0] if len(rows) == 1 else Axis("row", product(tuple(a.extent for a in rows)))
    row_tasks = ceildiv(row_axis.extent, per_row)
    lane_tasks = ceildiv(lane.extent, chunk) if lane is not None else ix(1)
    task = Axis("task", row_tasks * lane_tasks)

    top = Scope(Names(), reductions, frozenset({task}))
    row_scope = top.inner([row_axis])
    rest = ix(row_axis)
    for position in range(len(rows) - 1, -1, -1) if len(rows) > 1 else ():
        a = rows[position]
        row_scope.bind(a, rest % a.extent if position else rest)
        rest = rest // a.extent
    lanes_ok = lane is not None and store.value.dtype is f32 and lanes_fit([store.value], lane)
    if lane is None:
        (value,) = row_scope.values([store.value])
        row_scope.stmts.append(StoreTile(store.dst, store.at, value, None))
    else:
        inner = row_scope.inner([lane], lane if lanes_ok else None)
        (value,) = inner.values([store.value])
        inner.stmts.append(StoreTile(store.dst, store.at, value, lane if lanes_ok else None))
        part = ix(task) % lane_tasks
        lo = part * chunk
        hi = minimum(lo + chunk, lane.extent)
        row_scope.stmts.append(For(lane, lo, hi, lanes_ok, tuple(inner.stmts)))
    first = ix(task) // lane_tasks * per_row
    last = minimum(first + per_row, row_axis.extent)
    top.stmts.append(For(row_axis, first, last, False, tuple(row_scope.stmts)))
    return TileProgram(
        "simt",
        (*region.reads(), store.dst),
        dims_of(region),
        task,
        task.extent,
        (),
        tuple(top.stmts),
    )


def _grain(store: Store, lane: Axis | None, sizes: Schedule) -> tuple[int, int]:
    """Rows and lanes of a work tile."""
    reductions = [e for e in walk([store.value]) if isinstance(e, Reduce)]
    visits = sum(product(tuple(a.extent for a in r.axes)).estimate() for r in reductions)
    if lane is None:
        return max(1, sizes["visits"] // max(1, visits)), 1
    extent = lane.extent.estimate()
    if any(lane in free_axes(r) for r in reductions):
        return 1, sizes["lanes"]
    if reductions:
        return max(1, sizes["visits"] // max(1, extent + visits)), lane.extent.bounds()[1] or extent
    return max(1, sizes["visits"] // max(1, extent)), sizes["visits"]


def merge_axes(store: Store) -> Store:
    """Join neighbouring axes of a map wherever all its addresses stay affine: fewer, longer loops."""
    if any(isinstance(e, Reduce) for e in walk([store.value])):
        return store
    position = len(store.axes) - 2
    while position >= 0:
        left, right = store.axes[position : position + 2]
        joined = Axis(f"{left.name}{right.name}", left.extent * right.extent)
        split = {left: ix(joined) // right.extent, right: ix(joined) % right.extent}
        value = substitute(store.value, split)
        at = tuple(i.substitute(split) for i in store.at)
        if all(a.coefficient(joined) is not None for a in _addresses(value, store.dst, at)):
            axes = (*store.axes[:position], joined, *store.axes[position + 2 :])
            store = Store(store.dst, axes, at, value, store.add)
        position -= 1
    return store


def _addresses(value: Expr, dst: Buffer, at: tuple[Ix, ...]) -> list[Ix]:
    out = [address(dst, at)]
    for e in walk([value]):
        out.extend([address(e.source, e.at)] if isinstance(e, Read) else indices_of(e))
    return out


def dims_of(region: Region) -> tuple[Dim, ...]:
    """The symbolic dims that the region's extents and indices mention, in order of name."""
    found: set[Dim] = set()
    for s in region.stores:
        extents = [*(a.extent for a in s.axes), *s.dst.dims, *s.at]
        for e in walk([s.value]):
            extents.extend(indices_of(e))
            if isinstance(e, Read):
                extents.extend(e.source.dims)
            if isinstance(e, Reduce):
                extents.extend(a.extent for a in e.axes)
        for extent in extents:
            found.update(a for a in extent.atoms() if isinstance(a, Dim))
            for axis in extent.axes:
                found.update(a for a in axis.extent.atoms() if isinstance(a, Dim))
    return tuple(sorted(found, key=lambda d: d.name))
