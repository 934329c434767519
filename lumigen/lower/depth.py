"""depth: the order in which a product takes the points of its depth.

Before: products of a region, whose sums are over axes in some order.  After: the same sums, with the axis last along
which most of their operands are contiguous, in whole vectors of 16 bytes; the others by their strides. A sum has the
same terms in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lumigen.index import Axis, Ix
from lumigen.lower.contract import Contraction, Products
from lumigen.lower.scope import address
from lumigen.region import Expr, Read, Reduce, Region, map_expr, reduce, walk

VECTOR = 16  # bytes


def along_memory(found: Products, region: Region) -> tuple[Products, Region]:
    """The products with their depth in the order of memory, and the region that holds them."""
    (store,) = region.stores
    each = [_ordered(c) for c in found.each]
    moved: dict[Expr, Expr] = {a.reduce: b.reduce for a, b in zip(found.each, each, strict=True)}
    if all(a is b for a, b in moved.items()):
        return found, region
    meaning = Region((replace(store, value=map_expr(store.value, moved)),), region.lines)
    return replace(found, each=tuple(each)), meaning


def _ordered(found: Contraction) -> Contraction:
    axes = found.reduce.axes
    reads = [e for e in walk([found.rows, found.columns]) if isinstance(e, Read)]
    counts = [sum(_is_contiguous(e, a) for e in reads) for a in axes]
    most = max(counts)
    alone = sum(a.extent != 1 for a in axes) < 2
    if most == 0 or counts[-1] == most or alone or _is_one_line((found.rows, found.columns), axes):
        return found
    last = axes[counts.index(most)]
    by = next(e for e in reads if _is_contiguous(e, last))
    at = address(by.source, by.at)
    order = sorted(axes, key=lambda a: (a is last, -_stride(at, a)))
    r = found.reduce
    moved = reduce(r.monoid, tuple(order), r.body, r.dtype, r.where)
    assert isinstance(moved, Reduce), "the same terms"
    return replace(found, reduce=moved)


def _is_contiguous(e: Read, axis: Axis) -> bool:
    """Whether neighbours along the axis are neighbours in memory, in whole vectors."""
    whole = axis.extent * e.source.dtype.itemsize % VECTOR == 0
    return whole and address(e.source, e.at).coefficient(axis) == 1


def _is_one_line(factors: Sequence[Expr], axes: tuple[Axis, ...]) -> bool:
    """Whether one axis over all of the depth is a line of memory in each operand already."""
    return all(isinstance(e, Read) and _lies_as(e, axes) for e in factors)


def _lies_as(e: Read, axes: tuple[Axis, ...]) -> bool:
    at, width = address(e.source, e.at), 1
    for axis in reversed(axes):
        if at.coefficient(axis) != width:
            return False
        width = width * axis.extent
    return True


def _stride(at: Ix, axis: Axis) -> int:
    found = at.coefficient(axis)
    return 0 if found is None else found.estimate()
