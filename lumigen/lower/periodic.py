"""periodic: temporaries of layers that repeat share the slots of the layer before.

Before: the temporaries of an entry, each with its lifetime, and a key of what each step does.  After: those at the same
place of each round are one, alive as if there were one round: what the next round reads is alive at the end and at the
start. Then the steps of all rounds have the same arguments, the entry's source has a loop over them, and planning
takes no longer for more layers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lumigen.lower.arena import Lifetime
from lumigen.rounds import Rounds, find_rounds

Uses = Sequence[Sequence[str]]  # the temporaries of each step, in the order of its arguments


@dataclass(frozen=True)
class Section:
    """Steps `start` up to `end` do the same again after `period` of them."""

    start: int
    end: int
    period: int


@dataclass(frozen=True)
class Periodic:
    """Lifetimes as if each section were one round, and the temporary that stands for each one."""

    lifetimes: tuple[Lifetime, ...]
    home: Mapping[str, str]


def periodic(lifetimes: tuple[Lifetime, ...], keys: Sequence[Hashable], uses: Uses) -> Periodic:
    """Step i of the program is at 2 * i of the lifetimes."""
    alive = {t.name: t for t in lifetimes}
    home = {name: name for name in alive}
    sections: list[Section] = []
    rounds = find_rounds(keys, [1] * len(keys))
    ends = [*(r.start for r in rounds), len(keys)][1:]  # where what comes after each of them begins
    for found, after in zip(rounds, ends, strict=True):
        for section in _ways(found, after):
            shared = _shared(section, uses, home)
            if _is_apart(alive, shared):
                home = shared
                sections.append(section)
                break
    groups: dict[str, list[Lifetime]] = {}
    for name, one in home.items():
        groups.setdefault(one, []).append(alive[name])
    cuts = sorted({2 * i for s in sections for i in (*range(s.start, s.end, s.period), s.end)})
    made = [
        Lifetime(name, group[0].bytes, first, last)
        for name, group in groups.items()
        for first, last in _joined(p for t in group for p in _parts(t, cuts, sections))
    ]
    return Periodic(tuple(sorted(made, key=lambda t: (t.first, t.last))), home)


def _ways(found: Rounds, after: int) -> list[Section]:
    """All rounds alike; all but the first, which may read what was there before; or every other one."""
    end, period = min(found.end + found.rest, after), found.period
    return [
        Section(start, end, times * period)
        for times in (1, 2)
        for start in (found.start, found.start + period)
        if start + 2 * times * period <= end
    ]


def _shared(section: Section, uses: Uses, home: Mapping[str, str]) -> dict[str, str]:
    """`home` with those in the same place of all rounds together."""
    out = dict(home)
    for i in range(section.start, section.end - section.period):
        for one, other in zip(uses[i], uses[i + section.period], strict=True):
            kept, left = out[one], out[other]
            if kept != left:
                out.update((name, kept) for name, at in out.items() if at == left)
    return out


def _is_apart(alive: Mapping[str, Lifetime], home: Mapping[str, str]) -> bool:
    """Whether those that are together have one size and never live at the same time."""
    groups: dict[str, list[Lifetime]] = {}
    for name, one in home.items():
        groups.setdefault(one, []).append(alive[name])
    for group in groups.values():
        group.sort(key=lambda t: t.first)
        if any(a.last >= b.first or a.bytes != b.bytes for a, b in pairwise(group)):
            return False
    return True


def _parts(
    t: Lifetime, cuts: Sequence[int], sections: Sequence[Section]
) -> Iterator[tuple[int, int]]:
    """When it is alive in the one round: what passes to the next round, at the round's end and at its start."""
    inside = cuts[bisect_right(cuts, t.first) : bisect_right(cuts, t.last)]
    for begin, end in pairwise([t.first, *inside, t.last + 1]):
        yield _fold(begin, sections), _fold(end - 1, sections)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times in order and apart."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(set(spans)):
        if out and first <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out


def _fold(time: int, sections: Sequence[Section]) -> int:
    """The time if all sections were one round."""
    out = time
    for s in sections:
        begin, end, period = 2 * s.start, 2 * s.end, 2 * s.period
        if time >= end:
            out -= end - begin - period
        elif time >= begin:
            out -= (time - begin) // period * period
    return out
