"""kinds: the element types of ONNX that are wider in ours, and what keeps their values.

int16 and uint16 are held as i32, uint32 as i64, four and two bits as i8 and u8, eight-bit floats as f32. Promises that
what such a type cannot hold wraps around or is rounded where ONNX says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lumigen.dtype import f32, i64
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx import parts
from lumigen.importers.onnx.node import OnnxNode
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Array, Known, held, tidied

# The bits of integers that ours has no type of; whether they are signed.
NARROW = {
    "int16": (16, True),
    "uint16": (16, False),
    "uint32": (32, False),
    "int4": (4, True),
    "uint4": (4, False),
    "int2": (2, True),
    "uint2": (2, False),
}
# What may leave the range of its operands.
OVERFLOWS = frozenset({"Add", "Sub", "Mul", "Div", "Neg", "Sum", "Pow", "BitwiseNot", "BitShift", "CumSum",
                       "CumProd", "MatMul", "Gemm", "Einsum", "ReduceSum", "ReduceProd", "ReduceL1",
                       "ReduceSumSquare", "ScatterElements", "ScatterND", "Range", "Abs"})  # fmt: skip


@dataclass(frozen=True)
class FloatKind:
    """A small float type: bits of its mantissa, its least exponent, its greatest number, what lies beyond that."""

    bits: int
    least: int
    greatest: float
    beyond: float | None = None  # None: the greatest number, always
    is_unsigned_zero: bool = False


FLOATS = {
    "float8_e4m3fn": FloatKind(3, -6, 448.0, math.nan),
    "float8_e4m3fnuz": FloatKind(3, -7, 240.0, math.nan, is_unsigned_zero=True),
    "float8_e5m2": FloatKind(2, -14, 57344.0, math.inf),
    "float8_e5m2fnuz": FloatKind(2, -15, 57344.0, math.nan, is_unsigned_zero=True),
    "float4_e2m1fn": FloatKind(1, 0, 6.0),
}


def cast(node: OnnxNode, x: Tensor, element: int) -> Tensor:
    """The elements in another type of ONNX's."""
    kind = numpy_type(element)
    if kind.name in NARROW:
        return wrapped(x.to(i64), kind)
    if kind.name in FLOATS:
        return rounded(x, FLOATS[kind.name], saturate=bool(node.attr("saturate", 1)))
    if kind.name == "float8_e8m0fnu":
        raise node.unsupported(f"it rounds to {kind}", "Leave scales in float32.")
    return x.to(held(kind))


def kept_in(node: OnnxNode, x: Tensor, element: int) -> Tensor:
    """What an operator gives in its declared type, which wraps around if it is narrower than ours."""
    if node.op not in OVERFLOWS or x.dtype.is_float:
        return x
    kind = numpy_type(element)
    if kind.name == "uint64":
        raise node.unsupported("it may leave the range of 63 bits of uint64", "Use int64.")
    return wrapped(x, kind) if kind.name in NARROW else x


def rounded(x: Tensor, kind: FloatKind, *, saturate: bool) -> Tensor:
    """The nearest number of a small float type, the even one of two, as f32."""
    wide = x.to(f32)
    size = wide.abs()
    exponent = functions.frexp(size)[1].to(f32) - 1
    unit = (exponent.clamp(kind.least) - kind.bits).exp2()
    near = (size / unit).round() * unit
    if saturate or kind.beyond is None:
        near = near.clamp(max=kind.greatest)
    else:
        near = functions.where(near > kind.greatest, kind.beyond, near)
    near = functions.where(
        wide.isinf(), kind.greatest if saturate or kind.beyond is None else kind.beyond, near
    )
    out = near if kind.is_unsigned_zero else near.copysign(wide)
    out = functions.where(wide < 0, -near, near) if kind.is_unsigned_zero else out
    return functions.where(wide.isnan(), 0.0 if kind.beyond is None else math.nan, out)


def wrapped(x: Tensor, kind: np.dtype[Any]) -> Tensor:
    """Integers as the low bits of a narrower type hold them."""
    bits, is_signed = NARROW[kind.name]
    dtype = held(kind)
    if not is_signed:
        return (x % 2**bits).to(dtype)
    half = 2 ** (bits - 1)
    wide = x.to(i64)
    return ((wide + half) % 2**bits - half).to(dtype)


def known_cast(a: Array, kind: np.dtype[Any]) -> Any:
    """Known numbers in another type; sizes stay as they are among integers, and are parts of them as floats."""
    if a.dtype != object:
        return None if kind.hasobject else a.astype(kind)
    if kind.kind in "iu":
        return Known(
            tidied(np.asarray(np.frompyfunc(parts.whole, 1, 1)(a), object), kind), kind=kind
        )
    if kind.name in ("float32", "float64"):
        return Known(np.asarray(np.frompyfunc(_part, 1, 1)(a), object), kind=kind)
    return a != 0 if kind == np.bool_ else None


def _part(value: Any) -> Any:
    return value if parts.has_parts(value) else parts.SizeQuotient(value)
