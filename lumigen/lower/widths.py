"""widths: how many lanes a thread takes at a time: as many as move at once, where memory lets them."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from lumigen.dtype import DOUBLES, FLOATS, DType, i8, u8
from lumigen.lower.scope import address, kernel_reductions
from lumigen.machine import Teams, Vectors
from lumigen.region import Read, Region, walk


def dtypes_of(vectors: Vectors) -> frozenset[DType]:
    """Of the numbers that lanes have."""
    return DOUBLES if vectors.doubles else FLOATS


def width_of(region: Region, teams: Teams) -> int:
    """Lanes of a thread, which moves so many bytes of the narrowest float that is there.

    Or fewer, of which vectors are whole words where the lengths of rows are no multiple of all.
    """
    width = max(teams.least_lanes, teams.lane_bytes // _narrowest(region))
    alike = gcd(width, gcd(*_apart(region)) or width)
    return alike if alike >= 2 * teams.least_lanes else width


def moved_of(region: Region, teams: Teams) -> int:
    """Bytes of the narrowest float that a thread moves at a time."""
    return width_of(region, teams) * _narrowest(region)


def _narrowest(region: Region) -> int:
    """Bytes of the narrowest float, or of the narrowest number that a fold makes a float of."""
    stored = (s.dst for s in region.stores)
    folds = kernel_reductions(s.value for s in region.stores)
    folded = {
        e.source
        for e in walk(r.body for r in folds)
        if isinstance(e, Read) and e.source.dtype in (i8, u8)
    }
    found = (b.dtype for b in (*region.reads(), *stored) if b.dtype.is_float or b in folded)
    return min((d.itemsize for d in found), default=4)


def _apart(region: Region) -> Iterator[int]:
    """How far apart rows begin whose elements are neighbours along an axis that lanes may have."""
    values = [s.value for s in region.stores]
    along = {s.axes[-1] for s in region.stores if s.axes}
    along |= {a for r in kernel_reductions(values) for a in r.axes}
    places = [address(s.dst, s.at) for s in region.stores]
    places += [address(e.source, e.at) for e in walk(values) if isinstance(e, Read)]
    for place in places:
        if any(place.coefficient(a) == 1 for a in along):
            yield from (abs(factor) for atoms, factor in place.terms if factor != 1 or not atoms)
