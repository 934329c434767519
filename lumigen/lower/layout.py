"""layout: the order of dimensions of each temporary in memory.

Before: the order of a temporary is that of the value in the model.  After: the order that makes the addresses of its
reads affine, and its innermost reads contiguous. A transpose between two kernels then costs nothing: the producer
stores in the order in which the consumer reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.canonical import canonical
from lumigen.lower.enlarged import store_enlarged
from lumigen.lower.innermost import innermost, reads_of_copies, weights_along
from lumigen.lower.padded import pad_runs
from lumigen.lower.parted import split_reduced
from lumigen.lower.scope import address
from lumigen.lower.statistics import reduces_pieces, store_statistics
from lumigen.machine import CopiedRuns
from lumigen.program import Panels
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
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


# weights in another order than their files': what they are, and how they are packed
PackedWeights = dict[Buffer, tuple[Buffer, Panels]]


@dataclass(frozen=True)
class Layouts:
    """Regions over tensors in their new orders, among which are weights."""

    regions: tuple[Region, ...]
    packed: PackedWeights


def choose_layouts(
    regions: tuple[Region, ...],
    runs: CopiedRuns | None,
    in_order: Callable[[Region], bool] | None = None,
) -> Layouts:
    """The regions with an order for each temporary; what products read through windows lies in `runs`.

    What a canonical region stores that is `in_order` keeps its order, if only addresses are better in another one.
    """
    if runs is not None:
        regions = _before(*store_enlarged(regions, runs))
        regions = _before(*pad_runs(regions, runs))
    reads: dict[Buffer, list[_Use]] = {}
    for region in regions:
        for s in region.stores:
            for e in walk([s.value]):
                if isinstance(e, Read) and e.source.role is Role.TEMP:
                    bound = frozenset(a for i in e.at for a in i.axes) - frozenset(s.axes)
                    reads.setdefault(e.source, []).append(_Use(e.at, bound, s.axes[-1:]))
    # indices that are read inside other indices keep their places, and what a loop takes in slices its first dim
    fixed = _looked_up(regions) | _sliced(regions)
    fixed = fixed.union(*(r.buffers() for r in regions if r.native))  # whole rows
    orders = {b: _best_order(b, found) for b, found in reads.items() if b not in fixed}
    moved = {b: o for b, o in orders.items() if o != tuple(range(len(b.dims)))}
    if in_order is not None:
        stored = {s.dst: r for r in regions for s in r.stores}
        moved = {b: o for b, o in moved.items() if not in_order(canonical(stored[b]).region)}
    inner: dict[Buffer, tuple[int, ...]] = {}
    if runs is not None:
        inner = innermost(tuple(map(split_reduced, regions)), runs, fixed | _others(regions))
    else:
        moved |= weights_along(regions, fixed | _others(regions))
    moved |= inner
    turned = {b: _permuted(b, o) for b, o in moved.items()}
    copies = tuple(_copy(b, turned[b], moved[b]) for b in moved if b.role is Role.INPUT)
    packed = {turned[b]: (b, _panels(b, o)) for b, o in moved.items() if b.role is Role.WEIGHT}
    applied = tuple(_apply(r, moved, turned, runs) for r in regions) if moved else regions
    images = frozenset(turned[b] for b in inner if b.role is not Role.WEIGHT)
    if runs is not None:
        applied = tuple(x for r in applied for x in _in_rows(r, images))
    return Layouts(_before(applied, copies), packed)


def _in_rows(region: Region, images: frozenset[Buffer]) -> Iterator[Region]:
    """The region with what it reduces over rows of images that are no lines of memory stored before."""
    parted = split_reduced(region) if _has_parts(region) else region
    pieces = bool(images & {*region.buffers()}) or reduces_pieces(parted)
    yield from store_statistics(parted) if pieces else (region,)


def _has_parts(region: Region) -> bool:
    """Whether a reduction reads memory at quotients or remainders of its axes."""
    values = walk(s.value for s in region.stores)
    reduced = {a for e in values if isinstance(e, Reduce) for a in e.axes}
    flat = (address(e.source, e.at) for e in values if isinstance(e, Read))
    parted = (a for at in flat for a in at.atoms() if isinstance(a, Quotient | Remainder))
    return any(a.numerator.axes & reduced for a in parted)


def _others(regions: tuple[Region, ...]) -> frozenset[Buffer]:
    """What keeps its order, and is not copied: what a caller or a context has, and what loops read in steps."""
    own = (Role.TEMP, Role.INPUT, Role.WEIGHT)
    found = {b for r in regions for b in r.buffers() if b.role not in own}
    return frozenset(found.union(*(r.reads() for r in regions if r.steps)))


def _copy(b: Buffer, turned: Buffer, order: tuple[int, ...]) -> Region:
    """What stores an input in another order."""
    axes = tuple(Axis(f"d{d}", extent) for d, extent in enumerate(b.dims))
    stored = tuple(axes[d] for d in order)
    value = read(b, tuple(map(ix, axes)))
    return Region((Store(turned, stored, tuple(map(ix, stored)), value),))


def _panels(b: Buffer, order: tuple[int, ...]) -> Panels:
    """A weight with one dimension moved to the end: the columns of a panel; those after it are the depth."""
    d, dims = order[-1], tuple(e.const for e in b.dims)
    before, own, after = prod(dims[:d]), dims[d], prod(dims[d + 1 :])
    return Panels(before * own, after, after, 1, width=own)


def _before(regions: tuple[Region, ...], copies: tuple[Region, ...]) -> tuple[Region, ...]:
    """The regions, with each copy before the first that reads it."""
    out: list[Region] = []
    left = {s.dst: copy for copy in copies for s in copy.stores}
    for region in regions:
        out += (left.pop(b) for b in region.reads() if b in left)
        out.append(region)
    return tuple(out)


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
    """A read: where, which of its axes a reduction runs over, and along which one neighbours are stored.

    Quotients of other axes are the same for all of a row.
    """

    at: tuple[Ix, ...]
    bound: frozenset[Axis]
    last: tuple[Axis, ...]


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
        inner = use.bound.union(use.last)
        splits += sum(not inner.isdisjoint(a.numerator.axes) for a in parted)
        scattered += bool(use.bound) and all(flat.coefficient(a) != 1 for a in use.bound)
    return splits, scattered


def _apply(
    region: Region,
    orders: Mapping[Buffer, tuple[int, ...]],
    turned: Mapping[Buffer, Buffer],
    runs: CopiedRuns | None,
) -> Region:
    memo: dict[Expr, Expr] = {}
    copied = {b for b in orders if b.role is Role.INPUT}
    taken = reads_of_copies(region, orders, runs) if runs and copied else frozenset[Read]()

    def visit(e: Expr) -> Expr:
        if e not in memo:
            if (
                isinstance(e, Read)
                and e.source in orders
                and (e.source not in copied or e in taken)
            ):
                order = orders[e.source]
                at = tuple(e.at[d] for d in order)
                memo[e] = read(turned[e.source], at)
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
            stores.append(Store(turned[s.dst], axes, at, value))
        else:
            stores.append(Store(s.dst, s.axes, s.at, value))
    return replace(region, stores=tuple(stores))


def _permuted(b: Buffer, order: tuple[int, ...]) -> Buffer:
    dims = tuple(b.dims[d] for d in order)
    if b.role is Role.TEMP:
        return replace(b, dims=dims)
    digits = "".join(map(str, order))
    if b.role is Role.WEIGHT:  # no other one is called so
        return replace(b, name=f"{b.name}[by {digits}]", dims=dims)
    return Buffer(f"{b.name}_{digits}", Role.TEMP, dims, b.dtype, b.range)


def _follow(axes: tuple[Axis, ...], at: tuple[Ix, ...]) -> tuple[Axis, ...]:
    """The store's axes in the order of the dimensions they index."""
    place = {a: d for d, i in enumerate(at) for a in i.axes}
    return tuple(sorted(axes, key=lambda a: place.get(a, -1)))
