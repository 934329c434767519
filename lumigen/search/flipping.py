"""flipping: decisions about whole graphs that are better the other way, found before the kernels are searched.

Which values are stored, which regions are joined, and in which order a value lies are the heuristic's. They are flipped
one at a time, alike wherever the same canonical region is concerned, so that layers stay alike: first what is not
stored after all, the largest value first, then joins, then orders. A flip stays if all entries together are faster with
it, by more than noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from statistics import median
from time import monotonic

from lumigen.dtype import DType
from lumigen.errors import LoweringFailed
from lumigen.lower.assemble import CutUp, LoweredModel
from lumigen.lower.devices import Device
from lumigen.lower.flips import Asked, Flips
from lumigen.lower.partition import default_cuts, removable
from lumigen.measuring import Measuring
from lumigen.passes import Entries
from lumigen.region import Region
from lumigen.search import winners
from lumigen.search.book import KINDS, Book, Flip, Found, by_kind, key_of
from lumigen.search.choice import Choice
from lumigen.search.climb import Times, is_better, mean
from lumigen.search.equal import trials_of
from lumigen.search.jobs import Job
from lumigen.search.remembering import remembering
from lumigen.search.shipped import shipped
from lumigen.search.trial import Trials
from lumigen.search.tune import Terms
from lumigen.target import TARGETS
from lumigen.target_row import Target

LONG = 60.0  # seconds of a search that has time for this
SHARE = 0.15  # of it
MOST = {"inlined": 12, "apart": 6, "in_order": 4}  # flips that are tried
RUNS = 3  # of a flip and of what was best before, in alternation
HOPELESS = 1.2  # times as long, in one run, which no noise makes up for


def flips_of(
    entries: Entries,
    device: Device,
    dtype: DType,
    architectures: tuple[str, ...] = (),
    given: frozenset[Flip] = frozenset(),
) -> list[Flip]:
    """The decisions that can be taken the other way, in the order in which they are tried: those `given` first."""
    asked: dict[Flip, None] = {}

    def heard(kind: str) -> Asked:
        def hear(canonical: Region) -> bool:
            asked.setdefault((kind, key_of(canonical)))
            return False

        return hear

    heuristic = Flips(apart=heard("apart"), in_order=heard("in_order"))
    skeletons = CutUp.of(entries, device, dtype, architectures, None, heuristic).model.skeletons
    sizes: dict[str, int] = {}
    for _, graph in entries:
        for _, region in removable(graph, default_cuts(graph, skeletons)):
            b = region.stores[0].dst
            size = prod(d.estimate() for d in b.dims) * b.dtype.itemsize
            sizes[key_of(region)] = sizes.get(key_of(region), 0) + size
    cuts = [("inlined", key) for key in sorted(sizes, key=lambda key: (-sizes[key], key))]
    order = sorted((*cuts, *asked), key=lambda flip: flip not in given)
    of_kind = {kind: [f for f in order if f[0] == kind] for kind in KINDS}
    return [flip for kind in KINDS for flip in of_kind[kind][: MOST[kind]]]


def flipped(
    entries: Entries, target: Target, measuring: Measuring, dtype: DType, terms: Terms
) -> Mapping[str, tuple[str, ...]]:
    """What is not as the heuristic says, as a book has it; what that was is remembered for the day.

    A search that has no time for this takes what came with lumigen; others try that first.
    """
    given, is_long = frozenset(shipped(target).every_flip()), terms.seconds >= LONG
    if not is_long and not given:
        return {}
    device = remembering(TARGETS[target.name].device)
    flips = flips_of(entries, device, dtype, target.architectures, given)
    if not is_long:
        return by_kind(f for f in flips if f in given)
    key = f"flipped {dtype.name}"
    model = [key, target.text, *map(" ".join, flips)]
    place = winners.Kept.of(measuring, terms.threads, model, cold=terms.cold)
    found = winners.known(place, terms.seconds)
    if key in found.book.found and found.are_of_today:
        number = found.book.found[key].choice.first
        return by_kind(f for i, f in enumerate(flips) if number >> i & 1)
    plain = _lowered(entries, device, dtype, target, ())
    if plain is None or not flips:
        return {}
    end = monotonic() + terms.seconds * SHARE
    with trials_of(plain, target, measuring, terms, end) as trials:
        tried, now, before = _flipped(trials, entries, device, dtype, target, plain, flips)
    taken = [f for f, is_taken in tried.items() if is_taken]
    if before:

        def kept(number: int) -> Found:
            return Found(Choice(number, (), ()), mean(now), mean(before))

        whole = kept(sum(1 << i for i, f in enumerate(flips) if f in taken))
        each = {" ".join(f): kept(int(is_taken)) for f, is_taken in tried.items()}
        winners.keep(each, {key: whole}, place, terms.seconds)
    return by_kind(taken)


def _lowered(
    entries: Entries, device: Device, dtype: DType, target: Target, flips: Iterable[Flip]
) -> LoweredModel | None:
    """The model by the heuristic, less these; None where no plan runs what is left of its regions."""
    chosen = Book({}, flipped=by_kind(flips)).flips
    try:
        return CutUp.of(entries, device, dtype, target.architectures, None, chosen).lowered()
    except LoweringFailed:
        return None


def _flipped(
    trials: Trials,
    entries: Entries,
    device: Device,
    dtype: DType,
    target: Target,
    plain: LoweredModel,
    flips: Sequence[Flip],
) -> tuple[Mapping[Flip, bool], Times, Times]:
    """Which flips were tried, and stay; the time with them and without; no times where the model does not run."""
    (best,) = trials.build([plain])
    first = None if best is None else trials.begin(best)
    if best is None or first is None:
        return {}, (), ()
    tried, now = dict[Flip, bool](), first.run
    for flip in flips:
        if trials.is_over:
            break
        taken = (f for f, is_taken in tried.items() if is_taken)
        model = _lowered(entries, device, dtype, target, (*taken, flip))
        (job,) = (None,) if model is None else trials.build([model])
        times = None if job is None else _beside(trials, best, job)
        if trials.is_over:
            break
        tried[flip] = False
        if job is not None and times is not None and is_better(*times):
            tried[flip], best, now = True, job, times[0]
    return tried, now, first.run


def _beside(trials: Trials, best: Job, other: Job) -> tuple[Times, Times] | None:
    """The medians of the other and of the best; None where the other is wrong, or much slower."""
    each: list[tuple[Times, Times]] = []
    while len(each) < RUNS:
        now, was = trials.run(other), trials.run(best)
        if now is None or was is None or now.wrong or was.wrong:
            return None
        each.append((now.run, was.run))
        if mean(now.run) > HOPELESS * mean(was.run):
            return None
    a, b = (tuple(map(median, zip(*times, strict=True))) for times in zip(*each, strict=True))
    return a, b
