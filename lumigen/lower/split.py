"""split: a long reduction with few results becomes parts that run side by side.

Before: a region that runs as vector loops.  After: for each such reduction a region that stores what its parts come
to, and the region itself, where the reduction runs over the parts. Whatever needs the result merges the parts by
itself: they are few. What would be computed again and again, at more points than it has results, is stored. Where
little is left to do, the block that finishes the last part does it. How many parts there are follows from the dims,
never from the machine that runs them, and they are merged in their order: the same numbers everywhere.

    y[i] = sum_k x[i, k]     parts[p, i] = sum_{c < 64} x[i, 64 p + c];  y[i] = sum_p parts[p, i]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lumigen.condition import less
from lumigen.index import Axis, ceildiv, extent_of, is_nonnegative, ix, product
from lumigen.lower.runs import terms_of, visited
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.sweeps import axes_after, lane_axis
from lumigen.machine import Division, Grain, Machine
from lumigen.names import fresh
from lumigen.region import (
    Buffer,
    Expr,
    Reduce,
    Region,
    Role,
    Store,
    free_axes,
    map_expr,
    read,
    reduce,
    substitute,
    walk,
)

MOST_TERMS = 1024  # of a lane, which adds them up one after the other: more lose digits, and time where dims are small


@dataclass(frozen=True)
class Split:
    """A region in pieces: those that store `parts`, in order, and the `rest`, which reads them.

    `after_last` is what the rest means where all parts but the last are there.
    """

    parts: tuple[Region, ...]
    rest: Region
    after_last: Region

    @property
    def temps(self) -> tuple[Buffer, ...]:
        return tuple(p.stores[0].dst for p in self.parts)


def split(region: Region, machine: Machine) -> Split:
    """The region as it is, if nothing in it is worth it."""
    pieces = _Pieces(region, machine)
    own = frozenset(pieces.last.axes)
    # the others belong to the terms of another one
    reductions = [r for r in kernel_reductions([pieces.last.value]) if free_axes(r) <= own]
    for r in reductions:
        while (count := pieces.count(r)) > 1:
            results = extent_of(free_axes(r)).estimate()
            for inner in reductions[: reductions.index(r)]:
                pieces.store_if_repeated(inner, pieces.now(r), count * results)
            pieces.divide(r, count)
    points = extent_of(_repeating(pieces, reductions)).estimate()
    for r in reductions:
        pieces.store_if_repeated(r, pieces.now(pieces.last.value), points)
    return pieces.split()


def _repeating(pieces: _Pieces, reductions: Sequence[Reduce]) -> tuple[Axis, ...]:
    """The axes of the last store at whose points its reductions would run again.

    Those that no reduction varies with have loops behind the folds, which are cut into tasks where that repeats little.
    Such a loop counts only where the tasks leave most of the device idle for longer than a launch takes.
    """
    division, store = pieces.division, pieces.last
    behind = axes_after(pieces.region.stores, pieces.machine.vectors)
    points = extent_of(store.axes).estimate()
    results = extent_of(a for a in store.axes if any(a in free_axes(r) for r in reductions))
    left = [r for r in map(pieces.now, reductions) if isinstance(r, Reduce)]
    again = sum(extent_of(r.axes).estimate() for r in left) * results.estimate()
    tasks = max(1, points // max(1, division.repeated * again)) * results.estimate()
    lanes = min((pieces.grain(r).lanes for r in reductions), default=1)
    if points > division.again and division.idle * tasks * lanes < division.lanes:
        return store.axes
    return tuple(a for a in store.axes if a not in behind)


class _Pieces:
    """A region while it is taken apart."""

    def __init__(self, region: Region, machine: Machine) -> None:
        self.region, self.machine, self.last = region, machine, region.stores[-1]
        self.division, self.lane = machine.division, lane_axis(self.last, machine.vectors)
        self.taken = {b.name for b in region.buffers()}
        self.parts: list[Region] = []
        self.merged: dict[Expr, Expr] = {}  # what is read, or merged, in place of a reduction
        self.before: dict[Expr, Expr] = {}  # the same without the last of the parts

    def now(self, e: Expr) -> Expr:
        return self.merged.get(e) or map_expr(e, self.merged)

    def count(self, r: Reduce) -> int:
        whole = self.now(r)
        return _parts(whole, self.grain(whole), self.division) if isinstance(whole, Reduce) else 1

    def grain(self, e: Expr) -> Grain:
        """Of what varies with the lanes of the last store, and of what does not."""
        return _grain(e, self.lane, self.division)

    def divide(self, r: Reduce, count: int) -> None:
        """A further level of parts."""
        whole = self.now(r)
        assert isinstance(whole, Reduce)
        name = fresh(f"parts{len(self.parts)}", self.taken)
        store, value = _divided(whole, self, count, name)
        self._append(r, store, value)

    def store_if_repeated(self, r: Reduce, value: Expr, points: int) -> None:
        """Store what a reduction comes to if a value of so many points would compute it again for many of them."""
        whole = self.now(r)
        if not isinstance(whole, Reduce) or whole not in walk([value]):
            return
        axes, length = free_axes(whole), 1
        if self.lane is not None and self.lane not in axes:
            length = max(1, self.lane.extent.estimate())  # once for all points along the lanes
        again = points // length - extent_of(axes).estimate()
        if again * extent_of(whole.axes).estimate() > self.division.again:
            kept = tuple(a for a in self.last.axes if a in axes)
            dims, place = tuple(a.extent for a in kept), tuple(map(ix, kept))
            name = fresh(f"whole{len(self.parts)}", self.taken)
            b = Buffer(name, Role.TEMP, dims, whole.dtype)
            self._append(r, Store(b, kept, place, whole), read(b, place))

    def _append(self, r: Reduce, store: Store, value: Expr) -> None:
        self.before = {**self.merged, r: self.now(r)}
        self.merged[r] = value
        self.parts.append(Region((store,), self.region.lines))

    def split(self) -> Split:
        rest, after_last = (_with(self.region, v) for v in (self.merged, self.before))
        return Split(tuple(self.parts), rest, after_last)


def is_little(pieces: Split, machine: Machine) -> bool:
    """Whether one team should compute the rest, at the dims' typical values; never if there may be no part."""
    parts = pieces.parts[-1].stores[0]
    results = product(pieces.rest.stores[-1].dst.dims).estimate()
    some = all(is_nonnegative(a.extent - 1) for a in parts.axes)
    lane = lane_axis(pieces.rest.stores[-1], machine.vectors)
    few = results <= _grain(parts.value, lane, machine.division).results
    most = machine.teams.merged if machine.teams else 0
    return some and few and product(parts.dst.dims).estimate() <= most


