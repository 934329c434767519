"""tune: the search. From the heuristic's choice of each region, one decision at a time, as long as it gets faster.

All regions of a model take a step in one trial, each by itself: a trial has one choice of every region, and says what
each of them takes. At the end what was found runs beside the heuristic's, in alternation and on data that it has not
seen, and what is wrong or not faster there is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import monotonic

from lumigen.dtype import DType
from lumigen.errors import LoweringFailed
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.passes import Entries
from lumigen.region import Region
from lumigen.search import winners
from lumigen.search.book import NOTHING, Book, Found, key_of
from lumigen.search.choice import Choice, candidate_of
from lumigen.search.climb import Climb, Space, Times, is_better, mean
from lumigen.search.clock import Clock
from lumigen.search.samples import samples_of
from lumigen.search.trial import Timed, Trials
from lumigen.target import TARGETS
from lumigen.target_row import Target
from lumigen.targets.measuring import Measuring

SHARE = 0.005  # of a model's time: regions of less are left as they are
TOGETHER, FILL = (
    4,
    2,
)  # trials that are built at the same time at least; kernels for each thread, where these are more
MOST = 16  # of those trials
CONFIRMED = 5  # runs of what was found, and of the heuristic's, in alternation

Choices = Mapping[Region, Choice]


@dataclass(frozen=True)
class Terms:
    """What a search is given: seconds, threads that compile or run, which random numbers."""

    seconds: float
    threads: int
    seed: int = 0


@dataclass(frozen=True)
class Now:
    """How far the search of one region is: seconds of a run of it by the heuristic, and at best so far."""

    name: str
    tried: int
    before: float
    best: float


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
    """What was found, and the kernels of regions that were not reached."""

    book: Book
    unreached: tuple[str, ...] = ()


class Search:
    """The trials of one model."""

    def __init__(self, make: Callable[[Choices], LoweredModel], trials: Trials) -> None:
        self.make, self.trials = make, trials

    def measure(self, choices: Choices, data: int | None = None) -> Mapping[Region, Times]:
        """The seconds of the regions of one trial; of those that do not compile, crash or are wrong there are none."""
        model = self.make(choices)
        (job,) = self.trials.build([model])
        if job is None:
            built = self.trials.is_built
            lacking = {k.of for k in model.kernels if not built(k)}
            left = {r: c for r, c in choices.items() if r not in lacking}
            return self.measure(left, data) if len(left) < len(choices) else {}
        timed = self.trials.run(job if data is None else replace(job, data=data))
        if timed is not None and not timed.wrong:
            found = of_regions(model, timed)
            return found if not choices else {r: t for r, t in found.items() if r in choices}
        if len(choices) < 2:
            return {}
        regions = [*choices]
        middle = len(regions) // 2
        halves = [{r: choices[r] for r in half} for half in (regions[:middle], regions[middle:])]
        return {r: t for half in halves for r, t in self.measure(half, data).items()}


def model_of(
    entries: Entries,
    device: Device,
    dtype: DType,
    choices: Choices,
    architectures: tuple[str, ...] = (),
) -> LoweredModel:
    """The model with these choices; other regions run as the heuristic says."""

    def pick(canonical: Region, named: Region) -> Candidate | None:
        choice = choices.get(canonical)
        return None if choice is None else candidate_of(choice, named, device)

    return assemble(entries, device, dtype=dtype, architectures=architectures, pick=pick)


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
class _Model:
    """A model as it is searched: by the heuristic, its regions by key, what their kernels are called."""

    plain: LoweredModel
    make: Callable[[Choices], LoweredModel]
    regions: Mapping[str, Region]
    names: Mapping[Region, str]

    @staticmethod
    def of(entries: Entries, target: Target, dtype: DType) -> _Model:
        device = TARGETS[target.name].device
        make = partial(model_of, entries, device, dtype, architectures=target.architectures)
        plain = make({})
        regions = {key_of(k.of): k.of for k in plain.kernels if k.of is not None}
        names = {k.of: k.name for k in reversed(plain.kernels) if k.of is not None}
        return _Model(plain, make, regions, names)


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
    clock = Clock(monotonic() + terms.seconds, terms.threads)
    model = _Model.of(entries, target, dtype)
    place = winners.Place.of(measuring, terms.threads, model.regions)
    known = winners.known(place, terms.seconds)
    if known.are_of_today and len(known.book.found) == len(model.regions):
        return Tuned(faster(known.book))
    kernels = {k.name: k for k in model.plain.kernels}
    memory = measuring.memory()
    samples = {p.entry: samples_of(p, kernels, memory) for p in model.plain.programs}
    with Trials(target, measuring, samples, terms.threads, terms.seed) as trials:
        search = Search(model.make, trials)
        before = _begin(search, model, clock)
        every = [dims for each in samples.values() for dims in each]
        space = Space(
            TARGETS[target.name].device, target.architectures, measuring.features(), every
        )
        climbs = _climbs(before, space, known.book)
        _climb(search, climbs, clock, model, tell)
        chosen = {c.region: c.best for c in climbs if is_better(c.seconds, c.before)}
        old = faster(known.book).found
        chosen |= {r: old[k].choice for k, r in model.regions.items() if k in old}
        found = _confirmed(search, chosen, terms.seed + 1, clock)
    return _kept(model, before, space, climbs, known.book, found, place, terms)


def faster(book: Book) -> Book:
    """The choices that are faster than the heuristic's."""
    return Book({key: f for key, f in book.found.items() if f.seconds < f.before})


