"""depth: the order in which a product takes the points of its depth.

Before: products of a region, whose sums are over axes in some order.  After: the same sums over axes in the order of
memory of an operand, where more of what is read lies so in whole vectors of 16 bytes, or in halves of them. A sum has
the same terms in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lumigen.index import Axis, Ix, ix, product
from lumigen.lower.contract import Contraction, Products
from lumigen.lower.gathered import PIECES
from lumigen.lower.scope import address
from lumigen.region import Buffer, Expr, Read, Reduce, Region, Store, map_expr, reduce, walk


def along_memory(found: Sequence[Products], region: Region) -> tuple[tuple[Products, ...], Region]:
    """The products of each store with their depth in the order of memory, and the region that holds them."""
    out: list[Products] = []
    stores: list[Store] = []
    for products, store in zip(found, region.stores, strict=True):
        each = [_ordered(c) for c in products.each]
        moved: dict[Expr, Expr] = {
            a.reduce: b.reduce for a, b in zip(products.each, each, strict=True)
        }
        out.append(replace(products, each=tuple(each)))
        stores.append(replace(store, value=map_expr(store.value, moved)))
    return tuple(out), replace(region, stores=tuple(stores))


def _ordered(found: Contraction) -> Contraction:
    """The first order in which most of what is read lies in vectors; the present one comes before others."""
    r, axes = found.reduce, found.reduce.axes
    reads = [e for e in walk([found.rows, found.columns]) if isinstance(e, Read)]
    places = [address(e.source, e.at) for e in reads]
    orders = [axes, *(tuple(sorted(axes, key=lambda a: -_stride(at, a))) for at in places)]

    def in_vectors(order: tuple[Axis, ...]) -> int:
        each = zip(reads, places, strict=True)
        return sum(
            _piece(at, order, e.source) * product(e.source.dims).estimate() for e, at in each
        )

    best = max(orders, key=in_vectors)
    if in_vectors(best) == in_vectors(axes):
        return found
    moved = reduce(r.monoid, best, r.body, r.dtype, r.where)
    assert isinstance(moved, Reduce), "the same terms"
    return replace(found, reduce=moved)


def _piece(at: Ix, order: tuple[Axis, ...], source: Buffer) -> int:
    """Bytes of the pieces in which neighbours along the last axes are neighbours in memory; 0 where they are not."""
    width = ix(1)
    for axis in reversed(order):
        if axis.extent == 1:
            continue
        if at.coefficient(axis) != width:
            break
        width = width * axis.extent
    run = width * source.dtype.itemsize
    return next((size for size in PIECES if width != 1 and run % size == 0), 0)


def _stride(at: Ix, axis: Axis) -> int:
    found = at.coefficient(axis)
    return 0 if found is None else found.estimate()
