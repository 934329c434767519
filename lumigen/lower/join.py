"""join: a value that one region stores and another computes on its way is computed once.

Before: regions of one store each, over canonical axes.  After: where the value of a region is one that another has
over the same axes, both are one region, which stores the inner value first and its whole last. Only regions that run
as vector loops are joined: other skeletons hold parts of a value where no second store could take it from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lumigen.dtype import computed
from lumigen.region import Buffer, Expr, Region, Scan, walk


@dataclass(frozen=True)
class _Whole:
    """A region, and every value that its last store has."""

    region: Region
    values: frozenset[Expr] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozenset(walk([self.region.stores[-1].value])))

    @property
    def is_scan(self) -> bool:
        return any(isinstance(e, Scan) for e in self.values)


def join_regions(
    regions: tuple[Region, ...],
    in_loops: Callable[[Region], bool],
    whole: Callable[[Buffer], Buffer] = lambda b: b,
) -> tuple[Region, ...]:
    """`in_loops` says whether a region runs as vector loops, `whole` what a buffer is a slice of."""
    out: list[_Whole] = []
    for region in regions:
        made = _Whole(region)
        for i, earlier in enumerate(out):
            joined = _joined(earlier, made)
            later = (*(w.region for w in out[i + 1 :]), region)
            if joined is None or _is_read(earlier.region, later, whole):
                continue
            if in_loops(earlier.region) and in_loops(region):
                del out[i]
                made = _Whole(joined)
                break
        out.append(made)
    return tuple(w.region for w in out)


def _joined(first: _Whole, second: _Whole) -> Region | None:
    """Both as one region; None if neither has the value of the other."""
    if first.region.steps != second.region.steps or first.is_scan or second.is_scan:
        return None
    for inner, outer in ((first, second), (second, first)):
        a, b = inner.region.stores[-1], outer.region.stores[-1]
        alike = computed(a.dst.dtype) is computed(b.dst.dtype)  # else no vectors compute both
        if a.axes == b.axes and alike and not a.add and not b.add and a.value in outer.values:
            lines = dict.fromkeys((*inner.region.lines, *outer.region.lines))
            in_order = sorted(lines, key=lambda line: (line.file, line.line))
            stores = (*inner.region.stores, *outer.region.stores)
            return Region(stores, tuple(in_order), steps=first.region.steps)
    return None


def _is_read(region: Region, later: tuple[Region, ...], whole: Callable[[Buffer], Buffer]) -> bool:
    """Whether some of these need what the region stores, so that it cannot run with the last of them.

    Within a step of a loop slices are told apart; from outside each is all of its tensor.
    """
    slices = {s.dst for s in region.stores}
    wholes = set(map(whole, slices))
    return any(
        b in slices if r.steps and r.steps == region.steps else whole(b) in wholes
        for r in later
        for b in r.reads()
    )
