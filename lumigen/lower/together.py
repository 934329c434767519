"""together: rows of a result that read the same, several at a time.

Before: a store of sums over the same elements, each with others beside them, as a product of one row with a matrix has
them:  After: so many stores, of rows that lie side by side. One loop adds up for all of them and reads once what
they share:

    out[n] = sum over k of x[k]*w[n, k]
    out[4*n], ... out[4*n + 3] = sum over k of x[k]*w[4*n, k], ... sum over k of x[k]*w[4*n + 3, k]

Where memory gives the elements of a row faster than the ones that rows share come from a cache, as where the first are
of a byte or less, the second would be what a team waits for.
"""

from __future__ import annotations

from itertools import product

from lumigen.dtype import f32
from lumigen.index import Axis, Ix, extent_of, ix
from lumigen.lower.scope import address, kernel_reductions
from lumigen.machine import Teams
from lumigen.region import Read, Reduce, Scan, Store, free_axes, substitute, walk


def rows_together(stores: tuple[Store, ...], teams: Teams | None) -> tuple[Store, ...]:
    """The stores of so many rows at a time as share more bytes than each has of its own; as they are if none do.

    What rows share may have rows of its own, a few, as those of a small batch: all of them are together.
    """
    store, *others = stores
    axes = [a for a in store.axes if a.extent != 1]
    if teams is None or others or not axes or any(not a.extent.is_const for a in axes):
        return stores
    *batch, row = axes
    found = kernel_reductions([store.value])
    few = extent_of(batch).const
    if few > teams.together or any(isinstance(e, Scan) for e in walk([store.value])):
        return stores
    if not found or not all(_share(r, row, batch) for r in found):
        return stores
    most = teams.together if few == 1 else 2 * teams.together // few
    count = next(n for n in _halves(most) if row.extent % n == 0)
    if count * few == 1:
        return stores
    outer = Axis(f"{row.name}_outer", row.extent // count)
    points = product(*(range(a.extent.const) for a in batch), range(count))
    return tuple(
        _moved(
            store,
            dict(zip(batch, map(ix, rest), strict=True)) | {row: ix(outer) * count + i},
            outer,
        )
        for *rest, i in points
    )


def are_together(stores: tuple[Store, ...]) -> bool:
    """Whether stores are of several rows of the same."""
    return len({s.dst for s in stores}) < len(stores)


def _halves(count: int) -> list[int]:
    return [count >> i for i in range(count.bit_length())]


def _share(r: Reduce, row: Axis, batch: list[Axis]) -> bool:
    """Whether terms of several rows read the same along memory, and each row has bytes or bits of its own.

    Rows of 16 bits are for a team each: it has a whole row on its way at once, and waits for memory alone.
    """
    if r.dtype is not f32 or r.where or row not in free_axes(r):
        return False
    own, shared = list[int](), list[int]()
    for e in walk([r.body]):
        if not isinstance(e, Read) or not free_axes(e) & set(r.axes):
            continue
        along = address(e.source, e.at).coefficient(r.axes[-1]) == 1
        if row in free_axes(e) and free_axes(e) & set(batch):
            return False
        if row in free_axes(e):
            own.append(e.source.dtype.itemsize)
        elif along:
            shared.append(e.source.dtype.itemsize)
    return bool(own and shared) and min(own) == 1 < max(shared)


def _moved(store: Store, to: dict[Axis, Ix], outer: Axis) -> Store:
    kept = (a for a in store.axes if a not in to)
    axes = (*kept, outer)
    at = tuple(i.substitute(to) for i in store.at)
    return Store(store.dst, axes, at, substitute(store.value, to))
