"""made: columns of a product that warps of their own compute on their way into a ring.

Such an operand is made of few reads: numbers that lie side by side along the depth, small integers or floats of 16
bits, and numbers that neighbours share, as a block shares its scale. It is made again for each tile of rows, while the
one before is multiplied; to read what it is made of takes less than to read what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.dtype import DType, bf16, f16, i8, u8
from lumigen.index import Axis, Ix, extent_of, ix
from lumigen.lower.named import named
from lumigen.lower.scope import address, is_safe
from lumigen.region import (
    Buffer,
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
from lumigen.tile import Contract, TileProgram

LANES = 4  # neighbours that a thread makes at a time
STEPS = 24  # of an element


@dataclass(frozen=True)
class MadeColumns:
    """An operand over (major, k), made of what lies along k; `dtype`: what it is rounded to."""

    value: Expr
    major: Axis
    k: Axis
    dtype: DType
    is_deep: bool = True

    @staticmethod
    def of(value: Expr, major: Axis, k: Axis, dtype: DType) -> MadeColumns | None:
        """The operand; None if it is of another form. Errors: none."""
        value = named(value)
        inside = walk([value])
        kinds = (Prim, Choose, Intrinsic, Read, Const, Index, Holds)
        steps = sum(isinstance(e, Prim | Choose | Intrinsic) for e in inside)
        fits = all(isinstance(e, kinds) for e in inside) and steps <= STEPS and is_safe(value)
        if not fits or free_axes(value) != frozenset({major, k}) or k.extent % LANES != 0:
            return None
        size = _bytes(value, k)
        return MadeColumns(value, major, k, dtype) if size and size < dtype.itemsize else None

    def source_elements(self) -> int:
        """How many there are to read at the dims' typical values, as so many of what it is made into."""
        size = _bytes(self.value, self.k) or 0
        return extent_of((self.major, self.k)).estimate() * size // self.dtype.itemsize


def brought(program: TileProgram) -> tuple[Buffer, ...]:
    """What a copy engine fetches, and what operands that are computed beside it are made of."""
    contracts = (s for s in program.statements() if isinstance(s, Contract) and s.maps)
    values = [s.b.value for s in contracts if s.b.value is not None]
    read_in = (e.source for e in walk(values) if isinstance(e, Read))
    return tuple(dict.fromkeys((*(t.source for t in program.maps), *read_in)))


def _bytes(value: Expr, k: Axis) -> int | None:
    """Of an element, of what it is made of; what neighbours share counts for nothing. None: other reads than those."""
    lane, vector = Axis("lane", ix(LANES)), Axis("vector", k.extent // LANES)
    moved = substitute(value, {k: ix(vector) * LANES + lane})
    total = 0
    for e in walk([moved]):
        if isinstance(e, Read):
            step: Ix | None = address(e.source, e.at).coefficient(lane)
            if step == 1 and e.source.dtype in (i8, u8, f16, bf16):
                total += e.source.dtype.itemsize
            elif step != 0:
                return None
        elif any(lane in i.axes for i in indices_of(e)):
            return None
    return total
