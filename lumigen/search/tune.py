"""tune: the search. From the heuristic's choice of each region, one decision at a time, as long as it gets faster.

All regions of a model take a step in one trial, each by itself: a trial has one choice of every region, and says what
each of them takes. At the end what was found runs beside the heuristic's, in alternation and on data that it has not
seen, and what is wrong or not faster there is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from statistics import median
from time import monotonic

from lumigen.dtype import DType
from lumigen.errors import LoweringFailed
from lumigen.lower.assemble import CutUp, LoweredModel
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.measuring import Measuring
from lumigen.passes import Entries
from lumigen.region import Region
from lumigen.search import winners
from lumigen.search.book import NOTHING, Book, Found, key_of
from lumigen.search.choice import Choice, candidate_of
from lumigen.search.climb import Climb, Space, Times, is_better, mean
from lumigen.search.clock import Clock
from lumigen.search.least import least_of, probed
from lumigen.search.remembering import remembering
from lumigen.search.samples import samples_of, typical
from lumigen.search.trial import Timed, Trials
from lumigen.target import TARGETS
from lumigen.target_row import Target

SHARE = 0.005  # of a model's time: regions of less are left as they are
FILL, MOST = 2, 16  # choices for each thread that are compiled at the same time; of one region
CONFIRMED, ENOUGH = 5, 3  # runs of what was found and of the heuristic's in alternation; the fewest
DATA = 1 << 25  # bytes of random data for each second of a search: more takes too long to make
WHOLE_LOSS = 0.01  # of a model's time that is noise

Choices = Mapping[Region, Choice]


@dataclass(frozen=True)
class Terms:
    """What a search is given: seconds, threads that compile or run, which random data, if caches are cold.

    Of the seconds some may be `spent`.
    """

    seconds: float
    threads: int
    seed: int = 0
    cold: bool = False
    spent: float = 0.0


@dataclass(frozen=True)
class Now:
    """How far the search of one region is: seconds of a run of it by the heuristic, and at best so far.

    They are those at the typical dims. `least` is what it takes at any rate; None where that is not known.
    """

    name: str
    tried: int
    before: float
    best: float
    least: float | None


@dataclass(frozen=True)
class News:
    """How far a search is, after so many seconds and trials."""

    seconds: float
    trials: int
    regions: tuple[Now, ...]

    @property
    def before(self) -> float:
        return sum(r.before for r in self.regions)

    @property
    def best(self) -> float:
        return sum(r.best for r in self.regions)


@dataclass(frozen=True)
class Tuned:
    """What was found; by the name of a kernel what is faster; the regions that were not reached."""

    book: Book
    faster: Mapping[str, Found]
    unreached: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])  # choices, by what was wrong


@dataclass(frozen=True)
class Seen:
    """What one trial takes: its regions, and all of it; None where it was taken apart."""

    regions: Mapping[Region, Times]
    run: Times | None = None


class Search:
    """The trials of one model."""

    def __init__(self, make: Callable[[Choices], LoweredModel], trials: Trials) -> None:
        self.make, self.trials = make, trials
        self.dropped: Counter[str] = Counter()  # choices, by what was wrong with them

    def measure(
        self, choices: Choices, data: int | None = None, made: LoweredModel | None = None
    ) -> Mapping[Region, Times]:
        """The seconds of the regions of one trial; of those that do not compile, crash or are wrong there are none."""
        return self.seen(choices, data, made).regions

    def seen(
        self,
        choices: Choices,
        data: int | None = None,
        made: LoweredModel | None = None,
        *,
        whole: bool = False,
    ) -> Seen:
        """The same, and of all of it if all of these choices are in it; `whole` as Trials.build has it."""
        model = self.make(choices) if made is None else made
        (job,) = self.trials.build([model], whole=whole)
        if job is None:
            failed = {k.of for k in model.kernels if self.trials.failed(k)}
            left = {r: c for r, c in choices.items() if r not in failed}
            self.dropped["did not compile in time"] += len(choices) - len(left)
            return Seen(self.measure(left, data) if 0 < len(left) < len(choices) else {})
        timed = self.trials.run(job if data is None else replace(job, data=data))
        if timed is not None and not timed.wrong:
            found = of_regions(model, timed)
            return Seen({r: t for r, t in found.items() if r in choices or not choices}, timed.run)
        if len(choices) < 2:
            if self.trials.is_over:
                return Seen({})
            wrong = "gave other results" if timed is not None else "faulted or did not end"
            self.dropped[wrong] += len(choices)
            return Seen({})
        regions = [*choices]
        middle = len(regions) // 2
        halves = [{r: choices[r] for r in half} for half in (regions[:middle], regions[middle:])]
        return Seen({r: t for half in halves for r, t in self.measure(half, data).items()})


def model_of(cut: CutUp, device: Device, choices: Choices) -> LoweredModel:
    """The model with these choices; other regions run as the heuristic says."""

    def pick(canonical: Region, named: Region) -> Candidate | None:
        choice = choices.get(canonical)
        return None if choice is None else candidate_of(choice, named, device)

    return cut.lowered(pick)


def of_regions(model: LoweredModel, timed: Timed) -> dict[Region, Times]:
    """The seconds of all kernels of each region, at each sample."""
    count = max(map(len, timed.seconds.values()), default=0)
    out: dict[Region, Times] = {}
    for k in model.kernels:
        assert k.of is not None
        before, more = (out.get(k.of, (0.0,) * count), timed.seconds.get(k.name, (0.0,) * count))
        out[k.of] = tuple(a + b for a, b in zip(before, more, strict=True))
    return out


@dataclass(frozen=True)
class _Searched:
    """A model as it is searched: by the heuristic, its regions by key, what their kernels are called."""

    device: Device
    plain: LoweredModel
    make: Callable[[Choices], LoweredModel]
    regions: Mapping[str, Region]
    names: Mapping[Region, str]

    @staticmethod
    def of(entries: Entries, target: Target, dtype: DType, features: Collection[str]) -> _Searched:
        device = remembering(TARGETS[target.name].device)
        cut = CutUp.of(entries, device, dtype, target.architectures)
        make = partial(model_of, cut, device)
        plain = make({})
        regions = {key_of(k.of): k.of for k in plain.kernels if k.of is not None}
        run = [x.kernel for p in plain.programs for x in p.chosen(typical(p), features)]
        order = sorted(
            plain.kernels, key=lambda k: k.name in run
        )  # those that run have the last word
        names = {k.of: k.name for k in order if k.of is not None}
        return _Searched(device, plain, make, regions, names)


def tune(
    entries: Entries,
    target: Target,
    measuring: Measuring,
    dtype: DType,
    terms: Terms,
    tell: Callable[[News], None] = lambda _: None,
) -> Tuned:
    """What each region of the entries runs as, found in about so many seconds, for this machine with its threads.

    Every choice gives what the heuristic's gives, at the dims where it is measured. A crash, a hang or a wrong result
    loses a trial and nothing else. What an earlier search of at least as many seconds found is taken; if that was on
    another day, after it was measured again.
    """
    clock = Clock(monotonic() + terms.seconds - terms.spent, terms.threads, 2 * CONFIRMED + 1)
    model = _Searched.of(entries, target, dtype, measuring.features())
    place = winners.Kept.of(measuring, terms.threads, model.regions, cold=terms.cold)
    known = winners.known(place, terms.seconds)
    if known.are_of_today and len(known.book.found) == len(model.regions):
        return _tuned(model, known.book, {})
    kernels = {k.name: k for k in model.plain.kernels}
    memory = min(measuring.memory(), int(DATA * terms.seconds))
    samples = {p.entry: samples_of(p, kernels, memory) for p in model.plain.programs}
    limits = probed(target, model.plain, terms.threads, terms.seconds)
    least = least_of(model.plain, samples, measuring.features(), limits)
    with Trials(
        target, measuring, samples, terms.threads, clock.built, seed=terms.seed, cold=terms.cold
    ) as trials:
        search = Search(model.make, trials)
        before = _begin(search, model, clock)
        dims = [d for each in trials.samples.values() for d in each]
        space = Space(model.device, target.architectures, measuring.features(), dims)
        climbs = _climbs(before, space, known.book, clock.end)
        begun = monotonic()

        def said(count: int) -> None:
            now = tuple(_now(c, model.names[c.region], least.get(c.region)) for c in climbs)
            tell(News(monotonic() - begun, count, now))

        trials.end = clock.end
        _climb(search, climbs, clock, said)
        trials.end = inf
        chosen = {c.region: c.best for c in climbs if is_better(c.seconds, c.before)}
        old = faster(known.book).found
        chosen |= {r: old[k].choice for k, r in model.regions.items() if k in old}
        found = _confirmed(search, chosen, terms.seed + 1, clock)
    unreached = {key_of(c.region): model.names[c.region] for c in climbs if c.tried == 0}
    of_all = {key_of(c.region) for c in climbs} | known.book.found.keys()
    every = {k: _as_it_is(space, r, before[r]) for k, r in model.regions.items()}
    reached = {k: f for k, f in every.items() if k not in unreached}
    reached.update(found.found)
    made = {k: f for k, f in reached.items() if k in of_all}
    winners.keep(made, {k: f for k, f in reached.items() if k not in of_all}, place, terms.seconds)
    return replace(_tuned(model, found, unreached), dropped=dict(search.dropped))


def _as_it_is(space: Space, region: Region, seconds: Times) -> Found:
    """The heuristic's choice, as the one that nothing was faster than."""
    return Found(space.first(region), mean(seconds), mean(seconds))


