"""split: a long reduction with few results becomes parts that run side by side.

Before: a region that runs as vector loops.  After: for each such reduction a region that stores what its parts come
to, and the region itself, where the reduction runs over the parts. Whatever needs the result merges the parts by
itself: they are few. Where lanes with results of their own would do so for each of many rows, what they come to is
stored. Where little is left to do, the block that finishes the last part does it. How many parts there
are follows from the dims, never from the machine that runs them, and they are merged in their order: the same numbers
everywhere.

    y[i] = sum_k x[i, k]     parts[p, i] = sum_{c < 64} x[i, 64 p + c];  y[i] = sum_p parts[p, i]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lumigen.condition import less
from lumigen.index import Axis, ceildiv, extent_of, is_nonnegative, ix, product
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.sweeps import lane_axis
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

WHOLE_LINES = 64  # elements: parts of many begin where a line of memory does
LITTLE = 1 << 14  # parts that one block does not take long to merge
MOST_TERMS = 1024  # of a lane, which adds them up one after the other: more lose digits, and time where dims are small
WORTH = 8  # the least parts that a reduction has terms for, if it is to be split


@dataclass(frozen=True)
class Grain:
    """One way of running a reduction: `lanes` work at each result, and a part should have `terms` at least.

    A block merges the parts of up to so many `results` in a time that does not count.
    """

    lanes: int
    terms: int
    results: int = 0


@dataclass(frozen=True)
class Division:
    """When a device splits: `lanes` keep it busy.

    `row`: lanes share the terms of a result. `column`: each lane has results of its own. To read more parts than
    `again` another time takes longer than a launch.
    """

    lanes: int
    row: Grain
    column: Grain
    again: int = 1 << 20


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


def split(region: Region, division: Division) -> Split:
    """The region as it is, if nothing in it is worth it."""
    parts: list[Region] = []
    merged: dict[Expr, Expr] = {}
    before = dict(merged)
    taken = {b.name for b in region.buffers()}
    last = region.stores[-1]
    for r in kernel_reductions([last.value]):
        if not free_axes(r) <= set(last.axes):
            continue  # it belongs to another one's terms
        whole = map_expr(r, merged)
        while isinstance(whole, Reduce) and (count := _parts(whole, last, division)) > 1:
            points = count * extent_of(free_axes(r)).estimate()
            for key in _merged_often(merged, whole.body, last, points, division):
                store, before, merged[key] = _stored(
                    merged, key, fresh(f"merged{len(parts)}", taken)
                )
                parts.append(Region((store,), region.lines))
                whole = map_expr(r, merged)
            name = fresh(f"parts{len(parts)}", taken)
            before = {**merged, r: whole}
            lanes = _grain(whole, last, division).lanes
            store, whole = _divided(whole, last, count, MOST_TERMS * lanes, name)
            merged[r] = whole
            parts.append(Region((store,), region.lines))
    value, points = map_expr(last.value, merged), extent_of(last.axes).estimate()
    for key in _merged_often(merged, value, last, points, division):
        store, before, merged[key] = _stored(merged, key, fresh(f"merged{len(parts)}", taken))
        parts.append(Region((store,), region.lines))
    return Split(tuple(parts), _with(region, merged), _with(region, before))


def _merged_often(
    merged: Mapping[Expr, Expr], value: Expr, store: Store, points: int, division: Division
) -> list[Expr]:
    """The reductions whose parts would be merged again at so many points of a value, by lanes that share no result."""
    lane, inside = lane_axis(store), set(walk([value]))
    found: list[Expr] = []
    for key, whole in merged.items():
        if whole in inside and isinstance(whole, Reduce) and lane in free_axes(whole):
            again = points > extent_of(free_axes(whole)).estimate()
            if again and points * extent_of(whole.axes).estimate() > division.again:
                found.append(key)
    return found


def _stored(
    merged: Mapping[Expr, Expr], key: Expr, name: str
) -> tuple[Store, dict[Expr, Expr], Expr]:
    """The store of what parts are merged to, all values as they are before it, and the read of it."""
    whole = merged[key]
    axes = tuple(sorted(free_axes(whole), key=str))
    place = tuple(map(ix, axes))
    b = Buffer(name, Role.TEMP, tuple(a.extent for a in axes), whole.dtype)
    return Store(b, axes, place, whole), dict(merged), read(b, place)


def is_little(pieces: Split, division: Division) -> bool:
    """Whether one block should compute the rest, at the dims' typical values; never if there may be no part."""
    parts = pieces.parts[-1].stores[0]
    results = product(pieces.rest.stores[-1].dst.dims).estimate()
    some = all(is_nonnegative(a.extent - 1) for a in parts.axes)
    few = results <= _grain(parts.value, pieces.rest.stores[-1], division).results
    return some and few and product(parts.dst.dims).estimate() <= LITTLE


def _with(region: Region, values: Mapping[Expr, Expr]) -> Region:
    stores = tuple(replace(s, value=map_expr(s.value, values)) for s in region.stores)
    return Region(stores, region.lines)


def _parts(r: Reduce, store: Store, division: Division) -> int:
    """Into how many parts the reduction is to be split, at the dims' typical values."""
    grain = _grain(r, store, division)
    terms = extent_of(r.axes).estimate()
    results = extent_of(free_axes(r)).estimate()
    if terms < WORTH * grain.terms:
        return 1
    longest = max(a.extent.estimate() for a in r.axes)
    wanted = -(-division.lanes // max(1, results * grain.lanes))
    return min(wanted, terms // grain.terms, longest)


def _grain(e: Expr, store: Store, division: Division) -> Grain:
    """Of what varies with the lanes of a store, and of what does not."""
    lane = lane_axis(store)
    return division.column if lane is not None and lane in free_axes(e) else division.row


def _divided(r: Reduce, store: Store, count: int, most: int, name: str) -> tuple[Store, Expr]:
    """The store of about `count` parts, of `most` terms each, and the reduction over them.

    What a lane has of each part lies beside what its neighbour has; else the parts of a result lie side by side.
    """
    long = max(r.axes, key=lambda a: a.extent.estimate())
    beside = extent_of(a for a in r.axes if a is not long).estimate()
    chunk = min(-(-long.extent.estimate() // count), -(-most // max(1, beside)))
    unit = WHOLE_LINES if chunk > 4 * WHOLE_LINES else 4
    chunk = -(-chunk // unit) * unit
    part = Axis(name.replace("parts", "part"), ceildiv(long.extent, chunk))
    term = Axis(long.name, ix(chunk))
    at = {long: ix(part) * chunk + term}
    axes = tuple(term if a is long else a for a in r.axes)
    inside = (less(at[long], long.extent), *(c.substitute(at) for c in r.where))
    body = reduce(r.monoid, axes, substitute(r.body, at), r.dtype, inside)
    kept = tuple(a for a in store.axes if a in free_axes(r))
    points = (part, *kept) if lane_axis(store) in kept else (*kept, part)
    parts = Buffer(name, Role.TEMP, tuple(a.extent for a in points), r.dtype)
    place = tuple(map(ix, points))
    return Store(parts, points, place, body), reduce(r.monoid, (part,), read(parts, place), r.dtype)
