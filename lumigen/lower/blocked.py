"""blocked: vector loops whose windows overlap compute several neighbours at once, which share what they read.

Before: a region whose reductions read windows along an axis of the store, as a depthwise convolution or a pool does.
After: a store for each of a few points of that axis, all in one loop: what two of them read is loaded once, weights for
all of them.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.index import Axis, ix
from lumigen.lower.contractions import volume
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.sweeps import lane_axis, plan_sweeps
from lumigen.machine import Machine
from lumigen.plan import KernelPlan
from lumigen.region import Read, Reduce, Region, Store, free_axes, substitute, walk


def plan_blocked(region: Region, machine: Machine) -> KernelPlan | None:
    """The plan of a region with a store for each of a few points; None where no windows overlap in it."""
    store, *others = region.stores
    if machine.teams is None or machine.teams.points < 2 or others or region.native:
        return None
    lane, reductions = lane_axis(store, machine.vectors), kernel_reductions([store.value])
    if lane is None or not reductions or not all(lane in free_axes(r) for r in reductions):
        return None
    count = machine.teams.points
    if volume(store.axes) < count * machine.division.lanes:
        return None  # they would leave part of the machine idle
    sliding = [a for a in store.axes if a != lane and any(_slides(r, a) for r in reductions)]
    whole = [a for a in sliding if a.extent.is_const and a.extent % count == 0]
    if not whole:
        return None
    axis = whole[-1]
    outer = Axis(axis.name, axis.extent // count)
    stores = tuple(_at(store, axis, outer, count, j) for j in range(count))
    return plan_sweeps(replace(region, stores=stores), machine)


def _slides(r: Reduce, axis: Axis) -> bool:
    """Whether what neighbours along an axis reduce has elements in common."""
    for e in walk([r.body]):
        for i in e.at if isinstance(e, Read) else ():
            step = i.coefficient(axis)
            taps = [a for a in r.axes if i.coefficient(a) == 1]
            if step is not None and step.is_const and step != 0 and taps:
                return any(a.extent.estimate() > abs(step.const) for a in taps)
    return False


def _at(store: Store, axis: Axis, outer: Axis, count: int, point: int) -> Store:
    """The store at one of so many points of each block of the axis."""
    moved = {axis: ix(outer) * count + point}
    return Store(
        store.dst,
        tuple(outer if a == axis else a for a in store.axes),
        tuple(i.substitute(moved) for i in store.at),
        substitute(store.value, moved),
    )
