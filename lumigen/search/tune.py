"""tune: the search. From the heuristic's choice of each region, one decision at a time, as long as it gets faster.

All regions of a model take a step in one trial, each by itself: a trial has one choice of every region, and says what
each of them takes. A step counts if it saves more than GAIN of a region's time. At the end what was found runs beside
the heuristic's, in alternation, and what is not faster there is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import monotonic

from lumigen.dtype import DType
from lumigen.errors import LoweringFailed
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.passes import Entries
from lumigen.plan import Illegal
from lumigen.printer.tile import show
from lumigen.region import Region
from lumigen.search import winners
from lumigen.search.book import NOTHING, Book, Found, key_of
from lumigen.search.choice import Choice, beginnings, candidate_of, near
from lumigen.search.trial import Timed, Trials

GAIN = 0.03  # of a region's time: less is noise
SHARE = 0.005  # of a model's time: regions of less are left as they are
TOGETHER = 4  # trials whose kernels are compiled at the same time
CONFIRMED = 5  # runs of what was found, and of the heuristic's, in alternation
RESERVE = 0.15  # of the time, for that

Choices = Mapping[Region, Choice]


@dataclass(frozen=True)
class News:
    """How far a search is: seconds that it took, and of one run of all regions by the heuristic and at best so far."""

    seconds: float
    trials: int
    before: float
    best: float


@dataclass
class Climb:
    """The search of one region."""

    region: Region
    device: Device
    best: Choice
    before: float
    seconds: float
    seen: set[str] = field(default_factory=set[str])  # tile programs that were tried
    left: Iterator[Choice] = field(init=False)

    def __post_init__(self) -> None:
        self._is_new(self.best)
        self.left = beginnings(self.region, self.device)
        self.begun = False

    def next(self) -> Choice | None:
        """The next choice that makes kernels which were not tried; None if there is none."""
        while True:
            for choice in self.left:
                if self._is_new(choice):
                    return choice
            if self.begun:
                return None
            self.begin()

    def begin(self) -> None:
        """Go on from the best."""
        self.begun, self.left = True, near(self.best, self.region, self.device)

    def found(self, choice: Choice, seconds: float) -> None:
        if seconds < self.seconds * (1 - GAIN):
            self.best, self.seconds = choice, seconds
            if self.begun:
                self.begin()

    def _is_new(self, choice: Choice) -> bool:
        candidate = candidate_of(choice, self.region, self.device)
        built = None if candidate is None else self.device.realise(candidate)
        if built is None or isinstance(built, Illegal):
            return False
        text = "".join(show(b.program) for b in built)
        if text in self.seen:
            return False
        self.seen.add(text)
        return True


class Search:
    """The trials of one model."""

    def __init__(self, make: Callable[[Choices], LoweredModel], trials: Trials) -> None:
        self.make, self.trials = make, trials

    def measure(self, several: Sequence[Choices]) -> list[Mapping[Region, float]]:
        """For each trial the seconds of its regions; of those that crash or are wrong there are none."""
        models = [self.make(c) for c in several]
        jobs = self.trials.build(models)
        out: list[Mapping[Region, float]] = []
        for choices, model, job in zip(several, models, jobs, strict=True):
            timed = None if job is None else self.trials.run(job)
            if timed is not None and not timed.wrong:
                out.append(of_regions(model, timed))
            else:
                out.append(self._apart(choices))
        return out

    def _apart(self, choices: Choices) -> Mapping[Region, float]:
        """The seconds of those that do no harm: each half of them is tried by itself."""
        regions = [*choices]
        if len(regions) < 2:
            return {}
        middle = len(regions) // 2
        out: dict[Region, float] = {}
        for half in (regions[:middle], regions[middle:]):
            (found,) = self.measure([{r: choices[r] for r in half}])
            out.update({r: found[r] for r in half if r in found})
        return out


def model_of(entries: Entries, device: Device, dtype: DType, choices: Choices) -> LoweredModel:
    """The model with these choices; other regions run as the heuristic says."""

    def pick(canonical: Region, named: Region) -> Candidate | None:
        choice = choices.get(canonical)
        return None if choice is None else candidate_of(choice, named, device)

    return assemble(entries, device, dtype=dtype, pick=pick)


def of_regions(model: LoweredModel, timed: Timed) -> dict[Region, float]:
    """The seconds of all kernels of each region."""
    out: dict[Region, float] = {}
    for k in model.kernels:
        assert k.of is not None
        out[k.of] = out.get(k.of, 0.0) + timed.seconds.get(k.name, 0.0)
    return out


def tune(
    entries: Entries,
    device: Device,
    dtype: DType,
    seconds: float,
    threads: int,
    tell: Callable[[News], None] = lambda _: None,
) -> Book:
    """What each region of the entries runs as, found in about so many seconds, for this machine with its threads.

    Every choice gives what the heuristic's gives, at the typical dims. A crash, a hang or a wrong result loses a
    trial and nothing else. What an earlier search of at least as many seconds found is taken as it is.
    """
    end = monotonic() + seconds
    make = partial(model_of, entries, device, dtype)
    plain = make({})
    regions = {key_of(k.of): k.of for k in plain.kernels if k.of is not None}
    where = winners.machine(threads)
    known = winners.known([*regions], where, seconds)
    if len(known.found) == len(regions):
        return faster(known)
    with Trials(threads) as trials:
        search = Search(make, trials)
        (job,) = trials.build([plain])
        timed = None if job is None else trials.begin(job)
        if timed is None:
            what = f"the model does not run before anything is searched: {trials.said()}"
            raise LoweringFailed(step="tune", what=what)
        before = of_regions(plain, timed)
        climbs = _climbs(before, device, known)
        _climb(search, climbs, before, end - RESERVE * seconds, tell)
        found = _confirmed(search, climbs)
    rest = {k: _as_it_is(r, device, before[r]) for k, r in regions.items() if r in before}
    made = {**rest, **known.found, **found.found}
    winners.keep(made, where, seconds)
    return faster(Book(made))


def faster(book: Book) -> Book:
    """The choices that are faster than the heuristic's."""
    return Book({key: f for key, f in book.found.items() if f.seconds < f.before})


