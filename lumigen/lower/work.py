"""work: how long the loops of a region take: what they compute, read and store, and how often they do.

A pure question of a region and of a machine's steps. A value is computed once for each point of the loops that it
varies with and of those around these; a loop over tiles does so once for each of its tiles. It knows no plan: maps and
their reductions have loops in the order of their axes, products have tiles of rows and of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from lumigen.condition import Cmp
from lumigen.dtype import f32
from lumigen.index import Axis
from lumigen.lower.contractions import COSTLY, product_factors, volume, volume_of
from lumigen.lower.scope import is_per_lane, kernel_reductions
from lumigen.lower.sweeps import consecutive
from lumigen.machine import Steps
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import (
    Carried,
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Intrinsic,
    Local,
    Prim,
    Random,
    Read,
    Reduce,
    Region,
    Store,
    children,
    free_axes,
)


@dataclass(frozen=True)
class _Group:
    """Loops around each other, outer ones first; with a `tile`, over tiles of so many points of the inner ones."""

    axes: tuple[Axis, ...]
    tile: int = 0

    def times(self, varying: frozenset[Axis]) -> int:
        """How often they compute a value that varies with these axes."""
        last = max((i for i, a in enumerate(self.axes) if a in varying), default=-1)
        inner = volume(self.axes[last + 1 :])
        return volume(self.axes[: last + 1]) * (-(-inner // self.tile) if self.tile else 1)


@dataclass(frozen=True)
class _Nest:
    """All loops around a value, which is wanted at a `share` of their points."""

    groups: tuple[_Group, ...]
    lanes: frozenset[Axis]  # innermost loops, of which vectors have neighbouring points
    share: float = 1.0
    is_bounded: bool = False  # by ends of its lanes, so that what is read lies within its buffer

    @property
    def axes(self) -> frozenset[Axis]:
        return frozenset(a for g in self.groups for a in g.axes)

    def times(self, e: Expr) -> float:
        """How often they compute a value."""
        varying, out = free_axes(e), 1
        for g in self.groups:
            out *= g.times(varying)
        return max(1.0, out * (self.share if varying & self.axes else 1.0))

    def is_alone(self, e: Expr) -> bool:
        """Whether lanes compute it one by one. Not what is chosen by ends of the lanes: each side has its own loop."""
        if isinstance(e, Choose) and e.dtype is f32 and (self.is_bounded or self.has_ends(e)):
            return False
        return any(is_per_lane(e, a) for a in self.lanes)

    def has_ends(self, e: Choose, axes: frozenset[Axis] | None = None) -> bool:
        """Whether a choice is one by ends of loops, over these axes if there are any."""
        asked = e.condition.conditions if isinstance(e.condition, Holds) else ()
        return bool(asked) and all(_end(c, axes or self.axes) is not None for c in asked)

    def where(self, conditions: Iterable[Cmp]) -> _Nest:
        """The points of it at which these hold."""
        return replace(self, share=self.share * _share(tuple(conditions), self.axes))

    def unless(self, conditions: Iterable[Cmp]) -> _Nest:
        """The other points."""
        return replace(self, share=self.share * (1 - _share(tuple(conditions), self.axes)))


def _end(c: Cmp, axes: frozenset[Axis]) -> tuple[Axis, int, int] | None:
    """The axis that a condition bounds, from where on and up to where it holds; None where it is none of that kind."""
    asked = tuple(c.axes & axes)
    if len(asked) != 1:
        return None
    (axis,) = asked
    factor = c.slack.coefficient(axis)
    rest = None if factor is None else c.slack - factor * axis
    if factor not in (1, -1) or rest is None or not rest.is_const:
        return None
    extent = axis.extent.estimate()
    return (axis, -rest.const, extent) if factor == 1 else (axis, 0, rest.const + 1)


def _share(conditions: tuple[Cmp, ...], axes: frozenset[Axis]) -> float:
    """Of the points of some axes: exact for ends of one axis, about half where several are compared."""
    spans: dict[Axis, tuple[int, int]] = {}
    out = 1.0
    for c in conditions:
        found = _end(c, axes)
        if found is not None:
            axis, low, high = found
            first, end = spans.get(axis, (0, axis.extent.estimate()))
            spans[axis] = max(first, low), min(end, high)
        elif c.axes & axes:
            out /= 2
    for axis, (low, high) in spans.items():
        out *= max(0, high - low) / axis.extent.estimate()
    return out


@remembered
def work(region: Region, steps: Steps) -> float:
    """What a region takes, in the unit of the machine's steps."""
    return sum(_work_of_store(s, steps) for s in region.stores)


