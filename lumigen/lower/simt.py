"""simt: the builder of vector loops. Any region runs in it: maps, row reductions, column reductions, gathers.

Work tiles are runs of rows (the axes of the stores but the last) or runs of the last axis, which is the lane axis.
Reductions that do not vary with the lane axis run before the lane loop, over lanes of their own; those that do run
inside it, one accumulator for each lane. Axes that no reduction varies with are loops after them.

Where a task has many threads, they form teams: rows are dealt to teams, the lanes of a row to the threads of its
team. A loop over the last axis that has no vector form is dealt point by point, and what is inside it runs alone.

Sites: `visits` of elements in a work tile, `lanes` of a lane axis whose elements each run a reduction, at most so
many `stretches` of a loop over lanes, at most so many elements of a row `kept` for later loops over it, and so many
vectors `together` in a loop with folds (0: as many as each loop is expected to gain by). One fold in a loop over lanes
takes so many `terms` for all lanes before the next ones (0: each lane takes all). Of rows that read vectors in
common, `held` are folded together, `unasked` (1) where conditions hold in all of a loop. With `threads` in a task:
`width` lanes of a thread, `vectors` of a thread in a row of a map, or as many as are `repeated` where each work tile
computes what its row reduces to; `hold` keeps what loops over a row share in registers, and a multiprocessor should
have registers for so many `blocks` at one time (0: as it comes). A fold with corrections takes in so many vectors of a
thread in a `turn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from lumigen.condition import Cmp
from lumigen.dtype import f32
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, minimum
from lumigen.lower.ahead import asked_of, asking
from lumigen.lower.built import Built, check, check_folded
from lumigen.lower.filled import fill
from lumigen.lower.held_rows import beside, places_of, share_vectors
from lumigen.lower.hold import hold_rows
from lumigen.lower.interchange import are_columns, has_sums, interchange
from lumigen.lower.kept_rows import keep_rows
from lumigen.lower.runs import terms_of, visited
from lumigen.lower.scope import Names, Scope, kernel_reductions, moved
from lumigen.lower.several import take_several
from lumigen.lower.stretches import Stretch, stretches
from lumigen.lower.sweeps import vectors_store
from lumigen.lower.turns import fold_in_turns, has_corrections
from lumigen.lower.unasked import unasked
from lumigen.lower.widths import dtypes_of, moved_of
from lumigen.machine import Gpu, Machine, Teams, Vectors
from lumigen.plan import KernelPlan, Loop, NotRealised, Step
from lumigen.region import (
    Read,
    Reduce,
    Region,
    Role,
    Store,
    free_axes,
    indices_of,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import For, TileProgram, WhenLast

SITES = ("visits", "lanes", "stretches", "kept", "together")
SITES_OF_ROWS = (*SITES, "held", "ahead")
SITES_OF_LANES = ("visits", "lanes", "held", "unasked", "together")
SITES_OF_COLUMNS = ("terms",)
SITES_OF_TEAMS = ("threads", "width", "vectors", "repeated", "hold", "blocks")
SITES_OF_TURNS = ("turn",)


@dataclass(frozen=True)
class Loops:
    """What a plan of vector loops says: its folds and stores, and the axes of its loops."""

    once: tuple[Loop, ...]  # folds of each work tile
    of_rows: tuple[Loop, ...]  # folds of each row
    of_lanes: tuple[Loop, ...]  # folds of each point along the lanes
    stores: tuple[Store, ...]
    where: tuple[Cmp, ...]
    lane: Axis | None
    kind: str  # of the loop over the lanes
    rows: tuple[Axis, ...]
    after: tuple[Axis, ...]  # of loops inside a row, after the folds
    after_lanes: bool  # whether these are inside the loop over the lanes

    @staticmethod
    def of(plan: KernelPlan) -> Loops:
        *once, grid = plan.root
        if grid.kind != "grid" or any(not loop.carries for loop in once):
            raise NotRealised("vector loops have one grid, after the folds of a work tile")
        of_rows, inner = _after_folds(grid.body)
        lane, kind, of_lanes, after, after_lanes = None, "seq", tuple[Loop, ...](), (), False
        while len(inner) == 1 and isinstance(loop := inner[0], Loop):
            folds, inner = _after_folds(loop.body)
            if loop.where:
                raise NotRealised("a loop inside a row over some of its points")
            is_lane = len(loop.axes) == 1 and (
                loop.kind != "seq" or loop.axes == plan.stores[-1].axes[-1:]
            )
            if lane is None and is_lane:
                (lane,), kind, of_lanes = loop.axes, loop.kind, folds
            elif loop.kind == "seq" and not folds and not after:
                after, after_lanes = loop.axes, lane is not None
            else:
                raise NotRealised(f"a {loop.kind} loop over {loop.axes} inside a row")
        stores = tuple(s for s in inner if isinstance(s, Store))
        if not stores or len(stores) < len(inner):
            raise NotRealised("vector loops end with stores, and have no products of matrices")
        return Loops(
            tuple(once),
            of_rows,
            of_lanes,
            stores,
            grid.where,
            lane,
            kind,
            grid.axes,
            after,
            after_lanes,
        )

    @property
    def folds(self) -> tuple[Loop, ...]:
        return (*self.once, *self.of_rows, *self.of_lanes)

    @property
    def row(self) -> Axis:
        """All rows as one axis."""
        return _as_one("row", self.rows)

    @property
    def back(self) -> Axis:
        """All axes after the folds as one."""
        return _as_one("back", self.after)

    @property
    def points(self) -> Ix:
        """Of a row, for each point of the axes after the folds."""
        return self.lane.extent if self.lane is not None else ix(1)

    @property
    def visits(self) -> int:
        """Terms of the reductions of a row, or of one lane of it if they vary with the lanes."""
        return sum(map(terms_of, self.reductions))

    @property
    def reductions(self) -> tuple[Reduce, ...]:
        return kernel_reductions(s.value for s in self.stores)

    @property
    def read_in_common(self) -> bool:
        """Whether folds of neighbouring rows read what is the same for these, as products with one row do."""
        if self.lane is not None or self.after or self.where or not self.of_rows or not self.rows:
            return False
        last, tiles = self.rows[-1], [c.tile for fold in self.of_rows for c in fold.carries]
        reads = [free_axes(e) for e in walk(tiles) if isinstance(e, Read)]
        folded = {a for fold in self.of_rows for a in fold.axes}
        whole = all(a.extent == 1 for a in self.rows[:-1])
        plain = whole and all(_is_plain(fold) for fold in self.of_rows)
        plain = plain and not any(map(has_corrections, self.once))
        along = all(asked_of(fold, [{}], {last: ix(last)}) for fold in self.of_rows)
        return plain and along and any(last not in axes and axes & folded for axes in reads)

    @property
    def lanes_in_common(self) -> bool:
        """Whether folds of lanes read vectors that neighbouring rows share, as the columns of a product are."""
        if self.kind != "lanes" or self.once or self.of_rows or self.after or self.where:
            return False
        return self.lane is not None and share_vectors(self.of_lanes, self.lane, self.rows[-1:])

    def run_held_lanes(self, top: Scope, span: Spans, held: int) -> tuple[For, ...]:
        """The same of lanes: a vector of so many rows at a time, then the rows that are left."""
        *ones, last = self.rows
        (lo, hi), group = span.rows, Axis("group", ceildiv(self.row.extent, held))
        scope = top.inner([group])
        places = places_of(scope, self.rows, group, held)
        main = self._held_lanes(scope, (group, lo // held, hi // held), places, span)
        left = last.extent % held
        if self.row.extent % held == 0:
            return (main,)
        if not left.is_const or any(a.extent != 1 for a in ones):
            rest = replace(span, rows=(hi // held * held, hi))
            return main, self.run(top, rest, shared=False, cuts=1)
        first = {**dict.fromkeys(ones, ix(0)), last: last.extent - left}
        places = [{**first, last: first[last] + number} for number in range(left.const)]
        rest, count = Axis("rest", ix(1)), hi % held // left.const  # of the last task, no others
        return main, self._held_lanes(top.inner([rest]), (rest, ix(0), count), places, span)

    def _held_lanes(
        self,
        scope: Scope,
        groups: tuple[Axis, Ix, Ix],
        places: Sequence[Mapping[Axis, Ix]],
        span: Spans,
    ) -> For:
        """A loop over groups of rows, with the loop over lanes for the rows at these places."""
        assert self.lane is not None
        inner = scope.inner([self.lane], self.lane)
        for fold in self.of_lanes:
            inner.fold(beside(fold, places))
        for place in places:
            fill(inner, tuple(_moved_store(s, place) for s in self.stores), self.lane, ())
        scope.stmts.append(For(self.lane, *span.lanes, True, tuple(inner.stmts)))
        return For(*groups, False, tuple(scope.stmts))

    def run_held(self, top: Scope, span: Spans, sizes: Schedule, line: int) -> tuple[For, ...]:
        """So many rows in one loop, whose accumulators do not wait for each other; then those that are left."""
        *ones, last = self.rows
        (lo, hi), held = span.rows, sizes["held"]
        for fold in self.once:
            _fold(top, fold, turn=0)
        group = Axis("group", self.row.extent // held)
        first = {**dict.fromkeys(ones, ix(0)), last: ix(group) * held}
        places = [{**first, last: first[last] + number} for number in range(held)]
        scope = top.inner([group])
        for fold in self.of_rows:
            scope.fold(beside(fold, places))
        for place in places:
            fill(scope, tuple(_moved_store(s, place) for s in self.stores), None, ())
        body = tuple(scope.stmts)
        if sizes["ahead"]:
            later = {group: ix(group) + sizes["ahead"]}
            body = asking(
                body, [a for fold in self.of_rows for a in asked_of(fold, places, later)], line
            )
        main = For(group, lo // held, hi // held, False, body)
        if self.row.extent % held == 0:
            return (main,)
        rest = replace(span, rows=(hi // held * held, hi))
        return main, replace(self, once=()).run(top, rest, shared=False, cuts=1)

    def run(self, top: Scope, span: Spans, *, shared: bool, cuts: int, turn: int = 0) -> For:
        """All of these rows, lanes and points after the folds; threads may have a `shared` task.

        A fold with corrections takes in so many points in a `turn`.
        """
        for fold in self.once:
            _fold(top, fold, turn)
        row_scope = inside(top, self.row, self.rows)
        for fold in self.of_rows:
            _fold(row_scope, fold, turn)
        if self.lane is None:
            self._store(row_scope, Stretch(self.row, self.stores, self.where, {}), span.after, None)
        elif self.after and not self.after_lanes:
            scope = inside(row_scope, self.back, self.after)
            self._lanes(scope, replace(span, after=ONCE), shared=shared, cuts=cuts)
            row_scope.stmts.append(For(self.back, *span.after, False, tuple(scope.stmts)))
        else:
            self._lanes(row_scope, span, shared=shared, cuts=cuts)
        return For(self.row, *span.rows, False, tuple(row_scope.stmts), dealt=shared)

    def _lanes(self, scope: Scope, span: Spans, *, shared: bool, cuts: int) -> None:
        """The loops over lanes: one, or one for each stretch in which what is chosen stays the same."""
        assert self.lane is not None
        is_vector = self.kind == "lanes"
        one = sum(len(fold.results) for fold in self.folds) <= 1
        cut = is_vector and one and not shared
        whole = Stretch(self.lane, self.stores, self.where, {})
        for part in stretches(whole, cuts) if cut else (whole,):
            vector = part.lane if is_vector else None
            inner = scope.inner([part.lane], vector)
            inner.alone = self.kind == "threads"
            for fold in self.of_lanes:
                _fold_of_part(inner, moved(fold, part.moved))
            self._store(inner, part, span.after, vector)
            ends = part.among(span.lanes)
            loop = For(part.lane, *ends, is_vector, tuple(inner.stmts), dealt=inner.alone)
            scope.stmts.append(loop)

    def _store(self, scope: Scope, part: Stretch, after: Span, lanes: Axis | None) -> None:
        """The stores, for these points of the axes after the folds."""
        if after == ONCE:
            fill(scope, part.stores, lanes, part.where)
            return
        inner = inside(scope, self.back, self.after)
        fill(inner, part.stores, lanes, part.where)
        scope.stmts.append(For(self.back, *after, False, tuple(inner.stmts)))


def _is_plain(fold: Loop) -> bool:
    """Whether nothing but its own sums is in it, and all of these differ from row to row."""
    return fold.kind == "lanes" and has_sums(fold)


def _moved_store(s: Store, place: Mapping[Axis, Ix]) -> Store:
    at = tuple(i.substitute(place) for i in s.at)
    return replace(s, at=at, value=substitute(s.value, place))


def _fold(scope: Scope, fold: Loop, turn: int) -> None:
    if has_corrections(fold):
        fold_in_turns(scope, fold, turn)
    else:
        scope.fold(fold)


def _fold_of_part(scope: Scope, fold: Loop) -> None:
    """The fold of a stretch of the lanes; where all conditions on these hold in it, it is one of the row."""
    home = scope.home_of(original for original, _ in fold.results)
    if any(home.find(original) is None for original, _ in fold.results):
        home.fold(fold)


def _after_folds(steps: tuple[Step, ...]) -> tuple[tuple[Loop, ...], tuple[Step, ...]]:
    """The folds that some steps begin with, and the rest."""
    folds: list[Loop] = []
    for s in steps:
        if not isinstance(s, Loop) or not s.carries:
            break
        folds.append(s)
    return tuple(folds), steps[len(folds) :]


Span = tuple[Ix, Ix]  # of a loop, from the first up to an end
ONCE: Span = (ix(0), ix(1))


@dataclass(frozen=True)
class Spans:
    """Of a work tile."""

    rows: Span
    lanes: Span
    after: Span


def _as_one(name: str, axes: tuple[Axis, ...]) -> Axis:
    return axes[0] if len(axes) == 1 else Axis(name, extent_of(axes))


def inside(scope: Scope, axis: Axis, axes: tuple[Axis, ...]) -> Scope:
    """The scope of a loop over an axis that stands for all of these."""
    inner = scope.inner([axis])
    if axis not in axes:
        inner.spread(axis, axes)
    return inner


def simt(plan: KernelPlan, sizes: Schedule, machine: Machine) -> Built:
    """The kernel of a plan of vector loops: its folds, then its stores, in runs of rows or lanes.

    NotRealised where the plan has other steps.
    """
    check(sizes, _sites(plan, sizes))
    program, teams = _program(plan, sizes, machine), machine.teams
    if teams is not None and sizes.get("hold", 0):
        program = hold_rows(program, teams)
    if sizes.get("kept", 0):
        program = keep_rows(program, sizes["kept"], dtypes_of(machine.vectors))
    if sizes.get("unasked", 0):
        program = unasked(program)
    if sizes.get("blocks", 0):
        program = replace(program, blocks=sizes["blocks"])
    if teams is None:
        program = interchange(program, sizes.get("terms", 0))
        program = take_several(program, sizes["together"])
    return Built(program, plan.region)


def _sites(plan: KernelPlan, sizes: Schedule) -> tuple[str, ...]:
    if not sizes.get("threads", 0):
        loops = Loops.of(plan)
        of_lanes = SITES_OF_LANES if loops.lanes_in_common else SITES
        of_lanes = (
            (*of_lanes, *SITES_OF_COLUMNS) if are_columns(loops.kind, loops.of_lanes) else of_lanes
        )
        return SITES_OF_ROWS if loops.read_in_common else of_lanes
    in_turns = any(has_corrections(loop) for loop in plan.loops())
    return (*SITES_OF_TEAMS, *SITES_OF_TURNS) if in_turns else SITES_OF_TEAMS


def _program(plan: KernelPlan, sizes: Schedule, machine: Machine) -> TileProgram:
    loops, teams = Loops.of(plan), machine.teams
    row, lane, threads = loops.row, loops.lane, sizes.get("threads", 1)
    check_threads(threads, teams)
    check_folded(sizes, machine.vectors.folded)
    check_width(sizes, teams)
    check_lanes(loops, threads, machine.vectors)
    team = 1 if teams is None else _team(loops, plan.region, sizes, teams)
    grain = _grain_of_teams(loops, team, sizes, machine) if threads > 1 else _grain(loops, sizes)
    per_row, chunk, deep = grain
    per_row = -(-per_row // sizes.get("held", 1)) * sizes.get("held", 1)
    row_tasks = ceildiv(row.extent, per_row)
    lane_tasks = ceildiv(lane.extent, chunk) if lane is not None else ix(1)
    back_tasks = ceildiv(loops.back.extent, deep)
    task = Axis("task", row_tasks * back_tasks * lane_tasks)
    beside = ix(task) // lane_tasks
    first, lo = beside // back_tasks * per_row, ix(task) % lane_tasks * chunk
    dtypes = dtypes_of(machine.vectors, [s.value for s in plan.stores])
    top = Scope(Names(), frozenset({task}), dtypes=dtypes, team=threads > 1)
    after = beside % back_tasks * deep
    span = Spans(
        rows=(first, minimum(first + per_row, row.extent)),
        lanes=(lo, minimum(lo + chunk, loops.points)),
        after=(after, minimum(after + deep, loops.back.extent)) if loops.after else ONCE,
    )
    cuts = sizes.get("stretches", 1)
    turn = sizes.get("turn", 0) * team * sizes.get("width", 0)
    if loops.lanes_in_common and threads == 1:
        top.stmts += loops.run_held_lanes(top, span, sizes["held"])
    elif sizes.get("held", 0):
        top.stmts += loops.run_held(top, span, sizes, machine.division.line)
    else:
        top.stmts.append(loops.run(top, span, shared=threads > 1, cuts=cuts, turn=turn))
    buffers, dims = plan.region.buffers(), dims_of(plan.region)
    if plan.then is not None:
        rest, then = Loops.of(plan.then), Scope(top.names, frozenset(), team=threads > 1)
        whole = Spans((ix(0), rest.row.extent), (ix(0), rest.points), (ix(0), rest.back.extent))
        then.stmts.append(rest.run(then, whole, shared=threads > 1, cuts=cuts))
        (arrived,) = (s.dst for s in plan.region.stores if s.dst.role is Role.COUNTER)
        top.stmts.append(WhenLast(arrived, task.extent, tuple(then.stmts)))
        both = Region((*plan.stores, *plan.then.stores))
        buffers, dims = (*both.buffers(), arrived), dims_of(both)
    return TileProgram(
        "simt",
        buffers,
        dims,
        task,
        task.extent,
        (),
        tuple(top.stmts),
        threads=threads,
        team=team,
        width=sizes.get("width", 0),
    )


def check_threads(threads: int, teams: Teams | None) -> None:
    """NotRealised where a task of one thread has several, or a block has one."""
    if (threads > 1) != (teams is not None):
        raise NotRealised(f"{threads} threads in a task")


def check_width(sizes: Schedule, teams: Teams | None) -> None:
    """Whether the headers have so many lanes of a thread."""
    if teams is not None and sizes["width"] < teams.least_lanes:
        raise NotRealised(
            f"{sizes['width']} lanes of a thread, which has {teams.least_lanes} at least"
        )


def check_lanes(loops: Loops, threads: int, vectors: Vectors) -> None:
    kinds = [loops.kind] if loops.lane is not None else []
    if threads == 1 and "threads" in kinds:
        raise NotRealised("a loop over threads in a task of one thread")
    if threads > 1 and "seq" in kinds:
        raise NotRealised("a loop over the last axis that no threads share")
    fits = loops.lane is not None and vectors_store(loops.stores, loops.lane, vectors)
    if loops.kind == "lanes" and not fits:
        raise NotRealised("vectors do not compute what is in a loop over lanes")


def _grain(loops: Loops, sizes: Schedule) -> tuple[int, int, int]:
    """Rows, lanes, and points after the folds, of a work tile."""
    lane, visits, most = loops.lane, loops.visits, sizes["visits"]
    back = loops.back.extent.estimate()
    if lane is None:
        deep = _deep(visits, 1, back, most)
        return max(1, most // max(1, visits + deep)) if deep >= back else 1, 1, deep
    extent = lane.extent.estimate()
    if loops.of_lanes:
        wide = min(extent, sizes["lanes"])
        deep = _deep(wide * visits, wide, back, most)
        rows = max(1, most // max(1, wide * (visits + deep - 1))) if deep >= back else 1
        return rows, sizes["lanes"], deep
    if loops.reductions and not loops.after and _is_repeated(visits, extent, most):
        return 1, most, 1
    if loops.reductions:
        deep = _deep(visits, extent, back, most)
        rows = max(1, most // max(1, extent * deep + visits)) if deep >= back else 1
        return rows, lane.extent.bounds()[1] or extent, deep
    pieces, lanes = len(loops.stores) // len({s.dst for s in loops.stores}), sizes["lanes"]
    chunk = max(lanes, most // pieces // lanes * lanes) if pieces > 1 else most
    return max(1, chunk // max(1, extent)), chunk, 1


def _deep(visits: int, lanes: int, back: int, grain: int) -> int:
    """Points after the folds of a work tile, which reduces its row by itself: an eighth of its work may be that."""
    deep = max(-(-grain // lanes), -(-8 * visits // lanes))
    return min(back, deep)


def _is_repeated(visits: int, lanes: int, grain: int) -> bool:
    """Whether several work tiles share a row, each of which computes the row's reductions by itself."""
    return lanes >= 2 * grain and 8 * visits <= grain


