"""Element types: one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np
import numpy.typing as npt


class Kind(Enum):
    """What arithmetic an element type has."""

    FLOAT = "float"
    INT = "int"
    BOOL = "bool"


@dataclass(frozen=True, eq=False)
class DType:
    """An element type, one object for each: `name` as users write it, `bits` wide, `ctype` in generated C and C++."""

    name: str
    kind: Kind
    bits: int
    numpy: npt.DTypeLike
    ctype: str
    dlpack_code: int

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"lg.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _named, (self.name,)  # a copy is the same object

    @property
    def itemsize(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_int(self) -> bool:
        return self.kind is Kind.INT

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    @property
    def lowest(self) -> float | int:
        """The neutral element of Max: -inf, the least integer, or False."""
        if self.is_float:
            return float("-inf")
        return int(np.iinfo(self.numpy).min) if self.is_int else 0

    @property
    def greatest(self) -> float | int:
        """The greatest finite number, or True."""
        if self.is_float:
            return float(np.nextafter(np.asarray(np.inf, self.numpy), np.asarray(0, self.numpy)))
        return int(np.iinfo(self.numpy).max) if self.is_int else 1


f32 = DType("f32", Kind.FLOAT, 32, np.float32, "float", 2)
f16 = DType("f16", Kind.FLOAT, 16, np.float16, "uint16_t", 2)
bf16 = DType("bf16", Kind.FLOAT, 16, ml_dtypes.bfloat16, "uint16_t", 4)
f64 = DType("f64", Kind.FLOAT, 64, np.float64, "double", 2)
i8 = DType("i8", Kind.INT, 8, np.int8, "int8_t", 0)
u8 = DType("u8", Kind.INT, 8, np.uint8, "uint8_t", 1)
i32 = DType("i32", Kind.INT, 32, np.int32, "int32_t", 0)
i64 = DType("i64", Kind.INT, 64, np.int64, "int64_t", 0)
boolean = DType("bool", Kind.BOOL, 8, np.bool_, "uint8_t", 6)

# Of the numbers in vectors: of every machine, and of one that has those of f64 too.
FLOATS = frozenset({f32})
DOUBLES = FLOATS | {f64}

# PyTorch's names of them.
float32, float16, bfloat16, float64 = f32, f16, bf16, f64
int8, uint8, int32, int64 = i8, u8, i32, i64
half, double, long = f16, f64, i64

DTYPES: tuple[DType, ...] = (f32, f16, bf16, f64, i8, u8, i32, i64, boolean)
BY_NAME: dict[str, DType] = {d.name: d for d in DTYPES}


def of_numpy(dtype: npt.DTypeLike) -> DType | None:
    """The row of a numpy dtype; None if there is none."""
    wanted = np.dtype(dtype)
    return next((d for d in DTYPES if np.dtype(d.numpy) == wanted), None)


def _named(name: str) -> DType:
    return BY_NAME[name]


def accumulator(dtype: DType) -> DType:
    """In which type a sum of `dtype` accumulates: f32 for floats up to 32 bits, f64 for f64, i64 for integers."""
    if dtype.is_float:
        return f64 if dtype is f64 else f32
    return i64 if dtype.is_int else dtype


def computed(dtype: DType) -> DType:
    """In which type a value is computed: f32 for floats of 16 bits, which exist in memory only; else its own."""
    return f32 if dtype.is_float and dtype.bits == 16 else dtype
