"""simt: the skeleton of vector loops. Any region runs in it: maps, row reductions, column reductions, gathers.

Work tiles are runs of rows (the axes of the stores but the last) or runs of the last axis, which is the lane axis.
Reductions that do not vary with the lane axis run before the lane loop, over lanes of their own; those that do run
inside it, one accumulator for each lane. Axes that no reduction varies with are loops behind them.

Where a task has many threads, they form teams: rows are dealt to teams, the lanes of a row to the threads of its
team. A loop over the last axis that has no vector form is dealt point by point, and what is inside it runs alone.

Sites: `visits` of elements in a work tile and `lanes` of a lane axis whose elements each run a reduction; with
`threads` in a task, `width` lanes of a thread and `vectors` of a thread in a row of a map, or as many as are
`repeated` where each work tile computes what its row reduces to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lumigen.condition import Cmp
from lumigen.dtype import computed, f32
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, minimum
from lumigen.lower.runs import terms_of, visited
from lumigen.lower.scope import Names, Scope, kernel_reductions, lanes_fit
from lumigen.lower.stretches import Stretch, stretches
from lumigen.lower.sweeps import axes_behind, lane_axis
from lumigen.lower.window import windowed
from lumigen.plan import Loop, RegionPlan
from lumigen.region import Buffer, Reduce, Region, Store, free_axes, indices_of, walk
from lumigen.schedule import Schedule
from lumigen.tile import For, StoreTile, TileProgram, WhenLast

WARP = 32  # threads that exchange values without memory


@dataclass(frozen=True)
class Last:
    """What the last block of a kernel computes besides; `arrived` counts blocks, and is 0 before and after."""

    plan: RegionPlan
    arrived: Buffer


@dataclass(frozen=True)
class _Loops:
    """What a plan of one kernel computes, and the axes of its loops: runs of rows, then lanes."""

    folds: list[Loop]
    stores: list[Store]
    where: tuple[Cmp, ...]
    lane: Axis | None
    rows: tuple[Axis, ...]
    behind: tuple[Axis, ...]  # of loops inside a row, behind the folds

    @staticmethod
    def of(plan: RegionPlan) -> _Loops:
        (kernel,) = plan.kernels
        (grid,) = kernel.root
        folds, stores = _steps(grid)
        where: tuple[Cmp, ...] = ()
        if not folds and len(stores) == 1:
            changed, asked = windowed(stores[0])
            if lane_axis(changed) not in frozenset[Axis]().union(*(c.axes for c in asked)):
                stores, where = [changed], asked
        store = stores[-1]
        lane, behind = lane_axis(store), axes_behind(tuple(stores))
        rows = tuple(a for a in store.axes if a is not lane and a not in behind)
        return _Loops(folds, stores, where, lane, rows, behind)

    @property
    def row(self) -> Axis:
        """All rows as one axis."""
        return _as_one("row", self.rows)

    @property
    def back(self) -> Axis:
        """All axes behind the folds as one."""
        return _as_one("back", self.behind)

    @property
    def points(self) -> Ix:
        """Of a row, for each point of the axes behind the folds."""
        return self.lane.extent if self.lane is not None else ix(1)

    @property
    def visits(self) -> int:
        """Terms of the reductions of a row, or of one lane of it if they vary with the lanes."""
        return sum(map(terms_of, self.reductions))

    @property
    def reductions(self) -> tuple[Reduce, ...]:
        return kernel_reductions(s.value for s in self.stores)

    @property
    def in_lanes(self) -> bool:
        """Whether a reduction varies with the lanes."""
        return self.lane is not None and any(self.lane in free_axes(r) for r in self.reductions)

    def run(self, top: Scope, rows: Span, lanes: Span, back: Span, shared: bool) -> For:
        """For these rows, lanes and points behind, from a first up to an end; threads may have a `shared` task."""
        row_scope = _inside(top, self.row, self.rows)
        lane, stores = self.lane, self.stores
        floats = all(s.value.dtype is f32 and computed(s.dst.dtype) is f32 for s in stores)
        lanes_ok = lane is not None and floats and lanes_fit([s.value for s in stores], lane)
        if lane is None:
            whole = Stretch(self.row, tuple(stores), self.where)
            self._behind(row_scope, self.folds, whole, back, None)
        elif self.behind and not self.in_lanes:
            scope = _inside(row_scope, self.back, self.behind)
            self._lanes(scope, lanes, ONCE, lanes_ok, shared)
            row_scope.stmts.append(For(self.back, *back, False, tuple(scope.stmts)))
        else:
            self._lanes(row_scope, lanes, back, lanes_ok, shared)
        return For(self.row, *rows, False, tuple(row_scope.stmts), dealt=shared)

    def _lanes(self, scope: Scope, lanes: Span, back: Span, lanes_ok: bool, shared: bool) -> None:
        """The loops over lanes: one, or one for each stretch in which what is chosen stays the same."""
        assert self.lane is not None
        one = sum(len(fold.results) for fold in self.folds) <= 1
        cut = lanes_ok and one and not shared and lanes == (ix(0), self.points)
        whole = Stretch(self.lane, tuple(self.stores), self.where)
        for part in stretches(whole) if cut else (whole,):
            vector = part.lane if lanes_ok else None
            inner = scope.inner([part.lane], vector)
            inner.alone = shared and not lanes_ok
            folds = self.folds if part is whole else []  # a part has a reduction of its own
            self._behind(inner, folds, part, back, vector)
            span = lanes if part is whole else (ix(0), part.lane.extent)
            loop = For(part.lane, *span, lanes_ok, tuple(inner.stmts), dealt=inner.alone)
            scope.stmts.append(loop)

    def _behind(
        self, scope: Scope, folds: list[Loop], part: Stretch, back: Span, lanes: Axis | None
    ) -> None:
        """The folds, then the stores for these points of the axes behind them."""
        for fold in folds:
            scope.fold(fold)
        if back == ONCE:
            _fill(scope, part.stores, lanes, part.where)
            return
        inner = _inside(scope, self.back, self.behind)
        _fill(inner, part.stores, lanes, part.where)
        scope.stmts.append(For(self.back, *back, False, tuple(inner.stmts)))


Span = tuple[Ix, Ix]  # of a loop, from the first up to an end
ONCE: Span = (ix(0), ix(1))


def _as_one(name: str, axes: tuple[Axis, ...]) -> Axis:
    return axes[0] if len(axes) == 1 else Axis(name, extent_of(axes))


def _inside(scope: Scope, axis: Axis, axes: tuple[Axis, ...]) -> Scope:
    """The scope of a loop over an axis that stands for all of these."""
    inner = scope.inner([axis])
    if axis not in axes:
        inner.spread(axis, axes)
    return inner


def simt(plan: RegionPlan, sizes: Schedule, last: Last | None = None) -> TileProgram:
    """The tile program of a plan of one kernel: its folds, then its stores, in runs of rows or lanes.

    With `last` the block that is done last goes on to compute all of that plan, which reads what the first stores.
    """
    loops = _Loops.of(plan)
    row, lane, threads = loops.row, loops.lane, sizes.get("threads", 1)
    team = _team(loops.folds, lane, sizes) if threads > 1 else 1
    grain = _grain_of_teams(loops, team, sizes) if threads > 1 else _grain(loops, sizes)
    per_row, chunk, deep = grain
    row_tasks = ceildiv(row.extent, per_row)
    lane_tasks = ceildiv(lane.extent, chunk) if lane is not None else ix(1)
    back_tasks = ceildiv(loops.back.extent, deep)
    task = Axis("task", row_tasks * back_tasks * lane_tasks)
    beside = ix(task) // lane_tasks
    first, lo = beside // back_tasks * per_row, ix(task) % lane_tasks * chunk
    top = Scope(Names(), frozenset({task}), team=threads > 1)
    rows = (first, minimum(first + per_row, row.extent))
    lanes = (lo, minimum(lo + chunk, loops.points))
    behind = beside % back_tasks * deep
    back = (behind, minimum(behind + deep, loops.back.extent)) if loops.behind else ONCE
    top.stmts.append(loops.run(top, rows, lanes, back, threads > 1))
    region = plan.region
    arrived: tuple[Buffer, ...] = ()
    if last is not None:
        rest, then = _Loops.of(last.plan), Scope(top.names, frozenset(), team=threads > 1)
        all_rows, all_lanes = (ix(0), rest.row.extent), (ix(0), rest.points)
        all_behind = (ix(0), rest.back.extent)
        then.stmts.append(rest.run(then, all_rows, all_lanes, all_behind, threads > 1))
        top.stmts.append(WhenLast(last.arrived, task.extent, tuple(then.stmts)))
        region, arrived = Region((*region.stores, *last.plan.region.stores)), (last.arrived,)
    return TileProgram(
        "simt",
        (*region.buffers(), *arrived),
        dims_of(region),
        task,
        task.extent,
        (),
        tuple(top.stmts),
        threads=threads,
        team=team,
        width=sizes.get("width", 0),
    )


def _steps(grid: Loop) -> tuple[list[Loop], list[Store]]:
    """The folds of a grid loop and of the loop over lanes in it, in order, and the stores behind them."""
    folds: list[Loop] = []
    stores: list[Store] = []
    for step in grid.body:
        if isinstance(step, Store):
            stores.append(step)
        elif step.carries:
            folds.append(step)
        else:
            inner, stores = _steps(step)
            folds += inner
    if not stores:
        raise LoweringFailed(step="simt", what="a plan that stores nothing")
    return folds, stores


def _fill(
    scope: Scope, stores: Sequence[Store], lanes: Axis | None, where: tuple[Cmp, ...]
) -> None:
    values = scope.values([s.value for s in stores])
    for s, value in zip(stores, values, strict=True):
        scope.stmts.append(StoreTile(s.dst, s.at, value, lanes, where))


def _grain(loops: _Loops, sizes: Schedule) -> tuple[int, int, int]:
    """Rows, lanes, and points behind the folds, of a work tile."""
    lane, visits, most = loops.lane, loops.visits, sizes["visits"]
    back = loops.back.extent.estimate()
    if lane is None:
        deep = _deep(visits, 1, back, most)
        return max(1, most // max(1, visits + deep)) if deep >= back else 1, 1, deep
    extent = lane.extent.estimate()
    if loops.in_lanes:
        wide = min(extent, sizes["lanes"])
        deep = _deep(wide * visits, wide, back, most)
        rows = max(1, most // max(1, wide * (visits + deep - 1))) if deep >= back else 1
        return rows, sizes["lanes"], deep
    if loops.reductions and not loops.behind and _is_repeated(visits, extent, most):
        return 1, most, 1
    if loops.reductions:
        deep = _deep(visits, extent, back, most)
        rows = max(1, most // max(1, extent * deep + visits)) if deep >= back else 1
        return rows, lane.extent.bounds()[1] or extent, deep
    return max(1, most // max(1, extent)), most, 1


def _deep(visits: int, lanes: int, back: int, grain: int) -> int:
    """Points behind the folds of a work tile, which reduces its row by itself: an eighth of its work may be that."""
    deep = max(-(-grain // lanes), -(-8 * visits // lanes))
    return min(back, deep)


def _is_repeated(visits: int, lanes: int, grain: int) -> bool:
    """Whether several work tiles share a row, each of which computes the row's reductions by itself."""
    return lanes >= 2 * grain and 8 * visits <= grain