def team_of(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> int:
    """Threads of a block that share a row of a plan of vector loops."""
    loops = Loops.of(plan)
    return _team(loops, plan.region, sizes, machine.teams)


def spread(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Schedule:
    """The same with fewer threads in a block, down to a warp, where blocks would be too few for the device.

    With fewer lanes of each thread then, as long as that makes more blocks, and never are too many: what moves in
    narrow pieces is slow where there is much. Not where all threads share a row, in which each would have more to do.
    """
    loops, teams = Loops.of(plan), machine.teams
    results = [r for fold in loops.folds for r, _ in fold.results]
    has_lanes_in_tasks = loops.lane is not None and all(loops.lane in free_axes(r) for r in results)
    points = (loops.row.extent, loops.points, loops.back.extent)

    def tasks(sizes: Schedule, counts: Sequence[int]) -> int:
        team = _team(loops, plan.region, sizes, teams)
        grain = _grain_of_teams(loops, team, sizes, machine)
        return prod(-(-n // each) for n, each in zip(counts, grain, strict=True))

    if _team(loops, plan.region, sizes, teams) > teams.warp and not has_lanes_in_tasks:
        return sizes
    typical, most = [n.estimate() for n in points], [n.bounds()[1] for n in points]
    while sizes["threads"] > teams.warp and tasks(sizes, typical) < machine.multiprocessors:
        sizes = sizes.at("threads", sizes["threads"] // 2)
    known = [n for n in most if n is not None]
    while sizes["width"] > teams.least_lanes and len(known) == len(most):
        fewer = sizes.at("width", sizes["width"] // 2)
        before = tasks(sizes, known)
        if not before < min(machine.multiprocessors, tasks(fewer, known)):
            break
        sizes = fewer
    return sizes


def _team(loops: Loops, region: Region, sizes: Schedule, teams: Teams) -> int:
    """Threads that share a row: as many as it has vectors, part of a warp or else the whole block.

    Up to a few vectors a thread are a warp's: it waits for no other, and a block for one row would have idle threads.
    Twice as many where each row comes to a number, and rows are so many that warps of their own fill a device.
    Of vectors that are less than a thread moves at a time each has several, where it has a row and no more.
    """
    width, lane, folds = sizes["width"], loops.lane, loops.folds
    vectors = [-(-lane.extent.estimate() // width)] if lane is not None else [1]
    for fold in folds:
        group = [r for r, _ in fold.results]
        if lane is None or not any(lane in free_axes(r) for r in group):
            longest = max(visited(group[0], a) for a in fold.axes)
            vectors.append(-(-longest // (width if all(r.dtype is f32 for r in group) else 1)))
    most, rows = max(vectors), loops.row.extent.estimate()
    several = 2 if lane is None and rows >= teams.rows_of_warps else 1
    if most > several * teams.warp_vectors * teams.warp:
        return sizes["threads"]
    alone = all(lane in free_axes(r) for fold in folds for r, _ in fold.results)
    many = rows >= sizes["threads"]
    if teams.idle and folds and lane is not None and alone and many:
        return least_idle(vectors[0], teams)
    moved = moved_of(region, teams)
    is_row = all(len(fold.axes) == 1 for fold in folds)
    if moved < teams.lane_bytes and is_row:
        most = -(-most * moved // (2 * teams.lane_bytes))
    return min(teams.warp, 1 << (most - 1).bit_length())


def least_idle(vectors: int, teams: Teams) -> int:
    """Threads for a row that exchange nothing: the largest part of a warp of which hardly any have no vector."""
    parts = [1 << n for n in reversed(range(teams.warp.bit_length()))]
    slots = {team: -(-vectors // team) * team for team in parts}
    busy = (team for team in parts if (slots[team] - vectors) * teams.idle <= slots[team])
    return next(busy, 1)


def _grain_of_teams(
    loops: Loops, team: int, sizes: Schedule, machine: Machine
) -> tuple[int, int, int]:
    """Rows, lanes, and points after the folds, of a work tile that teams share."""
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
        if team < sizes["threads"] and machine.teams is not None:
            most = (
                loops.row.extent.estimate()
                * back
                // (teams * machine.teams.blocks * machine.scans.workers)
            )
            deep = max(deep, min(most, back, -(-sizes["repeated"] * chunk // extent)))
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
