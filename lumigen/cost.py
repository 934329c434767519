"""What a region costs: floating-point operations and bytes moved, as expressions of the dims.

Promises a count of the work that the region states, not of what a schedule makes of it: every value
is computed once for each point of the axes it varies with, and every buffer moves once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product as choices

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
    values = walk(s.value for s in region.stores)
    windows = [w for e in values if isinstance(e, Reduce) for w in _windows(e)]
    for e in values:
        if _counts(e):
            over = free_axes(e.body) | {*e.axes} if isinstance(e, Reduce) else free_axes(e)
            flops += _points(over, windows)
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


_Window = tuple[Axis, frozenset[Axis], Ix]  # at each point of some axes so many points of another


def _windows(r: Reduce) -> Iterator[_Window]:
    """Where two conditions leave a number of points of a reduced axis, as those of a part of it, or of a window."""
    for axis, low, high in choices(r.axes, r.where, r.where):
        if low.slack.coefficient(axis) == 1 and high.slack.coefficient(axis) == -1:
            most = (low.slack + high.slack + 1).bounds()[1]
            around = low.axes - {axis}
            if most is not None and around and around == high.axes - {axis}:
                yield axis, around, minimum(axis.extent, ix(max(0, most)))


def _points(axes: frozenset[Axis], windows: Iterable[_Window] = ()) -> Ix:
    fewer = {axis: count for axis, around, count in windows if around <= axes}
    extents = (fewer.get(a, a.extent) for a in axes)
    return product(tuple(map(_size, sorted(extents, key=str))))


def _bytes(b: Buffer) -> Ix:
    return product(tuple(map(_size, b.dims))) * b.dtype.itemsize


def _size(extent: Ix) -> Ix:
    """Of what an extent says beside dims, nothing is known before a run: axes and lookups count as zero."""
    unknown = {a: ix(0) for a in extent.atoms() if isinstance(a, Axis | Lookup)}
    return extent.substitute(unknown)
