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

from lumigen.condition import Cmp, less
from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, is_nonnegative, ix, minimum, product
from lumigen.lower.across import across_of
from lumigen.lower.interchange import lies_apart
from lumigen.lower.runs import terms_of, visited
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.spread import Spread, about, about_own_mean, find_spread
from lumigen.lower.sweeps import axes_after, lane_axis, merge_axes
from lumigen.lower.widths import width_of
from lumigen.machine import Division, Grain, Machine, Streams
from lumigen.names import fresh
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Read,
    Reduce,
    Region,
    Role,
    Store,
    children,
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
        return tuple(s.dst for p in self.parts for s in p.stores)


def split(region: Region, machine: Machine) -> Split:
    """The region as it is, if nothing in it is worth it."""
    pieces = _Pieces(region, machine)
    own = frozenset(pieces.last.axes)
    # the others belong to the terms of another one
    reductions = [r for r in kernel_reductions([pieces.last.value]) if free_axes(r) <= own]
    spreads = _spreads(reductions)
    stretch = across_of(region, machine)
    if stretch.is_enough and (stretch.is_read_once or not spreads):
        return pieces.split()
    if _stores_rows(pieces, reductions):
        return pieces.split()
    points = extent_of(_repeating(pieces, reductions)).estimate()
    for s in spreads:
        if pieces.count(s.total) > 1 or pieces.is_repeated(s.squares, points):
            pieces.divide_squares(s)
    for r in reductions:
        while (count := pieces.count(r)) > 1:
            results = extent_of(free_axes(r)).estimate()
            for inner in reductions[: reductions.index(r)]:
                pieces.store_if_repeated((inner,), pieces.now(r), count * results)
            pieces.divide(r, count)
    points = extent_of(_repeating(pieces, reductions)).estimate()
    for s in spreads:
        pieces.store_if_repeated((s.total, s.squares), pieces.now(pieces.last.value), points)
    for r in reductions:
        pieces.store_if_repeated((r,), pieces.now(pieces.last.value), points)
    if pieces.parts and _leaves_a_flat_map(pieces, reductions):
        pieces.store(_of_rows(pieces.last.value, pieces.lane))
    return pieces.split()


def _leaves_a_flat_map(pieces: _Pieces, reductions: Sequence[Reduce]) -> bool:
    """Whether threads run through several rows of the last store at once, but for reductions that each row merges.

    What these come to has the same axes then, and is stored by one launch; of several kinds of rows it takes several.
    """
    teams, stores = pieces.machine.teams, pieces.split().rest.stores
    left = all(isinstance(pieces.now(r), Reduce) for r in reductions)
    is_row = pieces.lane is not None and not any(pieces.lane in free_axes(r) for r in reductions)
    if teams is None or not left or not is_row:
        return False
    stored = _Pieces(Region(stores), pieces.machine)
    values = _of_rows(stored.last.value, stored.lane)
    if len(set(map(free_axes, values))) != 1:
        return False
    stored.store(values)
    flat = merge_axes(stored.split().rest.stores, teams)
    return flat[-1].axes[-1].extent != merge_axes(stores, teams)[-1].axes[-1].extent


def _of_rows(value: Expr, lane: Axis | None) -> list[Expr]:
    """What is made of reductions and is the same at all points along the lanes, each as far as it goes."""
    out: dict[Expr, None] = {}
    left = [value]
    while left:
        e = left.pop()
        if lane in free_axes(e) or not e.dtype.is_float:
            left.extend(children(e))
        elif any(isinstance(x, Reduce) for x in walk([e])):
            out[e] = None
    return list(out)


def _stores_rows(pieces: _Pieces, reductions: Sequence[Reduce]) -> bool:
    """Whether reductions of rows are stored, for teams to share out those of columns, as of what is weighted.

    Where rows are too few for all blocks, and columns have more terms than a launch costs.
    """
    rows = [r for r in reductions if pieces.lane not in free_axes(r)]
    columns, machine = [r for r in reductions if r not in rows], pieces.machine
    if machine.teams is None or len({free_axes(r) for r in rows}) != 1 or not free_axes(rows[0]):
        return False
    terms = (extent_of((*r.axes, *free_axes(r))).estimate() for r in columns)
    warps = extent_of(free_axes(rows[0])).estimate() * machine.teams.warp
    few = warps < machine.scans.workers * machine.teams.threads
    if not few or not any(n > pieces.division.again for n in terms):
        return False
    if any(pieces.count(r) > 1 for r in rows):
        return False
    stored = _Pieces(pieces.region, machine)
    stored.store(rows)
    stretch = across_of(stored.split().rest, machine)
    if stretch.is_enough and stretch.is_read_once:
        pieces.store(rows)
        return True
    return False


