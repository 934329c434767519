"""split_fold: a fold around a product in parts, which tasks run side by side, and the merge of what these carry.

Before: the plan of a fold over k, as one loop.  After: two kernels. The first folds the points of each part alone and
stores what it carries. The second merges the parts: as a correction takes a state from an old maximum to a new one, it
takes the state of a part to the maximum of all,

    merged[i] = monoid over parts of state[i, part] * correct[i](old: states of the part, new: merged states)

in the order of the carries. A part without points has maxima of -inf and sums of 0, and its correction is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from lumigen.condition import Cmp
from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ceildiv, floordiv, ix
from lumigen.lower.bounds import absent_unless, loop_bounds
from lumigen.lower.contractions import is_plain
from lumigen.lower.sweeps import grid_loop, plan_sweeps
from lumigen.machine import Machine
from lumigen.names import fresh
from lumigen.plan import Carry, KernelPlan, Loop, Product, RegionPlan, Step, corrected
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Holds,
    Monoid,
    Reduce,
    Region,
    Role,
    Store,
    carried,
    choose,
    const,
    free_axes,
    holds,
    map_expr,
    read,
    reduce,
    substitute,
)


@dataclass(frozen=True)
class SplitFold:
    """A region in pieces: the `fold` of a part, which stores its states, and what merges them."""

    fold: KernelPlan
    merges: tuple[Region, ...]

    @property
    def states(self) -> Region:
        """What the parts store."""
        return self.fold.region

    @property
    def temps(self) -> tuple[Buffer, ...]:
        """What the parts pass on."""
        return tuple(s.dst for s in self.states.stores)

    def plan(self, region: Region, machine: Machine) -> RegionPlan:
        """The kernels of the region that this was made of."""
        merges = (plan_sweeps(r, machine) for r in self.merges)
        return RegionPlan(region, (self.fold, *merges), self.temps)


@dataclass(frozen=True)
class _Fold:
    """A loop around products, whose last state may have axes of its `own`; or one inside a loop over `lanes`."""

    loop: Loop
    inner: frozenset[Axis]  # of the products inside
    grid: tuple[Axis, ...]
    own: tuple[Axis, ...]
    order: tuple[int, ...]  # of the states, the one with own axes last
    lanes: tuple[Axis, ...] = ()

    @staticmethod
    def of(plan: KernelPlan) -> _Fold | None:
        """None where a correction varies inside a part, or several states have axes of their own."""
        grid = plan.root[-1]
        loop = next((s for s in grid.body if isinstance(s, Loop)), None)
        lanes = tuple[Axis, ...]()
        if loop is not None and not loop.carries and loop.kind == "lanes":
            lanes = loop.axes
            loop = next((s for s in loop.body if isinstance(s, Loop)), None)
        inners = [s for s in loop.body if isinstance(s, Product)] if loop else []
        if loop is None or not loop.carries or len(loop.axes) != 1:
            return None
        corrections = [c.correct for c in loop.carries if c.correct is not None]
        outer = [i for i, c in enumerate(loop.carries) if c.product is not None]
        if len(outer) > 1 or any(free_axes(c) & {*loop.axes} for c in corrections):
            return None
        of_inner = frozenset(a for p in inners for a in (*p.m, *p.n))
        products = [p for i in outer if (p := loop.carries[i].product) is not None]
        apart = {a for p in products for a in (*p.m, *p.n)} - of_inner
        in_order = sorted((*grid.axes, *lanes), key=lambda a: (a in apart, a in of_inner))
        order = (*(i for i in range(len(loop.carries)) if i not in outer), *outer)
        own = tuple(a for a in in_order if a in apart)
        points = tuple(a for a in in_order if a not in apart)
        return _Fold(loop, of_inner, points, own, order, lanes)


def split_fold(plan: KernelPlan, parts: int, step: int) -> SplitFold | None:
    """The fold of a plan in so many parts of whole steps; None where it has no such parts.

    The parts share the points that its conditions leave, as those up to a position, so that all have something to do.
    """
    found = _Fold.of(plan)
    if found is None:
        return None
    (k,) = found.loop.axes
    taken = {a.name for a in (k, *found.grid, *found.own)}
    part = Axis(fresh(f"{k.name}_part", taken), ix(parts))
    of_inner = {a: (ix(0), a.extent - 1) for a in found.grid if a in found.inner}
    limits = loop_bounds(found.loop.where, k, of_inner)
    first = floordiv(limits.lo, ix(step)) * step
    each = ceildiv(limits.hi - first, parts * step) * step
    begin = first + each * part
    inside = (Cmp(ix(k) - begin), Cmp(begin + each - 1 - k))
    carried_by_part = _of_part(found.loop, tuple(c for c in inside if c.known() is not True))
    if carried_by_part is None:
        return None
    loop, values = carried_by_part
    states = _states(found, values, plan.region, part)
    body: tuple[Step, ...] = (loop, *states.stores)
    body = (Loop(found.lanes, "lanes", body),) if found.lanes else body
    rows = tuple(a for a in states.stores[-1].axes if a not in found.lanes)
    fold = KernelPlan(states, (grid_loop(rows, body),))
    return SplitFold(fold, _merges(found, states, plan, part))


def _of_part(loop: Loop, inside: tuple[Cmp, ...]) -> tuple[Loop, list[Expr]] | None:
    """The loop of a part, whose points fulfil the conditions, and what its states mean."""
    most = [c.tile for c in loop.carries if c.monoid is Monoid.MAX]
    masked = {tile: _within(inside, tile, f32.lowest) for tile in most}
    made: list[Carry] = []
    values: list[Expr] = []
    final: dict[Expr, Expr] = {}
    for i, c in enumerate(loop.carries):
        tile, product = _guarded(c.monoid, c.tile, inside, masked), c.product
        value = reduce(c.monoid, loop.axes, map_expr(tile, final), f32)
        sought = value.then if isinstance(value, Choose) else value  # of one point in some part
        if not isinstance(sought, Reduce):
            return None
        if product is not None:
            site = "columns" if is_plain(product.rows) else "rows"  # weights are computed
            weights = _guarded(Monoid.SUM, getattr(product, site), inside, masked)
            product = replace(product, value=sought, **{site: weights})
        final[carried(i, "new", f32)] = sought
        values.append(value)
        made.append(replace(c, value=sought, tile=tile, product=product))
    results = tuple((value, state) for state, value in final.items())
    where = (*inside, *loop.where)
    return replace(loop, carries=tuple(made), results=results, where=where), values


def _within(inside: tuple[Cmp, ...], tile: Expr, absent: float) -> Expr:
    """The tile with the points of a part as one more condition: a choice that it has takes them in."""
    neutral = const(absent, f32)
    own: tuple[Cmp, ...] = ()
    if isinstance(tile, Choose) and isinstance(tile.condition, Holds) and tile.otherwise is neutral:
        own, tile = tile.condition.conditions, tile.then
    return choose(holds((*inside, *own)), tile, neutral)


def _guarded(
    monoid: Monoid, tile: Expr, inside: tuple[Cmp, ...], masked: Mapping[Expr, Expr]
) -> Expr:
    """A tile that is neutral outside a part. A power of what a maximum is of vanishes where that is masked."""
    by_mask = map_expr(tile, masked)
    if set(inside) <= set(absent_unless(monoid, by_mask)):
        return by_mask
    return _within(inside, tile, f32.lowest if monoid is Monoid.MAX else 0.0)


def _states(found: _Fold, values: Sequence[Expr], region: Region, part: Axis) -> Region:
    """What the parts store."""
    taken = {b.name for b in region.buffers()}
    stores: list[Store] = []
    for i in found.order:
        own = found.own if found.loop.carries[i].product is not None else ()
        # of rows without products the states of all parts lie side by side
        is_row = not found.inner and not found.lanes
        axes = (*found.grid, part) if is_row else (part, *found.grid, *own)
        name = fresh(f"parts{i}", taken)
        parts = Buffer(name, Role.TEMP, tuple(a.extent for a in axes), f32)
        stores.append(Store(parts, axes, tuple(map(ix, axes)), values[i]))
    return Region(tuple(stores), region.lines)


def _merges(found: _Fold, states: Region, plan: KernelPlan, part: Axis) -> tuple[Region, ...]:
    """The stores of a plan over the merged states, those over the same axes together."""
    of_part = {i: read(s.dst, s.at) for i, s in zip(found.order, states.stores, strict=True)}
    merged: dict[Expr, Expr] = {}
    old = {carried(i, "old", f32): e for i, e in of_part.items()}
    for i, c in enumerate(found.loop.carries):
        state = of_part[i]
        if c.correct is not None:
            state = corrected(state, map_expr(c.correct, {**old, **merged}))
        merged[carried(i, "new", f32)] = reduce(c.monoid, (part,), state, f32)
    over = {r: map_expr(e, merged) for r, e in found.loop.results}
    # a store of one value for each column may leave out axes of one point
    single: dict[Axis, Ix] = {a: ix(0) for a in found.grid if a.extent == 1}
    stores: list[Store] = []
    for s in plan.region.stores:
        gone = {a: at for a, at in single.items() if a not in s.axes}
        stores.append(replace(s, value=substitute(map_expr(s.value, over), gone)))
    together: Sequence[list[Store]] = [
        list(same) for _, same in groupby(stores, key=lambda s: s.axes)
    ]
    return tuple(Region(tuple(same), plan.region.lines) for same in together)