def _team(folds: list[Loop], lane: Axis | None, sizes: Schedule) -> int:
    """Threads that share a row: as many as it has vectors, part of a warp or else the whole block.

    Up to four vectors a thread are a warp's: it waits for no other, and a block for one row would have idle threads.
    """
    width = sizes["width"]
    vectors = [-(-lane.extent.estimate() // width)] if lane is not None else [1]
    for fold in folds:
        group = [r for r, _ in fold.results]
        if lane is None or not any(lane in free_axes(r) for r in group):
            longest = max(visited(group[0], a) for a in fold.axes)
            vectors.append(-(-longest // (width if all(r.dtype is f32 for r in group) else 1)))
    most = max(vectors)
    if most > 4 * WARP:
        return sizes["threads"]
    return min(WARP, 1 << (most - 1).bit_length())


def _grain_of_teams(loops: _Loops, team: int, sizes: Schedule) -> tuple[int, int, int]:
    """Rows, lanes, and points behind the folds, of a work tile that teams share."""
    lane, teams = loops.lane, sizes["threads"] // team
    back, chunk = loops.back.extent.estimate(), team * sizes["width"]
    if lane is None:
        return teams, 1, _deep(loops.visits, 1, back, 1)
    if any(lane not in free_axes(r) for fold in loops.folds for r, _ in fold.results):
        visits = sum(
            prod(visited(fold.results[0][0], a) for a in fold.axes) for fold in loops.folds
        )
        if _is_repeated(visits, lane.extent.estimate(), sizes["repeated"] * chunk):
            return teams, sizes["repeated"] * chunk, 1
        extent = lane.extent.estimate()
        deep = _deep(loops.visits, extent, back, 1)
        return teams, lane.extent.bounds()[1] or extent, deep
    return teams, chunk * (1 if loops.folds else sizes["vectors"]), _deep(loops.visits, 1, back, 1)


def dims_of(region: Region) -> tuple[Dim, ...]:
    """The symbolic dims that the region's extents and indices mention, in order of name."""
    extents = [e for b in region.reads() for e in b.dims]
    for s in region.stores:
        extents += [*(a.extent for a in s.axes), *s.dst.dims, *s.at]
        for e in walk([s.value]):
            extents += indices_of(e)
            if isinstance(e, Reduce):
                extents += (a.extent for a in e.axes)
    found: set[Dim] = set()
    for extent in extents:
        found.update(a for a in extent.atoms() if isinstance(a, Dim))
        for axis in extent.axes:
            found.update(a for a in axis.extent.atoms() if isinstance(a, Dim))
    return tuple(sorted(found, key=lambda d: d.name))
