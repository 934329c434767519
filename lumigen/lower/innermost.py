"""innermost: which dimension of a tensor lies innermost, so that products read their windows in runs.

Before: regions, each temporary in an order of its own.  After: an order for some of them, their other dimensions as
they were. A product reads a tensor through windows where its address is affine in no single row and depth: a place
of the image is a row's plus a window's, or rows are a stride apart. It is copied many bytes at a time if a dimension
that is summed over, as channels are, lies innermost and is long enough.

What is made of such a tensor point by point, and what it is made of, best lies alike: the wish spreads through maps,
pools and products. Then each tensor keeps the new order only if the regions that touch it take no longer with it, in
bytes that they move.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.contractions import product_factors, volume_of
from lumigen.machine import CopiedRuns
from lumigen.region import Buffer, Expr, Read, Reduce, Region, Role, Store, free_axes, walk

ONE = Axis("one", ix(1))
Order = tuple[int, ...]
Orders = Mapping[Buffer, Order]


@dataclass(frozen=True)
class Factor:
    """An operand of a product: the axes `summed` over, those that it has alone, and those that the other one has."""

    product: Reduce
    operands: tuple[Expr, Expr]
    summed: frozenset[Axis]
    own: frozenset[Axis]
    others: frozenset[Axis]


@dataclass(frozen=True)
class Use:
    """A read of a tensor in what is stored; of an operand of a product, which one."""

    store: Store
    read: Read
    bound: frozenset[Axis]
    factor: Factor | None

    @property
    def source(self) -> Buffer:
        return self.read.source

    @property
    def at(self) -> tuple[Ix, ...]:
        return self.read.at

    def run(self, d: int) -> Ix:
        """How many elements along a dimension a sum of products reads one after the other."""
        assert self.factor is not None
        inside = self.at[d].axes & self.factor.summed
        along = next(iter(inside)) if len(inside) == 1 else None
        return along.extent if along and self.at[d].coefficient(along) == 1 else ix(0)

    @property
    def summed(self) -> frozenset[Axis]:
        return self.factor.summed if self.factor is not None else frozenset()

    def is_beside(self, other: Use) -> bool:
        """Whether another read is one of the other operand of its product."""
        if self.factor is None or other.factor is None or other.store is not self.store:
            return False
        same = other.factor.product is self.factor.product
        return same and other.factor.own == self.factor.others

    def alike(self, b: Buffer, d: int) -> Iterator[tuple[Buffer, int]]:
        """What lies best as the tensor read or stored does that has dimension `d` innermost, with its own dimension.

        In a map they have the same axis; of a product what one operand is summed over, and what the other one adds.
        """
        dst, at = self.store.dst, self.store.at
        place = self.at[d] if b == self.source else at[d]
        axis = axis_of(place)
        if self.factor is None:
            one, places = (dst, at) if b == self.source else (self.source, self.at)
            yield from ((one, e) for e, i in enumerate(places) if i.axes and (i - place).is_const)
        elif b == self.source and axis in self.summed:
            made = [e for e, i in enumerate(at) if i.axes & self.factor.others]
            yield from ((dst, e) for e in made if len(made) == 1)
        elif b == dst and axis in self.factor.others:
            found = [e for e, i in enumerate(self.at) if i.axes and i.axes <= self.summed]
            yield from ((self.source, e) for e in found if len(found) == 1 < len(self.at) - 1)

    def is_along(self, order: Order, orders: Orders, runs: CopiedRuns) -> bool:
        """Whether neighbouring threads, which have neighbouring elements to store, read neighbours in memory."""
        last, lanes = self.at[order[-1]], lanes_of(self.store, orders)
        varies = any(i.axes & lanes for i in self.at)
        along = [a.extent.estimate() for a in self.bound if last.coefficient(a) == 1]
        long = any(n * self.source.dtype.itemsize >= runs.vector for n in along)
        return bool(last.axes & lanes) or long or not (varies or self.bound)

    def gains(self, order: Order, orders: Orders, runs: CopiedRuns) -> bool:
        """Whether it is read along memory in this order, and is not as it lies."""
        natural = tuple(range(len(self.at)))
        return not self.is_along(natural, orders, runs) and self.is_along(order, orders, runs)

    @property
    def is_window(self) -> bool:
        """Whether it is an image's: some index moves with a row and with the window, or with rows a stride apart."""
        if self.factor is None:
            return False
        own = [i for i in self.at if i.axes & self.factor.own]
        return any(i.axes & self.factor.summed or axis_of(i) is None for i in own)


def uses_of(region: Region) -> Iterator[Use]:
    """The reads of a region in order."""
    for s in region.stores:
        factors = dict(_factors(s))
        for e in walk([s.value]):
            if isinstance(e, Read):
                bound = frozenset(a for i in e.at for a in i.axes) - frozenset(s.axes)
                yield Use(s, e, bound, factors.get(e))


