"""unpacked: columns of a product that vectors make of blocks, as weights in few bits.

Before: columns over one axis k, which reads divide.  After: loops over factors of k that store them in a tile of a
task. What the elements of a block have in common is computed once for the block, and what lies in one byte is unpacked
together:

    tile[n, 32*block + i] = quants[n, 32*block + i]*scales[n, block]
"""

from __future__ import annotations

from itertools import product
from math import prod

from lumigen.index import Axis, ix
from lumigen.lower.contract import Columns, Points
from lumigen.lower.factors import Factored, asked_for, factored
from lumigen.lower.scope import Scope, lanes_fit
from lumigen.machine import Vectors
from lumigen.region import Buffer, substitute
from lumigen.tile import For, Stmt, StoreTile


def factors_of(b: Columns, vectors: Vectors) -> Factored | None:
    """Computed columns over factors of k; None where nothing is divided, or vectors do not lie along the last one."""
    if b.once is not None:
        return None
    found = factored(b.value, (b.k,), vectors.divided)
    if found is None or len(found.axes) == 1:
        return None
    lane = found.axes[-1]
    along = found.places[b.k].coefficient(lane) == 1
    return _with_names(found) if along and lanes_fit([found.body], lane) else None


def _with_names(parts: Factored) -> Factored:
    """The same factors: blocks, parts of these in one another, and what is inside of the last of them."""
    _, *others, _ = parts.axes
    names = ["block", *(f"part{i or ''}" for i in range(len(others))), "inside"]
    axes = tuple(Axis(name, a.extent) for name, a in zip(names, parts.axes, strict=True))
    to = dict(zip(parts.axes, map(ix, axes), strict=True))
    places = {a: i.substitute(to) for a, i in parts.places.items()}
    return Factored(axes, substitute(parts.body, to), places)


def unit_of(parts: Factored | None) -> int:
    """Points of k that a point of the first factor has."""
    return prod(a.extent.const for a in parts.axes[1:]) if parts is not None else 1


def stored_in_parts(
    top: Scope, dst: Buffer, parts: Factored, of_n: Points, of_k: Points, vectors: Vectors
) -> Stmt:
    """Loops that store dst[n, k], from the first n and k of these points; those of k are whole units."""
    first, *others = parts.axes
    short = asked_for(parts.body, others[:-1], vectors.written)
    axes, lane = [a for a in parts.axes if a not in short], others[-1]
    row = top.inner([*of_k.lo.axes, *of_k.hi.axes, *of_n.lo.axes, of_n.axis])
    scopes = [row]
    for a in axes:
        scopes.append(scopes[-1].inner([a], lane if a == lane else None))
    counts = (range(a.extent.const) for a in short)
    places = [dict(zip(short, map(ix, point), strict=True)) for point in product(*counts)]
    inside, k = scopes[-1], parts.places[of_k.axis]
    values = inside.values([substitute(parts.body, place) for place in places])
    for place, value in zip(places, values, strict=True):
        at = (ix(of_n.axis) - of_n.lo, k.substitute(place) - of_k.lo)
        inside.stmts.append(StoreTile(dst, at, value, lane))
    unit = unit_of(parts)
    for a, around, body in reversed(list(zip(axes, scopes, scopes[1:], strict=False))):
        span = (of_k.lo // unit, of_k.hi // unit) if a == first else (ix(0), a.extent)
        around.stmts.append(For(a, *span, a == lane, tuple(body.stmts)))
    return For(of_n.axis, of_n.lo, of_n.hi, False, tuple(row.stmts))
