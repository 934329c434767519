"""What a region costs: floating-point operations and bytes moved, at the dims' typical values.

Promises a count of the work that the region states, not of what a schedule makes of it: every value
is computed once for each point of the axes it varies with, and every buffer moves once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lumigen.index import Axis, Ix
from lumigen.ops import Op
from lumigen.region import Buffer, Prim, Read, Reduce, Region, free_axes, walk
from lumigen.view import Shape


@dataclass(frozen=True)
class Cost:
    """Operations on floats; bytes read and written."""

    flops: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)


def cost(region: Region) -> Cost:
    """Work and traffic of one run of the region."""
    flops = 0
    read: dict[Buffer, int] = dict.fromkeys(region.reads(), 0)
    looked_up = set(read)
    for e in walk(s.value for s in region.stores):
        if isinstance(e, Prim) and e.op is not Op.CONTIGUOUS and e.dtype.is_float:
            flops += _points(free_axes(e))
        elif isinstance(e, Reduce) and e.dtype.is_float:
            flops += _points(free_axes(e.body) | frozenset(e.axes))
        elif isinstance(e, Read):
            read[e.source] += _points(free_axes(e)) * e.source.dtype.itemsize
            looked_up.discard(e.source)
    moved = sum(min(n, _bytes(b)) for b, n in read.items()) + sum(map(_bytes, looked_up))
    written = sum(
        _points(frozenset(s.axes)) * s.value.dtype.itemsize * (2 if s.add else 1)
        for s in region.stores
    )
    return Cost(flops, moved + written)


def _points(axes: frozenset[Axis]) -> int:
    return prod(_size(a.extent) for a in axes)


def _bytes(b: Buffer) -> int:
    return elements_at_typical(b.dims) * b.dtype.itemsize


def elements_at_typical(shape: Shape) -> int:
    """How many elements a shape has when every dim has its typical value."""
    return prod(_size(e) for e in shape)


def _size(extent: Ix) -> int:
    return extent.estimate()