def _tuned(model: _Searched, found: Book, unreached: Mapping[str, str]) -> Tuned:
    """What comes of a search; a region that was not reached is not remembered as searched."""
    book = faster(found)
    named = {model.names[model.regions[k]]: f for k, f in book.found.items()}
    return Tuned(book, named, tuple(unreached.values()))


def faster(book: Book) -> Book:
    """The choices that are faster than the heuristic's."""
    return Book({key: f for key, f in book.found.items() if f.seconds < f.before})


def _begin(search: Search, model: _Searched, clock: Clock) -> Mapping[Region, Times]:
    """The seconds of all regions by the heuristic."""
    trials = search.trials
    (job,) = trials.build([model.plain])
    timed = None if job is None else trials.begin(job)
    if job is not None and timed is None:  # perhaps for want of memory
        trials.samples = {entry: each[:1] for entry, each in trials.samples.items()}
        timed = trials.begin(replace(job, samples=trials.samples))
    if timed is None:
        what = f"the model does not run before anything is searched: {trials.said()}"
        raise LoweringFailed(step="tune", what=what)
    again = None if job is None else trials.run(replace(job, samples=trials.samples))
    if again is None or again.wrong:
        raise LoweringFailed(step="tune", what="the model gives other results in a second run")
    clock.data = max(0.0, timed.whole - again.whole)
    clock.ran(again.whole)
    return of_regions(model.plain, again)


