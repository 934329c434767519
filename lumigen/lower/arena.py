"""arena: place the temporaries of an entry in one block of memory.

Before: the steps at which each temporary is first written and last read, and its bytes as an expression of the
dims.  After: slots in an order; each starts at the greatest end of the earlier slots that live at the same time.
Only the order is decided here: offsets are evaluated when the dims are known, and are right for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan_arena(lifetimes: tuple[Lifetime, ...], dims: tuple[Dim, ...]) -> tuple[Slot, ...]:
    """Slots in the order, of several tried, whose arena is least over the dims' least, typical and greatest values."""
    points = [
        {d: pick(d) for d in dims}
        for pick in (lambda d: d.lo, lambda d: d.estimate, lambda d: d.hi)
    ]
    sizes = [{t.name: _aligned(int(t.bytes.evaluate(p))) for t in lifetimes} for p in points]
    bounds = [max(1, lower_bound(lifetimes, s)) for s in sizes]

    def excess(order: list[Lifetime]) -> float:
        """The arena over its lower bound at the worst of the points."""
        slots = _slots(order)
        return max(arena_bytes(slots, s) / b for s, b in zip(sizes, bounds, strict=True))

    best = min(_orders(lifetimes, sizes[1]), key=excess)
    found = excess(best)
    # moving one slot to the front at a time mends what a sorted order gets wrong
    for t in lifetimes:
        if found == 1:
            break
        moved = [t, *(o for o in best if o is not t)]
        if (tried := excess(moved)) < found:
            best, found = moved, tried
    return _slots(best)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def lower_bound(lifetimes: tuple[Lifetime, ...], sizes: Mapping[str, int]) -> int:
    """The most bytes alive at one step: no arena is smaller."""
    steps = {t.first for t in lifetimes}
    return max(
        (sum(sizes[t.name] for t in lifetimes if t.first <= s <= t.last) for s in steps), default=0
    )


def _orders(lifetimes: tuple[Lifetime, ...], sizes: Mapping[str, int]) -> list[list[Lifetime]]:
    """Orders of placement worth trying."""
    span = {t.name: t.last - t.first for t in lifetimes}
    keys = (
        lambda t: (-sizes[t.name], t.first),
        lambda t: (-span[t.name], -sizes[t.name]),
        lambda t: (-sizes[t.name] * (span[t.name] + 1), t.first),
        lambda t: (t.first, -span[t.name]),
        lambda t: (t.first, -sizes[t.name]),
        lambda t: (-t.last, t.first),
    )
    return [sorted(lifetimes, key=k) for k in keys]


def _slots(order: list[Lifetime]) -> tuple[Slot, ...]:
    out: list[Slot] = []
    for i, t in enumerate(order):
        after = tuple(o.name for o in order[:i] if o.meets(t))
        out.append(Slot(t.name, t.bytes, after))
    return tuple(out)


def arena_bytes(slots: tuple[Slot, ...], sizes: Mapping[str, int]) -> int:
    end: dict[str, int] = {}
    for s in slots:
        end[s.name] = max((end[a] for a in s.after), default=0) + sizes[s.name]
    return max(end.values(), default=0)
