"""climb: the search of one region: from the heuristic's choice on, one decision at a time around the best ones.

Choices that are not measured yet wait, and the one that is expected to be fastest goes first. When all that are near
the best are measured, those near the next best follow, and choices that have some decisions of each of two good ones.

Times are tuples, one for each of the dims at which entries are measured. A choice is better if it saves more than GAIN
of the time in the geometric mean and loses less than LOSS at each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice
from math import exp, inf, log
from random import Random
from time import monotonic

from lumigen.condition import Cmp
from lumigen.errors import VerifyFailed
from lumigen.index import Dim
from lumigen.lower.devices import Device
from lumigen.plan import Illegal
from lumigen.region import Region
from lumigen.schedule import Schedule
from lumigen.search.choice import Choice, beginnings, candidate_of, near
from lumigen.search.features import Features, Running, Workers, features_of
from lumigen.tile import TileProgram

GAIN = 0.03  # of a region's time: less is noise
LOSS = 0.05  # of its time at any dims that counts as noise
AHEAD, LOOKED = (
    32,
    8,
)  # choices that wait, of which the best one is measured; that are looked at for each
UNRANKED = 4  # one of so many is the next of the space, whatever is expected of it
KEPT = 4  # the best choices, from which others are made
ONE = Workers(1)
CROSSED = 16  # choices that are made of two of these at a time

Times = tuple[float, ...]
Rank = Callable[[Region, Sequence[Features]], Sequence[int]]  # places, what to measure first


def unranked(_region: Region, features: Sequence[Features]) -> Sequence[int]:
    """The order of the space."""
    return range(len(features))


@dataclass(frozen=True)
class Realised:
    """A legal choice: what runs at any of the dims, and what is known of it before it is measured."""

    programs: tuple[TileProgram, ...]
    features: Features


@dataclass(frozen=True)
class Space:
    """Where a region's choices come from, and what tells two of them apart: what runs at these dims."""

    device: Device
    architectures: Collection[str]  # of the target
    features: Collection[str]  # of the machine
    samples: Sequence[Mapping[Dim, int]]
    workers: Workers = ONE

    def realised(self, choice: Choice, region: Region) -> Realised | Illegal:
        """A choice as kernels, or why it is not legal."""
        found = candidate_of(choice, region, self.device)
        if found is None:
            return Illegal("the space has no such plan")
        try:
            built = self.device.realise(found)
        except (
            VerifyFailed
        ) as why:  # a fault of the space's, which is no reason to lose the rest of it
            return Illegal(str(why).partition(f" {why.advice}")[0])
        if isinstance(built, Illegal):
            return built
        here = [a for a in self.architectures if a in self.features]
        bounded = [*self.device.bounded(found, built, here)]
        if (refused := next((v for v in bounded if isinstance(v, Illegal)), None)) is not None:
            return refused
        of_dims = [v for v in bounded if not isinstance(v, Illegal)]
        variants = [*self.device.variants(found, here), *of_dims]
        general = [*zip(found.plan.kernels, found.schedules, built, strict=True)]
        first: list[Running] = general
        out: dict[TileProgram, None] = {}
        for number, dims in enumerate(self.samples):
            own = {v.kernel: v for v in reversed(variants) if _hold(v.conditions, dims)}
            kernels = [
                (own[i].plan, own[i].sizes, own[i].built) if i in own else each
                for i, each in enumerate(general)
            ]
            out.update(dict.fromkeys(b.program for _, _, b in kernels))
            first = kernels if number == 0 or own else first
        return Realised(tuple(out), features_of(first, self.workers))

    def first(self, region: Region) -> Choice:
        """The heuristic's."""
        legal = (
            c
            for c in beginnings(region, self.device)
            if not isinstance(self.realised(c, region), Illegal)
        )
        return next(legal)


def _hold(conditions: Sequence[Cmp], dims: Mapping[Dim, int]) -> bool:
    """False at dims of another entry."""
    asked = {a for c in conditions for a in c.slack.atoms() if isinstance(a, Dim)}
    known = asked <= dims.keys()
    return known and all(int(c.slack.evaluate(dims)) >= 0 for c in conditions)


@dataclass(frozen=True)
class Tried:
    """A choice that was measured, on the clock of `monotonic`; None: it was lost."""

    choice: Choice
    at: float
    seconds: Times | None
    is_quick: bool  # in a few runs at the typical dims
    is_best: bool = False  # of all so far


