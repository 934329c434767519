"""values: what the edges of an ONNX graph hold while it is imported.

A value is known (numbers, or sizes that may be symbolic), a tensor that the model computes, a sequence of values, or
absent. Promises that what is known stays so until a kernel reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union, cast

import ml_dtypes
import numpy as np

from lumigen.dtype import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import UnsupportedNode
from lumigen.frontend import Tensor, functions
from lumigen.frontend.trace import fail
from lumigen.importers.onnx.parts import SizeQuotient

Array: TypeAlias = np.ndarray[Any, Any]
INT64 = np.dtype(np.int64)  # what sizes are, unless a node casts them
FEW = 4096  # elements that are computed while a model is imported


@dataclass(frozen=True, eq=False)
class Known:
    """An array of numbers, or of sizes (dtype object), which are integers of a `kind`.

    `name` is that of the weight which it is in kernels.
    """

    array: Array
    name: str = ""
    kind: np.dtype[Any] = INT64

    @property
    def is_symbolic(self) -> bool:
        """Whether some element is a size that only a run knows."""
        return self.array.dtype == object

    @property
    def element(self) -> np.dtype[Any]:
        """The type of its elements."""
        return self.kind if self.is_symbolic else self.array.dtype


Value: TypeAlias = Union[Known, Tensor, "list[Value]", None]

# The type of ours in which elements of a type of numpy's are held: its own, or the narrowest that has all its values.
HELD: dict[np.dtype[Any], DType] = {
    np.dtype(kind): dtype
    for kind, dtype in (
        (np.float32, f32),
        (np.float64, f64),
        (np.float16, f16),
        (ml_dtypes.bfloat16, bf16),
        (np.bool_, boolean),
        (np.int8, i8),
        (np.uint8, u8),
        (np.int32, i32),
        (np.int64, i64),
        (np.int16, i32),
        (np.uint16, i32),
        (np.uint32, i64),
        (np.uint64, i64),  # up to 2**63 - 1
        (ml_dtypes.int4, i8),
        (ml_dtypes.uint4, u8),
        (ml_dtypes.int2, i8),
        (ml_dtypes.uint2, u8),
        (ml_dtypes.float8_e4m3fn, f32),
        (ml_dtypes.float8_e4m3fnuz, f32),
        (ml_dtypes.float8_e5m2, f32),
        (ml_dtypes.float8_e5m2fnuz, f32),
        (ml_dtypes.float4_e2m1fn, f32),
        (ml_dtypes.float8_e8m0fnu, f32),
    )
}


def held(kind: np.dtype[Any]) -> DType:
    """The type of ours for elements of a type; UnsupportedNode where there is none."""
    found = HELD.get(kind)
    if found is None:
        name = "strings" if kind.kind in "OUS" else str(kind)
        raise fail(
            UnsupportedNode,
            op="onnx",
            why=f"it has elements of {name}",
            remedy=f"Convert them to one of {', '.join(sorted({str(d) for d in HELD.values()}))}.",
        )
    return found


def as_known(numbers: Any) -> Known:
    """Integers and sizes as they stand: i64 where all are numbers."""
    array = np.asarray(numbers, dtype=object)
    return Known(tidied(array))


def tidied(array: Array, kind: np.dtype[Any] = INT64) -> Array:
    """Objects as integers of a kind where all of them are known, and as bools where all are."""
    if array.dtype != object:
        return array
    if array.size and all(isinstance(x, bool | np.bool_) for x in array.flat):
        return array.astype(np.bool_)
    return array.astype(kind) if all(isinstance(x, int | np.integer) for x in array.flat) else array


def scalar_of(known: Known) -> Any:
    """The one number that all elements are; None where they differ or are none."""
    flat = known.array.reshape(-1)
    if not flat.size or known.is_symbolic:
        return None
    first: Any = flat[0]
    if not (flat[:FEW] == first).all() and first == first:  # noqa: PLR0124
        return None
    same = (flat == first).all() or (flat != flat).all()  # noqa: PLR0124  # NaN
    if not same or (first == 0 and len({bool(s) for s in np.signbit(flat.astype(np.float64))}) > 1):
        return None
    return flat[:1].tolist()[0]


def written(known: Known) -> Tensor | None:
    """The tensor that needs no weight: one number everywhere, sizes, or nothing at all."""
    array = known.array
    if known.is_symbolic:
        numbers = [_written(size, held(known.kind)) for size in array.flat]
        return functions.stack(numbers).reshape(*array.shape)
    dtype = held(array.dtype)
    if array.dtype == np.uint64 and (array > i64.greatest).any():
        why, remedy = "a constant of uint64 is above 2**63 - 1", "Use int64."
        raise fail(UnsupportedNode, op="onnx", why=why, remedy=remedy)
    if not array.size:
        return functions.zeros(*array.shape, dtype=dtype)
    if HELD[array.dtype] is f32 and array.dtype != np.float32:
        array = array.astype(np.float32)
    number = scalar_of(Known(array))
    return None if number is None else functions.full(array.shape, number, dtype)


def _written(size: Any, dtype: DType) -> Tensor:
    if not isinstance(size, SizeQuotient):
        return functions.full((), size, dtype)
    found = functions.full((), size.of, dtype)
    return found if size.by == 1 else found / size.by


def listed(value: Value) -> list[Value]:
    """The values of a sequence."""
    if isinstance(value, list):
        return value
    raise fail(
        UnsupportedNode,
        op="onnx",
        why="a sequence is needed, and the value is a tensor",
        remedy="Correct the graph.",
    )


def shape_of(value: Known | Tensor) -> tuple[Any, ...]:
    """The sizes, symbolic ones too."""
    return value.array.shape if isinstance(value, Known) else value.shape


def ints(array: Array) -> list[Any]:
    """The elements in a row: Python's integers, and sizes."""
    flat = cast("Sequence[Any]", array.reshape(-1).tolist())
    return list(flat)
