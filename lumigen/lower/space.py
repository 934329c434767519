"""space: the choices for a region, as values: schedules and plans that are one decision away.

A change is one decision: another size at a site, another kind of a loop, folds together or apart, an axis in the grid
or in a loop. A builder may still refuse a candidate, with its reason. Whoever follows changes of changes reaches the
whole space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from lumigen.condition import Cmp
from lumigen.dtype import f16, f32, i8
from lumigen.lower import few, roles
from lumigen.lower.built import Built
from lumigen.lower.plan_region import Candidate
from lumigen.lower.scope import guarded
from lumigen.lower.tile_time import sizes_of, tiles_of, tiles_of_pair
from lumigen.machine import Gpu, StreamingGpu
from lumigen.plan import Carry, KernelPlan, Loop, Product, Step
from lumigen.region import Carried, Reduce, carried, free_axes, map_expr, walk
from lumigen.schedule import Schedule, schedule

T = TypeVar("T")
INNER = ("lanes", "threads", "seq")
Near = Callable[[KernelPlan, Schedule], Iterator[Schedule]]


@dataclass(frozen=True)
class Builder:
    """A row: what builds a kernel, and the schedules that it has near one."""

    build: Callable[[KernelPlan, Schedule], Built]
    near: Near


def changes(found: Candidate, builders: Mapping[str, Builder]) -> Iterator[Candidate]:
    """Every candidate that is one decision away: of a schedule, then of a plan."""
    for number, (plan, sizes) in enumerate(zip(found.plan.kernels, found.schedules, strict=True)):
        for other in builders[sizes.builder].near(plan, sizes):
            yield replace(found, schedules=_with(found.schedules, number, other))
        for near in plans_near(plan):
            kernels = _with(found.plan.kernels, number, near)
            yield replace(found, plan=replace(found.plan, kernels=kernels))


def _with(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])


# ---- schedules ----


def sites(*domains: Mapping[str, Sequence[int]]) -> Near:
    """Schedules with another size at one site, of the domains that have the sites of a schedule."""

    def near(_: KernelPlan, sizes: Schedule) -> Iterator[Schedule]:
        for own in (d for d in domains if set(d) == {site for site, _ in sizes.tile}):
            for site, values in own.items():
                yield from (sizes.at(site, v) for v in values if v != sizes[site])

    return near


def shared_sites(domain: Mapping[str, Sequence[int]], *together: str) -> Near:
    """Schedules with another size at one site, then all others of the sites that share what a block has.

    More rows take fewer points at a time to fit: no size of one of these may be legal beside those of the others.
    """

    def near(plan: KernelPlan, sizes: Schedule) -> Iterator[Schedule]:
        yield from sites(domain)(plan, sizes)
        for values in product(*(domain[site] for site in together)):
            own = dict(zip(together, values, strict=True))
            if sum(sizes[site] != value for site, value in own.items()) > 1:
                yield schedule(sizes.builder, {**dict(sizes.tile), **own}, dict(sizes.place))

    return near


def each_part(near: Mapping[str, Near]) -> Near:
    """Schedules of grids side by side, with another one for all that are alike, or for one of the grids."""

    def of(plan: KernelPlan, sizes: Schedule) -> Iterator[Schedule]:
        first, *others = sizes.parts
        if all(other == first for other in others):
            for other in near[first.builder](plan, first):
                yield replace(sizes, parts=(other,) * len(sizes.parts))
        for number, part in enumerate(sizes.parts):
            for other in near[part.builder](plan, part):
                yield replace(sizes, parts=_with(sizes.parts, number, other))

    return of


def tiles_of_pipeline(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Iterator[Schedule]:
    """Every tile of a product, whole and in parts, and those of small products."""
    scalar = bool(sizes.get("thread_rows", 0))
    products = [s for s in plan.root[-1].body if isinstance(s, Product)]
    several, whole = len(products) > 1, any(p.value.dtype.is_int for p in products)
    element = f32 if scalar else i8 if whole else f16
    tiles = tiles_of_pair(machine) if several else tiles_of(element, machine)
    small = () if several or scalar or whole else [t for _, t in machine.products.small]
    in_parts = () if several else ((t, 2 * machine.multiprocessors) for t in tiles)
    for t, parts_of in (*((t, 0) for t in (*tiles, *small)), *in_parts):
        if (other := sizes_of(t, parts_of)) != sizes:
            yield other


def tiles_of_few(_: KernelPlan, sizes: Schedule, machine: Gpu) -> Iterator[Schedule]:
    """Every tile of few rows that the device's headers have, and the other choice of what is one of two."""
    tiles = (few.sizes_of(t).at("fetch", sizes["fetch"]) for t in machine.products.few)
    near = dict.fromkeys((*(sizes.at(flag, 1 - sizes[flag]) for flag in few.FLAGS), *tiles))
    yield from (t for t in near if t != sizes)


