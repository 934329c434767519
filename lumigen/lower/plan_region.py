"""plan_region: in which loops a region runs. The heuristic; a search would fill the same structure.

Before: a canonical region.  After: one kernel. Reductions over one axis share a loop where `separate`
allows it and the kernel holds a contraction inside (its scores would be recomputed for each sweep); elsewhere sweeps
over rows that stay in the caches are cheaper than corrections.
"""

from __future__ import annotations

from lumigen.index import ix
from lumigen.lower.cascade import Cascade, find_cascade
from lumigen.lower.schedule_plan import STREAM_ROWS
from lumigen.lower.stream import find_streamable
from lumigen.lower.sweeps import grid_loop, plan_sweeps
from lumigen.plan import KernelPlan, Loop, RegionPlan
from lumigen.region import Region


def plan_region(region: Region) -> RegionPlan:
    found = find_cascade(region.stores, one_row=True)
    return plan_sweeps(region) if found is None else _folded(region, found)


def plan_blocks(region: Region) -> RegionPlan:
    """The same for blocks of threads: where these can run the fold as one loop."""
    found = find_streamable(region.stores, STREAM_ROWS)
    return plan_sweeps(region) if found is None else _folded(region, found.cascade)


def _folded(region: Region, found: Cascade) -> RegionPlan:
    fold = found.fold
    (k,) = fold.axes
    inner = Loop(fold.axes, "seq", ix(0), k.extent, fold.carries, (), results=fold.results)
    steps = (inner, *region.stores)
    return RegionPlan(region, (KernelPlan((grid_loop(region.stores[-1].axes, steps),)),))
