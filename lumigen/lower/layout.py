"""layout: the order of dimensions of each temporary in memory.

Before: the order of a temporary is that of the value in the model.  After: the order that makes the addresses of its
reads affine, and its innermost reads contiguous. A transpose between two kernels then costs nothing: the producer
stores in the order in which the consumer reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Region,
    Role,
    Store,
    lookup_sources,
    read,
    rebuild,
    walk,
)
from lumigen.view import Shape

MAX_RANK = 5  # beyond it all orders are too many to try; such a temporary keeps its own


def choose_layouts(regions: tuple[Region, ...]) -> tuple[Region, ...]:
    reads: dict[Buffer, list[_Use]] = {}
    for region in regions:
        for s in region.stores:
            for e in walk([s.value]):
                if isinstance(e, Read) and e.source.role is Role.TEMP:
                    bound = frozenset(a for i in e.at for a in i.axes) - frozenset(s.axes)
                    reads.setdefault(e.source, []).append(_Use(e.at, bound))
    # indices that are read inside other indices keep their places, and what a loop takes in slices its first dim
    fixed = _looked_up(regions) | _sliced(regions)
    fixed = fixed.union(*(r.buffers() for r in regions if r.native))  # whole rows
    orders = {b: _best_order(b, found) for b, found in reads.items() if b not in fixed}
    moved = {b: o for b, o in orders.items() if o != tuple(range(len(b.dims)))}
    return tuple(_apply(r, moved) for r in regions) if moved else regions


def _looked_up(regions: tuple[Region, ...]) -> frozenset[Buffer]:
    stores = [s for region in regions for s in region.stores]
    return frozenset(b for e in walk([s.value for s in stores]) for b in lookup_sources(e))


def _sliced(regions: tuple[Region, ...]) -> frozenset[Buffer]:
    """What is read or stored step by step."""
    out: set[Buffer] = set()
    for region in (r for r in regions if r.steps):
        steps = frozenset(region.steps)
        places = [(s.dst, s.at) for s in region.stores]
        values = walk(s.value for s in region.stores)
        places += [(e.source, e.at) for e in values if isinstance(e, Read)]
        out |= {b for b, at in places if any(i.axes & steps for i in at)}
    return frozenset(out)


@dataclass(frozen=True)
class _Use:
    """A read: where, and which of its axes a reduction runs over."""

    at: tuple[Ix, ...]
    bound: frozenset[Axis]


def _best_order(buffer: Buffer, reads: list[_Use]) -> tuple[int, ...]:
    rank = len(buffer.dims)
    if not 2 <= rank <= MAX_RANK:
        return tuple(range(rank))
    natural = tuple(range(rank))
    costs = {order: _cost(buffer.dims, reads, order) for order in permutations(natural)}
    if costs[natural][0] == min(splits for splits, _ in costs.values()):
        return natural
    return min(costs, key=lambda order: (costs[order], order))


def _cost(dims: Shape, reads: list[_Use], order: tuple[int, ...]) -> tuple[int, int]:
    """How many quotients and remainders the addresses keep; how many reductions do not run along memory."""
    splits = scattered = 0
    for use in reads:
        flat = ix(0)
        for d in order:
            flat = flat * dims[d] + use.at[d]
        parted = (a for a in flat.atoms() if isinstance(a, Quotient | Remainder))
        splits += sum(bool(a.numerator.axes) for a in parted)  # an extent as h // 2 is a number
        scattered += bool(use.bound) and all(flat.coefficient(a) != 1 for a in use.bound)
    return splits, scattered


def _apply(region: Region, orders: dict[Buffer, tuple[int, ...]]) -> Region:
    moved = {b: _permuted(b, o) for b, o in orders.items()}
    memo: dict[Expr, Expr] = {}

    def visit(e: Expr) -> Expr:
        if e not in memo:
            if isinstance(e, Read) and e.source in orders:
                order = orders[e.source]
                at = tuple(e.at[d] for d in order)
                memo[e] = read(moved[e.source], at)
            else:
                memo[e] = rebuild(e, visit, lambda i: i)
        return memo[e]

    stores: list[Store] = []
    for s in region.stores:
        value = visit(s.value)
        if s.dst in orders:
            order = orders[s.dst]
            at = tuple(s.at[d] for d in order)
            axes = _follow(s.axes, at)
            stores.append(Store(moved[s.dst], axes, at, value))
        else:
            stores.append(Store(s.dst, s.axes, s.at, value))
    return replace(region, stores=tuple(stores))


def _permuted(b: Buffer, order: tuple[int, ...]) -> Buffer:
    return Buffer(b.name, b.role, tuple(b.dims[d] for d in order), b.dtype, b.range)


def _follow(axes: tuple[Axis, ...], at: tuple[Ix, ...]) -> tuple[Axis, ...]:
    """The store's axes in the order of the dimensions they index."""
    place = {a: d for d, i in enumerate(at) for a in i.axes}
    return tuple(sorted(axes, key=lambda a: place.get(a, -1)))