def _climbs(before: Mapping[Region, Times], space: Space, known: Book, end: float) -> list[Climb]:
    """A search of each region that takes a share of the time and is not known, the longest first."""
    total = [sum(each) for each in zip(*before.values(), strict=True)]
    order = sorted(before.items(), key=lambda item: -item[1][0])
    out: list[Climb] = []
    for region, seconds in order:
        share = max(
            (t / whole for t, whole in zip(seconds, total, strict=True) if whole), default=0
        )
        if share >= SHARE and key_of(region) not in known.found:
            out.append(Climb(region, space, space.first(region), seconds, seconds, share, end))
    return out


Step = list[tuple[Climb, Choice]]
Built = tuple[Step, Choices, LoweredModel]  # what is new in a trial, all of its choices, the model


def _climb(search: Search, climbs: list[Climb], clock: Clock, tell: Callable[[int], None]) -> None:
    """Trials until the time is over, or nothing is left to try; `tell` hears how many there were."""
    count, apart = 0, search.trials.measuring.apart
    with ThreadPoolExecutor(1) as pool:
        batch = _batch(search, climbs, clock)
        while batch:
            coming = pool.submit(_batch, search, climbs, clock) if apart else None
            for trial in batch:
                if not clock.fits(0, 1):
                    break
                start = monotonic()
                _run(search, *trial)
                clock.ran(monotonic() - start)
                count += 1
            tell(count)
            batch = coming.result() if coming else []
            batch = batch or _batch(search, climbs, clock)  # what was found opens more


def _run(search: Search, step: Step, choices: Choices, made: LoweredModel) -> None:
    """A trial, and what follows for each region."""
    found = search.measure(choices, made=made)
    for climb, choice in step:
        if climb.region in found:
            climb.found(choice, found[climb.region])


def _batch(search: Search, climbs: list[Climb], clock: Clock) -> list[Built]:
    """Trials that can end in time, built; none if there is no more time, or nothing left to try."""
    steps, count, left = list[Step](), 0, [*climbs]
    number = dict.fromkeys(
        (c.region for c in climbs), 0
    )  # of the trial that a region's next choice is in
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
    best = {c.region: c.best for c in climbs}
    several = [{**best, **{c.region: choice for c, choice in step}} for step in steps]
    models: list[LoweredModel] = []
    for choices in several:
        start = monotonic()
        models.append(search.make(choices))
        clock.made(monotonic() - start)
    search.trials.build(models, clock.left(len(steps)))
    return list(zip(steps, several, models, strict=True))


def _confirmed(search: Search, chosen: Choices, data: int, clock: Clock) -> Book:
    """What gives the same as the heuristic's on other data, and is faster beside it, alone and in the whole."""
    (job,) = search.trials.build([search.make({})])
    if not chosen or job is None or search.trials.begin(replace(job, data=data)) is None:
        return NOTHING
    pairs: list[tuple[Seen, Seen]] = []
    while len(pairs) < CONFIRMED and (len(pairs) < ENOUGH or clock.fits(0, 2 - clock.after)):
        now, was = search.seen(chosen, data, whole=True), search.seen({}, data)
        lost = [r for r in chosen if r not in now.regions]
        chosen = {r: c for r, c in chosen.items() if r in now.regions}
        if not chosen or not was.regions:
            return NOTHING
        pairs = (
            [] if lost else [*pairs, (now, was)]
        )  # what was seen with what is wrong means little
    out: dict[str, Found] = {}
    for region, choice in chosen.items():
        now, was = (_median([s.regions[region] for s in each]) for each in zip(*pairs, strict=True))
        if is_better(now, was):
            out[key_of(region)] = Found(choice, mean(now), mean(was))
    now, was = (_median([s.run or () for s in each]) for each in zip(*pairs, strict=True))
    return Book(out) if mean(now) <= mean(was) * (1 + WHOLE_LOSS) else NOTHING


def _median(times: Sequence[Times]) -> Times:
    return tuple(map(median, zip(*times, strict=True)))


def _now(climb: Climb, name: str, least: float | None) -> Now:
    return Now(name, climb.tried, climb.before[0], climb.seconds[0], least)