def _begin(search: Search, model: _Model, clock: Clock) -> Mapping[Region, Times]:
    """The seconds of all regions by the heuristic."""
    trials, start = search.trials, monotonic()
    (job,) = trials.build([model.plain])
    clock.built(len(model.plain.kernels), monotonic() - start)
    timed = None if job is None else trials.begin(job)
    if timed is None:
        what = f"the model does not run before anything is searched: {trials.said()}"
        raise LoweringFailed(step="tune", what=what)
    clock.ran(timed.whole)
    return of_regions(model.plain, timed)


def _climbs(before: Mapping[Region, Times], space: Space, known: Book) -> list[Climb]:
    """A search of each region that takes a share of the time and is not known, the longest first."""
    total = [sum(each) for each in zip(*before.values(), strict=True)]
    order = sorted(before.items(), key=lambda item: -item[1][0])
    out: list[Climb] = []
    for region, seconds in order:
        share = max(
            (t / whole for t, whole in zip(seconds, total, strict=True) if whole), default=0
        )
        if share >= SHARE and key_of(region) not in known.found:
            out.append(Climb(region, space, space.first(region), seconds, seconds))
    return out


Step = list[tuple[Climb, Choice]]


def _climb(
    search: Search,
    climbs: list[Climb],
    clock: Clock,
    model: _Model,
    tell: Callable[[News], None],
) -> None:
    """Trials until the time is over, or nothing is left to try."""
    begun, count = monotonic(), 0
    while steps := _batch(search, climbs, clock):
        for step, choices in steps:
            start = monotonic()
            found = search.measure(choices)
            clock.ran(monotonic() - start)
            for climb, choice in step:
                if climb.region in found:
                    climb.found(choice, found[climb.region])
        count += len(steps)
        regions = (
            Now(model.names[c.region], c.tried, mean(c.before), mean(c.seconds)) for c in climbs
        )
        tell(News(monotonic() - begun, count, tuple(regions)))


def _batch(search: Search, climbs: list[Climb], clock: Clock) -> list[tuple[Step, Choices]]:
    """Trials that can end in time, with the choices of each, built; none if there is no more time, or nothing left."""
    trials, out, models = search.trials, list[tuple[Step, Choices]](), list[LoweredModel]()
    reserve = 2 * CONFIRMED + 2  # trials that come after
    while len(out) < MOST and (len(out) < TOGETHER or trials.new(models) < FILL * trials.threads):
        step = [(c, choice) for c in climbs if (choice := c.next()) is not None]
        if not step:
            break
        choices = {**{c.region: c.best for c in climbs}, **{c.region: x for c, x in step}}
        made = search.make(choices)
        if not clock.fits(trials.new([*models, made]), len(out) + 1 + reserve):
            break
        out.append((step, choices))
        models.append(made)
    if out:
        count, start = trials.new(models), monotonic()
        trials.build(models, clock.left(reserve))
        clock.built(count, monotonic() - start)
    return out


def _confirmed(search: Search, chosen: Choices, data: int, clock: Clock) -> Book:
    """What gives the same as the heuristic's on other data, and is faster beside it."""
    (job,) = search.trials.build([search.make({})])
    if not chosen or job is None or search.trials.begin(replace(job, data=data)) is None:
        return NOTHING
    before: dict[Region, list[Times]] = {r: [] for r in chosen}
    after: dict[Region, list[Times]] = {r: [] for r in chosen}
    for number in range(CONFIRMED):
        if number >= 3 and not clock.fits(0, 2):
            break
        for choices, times in (({}, before), (chosen, after)):
            found = search.measure(choices, data)
            chosen = {r: c for r, c in chosen.items() if r in found or not choices}
            for region in times:
                if region in found:
                    times[region].append(found[region])
    out: dict[str, Found] = {}
    for region, choice in chosen.items():
        was, now = _median(before[region]), _median(after[region])
        if is_better(now, was):
            out[key_of(region)] = Found(choice, mean(now), mean(was))
    return Book(out)


def _median(times: Sequence[Times]) -> Times:
    return tuple(map(median, zip(*times, strict=True)))


def _kept(
    model: _Model,
    before: Mapping[Region, Times],
    space: Space,
    climbs: list[Climb],
    known: Book,
    found: Book,
    place: winners.Place,
    terms: Terms,
) -> Tuned:
    """What is remembered, and what comes of a search: a region that was not reached is not remembered as searched."""
    unreached = {key_of(c.region): model.names[c.region] for c in climbs if c.tried == 0}
    searched = {key_of(c.region) for c in climbs} - unreached.keys()
    as_it_is: dict[str, Found] = {}
    for key, region in model.regions.items():
        seconds = mean(before.get(region, (0.0,)))
        as_it_is[key] = Found(space.first(region), seconds, seconds)
    made = {k: f for k, f in as_it_is.items() if k in searched or k in known.found}
    small = {k: f for k, f in as_it_is.items() if k not in made and k not in unreached}
    winners.keep({**made, **found.found}, small, place, terms.seconds)
    return Tuned(faster(found), tuple(unreached.values()))
