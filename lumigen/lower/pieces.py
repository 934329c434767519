"""pieces: the plan of a map whose last axis is short and in pieces, as a concatenation of many small functions has it.

    out[i, j] = x[i, j] if j < 3, sin x[i, j - 3] if j < 6, ...

Before: a store over an axis that conditions cut into pieces, each of less than a vector.  After: a store for each point
of that axis, with its own function and no condition; vectors lie along the axes around it.
"""

from __future__ import annotations

from lumigen.dtype import computed, f32
from lumigen.index import Axis, ix
from lumigen.lower.scope import kernel_reductions, lanes_fit
from lumigen.lower.sweeps import grid_loop, merge_axes
from lumigen.machine import Machine
from lumigen.plan import KernelPlan, Loop
from lumigen.region import Choose, Holds, Region, Store, substitute, walk


def plan_pieces(region: Region, machine: Machine) -> KernelPlan | None:
    """The plan; none where the region has no such store, or vectors do not compute it so."""
    (store, *others) = region.stores
    if others or region.native or len(store.axes) < 2 or kernel_reductions([store.value]):
        return None
    last = store.axes[-1]
    if not last.extent.is_const or not 1 < last.extent.const <= machine.vectors.pieces:
        return None
    count, length, window = 1 + len(_cuts(store, last)), last.extent.const, machine.vectors.window
    if count == 1 or length >= window * count:
        return None
    stores = merge_axes(tuple(_at(store, i) for i in range(length)))
    *rows, lane = stores[-1].axes
    floats = store.value.dtype is f32 and computed(store.dst.dtype) is f32
    if (
        not floats
        or lane.extent.estimate() < window
        or not lanes_fit((s.value for s in stores), lane)
    ):
        return None
    return KernelPlan(region, (grid_loop(tuple(rows), (Loop((lane,), "lanes", stores),)),))


def _cuts(store: Store, last: Axis) -> frozenset[int]:
    """The points of an axis at which a condition of a choice begins or ceases to hold."""
    chosen = (e.condition for e in walk([store.value]) if isinstance(e, Choose))
    out: set[int] = set()
    for c in (c for e in chosen if isinstance(e, Holds) for c in e.conditions):
        factor = c.slack.coefficient(last)
        rest = None if factor is None else c.slack - factor * last
        if factor in (1, -1) and rest is not None and rest.is_const:
            out.add(-rest.const if factor == 1 else rest.const + 1)
    return frozenset(cut for cut in out if 0 < cut < last.extent.const)


def _at(store: Store, place: int) -> Store:
    """The store of one point of the last axis."""
    to = {store.axes[-1]: ix(place)}
    at = tuple(i.substitute(to) for i in store.at)
    return Store(store.dst, store.axes[:-1], at, substitute(store.value, to))