def tiles_of_roles(_: KernelPlan, sizes: Schedule, machine: StreamingGpu) -> Iterator[Schedule]:
    """Every tile that the device's headers have."""
    every = map(roles.sizes_of, roles.tiles_of(machine))
    yield from (t for t in every if t != sizes)


# ---- plans ----


def plans_near(plan: KernelPlan) -> Iterator[KernelPlan]:
    """Plans that compute the same and differ in one decision."""
    for root in _roots_near(plan.root):
        yield replace(plan, root=root)
    if plan.then is not None:
        for then in plans_near(plan.then):
            yield replace(plan, then=then)


def _roots_near(root: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    *once, grid = root
    for near in _steps_near((*once, *grid.body)):
        if near[: len(once)] == tuple(once):  # a fold of a work tile stays one
            yield (*once, replace(grid, body=near[len(once) :]))
    for number, step in enumerate(grid.body):
        if isinstance(step, Loop) and not step.carries and step.kind == "seq":
            body = (*grid.body[:number], *step.body, *grid.body[number + 1 :])
            yield (*once, replace(grid, axes=(*grid.axes, *step.axes), body=body))


def _steps_near(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Steps with one loop changed, two folds in a row as one, or one as two in a row."""
    for number, step in enumerate(steps):
        if not isinstance(step, Loop):
            continue
        before, after = steps[:number], steps[number + 1 :]
        yield from ((*before, near, *after) for near in _loops_near(step))
        if parts := _apart(step):
            yield (*before, *parts, *after)
        if after and isinstance(other := after[0], Loop) and (both := _together(step, other)):
            yield (*before, both, *after[1:])


def _loops_near(loop: Loop) -> Iterator[Loop]:
    if loop.kind != "grid" and not any(isinstance(s, Product) for s in loop.body):
        yield from (replace(loop, kind=kind) for kind in INNER if kind != loop.kind)
    if loop.carries and len(loop.axes) > 1:
        for number in range(len(loop.axes) - 1):
            axes = (*loop.axes[:number], *loop.axes[number + 1 :], loop.axes[number])
            yield replace(loop, axes=axes)
    yield from (_asked_inside(loop, c) for c in loop.where if loop.carries)
    for body in _steps_near(loop.body):
        yield replace(loop, body=body)


def _asked_inside(loop: Loop, condition: Cmp) -> Loop:
    """A fold over more points, whose terms are neutral where the condition fails."""
    carries = tuple(
        replace(c, tile=guarded(c.monoid, c.tile, (condition,))) if c.product is None else c
        for c in loop.carries
    )
    where = tuple(c for c in loop.where if c != condition)
    return replace(loop, where=where, carries=carries)


def _apart(loop: Loop) -> tuple[Loop, ...]:
    """A loop for each carry, in order; none where one reads another, or what is inside of the loop."""
    if len(loop.carries) < 2 or loop.body or any(c.product or c.correct for c in loop.carries):
        return ()
    if any(isinstance(e, Carried) for e in walk([c.tile for c in loop.carries])):
        return ()
    parts: list[Loop] = []
    for i, c in enumerate(loop.carries):
        own = tuple((r, e) for r, e in loop.results if e is carried(i, "new", c.value.dtype))
        moved = tuple((r, carried(0, "new", c.value.dtype)) for r, _ in own)
        parts.append(replace(loop, carries=(c,), results=moved))
    complete = sum(len(p.results) for p in parts) == len(loop.results)
    return tuple(parts) if complete else ()


def _together(one: Loop, other: Loop) -> Loop | None:
    """Both folds as one; None where they are over other points, or the second needs the first."""
    same = (one.axes, one.kind, one.where) == (other.axes, other.kind, other.where)
    plain = all(c.product is None and c.correct is None for c in (*one.carries, *other.carries))
    if not same or not plain or not one.carries or not other.carries or one.body or other.body:
        return None
    results = {r for r, _ in one.results}
    if results.intersection(walk([c.tile for c in other.carries])):
        return None
    varying = [bool(free_axes(c.value)) for c in (*one.carries, *other.carries)]
    if len(set(varying)) > 1 or not _same_type((*one.carries, *other.carries)):
        return None
    shift = {
        carried(i, "new", c.value.dtype): carried(i + len(one.carries), "new", c.value.dtype)
        for i, c in enumerate(other.carries)
    }
    moved = tuple((r, map_expr(e, shift)) for r, e in other.results)
    carries = (*one.carries, *other.carries)
    return replace(one, carries=carries, results=(*one.results, *moved))


def _same_type(carries: Sequence[Carry]) -> bool:
    return len({c.value.dtype for c in carries}) == 1 and all(
        isinstance(c.value, Reduce) for c in carries
    )
