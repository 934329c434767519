"""climb: the search of one region: one decision at a time from the heuristic's choice, as long as it gets faster.

Times are tuples, one for each of the dims at which entries are measured. A choice is better if it saves more than GAIN
of the time in the geometric mean and loses less than LOSS at each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, inf, log
from time import monotonic

from lumigen.condition import Cmp
from lumigen.index import Dim
from lumigen.lower.devices import Device
from lumigen.plan import Illegal
from lumigen.region import Region
from lumigen.search.choice import Choice, beginnings, candidate_of, near
from lumigen.tile import TileProgram

GAIN = 0.03  # of a region's time: less is noise
LOSS = 0.05  # of its time at any dims that counts as noise

Times = tuple[float, ...]


@dataclass(frozen=True)
class Space:
    """Where a region's choices come from, and what tells two of them apart: what runs at these dims."""

    device: Device
    architectures: Collection[str]  # of the target
    features: Collection[str]  # of the machine
    samples: Sequence[Mapping[Dim, int]]

    def programs(self, choice: Choice, region: Region) -> tuple[TileProgram, ...] | None:
        """What runs at any of the dims; None if the choice is not legal."""
        found = candidate_of(choice, region, self.device)
        built = None if found is None else self.device.realise(found)
        if found is None or built is None or isinstance(built, Illegal):
            return None
        here = [a for a in self.architectures if a in self.features]
        variants = [*self.device.variants(found, here)]
        out: dict[TileProgram, None] = {}
        for dims in self.samples:
            own = next((v for v in variants if _hold(v.conditions, dims)), None)
            out.update(dict.fromkeys(b.program for b in (built if own is None else (own.built,))))
        return tuple(out)

    def first(self, region: Region) -> Choice:
        """The heuristic's."""
        legal = (c for c in beginnings(region, self.device) if self.programs(c, region) is not None)
        return next(legal)


def _hold(conditions: Sequence[Cmp], dims: Mapping[Dim, int]) -> bool:
    """False at dims of another entry."""
    asked = {a for c in conditions for a in c.slack.atoms() if isinstance(a, Dim)}
    known = asked <= dims.keys()
    return known and all(int(c.slack.evaluate(dims)) >= 0 for c in conditions)


@dataclass
class Climb:
    """`weight` is its share of the model's time; `asked` counts choices, `tried` those that were measured."""

    region: Region
    space: Space
    best: Choice
    before: Times
    seconds: Times
    weight: float = 1.0
    end: float = inf  # on the clock of `monotonic`, when no more choices are looked at
    asked: int = 0
    tried: int = 0
    seen: set[tuple[TileProgram, ...]] = field(default_factory=set[tuple[TileProgram, ...]])
    left: Iterator[Choice] = field(init=False)

    def __post_init__(self) -> None:
        self._is_new(self.best)
        self.left = beginnings(self.region, self.space.device)
        self.begun = False

    def next(self) -> Choice | None:
        """The next choice that makes kernels which were not tried; None if there is none."""
        while True:
            for choice in self.left:
                if monotonic() >= self.end:
                    return None
                if self._is_new(choice):
                    self.asked += 1
                    return choice
            if self.begun:
                return None
            self.begin()

    @property
    def urgency(self) -> float:
        """Regions are searched in proportion to their time."""
        return self.weight / (1 + self.asked)

    def begin(self) -> None:
        """Go on from the best."""
        space = self.space
        self.begun = True
        self.left = near(self.best, self.region, space.device, space.architectures)

    def found(self, choice: Choice, seconds: Times) -> None:
        self.tried += 1
        if is_better(seconds, self.seconds):
            self.best, self.seconds = choice, seconds
            if self.begun:
                self.begin()

    def _is_new(self, choice: Choice) -> bool:
        programs = self.space.programs(choice, self.region)
        if programs is None or programs in self.seen:
            return False
        self.seen.add(programs)
        return True


def is_better(now: Times, was: Times) -> bool:
    """Whether a choice is faster by more than noise, and slower at no dims."""
    worst = max(ratios(now, was), default=1.0)
    return mean(now) < mean(was) * (1 - GAIN) and worst < 1 + LOSS


def ratios(now: Times, was: Times) -> list[float]:
    """How many times as long it takes at each of the dims at which it runs."""
    return [a / b for a, b in zip(now, was, strict=True) if b > 0]


def mean(seconds: Times) -> float:
    """The geometric mean over the dims at which something runs."""
    each = [s for s in seconds if s > 0]
    return exp(sum(map(log, each)) / len(each)) if each else 0.0