def windows_of(uses: Iterable[Use]) -> frozenset[Read]:
    """What a region's products read through windows, and the other operands of these."""
    found = tuple(uses)
    windows = [u for u in found if u.is_window]
    return frozenset(u.read for u in found if any(u is w or w.is_beside(u) for w in windows))


def _factors(s: Store) -> Iterator[tuple[Read, Factor]]:
    for r in walk([s.value]):
        factors = product_factors(r) if isinstance(r, Reduce) else None
        if factors is None:
            continue
        assert isinstance(r, Reduce)
        summed = frozenset(r.axes)
        for value, other in (factors, factors[::-1]):
            has, lacks = free_axes(value) - summed, free_axes(other) - summed
            found = Factor(r, factors, summed, has - lacks, lacks - has)
            yield from ((e, found) for e in walk([value]) if isinstance(e, Read))


def axis_of(i: Ix) -> Axis | None:
    """The axis that an index follows step by step, from some place on."""
    (axis,) = i.axes if len(i.axes) == 1 else (None,)
    is_step = axis is not None and i.coefficient(axis) == 1 and not (i - axis).axes
    return axis if is_step else None


def innermost(
    regions: tuple[Region, ...], runs: CopiedRuns, fixed: frozenset[Buffer]
) -> dict[Buffer, Order]:
    """The orders of tensors that products read through windows, and of those around them; `fixed` ones have none.

    Those of inputs and weights are of copies in that order, which are made once.
    """
    space = _Space(regions, runs, fixed)
    wanted = space.spread(space.seeds())
    orders = space.kept({b: moved_last(len(b.dims), d) for b, d in wanted.items()})
    return orders | space.tables(orders)


def weights_along(regions: tuple[Region, ...], fixed: frozenset[Buffer]) -> dict[Buffer, Order]:
    """The orders of weights in which neighbours that are stored read neighbours, as of channels that lie last.

    Those that products read stay: a product packs its columns as it needs them.
    """
    wanted: dict[Buffer, set[Order]] = {}
    for region in regions:
        uses = () if region.steps or region.native else tuple(uses_of(region))
        for use in (u for u in uses if u.source.role is Role.WEIGHT and u.source not in fixed):
            wanted.setdefault(use.source, set()).add(_order_along(use, uses))
    orders = ((b, next(iter(found))) for b, found in wanted.items() if len(found) == 1)
    return {b: order for b, order in orders if order != tuple(range(len(b.dims)))}


def _order_along(use: Use, uses: tuple[Use, ...]) -> Order:
    """The order for a read; as it is where a product may read it, or only a part is read."""
    natural, stored = tuple(range(len(use.at))), use.store.at
    lane = axis_of(stored[-1]) if stored else None
    found = [d for d, i in enumerate(use.at) if lane in i.axes]
    axes = [axis_of(i) or ONE for i in use.at]
    each = zip(axes, use.at, use.source.dims, strict=True)
    whole = all(n == 1 or (i == ix(a) and a.extent == n) for a, i, n in each)
    if lane is None or len(found) != 1 or not whole:
        return natural
    beside = [u for u in uses if u is not use and u.bound & use.bound]
    shared = all(any(lane in i.axes for i in u.at) for u in beside)
    if use.factor is not None or (use.bound and not (beside and shared)):
        return natural
    behind = use.source.dims[found[0] + 1 :]
    return moved_last(len(use.at), found[0]) if any(n != 1 for n in behind) else natural


def reads_of_copies(region: Region, orders: Orders, runs: CopiedRuns) -> frozenset[Read]:
    """What reads copies of inputs: products through windows, and maps that read along what they store then."""
    uses = tuple(uses_of(region))
    moved = (u for u in uses if u.source in orders and u.factor is None)
    gaining = frozenset(u.read for u in moved if u.gains(orders[u.source], orders, runs))
    return windows_of(uses) | gaining


def moved_last(rank: int, d: int) -> Order:
    """The order of dimensions that has one of them last."""
    return (*(e for e in range(rank) if e != d), d)


