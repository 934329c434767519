"""across: the builder of folds along an axis whose neighbours lie apart in memory, past lanes that lie side by side.

A task has a stretch of lanes and all points of its folds: the threads of a team share out the lanes, the teams of the
block share out the points, and what each team comes to is merged. So what memory has is read in whole lines, and
once if threads hold their points of it in registers.

    for task: for lanes in a stretch
      mean[lane] = sum over k of x[k, lane], k dealt to the teams
      for k dealt to the teams: y[k, lane] = x[k, lane] - mean[lane]

Folds with corrections take in so many points of each team in a turn ([turns](turns.py)), so that what registers do not
hold is read once, too.

Sites: `team` threads along the lanes, of `width` lanes each, of the `threads` of a block; `hold` keeps what loops over
the same points share in registers. A fold with corrections takes in so many vectors of a thread in a `turn`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.index import Axis, Lookup, ceildiv, extent_of, ix, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.filled import fill
from lumigen.lower.hold import hold_points
from lumigen.lower.runs import visited
from lumigen.lower.scope import Names, Scope, kernel_reductions
from lumigen.lower.simt import Loops, check_lanes, check_threads, dims_of, inside
from lumigen.lower.sweeps import axes_after, lane_axis, lane_kind, sweeps_in_order
from lumigen.lower.turns import fold_in_turns, has_corrections
from lumigen.lower.widths import moved_of, width_of
from lumigen.machine import Machine, Teams
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Reduce, Region, free_axes
from lumigen.schedule import Schedule
from lumigen.tile import For, TileProgram

SITES = ("threads", "team", "width", "hold")
SITES_OF_TURNS = ("turn",)


def across(plan: KernelPlan, sizes: Schedule, machine: Machine) -> Built:
    """The kernel of a plan of vector loops whose folds all stand in the loop over lanes; NotRealised for another."""
    in_turns = any(map(has_corrections, plan.loops()))
    check(sizes, (*SITES, *SITES_OF_TURNS) if in_turns else SITES)
    loops, teams, threads = Loops.of(plan), machine.teams, sizes["threads"]
    check_threads(threads, teams)
    check_lanes(loops, threads, machine.vectors)
    team = sizes["team"]
    if teams is None or not 1 <= team <= teams.warp or team & (team - 1) or threads % team:
        raise NotRealised(f"{team} of {threads} threads along the lanes")
    if loops.lane is None or loops.kind != "lanes" or not loops.of_lanes:
        raise NotRealised("teams share out folds that stand in a loop over lanes")
    if loops.once or loops.of_rows or loops.where or plan.then is not None:
        raise NotRealised(
            "a task of teams that share out a fold has a stretch of lanes, and no more"
        )
    program = _program(plan, loops, sizes)
    return Built(hold_points(program, teams) if sizes["hold"] else program, plan.region)


def _program(plan: KernelPlan, loops: Loops, sizes: Schedule) -> TileProgram:
    lane = loops.lane
    assert lane is not None
    chunk = sizes["team"] * sizes["width"]
    stretches = ceildiv(lane.extent, chunk)
    task = Axis("task", loops.row.extent * stretches)
    top = Scope(Names(), frozenset({task}), team=True)
    top.spread(ix(task) // stretches, loops.rows)
    lo = ix(task) % stretches * chunk
    lanes = top.inner([lane], lane)
    lanes.across = True
    turn = sizes.get("turn", 0) * (sizes["threads"] // sizes["team"])
    for fold in loops.of_lanes:
        if has_corrections(fold):
            fold_in_turns(lanes, fold, turn)
        else:
            lanes.fold(fold)
    lanes.stmts.append(_stores(loops, lanes))
    body = For(lane, lo, minimum(lo + chunk, lane.extent), True, tuple(lanes.stmts))
    return TileProgram(
        "simt",
        plan.region.buffers(),
        dims_of(plan.region),
        task,
        task.extent,
        (),
        (*top.stmts, body),
        threads=sizes["threads"],
        team=sizes["team"],
        width=sizes["width"],
    )


def _stores(loops: Loops, lanes: Scope) -> For:
    """The stores, at points dealt to the teams; where these have none of their own, by one of them."""
    axis = loops.back if loops.after else Axis("once", ix(1))
    scope = inside(lanes, axis, loops.after)
    fill(scope, loops.stores, loops.lane, loops.where)
    return For(axis, ix(0), axis.extent, False, tuple(scope.stmts), dealt=True)


# ---- when ----


@dataclass(frozen=True)
class Across:
    """`team` threads along the lanes; 0 where teams had better not share out the folds of a region.

    `is_enough`: all blocks have something to do. `is_read_once`: registers hold what is read twice, if anything is.
    """

    team: int
    is_enough: bool = False
    is_read_once: bool = False


def across_of(region: Region, machine: Machine, *, in_turns: bool = False) -> Across:
    """How teams share out folds along an axis past the lanes: as many threads along these as there may be.

    First those that leave each multiprocessor two blocks and threads the registers to hold their points, with room to
    spare, then those that leave less; of what cannot be held those that leave each multiprocessor four blocks, which
    ask for more of it at a time, or else one. In the end as few as there may be. In turns nothing is held for longer
    than one of them, and what is reduced is read once.
    """
    teams, store = machine.teams, region.stores[-1]
    lane = lane_axis(store, machine.vectors)
    found = kernel_reductions(s.value for s in region.stores)
    if teams is None or not teams.stretch or lane is None or region.native or not found:
        return Across(0)
    if not all(_is_of(r, lane, store.axes) for r in found):
        return Across(0)
    if lane_kind(region.stores, lane, machine.vectors, team=True) != "lanes":
        return Across(0)
    points = min(max(visited(r, a) for a in r.axes) for r in found)
    after = axes_after(region.stores, machine.vectors)
    rows = extent_of(a for a in store.axes if a is not lane and a not in after).estimate()
    width, moved = width_of(region, teams), moved_of(region, teams)
    vectors = -(-lane.extent.estimate() // width)
    every = [1 << n for n in reversed(range(teams.warp.bit_length()))]
    widths = [t for t in every if t * moved >= teams.stretch and teams.threads // t <= points]
    widths = [t for t in widths if t < 2 * vectors] or widths[-1:]  # of more some have no lanes
    is_once = (in_turns or len(sweeps_in_order(found)) == 1) and not after
    for least, most, line in _tiers(machine.scans.workers, teams):
        for t in (t for t in widths if t * moved >= line):
            blocks, held = rows * -(-vectors // t), -(-points * t // teams.threads) * moved // 4
            # which holds nothing, and reads again nothing
            is_loop = in_turns or (is_once and held > teams.held)
            if blocks >= least and (most is None or is_loop or held <= most):
                return Across(t, True, is_once or held <= teams.held)
    return Across(widths[-1]) if widths else Across(0)


def _tiers(workers: int, teams: Teams) -> tuple[tuple[int, int | None, int], ...]:
    """(blocks at least, registers that hold points at most, bytes of a line at least), the best first."""
    held, line = teams.held, teams.stretch
    return (
        (4 * workers, 0, 2 * line),
        (2 * workers, held // 2, 2 * line),
        (workers, held, 2 * line),
        (workers, held, line),
        (workers // 2, held, line),
        (workers, None, line),
    )


def _is_of(r: Reduce, lane: Axis, axes: tuple[Axis, ...]) -> bool:
    """Whether each lane has a reduction of its own, not inside another one, whose bounds are not read."""
    reads = any(isinstance(a, Lookup) for c in r.where for a in c.slack.atoms())
    return lane in free_axes(r) <= set(axes) and not reads
