"""order: the builder of native kernels that sort the places of each row by its elements.

Before: a region whose native kernel is `order`, `order_descending`, `groups` or `starts`.  After: a tile program in
which a task sorts one row, all of it or its first places, or groups it; or in which all tasks order or group long rows
together; or in which teams each select the first of a row that they hold in registers. A row of which a few are wanted
and that is longer is in parts: a first kernel selects those of each part, the next one of these. If a device cannot
select the first places of so long a row, a first kernel sorts whole rows and a second one copies the first places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lumigen.condition import less
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, ceildiv, extent_of, floordiv, ix, lookup, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.of_places import element_of
from lumigen.lower.radix import GROUPING, groups_of, rows_together
from lumigen.lower.scope import Names, Scope
from lumigen.lower.simt import dims_of
from lumigen.machine import Gpu
from lumigen.ops import NATIVE
from lumigen.plan import KernelPlan, Loop, Native, NotRealised, RegionPlan, rows_of
from lumigen.region import (
    Buffer,
    Expr,
    Reduce,
    Region,
    Role,
    Store,
    read,
    rebuild,
    reduce,
    substitute,
)
from lumigen.schedule import Schedule
from lumigen.tile import For, GroupPlaces, Order, StoreTile, TileProgram

Keeps = Callable[
    [Ix, Ix], bool
]  # whether a kernel orders rows so long and keeps so many places of each
PartOf = Callable[
    [Ix, Ix], int
]  # elements of a part of rows so long, of which so many are kept; 0: they are no parts
SITES = ("threads",)
SITES_OF_TEAMS = ("threads", "team", "held", "blocks")
LANES = 4  # that the device's headers are told of, and no statement uses


@dataclass(frozen=True)
class _Ordered:
    """What is ordered for each point of `rows`: the first `count` points of `place`, `at` which its elements lie."""

    rows: tuple[Axis, ...]
    place: Axis
    count: Ix
    at: Ix

    @staticmethod
    def whole(rows: tuple[Axis, ...], length: Ix) -> _Ordered:
        place = Axis("place", length)
        return _Ordered(rows, place, length, ix(place))

    def meaning(self, value: Expr, length: Ix) -> Expr:
        """What the order of a whole row says, of these elements of it alone."""
        if isinstance(value, Reduce) and [a.extent for a in value.axes] == [length]:
            (axis,) = value.axes
            mine = Axis(axis.name, self.place.extent)
            to = {axis: self.at.substitute({self.place: ix(mine)})}
            body = substitute(self.meaning(value.body, length), to)
            where = tuple(c for c in (less(mine, self.count),) if c.known() is not True)
            return reduce(value.monoid, (mine,), body, value.dtype, where)
        return rebuild(value, lambda e: self.meaning(e, length), lambda i: i)


def plan_order(
    region: Region, copied: Callable[[Region], KernelPlan], keeps: Keeps, part_of: PartOf
) -> RegionPlan:
    """The kernels of the region; `copied` plans the region of a copy.

    What blocks count as they take tasks is the builder's, and planned anew.
    """
    counted = [s for s in region.stores if s.dst.role is Role.COUNTER]
    region = replace(region, stores=tuple(s for s in region.stores if s not in counted))
    store = region.stores[0]
    source, *_ = rows_of(region)
    if region.native not in NATIVE or store.at != tuple(map(ix, store.axes)):
        raise LoweringFailed(step="order", what=f"no native kernel {region.native} of {store.dst}")
    length, kept = source.dims[-1], store.dst.dims[-1]
    row = _Ordered.whole(store.axes[:-1], length)
    if region.native in GROUPING or length is kept:
        return RegionPlan(region, (_planned(region, source, row),))
    if part_of(length, kept):
        return _in_parts(region, source, row, part_of)
    if keeps(length, kept):
        return RegionPlan(region, (_planned(region, source, row),))
    whole = _whole(store, length)
    first = replace(region, stores=(whole,))
    rest = replace(store, value=read(whole.dst, store.at))
    second = replace(region, stores=(rest,), native=None)
    return RegionPlan(region, (_planned(first, source, row), copied(second)), (whole.dst,))


def _planned(region: Region, source: Buffer, row: _Ordered) -> KernelPlan:
    """A native kernel for each row."""
    store, *others = region.stores
    assert region.native is not None
    at = (*(ix(a) for a in store.axes[: len(source.dims) - 1]), row.at)
    elements = tuple((s, _element(s, row)) for s in others)
    _, *values = (read(b, at) for b in rows_of(region)) if region.native in GROUPING else (None,)
    step = Native(
        region.native, store, row.place, row.count, read(source, at), row.at, elements, *values
    )
    return KernelPlan(region, (Loop(row.rows, "grid", (step,)),))


def _element(store: Store, row: _Ordered) -> Expr:
    """What a store has of the place that its sum runs over."""
    of_place = element_of(store.value)
    if of_place is None or not isinstance(store.value, Reduce):
        raise LoweringFailed(step="order", what=f"{store.dst} is no map of places")
    (axis,) = store.value.axes
    return substitute(of_place, {axis: ix(row.place)})


def _in_parts(region: Region, source: Buffer, row: _Ordered, part_of: PartOf) -> RegionPlan:
    """The first places of each part of a row, then of these, as long as they are too many for one kernel.

    Parts have equal shares, so that none has fewer elements than are kept. What is kept of them stands in the order of
    the parts, so equal elements still stand by place.
    """
    store = region.stores[0]
    *rows, last = store.axes
    length, kept = source.dims[-1], last.extent
    kernels, temps = list[KernelPlan](), list[Buffer]()
    most = length.bounds()[1]
    while size := part_of(row.place.extent, kept):
        number = ceildiv(row.place.extent, size)
        part = Axis("part", number)
        begin, end = (floordiv(p * row.place.extent, number) for p in (ix(part), ix(part) + 1))
        place = Axis("place", minimum(row.place.extent, size))
        here = row.at.substitute({row.place: begin + place})
        of_part = _Ordered((*rows, part), place, end - begin, here)
        known = None if most is None else (0, most - 1)
        dims = (*(a.extent for a in rows), number * kept)
        temp = Buffer(f"places{len(temps)}", Role.TEMP, dims, store.dst.dtype, known)
        at = (*map(ix, rows), ix(part) * kept + last)
        value = of_part.meaning(store.value, length)
        first = Store(temp, (*rows, part, last), at, value)
        kernels.append(_planned(replace(region, stores=(first,)), source, of_part))
        temps.append(temp)
        candidate = Axis("place", number * kept)
        range_ = known or (None, None)
        row = _Ordered(
            tuple(rows),
            candidate,
            candidate.extent,
            lookup(temp, (*map(ix, rows), ix(candidate)), *range_),
        )
    rest = tuple(replace(s, value=row.meaning(s.value, length)) for s in region.stores)
    kernels.append(_planned(replace(region, stores=rest), source, row))
    return RegionPlan(region, tuple(kernels), tuple(temps))


def _whole(store: Store, length: Ix) -> Store:
    """The same of all places of each row."""
    *rows, last = store.axes
    axis = Axis(last.name, length)
    dst = Buffer("places", Role.TEMP, (*store.dst.dims[:-1], length), store.dst.dtype)
    value = substitute(store.value, {last: ix(axis)})
    return Store(dst, (*rows, axis), (*store.at[:-1], ix(axis)), value)


def order(plan: KernelPlan, sizes: Schedule, machine: Gpu | None = None) -> Built:
    """The kernel of a plan of one native kernel; NotRealised where it has other steps.

    Site `blocks`: so many share all rows, 0 if each row is one task's.
    """
    check(sizes, SITES_OF_TEAMS if "team" in dict(sizes.tile) else SITES)
    (grid,) = plan.root
    if len(grid.body) != 1 or not isinstance(step := grid.body[0], Native) or grid.where:
        raise NotRealised("a native kernel stands alone in its grid")
    if grid.axes != step.store.axes[:-1]:
        raise NotRealised("a native kernel has whole rows")
    team, held = sizes.get("team", 1), sizes.get("held", 0)
    if sizes.get("blocks", 0):
        if machine is None or (team, held, sizes["threads"]) != (1, 0, machine.teams.threads):
            raise NotRealised(f"blocks share rows with teams of {team} that hold {held}")
        return rows_together(plan.region, step, sizes, machine.radix)
    if held:
        _check_held(step, sizes, machine)
    elif (
        team != 1
        or step.elements
        or step.count != step.place.extent
        or step.shown != ix(step.place)
    ):
        raise NotRealised("a row that no team holds is ordered by a block, all of it")
    rows = grid.axes
    row = Axis("row", extent_of(rows))
    teams = sizes["threads"] // team if held else 1
    task = Axis("task", ceildiv(row.extent, teams))
    top = Scope(Names(), frozenset({task}))
    if teams == 1:
        top.spread(task, rows)
        top.stmts.append(_statement(step, held))
    else:
        inner = top.inner([row])
        inner.spread(row, rows)
        inner.stmts.append(_statement(step, held))
        first = ix(task) * teams
        last = minimum(first + teams, row.extent)
        top.stmts.append(For(row, first, last, False, tuple(inner.stmts), dealt=True))
    program = TileProgram(
        "groups" if step.kernel in GROUPING else "order",
        plan.region.buffers(),
        dims_of(plan.region),
        task,
        task.extent,
        (),
        tuple(top.stmts),
        threads=sizes["threads"],
        team=team,
        width=LANES,
    )
    return Built(program, plan.region)


def _statement(step: Native, held: int) -> Order | GroupPlaces:
    """What a task does for its row."""
    store = step.store
    last = store.axes[-1]
    start = tuple(i.substitute({last: ix(0)}) for i in store.at)
    if step.kernel in GROUPING:
        groups, placed = groups_of(step, step.place.extent), step.kernel == "groups"
        return GroupPlaces(store.dst, start, groups, step.place, step.key, placed, step.summed)
    descending = step.kernel == "order_descending"
    rank = Axis("rank", last.extent)
    at = {last: ix(rank)}
    elements = tuple(
        StoreTile(s.dst, tuple(i.substitute(at) for i in s.at), substitute(value, at), None)
        for s, value in step.elements
    )
    return Order(
        store.dst,
        start,
        last.extent,
        step.place,
        step.count,
        step.key,
        step.shown,
        descending,
        held,
        rank,
        elements,
    )


def _check_held(step: Native, sizes: Schedule, machine: Gpu | None) -> None:
    """NotRealised where a team does not hold a row, or takes fewer of its elements than are wanted."""
    team, held = sizes["team"], sizes["held"]
    selection = None if machine is None else machine.selection
    if machine is None or selection is None or step.kernel in GROUPING:
        raise NotRealised("a row is in memory")
    most = {machine.teams.warp: selection.by_warp, sizes["threads"]: selection.by_block}.get(
        team, 0
    )
    longest, kept = (e.bounds()[1] for e in (step.place.extent, step.store.axes[-1].extent))
    if longest is None or longest > team * held or held > selection.held:
        raise NotRealised(f"{team} threads that hold {held} elements each of {longest}")
    if kept is None or kept > most:
        raise NotRealised(f"{kept} elements that {team} threads select")