class _Space:
    """What orders cost. Tensors of one region are each other's neighbours."""

    def __init__(
        self, regions: tuple[Region, ...], runs: CopiedRuns, fixed: frozenset[Buffer]
    ) -> None:
        self.runs, self.fixed = runs, fixed
        self.uses = [tuple(uses_of(r)) for r in regions]
        self.windows = frozenset[Read]().union(*map(windows_of, self.uses))
        self.touching: dict[Buffer, list[int]] = {}
        for number, region in enumerate(regions):
            for b in region.buffers():
                self.touching.setdefault(b, []).append(number)

    def seeds(self) -> dict[Buffer, int]:
        """What products read through windows, and their other operands: which dimension has the longest run."""
        out: dict[Buffer, int] = {}
        for uses in self.uses:
            for use in (u for u in uses if u.is_window):
                d = self.longest(use)
                if d is None or self.is_run(use, len(use.at) - 1):
                    continue
                along = use.at[d]
                operands = (use, *(u for u in uses if use.is_beside(u)))
                for u in (u for u in operands if u.source not in self.fixed):
                    found = [e for e, i in enumerate(u.at) if i.axes & along.axes & use.summed]
                    if len(found) != 1 or not self.is_run(u, found[0]):
                        continue
                    if any(extent != 1 for extent in u.source.dims[found[0] + 1 :]):
                        out.setdefault(u.source, found[0])
        return out

    def longest(self, use: Use) -> int | None:
        """The dimension with the longest run, if that is long enough."""
        best = max(range(len(use.at)), key=lambda d: use.run(d).estimate())
        return best if self.is_run(use, best) else None

    def is_run(self, use: Use, d: int) -> bool:
        """Whether runs along a dimension are copied whole, in elements that are multiplied as they are."""
        size, run = use.source.dtype.itemsize, use.run(d)
        least = run.bounds()[0] or 0
        return size == self.runs.itemsize and least > 0 and run * size % self.runs.bytes == 0

    def spread(self, seeds: Mapping[Buffer, int]) -> dict[Buffer, int]:
        """The dimensions for what is made of tensors, and what these are made of, point by point or row by row."""
        out, waiting = dict(seeds), deque(seeds)
        while waiting:
            b = waiting.popleft()
            for number in self.touching[b]:
                for use in (u for u in self.uses[number] if b in (u.source, u.store.dst)):
                    for one, d in use.alike(b, out[b]):
                        if one not in out and one.role is Role.TEMP and one not in self.fixed:
                            out[one] = d
                            waiting.append(one)
        return out

    def kept(self, wanted: Orders) -> dict[Buffer, Order]:
        """Those orders with which regions take no longer."""
        out = dict(wanted)
        changed = True
        while changed:
            changed = False
            for b in wanted:
                around = self.touching[b]
                if b not in out:
                    continue
                without = {x: o for x, o in out.items() if x is not b}
                if self.time(around, without) < self.time(around, out):
                    out, changed = without, True
        everywhere = range(len(self.uses))
        return out if self.time(everywhere, out) < self.time(everywhere, {}) else {}

    def tables(self, orders: Orders) -> dict[Buffer, Order]:
        """Weights that maps read across what they store, and inputs that are read so again and again."""
        out: dict[Buffer, Order] = {}
        maps = [[u for u in uses if u.factor is None] for uses in self.uses]
        for use, around in ((u, uses) for uses in maps for u in uses):
            b, size = use.source, volume_of(use.source.dims)
            times = sum(u.source is b and u.store is use.store for u in around)
            again = times * volume_of(use.store.dst.dims) >= self.runs.again * size
            is_table = b.role is Role.WEIGHT or (b.role is Role.INPUT and again)
            if not is_table or b in self.fixed or b in orders:
                continue
            for d in (d for d, i in enumerate(use.at) if i.axes & lanes_of(use.store, orders)):
                order = moved_last(len(use.at), d)
                if any(n != 1 for n in b.dims[d + 1 :]) and use.gains(order, orders, self.runs):
                    out.setdefault(b, order)
        return out

    def time(self, numbers: Iterable[int], orders: Orders) -> int:
        """What the operands of regions take, in bytes."""
        return sum(self.time_of(u, orders) for n in numbers for u in self.uses[n])

    def time_of(self, use: Use, orders: Orders) -> int:
        natural = tuple(range(len(use.at)))
        is_copy = (
            use.source.role is Role.INPUT and use.factor is None
        )  # which may have the original
        order = natural if is_copy else orders.get(use.source, natural)
        moved = volume_of(use.source.dims) * use.source.dtype.itemsize
        if not order:
            return 0
        if _splits(use, order) > _splits(use, natural):
            return moved * self.runs.scattered
        if use.factor is not None:
            scattered = use.read in self.windows and not self.is_run(use, order[-1])
            return moved * self.runs.scattered if scattered else 0
        return 0 if use.is_along(order, orders, self.runs) else moved * self.runs.across


def lanes_of(store: Store, orders: Orders) -> frozenset[Axis]:
    """The axes along which neighbours in memory are stored."""
    order = orders.get(store.dst, tuple(range(len(store.at))))
    return store.at[order[-1]].axes if order else frozenset()


def _splits(use: Use, order: Order) -> int:
    """How many quotients and remainders the address keeps."""
    flat = ix(0)
    for d in order:
        flat = flat * use.source.dims[d] + use.at[d]
    parted = (a for a in flat.atoms() if isinstance(a, Quotient | Remainder))
    return sum(bool(a.numerator.axes) for a in parted)