def _spreads(reductions: Sequence[Reduce]) -> list[Spread]:
    """Squares about a value that is made of the total of the same terms."""
    found: list[Spread] = []
    for r in reductions:
        for total in reductions[: reductions.index(r)]:
            spread = find_spread(r, total)
            if spread is not None and total in walk([spread.apart]):
                found.append(spread)
    return found


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
        if not isinstance(whole, Reduce):
            return 1
        count, division = _parts(whole, self.grain(whole), self.division), self.division
        if division.streams is not None and self.is_far(whole, division.streams):
            return max(count, terms_of(whole) // division.streams.terms)
        return count

    def is_far(self, r: Reduce, streams: Streams) -> bool:
        """Whether lanes read once a matrix that no near cache holds, down columns whose neighbours lie pages apart."""
        own, long = free_axes(r), max(r.axes, key=lambda a: a.extent.estimate())
        if self.lane is None or self.lane not in own or terms_of(r) < 2 * streams.terms:
            return False
        reads = [e for e in walk([self.now(self.last.value)]) if isinstance(e, Read)]
        for e in reads:
            rows = extent_of(own - free_axes(e)).estimate()
            once = rows <= streams.rows and sum(x.source is e.source for x in reads) == 1
            size = terms_of(r) * extent_of(own & free_axes(e)).estimate() * e.source.dtype.itemsize
            if once and size >= streams.far and lies_apart(e, self.lane, long, streams):
                return True
        return False

    def grain(self, e: Expr) -> Grain:
        """Of what varies with the lanes of the last store, and of what does not: of short runs by a warp."""
        found, teams = _grain(e, self.lane, self.division), self.machine.teams
        if found is not self.division.row or teams is None or not isinstance(e, Reduce):
            return found
        longest = max(visited(e, a) for a in e.axes)
        if longest > teams.warp_vectors * teams.warp * width_of(self.region, teams):
            return found
        part = teams.threads // teams.warp
        return replace(found, lanes=-(-found.lanes // part), terms=-(-found.terms // part))

    def divide(self, r: Reduce, count: int) -> None:
        """A further level of parts."""
        whole = self.now(r)
        assert isinstance(whole, Reduce)
        name = fresh(f"parts{len(self.parts)}", self.taken)
        cut = _cut(whole, self, name, *_along(whole, self, count))
        body = reduce(
            whole.monoid, cut.axes, substitute(whole.body, cut.at), whole.dtype, cut.inside
        )
        store = self.stored(name, cut.points, body)
        merged = reduce(whole.monoid, (cut.part,), read(store.dst, store.at), whole.dtype)
        self._append({r: merged}, store)

    def divide_squares(self, s: Spread) -> None:
        """Parts of a total and of squares about a value made of it, in one region: a part's are about its own mean."""
        count = max(
            self.count(s.total), _parts(s.total, self.grain(s.total), self.division, least=1)
        )
        name = fresh(f"parts{len(self.parts)}", self.taken)
        cut = _cut(s.squares, self, name, *_along_rows(s.squares, self, count))
        terms = extent_of(a for a in s.squares.axes if a is not cut.long) * cut.length
        values = about_own_mean(substitute(s.term, cut.at), cut.axes, terms, cut.inside)
        total, squares = (
            self.stored(n, cut.points, v)
            for n, v in zip((name, f"{name}_squares"), values, strict=True)
        )
        of_total, of_squares = (read(x.dst, x.at) for x in (total, squares))
        merged: dict[Expr, Expr] = {s.total: reduce(Monoid.SUM, (cut.part,), of_total, f32)}
        apart = map_expr(s.apart, merged)
        moved = about(of_squares, of_total, terms, apart)
        merged[s.squares] = reduce(Monoid.SUM, (cut.part,), moved, f32)
        self._append(merged, total, squares)

    def is_repeated(self, whole: Reduce, points: int) -> bool:
        """Whether a value of so many points would compute it again for many of them."""
        axes, length = free_axes(whole), 1
        if self.lane is not None and self.lane not in axes:
            length = max(1, self.lane.extent.estimate())  # once for all points along the lanes
        again = points // length - extent_of(axes).estimate()
        return again * extent_of(whole.axes).estimate() > self.division.again

    def store_if_repeated(self, each: Sequence[Reduce], value: Expr, points: int) -> None:
        """Store what reductions come to if a value of so many points would compute each of them again for many."""
        inside = set(walk([value]))
        for whole in map(self.now, each):
            if not isinstance(whole, Reduce) or whole not in inside:
                return
            if not self.is_repeated(whole, points):
                return
        self.store(each)

    def store(self, each: Sequence[Expr]) -> None:
        """Store what reductions come to, or what is made of them, in one region: all have the same axes."""
        stores = dict[Expr, Store]()
        for r in each:
            whole = self.now(r)
            kept = tuple(a for a in self.last.axes if a in free_axes(whole))
            stores[r] = self.stored(fresh(f"whole{len(self.parts)}", self.taken), kept, whole)
        merged = {r: read(s.dst, s.at) for r, s in stores.items()}
        self._append(merged, *stores.values())

    def stored(self, name: str, axes: tuple[Axis, ...], value: Expr) -> Store:
        """The store of a value at each point of the axes in a buffer of its own."""
        self.taken.add(name)
        b = Buffer(name, Role.TEMP, tuple(a.extent for a in axes), value.dtype)
        return Store(b, axes, tuple(map(ix, axes)), value)

    def _append(self, merged: Mapping[Expr, Expr], *stores: Store) -> None:
        self.before = {**self.merged, **{r: self.now(r) for r in merged}}
        self.merged.update(merged)
        self.parts.append(Region(stores, self.region.lines))

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


def _parts(r: Reduce, grain: Grain, division: Division, least: int | None = None) -> int:
    """Into how many parts to split the reduction, at the dims' typical values, if it has terms for the `least`."""
    terms = terms_of(r)
    results = extent_of(free_axes(r)).estimate()
    if terms < (division.worth if least is None else least) * grain.terms:
        return 1
    longest = max(visited(r, a) for a in r.axes)
    each = max(1, results * grain.lanes)
    wanted, fitting = -(-division.lanes // each), division.lanes // each
    if 4 * fitting >= 3 * wanted:  # rather a fourth idle than a second round for a few
        wanted = fitting
    return min(wanted, terms // grain.terms, longest)


def parts_of(r: Reduce, machine: Machine, grain: Grain | None = None) -> int:
    """Into how many parts a reduction is to be split, of rows or of a `grain`; 1 where it keeps the machine busy."""
    return _parts(r, grain or machine.division.row, machine.division)


def _grain(e: Expr, lane: Axis | None, division: Division) -> Grain:
    return division.column if lane is not None and lane in free_axes(e) else division.row


@dataclass(frozen=True)
class _Cut:
    """A reduction in parts: `long`, of its axes, is so long in each `part`; the others are as they were."""

    part: Axis
    long: Axis
    axes: tuple[Axis, ...]  # of one part
    at: Mapping[Axis, Ix]  # where its points are
    inside: tuple[Cmp, ...]
    points: tuple[Axis, ...]  # of what the parts store

    @property
    def length(self) -> Ix:
        """Points of the part along the long axis."""
        (chunk,) = (a.extent for a in self.axes if a.name == self.long.name)
        if self.part.extent * chunk == self.long.extent:
            return chunk
        return minimum(chunk, self.long.extent - chunk * self.part)


def _along(r: Reduce, pieces: _Pieces, count: int) -> tuple[Axis, int]:
    """(the longest axis, so many points of it that there are about `count` parts)."""
    line = pieces.division.line
    most = MOST_TERMS * pieces.grain(r).lanes
    long = max(r.axes, key=lambda a: a.extent.estimate())
    beside = extent_of(a for a in r.axes if a is not long).estimate()
    chunk = min(-(-long.extent.estimate() // count), -(-most // max(1, beside)))
    streams = pieces.division.streams
    if streams is not None and pieces.is_far(r, streams):
        chunk = min(chunk, streams.terms)
    unit = line if chunk > 4 * line else 4
    return long, -(-chunk // unit) * unit


def _along_rows(r: Reduce, pieces: _Pieces, count: int) -> tuple[Axis, int]:
    """The same of a part that is read twice: where registers hold it, rows of it are whole, and parts are alike."""
    long, chunk = _along(r, pieces, count)
    teams, is_column = pieces.machine.teams, pieces.lane in free_axes(r)
    if teams is None or teams.held == 0:
        return long, chunk
    outer = [a for a in r.axes[:-1] if visited(r, a) >= count]
    if outer:
        long = max(outer, key=lambda a: a.extent.estimate())
    beside = extent_of(a for a in r.axes if a is not long).estimate()
    vectors = teams.threads * teams.held // 2 * 4 // teams.lane_bytes
    # a block in a column has four of the least stretches of lanes, as a line of memory has
    wide, width = 4 * teams.stretch // teams.lane_bytes, width_of(pieces.region, teams)
    if outer and -(-visited(r, r.axes[-1]) // width) <= teams.warp_vectors * teams.warp:
        vectors //= teams.threads // teams.warp  # rows are a warp's, not a block's
    held = vectors // wide if is_column else vectors * width // beside
    most = max(1, min(-(-long.extent.estimate() // count), held))
    unit = pieces.division.line if long is r.axes[-1] and not is_column else 1
    most = max(unit, most // unit * unit)
    if not long.extent.is_const:
        return long, most
    alike = (n for n in range(most, most // 2, -unit) if long.extent.const % n == 0)
    return long, next(alike, most)


def _cut(r: Reduce, pieces: _Pieces, name: str, long: Axis, chunk: int) -> _Cut:
    """A reduction in parts of so many points of an axis.

    What a lane has of each part lies beside what its neighbour has; else the parts of a result lie side by side.
    """
    store = pieces.last
    part = Axis(name.replace("parts", "part"), ceildiv(long.extent, chunk))
    term = Axis(long.name, ix(chunk))
    at = {long: ix(part) * chunk + term}
    axes = tuple(term if a is long else a for a in r.axes)
    inside = (less(at[long], long.extent), *(c.substitute(at) for c in r.where))
    kept = tuple(a for a in store.axes if a in free_axes(r))
    points = (part, *kept) if pieces.lane in kept else (*kept, part)
    return _Cut(part, long, axes, at, inside, points)
