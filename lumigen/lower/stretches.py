"""stretches: cut a loop over lanes where the conditions of what it computes change.

Before: a value over lanes with a choice between reads, one of which may lie outside its buffer: the halves of a
concatenation, a rotated half, a padded edge, also of windows that are summed up.  After: the same value over several
axes in sequence, each with a part of the lanes, so that index arithmetic decides the choice in each part and its reads
are vectors.

Without it such a choice is evaluated lane by lane.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.index import Axis, Ix, ix, maximum, minimum
from lumigen.lower.scope import is_per_lane
from lumigen.region import Choose, Holds, Reduce, Store, substitute, walk


@dataclass(frozen=True)
class Stretch:
    """Lanes as an axis of their own, from 0 on, with the stores and conditions over it.

    `moved` is the axis that it is a part of, as an expression of it.
    """

    lane: Axis
    stores: tuple[Store, ...]
    where: tuple[Cmp, ...]
    moved: Mapping[Axis, Ix]

    def among(self, lanes: tuple[Ix, Ix]) -> tuple[Ix, Ix]:
        """The first one that is among these lanes of the whole, and the end; none where both are the same."""
        if not self.moved:
            return lanes
        (there,) = self.moved.values()
        start, end = there - self.lane, self.lane.extent
        lo, hi = (minimum(maximum(i - start, ix(0)), end) for i in lanes)
        return lo, hi


def stretches(whole: Stretch, most: int) -> tuple[Stretch, ...]:
    """The stretches of the lanes in order, at most so many; the whole alone where nothing is to be gained."""
    if not whole.lane.extent.is_const:
        return (whole,)
    length = whole.lane.extent.const
    cuts = {cut for s in whole.stores for cut in _cuts(s, whole.lane) if 0 < cut < length}
    ends = [0, *sorted(cuts), length]
    if not 2 < len(ends) <= most + 1:
        return (whole,)
    return tuple(_part(whole, lo, hi - lo) for lo, hi in itertools.pairwise(ends))


def _cuts(store: Store, lane: Axis) -> Iterator[int]:
    """The lanes at which a condition that is evaluated lane by lane begins or ceases to hold.

    One that the points of a reduction share: to hold for all of them, if it does so for most lanes. So it is in the
    middle of an image whose edges are padded.
    """
    length = lane.extent.const
    for c in _conditions(store, lane):
        factor = c.slack.coefficient(lane)
        if factor is None or not factor.is_const or factor == 0:
            continue
        rest = c.slack - factor * lane  # factor * lane + rest >= 0
        least = rest.bounds()[0]
        if least is None or not rest.axes.isdisjoint(store.axes):
            continue
        begins = factor.const > 0
        cut = -(least // factor.const) if begins else least // -factor.const + 1
        if rest.is_const or (2 * cut <= length if begins else 2 * cut >= length):
            yield cut


def _conditions(store: Store, lane: Axis) -> Iterator[Cmp]:
    """Those that are asked in each lane: of choices without a vector form, and of terms of reductions."""
    for e in walk([store.value]):
        if isinstance(e, Choose) and isinstance(e.condition, Holds) and is_per_lane(e, lane):
            yield from e.condition.conditions
        elif isinstance(e, Reduce):
            yield from e.where


def _part(whole: Stretch, lo: int, count: int) -> Stretch:
    lane = Axis(f"{whole.lane.name}_from_{lo}" if lo else whole.lane.name, ix(count))
    moved = {whole.lane: ix(lane) + lo}
    stores = tuple(
        replace(
            s,
            axes=tuple(lane if a == whole.lane else a for a in s.axes),
            at=tuple(i.substitute(moved) for i in s.at),
            value=substitute(s.value, moved),
        )
        for s in whole.stores
    )
    where = tuple(c.substitute(moved) for c in whole.where)
    return Stretch(lane, stores, where, moved)
