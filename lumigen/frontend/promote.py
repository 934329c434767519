"""Which dtype an operation of several operands has: PyTorch's rules, as a table.

Operands come in three ranks: tensors with axes, 0-d tensors, and Python scalars. A lower rank
decides only when it brings a higher kind (bool < int < float) than every higher rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lumigen.dtype import DTYPES, DType, Kind, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import DtypeMismatch
from lumigen.frontend.trace import fail
from lumigen.view import Shape


class Rank(IntEnum):
    """How much say an operand has."""

    SCALAR = 0
    ZERO_DIM = 1
    TENSOR = 2


@dataclass(frozen=True)
class Vote:
    """One operand's part in the decision; a Python scalar has no shape."""

    dtype: DType
    shape: Shape | None

    @property
    def rank(self) -> Rank:
        if self.shape is None:
            return Rank.SCALAR
        return Rank.TENSOR if self.shape else Rank.ZERO_DIM


_KINDS = {Kind.BOOL: 0, Kind.INT: 1, Kind.FLOAT: 2}
_WIDENING = (boolean, i8, i32, i64, f32, f64)  # u8, f16 and bf16 beside it


def join(a: DType, b: DType) -> DType | None:
    """The dtype that holds both: PyTorch's promote_types; None where that is one which we lack."""
    if a is b:
        return a
    if {a, b} == {u8, i8}:
        return None
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
                joint = vote.dtype if group is None else join(group, vote.dtype)
                if joint is None:
                    first = next(v for v in votes if v.rank is rank and v.dtype is group)
                    raise _apart(op, first, vote)
                group = joint
        if group is not None and (decided is None or _KINDS[group.kind] > _KINDS[decided.kind]):
            decided = group
    assert decided is not None
    return decided


def _apart(op: str, a: Vote, b: Vote) -> Exception:
    """Integers that only a type which we lack holds, i16."""
    first, second = (f"({', '.join(map(str, v.shape or ()))})" for v in (a, b))
    integers = ", ".join(str(d) for d in DTYPES if d.is_int)
    return fail(
        DtypeMismatch,
        op=op,
        name=f"the operand of shape {second}",
        got=b.dtype,
        expected=f"{a.dtype}, as the one of shape {first} is",
        remedy=f"Both fit into i16, but the integers here are {integers}: cast them with .to({i32!r}).",
    )


def scalar_dtype(value: float | bool) -> DType:
    """The weak dtype of a Python scalar."""
    if isinstance(value, bool):
        return boolean
    return i64 if isinstance(value, int) else f32