def _work_of_store(store: Store, steps: Steps) -> float:
    reductions = kernel_reductions([store.value])
    products = [r for r in reductions if _is_innermost_product(r)]
    around = [r for r in reductions if not set(products).isdisjoint(kernel_reductions([r.body]))]
    lanes, groups = frozenset(store.axes[-1:]), (_Group(store.axes),)
    if products:
        groups = tuple(_tiles(store.axes, products[0], steps.tile))
        lanes = frozenset(g.axes[-1] for g in groups if g.tile != 1)
    walked, nest = _Work(steps, bool(products)), _Nest(groups, lanes)
    walked.visit(store.value, nest, alone=False)
    # one loop computes all the folds around a product, and what they are of once
    return walked.total / max(1, len(around)) + steps.stored * volume(store.axes)


def _is_innermost_product(r: Reduce) -> bool:
    return product_factors(r) is not None and not kernel_reductions([r.body])


def _tiles(axes: tuple[Axis, ...], product: Reduce, tile: int) -> Iterator[_Group]:
    """The loops around a product: over its batches, and over tiles of its rows, of its columns and of other axes."""
    found = product_factors(product)
    assert found is not None
    rows, columns = map(free_axes, found)
    yield from (_Group((a,), 1) for a in axes if a in rows & columns)
    for side in (rows - columns, columns - rows, frozenset(axes) - rows - columns):
        group = tuple(a for a in axes if a in side)
        if group:
            yield _Group(group, tile)


@dataclass
class _Work:
    steps: Steps
    is_tiled: bool
    total: float = 0.0
    seen: set[tuple[Expr, _Nest, bool]] = field(default_factory=set[tuple[Expr, _Nest, bool]])

    def visit(self, e: Expr, nest: _Nest, *, alone: bool) -> None:
        """Add what a value takes, with all that it is made of; `alone` within what lanes compute one by one."""
        alone = alone or nest.is_alone(e)
        if (e, nest, alone) in self.seen or isinstance(e, Const | Local | Carried):
            return
        self.seen.add((e, nest, alone))
        if isinstance(e, Reduce):
            self._fold(e, nest)
            return
        self.total += nest.times(e) * self._step(e, alone=alone)
        if isinstance(e, Choose) and isinstance(e.condition, Holds):
            asked, bounded = e.condition.conditions, nest.is_bounded or nest.has_ends(e, nest.lanes)
            sides = replace(nest, is_bounded=bounded)
            self.visit(e.condition, nest, alone=alone)
            self.visit(e.then, sides.where(asked), alone=alone)
            self.visit(e.otherwise, sides.unless(asked), alone=alone)
            return
        for c in children(e):
            self.visit(c, nest, alone=alone)

    def _fold(self, r: Reduce, nest: _Nest) -> None:
        tile = self.steps.tile
        kept = (replace(g, axes=tuple(a for a in g.axes if a in free_axes(r))) for g in nest.groups)
        around = tuple(g for g in kept if g.axes)
        if self.is_tiled:
            inside = _Nest((*around, _Group(r.axes, tile)), nest.lanes | {r.axes[-1]}, nest.share)
        else:
            inside = replace(self._swept(r, around, nest.lanes), share=nest.share)
        inside = inside.where(r.where)
        if product_factors(r) is not None:
            points = nest.times(r) * volume(r.axes) * _share(r.where, inside.axes)
            self.total += points * self.steps.product
        else:
            self.total += inside.times(r.body) * self.steps.vector
        if _is_innermost_product(r):
            return
        self.visit(r.body, inside, alone=False)

    def _swept(self, r: Reduce, around: tuple[_Group, ...], lanes: frozenset[Axis]) -> _Nest:
        """Loops of a reduction inside those that it varies with: over lanes of its own, or inside of these."""
        axes = tuple(a for g in around for a in g.axes)
        if not consecutive(r, tuple(lanes & free_axes(r))):
            return _Nest((_Group((*axes, *r.axes)),), frozenset(r.axes[-1:]))
        outer = tuple(a for a in axes if a not in lanes)
        groups = (
            _Group((*outer, *r.axes)),
            *(_Group((a,), self.steps.lanes) for a in sorted(lanes, key=str)),
        )
        return _Nest(groups, lanes)

    def _step(self, e: Expr, *, alone: bool) -> float:
        """What one element takes, without what it is made of."""
        steps = self.steps
        match e:
            case Read():
                size = volume_of(e.source.dims) * e.source.dtype.itemsize
                read = steps.near if size <= steps.cache else steps.far
                return read + (steps.alone if alone else 0)
            case Index():
                return steps.alone * len(list(e.value.atoms())) if alone else 0
            case Holds():
                return (steps.alone if alone else steps.vector) * len(e.conditions)
            case Prim() if e.op is Op.MOD and not e.dtype.is_float:
                return 4 * steps.alone if isinstance(e.args[1], Const) else steps.function_alone
            case Prim() if e.op in COSTLY:
                return steps.function_alone if alone else steps.function
            case Intrinsic() | Random():
                return steps.function_alone if alone else steps.function
            case _:
                return steps.alone if alone else steps.vector
