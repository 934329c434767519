"""enlarged: images that products read through windows at quotients are stored as large as windows see them.

Before: products that read a tensor through windows whose points share elements, as those of an image that is enlarged
by its nearest neighbours.  After: they read a copy with an element for each point, in whole steps, so that whatever
copies windows of other images does it for these. The copy is written once, and read by each column of a product.

    x[(row + tap - 1)//2]     copy[p] = x[p//2];  copy[row + tap - 1]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.index import Axis, Ix, Quotient, extent_of, ix, of_atom
from lumigen.lower.contractions import is_plain
from lumigen.lower.innermost import Use, uses_of
from lumigen.machine import CopiedRuns
from lumigen.region import Buffer, Expr, Region, Role, Store, map_expr, read

Place = tuple[Ix, ...]
Copies = dict[tuple[Buffer, tuple[int, ...]], tuple[Buffer, Region]]  # by the divisors of indices


def store_enlarged(
    regions: tuple[Region, ...], runs: CopiedRuns
) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """(the regions over copies, what stores these)."""
    copies: Copies = {}
    out = tuple(_over_copies(r, runs, copies) for r in regions)
    return out, tuple(region for _, region in copies.values())


def _over_copies(region: Region, runs: CopiedRuns, copies: Copies) -> Region:
    found = {} if region.steps or region.native else dict(_reads(region, runs, copies))
    stores = (replace(s, value=map_expr(s.value, found)) for s in region.stores)
    return replace(region, stores=tuple(stores)) if found else region


def _reads(region: Region, runs: CopiedRuns, copies: Copies) -> Iterator[tuple[Expr, Expr]]:
    for use in uses_of(region):
        if use.factor is None or not all(map(is_plain, use.factor.operands)):
            continue
        if use.source.dtype.itemsize != runs.itemsize or not _has_columns(use, runs):
            continue
        shared = [_shared(use, i) for i in use.at]
        if not any(shared):
            continue
        divisors = tuple(1 if found is None else found[1] for found in shared)
        key = (use.source, divisors)
        made, _ = copies.setdefault(key, _copy(use.source, divisors))
        at = (i if found is None else found[0] for i, found in zip(use.at, shared, strict=True))
        yield use.read, read(made, tuple(at))


def _has_columns(use: Use, runs: CopiedRuns) -> bool:
    """Whether the other operand has so many columns that to gather for each tile of them takes longer than to copy."""
    return use.factor is not None and extent_of(use.factor.others).estimate() >= runs.scattered


def _shared(use: Use, i: Ix) -> tuple[Ix, int] | None:
    """(a place that a row and a point of the window decide together, what divides it), if an index is that quotient."""
    quotients = [a for a in i.atoms() if isinstance(a, Quotient)]
    atom = quotients[0] if len(quotients) == 1 else None
    if atom is None or not atom.denominator.is_const:
        return None
    more = i - of_atom(atom)
    if not more.is_const or use.factor is None:
        return None
    place, axes = atom.numerator + more * atom.denominator, atom.numerator.axes
    steps = all(place.coefficient(a) is not None for a in axes)
    both = axes & use.factor.own and axes & use.factor.summed
    return (place, atom.denominator.const) if both and steps else None


def _copy(b: Buffer, divisors: tuple[int, ...]) -> tuple[Buffer, Region]:
    """A tensor with so many points for each element along its dimensions, and what stores it."""
    dims = tuple(e * n for e, n in zip(b.dims, divisors, strict=True))
    made = Buffer(f"{b.name}_enlarged{'_'.join(map(str, divisors))}", Role.TEMP, dims, b.dtype)
    axes = tuple(Axis(f"d{d}", extent) for d, extent in enumerate(dims))
    at = tuple(ix(a) // n for a, n in zip(axes, divisors, strict=True))
    return made, Region((Store(made, axes, tuple(map(ix, axes)), read(b, at)),))
