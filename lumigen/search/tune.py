"""tune: the search. From the heuristic's choice of each region, one decision at a time, as long as it gets faster.

All regions of a model take a step in one trial, each by itself: a trial has one choice of every region, and says what
each of them takes. At the end what was found runs beside the heuristic's, in alternation and on data that it has not
seen, and what is wrong or not faster there is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import monotonic

from lumigen.dtype import DType
from lumigen.errors import LoweringFailed
from lumigen.lower.assemble import CutUp, LoweredModel
from lumigen.lower.devices import Device
from lumigen.lower.flips import HEURISTIC, Flips
from lumigen.measuring import Measuring
from lumigen.passes import Entries
from lumigen.region import Region
from lumigen.search import winners
from lumigen.search.batches import TrialBatches
from lumigen.search.book import NOTHING, Book, Found, key_of, plan_key
from lumigen.search.bounded import TRIALS, bounded
from lumigen.search.choice import Choice, candidate_of
from lumigen.search.climb import Climb, Rank, Space, Times, is_better, mean
from lumigen.search.clock import Clock
from lumigen.search.crew import ONE, Crew
from lumigen.search.features import Workers, tasks_at_once
from lumigen.search.history import History
from lumigen.search.jobs import FIRST, Samples, Timed
from lumigen.search.least import least_of, probed
from lumigen.search.models import Choices, Search, Seen, model_of, of_regions
from lumigen.search.remembering import remembering
from lumigen.search.samples import MUCH, distinct, samples_of, typical
from lumigen.search.shipped import shipped
from lumigen.search.story import Attempt, RegionStory, Story, gained
from lumigen.search.trial import Trials
from lumigen.target import TARGETS
from lumigen.target_row import Target

UNBEATEN = "nothing was faster than the heuristic's choice"
GONE = "no worker is left, so nothing was confirmed, and nothing is remembered as searched: search again"
UNCONFIRMED = (
    "the time was over before the whole model had run with what was faster: search for longer"
)
TOO_SHORT = "the time was over before the model had run: what was compiled is kept, so search again"
SHARE = 0.005  # of a model's time: regions of less are left as they are
CONFIRMED, ENOUGH = 5, 3  # runs of what was found and of the heuristic's in alternation; the fewest
DATA = 1 << 25  # bytes of random data for each second of a search: more takes too long to make
TRIAL = 1 / 60  # of a search's time that a trial may take, if that depends on the dims
WHOLE_LOSS = 0.01  # of a model's time that is noise
# Trials that find two choices of a region, at two bounds, and confirm them; the part of a search that they may take.
PAIRED, OF_PAIRS = 2 * TRIALS + 2 * ENOUGH + 1, 0.1


@dataclass(frozen=True)
class Terms:
    """What a search is given: seconds, threads that compile or run, which random data, if caches are cold.

    Of the seconds some may be `spent`. `crew` measures at the same time.
    """

    seconds: float
    threads: int
    seed: int = 0
    cold: bool = False
    crew: Crew = ONE
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
    story: Story | None = field(default=None, compare=False)  # of a search that was made
    notes: tuple[str, ...] = ()  # what went wrong on the way, and was left out


@dataclass(frozen=True)
class Searched:
    """A model as it is searched: by the heuristic, its regions by key, what their kernels are called."""

    device: Device
    plain: LoweredModel
    make: Callable[[Choices], LoweredModel]
    regions: Mapping[str, Region]
    names: Mapping[Region, str]

    @staticmethod
    def of(
        entries: Entries,
        target: Target,
        dtype: DType,
        features: Collection[str],
        flips: Flips,
    ) -> Searched:
        device = remembering(TARGETS[target.name].device)
        cut = CutUp.of(entries, device, dtype, target.architectures, None, flips)
        make = partial(model_of, cut, device)
        plain = make({})
        regions = {key_of(k.of): k.of for k in plain.kernels if k.of is not None}
        run = [x.kernel for p in plain.programs for x in p.chosen(typical(p), features)]
        order = sorted(
            plain.kernels, key=lambda k: k.name in run
        )  # those that run have the last word
        names = {k.of: k.name for k in order if k.of is not None}
        return Searched(device, plain, make, regions, names)


def tune(
    entries: Entries,
    target: Target,
    measuring: Measuring,
    dtype: DType,
    terms: Terms,
    tell: Callable[[News], None] = lambda _: None,
    flips: Flips = HEURISTIC,
) -> Tuned:
    """What each region of the entries runs as, found in about so many seconds, for this machine with its threads.

    Every choice gives what the heuristic's gives, at the dims where it is measured. A crash, a hang or a wrong result
    loses a trial and nothing else. What an earlier search of at least as many seconds found is taken; if that was on
    another day, after it was measured again.
    """
    begun, notes = monotonic(), list[str]()
    clock = Clock(begun + terms.seconds - terms.spent, terms.threads, 2 * ENOUGH + 1)
    model = Searched.of(entries, target, dtype, measuring.features(), flips)
    place = winners.Kept.of(measuring, terms.threads, model.regions, cold=terms.cold)
    known = winners.known(place, terms.seconds, notes.append)
    if known.are_of_today and len(known.book.found) == len(model.regions):
        return replace(_tuned(model, known.book, {}), notes=tuple(notes))
    samples = samples_in(terms.seconds, model.plain, measuring)
    limits = probed(target, model.plain, terms.threads, terms.seconds)
    least = least_of(model.plain, samples, measuring.features(), limits)
    with _trials(target, measuring, samples, terms, clock) as trials:
        search = Search(model.make, trials)
        before = _begin(search, model, clock, terms.seconds, measuring)
        if before is None:
            unreached = {k: model.names[r] for k, r in model.regions.items()}
            return replace(_tuned(model, NOTHING, unreached), notes=(*notes, TOO_SHORT))
        dims = [d for each in trials.samples.values() for d in each]
        workers = Workers(tasks_at_once(model.device.machine, terms.threads), limits)
        space = Space(model.device, target.architectures, measuring.features(), dims, workers)
        history = History(place.machine, before)
        earlier = (winners.known(place, 0.0).book, shipped(target))
        climbs = _climbs(before, space, known.book, clock.end, history.order, terms.seed, earlier)

        def said(count: int) -> None:
            history.keep(climbs)
            now = tuple(_now(c, model.names[c.region], least.get(c.region)) for c in climbs)
            tell(News(monotonic() - begun, count, now))

        batches = TrialBatches(search, climbs, clock, said)
        for_pairs = _reserved(clock, trials.samples, terms.seconds)
        batches.run()
        trials.alone()
        clock.after, clock.rest = clock.after - for_pairs, 0.0
        found = found_in(search, model, climbs, known.book, clock, terms.seed + 1)
        if (
            trials.is_over
            and not found.found
            and any(is_better(c.seconds, c.before) for c in climbs)
        ):
            notes.append(UNCONFIRMED)
    unreached = {key_of(c.region): model.names[c.region] for c in climbs if c.tried == 0}
    every = {k: _as_it_is(space, r, before[r]) for k, r in model.regions.items()}
    reached = {k: f for k, f in every.items() if k not in unreached} | dict(found.found)
    of_all = {key_of(c.region) for c in climbs} | known.book.found.keys()
    notes += [f"a worker is lost: {said}" for said in trials.lost]
    if trials.is_gone:
        notes.append(GONE)
    else:
        _keep(reached, of_all, place, terms.seconds)
    regions = tuple(_story(c, model.names[c.region], least, found, begun) for c in climbs)
    machine, dropped = measuring.machine(terms.threads)[:2], dict(search.dropped)
    return replace(
        _tuned(model, found, unreached),
        dropped=dropped,
        story=Story(monotonic() - begun, batches.count, machine, regions, dropped),
        notes=tuple(notes),
    )


def samples_in(
    seconds: float, model: LoweredModel, measuring: Measuring, much: float = MUCH
) -> Samples:
    """Where entries are measured in a search of so many seconds: as far as data has room, and time to be made.

    Nowhere do they have more than `much` of the usual work.
    """
    kernels = {k.name: k for k in model.kernels}
    memory = min(measuring.memory(), int(DATA * seconds))
    return {p.entry: samples_of(p, kernels, memory, much) for p in model.programs}


def _trials(
    target: Target, measuring: Measuring, samples: Samples, terms: Terms, clock: Clock
) -> Trials:
    return Trials(
        target,
        measuring,
        samples,
        terms.threads,
        end=clock.end,
        seed=terms.seed,
        cold=terms.cold,
        crew=terms.crew,
    )


def _keep(
    reached: Mapping[str, Found], of_all: Collection[str], place: winners.Kept, seconds: float
) -> None:
    """Remember what is `of_all` models, and what is of this one alone."""
    made = {k: f for k, f in reached.items() if k in of_all}
    small = {k: f for k, f in reached.items() if k not in of_all}
    winners.keep(made, small, place, seconds)


def _story(
    climb: Climb, name: str, least: Mapping[Region, float], found: Book, begun: float
) -> RegionStory:
    """What was tried of a region, and how that ended."""
    key = key_of(climb.region)
    won, is_better_now = found.found.get(key), is_better(climb.seconds, climb.before)
    lost = "faster in the search, and not when it was confirmed" if is_better_now else UNBEATEN
    attempts = (
        Attempt(t.at - begun, t.choice, t.seconds[0] if t.seconds else None, t.is_quick, t.is_best)
        for t in climb.tries
    )
    return RegionStory(
        key,
        name,
        climb.before[0],
        climb.seconds[0],
        least.get(climb.region),
        climb.best if won is None else won.choice,
        lost if won is None else _confirmed(won),
        tuple(attempts),
        dict(climb.refused),
        climb.alike,
        len(climb.waiting),
        climb.unseen(),
    )


def _confirmed(won: Found) -> str:
    """As the search says it at its end: not the times of the search, but of the runs that confirmed it."""
    ratio = won.before / won.seconds
    return f"{ratio:.2f} times as fast, confirmed: {gained(won.before, won.seconds)} then"


def _as_it_is(space: Space, region: Region, seconds: Times) -> Found:
    """The heuristic's choice, as the one that nothing was faster than."""
    first = space.first(region)
    return _found(first, region, space.device, mean(seconds), mean(seconds))


