"""sweeps: the plan that runs anything, one loop for each group of independent reductions.

Before: a region of stores over the same axes.  After: one kernel. Its grid loop has, in order, the folds that compute
the reductions and the stores; reductions that vary with the last axis are in a loop over it. Axes that no reduction
varies with have loops of their own after the folds, so that nothing is reduced twice. A buffer that is overwritten has
loops over the elements that change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.dtype import DType, i32
from lumigen.index import Axis, Ix, Lookup, extent_of, ix
from lumigen.lower.float_states import affine_places, in_floats
from lumigen.lower.runs import vary, visited
from lumigen.lower.scope import (
    address,
    adds_integers,
    floats_of,
    is_per_lane,
    kernel_reductions,
    lanes_fit,
)
from lumigen.lower.together import rows_together
from lumigen.lower.vector_forms import whole_floats
from lumigen.lower.widths import dtypes_of
from lumigen.lower.window import windowed
from lumigen.machine import Machine, Teams, Vectors
from lumigen.plan import Carry, KernelPlan, Loop, LoopFold, Step
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
    Region,
    Store,
    carried,
    children,
    free_axes,
    indices_of,
    map_expr,
    reduce,
    substitute,
    walk,
)
from lumigen.tile import whole_of


def plan_sweeps(region: Region, machine: Machine) -> KernelPlan:
    """The plan of a region; where a machine has teams, the threads of a block share rows."""
    teams, vectors = machine.teams, machine.vectors
    merged = rows_together(merge_axes(region.stores, teams), teams)
    stores, where = _changed(merged, vectors)
    store, lane = stores[-1], lane_axis(stores[-1], vectors)
    kind = lane_kind(stores, lane, vectors, team=teams is not None)
    at = Around(vectors, teams)
    reductions = [
        r
        for r in kernel_reductions(s.value for s in reversed(stores))
        if free_axes(r) <= set(store.axes)
    ]
    inner = [r for r in reductions if lane is not None and lane in free_axes(r)]
    outer = [r for r in reductions if r not in inner]
    once = tuple(at.fold(g) for g in sweeps_in_order(r for r in outer if not free_axes(r)))
    folds = tuple(at.fold(g) for g in sweeps_in_order(r for r in outer if free_axes(r)))
    in_lanes = tuple(at.inside(kind).fold(g) for g in sweeps_in_order(inner))
    after = axes_after(stores, vectors)
    rows = tuple(a for a in store.axes if a is not lane and a not in after)
    if lane is None:
        body = _seq(after, stores)
    elif in_lanes:
        body = (Loop((lane,), kind, (*in_lanes, *_seq(after, stores))),)
    else:
        body = _seq(after, (Loop((lane,), kind, stores),))
    grid = replace(grid_loop(rows, (*folds, *body)), where=where)
    return KernelPlan(Region(merged, region.lines), (*once, grid))


def _changed(
    stores: tuple[Store, ...], vectors: Vectors
) -> tuple[tuple[Store, ...], tuple[Cmp, ...]]:
    """The stores, of one that reduces nothing only what it changes; and where it does."""
    (store, *others) = stores
    if others or kernel_reductions([store.value]):
        return stores, ()
    changed, asked = windowed(store)
    if lane_axis(changed, vectors) in frozenset[Axis]().union(*(c.axes for c in asked)):
        return stores, ()
    return (changed,), asked


def lane_kind(stores: tuple[Store, ...], lane: Axis | None, vectors: Vectors, *, team: bool) -> str:
    """How a loop over the last axis runs: over lanes if vectors compute all that is in it."""
    if lane is not None and vectors_store(stores, lane, vectors):
        return "lanes"
    return "threads" if team else "seq"


def vectors_store(stores: tuple[Store, ...], lane: Axis, vectors: Vectors) -> bool:
    """Whether vectors along the lanes compute all that is stored."""
    dtypes = dtypes_of(vectors, [s.value for s in stores])
    found = [x for s in stores if (x := _over_lanes(s, lane, dtypes, vectors)) is not None]
    return len(found) == len(stores) and lanes_fit(found, lane, dtypes, integers=vectors.integers)


def _over_lanes(s: Store, lane: Axis, dtypes: frozenset[DType], vectors: Vectors) -> Expr | None:
    """What vectors compute of a value and store: numbers that lanes have, or integers that they add up."""
    value = s.value
    found = floats_of(value, s.dst.dtype, integers=vectors.integers) or whole_of(value, s.dst.dtype)
    if found is not None and vectors.wholes:
        found = whole_floats(found) or found
    if found is not None and found.dtype in dtypes:
        return found
    added = vectors.integers and value.dtype is s.dst.dtype is i32 and adds_integers(value, lane)
    return value if added and any(whole_floats(x) is not None for x in walk([value])) else None


def _seq(axes: tuple[Axis, ...], body: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps for each point of the axes, if there are any."""
    return (Loop(axes, "seq", body),) if axes else body


