"""What a region costs: floating-point operations and bytes moved, as expressions of the dims.

Promises a count of the work that the region states, not of what a schedule makes of it: every value
is computed once for each point of the axes it varies with, and every buffer moves once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lumigen.dtype import DType
from lumigen.index import Axis, Dim, Ix, Lookup, ix, minimum, product
from lumigen.ops import Op
from lumigen.region import Buffer, Expr, Prim, Read, Reduce, Region, free_axes, indices_of, walk

_ZERO = ix(0)


@dataclass(frozen=True)
class Cost:
    """Operations on floats; bytes read; bytes written."""

    flops: Ix = _ZERO
    read: Ix = _ZERO
    written: Ix = _ZERO

    def at(self, dims: Mapping[Dim, int]) -> tuple[int, int, int]:
        """(operations, bytes read, bytes written) at these dims."""
        flops, read, written = (e.evaluate(dims) for e in (self.flops, self.read, self.written))
        return int(flops), int(read), int(written)


NOTHING = Cost()


def cost(region: Region) -> Cost:
    """Work and traffic of one run of the region.

    A buffer that is not read whole (a gather, a slice) counts with as many elements as there are reads of it.
    """
    flops = ix(0)
    read: dict[Buffer, Ix] = dict.fromkeys(region.reads(), ix(0))
    places = [i for s in region.stores for i in s.at]
    for e in walk(s.value for s in region.stores):
        if _counts(e):
            flops += _points(
                free_axes(e.body) | {*e.axes} if isinstance(e, Reduce) else free_axes(e)
            )
        elif isinstance(e, Read):
            read[e.source] += _points(free_axes(e)) * e.source.dtype.itemsize
        places += indices_of(e)
    for a in dict.fromkeys(a for i in places for a in i.atoms() if isinstance(a, Lookup)):
        assert isinstance(a.source, Buffer)
        axes = frozenset[Axis]().union(*(i.axes for i in a.at))
        read[a.source] += _points(axes) * a.source.dtype.itemsize
    moved = ix(0)
    for b, elements in read.items():
        moved += minimum(elements, _bytes(b))
    written = ix(0)
    for s in region.stores:
        written += _points(frozenset(s.axes)) * s.dst.dtype.itemsize
    return Cost(flops, moved, written)


def computed_in(region: Region) -> DType | None:
    """The widest floats that the region's operations are on; None where there are none."""
    found = [e.dtype for e in walk(s.value for s in region.stores) if _counts(e)]
    return max(found, key=lambda d: d.bits, default=None)


def _counts(e: Expr) -> bool:
    """Whether it is an operation on floats; a cast is none."""
    return (
        isinstance(e, Prim | Reduce)
        and e.dtype.is_float
        and not (isinstance(e, Prim) and e.op is Op.CONTIGUOUS)
    )


def _points(axes: frozenset[Axis]) -> Ix:
    return product(tuple(map(_size, sorted((a.extent for a in axes), key=str))))


def _bytes(b: Buffer) -> Ix:
    return product(tuple(map(_size, b.dims))) * b.dtype.itemsize


def _size(extent: Ix) -> Ix:
    """Of what an extent says beside dims, nothing is known before a run: axes and lookups count as zero."""
    unknown = {a: ix(0) for a in extent.atoms() if isinstance(a, Axis | Lookup)}
    return extent.substitute(unknown)