def _found(choice: Choice, region: Region, device: Device, seconds: float, before: float) -> Found:
    candidate = candidate_of(choice, region, device)
    assert candidate is not None, "it was measured"
    return Found(choice, seconds, before, plan_key(candidate))


def _tuned(model: Searched, found: Book, unreached: Mapping[str, str]) -> Tuned:
    """What comes of a search; a region that was not reached is not remembered as searched."""
    book = faster(found)
    named = {model.names[model.regions[k]]: f for k, f in book.found.items()}
    return Tuned(book, named, tuple(unreached.values()))


def faster(book: Book) -> Book:
    """The choices that are faster than the heuristic's."""
    return replace(book, found={k: f for k, f in book.found.items() if f.seconds < f.before})


def _begin(
    search: Search, model: Searched, clock: Clock, seconds: float, measuring: Measuring
) -> Mapping[Region, Times] | None:
    """The seconds of all regions by the heuristic, at dims at which a trial leaves time for many others.

    None where the time is over before these are known.
    """
    trials = search.trials
    usual = {entry: each[:1] for entry, each in trials.samples.items()}
    timed = _second(search, model, clock, usual)
    if timed is None and trials.is_over:
        return None
    if timed is None:
        failed = [k.name for k in model.plain.kernels if trials.failed(k)]
        why = f"{', '.join(failed)} did not compile" if failed else trials.said()
        what = f"the model does not run before anything is searched: {why}"
        raise LoweringFailed(step="tune", what=what)
    much = min(MUCH, max(1.0, seconds * TRIAL / timed.whole))
    trials.samples = samples_in(seconds, model.plain, measuring, much)
    has_dims = any(len(distinct(each)) > 1 for each in trials.samples.values())
    again = _second(search, model, clock, trials.samples) if has_dims else None
    if again is None:  # perhaps for want of memory
        trials.samples = usual
    return of_regions(model.plain, again or timed)