@dataclass(frozen=True)
class Around:
    """Where a fold stands: in a loop over `lanes`, or over points that each thread of a team runs `alone`."""

    vectors: Vectors
    teams: Teams | None = None
    lanes: bool = False
    alone: bool = False

    def inside(self, kind: str) -> Around:
        """In a loop of this kind."""
        return replace(
            self, lanes=self.lanes or kind == "lanes", alone=self.alone or kind == "threads"
        )

    def fold(self, group: Sequence[Reduce]) -> Loop:
        """The loop that computes reductions over the same axes, with those inside of it."""
        first, last, kind = group[0], None, "seq"
        carries = tuple(Carry(r, r.monoid, r.body, None) for r in group)
        results = tuple((r, carried(i, "new", r.dtype)) for i, r in enumerate(group))
        fold = LoopFold(first.axes, carries, results, first.where)
        if not self.lanes and not self.alone:
            # a team's threads have their own sums, of any type
            vectors = in_floats(fold) if self.teams is None else fold
            along = self._vector_axis(first, vectors)
            if along is not None:
                fold, last, kind = vectors, along, "lanes"
            elif self.teams is not None and (dealt := self._dealt_axis(first, self.teams.warp)):
                last, kind = dealt, "threads"
        axes = (*(a for a in first.axes if a is not last), *((last,) if last else ()))
        within = self.inside(kind)
        body = tuple((within if last in free_axes(r) else self).fold((r,)) for r in _nested(group))
        return Loop(axes, kind, body, fold.carries, fold.results, first.where)

    def _vector_axis(self, r: Reduce, fold: LoopFold) -> Axis | None:
        """The reduced axis whose neighbouring points vectors take in together, if they have a form of the fold."""
        dtypes = dtypes_of(self.vectors)
        if any(c.value.dtype not in dtypes for c in fold.carries):
            return None
        along, tiles = _lane_axis(r, self.vectors), [c.tile for c in fold.carries]
        if along is None or not lanes_fit(tiles, along, dtypes):
            return None
        # integers one by one are faster than as vectors that are put together
        were_floats = all(r.dtype.is_float for r, _ in fold.results)
        fits = were_floats or all(_in_vectors(t, along, dtypes) for t in tiles)
        return along if fits else None

    def _dealt_axis(self, r: Reduce, warp: int) -> Axis | None:
        """The reduced axis whose points threads share: that along memory, unless a longer one busies more of them."""
        along = _lane_axis(r, self.vectors)
        longest = max(r.axes, key=lambda a: visited(r, a))
        if along is None or visited(r, along) < min(warp, visited(r, longest)):
            return longest if visited(r, longest) >= self.vectors.least else None
        return along


def _in_vectors(e: Expr, lanes: Axis, dtypes: frozenset[DType]) -> bool:
    """Whether vectors compute a value from the start, and none of it is computed for each lane by itself."""
    if affine_places(e, lanes) is not None:
        return True
    parts = children(e)
    return not is_per_lane(e, lanes, dtypes) and all(_in_vectors(x, lanes, dtypes) for x in parts)


def _nested(group: Sequence[Reduce]) -> list[Reduce]:
    """The reductions inside others that run again for each point of these, without those that are deeper inside."""
    axes = frozenset(group[0].axes)
    found = [r for r in kernel_reductions([r.body for r in group]) if free_axes(r) & axes]

    def is_deeper(r: Reduce) -> bool:
        return any(free_axes(r) & set(o.axes) and r in walk([o.body]) for o in found if o is not r)

    return [r for r in found if not is_deeper(r)]


def _lane_axis(r: Reduce, vectors: Vectors) -> Axis | None:
    """The reduced axis along which most reads are consecutive in memory; none if it is too short to pay."""

    def score(axis: Axis) -> int:
        return sum(
            address(e.source, e.at).coefficient(axis) == 1
            for e in walk([r.body])
            if isinstance(e, Read)
        )

    best = max(reversed(r.axes), key=score)
    return best if visited(r, best) >= vectors.least else None


