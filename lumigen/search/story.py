"""story: what a search did, for people: what was tried of each region, what was not and why, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from lumigen.schedule import Schedule
from lumigen.search.choice import Choice

FINAL = 0.95  # of a speed, as good as all of it
NOTHING = 1e-9  # seconds of a model of which nothing runs at the typical dims


@dataclass(frozen=True)
class Attempt:
    """A choice that was measured so many seconds after the beginning; the time of one run is None where it was lost."""

    at: float
    choice: Choice
    seconds: float | None  # at the typical dims
    is_quick: bool  # in a few runs, at these dims alone
    is_best: bool = False  # of all so far, at no dims slower


@dataclass(frozen=True)
class RegionStory:
    """A region: what was tried of it, and how often which reason refused a choice.

    `alike` choices make kernels that others make, `waiting` ones were legal and had no turn, and `unseen` ones were
    not looked at.
    """

    key: str
    name: str  # of its kernel by the heuristic
    before: float  # seconds of one run at the typical dims by the heuristic
    best: float
    least: float | None  # by what the machine can do; None where that is not known
    chosen: Choice
    verdict: str
    attempts: tuple[Attempt, ...] = ()
    refused: Mapping[str, int] | None = None
    alike: int = 0
    waiting: int = 0
    unseen: int = 0


@dataclass(frozen=True)
class Story:
    """A search of so many seconds, with so many trials."""

    seconds: float
    trials: int
    machine: tuple[str, ...]
    regions: tuple[RegionStory, ...]
    dropped: Mapping[str, int]  # choices, by what was wrong with them


def gained(before: float, seconds: float) -> str:
    """What a region took, and takes: the geometric mean over the dims where it was measured."""
    return f"{before * 1e6:.4g} us to {seconds * 1e6:.4g} us"


def curve_of(story: Story) -> list[tuple[float, float]]:
    """When the sum of the best times of all regions fell, in seconds from the beginning, and to what."""
    best = [r.before for r in story.regions]  # not by key: regions at other dims may have the same
    found = [(0.0, sum(best) or NOTHING)]
    falls = [(at, i, t) for i, r in enumerate(story.regions) for at, t in steps_of(r)[1:]]
    for at, i, t in sorted(falls):
        best[i] = t
        found.append((at, sum(best) or NOTHING))
    return found


def steps_of(region: RegionStory) -> list[tuple[float, float]]:
    """When the best time of a region fell, and to what."""
    falls = [(a.at, a.seconds) for a in region.attempts if a.seconds and a.is_best]
    return [(0.0, region.before or NOTHING), *falls]


def reached(story: Story, share: float = FINAL) -> float:
    """After how many seconds the best choices so far had this share of the speed that they had at the end."""
    curve = curve_of(story)
    return next(at for at, seconds in curve if seconds * share <= curve[-1][1])


def as_text(choice: Choice) -> str:
    """A choice in a line: which candidate and plan, each kernel's builder with its sizes; what runs at small dims."""
    plans = "".join(f", plan {number} near kernel {kernel}" for kernel, number in choice.plans)
    sizes = "; ".join(_counted(map(_sizes, (*choice.schedules, *choice.special))))
    small = "".join(
        f"; where {', '.join(f'{name} <= {n}' for name, n in most)}: {as_text(other)}"
        for most, other in choice.bounded
    )
    return f"candidate {choice.first}{plans}: {sizes}{small}"


def _counted(texts: Iterable[str]) -> Iterator[str]:
    """Those that are the same one after another once, with their number."""
    for text, same in groupby(texts):
        count = len([*same])
        yield text if count == 1 else f"{count} x {text}"


def _sizes(s: Schedule) -> str:
    own = [f"{site} {size}" for site, size in s.tile] + [f"{o} in {w}" for o, w in s.place]
    parts = [*_counted(f"[{_sizes(p)}]" for p in s.parts)]
    return " ".join((s.builder, *own, *parts))
