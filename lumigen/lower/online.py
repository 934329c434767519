"""online: vector loops that read a long row once for reductions that depend on each other.

Before: a region of vector loops, whose rows a team cannot hold.  After: its plan with one fold for all reductions of a
row that corrections allow, as `separate` derives them, in place of loops in sequence that read the row again. Few rows
are in parts, which tasks fold side by side; a second kernel merges these.
"""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.index import Axis
from lumigen.lower.float_states import in_floats
from lumigen.lower.scope import kernel_reductions, lanes_fit
from lumigen.lower.separate import sweeps
from lumigen.lower.split import parts_of
from lumigen.lower.split_fold import split_fold
from lumigen.lower.sweeps import grid_loop, plan_sweeps
from lumigen.machine import Machine, Teams
from lumigen.plan import KernelPlan, Loop, LoopFold, RegionPlan
from lumigen.region import Read, Reduce, Region, free_axes, walk


def plan_online(region: Region, machine: Machine) -> RegionPlan | None:
    """None where a row can be held, or no two of its reductions share a loop."""
    if machine.teams is None or not machine.teams.turn:
        return None
    loops = _loops(region, machine.teams)
    if loops is None:
        return None
    plan = plan_sweeps(region, machine)
    *once, grid = plan.root
    rest = tuple(s for s in grid.body if not (isinstance(s, Loop) and s.carries))
    grid = grid_loop(grid.axes, (*loops, *rest))
    whole = KernelPlan(plan.region, (grid,))
    reductions = kernel_reductions(s.value for s in region.stores)
    count = min(parts_of(r, machine) for r in reductions)
    if count > 1:
        pieces = split_fold(whole, count, machine.division.line) if len(loops) == 1 else None
        return None if pieces is None else pieces.plan(region, machine)
    return None if once else RegionPlan(region, (whole,))


def _loops(region: Region, teams: Teams) -> tuple[Loop, ...] | None:
    """The folds of the rows, if corrections make them fewer."""
    values = tuple(s.value for s in region.stores)
    reductions = kernel_reductions(values)
    axes = {r.axes for r in reductions}
    if len(reductions) < 2 or len(axes) != 1 or any(r.where for r in reductions):
        return None
    (over,) = axes
    own = frozenset(a for s in region.stores for a in s.axes)
    if len(over) != 1 or any(not free_axes(r) <= own for r in reductions):
        return None
    if len({free_axes(r) for r in reductions}) > 1 or _is_held(reductions, over[0], teams):
        return None
    folds = [in_floats(f) for f in sweeps(values, over)]
    if not any(c.correct is not None for f in folds for c in f.carries):
        return None
    if any(c.dtype is not f32 for f in folds for c in f.carries):
        return None
    loops = tuple(_loop_of(f) for f in folds)
    found = {r for loop in loops for r, _ in loop.results}
    fits = all(lanes_fit([c.tile for c in loop.carries], over[0]) for loop in loops)
    return loops if fits and found.issuperset(reductions) else None


def _loop_of(fold: LoopFold) -> Loop:
    return Loop(fold.axes, "lanes", (), fold.carries, fold.results, fold.where)


def _is_held(reductions: tuple[Reduce, ...], k: Axis, teams: Teams) -> bool:
    """Whether the threads of a block have registers for all that is read of a row of typical length."""
    reads = {e for e in walk(reductions) if isinstance(e, Read) and k in free_axes(e)}
    size = sum(e.source.dtype.itemsize for e in reads)
    return k.extent.estimate() * size <= 4 * teams.held * teams.threads
