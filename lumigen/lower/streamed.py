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

LANES = 4  # neighbours that are made together, at least
STEPS = 24  # of an element
KINDS = (Prim, Choose, Intrinsic, Read, Const, Index, Holds)


def is_of_few_bytes(value: Expr, major: Axis, k: Axis) -> bool:
    """Whether an operand over (major, k) is made of less than the two bytes of an element, in a few steps."""
    value = named(value)
    inside = walk([value])
    steps = sum(isinstance(e, Prim | Choose | Intrinsic) for e in inside)
    if steps > STEPS or not all(isinstance(e, KINDS) for e in inside) or not is_safe(value):
        return False
    if free_axes(value) != frozenset({major, k}) or k.extent % LANES != 0:
        return False
    return 0 < (_bytes(value, k) or 0) < bf16.itemsize


def _bytes(value: Expr, k: Axis) -> int | None:
    """Of an element, of what it is made of; what neighbours share counts for nothing. None: other reads than those."""
    lane, vector = Axis("lane", ix(LANES)), Axis("vector", k.extent // LANES)
    total = 0
    for e in walk([substitute(value, {k: ix(vector) * LANES + lane})]):
        if isinstance(e, Read):
            step = address(e.source, e.at).coefficient(lane)
            if step == 1 and e.source.dtype in (i8, u8, f16, bf16):
                total += e.source.dtype.itemsize
            elif step != 0:
                return None
        elif any(lane in i.axes for i in indices_of(e)):
            return None
    return total