def axes_after(stores: tuple[Store, ...], vectors: Vectors) -> tuple[Axis, ...]:
    """The axes of the stores, but for the lanes, that no reduction in them varies with; none where none is reduced.

    A loop over them belongs after the folds, which would else run again for each of their points.
    """
    lane = lane_axis(stores[-1], vectors)
    found = kernel_reductions(s.value for s in stores)
    varying = frozenset[Axis]().union(*map(free_axes, found))
    apart = (a for a in stores[-1].axes if a is not lane and a not in varying)
    return tuple(a for a in apart if a.extent != 1) if found else ()


def grid_loop(axes: tuple[Axis, ...], body: tuple[Step, ...]) -> Loop:
    """Independent work tiles over the product of `axes`."""
    return Loop(axes, "grid", body)


def lane_axis(store: Store, vectors: Vectors) -> Axis | None:
    """The axis whose neighbouring points a vector computes: the last one, where that pays.

    It does not if the axis has one point, or if the reductions that vary with it read memory along their own axes,
    and these are longer than a window, or whole vectors of windows that lie side by side and share nothing: then each
    of them runs over lanes of its own, unless what is made of them is a map of so many more points that vectors belong
    there. Nor if one of them has a loop whose bounds are read for each of its points: lanes have one loop.
    """
    if not store.axes or store.axes[-1].extent == 1:
        return None
    last = store.axes[-1]
    varying = [r for r in kernel_reductions([store.value]) if last in free_axes(r)]
    if any(vary(r, last) for r in varying):
        return None
    if not varying or any(consecutive(r, (last,)) for r in varying):
        return last
    long = [
        tuple(
            a
            for a in r.axes
            if a.extent.estimate() >= vectors.window or _lie_side_by_side(r, a, last, vectors)
        )
        for r in varying
    ]
    along = all(consecutive(r, axes) for r, axes in zip(varying, long, strict=True))
    terms = sum(extent_of((*r.axes, *free_axes(r))).estimate() for r in varying)
    is_map = extent_of(store.axes).estimate() >= vectors.mapped * terms
    return None if along and not is_map else last


def _lie_side_by_side(r: Reduce, a: Axis, last: Axis, vectors: Vectors) -> bool:
    """Whether the windows of neighbours have whole vectors along an axis of a reduction, which memory has in a row.

    Not of what is made of other reductions, which all windows of a row would find by themselves.
    """
    if kernel_reductions([r.body]):
        return False
    reads = (address(e.source, e.at) for e in walk([r.body]) if isinstance(e, Read))
    along = [(at.coefficient(a), at.coefficient(last)) for at in reads if a in at.axes]
    whole = vectors.beside and a.extent.is_const and a.extent % vectors.beside == 0
    return bool(whole and along) and all(pair == (ix(1), a.extent) for pair in along)


def consecutive(r: Reduce, axes: tuple[Axis, ...]) -> bool:
    """Whether a term reads something whose neighbours along one of the axes are neighbours in memory.

    What is the same in all terms is read once and does not count.
    """
    nodes = walk([r.body])
    places = [address(e.source, e.at) for e in nodes if isinstance(e, Read)]
    found = (a for e in nodes for i in indices_of(e) for a in i.atoms())
    places += [
        address(a.source, a.at)
        for a in found
        if isinstance(a, Lookup) and isinstance(a.source, Buffer)
    ]
    own = frozenset(r.axes)
    return any(place.coefficient(a) == 1 for place in places if place.axes & own for a in axes)


def sweeps_in_order(reductions: Iterable[Reduce]) -> list[tuple[Reduce, ...]]:
    """Reductions that share a loop: the same axes and conditions, none needing another of the group."""
    groups: list[list[Reduce]] = []
    place: dict[Reduce, int] = {}
    for r in reductions:
        needed = [place[x] + 1 for x in walk([r.body]) if isinstance(x, Reduce) and x in place]
        first = max(needed, default=0)
        fits = [i for i in range(first, len(groups)) if _stand_together(groups[i][0], r)]
        if fits:
            place[r] = fits[0]
            groups[fits[0]].append(r)
        else:
            place[r] = len(groups)
            groups.append([r])
    return [tuple(g) for g in groups]


def _stand_together(one: Reduce, other: Reduce) -> bool:
    """Whether one loop can compute both; what does not vary at all is computed once, ahead of the rest."""
    constant = bool(free_axes(one)) == bool(free_axes(other))
    same = one.axes == other.axes and one.where == other.where
    return same and one.dtype is other.dtype and constant


