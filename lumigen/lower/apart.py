"""apart: a product of few tiles and a long depth, whose parts are a batch, and what adds them up.

Before: a region of one product, of operands in memory.  After: two. The first stores the sums of each part, in f32: a
product like any other, with a batch more. The second adds them up in the order of the parts, and goes on from there.

    y[m, n] = sum_k a[m, k] b[k, n]     parts[p, m, n] = sum_{c < 1024} a[m, 1024 p + c] b[1024 p + c, n]
                                        y[m, n] = sum_p parts[p, m, n]

Blocks that share a tile (`parts_of` of pipeline) need no second launch, but the one that ends last adds up alone what
all others have. That is little of a few parts, and most of the time of dozens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lumigen.dtype import f32
from lumigen.index import Axis, extent_of, ix
from lumigen.lower.contract import Contraction
from lumigen.lower.pipeline import multiplied_in
from lumigen.machine import Gpu, PartsApart
from lumigen.names import fresh
from lumigen.region import (
    Buffer,
    Monoid,
    Read,
    Region,
    Role,
    Store,
    map_expr,
    read,
    reduce,
    substitute,
)


def parts_apart(found: Contraction, region: Region, machine: Gpu) -> tuple[Region, Region] | None:
    """(what stores the sums of the parts, what adds them up); None where parts gain nothing, or do not divide it."""
    size = machine.products.apart
    axes = tuple(a for a in found.reduce.axes if a.extent != 1)
    sizes = (found.grid, found.m_axes, found.n_axes, axes)
    if size is None or len(axes) != 1 or not all(extent_of(each).is_const for each in sizes):
        return None
    factors = (found.rows, found.columns)
    if multiplied_in(*factors) is f32 or not all(isinstance(e, Read) for e in factors):
        return None
    parts = _count(found, axes, size, machine)
    return in_parts(found, region, axes[0], parts) if parts > 1 else None


def _count(found: Contraction, axes: tuple[Axis, ...], size: PartsApart, machine: Gpu) -> int:
    """As many as there are multiprocessors, or somewhat fewer; 1 of products that are better off whole."""
    batch, m, n, k = (_size(each) for each in (found.grid, found.m_axes, found.n_axes, axes))
    tiles = batch * -(-m // size.rows) * -(-n // size.columns)
    most = min(machine.multiprocessors // tiles, k // size.depth)
    if k < machine.products.long_part or 2 * m < size.rows or 4 * n < size.columns:
        return 1
    parts = next((p for p in range(most, most // 2, -1) if k % (p * size.step) == 0), 1)
    operands = batch * (m + n) * k * 2
    return parts if operands >= size.worth * 2 * f32.itemsize * parts * batch * m * n else 1


def _size(axes: Iterable[Axis]) -> int:
    return extent_of(axes).estimate()


def in_parts(found: Contraction, region: Region, k: Axis, parts: int) -> tuple[Region, Region]:
    """(what stores the sums of so many parts along an axis of the depth, what adds them up)."""
    (store,), whole = region.stores, found.reduce
    taken = {b.name for b in region.buffers()} | {a.name for a in (*store.axes, *whole.axes)}
    part, inner = Axis(fresh("part0", taken), ix(parts)), Axis(k.name, k.extent // parts)
    body = substitute(whole.body, {k: ix(part) * inner.extent + inner})
    terms = tuple(inner if a is k else a for a in whole.axes)
    kept = tuple(a for a in store.axes if a in (*found.grid, *found.m_axes, *found.n_axes))
    axes = (part, *kept)
    made = Buffer(fresh("parts", taken), Role.TEMP, tuple(a.extent for a in axes), f32)
    place = tuple(map(ix, axes))
    sums = Store(made, axes, place, reduce(Monoid.SUM, terms, body, f32))
    added = reduce(Monoid.SUM, (part,), read(made, place), f32)
    rest = replace(store, value=map_expr(store.value, {whole: added}))
    return Region((sums,), region.lines), Region((rest,), region.lines)
