"""Which dtype an operation of several operands has: PyTorch's rules, as a table.

Operands come in three ranks: tensors with axes, 0-d tensors, and Python scalars. A lower rank
decides only when it brings a higher kind (bool < int < float) than every higher rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lumigen.dtype import DType, Kind, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import DtypeMismatch
from lumigen.frontend.trace import fail


class Rank(IntEnum):
    """How much say an operand has."""

    SCALAR = 0
    ZERO_DIM = 1
    TENSOR = 2


@dataclass(frozen=True)
class Vote:
    """One operand's part in the decision."""

    dtype: DType
    rank: Rank


_KINDS = {Kind.BOOL: 0, Kind.INT: 1, Kind.FLOAT: 2}
_WIDENING = (boolean, i8, i32, i64, f32, f64)  # u8, f16 and bf16 beside it


def join(op: str, a: DType, b: DType) -> DType:
    """The dtype that holds both: PyTorch's promote_types, less the pairs whose answer we lack."""
    if a is b:
        return a
    if {a, b} == {u8, i8}:
        raise fail(
            DtypeMismatch,
            op=op,
            name="an operand",
            got=b,
            expected=a,
            remedy="No type holds u8 and i8: cast both with .to(lg.i32).",
        )
    if {a, b} == {f16, bf16}:
        return f32
    if _KINDS[a.kind] != _KINDS[b.kind]:
        return a if _KINDS[a.kind] > _KINDS[b.kind] else b
    for half in (f16, bf16, u8):
        if half in (a, b):
            return b if a is half else a
    return max(a, b, key=_WIDENING.index)


def result_type(op: str, votes: tuple[Vote, ...]) -> DType:
    """The common dtype of operands."""
    decided: DType | None = None
    for rank in sorted(Rank, reverse=True):
        group: DType | None = None
        for vote in votes:
            if vote.rank is rank:
                group = vote.dtype if group is None else join(op, group, vote.dtype)
        if group is not None and (decided is None or _KINDS[group.kind] > _KINDS[decided.kind]):
            decided = group if decided is None else join(op, decided, group)
    assert decided is not None
    return decided


def scalar_dtype(value: float | bool) -> DType:
    """The weak dtype of a Python scalar."""
    if isinstance(value, bool):
        return boolean
    return i64 if isinstance(value, int) else f32