def _as_it_is(region: Region, device: Device, seconds: float) -> Found:
    """The heuristic's choice, as the one that nothing was faster than."""
    return Found(next(_legal(beginnings(region, device), region, device)), seconds, seconds)


def _climbs(before: Mapping[Region, float], device: Device, known: Book) -> list[Climb]:
    """A search of each region that takes a share of the time and is not known, the longest first."""
    total = sum(before.values())
    order = sorted(before.items(), key=lambda item: -item[1])
    out: list[Climb] = []
    for region, seconds in order:
        first = next(_legal(beginnings(region, device), region, device))
        if seconds >= SHARE * total and key_of(region) not in known.found:
            out.append(Climb(region, device, first, seconds, seconds))
    return out


def _legal(choices: Iterator[Choice], region: Region, device: Device) -> Iterator[Choice]:
    for choice in choices:
        found = candidate_of(choice, region, device)
        if found is not None and not isinstance(device.realise(found), Illegal):
            yield choice


def _climb(
    search: Search,
    climbs: list[Climb],
    before: Mapping[Region, float],
    end: float,
    tell: Callable[[News], None],
) -> None:
    """Trials until the time is over, or nothing is left to try."""
    begun, count, longest, total = monotonic(), 0, 0.0, sum(before.values())
    while monotonic() + longest < end:
        start = monotonic()
        steps = [_step(climbs) for _ in range(TOGETHER)]
        tried = [s for s in steps if s]
        if not tried:
            return
        best = {c.region: c.best for c in climbs}
        several = [{**best, **{c.region: choice for c, choice in s}} for s in tried]
        for step, found in zip(tried, search.measure(several), strict=True):
            for climb, choice in step:
                if climb.region in found:
                    climb.found(choice, found[climb.region])
        count += len(tried)
        longest = max(longest, monotonic() - start)
        saved = sum(c.before - c.seconds for c in climbs)
        tell(News(monotonic() - begun, count, total, total - saved))


def _step(climbs: list[Climb]) -> list[tuple[Climb, Choice]]:
    """The next choice of every region that has one."""
    return [(c, choice) for c in climbs if (choice := c.next()) is not None]


def _confirmed(search: Search, climbs: list[Climb]) -> Book:
    """What is faster than the heuristic's beside it."""
    chosen = {c.region: c.best for c in climbs if c.seconds < c.before}
    if not chosen:
        return NOTHING
    before: dict[Region, list[float]] = {r: [] for r in chosen}
    after: dict[Region, list[float]] = {r: [] for r in chosen}
    for _ in range(CONFIRMED):
        for choices, times in (({}, before), (chosen, after)):
            (found,) = search.measure([choices])
            for region in times:
                if region in found:
                    times[region].append(found[region])
    out: dict[str, Found] = {}
    for region, choice in chosen.items():
        if len(before[region]) == len(after[region]) == CONFIRMED:
            was, now = median(before[region]), median(after[region])
            if now < was * (1 - GAIN):
                out[key_of(region)] = Found(choice, now, was)
    return Book(out)
