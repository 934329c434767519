"""statistics: what is reduced over rows that are no lines of memory is stored before what is made of it.

Before: a norm of groups of channels whose images have their channels innermost: for each group its mean, then its
elements, which lie in pieces of a few channels.  After: sums over the pixels for each channel, whose neighbours are
neighbours in memory; the sums of each group, again for each channel; and a map of the elements. Each of them reads and
stores whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ix
from lumigen.lower.contractions import product_factors
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
    Region,
    Role,
    Scan,
    Store,
    const,
    free_axes,
    map_expr,
    read,
    reduce,
    substitute,
    walk,
)

UNKNOWN = const(0.0, f32)  # a result, where only what is read beside it counts


def store_statistics(region: Region) -> Iterator[Region]:
    """The regions that store what a region reduces over such rows, then the region itself."""
    store, *others = region.stores
    if region.native or region.steps or others:
        yield region
        return
    number = 0
    while (r := _first(store)) is not None:
        row = _Reduced.of(store, r)
        made = row.stored(f"{store.dst.name}_row{number}")
        yield from (Region((s,), region.lines) for s in made)
        store = replace(store, value=row.replaced(made[-1].dst))
        number += 1
    yield replace(region, stores=(store,))


def reduces_pieces(region: Region) -> bool:
    """Whether rows that it reduces are pieces of lines: a group of channels of images whose channels are innermost."""
    store, *others = region.stores
    if region.native or region.steps or others or (r := _first(store)) is None:
        return False
    row = _Reduced.of(store, r)
    return row.group is not None and row.channel_of(r.axes, r.body) is not None


def _first(store: Store) -> Reduce | None:
    """The first reduction of a store over rows that are no lines of memory, with no other one inside."""
    inside = walk([store.value])
    if any(isinstance(e, Scan) for e in inside):
        return None
    for r in (e for e in inside if isinstance(e, Reduce)):
        plain = free_axes(r) <= set(store.axes) and not r.where and product_factors(r) is None
        alone = not any(isinstance(e, Reduce) for e in walk([r.body]))
        if plain and alone and _is_scattered(store, r):
            return r
    return None


def _is_scattered(store: Store, r: Reduce) -> bool:
    """Whether what is made of one result is stored in pieces: some axis of the result is inside one that it has not."""
    moving = [frozenset(a for a in i.axes if a.extent != 1) for i in store.at]
    varies = [bool(axes & free_axes(r)) for axes in moving if axes]
    first = varies.index(False) if False in varies else len(varies)
    return any(varies[first:])


@dataclass(frozen=True)
class _Reduced:
    """A reduction beside a store: `group` counts those of one channel, `own` the channels of one, where both are."""

    store: Store
    r: Reduce
    group: Axis | None
    own: Axis | None

    @staticmethod
    def of(store: Store, r: Reduce) -> _Reduced:
        last = store.at[-1]
        group = [a for a in last.axes if a in free_axes(r)]
        own = [a for a in last.axes if a not in free_axes(r)]
        if len(group) == 1 == len(own) and last == own[0].extent * group[0] + own[0]:
            return _Reduced(store, r, group[0], own[0])
        return _Reduced(store, r, None, None)

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes of its results, but for the group."""
        return tuple(a for a in self.store.axes if a in free_axes(self.r) and a != self.group)

    def replaced(self, dst: Buffer) -> Expr:
        """What is stored beside it, with a read of it; another reduction reads it beside its own elements."""
        outer, value = tuple(map(ix, self.outer)), self.store.value
        if self.group is None or self.own is None:
            return map_expr(value, {self.r: read(dst, outer)})
        for other in (e for e in walk([value]) if isinstance(e, Reduce) and e is not self.r):
            if self.r in walk([other.body]):
                k = self.channel_of(other.axes, map_expr(other.body, {self.r: UNKNOWN}))
                at = self.own.extent * self.group + (0 if k is None else k)
                body = map_expr(other.body, {self.r: read(dst, (*outer, at))})
                moved = reduce(other.monoid, other.axes, body, other.dtype, other.where)
                value = map_expr(value, {other: moved})
        return map_expr(value, {self.r: read(dst, (*outer, self.store.at[-1]))})

    def channel_of(self, axes: tuple[Axis, ...], body: Expr) -> Axis | None:
        """The axis of a reduction that counts the channels of a group, where memory has channels innermost."""
        assert self.group is not None
        inner = {e.at[-1] for e in walk([body]) if isinstance(e, Read) and e.at}
        own = {a for i in inner for a in i.axes if a in axes}
        if len(own) != 1 or len(axes) < 2:
            return None
        (k,) = own
        return None if any(i.axes and i != k.extent * self.group + k for i in inner) else k

    def stored(self, name: str) -> list[Store]:
        """What stores it, in order: at last for each channel, if these are in groups."""
        if self.group is None or self.own is None:
            return [_temporary(name, self.outer, self.r)]
        pieces = self._pieces(f"{name}_piece")
        if pieces is None:
            made = _temporary(f"{name}_group", (*self.outer, self.group), self.r)
            before, value = made, read(made.dst, made.at)
        else:
            before, value = pieces
        channel = Axis("channel", self.store.dst.dims[-1])
        each = substitute(value, {self.group: ix(channel) // self.own.extent})
        return [before, _temporary(name, (*self.outer, channel), each)]

    def _pieces(self, name: str) -> tuple[Store, Expr] | None:
        """Its sums for each channel and what adds them up, where memory has channels innermost."""
        r, group = self.r, self.group
        assert group is not None
        k = self.channel_of(r.axes, r.body)
        if k is None:
            return None
        channel = Axis("channel", group.extent * k.extent)
        parts: dict[Axis, Ix] = {group: ix(channel) // k.extent, k: ix(channel) % k.extent}
        rest = tuple(a for a in r.axes if a != k)
        sums = reduce(r.monoid, rest, substitute(r.body, parts), r.dtype)
        made = _temporary(name, (*self.outer, channel), sums)
        at = (*map(ix, self.outer), k.extent * group + k)
        return made, reduce(r.monoid, (k,), read(made.dst, at), r.dtype)


def _temporary(name: str, axes: tuple[Axis, ...], value: Expr) -> Store:
    dst = Buffer(name, Role.TEMP, tuple(a.extent for a in axes), value.dtype)
    return Store(dst, axes, tuple(map(ix, axes)), value)
