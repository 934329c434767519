"""window: of a buffer that is written over only what changes is touched.

Before: `dst[i] = new if 0 <= i - p < n else dst[i]` for every i.  After: `dst[p + j] = new` for j below n, where
p + j is inside the buffer. p may be an integer that is read when the kernel runs.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.condition import Cmp
from lumigen.index import Axis, Ix, Lookup, ix
from lumigen.lower.scope import is_safe
from lumigen.region import Choose, Holds, Read, Store, choose, const, holds, substitute


def windowed(store: Store) -> tuple[Store, tuple[Cmp, ...]]:
    """The store over what changes alone, and where it is to store; the store itself where it says no such thing."""
    changed = store.value
    if not isinstance(changed, Choose) or not isinstance(changed.condition, Holds) or store.add:
        return store, ()
    kept = changed.otherwise
    if not isinstance(kept, Read) or kept.source != store.dst or kept.at != store.at:
        return store, ()
    where = changed.condition.conditions
    moved: dict[Axis, Ix] = {}
    axes: list[Axis] = []
    for axis in store.axes:
        found = _window(axis, where)
        if found is None:
            axes.append(axis)
            continue
        start, length = found
        inner = Axis(axis.name, length)
        axes.append(inner)
        moved[axis] = start + inner
        where += (Cmp(ix(axis)), Cmp(axis.extent - 1 - axis))
    left = dict.fromkeys(c.substitute(moved) for c in where)
    at = tuple(i.substitute(moved) for i in store.at)
    value = substitute(changed.then, moved)
    asked = tuple(c for c in left if c.known() is not True)
    if asked and not is_safe(value, inside=True):
        value = choose(holds(asked), value, const(0, value.dtype))
    return replace(store, axes=tuple(axes), at=at, value=value), asked


def _window(axis: Axis, conditions: tuple[Cmp, ...]) -> tuple[Ix, Ix] | None:
    """(start, length) of the points that conditions leave of an axis, if they leave as many wherever it starts."""
    ends: dict[int, list[Ix]] = {1: [], -1: []}
    for c in conditions:
        factor = c.slack.coefficient(axis)
        if factor is not None and factor.is_const and factor.const in ends:
            ends[factor.const].append(c.slack - factor * axis)
    for low in ends[1]:
        for high in ends[-1]:
            length = low + high + 1  # -low <= axis <= high
            is_fixed = not length.axes and not any(isinstance(a, Lookup) for a in length.atoms())
            if is_fixed and length is not axis.extent:
                return -low, length
    return None
