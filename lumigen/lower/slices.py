"""slices: the part of a tensor that one step of a loop reads or stores is a tensor of its own.

Before: regions over whole tensors, whose first index says the step.  After: a read `x[step, b, k]` is one of the slice
`x[step]` at (b, k); its first element is stored next to the region. So the kernels of a loop know nothing of
it: only their pointers advance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix, Lookup, lookup, product
from lumigen.region import (
    Buffer,
    Expr,
    Gather,
    Read,
    Region,
    Store,
    free_axes,
    gather,
    read,
    rebuild,
)


@dataclass(frozen=True)
class Slice:
    """Where a slice lies: it starts at element `base` of the tensor, an expression of the steps."""

    whole: Buffer
    base: Ix


def take_slices(region: Region) -> tuple[Region, dict[Buffer, Slice]]:
    """The region of one step over slices, and what these are; a first carry is stored to one as well."""
    steps = frozenset(region.steps)
    slices: dict[Buffer, Slice] = {}
    memo: dict[Expr, Expr] = {}

    def sliced(
        b: Buffer, at: tuple[Ix, ...], *, is_first: bool = False
    ) -> tuple[Buffer, tuple[Ix, ...]]:
        at = tuple(map(index, at))  # an integer of this step's slice says nothing of the step
        if not at or not (at[0].axes & steps or is_first):
            return b, at
        part = replace(b, name=f"{b.name}[{at[0]}]", dims=b.dims[1:])
        slices[part] = Slice(b, at[0] * product(part.dims))
        return part, at[1:]

    def index(i: Ix) -> Ix:
        found: dict[Lookup, Ix] = {}
        for a in i.atoms():
            if isinstance(a, Lookup) and isinstance(a.source, Buffer):
                source, at = sliced(a.source, a.at)
                found[a] = lookup(source, at, a.lo, a.hi)
        return i.substitute(found) if found else i

    def visit(e: Expr) -> Expr:
        if e not in memo:
            if isinstance(e, Gather):
                places = tuple(map(visit, e.places))
                memo[e] = gather(*sliced(e.source, e.at), e.axes, places)
            else:
                memo[e] = (
                    read(*sliced(e.source, e.at))
                    if isinstance(e, Read)
                    else rebuild(e, visit, index)
                )
        return memo[e]

    def store(s: Store) -> Store:
        is_first = bool(s.at) and s.at[0].is_const and s.dst.dims[0] != 1
        dst, at = sliced(s.dst, s.at, is_first=is_first)
        return replace(s, dst=dst, at=at, value=visit(s.value))

    stores = tuple(map(store, region.stores))
    left = frozenset[Axis]().union(*(free_axes(s.value) for s in stores))
    left |= frozenset[Axis]().union(*(i.axes for s in stores for i in s.at))
    if left & steps:
        raise LoweringFailed(step="slices", what="a step that is no first index of a tensor")
    return replace(region, stores=stores), slices
