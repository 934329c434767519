"""fusing: which values are not stored after all, found by measuring whole entries before the kernels are searched.

The heuristic's cuts are flipped one at a time, the largest value first, alike wherever the same canonical region would
store it, so that layers stay alike. A flip stays if all entries together are faster with it, by more than noise.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from statistics import median
from time import monotonic

from lumigen.dtype import DType
from lumigen.errors import LoweringFailed
from lumigen.lower.assemble import CutUp, LoweredModel
from lumigen.lower.devices import Device
from lumigen.lower.partition import default_cuts, removable
from lumigen.measuring import Measuring
from lumigen.passes import Entries
from lumigen.search import winners
from lumigen.search.book import Book, Found, key_of
from lumigen.search.choice import Choice
from lumigen.search.climb import Times, is_better, mean
from lumigen.search.equal import trials_of
from lumigen.search.jobs import Job
from lumigen.search.remembering import remembering
from lumigen.search.trial import Trials
from lumigen.search.tune import Terms
from lumigen.target import TARGETS
from lumigen.target_row import Target

LONG = 60.0  # seconds of a search that has time for this
SHARE = 0.15  # of it
MOST = 12  # flips that are tried
RUNS = 3  # of a flip and of what was best before, in alternation
HOPELESS = 1.2  # times as long, in one run, which no noise makes up for


def removable_keys(
    entries: Entries, device: Device, dtype: DType, architectures: tuple[str, ...] = ()
) -> list[str]:
    """The keys of the regions whose results need not be stored, the largest result first."""
    skeletons = CutUp.of(entries, device, dtype, architectures).model.skeletons
    sizes: dict[str, int] = {}
    for _, graph in entries:
        for _, region in removable(graph, default_cuts(graph, skeletons)):
            b = region.stores[0].dst
            size = prod(d.estimate() for d in b.dims) * b.dtype.itemsize
            sizes[key_of(region)] = sizes.get(key_of(region), 0) + size
    return sorted(sizes, key=lambda key: (-sizes[key], key))


def fused(
    entries: Entries, target: Target, measuring: Measuring, dtype: DType, terms: Terms
) -> tuple[str, ...]:
    """The keys of what is not stored; what that was is remembered for the day."""
    if terms.seconds < LONG:
        return ()
    device = remembering(TARGETS[target.name].device)
    keys = removable_keys(entries, device, dtype, target.architectures)[:MOST]
    key = f"inlined {dtype.name}"
    place = winners.Kept.of(measuring, terms.threads, [key, target.text, *keys], cold=terms.cold)
    found = winners.known(place, terms.seconds)
    if key in found.book.found and found.are_of_today:
        flips = found.book.found[key].choice.first
        return tuple(k for i, k in enumerate(keys) if flips >> i & 1)
    plain = _lowered(entries, device, dtype, target, ())
    if plain is None or not keys:
        return ()
    with trials_of(plain, target, measuring, terms) as trials:
        taken, now, before = _flipped(trials, entries, device, dtype, target, plain, keys, terms)
    if before:
        flips = sum(1 << i for i, k in enumerate(keys) if k in taken)
        kept = Found(Choice(flips, (), ()), mean(now), mean(before))
        winners.keep({}, {key: kept}, place, terms.seconds)
    return taken


def _lowered(
    entries: Entries, device: Device, dtype: DType, target: Target, inlined: Collection[str]
) -> LoweredModel | None:
    """The model by the heuristic, less these cuts; None where no plan runs what is left of its regions."""
    inlines = Book({}, inlined=tuple(inlined)).inlines if inlined else None
    try:
        return CutUp.of(entries, device, dtype, target.architectures, None, inlines).lowered()
    except LoweringFailed:
        return None


def _flipped(
    trials: Trials,
    entries: Entries,
    device: Device,
    dtype: DType,
    target: Target,
    plain: LoweredModel,
    keys: Collection[str],
    terms: Terms,
) -> tuple[tuple[str, ...], Times, Times]:
    """The flips that stay, the time with them and without; no times where the model does not run."""
    end = monotonic() + terms.seconds * SHARE
    (best,) = trials.build([plain], end - monotonic())
    first = None if best is None else trials.begin(best)
    if best is None or first is None:
        return (), (), ()
    taken, now = (), first.run
    for key in keys:
        if monotonic() >= end:
            break
        model = _lowered(entries, device, dtype, target, (*taken, key))
        (job,) = (None,) if model is None else trials.build([model], end - monotonic())
        times = None if job is None else _beside(trials, best, job)
        if job is not None and times is not None and is_better(*times):
            taken, best, now = (*taken, key), job, times[0]
    return taken, now, first.run


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
