"""streamed: weights that loops make of fewer bytes, as they read them.

They are made of few reads: numbers that lie side by side along the depth, small integers or floats of 16 bits, and
numbers that neighbours share, as a block shares its scale. A fact of an operand; it decides nothing.
"""

from __future__ import annotations

from lumigen.dtype import bf16, f16, i8, u8
from lumigen.index import Axis, ix
from lumigen.lower.named import named
from lumigen.lower.scope import address, is_safe
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Intrinsic,
    Prim,
    Read,
    free_axes,
    indices_of,
    substitute,
    walk,
)


def is_of_few_bytes(value: Expr, major: Axis, k: Axis, lanes: int, most: int) -> bool:
    """Whether an operand over (major, k) is made of less than two bytes for an element, in `most` steps, by vectors."""
    value = named(value)
    inside = walk([value])
    steps = sum(isinstance(e, Prim | Choose | Intrinsic) for e in inside)
    kinds = (Prim, Choose, Intrinsic, Read, Const, Index, Holds)
    if steps > most or not all(isinstance(e, kinds) for e in inside) or not is_safe(value):
        return False
    if free_axes(value) != frozenset({major, k}) or k.extent % lanes != 0:
        return False
    return 0 < (_bytes(value, k, lanes) or 0) < bf16.itemsize


def _bytes(value: Expr, k: Axis, lanes: int) -> int | None:
    """Of an element, of what it is made of; what neighbours share counts for nothing. None: other reads than those."""
    lane, vector = Axis("lane", ix(lanes)), Axis("vector", k.extent // lanes)
    total = 0
    for e in walk([substitute(value, {k: ix(vector) * lanes + lane})]):
        if isinstance(e, Read):
            step = address(e.source, e.at).coefficient(lane)
            if step == 1 and e.source.dtype in (i8, u8, f16, bf16):
                total += e.source.dtype.itemsize
            elif step != 0:
                return None
        elif any(lane in i.axes for i in indices_of(e)):
            return None
    return total
