"""least: what regions take at least on this machine, by what it was seen to do at most."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lumigen.errors import UserError
from lumigen.limits import Limits
from lumigen.lower.assemble import LoweredModel
from lumigen.region import Region
from lumigen.search.jobs import Samples
from lumigen.target import TARGETS
from lumigen.target_row import Target

LONG = 60.0  # seconds of a search that has time to probe the machine first


def probed(target: Target, model: LoweredModel, threads: int, seconds: float) -> Limits | None:
    """What the machine can do at most; None where it cannot be said, or a search has no time to ask."""
    if seconds < LONG:
        return None
    try:
        return TARGETS[target.name].probe(threads, {k.computes.name for k in model.kernels})
    except UserError:
        return None


def least_of(
    model: LoweredModel, samples: Samples, features: Collection[str], limits: Limits | None
) -> Mapping[Region, float]:
    """Seconds of one run of each region at the typical dims; none of one whose work has no limit here."""
    kernels = {k.name: k for k in model.kernels}
    out: dict[Region, float] = {}
    for program in model.programs if limits is not None else ():
        dims = samples[program.entry][0]
        for launch in program.chosen(dims, features):
            k = kernels[launch.kernel]
            found = None if limits is None else limits.least(k.computes.name, *k.cost.at(dims))
            if k.of is not None and found is not None:
                out[k.of] = out.get(k.of, 0.0) + found[0]
    return out
