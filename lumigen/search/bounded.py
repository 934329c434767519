"""bounded: of a region's choices one for small dims and one for all others, where no single one is best at both.

The search measures at typical, least and great dims. Where one choice is best at the smaller of two of these and
another one at the greater, the first runs up to some dims in between, behind a guard: halfway, or the smaller ones
themselves. It stays if it is slower than the other at no corner of what the guard allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import isqrt
from statistics import median

from lumigen.index import Dim
from lumigen.plan import Illegal
from lumigen.program import Program
from lumigen.region import Region
from lumigen.search.choice import Choice, dims_of
from lumigen.search.climb import GAIN, Climb, Times, mean, ratios
from lumigen.search.jobs import Job, Samples
from lumigen.search.models import Search, of_regions
from lumigen.search.samples import Dims

CORNERS = 4  # of a guard's box at which both are measured: those of two dims
RUNS = 3  # of both, in alternation
TRIALS = 2 * RUNS + 1  # to measure both
BEST = 4  # choices for small dims that are looked at, as not all take the same arguments

Box = tuple[tuple[Dim, int, int], ...]  # the dims of a region, with the least and the most


def middle(d: Dim, lo: int, hi: int) -> int:
    """Halfway between two sizes, as they are multiplied: a size that the dim may have."""
    return max(lo, isqrt(lo * hi) // d.multiple_of * d.multiple_of)


def lowest(_d: Dim, lo: int, _hi: int) -> int:
    return lo


@dataclass(frozen=True)
class TwoChoices:
    """Two choices: up to the most of the box the small one runs."""

    small: Choice
    general: Choice
    box: Box

    def at(self, box: Box) -> Choice:
        """The choice that is both, with a guard of the most of each dim."""
        most = tuple((d.name, n) for d, _, n in box)
        return replace(self.general, bounded=((most, self.small),))


def bounded(search: Search, climbs: Sequence[Climb], trials: int) -> Mapping[Region, Choice]:
    """The regions that run as two choices; no more than so many trials say which."""
    splits = {c.region: split for c in climbs if (split := split_of(c)) is not None}
    out: dict[Region, Choice] = {}
    for most in (middle, lowest):
        boxes = {
            r: tuple((d, lo, most(d, lo, hi)) for d, lo, hi in s.box)
            for r, s in splits.items()
            if r not in out
        }
        for group in _alike(boxes):
            if trials < TRIALS:
                return out
            trials -= TRIALS
            chosen = {r: splits[r] for r in group}
            for region in _faster(
                search, chosen, {d: (lo, n) for r in group for d, lo, n in boxes[r]}
            ):
                out[region] = splits[region].at(boxes[region])
    return out


def _alike(boxes: Mapping[Region, Box]) -> list[list[Region]]:
    """The regions in groups in which no dim has two bounds."""
    groups: list[tuple[dict[Dim, tuple[int, int]], list[Region]]] = []
    for region, box in boxes.items():
        own = {d: (lo, hi) for d, lo, hi in box}
        for known, group in groups:
            if all(known.get(d, b) == b for d, b in own.items()):
                known.update(own)
                group.append(region)
                break
        else:
            groups.append((own, [region]))
    return [group for _, group in groups]


def split_of(climb: Climb) -> TwoChoices | None:
    """The two choices of a region that save most beside the best one; None where two save no more than noise."""
    space, region = climb.space, climb.region
    measured = [(t.choice, t.seconds) for t in climb.tries if t.seconds and not t.is_quick]
    measured = [(climb.first, climb.before), *measured]
    single = min((climb.before, climb.seconds), key=mean)
    found: list[tuple[float, TwoChoices]] = []
    for box, small, great in _boxes(dims_of(region), space.samples, len(climb.before)):
        general, times = min(measured, key=lambda m: mean(_of(m[1], great)))
        order = sorted(measured, key=lambda m: mean(_of(m[1], small)))
        for choice, own in islice(order, BEST):
            split = TwoChoices(choice, general, box)
            both = mean((*_of(own, small), *_of(times, great)))
            is_two = choice != general and both < mean(single) * (1 - GAIN)
            if is_two and not isinstance(space.realised(split.at(box), region), Illegal):
                found.append((both, split))
                break
    return min(found, key=lambda f: f[0])[1] if found else None


def _boxes(
    dims: Sequence[Dim], samples: Sequence[Mapping[Dim, int]], count: int
) -> Iterator[tuple[Box, tuple[int, ...], tuple[int, ...]]]:
    """The dims between two neighbours of the samples, and the numbers of the samples below and above."""
    known = [s for s in samples if all(d in s for d in dims)][:count]
    order = sorted(range(len(known)), key=lambda i: [known[i][d] for d in dims])
    for k in range(1, len(order)):
        low, high = known[order[k - 1]], known[order[k]]
        box = tuple((d, low[d], high[d]) for d in dims)
        if box and all(lo <= hi for _, lo, hi in box) and any(lo < hi for _, lo, hi in box):
            yield box, tuple(order[:k]), tuple(order[k:])


def _of(times: Times, numbers: Sequence[int]) -> Times:
    return tuple(times[i] for i in numbers)


def _faster(
    search: Search, splits: Mapping[Region, TwoChoices], box: Mapping[Dim, tuple[int, int]]
) -> list[Region]:
    """The regions whose small choice is faster in the box, and slower at no corner of it."""
    small = search.make({r: s.small for r, s in splits.items()})
    general = search.make({r: s.general for r, s in splits.items()})
    jobs = search.trials.build([general, small], whole=True)
    if jobs[0] is None or jobs[1] is None:
        return []
    samples = corners(jobs[0].programs, box)
    first, second = (_at(job, samples) for job in jobs if job is not None)
    if search.trials.begin(first) is None:
        return []
    each: list[tuple[Mapping[Region, Times], Mapping[Region, Times]]] = []
    for _ in range(RUNS):
        was, now = search.trials.run(first), search.trials.run(second)
        if was is None or now is None or was.wrong or now.wrong:
            return []
        each.append((of_regions(general, was), of_regions(small, now)))
    out: list[Region] = []
    for region in splits:
        was, now = (
            tuple(map(median, zip(*(times[region] for times in side), strict=True)))
            for side in zip(*each, strict=True)
        )
        if mean(now) < mean(was) * (1 - GAIN) and max(ratios(now, was), default=1.0) <= 1.0:
            out.append(region)
    return out


def _at(job: Job, samples: Samples) -> Job:
    programs = tuple(p for p in job.programs if p.entry in samples)
    return replace(job, programs=programs, samples=samples)


def corners(programs: Sequence[Program], box: Mapping[Dim, tuple[int, int]]) -> Samples:
    """The dims of entries at the corners of a box, or at some of them if there are many.

    Dims that the box has not are the least. Entries that have none of its dims are left out.
    """
    out: dict[str, tuple[Dims, ...]] = {}
    for p in programs:
        own = [d for d in p.dims if d in box]
        rest = {d: -(-d.lo // d.multiple_of) * d.multiple_of for d in p.dims}
        found = [
            {**rest, **dict(zip(own, sizes, strict=True))}
            for sizes in product(*(box[d] for d in own))
        ]
        distinct = [dims for i, dims in enumerate(found) if dims not in found[:i]]
        if own:
            out[p.entry] = (*distinct[: CORNERS - 1], *distinct[CORNERS - 1 :][-1:])
    return out
