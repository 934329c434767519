"""pieces_in_place: what is computed for a piece of a concatenation alone is stored there, and not copied.

    t = scan of x;  out[i, j] = t[i, j] if j < 4096 else x[i, 8191 - j]

Before: the regions of an entry in launch order.  After: the region of `t` stores to `out`, and the other one stores the
elements that no piece has been stored to. Where all are pieces no copy is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.index import Ix, ix
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Holds,
    Read,
    Region,
    Role,
    Store,
    choose,
    holds,
    lookup_sources,
    read,
    walk,
)


def place_pieces(
    regions: tuple[Region, ...], in_loops: Callable[[Region], bool]
) -> tuple[Region, ...]:
    """The regions, unchanged where nothing that runs `in_loops` is read as a piece of an output and nowhere else."""
    out = list(regions)
    for i in range(len(out)):
        while (found := _piece(out, i, in_loops)) is not None:
            out[found.writer], out[i] = found.stored, found.rest
    return tuple(r for r in out if not _copies_itself(r))


@dataclass(frozen=True)
class _Piece:
    """The region of the `writer` as it stores to its place, and the `rest` of the concatenation."""

    writer: int
    stored: Region
    rest: Region


def _piece(regions: Sequence[Region], i: int, in_loops: Callable[[Region], bool]) -> _Piece | None:
    """The first or the last piece of a region's concatenation, where only that reads it."""
    region, (store, *others) = regions[i], regions[i].stores
    value = store.value
    if others or region.steps or store.dst.role is not Role.OUTPUT or not isinstance(value, Choose):
        return None
    if not isinstance(value.condition, Holds) or len(value.condition.conditions) != 1:
        return None
    (c,) = value.condition.conditions
    apart = Cmp(-c.slack - 1)  # where it does not hold
    sides = ((value.then, value.otherwise, c), (value.otherwise, value.then, apart))
    for piece, rest, where in sides:
        writer = _only_writer(regions, i, piece) if isinstance(piece, Read) else None
        if writer is None or not isinstance(piece, Read) or piece.source in _sources(rest):
            continue
        (made,) = regions[writer].stores
        at = _place(made, piece, store, where)
        if at is not None and in_loops(regions[writer]):
            other = apart if where is c else c
            kept = choose(holds((other,)), rest, read(store.dst, store.at))
            stored = replace(regions[writer], stores=(replace(made, dst=store.dst, at=at),))
            left = replace(region, stores=(replace(store, value=kept),))
            return _Piece(writer, stored, left)
    return None


def _place(made: Store, piece: Read, store: Store, where: Cmp) -> tuple[Ix, ...] | None:
    """Where each element of a piece lies; None if it is not all of what is made, or is rounded once more."""
    if made.at != tuple(map(ix, made.axes)) or store.at != tuple(map(ix, store.axes)):
        return None
    if made.dst.dtype is not store.dst.dtype or len(made.axes) != len(store.axes):
        return None
    at: list[Ix] = []
    for axis, of_whole, i in zip(made.axes, store.axes, piece.at, strict=True):
        start, length = ix(0), of_whole.extent
        if of_whole in where.slack.axes:
            factor = where.slack.coefficient(of_whole)
            if factor == 1:  # from a place on
                start = of_whole - where.slack
                length = of_whole.extent - start
            elif factor == -1:
                length = where.slack + of_whole + 1
            else:
                return None
        if start.axes or length != axis.extent or i != of_whole - start:
            return None
        at.append(axis + start)
    return tuple(at)


def _only_writer(regions: Sequence[Region], reader: int, piece: Read) -> int | None:
    """The region that stores the buffer alone, where no other region than the reader asks for it."""
    b = piece.source
    if b.role is not Role.TEMP:
        return None
    if any(b in r.reads() for n, r in enumerate(regions) if n != reader):
        return None
    writers = [n for n, r in enumerate(regions) if any(s.dst == b for s in r.stores)]
    alone = (n for n in writers if len(writers) == len(regions[n].stores) == 1)
    return next((n for n in alone if not regions[n].native and not regions[n].steps), None)


def _sources(e: Expr) -> set[Buffer]:
    nodes = walk([e])
    found = {x.source for x in nodes if isinstance(x, Read)}
    return found.union(*(lookup_sources(x) for x in nodes))


def _copies_itself(region: Region) -> bool:
    """Whether it stores what is there."""
    (store, *others) = region.stores
    value = store.value
    same = isinstance(value, Read) and value.source == store.dst and value.at == store.at
    return same and not others
