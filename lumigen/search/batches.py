"""batches: choices are compiled in the order in which they are expected to be fast, and measured as they are ready.

A trial has a choice of each region at most. All that is ready runs a few times at the typical dims; of each region the
better half of what is near its best goes on, and is measured at all dims. Meanwhile the next ones are compiled, where
that leaves times as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from time import monotonic

from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.region import Region
from lumigen.search.choice import Choice
from lumigen.search.climb import Climb, Times, is_better
from lumigen.search.clock import Clock
from lumigen.search.models import Choices, Search

FILL, MOST = 2, 16  # choices for each thread that are compiled or wait for that; of one region
BEFORE = 2  # trials, that must have time when the last kernel is compiled
NEAR = 1.1  # times a region's best that a choice takes in a few runs and may yet be better

Step = list[tuple[Climb, Choice]]
Found = Mapping[Region, Times]


@dataclass(frozen=True)
class TrialModel:
    """A trial: what is new in it, all of its choices, the model."""

    step: Step
    choices: Choices
    model: LoweredModel


@dataclass(frozen=True)
class Coming:
    """A choice whose kernels are being compiled."""

    climb: Climb
    choice: Choice
    compiled: Future[bool]  # False where the time was over before


@dataclass
class TrialBatches:
    """Trials of one search; `tell` hears after each batch how many trials there were."""

    search: Search
    climbs: Sequence[Climb]
    clock: Clock
    tell: Callable[[int], None]
    count: int = 0
    coming: list[Coming] = field(default_factory=list[Coming])  # in the order in which they began

    def run(self) -> None:
        """Batches until the time is over, or nothing is left to try, or nobody who tries it."""
        trials, threads = self.search.trials, self.clock.threads
        with ThreadPoolExecutor(threads) as compilers, ThreadPoolExecutor(1) as pool:
            self.ask(compilers)
            while not trials.is_gone and (ready := self._ready()):
                batch = self._built(_steps(ready))
                asking = pool.submit(self.ask, compilers) if trials.measuring.apart else None
                glimpsed = self._measured(batch, quick=len(batch) > 1)
                better = batch if len(batch) == 1 else self._better(batch, glimpsed)
                found = glimpsed if len(batch) == 1 else self._measured(better, quick=False)
                if asking is not None:
                    asking.result()
                self._learn(batch, glimpsed, better, found)
                self.count += len(glimpsed) + (len(found) if better is not batch else 0)
                self.tell(self.count)
                self.ask(compilers)  # what was found opens more
            compilers.shutdown(cancel_futures=True)

    def ask(self, compilers: ThreadPoolExecutor) -> None:
        """Have more choices compiled, those of the regions that take longest first, as far as threads have no work."""
        left, count = [*self.climbs], len(self.coming)
        number = Counter(c.climb.region for c in self.coming)
        asked: Step = []
        while left and count < FILL * self.clock.threads and self.clock.fits(1):
            climb = max(left, key=lambda c: c.urgency)
            choice = climb.next() if number[climb.region] < MOST else None
            if choice is None:
                left.remove(climb)
                continue
            asked.append((climb, choice))
            number[climb.region] += 1
            count += 1
        self._compile(asked, compilers)

    def _compile(self, asked: Step, compilers: ThreadPoolExecutor) -> None:
        """Begin with the kernels of choices, in this order."""
        trials = self.search.trials

        def compiled(kernels: Sequence[LoweredKernel]) -> bool:
            return all(trials.compile(k, end) for k in kernels)

        models = self._built(_steps(asked))
        end = monotonic() + self.clock.left(BEFORE)
        for trial in models:
            running = trials.running(trial.model)
            for climb, choice in trial.step:
                kernels = [k for k in running if k.of == climb.region]
                future = compilers.submit(compiled, kernels)
                self.coming.append(Coming(climb, choice, future))

    def _ready(self) -> Step:
        """What is compiled: one choice at least, all where compiling takes from what is measured, none at the end."""
        when = FIRST_COMPLETED if self.search.trials.measuring.apart else ALL_COMPLETED
        wait([c.compiled for c in self.coming], self.clock.left(BEFORE), when)
        if not self.clock.fits(1):
            return []
        ready = [c for c in self.coming if c.compiled.done()]
        self.coming = [c for c in self.coming if c not in ready]
        return [(c.climb, c.choice) for c in ready if c.compiled.result()]

    def _built(self, steps: Sequence[Step]) -> list[TrialModel]:
        best = {c.region: c.best for c in self.climbs}
        out: list[TrialModel] = []
        for step in steps:
            choices = {**best, **{c.region: choice for c, choice in step}}
            start = monotonic()
            out.append(TrialModel(step, choices, self.search.make(choices)))
            self.clock.made(monotonic() - start)
            self.clock.rest = self._rest(out[-1].model)
        return out

    def _rest(self, model: LoweredModel) -> float:
        """Seconds that kernels of what is found may take to compile which no trial runs: they are shipped too."""
        trials = self.search.trials
        regions = {c.region for c in self.climbs if is_better(c.seconds, c.before)}
        running = {k.name for k in trials.running(model)}
        rest = sum(k.of in regions and k.name not in running for k in model.kernels)
        return -(-rest // self.clock.threads) * trials.slowest

    def _measured(self, batch: Sequence[TrialModel], *, quick: bool) -> list[Found | None]:
        """What each trial takes; None of one that did not begin, as it might not have ended in time."""

        def one(trial: TrialModel) -> Found | None:
            if not self.clock.fits(1):
                return None
            start = monotonic()
            new = {climb.region for climb, _ in trial.step}
            found = self.search.measure(trial.choices, made=trial.model, quick=quick, new=new)
            if found:  # one that did not end says nothing of others
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
        better: Step = []
        for each in times.values():
            each.sort(key=lambda t: t[0])
            half = each[: -(-len(each) // 2)]
            near = [(c, x) for t, c, x in half if t < NEAR * c.seconds[0] or not c.seconds[0]]
            better += near
        return self._built(_steps(better))

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


def _steps(choices: Step) -> list[Step]:
    """One choice of each region in a step, in as few of them as have room for all."""
    out: list[Step] = []
    number = Counter[Region]()
    for climb, choice in choices:
        if number[climb.region] == len(out):
            out.append([])
        out[number[climb.region]].append((climb, choice))
        number[climb.region] += 1
    return out
