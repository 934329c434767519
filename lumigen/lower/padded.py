"""padded: images of few channels get some of zeros, so that products read their windows in whole runs.

Before: products that read a tensor through windows, and sum over an axis that is no whole number of the vectors that
are copied at a time, as three channels are.  After: they read copies of both operands in which that axis lies
innermost and goes on to the end of a vector, with zeros. Those add nothing to the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.condition import less
from lumigen.dtype import computed
from lumigen.index import Axis, ix
from lumigen.lower.contractions import is_plain
from lumigen.lower.innermost import Use, uses_of
from lumigen.machine import CopiedRuns
from lumigen.region import (
    Buffer,
    Expr,
    Reduce,
    Region,
    Role,
    Store,
    choose,
    const,
    holds,
    map_expr,
    read,
    reduce,
    substitute,
)

Copies = dict[tuple[Buffer, int], Buffer]  # of a tensor with a dimension innermost and padded


def pad_runs(
    regions: tuple[Region, ...], runs: CopiedRuns
) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """(the regions over padded copies, what stores these)."""
    copies: Copies = {}
    out = tuple(_padded(r, runs, copies) for r in regions)
    return out, tuple(_copy(b, d, made) for (b, d), made in copies.items())


def _padded(region: Region, runs: CopiedRuns, copies: Copies) -> Region:
    found = {} if region.steps or region.native else dict(_products(region, runs, copies))
    stores = (replace(s, value=map_expr(s.value, found)) for s in region.stores)
    return replace(region, stores=tuple(stores)) if found else region


def _products(region: Region, runs: CopiedRuns, copies: Copies) -> Iterator[tuple[Expr, Expr]]:
    """Each product over padded operands."""
    uses = tuple(uses_of(region))
    for use in (u for u in uses if u.is_window and u.factor):
        assert use.factor is not None
        operands = (use, *(u for u in uses if use.is_beside(u)))
        k = _short(use, runs)
        if k is None or len(operands) != 2 or not all(map(is_plain, use.factor.operands)):
            continue
        places = [[d for d, i in enumerate(u.at) if k in i.axes] for u in operands]
        if any(
            len(ds) != 1 or u.at[ds[0]] != ix(k) for u, ds in zip(operands, places, strict=True)
        ):
            continue
        count = runs.bytes // runs.itemsize
        longer = Axis(k.name, ix(-(-k.extent.const // count) * count))
        yield use.factor.product, _longer(use.factor.product, k, longer, operands, places, copies)


def _short(use: Use, runs: CopiedRuns) -> Axis | None:
    """The longest axis that a product sums over along a dimension of its own, if none is copied in whole vectors."""
    longest = max((use.run(d) for d in range(len(use.at))), key=lambda n: n.estimate())
    count = runs.bytes // runs.itemsize
    if use.source.dtype.itemsize != runs.itemsize or longest % count == 0:
        return None
    along = [a for i in use.at for a in use.summed if i == ix(a) and a.extent.is_const]
    return max(along, key=lambda a: a.extent.const) if along else None


def _longer(
    r: Reduce,
    k: Axis,
    longer: Axis,
    operands: tuple[Use, ...],
    places: list[list[int]],
    copies: Copies,
) -> Expr:
    """The product with its sum over `k` going on to the end of a vector."""
    moved: dict[Expr, Expr] = {}
    for use, (d,) in zip(operands, places, strict=True):
        made = copies.setdefault((use.source, d), _made(use.source, d, longer))
        outer = (i for e, i in enumerate(use.at) if e != d)
        moved[use.read] = read(made, (*outer, ix(k)))
    body = substitute(map_expr(r.body, moved), {k: ix(longer)})
    axes = tuple(longer if a == k else a for a in r.axes)
    return reduce(r.monoid, axes, body, r.dtype, r.where)


def _made(b: Buffer, d: int, longer: Axis) -> Buffer:
    dims = (*(extent for e, extent in enumerate(b.dims) if e != d), longer.extent)
    return Buffer(f"{b.name}_padded{d}", Role.TEMP, dims, b.dtype)


def _copy(b: Buffer, d: int, made: Buffer) -> Region:
    """What stores a tensor with a dimension innermost, and zeros after it."""
    *outer, last = (Axis(f"d{e}", extent) for e, extent in enumerate(made.dims))
    at = tuple(map(ix, (*outer[:d], last, *outer[d:])))
    inside = holds((less(last, b.dims[d]),))
    value = choose(inside, read(b, at), const(0.0, computed(b.dtype)))
    axes = (*outer, last)
    return Region((Store(made, axes, tuple(map(ix, axes)), value),))
