"""arena: place the temporaries of an entry in one block of memory.

Before: the steps at which each temporary is first written and last read, and its bytes as an
expression of the dims.  After: slots in an order; each starts at the greatest end of the earlier slots
that live at the same time. Only the order is decided here: offsets are evaluated when the dims are
known, and are right for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lumigen.index import Dim, Ix
from lumigen.program import ALIGNMENT, Slot


@dataclass(frozen=True)
class Lifetime:
    """A temporary alive from step `first` to step `last`, both included."""

    name: str
    bytes: Ix
    first: int
    last: int


@dataclass(frozen=True)
class Tenancy:
    """Temporaries of equal size, one after another in one slot."""

    name: str
    bytes: Ix
    tenants: tuple[Lifetime, ...]

    @property
    def first(self) -> int:
        return self.tenants[0].first

    @property
    def last(self) -> int:
        return self.tenants[-1].last

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
    bounds = [max(1, lower_bound(lifetimes, s)) for s in sizes]

    def excess(order: list[Tenancy]) -> float:
        """The arena over its lower bound at the worst of the points."""
        slots = _slots(order)
        return max(
            _arena_bytes(slots, {t.name: s[t.tenants[0].name] for t in order}) / b
            for s, b in zip(sizes, bounds, strict=True)
        )

    shared = _improved(_shared(lifetimes), sizes[1], excess)
    alone = [Tenancy(t.name, t.bytes, (t,)) for t in lifetimes]
    best = shared
    if excess(shared) > 1:
        apart = _improved(alone, sizes[1], excess)
        best = apart if excess(apart) < excess(shared) else shared
    home = {t.name: tenancy.name for tenancy in best for t in tenancy.tenants}
    return Arena(_slots(best), home)


def lower_bound(lifetimes: tuple[Lifetime, ...], sizes: Mapping[str, int]) -> int:
    """The most bytes alive at one step: no arena is smaller."""
    steps = {t.first for t in lifetimes}
    return max(
        (sum(sizes[t.name] for t in lifetimes if t.first <= s <= t.last) for s in steps), default=0
    )


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _shared(lifetimes: tuple[Lifetime, ...]) -> list[Tenancy]:
    """Each temporary in the slot of its size that was left last, or in a new one."""
    groups: list[list[Lifetime]] = []
    for t in sorted(lifetimes, key=lambda t: (t.first, t.last)):
        free = [g for g in groups if g[0].bytes is t.bytes and g[-1].last < t.first]
        if free:
            max(free, key=lambda g: g[-1].last).append(t)
        else:
            groups.append([t])
    return [Tenancy(f"t{i}", g[0].bytes, tuple(g)) for i, g in enumerate(groups)]


def _improved(
    tenancies: list[Tenancy], sizes: Mapping[str, int], excess: Callable[[list[Tenancy]], float]
) -> list[Tenancy]:
    """The best of several sorted orders, mended by moving one slot to the front at a time."""
    if not tenancies:
        return tenancies
    best = min(_orders(tenancies, sizes), key=excess)
    found = excess(best)
    for t in tenancies:
        if found == 1:
            break
        moved = [t, *(o for o in best if o is not t)]
        if (tried := excess(moved)) < found:
            best, found = moved, tried
    return best


def _orders(tenancies: list[Tenancy], sizes: Mapping[str, int]) -> list[list[Tenancy]]:
    """Orders of placement worth trying."""

    def size(t: Tenancy) -> int:
        return sizes[t.tenants[0].name]

    def span(t: Tenancy) -> int:
        return sum(x.last - x.first + 1 for x in t.tenants)

    return [
        sorted(tenancies, key=lambda t: (-size(t), t.first)),
        sorted(tenancies, key=lambda t: (-span(t), -size(t))),
        sorted(tenancies, key=lambda t: (-size(t) * span(t), t.first)),
        sorted(tenancies, key=lambda t: (t.first, -span(t))),
        sorted(tenancies, key=lambda t: (t.first, -size(t))),
        sorted(tenancies, key=lambda t: (-t.last, t.first)),
    ]


def _slots(order: list[Tenancy]) -> tuple[Slot, ...]:
    out: list[Slot] = []
    for i, t in enumerate(order):
        after = tuple(o.name for o in order[:i] if o.meets(t))
        out.append(Slot(t.name, t.bytes, after))
    return tuple(out)


def _arena_bytes(slots: tuple[Slot, ...], sizes: Mapping[str, int]) -> int:
    end: dict[str, int] = {}
    for s in slots:
        end[s.name] = max((end[a] for a in s.after), default=0) + sizes[s.name]
    return max(end.values(), default=0)
