"""plan_region: in which loops a region runs. The heuristic; a search would fill the same structure.

Before: a canonical region of one store.  After: one kernel. Its grid loop holds, in order, the folds that compute
the region's reductions and the map that stores. Reductions over one axis share a loop where `separate` allows it
and the kernel holds a contraction inside (its scores would be recomputed for each sweep); elsewhere sweeps over
rows that stay in the caches are cheaper than corrections.
"""

from __future__ import annotations

from lumigen.index import Axis, Ix, ix
from lumigen.lower.cascade import find_cascade
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.simt import merge_axes
from lumigen.plan import Carry, KernelPlan, Loop, RegionPlan, Step
from lumigen.region import Reduce, Region, Store, carried, free_axes, walk


def plan_region(region: Region) -> RegionPlan:
    (store,) = region.stores
    store = merge_axes(store)
    found = find_cascade(store)
    if found is not None:
        fold = found.fold
        (k,) = fold.axes
        inner = Loop(fold.axes, "seq", ix(0), k.extent, fold.carries, (), results=fold.results)
        kernel = KernelPlan((_grid(store, (inner, store)),))
    else:
        kernel = KernelPlan((_swept(store),))
    return RegionPlan(Region((store,), region.lines), (kernel,))


def _grid(store: Store, body: tuple[Step, ...]) -> Loop:
    return Loop(store.axes, "grid", ix(0), _extent(store.axes), (), body)


def _extent(axes: tuple[Axis, ...]) -> Ix:
    total = ix(1)
    for a in axes:
        total = total * a.extent
    return total


def _swept(store: Store) -> Loop:
    """A grid over the store's axes; reductions stand in the outermost loop that has all their axes."""
    last = store.axes[-1] if store.axes else None
    reductions = kernel_reductions([store.value])
    outer = [r for r in reductions if last is None or last not in free_axes(r)]
    rows = store.axes[:-1] if last is not None and outer else store.axes
    ready = [r for r in outer if free_axes(r) <= set(rows)]
    body: list[Step] = [_fold(group) for group in sweeps_in_order(tuple(ready))]
    inner = [r for r in reductions if r not in ready and free_axes(r) <= set(store.axes)]
    folds: list[Step] = [_fold(group) for group in sweeps_in_order(tuple(inner))]
    if rows == store.axes:
        return _grid(store, (*body, *folds, store))
    assert last is not None
    body.append(Loop((last,), "seq", ix(0), last.extent, (), (*folds, store)))
    return Loop(rows, "grid", ix(0), _extent(rows), (), tuple(body))


def sweeps_in_order(reductions: tuple[Reduce, ...]) -> list[tuple[Reduce, ...]]:
    """Reductions that share a loop: the same axes and conditions, none needing another of the group."""
    groups: list[list[Reduce]] = []
    place: dict[Reduce, int] = {}
    for r in reductions:
        needed = [place[x] + 1 for x in walk([r.body]) if isinstance(x, Reduce) and x in place]
        first = max(needed, default=0)
        fits = [
            i
            for i in range(first, len(groups))
            if groups[i][0].axes == r.axes
            and groups[i][0].where == r.where
            and groups[i][0].dtype is r.dtype
        ]
        if fits:
            place[r] = fits[0]
            groups[fits[0]].append(r)
        else:
            place[r] = len(groups)
            groups.append([r])
    return [tuple(g) for g in groups]


def _fold(group: tuple[Reduce, ...]) -> Loop:
    axes = group[0].axes
    carries = tuple(Carry(r, r.monoid, r.body, None) for r in group)
    results = tuple((r, carried(i, "new", r.dtype)) for i, r in enumerate(group))
    return Loop(axes, "seq", ix(0), _extent(axes), carries, (), results=results)