@dataclass
class Climb:
    """`weight` is its share of the model's time; `asked` counts choices, `tried` those that were measured.

    `refused` has the reasons of what is not legal, `alike` counts what makes kernels that were there before.
    """

    region: Region
    space: Space
    best: Choice
    before: Times
    seconds: Times
    weight: float = 1.0
    end: float = inf  # on the clock of `monotonic`, when no more choices are looked at
    rank: Rank = unranked
    seed: int = 0
    known: Sequence[Choice] = ()  # that were faster elsewhere or before: they go first
    asked: int = 0
    tried: int = 0
    alike: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    seen: set[tuple[TileProgram, ...]] = field(default_factory=set[tuple[TileProgram, ...]])
    waiting: list[tuple[Choice, Features]] = field(default_factory=list[tuple[Choice, Features]])
    kept: list[tuple[float, Choice]] = field(default_factory=list[tuple[float, Choice]])
    features: dict[Choice, Features] = field(default_factory=dict[Choice, Features])
    tries: list[Tried] = field(default_factory=list[Tried])
    left: Iterator[Choice] = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311  # which choices are tried, no secret
        self.first = self.best
        self._looked_at(self.best)
        self.kept.append((mean(self.before), self.best))
        self.left = chain(self.known, beginnings(self.region, self.space.device))
        self.begun = self.breeds = False
        self.stages = iter((self._near_the_best, self._bred))

    def next(self) -> Choice | None:
        """The next choice that makes kernels which were not tried; None if there is none, or no time."""
        self._fill()
        if not self.waiting or monotonic() >= self.end:
            return None
        self.asked += 1
        order = self.rank(self.region, [f for _, f in self.waiting])
        is_known = self.waiting[0][0] in self.known
        place = 0 if is_known or self.asked % UNRANKED == 0 else order[0]
        return self.waiting.pop(place)[0]

    def _fill(self) -> None:
        """Have more choices wait, up to AHEAD, as far as there are some."""
        looked = 0
        while len(self.waiting) < AHEAD and monotonic() < self.end:
            if looked >= LOOKED and self.waiting:
                return
            choice = next(self.left, None)
            if choice is None:
                stage = next(self.stages, None)
                if stage is None:
                    return
                self.begun, self.breeds, self.left = True, stage == self._bred, stage()
                continue
            looked += 1
            if (features := self._looked_at(choice)) is not None:
                self.waiting.append((choice, features))

    @property
    def urgency(self) -> float:
        """Regions are searched in proportion to their time."""
        return self.weight / (1 + self.asked)

    def begin(self) -> None:
        """Go on from the best, after all that the space begins with."""
        self.stages = iter((self._near_the_best, self._bred))
        if self.begun:
            self.left, self.breeds = iter(()), False

    def unseen(self) -> int:
        """How many choices, of the beginnings and near the best, were not looked at: some may not be legal.

        It takes them, so it is asked when the search is over.
        """
        begun = () if self.breeds else self.left
        near = (stage() for stage in self.stages if stage == self._near_the_best)
        return sum(1 for _ in chain(begun, *near))

    def _near_the_best(self) -> Iterator[Choice]:
        return near(self.best, self.region, self.space.device, self.space.architectures)

    def _bred(self) -> Iterator[Choice]:
        """Of the best ones: some decisions of each of two of them, then all that are near the others."""
        device, region = self.space.device, self.region
        good = [c for _, c in self.kept]
        for a, b in combinations(good, 2):
            yield from islice(crossed(a, b, self.random), CROSSED)
        for choice in good[1:]:
            yield from near(choice, region, device, self.space.architectures)

    def glimpsed(self, choice: Choice, seconds: Times) -> None:
        """A choice as it was measured in a few runs at the typical dims."""
        self.tried += 1
        self.tries.append(Tried(choice, monotonic(), seconds, is_quick=True))

    def lost(self, choice: Choice) -> None:
        """A choice that has no time: it did not compile, gave other results, or did not end."""
        self.tries.append(Tried(choice, monotonic(), None, is_quick=False))

    def found(self, choice: Choice, seconds: Times, *, glimpsed: bool = False) -> None:
        """A choice as it was measured at all dims, after a glimpse or without one."""
        self.tried += not glimpsed
        best = is_better(seconds, self.seconds)
        self.tries.append(Tried(choice, monotonic(), seconds, is_quick=False, is_best=best))
        self.kept = sorted([*self.kept, (mean(seconds), choice)], key=lambda k: k[0])[:KEPT]
        if best:
            self.best, self.seconds = choice, seconds
            self.begin()

    def _looked_at(self, choice: Choice) -> Features | None:
        """What is known of a choice; None if it is not legal or makes what was there before."""
        realised = self.space.realised(choice, self.region)
        if isinstance(realised, Illegal):
            self.refused[realised.reason] += 1
            return None
        if realised.programs in self.seen:
            self.alike += 1
            return None
        self.seen.add(realised.programs)
        self.features[choice] = realised.features
        return realised.features


def crossed(a: Choice, b: Choice, random: Random) -> Iterator[Choice]:
    """Choices of the plan that both have, each size that of one of them by chance; none of two plans."""
    if (a.first, a.plans) != (b.first, b.plans):
        return
    pairs = [*zip(a.schedules, b.schedules, strict=True)]
    special = [*zip(a.special, b.special, strict=False)]
    if not all(map(_have_same_sites, pairs)) or len(a.special) != len(b.special):
        return
    while True:
        schedules = tuple(_mixed(x, y, random) for x, y in pairs)
        own = tuple(
            _mixed(x, y, random) if _have_same_sites((x, y)) else random.choice((x, y))
            for x, y in special
        )
        yield replace(a, schedules=schedules, special=own)


def _have_same_sites(pair: tuple[Schedule, Schedule]) -> bool:
    a, b = pair
    parts = len(a.parts) == len(b.parts) and all(
        map(_have_same_sites, zip(a.parts, b.parts, strict=True))
    )
    return parts and a.builder == b.builder and [s for s, _ in a.tile] == [s for s, _ in b.tile]


def _mixed(a: Schedule, b: Schedule, random: Random) -> Schedule:
    tile = tuple(random.choice(pair) for pair in zip(a.tile, b.tile, strict=True))
    place = random.choice((a.place, b.place))
    parts = tuple(_mixed(x, y, random) for x, y in zip(a.parts, b.parts, strict=True))
    return Schedule(a.builder, tile, place, parts)


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
