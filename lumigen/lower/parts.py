"""parts: a weight that is read at fixed leading positions is the part of it at that place.

Before: regions over whole weights.  After: a read `w[2, 5, k, n]` is one of the part `w[2, 5]` at (k, n), so that the
layers of a stacked weight give one region, lowered once. The start of a part is not in the region.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from lumigen.index import Ix, ix
from lumigen.lower.scope import address
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Region,
    Role,
    lookup_sources,
    read,
    rebuild,
    walk,
)


@dataclass(frozen=True)
class Part:
    """Where a part lies: it starts at element `base` of the weight."""

    weight: Buffer
    base: int


def take_parts(region: Region) -> tuple[Region, dict[Buffer, Part]]:
    """The region over parts of weights, and what these are; one part of a weight at most."""
    values = [s.value for s in region.stores]
    places = _places(values)
    parts: dict[Buffer, Part] = {}
    memo: dict[Expr, Expr] = {}

    def visit(e: Expr) -> Expr:
        if e not in memo:
            memo[e] = taken(e) if isinstance(e, Read) else rebuild(e, visit, lambda i: i)
        return memo[e]

    def taken(e: Read) -> Expr:
        place = places.get(e.source, ())
        if not place:
            return e
        name = f"{e.source.name}[{', '.join(map(str, place))}]"
        part = replace(e.source, name=name, dims=e.source.dims[len(place) :])
        start = (*place, *(ix(0) for _ in part.dims))
        parts[part] = Part(e.source, address(e.source, start).const)
        return read(part, e.at[len(place) :])

    stores = tuple(replace(s, value=visit(s.value)) for s in region.stores)
    return (replace(region, stores=stores), parts) if parts else (region, {})


def _places(values: list[Expr]) -> dict[Buffer, tuple[Ix, ...]]:
    """The leading indices that all reads of a weight have in common and that do not vary."""
    found: dict[Buffer, tuple[Ix, ...]] = {}
    looked_up = {b for e in walk(values) for b in lookup_sources(e)}
    for e in walk(values):
        if not isinstance(e, Read) or e.source.role is not Role.WEIGHT or e.source in looked_up:
            continue
        fixed = tuple(takewhile(lambda i: i.is_const, e.at))
        known = found.setdefault(e.source, fixed)
        same = takewhile(lambda pair: pair[0] is pair[1], zip(known, fixed, strict=False))
        found[e.source] = tuple(i for i, _ in same)
    return {w: place[: _last_choice(w, len(place))] for w, place in found.items()}


def _last_choice(weight: Buffer, most: int) -> int:
    """How many of the dims are needed up to the last that has more than one place."""
    return max((d + 1 for d in range(most) if weight.dims[d] != 1), default=0)
