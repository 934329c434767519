"""join: a value that one region stores and another computes on its way is computed once.

Before: regions of one store each, over canonical axes.  After: where the value of a region is one that another has
over the same axes, both are one region of vector loops, which stores the inner value first and its whole last. Other
builders have parts of a value in registers, where no second store could read it; but the states of a fold are complete
when it ends. So a region is also joined to one with a reduction in common, if one fold computes both: what a softmax
weights, and the logarithm of the sum that it divides by. And vector loops that reduce rows are joined to those that
reduce what is made of the results of the same rows: a task has both, and reads its row once. So are maps of the same
elements: each is read once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations

from lumigen.dtype import computed
from lumigen.index import Axis, Ix, ix
from lumigen.lower.axes import shared_axes, unify_axes
from lumigen.lower.canonical import canonical
from lumigen.lower.of_places import with_elements
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
    Region,
    Role,
    Scan,
    Store,
    map_expr,
    read,
    substitute,
    walk,
)

Asked = Callable[[Region], bool]


@dataclass(frozen=True)
class Whole:
    """A region, every value that its last store has, what is among them, and the buffers that are read and stored."""

    region: Region
    values: frozenset[Expr] = field(init=False)
    reads: frozenset[Buffer] = field(init=False)
    stored: frozenset[Buffer] = field(init=False)
    is_scan: bool = field(init=False)
    reduces: bool = field(init=False)

    def __post_init__(self) -> None:
        values = frozenset(walk([self.region.stores[-1].value]))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "reads", frozenset(self.region.reads()))
        object.__setattr__(self, "stored", frozenset(s.dst for s in self.region.stores))
        object.__setattr__(self, "is_scan", any(isinstance(e, Scan) for e in values))
        object.__setattr__(self, "reduces", any(isinstance(e, Reduce) for e in values))


Partners = Callable[[list[Whole], Whole], Iterator[tuple[int, Region]]]


def join_regions(
    regions: tuple[Region, ...],
    in_loops: Asked,
    runs_whole: Asked = lambda _: False,
    whole: Callable[[Buffer], Buffer] = lambda b: b,
    selects: Asked = lambda _: False,
    apart: Asked | None = None,
    maps: int = 0,
    stores_types: Asked = lambda _: False,
) -> tuple[Region, ...]:
    """The regions of an entry in launch order, joined where that computes something once.

    `in_loops` says whether a region runs as vector loops, `runs_whole` whether a skeleton folds all of it in one loop,
    `whole` what a buffer is a slice of, `selects` whether a native kernel stores what lies at the places that it finds.
    What would be a canonical region that is `apart` is not joined. Of maps that read the same, one loop stores as many
    as `maps`; `stores_types` whether what several stores of other types are made of is computed together.
    """
    partners = partial(
        _partners,
        in_loops=in_loops,
        runs_whole=runs_whole,
        selects=selects,
        maps=maps,
        stores_types=stores_types,
    )
    return join_by(regions, partners, whole, apart)


def join_by(
    regions: tuple[Region, ...],
    partners: Partners,
    whole: Callable[[Buffer], Buffer],
    apart: Asked | None = None,
) -> tuple[Region, ...]:
    """The regions in launch order, each joined to those of its partners that it can be launched with."""
    out: list[Whole] = []
    for region in regions:
        _add(out, Whole(region), partners, whole, apart)
    return tuple(w.region for w in out)


def _add(
    out: list[Whole],
    made: Whole,
    partners: Partners,
    whole: Callable[[Buffer], Buffer],
    apart: Asked | None,
) -> None:
    """Put a region after the others, joined to those that it can run with."""
    for i, joined in partners(out, made):
        first, before, after = out[i].region, list[Whole](), list[Whole]()
        for w in out[i + 1 :]:
            comes_after = _meets(w.region, (first, *(x.region for x in after)), whole)
            (after if comes_after else before).append(w)
        splits = _loops_in(before, first) & _loops_in(after, first)
        others = (first, *(x.region for x in after))
        if splits or _meets(_within(joined, made.region), others, whole):
            continue
        if apart is not None and apart(canonical(unify_axes(joined)).region):
            continue
        out[i:] = before
        if after:
            out += [Whole(joined), *after]
        else:
            _add(out, Whole(joined), partners, whole, apart)
        return
    out.append(made)


def _within(joined: Region, region: Region) -> Region:
    """What a region stores as a region that it is joined to has it: it may read less there."""
    stored = {s.dst for s in region.stores}
    return replace(region, stores=tuple(s for s in joined.stores if s.dst in stored))


def _loops_in(those: list[Whole], beside: Region) -> set[Axis]:
    """The loops that some regions are steps of, which another beside them is not."""
    depth = len(beside.steps)
    return {a for w in those for a in w.region.steps[depth : depth + 1]}


def _partners(
    out: list[Whole],
    made: Whole,
    *,
    in_loops: Asked,
    runs_whole: Asked,
    selects: Asked,
    maps: int,
    stores_types: Asked,
) -> Iterator[tuple[int, Region]]:
    """The regions that can run with the last one, and both as one."""
    for i, earlier in enumerate(out):
        if earlier.region.steps != made.region.steps or earlier.is_scan or made.is_scan:
            continue
        if earlier.region.native and selects(earlier.region):
            found = with_elements(earlier.region, made.region)
            if found is not None:
                yield i, unify_axes(found)
            continue
        valued = _with_values(made, earlier)
        joined = _joined(earlier, made if valued is None else valued, stores_types)
        if (
            joined is not None
            and in_loops(earlier.region)
            and in_loops(made.region)
            and (valued is None or in_loops(joined))
        ):
            yield i, joined
        elif (of_rows := _after_results(earlier, made)) is not None and all(
            in_loops(r) for r in (earlier.region, made.region, of_rows)
        ):
            yield i, of_rows
        elif earlier.reduces and made.reduces and _nested(earlier.reads, made.reads):
            folded = fold_together((earlier.region, made.region))
            if folded is not None and runs_whole(folded):
                yield i, folded
    if in_loops(made.region) and _is_map(made):
        yield from _maps_of_the_same(out, made, in_loops, maps)


def _maps_of_the_same(
    out: list[Whole], made: Whole, in_loops: Asked, most: int
) -> Iterator[tuple[int, Region]]:
    """The maps that read an element at each of its points that it reads as well, without a product in between.

    What is made long before it is read takes memory meanwhile.
    """
    last = made.region.stores[-1]
    for i in reversed(range(len(out))):
        earlier = out[i]
        if earlier.region.steps != made.region.steps or not in_loops(earlier.region):
            return
        first = earlier.region.stores[-1]
        if not _is_map(earlier) or first.axes != last.axes:
            continue
        if len(earlier.region.stores) + len(made.region.stores) > most:
            continue
        alike = computed(first.dst.dtype) is computed(last.dst.dtype)
        if alike and read_the_same(first, last):
            yield i, as_one((earlier.region, made.region))


def _is_map(w: Whole) -> bool:
    return not (w.reduces or w.is_scan or w.region.native)


def read_the_same(a: Store, b: Store) -> bool:
    """Whether two stores over the same axes both read an element at each of their points."""
    common = frozenset(walk([a.value])) & frozenset(walk([b.value]))
    return any(_is_of_all(e, a.axes) for e in common)


def _is_of_all(e: Expr, axes: Sequence[Axis]) -> bool:
    """Whether an expression reads at places that vary with all of some axes."""
    if not isinstance(e, Read):
        return False
    varies = frozenset[Axis]().union(*(i.axes for i in e.at))
    return all(a in varies for a in axes if a.extent != 1)


def _with_values(made: Whole, earlier: Whole) -> Whole | None:
    """The region with what it reads of an earlier one computed by itself, where one loop does: a mean and a variance.

    None where it reads nothing of it, or at other points, or rounded; or where its reductions are over other points
    than all of the earlier one's.
    """
    if not earlier.reduces or made.reads.isdisjoint(earlier.stored):
        return None
    region, main = made.region, made.region.stores[-1]
    stored = {s.dst: s for s in earlier.region.stores if s.dst.role is not Role.STATE}
    nodes = walk(s.value for s in region.stores)
    found = [e for e in nodes if isinstance(e, Read) and e.source in stored]
    theirs, own = (_lengths(w) for w in (earlier, made))
    alike = all(s.axes == main.axes for s in region.stores)
    if not found or not theirs or not alike or not all(one in theirs for one in own):
        return None
    values: dict[Expr, Expr] = {}
    for e in found:
        s = stored[e.source]
        if [a.extent for a in s.axes] != [a.extent for a in main.axes]:
            return None
        points: dict[Axis, Ix] = {a: ix(b) for a, b in zip(s.axes, main.axes, strict=True)}
        if s.dst.dtype is not s.value.dtype or e.at != tuple(i.substitute(points) for i in s.at):
            return None
        values[e] = substitute(s.value, points)
    stores = tuple(replace(s, value=map_expr(s.value, values)) for s in region.stores)
    return Whole(replace(region, stores=stores))


def _lengths(w: Whole) -> list[list[Ix]]:
    """Of the axes of each reduction."""
    return [[a.extent for a in e.axes] for e in w.values if isinstance(e, Reduce)]


def _nested(a: frozenset[Buffer], b: frozenset[Buffer]) -> bool:
    return a <= b or b <= a


def _joined(first: Whole, second: Whole, stores_types: Asked) -> Region | None:
    """Both as one region; None if neither has the value of the other, or no loop computes both."""
    for inner, outer in ((first, second), (second, first)):
        a, b = inner.region.stores[-1], outer.region.stores[-1]
        if a.value not in outer.values or a.axes != b.axes:
            continue
        joined = as_one((inner.region, outer.region))
        alike = computed(a.dst.dtype) is computed(b.dst.dtype)
        if alike or (inner.reduces and stores_types(joined)):
            return joined
    return None


def _after_results(first: Whole, second: Whole) -> Region | None:
    """Both as one region where the second reduces what it makes of results of the first, each at its own point."""
    if not (first.reduces and second.reduces):
        return None
    if second.reads.isdisjoint(first.stored):
        return None
    known: dict[Expr, Expr] = {}
    for s in first.region.stores:
        if s.axes != second.region.stores[-1].axes or s.at != tuple(map(ix, s.axes)):
            return None
        if computed(s.dst.dtype) is s.dst.dtype:
            known[read(s.dst, s.at)] = s.value
    stores = tuple(replace(s, value=map_expr(s.value, known)) for s in second.region.stores)
    within = replace(second.region, stores=stores)
    if within == second.region or not first.stored.isdisjoint(within.reads()):
        return None
    return unify_axes(as_one((first.region, within)))


def fold_together(regions: Sequence[Region]) -> Region | None:
    """The regions as one, over canonical axes; None where some of them has no reduction of the last.

    The last is the one over the most axes. The others are over some of these.
    """
    *others, main = sorted(regions, key=lambda r: sum(a.extent != 1 for a in r.stores[-1].axes))
    within = replace(main.stores[-1], value=shared_axes(main.stores[-1].value))
    stores: list[Store] = []
    for store in (s for other in others for s in other.stores):
        moved = _moved(store, within)
        if moved is None:
            return None
        stores.append(moved)
    joined = as_one((*others, main))
    return unify_axes(replace(joined, stores=(*stores, *main.stores)))


def _moved(store: Store, main: Store) -> Store | None:
    """The store over axes of another, so that they have as many reductions in common as they can, but one at least."""
    theirs = {e for e in walk([main.value]) if isinstance(e, Reduce)}
    single = {a: ix(0) for a in store.axes if a.extent == 1}
    axes = [a for a in store.axes if a not in single]
    best, most = None, 0
    for chosen in permutations(main.axes, len(axes)):
        if any(a.extent != b.extent for a, b in zip(axes, chosen, strict=True)):
            continue
        names: dict[Axis, Ix] = single | {a: ix(b) for a, b in zip(axes, chosen, strict=True)}
        value = shared_axes(substitute(store.value, names))
        common = len(theirs.intersection(walk([value])))
        if common > most:
            at = tuple(i.substitute(names) for i in store.at)
            best, most = Store(store.dst, chosen, at, value), common
    return best


def as_one(regions: Iterable[Region]) -> Region:
    """What all of them store, in their order."""
    each = tuple(regions)
    lines = dict.fromkeys(line for r in each for line in r.lines)
    in_order = sorted(lines, key=lambda line: (line.file, line.line))
    stores = tuple(s for r in each for s in r.stores)
    return Region(stores, tuple(in_order), steps=each[-1].steps)


def _meets(region: Region, others: Iterable[Region], whole: Callable[[Buffer], Buffer]) -> bool:
    """Whether it keeps its place beside one of these: one stores what the other reads or stores.

    A new version of a state may lie where the old one does. Within a step of a loop slices are told apart; from outside
    each is all of its tensor.
    """

    def meet(a: Region, b: Region) -> bool:
        def found(buffers: Iterable[Buffer]) -> set[Buffer]:
            return set(buffers) if a.steps and a.steps == b.steps else set(map(whole, buffers))

        stored, other = (found(s.dst for s in r.stores) for r in (a, b))
        return bool(stored & (other | found(b.reads())) or other & found(a.reads()))

    return any(meet(region, r) for r in others)
