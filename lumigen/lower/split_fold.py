"""split_fold: a fold around a product in parts, which tasks run side by side, and the merge of what these carry.

Before: a fold over k, as one loop.  After: two kernels. The first folds the points of each part alone and stores what
it carries. The second merges the parts: as a correction takes a state from an old maximum to a new one, it takes the
state of a part to the maximum of all,

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
from lumigen.lower.cascade import Cascade
from lumigen.lower.sweeps import plan_sweeps
from lumigen.names import fresh
from lumigen.plan import Carry, RegionPlan, corrected
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
    """A region in pieces: `states`, which the parts of the `fold` store, and what merges them."""

    states: Region
    fold: Cascade
    merges: tuple[Region, ...]

    @property
    def temps(self) -> tuple[Buffer, ...]:
        """What the parts pass on."""
        return tuple(s.dst for s in self.states.stores)

    def plan(self, region: Region, *, team: bool = False) -> RegionPlan:
        """The kernels of the region that this was made of."""
        merges = (plan_sweeps(r, team=team) for r in self.merges)
        return RegionPlan(region, (self.fold.plan(self.states), *merges), self.temps)


def split_fold(found: Cascade, region: Region, parts: int, step: int) -> SplitFold | None:
    """The fold of a region in so many parts of whole steps; None where a correction varies inside a part.

    The parts share the points that its conditions leave, as those up to a position, so that all have something to do.
    """
    (k,) = found.fold.axes
    corrections = [c.correct for c in found.fold.carries if c.correct is not None]
    if len(found.outers) != 1 or any(k in free_axes(c) for c in corrections):
        return None
    taken = {a.name for a in (k, *region.stores[-1].axes)}
    part = Axis(fresh(f"{k.name}_part", taken), ix(parts))
    rows = {a: (ix(0), a.extent - 1) for a in found.columns}
    limits = loop_bounds(found.fold.where, k, rows)
    first = floordiv(limits.lo, ix(step)) * step
    each = ceildiv(limits.hi - first, parts * step) * step
    begin = first + each * part
    inside = (Cmp(ix(k) - begin), Cmp(begin + each - 1 - k))
    fold = _of_part(found, tuple(c for c in inside if c.known() is not True), part)
    if fold is None:
        return None
    states = _states(fold, region)
    return SplitFold(states, fold, _merges(found, states, region, part))


def _of_part(found: Cascade, inside: tuple[Cmp, ...], part: Axis) -> Cascade | None:
    """The fold of a part, whose points fulfil the conditions."""
    carries = found.fold.carries
    masked = {c.tile: _masked(c.tile, inside) for c in carries if c.monoid is Monoid.MAX}
    made: list[Carry] = []
    final: dict[Expr, Expr] = {}
    for i, c in enumerate(carries):
        tile = _guarded(c.monoid, c.tile, inside, masked)
        value = reduce(c.monoid, found.fold.axes, map_expr(tile, final), f32)
        if not isinstance(value, Reduce):
            return None
        final[carried(i, "new", f32)] = value
        made.append(replace(c, value=value, tile=tile))
    (outer,) = found.outers
    weights = _guarded(Monoid.SUM, outer.weights, inside, masked)
    results = tuple((value, state) for state, value in final.items())
    where = (*inside, *found.fold.where)
    return replace(
        found,
        fold=replace(found.fold, carries=tuple(made), results=results, where=where),
        grid=(part, *found.grid),
        outers=(replace(outer, weights=weights),),
        after=carried(outer.carry, "new", f32),
        others=(),
    )


def _masked(tile: Expr, inside: tuple[Cmp, ...]) -> Expr:
    """What a maximum is of, with the points of a part as one more condition: a mask that it has takes them in."""
    lowest = const(f32.lowest, f32)
    own: tuple[Cmp, ...] = ()
    if isinstance(tile, Choose) and isinstance(tile.condition, Holds) and tile.otherwise is lowest:
        own, tile = tile.condition.conditions, tile.then
    return choose(holds((*inside, *own)), tile, lowest)


def _guarded(
    monoid: Monoid, tile: Expr, inside: tuple[Cmp, ...], masked: Mapping[Expr, Expr]
) -> Expr:
    """A tile that is neutral outside a part. A power of what a maximum is of vanishes where that is masked."""
    by_mask = map_expr(tile, masked)
    if set(inside) <= set(absent_unless(monoid, by_mask)):
        return by_mask
    absent = f32.lowest if monoid is Monoid.MAX else 0.0
    return choose(holds(inside), tile, const(absent, f32))


def _states(fold: Cascade, region: Region) -> Region:
    """What the parts store, the sums that have rows last."""
    (outer,) = fold.outers
    taken = {b.name for b in region.buffers()}
    stores: list[Store] = []
    for i in (*fold.vectors, outer.carry):
        axes = (*fold.grid, *fold.columns, *(fold.rows if i == outer.carry else ()))
        name = fresh(f"parts{i}", taken)
        parts = Buffer(name, Role.TEMP, tuple(a.extent for a in axes), f32)
        stores.append(Store(parts, axes, tuple(map(ix, axes)), fold.fold.carries[i].value))
    return Region(tuple(stores), region.lines)


def _merges(found: Cascade, states: Region, region: Region, part: Axis) -> tuple[Region, ...]:
    """The stores of a region over the merged states, those over the same axes together."""
    (outer,) = found.outers
    order = (*found.vectors, outer.carry)
    of_part = {i: read(s.dst, s.at) for i, s in zip(order, states.stores, strict=True)}
    merged: dict[Expr, Expr] = {}
    old = {carried(i, "old", f32): e for i, e in of_part.items()}
    for i, c in enumerate(found.fold.carries):
        state = of_part[i]
        if c.correct is not None:
            state = corrected(state, map_expr(c.correct, {**old, **merged}))
        merged[carried(i, "new", f32)] = reduce(c.monoid, (part,), state, f32)
    values = (*(s.value for s in found.others), found.after)
    # a store of one value for each column may leave out axes of one point
    single: dict[Axis, Ix] = {a: ix(0) for a in (*found.grid, *found.columns) if a.extent == 1}
    stores: list[Store] = []
    for s, value in zip(region.stores, values, strict=True):
        gone = {a: at for a, at in single.items() if a not in s.axes}
        stores.append(replace(s, value=substitute(map_expr(value, merged), gone)))
    together: Sequence[list[Store]] = [
        list(same) for _, same in groupby(stores, key=lambda s: s.axes)
    ]
    return tuple(Region(tuple(same), region.lines) for same in together)