def _with(region: Region, values: Mapping[Expr, Expr]) -> Region:
    stores = tuple(replace(s, value=map_expr(s.value, values)) for s in region.stores)
    return Region(stores, region.lines)


def _parts(r: Reduce, grain: Grain, division: Division) -> int:
    """Into how many parts the reduction is to be split, at the dims' typical values."""
    terms = terms_of(r)
    results = extent_of(free_axes(r)).estimate()
    if terms < division.worth * grain.terms:
        return 1
    longest = max(visited(r, a) for a in r.axes)
    wanted = -(-division.lanes // max(1, results * grain.lanes))
    return min(wanted, terms // grain.terms, longest)


def parts_of(r: Reduce, machine: Machine) -> int:
    """Into how many parts a reduction of rows is to be split; 1 where its rows keep the machine busy."""
    return _parts(r, machine.division.row, machine.division)


def _grain(e: Expr, lane: Axis | None, division: Division) -> Grain:
    return division.column if lane is not None and lane in free_axes(e) else division.row


def _divided(r: Reduce, pieces: _Pieces, count: int, name: str) -> tuple[Store, Expr]:
    """The store of about `count` parts, and the reduction over them.

    What a lane has of each part lies beside what its neighbour has; else the parts of a result lie side by side.
    """
    store, line = pieces.last, pieces.division.line
    most = MOST_TERMS * pieces.grain(r).lanes
    long = max(r.axes, key=lambda a: a.extent.estimate())
    beside = extent_of(a for a in r.axes if a is not long).estimate()
    chunk = min(-(-long.extent.estimate() // count), -(-most // max(1, beside)))
    unit = line if chunk > 4 * line else 4
    chunk = -(-chunk // unit) * unit
    part = Axis(name.replace("parts", "part"), ceildiv(long.extent, chunk))
    term = Axis(long.name, ix(chunk))
    at = {long: ix(part) * chunk + term}
    axes = tuple(term if a is long else a for a in r.axes)
    inside = (less(at[long], long.extent), *(c.substitute(at) for c in r.where))
    body = reduce(r.monoid, axes, substitute(r.body, at), r.dtype, inside)
    kept = tuple(a for a in store.axes if a in free_axes(r))
    points = (part, *kept) if pieces.lane in kept else (*kept, part)
    parts = Buffer(name, Role.TEMP, tuple(a.extent for a in points), r.dtype)
    place = tuple(map(ix, points))
    return Store(parts, points, place, body), reduce(r.monoid, (part,), read(parts, place), r.dtype)
