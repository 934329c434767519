"""versions: which new versions of a state are written over the one before, and when.

Before: regions in an order in which every value is stored before it is read, each version of a state a buffer of its
own.  After: a version that reads of the one before only the element that it stores is written over it, after
all other readers. Any other stays a temporary, as does one that would have to wait for what is computed from it; the
last version is then copied to the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from lumigen.errors import LoweringFailed
from lumigen.index import Axis, ix
from lumigen.lower.canonical import with_buffers
from lumigen.lower.window import is_at
from lumigen.region import Buffer, Read, Region, Role, Store, lookup_sources, read, walk


@dataclass(frozen=True)
class Versions:
    """A state's buffer, and those of its new versions in order."""

    state: Buffer
    made: tuple[Buffer, ...]


def place_versions(regions: tuple[Region, ...], states: tuple[Versions, ...]) -> tuple[Region, ...]:
    """The regions in the order in which they run, over the memory that the versions have."""
    if not states:
        return regions
    apart: set[Buffer] = {b for s in states for b in s.made if b.role is not Role.TEMP}
    claimed: set[Buffer] = set()
    for s in states:  # a value that two states become has one place
        apart |= {b for b in s.made if b in claimed}
        claimed |= set(s.made)
    while True:
        placing = _Placing(regions, states, frozenset(apart))
        refused = next(placing.misplaced(), None)
        if refused is None:
            ordered, refused = placing.ordered()
            if refused is None:
                return tuple(with_buffers(r, placing.homes()) for r in ordered)
        apart.add(refused)


@dataclass(frozen=True)
class _Placing:
    """An attempt: all versions but those of `apart` are written over the one before."""

    given: tuple[Region, ...]
    states: tuple[Versions, ...]
    apart: frozenset[Buffer]

    @property
    def regions(self) -> tuple[Region, ...]:
        """Those given, and the copies to states whose last version lies apart."""
        copies = (_copy(s) for s in self.states if s.made and s.made[-1] in self.apart)
        return (*self.given, *copies)

    def over(self, s: Versions) -> tuple[Buffer, ...]:
        """What the state's memory holds, one after the other."""
        last = (_end(s),) if s.made and s.made[-1] in self.apart else ()
        return (s.state, *(b for b in s.made if b not in self.apart), *last)

    def homes(self) -> dict[Buffer, Buffer]:
        return {b: s.state for s in self.states for b in self.over(s)}

    def misplaced(self) -> Iterator[Buffer]:
        """Versions that take from the one before what stands elsewhere: they would read what they have overwritten."""
        writers = {s.dst: s for r in self.regions for s in r.stores}
        for s in self.states:
            held = self.over(s)
            for before, b in pairwise(held):
                store = writers[b]
                for e in walk([store.value]):
                    elsewhere = isinstance(e, Read) and e.source == before and not is_at(e, store)
                    if elsewhere or before in lookup_sources(e):
                        yield b

    def ordered(self) -> tuple[list[Region], Buffer | None]:
        """The regions in order; or a version that no order allows, as something reads what it overwrites too late."""
        units = loops_whole(self.regions)
        writers: dict[Buffer, set[int]] = {}
        for i, unit in enumerate(units):
            for s in (s for r in unit for s in r.stores):
                writers.setdefault(s.dst, set()).add(i)
        writer = {b: max(found) for b, found in writers.items()}  # one, but of carries
        needs: list[set[int]] = [set() for _ in units]
        readers: dict[Buffer, set[int]] = {}
        for i, unit in enumerate(units):
            own = {i for r in unit if r.steps}  # a loop reads what its last step has stored
            for b in (b for region in unit for b in region.reads()):
                readers.setdefault(b, set()).add(i)
                needs[i] |= writers.get(b, set()) - own
        for s in self.states:
            held = self.over(s)
            for before, b in pairwise(held):
                needs[writer[b]] |= readers.get(before, set()) - {writer[b]}
                needs[writer[b]] |= {writer[before]} if before in writer else set()
        out: list[int] = []
        while (i := next(self._ready(needs, out), None)) is not None:
            out.append(i)
        if len(out) == len(units):
            return [r for i in out for r in units[i]], None
        for s in reversed(self.states):
            for b in reversed(self.over(s)[1:]):
                if b in s.made and writer[b] not in out:
                    return [], b
        raise LoweringFailed(step="versions", what="regions that wait for one another")

    @staticmethod
    def _ready(needs: list[set[int]], done: list[int]) -> Iterator[int]:
        there = set(done)
        return (i for i, n in enumerate(needs) if i not in there and n <= there)


def loops_whole(regions: tuple[Region, ...]) -> list[tuple[Region, ...]]:
    """The regions one by one, but those of a loop together."""
    out: list[tuple[Region, ...]] = []
    for region in regions:
        if region.steps and out and out[-1][0].steps[:1] == region.steps[:1]:
            out[-1] = (*out[-1], region)
        else:
            out.append((region,))
    return out


def _end(s: Versions) -> Buffer:
    """The version that a copy makes of the last one."""
    return Buffer(f"{s.state.name} in the end", Role.STATE, s.state.dims, s.state.dtype)


def _copy(s: Versions) -> Region:
    axes = tuple(Axis(f"o{d}", extent) for d, extent in enumerate(s.state.dims))
    at = tuple(ix(a) for a in axes)
    return Region((Store(_end(s), axes, at, read(s.made[-1], at)),), ())