def _second(search: Search, model: Searched, clock: Clock, samples: Samples) -> Timed | None:
    """What a second run of the model at these dims takes, as the first one makes its data; None: it does not run."""
    (job,) = search.trials.build([model.plain], each=FIRST)  # without it there is no search
    timed = None if job is None else search.trials.begin(replace(job, samples=samples))
    if job is None or timed is None:
        return None
    again = search.trials.run(replace(job, samples=samples))
    if again is None and search.trials.is_over:
        return None
    if again is None or again.wrong:
        raise LoweringFailed(step="tune", what="the model gives other results in a second run")
    clock.data = max(clock.data, timed.whole - again.whole)
    clock.ran(again.whole)
    return again


def _climbs(
    before: Mapping[Region, Times],
    space: Space,
    known: Book,
    end: float,
    rank: Rank,
    seed: int,
    earlier: Sequence[Book],
) -> list[Climb]:
    """A search of each region that takes a share of the time and is not known, the longest first.

    What it runs as by an `earlier` book is tried first.
    """
    total = [sum(each) for each in zip(*before.values(), strict=True)]
    order = sorted(before.items(), key=lambda item: -item[1][0])
    out: list[Climb] = []
    for region, seconds in order:
        share = max(
            (t / whole for t, whole in zip(seconds, total, strict=True) if whole), default=0
        )
        if share >= SHARE and key_of(region) not in known.found:
            first = space.first(region)
            each = [c for b in earlier if (c := b.choice(space.device, region)) is not None]
            made = Climb(region, space, first, seconds, seconds, share, end, rank, seed, each)
            out.append(made)
    return out


