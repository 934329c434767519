"""runs: how many points reductions visit if integers that are read bound them.

    out[i] = sum over starts[i] <= k < starts[i + 1] of x[k]

Such runs are adjacent along the axis, one for each integer that is read, so all of them together have as many points as
the axis. Promises estimates, for schedules; the bounds decide what is computed.
"""

from __future__ import annotations

from math import prod

from lumigen.index import Axis, Lookup, extent_of, ix
from lumigen.region import Expr, Reduce


def visited(e: Expr, axis: Axis) -> int:
    """Points of an axis that is reduced in `e`, at the dims' typical values: of a run, one's share of the axis."""
    points = axis.extent.estimate()
    if not isinstance(e, Reduce):
        return points
    lows, highs = (_read(e, axis, below) for below in (True, False))
    neighbours = (
        (a, b) for a in lows for b in highs if a.source == b.source and a.at[-1:] != b.at[-1:]
    )
    runs = (extent_of(_along(a)).estimate() for pair in neighbours for a in pair)
    return -(-points // max(1, 1, *runs))


def terms_of(r: Reduce) -> int:
    """Terms of a reduction, at the dims' typical values."""
    return prod(visited(r, axis) for axis in r.axes)


def vary(r: Reduce, axis: Axis) -> bool:
    """Whether the bounds of a loop of the reduction are read anew for each point of an axis."""
    return any(
        axis in _along(a) for k in r.axes for below in (True, False) for a in _read(r, k, below)
    )


def _read(r: Reduce, axis: Axis, below: bool) -> list[Lookup]:
    """The integers that bound a reduced axis from below, or from above."""
    out: list[Lookup] = []
    for c in r.where:
        factor = c.slack.coefficient(axis)
        if factor is not None and factor.is_const and (factor.const > 0) == below and factor != 0:
            rest = c.slack - ix(axis) * factor
            out += (a for a in rest.atoms() if isinstance(a, Lookup))
    return out


def _along(a: Lookup) -> tuple[Axis, ...]:
    """The axes along which neighbouring integers are read."""
    return tuple(sorted(frozenset[Axis]().union(*(i.axes for i in a.at[-1:])), key=str))
