"""widths: how many lanes a thread takes at a time: as many as move at once, where memory lets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd

from lumigen.dtype import DOUBLES, FLOATS, DType, i8, i32, u8
from lumigen.index import Axis, Ix
from lumigen.lower.scope import address, kernel_reductions
from lumigen.machine import Teams, Vectors
from lumigen.region import Expr, Gather, Read, Region, walk


def dtypes_of(vectors: Vectors, values: Iterable[Expr] = ()) -> frozenset[DType]:
    """Of the numbers that lanes have; integers where some of the values are read at places that are computed."""
    floats = DOUBLES if vectors.doubles else FLOATS
    places = vectors.integers and any(isinstance(e, Gather) for e in walk(values))
    return floats | {i32} if places else floats


def width_of(region: Region, teams: Teams) -> int:
    """Lanes of a thread, which moves so many bytes of the narrowest float that is there.

    Or fewer, of which vectors are whole words where the lengths of rows are no multiple of all. The elements of other
    rows move one by one; of short ones with as few to a thread as there can be, so that neighbours have neighbours.
    """
    width = max(teams.least_lanes, teams.lane_bytes // _narrowest(region))
    alike = gcd(width, gcd(*_apart(region)) or width)
    if alike >= 2 * teams.least_lanes:
        return alike
    side_by_side = (
        a for a in _along(region) if any(p.coefficient(a) == 1 for p in _places(region))
    )
    longest = max((a.extent.estimate() for a in side_by_side), default=0)
    return teams.least_lanes if longest < width * teams.warp else width


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
    along = _along(region)
    for place in _places(region):
        if any(place.coefficient(a) == 1 for a in along):
            yield from (abs(factor) for atoms, factor in place.terms if factor != 1 or not atoms)


def _along(region: Region) -> set[Axis]:
    """The axes that lanes may have."""
    folds = kernel_reductions(s.value for s in region.stores)
    return {s.axes[-1] for s in region.stores if s.axes} | {a for r in folds for a in r.axes}


def _places(region: Region) -> list[Ix]:
    """The addresses of all that is read and stored."""
    places = [address(s.dst, s.at) for s in region.stores]
    values = walk(s.value for s in region.stores)
    return [*places, *(address(e.source, e.at) for e in values if isinstance(e, Read))]