def merge_axes(stores: tuple[Store, ...], teams: Teams | None = None) -> tuple[Store, ...]:
    """Join neighbouring axes of maps wherever all their addresses stay affine: fewer, longer loops.

    Each reduction varies with both of them or with none, so that none runs more often. Threads that share short rows
    run through several of them at once, and find what each row has by a quotient.
    """
    reductions = kernel_reductions(s.value for s in stores)
    position = len(stores[-1].axes) - 2
    while position >= 0:
        axes = stores[-1].axes
        left, right = axes[position : position + 2]
        joined, split = _join(left, right)
        axes = (*axes[:position], joined, *axes[position + 2 :])
        if all(_vary_alike(r, left, right) for r in reductions):
            moved = tuple(
                Store(
                    s.dst,
                    axes,
                    tuple(i.substitute(split) for i in s.at),
                    substitute(s.value, split),
                )
                for s in stores
            )
            addresses = [address(s.dst, s.at) for s in moved]
            addresses += [a for s in moved for a in _addresses(s.value)]
            whole = all(a.coefficient(joined) is not None for a in addresses)
            if whole or (teams is not None and _is_flat(stores, left, right, joined, split, teams)):
                stores = moved
                reductions = kernel_reductions(s.value for s in stores)
        position -= 1
    return stores


def _is_flat(
    stores: tuple[Store, ...],
    left: Axis,
    right: Axis,
    joined: Axis,
    split: Mapping[Axis, Ix],
    teams: Teams,
) -> bool:
    """Whether threads had better run through the last two axes at once: through whole vectors, or with none idle.

    What is read once for all points of the last one is found by a quotient then. That pays where these are no whole
    vectors, and few; and behind folds, where they leave most threads of a block idle.
    """
    if stores[-1].axes[-1] != right or not right.extent.is_const:
        return False
    places = [address(s.dst, s.at) for s in stores]
    places += [a for s in stores for a in _addresses(s.value)]
    along = [a for a in places if right in a.axes]
    if any(a.substitute(split).coefficient(joined) != ix(1) for a in along):
        return False
    found = kernel_reductions(s.value for s in stores)
    if any(left in free_axes(r) for r in found):
        return False
    sizes = [s.dst.dtype.itemsize for s in stores]
    sizes += [e.source.dtype.itemsize for e in walk(s.value for s in stores) if isinstance(e, Read)]
    row, vector = right.extent.const * min(sizes), teams.lane_bytes
    if found:
        return row < vector * teams.threads
    return row % vector != 0 and 2 * row < vector * teams.warp


def _vary_alike(r: Reduce, left: Axis, right: Axis) -> bool:
    """Whether a reduction varies with both axes or with none, and asks for no place along them."""
    asked = frozenset(a for c in r.where for a in c.axes)
    varying = free_axes(r)
    return (left in varying) == (right in varying) and not asked & {left, right}


def merge_kept(region: Region, teams: Teams | None) -> Region:
    """The region over axes of its stores that are joined so."""
    return replace(region, stores=merge_axes(region.stores, teams))


def merge_reduced(region: Region) -> Region:
    """Join neighbouring axes of reductions in the same way: what lies in a row is one loop, and one row to divide."""
    merged: dict[Expr, Expr] = {}
    for r in kernel_reductions(s.value for s in region.stores):
        whole = map_expr(r, merged)
        if isinstance(whole, Reduce) and (joined := _with_joined_axes(whole)) is not r:
            merged[r] = joined
    stores = (replace(s, value=map_expr(s.value, merged)) for s in region.stores)
    return replace(region, stores=tuple(stores)) if merged else region


def _with_joined_axes(r: Reduce) -> Expr:
    axes, body = r.axes, r.body
    guarded = frozenset(a for c in r.where for a in c.axes)
    for position in reversed(range(len(axes) - 1)):
        left, right = axes[position : position + 2]
        joined, split = _join(left, right)
        moved = substitute(body, split)
        places = _addresses(moved)
        affine = all(a.coefficient(joined) is not None for a in places)
        if affine and not guarded & {left, right}:
            axes, body = (*axes[:position], joined, *axes[position + 2 :]), moved
    return r if axes == r.axes else reduce(r.monoid, axes, body, r.dtype, r.where)


def _join(left: Axis, right: Axis) -> tuple[Axis, dict[Axis, Ix]]:
    """One axis over the product of two, and each of them as an expression of it."""
    joined = Axis(f"{left.name}{right.name}", left.extent * right.extent)
    return joined, {left: ix(joined) // right.extent, right: ix(joined) % right.extent}


def _addresses(value: Expr) -> list[Ix]:
    """The places that are read, and what else is computed of axes."""
    out: list[Ix] = []
    for e in walk([value]):
        out.extend([address(e.source, e.at)] if isinstance(e, Read) else indices_of(e))
    return out
