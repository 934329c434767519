"""Runs of keys that repeat: layers are recognised by what they do, not by their names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

FEW_ROUNDS = 3  # fewer are a loop only where a round is long
LONG_ROUND = 4  # launches


@dataclass(frozen=True)
class Rounds:
    """From `start` on, so many rounds of `period` keys each; `rest` more begin another one."""

    start: int
    period: int
    count: int
    rest: int = 0

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def _equally(start: int, period: int) -> int:  # noqa: ARG001
    return 0


def find_rounds(
    keys: Sequence[Hashable], sizes: Sequence[int], alike: Callable[[int, int], int] = _equally
) -> tuple[Rounds, ...]:
    """The loops that save most, in order; a key stands for so many launches as its size.

    Keys that repeat might be cut into rounds at several starts: `alike(start, period)` says how well one suits, at the
    price of one round at most.
    """
    numbers: dict[Hashable, int] = {}
    plain = [numbers.setdefault(k, len(numbers)) for k in keys]
    return tuple(_between(plain, sizes, alike, 0, len(plain)))


def _between(
    keys: Sequence[int], sizes: Sequence[int], alike: Callable[[int, int], int], lo: int, hi: int
) -> Iterator[Rounds]:
    found = _best(keys[lo:hi], sizes[lo:hi], lambda start, period: alike(lo + start, period))
    if found is None:
        return
    best = replace(found, start=lo + found.start)
    yield from _between(keys, sizes, alike, lo, best.start)
    yield best
    yield from _between(keys, sizes, alike, best.end, hi)


def _best(
    keys: Sequence[int], sizes: Sequence[int], alike: Callable[[int, int], int]
) -> Rounds | None:
    """The loop that saves the most launches; of equals that of the shortest period."""
    best, most = None, 0
    for period in range(1, len(keys) // 2 + 1):
        for start, length in _same(keys, period):
            count = length // period + 1
            launches = sum(sizes[start : start + period])
            if _is_loop(count, launches) and (count - 1) * launches > most:
                best, most = (start, length, period), (count - 1) * launches
    if best is None:
        return None
    first, length, period = best
    rounds = [
        Rounds(start, period, *divmod(first + length + period - start, period))
        for start in range(first, first + 2 * period)
    ]
    launches = sum(sizes[first : first + period])
    fit = [r for r in rounds if _is_loop(r.count, launches) and r.count >= rounds[0].count - 1]
    return max(fit, key=lambda r: (alike(r.start, period), r.count, -r.start))


def _is_loop(count: int, launches: int) -> bool:
    return count >= FEW_ROUNDS or (count > 1 and launches >= LONG_ROUND)


def _same(keys: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """(start, length) of the runs of keys that are those a period later."""
    start = None
    for i in range(len(keys) - period + 1):
        is_same = i + period < len(keys) and keys[i] == keys[i + period]
        if is_same and start is None:
            start = i
        if not is_same and start is not None:
            yield start, i - start
            start = None
