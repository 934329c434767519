"""held_rows: folds of several rows in one loop, whose accumulators do not wait for each other.

Before: a fold of a row, and how many rows are held together.  After: where these rows are, as coordinates for each,
and one fold with the accumulators of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lumigen.index import Axis, Ix, ix
from lumigen.lower.interchange import has_sums
from lumigen.lower.scope import Scope, moved
from lumigen.plan import Carry, Loop
from lumigen.region import Expr, Read, carried, free_axes, map_expr, walk


def places_of(scope: Scope, rows: tuple[Axis, ...], group: Axis, held: int) -> list[dict[Axis, Ix]]:
    """The coordinates of each row of a group; all but the last are the same where groups end with a run of the last."""
    *ones, last = rows
    if last.extent % held == 0:
        first = Axis(f"{last.name}_group", last.extent // held)
        scope.spread(group, (*ones, first))
        at = {a: ix(a) for a in ones}
        return [{**at, last: ix(first) * held + number} for number in range(held)]
    places = list[dict[Axis, Ix]]()
    for number in range(held):
        axes = tuple(Axis(f"{a.name}_{number}", a.extent) for a in rows)
        scope.spread(ix(group) * held + number, axes)
        places.append({a: ix(b) for a, b in zip(rows, axes, strict=True)})
    return places


def beside(fold: Loop, places: Sequence[Mapping[Axis, Ix]]) -> Loop:
    """The folds of several places as one loop."""
    carries, results = list[Carry](), list[tuple[Expr, Expr]]()
    for place in places:
        there = moved(fold, place)
        shift = {
            carried(i, "new", c.value.dtype): carried(i + len(carries), "new", c.value.dtype)
            for i, c in enumerate(there.carries)
        }
        results += [(r, map_expr(e, shift)) for r, e in there.results]
        carries += there.carries
    return replace(fold, carries=tuple(carries), results=tuple(results))


def share_vectors(folds: Sequence[Loop], lane: Axis, rows: Sequence[Axis]) -> bool:
    """Whether folds read a vector at each of their points that is the same one along all of these rows."""
    along = {a for a in rows if a.extent != 1}
    if not along or any(fold.where or not has_sums(fold) for fold in folds):
        return False
    folded = {a for fold in folds for a in fold.axes}
    reads = (
        e for e in walk([c.tile for fold in folds for c in fold.carries]) if isinstance(e, Read)
    )
    varying = map(free_axes, reads)
    return any(lane in v and v & folded and not v & along for v in varying)
