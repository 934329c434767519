"""arena: place the temporaries of an entry in one block of memory.

Before: the first and the last step at which each temporary is alive, and its bytes as an expression of
the dims.  After: slots in an order; each starts at the greatest end of the earlier slots that live at
the same time. Only the order is decided here: offsets are evaluated when the dims are known, and are
right for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from lumigen.index import Dim, Ix
from lumigen.program import ALIGNMENT, Slot

MOVES = 1000  # that the search tries where no sorted order is best
WORSE = 0.08  # by how much the first moves may leave the arena larger; the last ones not at all


@dataclass(frozen=True)
class Lifetime:
    """A temporary alive from step `first` to step `last`, both included.

    It may have several: between them it holds nothing, and others may lie there.
    """

    name: str
    bytes: Ix
    first: int
    last: int


@dataclass(frozen=True)
class Tenancy:
    """Temporaries of equal size in one slot, no two at a time."""

    name: str
    bytes: Ix
    tenants: tuple[Lifetime, ...]

    @property
    def first(self) -> int:
        return min(t.first for t in self.tenants)

    @property
    def last(self) -> int:
        return max(t.last for t in self.tenants)

    @property
    def steps(self) -> int:
        return sum(t.last - t.first + 1 for t in self.tenants)

    def left(self, step: int) -> int:
        """The last step before this one at which it is taken."""
        return max((t.last for t in self.tenants if t.last < step), default=-1)

    def meets(self, other: Tenancy) -> bool:
        return any(
            a.first <= b.last and b.first <= a.last for a in self.tenants for b in other.tenants
        )


@dataclass(frozen=True)
class Arena:
    """The slots in their order, and the slot in which each temporary lives."""

    slots: tuple[Slot, ...]
    home: Mapping[str, str]


def plan_arena(lifetimes: tuple[Lifetime, ...], dims: tuple[Dim, ...]) -> Arena:
    """The arrangement, of several tried, whose arena is least over the dims' values.

    Tried at the dims' least, typical and greatest values, against the most bytes alive at a step.
    Temporaries share a slot where that costs nothing: the emitted code then has few names.
    """
    points = (
        {d: d.lo for d in dims},
        {d: d.estimate for d in dims},
        {d: d.hi for d in dims},
    )
    sizes = [{t.name: _aligned(int(t.bytes.evaluate(p))) for t in lifetimes} for p in points]
    bounds = tuple(max(1, lower_bound(lifetimes, s)) for s in sizes)
    alone = _alone(lifetimes)
    best = _Search.of(_shared(alone), sizes, bounds)
    if best.excess > 1:
        apart = _Search.of(alone, sizes, bounds)
        best = apart if apart.excess < best.excess else best
    home = {t.name: tenancy.name for tenancy in best.tenancies for t in tenancy.tenants}
    return Arena(best.slots(), home)


def lower_bound(lifetimes: tuple[Lifetime, ...], sizes: Mapping[str, int]) -> int:
    """The most bytes alive at one step: no arena is smaller."""
    steps = {t.first for t in lifetimes}
    return max(
        (sum(sizes[t.name] for t in lifetimes if t.first <= s <= t.last) for s in steps), default=0
    )


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _alone(lifetimes: tuple[Lifetime, ...]) -> list[Tenancy]:
    """Each temporary in a slot of its own."""
    of: dict[str, list[Lifetime]] = {}
    for t in lifetimes:
        of.setdefault(t.name, []).append(t)
    return [Tenancy(name, same[0].bytes, tuple(same)) for name, same in of.items()]


def _shared(alone: list[Tenancy]) -> list[Tenancy]:
    """Each temporary in the slot of its size that was left last, or in a new one."""
    slots: list[Tenancy] = []
    for t in sorted(alone, key=lambda t: (t.first, t.last)):
        free = [i for i, s in enumerate(slots) if s.bytes is t.bytes and not s.meets(t)]
        if free:
            i = max(free, key=lambda i: slots[i].left(t.first))
            slots[i] = replace(slots[i], tenants=(*slots[i].tenants, *t.tenants))
        else:
            slots.append(replace(t, name=f"t{len(slots)}"))
    return slots


class _Search:
    """Looks for the order of slots whose arena exceeds its lower bound least, at the worst point."""

    def __init__(
        self, tenancies: list[Tenancy], sizes: list[tuple[int, ...]], bounds: tuple[int, ...]
    ) -> None:
        self.tenancies = tenancies
        self.sizes = sizes  # at each point, of each slot
        self.bounds = bounds
        numbered = list(enumerate(tenancies))
        self.meets = [[j for j, u in numbered if j != i and t.meets(u)] for i, t in numbered]
        self.order = list(range(len(tenancies)))
        self.excess = self.measure(self.order)

    @staticmethod
    def of(
        tenancies: list[Tenancy], sizes: list[dict[str, int]], bounds: tuple[int, ...]
    ) -> _Search:
        """A search that has ended."""
        by_slot = (tuple(s[t.tenants[0].name] for t in tenancies) for s in sizes)
        points = dict(zip(by_slot, bounds, strict=True))  # fewer where sizes do not vary
        found = _Search(tenancies, list(points), tuple(points.values()))
        found.sort()
        found.walk()
        return found

    def slots(self) -> tuple[Slot, ...]:
        out: list[Slot] = []
        for n, i in enumerate(self.order):
            after = tuple(self.tenancies[j].name for j in self.order[:n] if j in self.meets[i])
            out.append(Slot(self.tenancies[i].name, self.tenancies[i].bytes, after))
        return tuple(out)

    def sort(self) -> None:
        """Sorted orders, as they are and packed with the best fit at each of the points."""
        for size in self.sizes:
            keys: tuple[Callable[[int], tuple[int, int]], ...] = (
                lambda i, s=size: (-s[i], self.tenancies[i].first),
                lambda i, s=size: (-s[i] * self.tenancies[i].steps, self.tenancies[i].first),
                lambda i, s=size: (-self.tenancies[i].steps, -s[i]),
                lambda i, s=size: (self.tenancies[i].first, -s[i]),
            )
            for key in keys:
                if self.excess <= 1:
                    return
                order = sorted(range(len(self.tenancies)), key=key)
                self.consider(order)
                for other in self.sizes:
                    self.consider(self.best_fit(order, other))

    def walk(self) -> None:
        """Moves slots that decide the arena's size, now and then for the worse. Always the same walk."""
        order, now = self.order, self.excess
        choice = Random(0)  # noqa: S311 -- no secret, and the same walk each time
        for left in range(MOVES, 0, -1):
            if self.excess <= 1:
                return
            slot = choice.choice(self.critical(order))
            moved = [i for i in order if i != slot]
            moved.insert(choice.randrange(len(order)), slot)
            tried = self.measure(moved)
            if tried <= now * (1 + WORSE * left / MOVES):
                order, now = moved, tried
                self.consider(moved)

    def consider(self, order: list[int]) -> None:
        found = self.measure(order)
        if found < self.excess:
            self.order, self.excess = order, found

    def measure(self, order: list[int]) -> float:
        """The arena over its lower bound at the worst of the points."""
        ends = (self.ends(order, size) for size in self.sizes)
        return max(max(e, default=0) / b for e, b in zip(ends, self.bounds, strict=True))

    def ends(self, order: list[int], size: tuple[int, ...]) -> list[int]:
        """Where each slot ends; one that is not placed yet ends at 0."""
        out = [0] * len(order)
        for i in order:
            out[i] = max((out[j] for j in self.meets[i]), default=0) + size[i]
        return out

    def best_fit(self, order: list[int], size: tuple[int, ...]) -> list[int]:
        """By address, once each slot in turn took the smallest gap that holds it."""
        start: dict[int, int] = {}
        for i in order:
            taken = sorted((start[j], start[j] + size[j]) for j in self.meets[i] if j in start)
            gaps: list[tuple[int, int]] = []
            free = 0
            for a, b in taken:
                if a - free >= size[i]:
                    gaps.append((a - free, free))
                free = max(free, b)
            start[i] = min(gaps)[1] if gaps else free
        return sorted(order, key=lambda i: (start[i], i))

    def critical(self, order: list[int]) -> list[int]:
        """The slots, one on another, that reach the end of the arena at the worst point."""
        every = [(self.ends(order, s), s, b) for s, b in zip(self.sizes, self.bounds, strict=True)]
        ends, size, _ = max(every, key=lambda e: max(e[0]) / e[2])
        place = {i: n for n, i in enumerate(order)}
        top = max(order, key=lambda i: ends[i])
        out = [top]
        while start := ends[top] - size[top]:
            top = next(j for j in self.meets[top] if place[j] < place[top] and ends[j] == start)
            out.append(top)
        return out
