"""models: a model with a choice for each region, and what each of them takes in a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from lumigen.lower.assemble import CutUp, LoweredModel
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.region import Region
from lumigen.search.choice import Choice, candidate_of
from lumigen.search.climb import Times
from lumigen.search.jobs import Timed, glimpse
from lumigen.search.trial import Trials

Choices = Mapping[Region, Choice]


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
        self,
        choices: Choices,
        data: int | None = None,
        made: LoweredModel | None = None,
        *,
        quick: bool = False,
        new: Collection[Region] | None = None,
    ) -> Mapping[Region, Times]:
        """The seconds of the regions of one trial; of those that do not compile, crash or are wrong there are none."""
        return self.seen(choices, data, made, quick=quick, new=new).regions

    def seen(
        self,
        choices: Choices,
        data: int | None = None,
        made: LoweredModel | None = None,
        *,
        whole: bool = False,
        quick: bool = False,
        new: Collection[Region] | None = None,
    ) -> Seen:
        """The same, and of all of it if all of these choices are in it.

        All kernels of the choices are compiled if they are to be in a `whole` model, at whatever dims they run. A
        `quick` one is of few runs at the typical dims. Where something is wrong it is one of the choices that are
        `new`, by default any: halves of these are tried by themselves.
        """
        model = self.make(choices) if made is None else made
        (job,) = self.trials.build([model], also=tuple(choices) if whole else ())
        if job is None:
            failed = {k.of for k in model.kernels if self.trials.failed(k)}
            left = {r: c for r, c in choices.items() if r not in failed}
            if not self.trials.is_over:
                self.dropped["did not compile in time"] += len(choices) - len(left)
            again = 0 < len(left) < len(choices)
            return Seen(self.measure(left, data, quick=quick, new=new) if again else {})
        job = job if data is None else replace(job, data=data)
        timed = self.trials.run(glimpse(job) if quick else job)
        if timed is not None and not timed.wrong:
            found = of_regions(model, timed)
            return Seen({r: t for r, t in found.items() if r in choices or not choices}, timed.run)
        if self.trials.is_over:
            return Seen({})
        regions = [r for r in choices if new is None or r in new]
        if len(regions) < 2:
            wrong = "gave other results" if timed is not None else "faulted or did not end"
            self.dropped[wrong] += len(regions)
            return Seen({})
        middle = len(regions) // 2
        halves = [{r: choices[r] for r in half} for half in (regions[:middle], regions[middle:])]
        found = (self.measure(half, data, quick=quick) for half in halves)
        return Seen({r: t for half in found for r, t in half.items()})


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
