"""batches: trials that are built together, of which the better half is measured well.

Each region has a choice in each trial of a batch. All of them run a few times at the typical dims; of each region the
better half of what is near its best goes on, and is measured at all dims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

from lumigen.lower.assemble import LoweredModel
from lumigen.region import Region
from lumigen.search.choice import Choice
from lumigen.search.climb import Climb, Times
from lumigen.search.clock import Clock
from lumigen.search.models import Choices, Search

FILL, MOST = 2, 16  # choices for each thread that are compiled at the same time; of one region
NEAR = 1.1  # times a region's best that a choice takes in a few runs and may yet be better

Step = list[tuple[Climb, Choice]]
Found = Mapping[Region, Times]


@dataclass(frozen=True)
class TrialModel:
    """A trial: what is new in it, all of its choices, the model."""

    step: Step
    choices: Choices
    model: LoweredModel


@dataclass
class TrialBatches:
    """Trials of one search; `tell` hears after each batch how many trials there were."""

    search: Search
    climbs: Sequence[Climb]
    clock: Clock
    tell: Callable[[int], None]
    count: int = 0

    def run(self) -> None:
        """Batches until the time is over, or nothing is left to try, or nobody who tries it."""
        apart = self.search.trials.measuring.apart
        with ThreadPoolExecutor(1) as pool:
            batch = self.next()
            while batch and not self.search.trials.is_gone:
                coming = pool.submit(self.next) if apart else None
                glimpsed = self._measured(batch, quick=len(batch) > 1)
                better = batch if len(batch) == 1 else self._better(batch, glimpsed)
                found = glimpsed if len(batch) == 1 else self._measured(better, quick=False)
                following = coming.result() if coming else []
                self._learn(batch, glimpsed, better, found)
                self.count += len(glimpsed) + (len(found) if better is not batch else 0)
                self.tell(self.count)
                batch = following or self.next()  # what was found opens more

    def next(self) -> list[TrialModel]:
        """Trials that can end in time, built; none if there is no more time, or nothing left to try."""
        steps, count, left, clock = list[Step](), 0, [*self.climbs], self.clock
        number = {c.region: 0 for c in left}  # of the trial that a region's next choice is in
        while left and count < FILL * clock.threads and clock.fits(count + 1, len(steps) + 1):
            climb = max(left, key=lambda c: c.urgency)
            choice = climb.next() if number[climb.region] < MOST else None
            if choice is None:
                left.remove(climb)
                continue
            if number[climb.region] == len(steps):
                steps.append([])
            steps[number[climb.region]].append((climb, choice))
            number[climb.region] += 1
            count += 1
        built = self._built(steps)
        self.search.trials.build([b.model for b in built], clock.left(len(steps)))
        return built

    def _built(self, steps: Sequence[Step]) -> list[TrialModel]:
        best = {c.region: c.best for c in self.climbs}
        out: list[TrialModel] = []
        for step in steps:
            start = monotonic()
            choices = {**best, **{c.region: choice for c, choice in step}}
            out.append(TrialModel(step, choices, self.search.make(choices)))
            self.clock.made(monotonic() - start)
        return out

    def _measured(self, batch: Sequence[TrialModel], *, quick: bool) -> list[Found | None]:
        """What each trial takes; None of one that did not begin, as it might not have ended in time."""

        def one(trial: TrialModel) -> Found | None:
            if not self.clock.fits(0, 1):
                return None
            start = monotonic()
            found = self.search.measure(trial.choices, made=trial.model, quick=quick)
            self.clock.ran(monotonic() - start)
            return found

        with ThreadPoolExecutor(self.search.trials.workers) as pool:
            return [*pool.map(one, batch)]

    def _better(
        self, batch: Sequence[TrialModel], glimpsed: Sequence[Found | None]
    ) -> list[TrialModel]:
        """The better half of each region's choices that are near its best, in as few trials as have room for them."""
        times: dict[Region, list[tuple[float, Climb, Choice]]] = {}
        for climb, choice, seconds in _of_each(batch, glimpsed):
            if seconds is not None:
                times.setdefault(climb.region, []).append((seconds[0], climb, choice))
        steps: list[Step] = []
        for each in times.values():
            each.sort(key=lambda t: t[0])
            half = each[: -(-len(each) // 2)]
            near = [(c, x) for t, c, x in half if t < NEAR * c.seconds[0] or not c.seconds[0]]
            for number, one in enumerate(near):
                if number == len(steps):
                    steps.append([])
                steps[number].append(one)
        return self._built(steps)

    def _learn(
        self,
        batch: Sequence[TrialModel],
        glimpsed: Sequence[Found | None],
        better: Sequence[TrialModel],
        found: Sequence[Found | None],
    ) -> None:
        """What follows for each region, in the order of the trials."""
        for climb, choice, seconds in _of_each(batch, glimpsed):
            if seconds is None:
                climb.lost(choice)
            elif better is not batch:
                climb.glimpsed(choice, seconds)
        for climb, choice, seconds in _of_each(better, found):
            if seconds is not None:
                climb.found(choice, seconds, glimpsed=better is not batch)


def _of_each(
    batch: Sequence[TrialModel], found: Sequence[Found | None]
) -> Iterator[tuple[Climb, Choice, Times | None]]:
    """What is new in each trial that began, with its seconds; None of what was lost."""
    for trial, times in zip(batch, found, strict=True):
        if times is not None:
            yield from ((climb, choice, times.get(climb.region)) for climb, choice in trial.step)