def found_in(
    search: Search, model: Searched, climbs: Sequence[Climb], known: Book, clock: Clock, data: int
) -> Book:
    """What is confirmed: the best choice of each region first, then two of one where dims differ."""
    old = faster(known).found
    chosen = {c.region: c.best for c in climbs if is_better(c.seconds, c.before)}
    chosen |= {r: old[k].choice for k, r in model.regions.items() if k in old}
    single = confirmed(search, chosen, data, clock, model.device)
    pairs = bounded(search, climbs, clock.trials())
    if not pairs:
        return single
    both: Choices = {
        r: single.found[k].choice for k, r in model.regions.items() if k in single.found
    }
    paired = confirmed(search, {**both, **pairs}, data, clock, model.device)
    return better_of(single, paired, map(key_of, pairs))


def _reserved(clock: Clock, samples: Samples, seconds: float) -> int:
    """Trials that are set aside for two choices of a region: none where dims do not differ or they take too long."""
    count = PAIRED if any(len(distinct(each)) > 1 for each in samples.values()) else 0
    count = count if count * clock.trial <= seconds * OF_PAIRS else 0
    clock.after += count
    return count


def better_of(single: Book, paired: Book, keys: Iterable[str]) -> Book:
    """The single choices, but for the regions of these keys that were confirmed as two and gain more as such."""
    found = dict(single.found)
    for key in keys:
        pair, one = paired.found.get(key), single.found.get(key)
        if pair is not None and (one is None or pair.gain > one.gain):
            found[key] = pair
    return Book(found)


def confirmed(search: Search, chosen: Choices, data: int, clock: Clock, device: Device) -> Book:
    """What gives the same as the heuristic's on other data, and is faster beside it, alone and in the whole.

    Where the whole is slower, the half that gains most is measured again by itself, while there is time.
    """
    plain = search.make({})
    (job,) = search.trials.build([plain])
    if not chosen or job is None or search.trials.begin(replace(job, data=data)) is None:
        return NOTHING
    while chosen:
        found, is_faster = _beside(search, chosen, data, clock, device, plain)
        if is_faster:
            return Book({key_of(r): f for r, f in found.items()})
        if not clock.fits(2 * ENOUGH - clock.after):
            break
        gains = sorted(found, key=lambda r: found[r].seconds - found[r].before)
        chosen = {r: chosen[r] for r in gains[: len(gains) // 2]}
    return NOTHING


def _beside(
    search: Search,
    chosen: Choices,
    data: int,
    clock: Clock,
    device: Device,
    plain: LoweredModel,
) -> tuple[dict[Region, Found], bool]:
    """The choices that are right and faster than the heuristic's, run in turns with it; whether the whole is too."""
    pairs, model = list[tuple[Seen, Seen]](), search.make(chosen)
    while len(pairs) < CONFIRMED and (len(pairs) < ENOUGH or clock.fits(2 - clock.after)):
        now = search.seen(chosen, data, model, whole=True)
        was = search.seen({}, data, plain)
        lost = [r for r in chosen if r not in now.regions]
        chosen = {r: c for r, c in chosen.items() if r in now.regions}
        model = search.make(chosen) if lost else model
        if not chosen or not was.regions:
            return {}, False
        pairs = (
            [] if lost else [*pairs, (now, was)]
        )  # what was seen with what is wrong means little
    out: dict[Region, Found] = {}
    for region, choice in chosen.items():
        now, was = (_median([s.regions[region] for s in each]) for each in zip(*pairs, strict=True))
        if is_better(now, was):
            out[region] = _found(choice, region, device, mean(now), mean(was))
    now, was = (_median([s.run or () for s in each]) for each in zip(*pairs, strict=True))
    return out, mean(now) <= mean(was) * (1 + WHOLE_LOSS)


def _median(times: Sequence[Times]) -> Times:
    return tuple(map(median, zip(*times, strict=True)))


def _now(climb: Climb, name: str, least: float | None) -> Now:
    return Now(name, climb.tried, climb.before[0], climb.seconds[0], least)
