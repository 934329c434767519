"""online: vector loops that read a long row or column once for reductions that depend on each other.

Before: a region of vector loops, whose rows a team cannot hold, or whose columns the teams of a block cannot.  After:
its plan with one fold for all reductions that corrections allow, as `separate` derives them, in place of loops in
sequence that read them again. Few rows or columns are in parts, which tasks fold side by side; a second kernel merges
these.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.dtype import f32
from lumigen.index import Axis
from lumigen.lower.across import across_of
from lumigen.lower.float_states import in_floats
from lumigen.lower.runs import terms_of
from lumigen.lower.scope import kernel_reductions, lanes_fit
from lumigen.lower.separate import sweeps
from lumigen.lower.split import parts_of
from lumigen.lower.split_fold import split_fold
from lumigen.lower.sweeps import axes_after, grid_loop, lane_axis, plan_sweeps
from lumigen.lower.widths import moved_of
from lumigen.machine import Grain, Machine, Teams
from lumigen.plan import KernelPlan, Loop, LoopFold, RegionPlan
from lumigen.region import Read, Reduce, Region, free_axes, walk


def plan_online(region: Region, machine: Machine) -> RegionPlan | None:
    """None where what is reduced can be held, or no two of its reductions share a loop."""
    if machine.teams is None or not machine.teams.turn:
        return None
    lane = lane_axis(region.stores[-1], machine.vectors)
    reductions = kernel_reductions(s.value for s in region.stores)
    of_lanes = lane is not None and any(lane in free_axes(r) for r in reductions)
    if of_lanes:
        return _of_columns(region, reductions, machine, machine.teams)
    loops = _loops(region, machine.teams, None)
    if loops is None:
        return None
    plan = plan_sweeps(region, machine)
    *once, grid = plan.root
    rest = tuple(s for s in grid.body if not (isinstance(s, Loop) and s.carries))
    grid = grid_loop(grid.axes, (*loops, *rest))
    whole = KernelPlan(plan.region, (grid,))
    count = min(parts_of(r, machine) for r in reductions)
    if count > 1:
        pieces = split_fold(whole, count, machine.division.line) if len(loops) == 1 else None
        return None if pieces is None else pieces.plan(region, machine)
    return None if once else RegionPlan(region, (whole,))


def _of_columns(
    region: Region, reductions: tuple[Reduce, ...], machine: Machine, teams: Teams
) -> RegionPlan | None:
    """The same of reductions that each lane has of its own."""
    held, whole_columns = (across_of(region, machine, in_turns=turns) for turns in (False, True))
    if not whole_columns.team or (held.is_enough and held.is_read_once):
        return None
    plan = plan_sweeps(region, machine)
    *once, grid = plan.root
    (around, *others) = grid.body
    if once or others or not isinstance(around, Loop) or around.kind != "lanes":
        return None
    loops = _loops(replace(region, stores=plan.region.stores), teams, around.axes[0])
    if loops is None:
        return None
    rest = tuple(s for s in around.body if not (isinstance(s, Loop) and s.carries))
    grid = replace(grid, body=(replace(around, body=(*loops, *rest)),))
    whole = KernelPlan(plan.region, (grid,))
    if whole_columns.is_enough:
        return RegionPlan(region, (whole,))
    # as many as fill a device with blocks of two stretches of lanes, whose teams share out the points
    at_once = teams.threads * moved_of(region, teams) // (2 * teams.stretch)
    grain = Grain(at_once, machine.division.column.terms)
    count = min(parts_of(r, machine, grain) for r in reductions)
    is_map = bool(axes_after(region.stores, machine.vectors))
    if count == 1 or len(loops) > 1 or is_map:
        return None
    terms, step = min(map(terms_of, reductions)), at_once * teams.turn
    pieces = split_fold(whole, count, step if terms >= 2 * count * step else teams.turn)
    return None if pieces is None else pieces.plan(region, machine)


def _loops(region: Region, teams: Teams, lanes: Axis | None) -> tuple[Loop, ...] | None:
    """The folds of the rows, or inside a loop over `lanes`, if corrections make them fewer."""
    values = tuple(s.value for s in region.stores)
    reductions = kernel_reductions(values)
    axes = {r.axes for r in reductions}
    if len(reductions) < 2 or len(axes) != 1 or any(r.where for r in reductions):
        return None
    (over,) = axes
    own = frozenset(a for s in region.stores for a in s.axes)
    if len(over) != 1 or any(not free_axes(r) <= own for r in reductions):
        return None
    if len({free_axes(r) for r in reductions}) > 1:
        return None
    if lanes is None and _is_held(reductions, over[0], teams):
        return None
    folds = [in_floats(f) for f in sweeps(values, over)]
    if not any(c.correct is not None for f in folds for c in f.carries):
        return None
    if any(c.dtype is not f32 for f in folds for c in f.carries):
        return None
    loops = tuple(_loop_of(f, "lanes" if lanes is None else "seq") for f in folds)
    found = {r for loop in loops for r, _ in loop.results}
    fits = all(lanes_fit([c.tile for c in loop.carries], lanes or over[0]) for loop in loops)
    return loops if fits and found.issuperset(reductions) else None


def _loop_of(fold: LoopFold, kind: str) -> Loop:
    return Loop(fold.axes, kind, (), fold.carries, fold.results, fold.where)


def _is_held(reductions: tuple[Reduce, ...], k: Axis, teams: Teams) -> bool:
    """Whether the threads of a block have registers for all that is read of a row of typical length."""
    reads = {e for e in walk(reductions) if isinstance(e, Read) and k in free_axes(e)}
    size = sum(e.source.dtype.itemsize for e in reads)
    return k.extent.estimate() * size <= 4 * teams.held * teams.threads
