"""order: the builder of native kernels that sort the places of each row by its elements.

Before: a region whose native kernel is `order`, `order_descending`, `groups` or `starts`.  After: a tile program in
which a task sorts one row, all of it or its first places, or groups it; or, of long rows, in which all tasks group all
of them together. If a device cannot select the first places of so long a row, a first kernel sorts whole rows and a
second one copies the first places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, extent_of, ix
from lumigen.lower.built import Built, check
from lumigen.lower.radix import GROUPING, groups_of, rows_together
from lumigen.lower.scope import Names, Scope
from lumigen.lower.simt import dims_of
from lumigen.machine import RadixTiles
from lumigen.ops import NATIVE
from lumigen.plan import KernelPlan, Loop, Native, NotRealised, RegionPlan
from lumigen.region import Buffer, Region, Role, Store, read, substitute
from lumigen.schedule import Schedule
from lumigen.tile import GroupPlaces, Order, TileProgram

Keeps = Callable[
    [Ix, Ix], bool
]  # whether a kernel orders rows so long and keeps so many places of each
SITES = ("threads",)
SITES_OF_MANY = ("threads", "blocks")
LANES = 4  # that the device's headers are told of, and no statement uses


def plan_order(region: Region, copied: Callable[[Region], KernelPlan], keeps: Keeps) -> RegionPlan:
    """The kernels of the region; `copied` plans the region of a copy."""
    (store,) = region.stores
    (source,) = region.reads()
    if region.native not in NATIVE or store.at != tuple(map(ix, store.axes)):
        raise LoweringFailed(step="order", what=f"no native kernel {region.native} of {store.dst}")
    length, kept = source.dims[-1], store.dst.dims[-1]
    if region.native in GROUPING or length is kept or keeps(length, kept):
        return RegionPlan(region, (_planned(region),))
    whole = _whole(store, length)
    first = replace(region, stores=(whole,))
    rest = replace(store, value=read(whole.dst, store.at))
    second = replace(region, stores=(rest,), native=None)
    return RegionPlan(region, (_planned(first), copied(second)), (whole.dst,))


def _planned(region: Region) -> KernelPlan:
    """A native kernel for each row."""
    (store,) = region.stores
    assert region.native is not None
    step = Native(region.native, store)
    return KernelPlan(region, (Loop(store.axes[:-1], "grid", (step,)),))


def _whole(store: Store, length: Ix) -> Store:
    """The same of all places of each row."""
    *rows, last = store.axes
    axis = Axis(last.name, length)
    dst = Buffer("places", Role.TEMP, (*store.dst.dims[:-1], length), store.dst.dtype)
    value = substitute(store.value, {last: ix(axis)})
    return Store(dst, (*rows, axis), (*store.at[:-1], ix(axis)), value)


def order(plan: KernelPlan, sizes: Schedule, radix: RadixTiles | None = None) -> Built:
    """The kernel of a plan of one native kernel; NotRealised where it has other steps.

    Site `blocks`, where a device can: so many share all rows, 0 if each row is one task's.
    """
    check(sizes, SITES if radix is None else SITES_OF_MANY)
    (grid,) = plan.root
    if len(grid.body) != 1 or not isinstance(step := grid.body[0], Native) or grid.where:
        raise NotRealised("a native kernel stands alone in its grid")
    if grid.axes != step.store.axes[:-1]:
        raise NotRealised("a native kernel has whole rows")
    if radix is not None and sizes["blocks"]:
        return rows_together(plan.region, step, sizes, radix)
    store = step.store
    *rows, last = store.axes
    (source,) = plan.region.reads()
    task = Axis("task", extent_of(rows))
    top = Scope(Names(), frozenset({task}))
    top.spread(task, rows)
    place = Axis("place", source.dims[-1])
    at = tuple(map(ix, rows))
    value = read(source, (*at, ix(place)))
    start = (*at, ix(0))
    if step.kernel in GROUPING:
        groups = groups_of(step, place.extent)
        placed = step.kernel == "groups"
        top.stmts.append(GroupPlaces(store.dst, start, groups, place, value, placed))
    else:
        descending = step.kernel == "order_descending"
        top.stmts.append(Order(store.dst, start, last.extent, place, value, descending))
    program = TileProgram(
        "groups" if step.kernel in GROUPING else "order",
        plan.region.buffers(),
        dims_of(plan.region),
        task,
        task.extent,
        (),
        tuple(top.stmts),
        threads=sizes["threads"],
        width=LANES,
    )
    return Built(program, plan.region)
