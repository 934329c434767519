"""quantised: integers of eight bits and fewer with scales and zero points; sums of products are exact in i32."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumigen.dtype import f32, i32, u8
from lumigen.frontend import Tensor
from lumigen.importers.onnx import kinds
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.convolutions import centred, convolved_integers
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Known, held

UINT8 = 2
FLOATS = 2.0**23  # whole numbers below are floats, and so is the sum of two of them


def scales(n: OnnxNode, i: int, *, divide: bool = False) -> Tensor:
    """The operand as scales; UnsupportedNode where known ones are no finite numbers, or 0 if something is divided."""
    value = n.given(i)
    if isinstance(value, Known) and value.array.dtype != object:
        numbers = value.array.astype(np.float64)
        wrong = ~np.isfinite(numbers) | (divide & (numbers == 0))
        if wrong.any():
            count, first = np.count_nonzero(wrong), numbers[wrong].flat[0]
            why = f"{count} of the scales in input {i + 1} cannot be used, the first is {first:g}"
            raise n.unsupported(why, "Quantise the model again.")
    return n.tensor(i)


def spread(n: OnnxNode, t: Tensor, x: Tensor) -> Tensor:
    """Scales as x broadcasts with them: one, one for each element of an axis, or one for each block along it."""
    axis = int(n.attr("axis", 1))
    if t.ndim == 0 or (t.ndim == 1 and t.shape[0] == 1):
        return t.reshape(())
    if not -x.ndim <= axis < x.ndim:
        why = f"its axis is {axis}, and the operand has {x.ndim} axes"
        raise n.unsupported(why, "Correct the attribute.")
    axis %= x.ndim
    if t.ndim == 1:
        return t.reshape(-1, *(1,) * (x.ndim - 1 - axis))
    block = int(n.attr("block_size", 0))
    if not block:
        raise n.unsupported("its scales have many axes, and no block_size", "Export it again.")
    blocks = -(-x.shape[axis] // block) if block > 0 else None
    if tuple(t.shape) != (*x.shape[:axis], blocks, *x.shape[axis + 1 :]):
        of = f"blocks of {block} along axis {axis} of {list(x.shape)}"
        why = f"its scales or zero points are {list(t.shape)}, no {of}"
        raise n.unsupported(why, "Export it again.")
    wide = t.repeat_interleave(block, axis)
    return wide.narrow(axis, 0, x.shape[axis])


def limits(kind: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest integer."""
    if kind.name in kinds.NARROW:
        bits, is_signed = kinds.NARROW[kind.name]
        return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    info = np.iinfo(kind)
    return int(info.min), int(info.max)


def quantised(x: Tensor, scale: Tensor, zero: Tensor | None, kind: np.dtype[Any]) -> Tensor:
    """round(x / scale) + zero point, within the type; half-way cases go to the even number."""
    dtype = held(kind)
    near = (x / scale).round()
    low, high = limits(kind)
    if zero is None:
        return near.clamp(low, high).to(dtype)
    if high < FLOATS:  # a sum that is rounded is beyond both ends
        return (near + zero.to(f32)).clamp(low, high).to(dtype)
    moved = near.clamp(-(2.0**24), 2.0**24).to(i32) + zero.to(i32)
    return moved.clamp(low, high).to(dtype)


def quantize(n: OnnxNode) -> Tensor:
    x, scale = n.tensor(0), scales(n, 1, divide=True)
    said = n.attr("output_dtype", 0)
    element = n.element_type(2) if n.has(2) else said or UINT8
    if said not in (0, element):
        why = f"its output_dtype is {numpy_type(said).name}, and its zero point {numpy_type(element).name}"
        raise n.unsupported(why, "Quantise the model again.")
    kind = numpy_type(element)
    by = spread(n, scale, x).to(x.dtype)
    zero = spread(n, n.tensor(2), x) if n.has(2) else None
    if kind.name in kinds.FLOATS:
        return kinds.rounded(x / by, kinds.FLOATS[kind.name], saturate=bool(n.attr("saturate", 1)))
    if n.attr("precision", 0):
        by = by.to(held(numpy_type(n.attr("precision"))))
        x = x.to(by.dtype)
    return quantised(x, by, zero, kind)


def dequantize(n: OnnxNode) -> Tensor:
    """(x - zero point) * scale, in the type of the scale."""
    x, scale = n.tensor(0), scales(n, 1)
    by = spread(n, scale, x)
    element = n.attr("output_dtype", 0)
    to = held(numpy_type(element)) if element else scale.dtype
    if not x.dtype.is_float:
        x = x.to(i32)
    zero = n.zero_point(2, 0)
    if zero is not None:
        x = x - spread(n, zero, x).to(x.dtype)
    return (x.to(f32) * by.to(f32)).to(to)


def dynamic(n: OnnxNode) -> tuple[Tensor, ...]:
    return by_range(n.tensor(0))


def by_range(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As u8, by the range of the elements and 0; of zeros alone by a range of 1."""
    low, high = x.amin().clamp(max=0.0), x.amax().clamp(min=0.0)
    scale = (high - low).masked_fill(high == low, 1) / 255
    zero = (-low / scale).clamp(0, 255).round().to(u8)
    return quantised(x, scale, zero, np.dtype(np.uint8)), scale, zero


def dynamic_product(x: Tensor, matrix: Tensor, scale: Tensor) -> Tensor:
    """A product of floats, rounded to u8 by their range, with a matrix of integers that is scaled."""
    a, by, zero = by_range(x)
    return (centred(a, zero) @ matrix).to(i32).to(f32) * (by * scale)


def _rows(zero: Tensor | None, axis: int, rank: int) -> Tensor | None:
    """A zero point for each row or column, as the matrix broadcasts with it."""
    if zero is None or zero.ndim != 1 or zero.shape[0] == 1:
        return zero.reshape(()) if zero is not None and zero.ndim == 1 else zero
    return zero.reshape(-1, 1) if axis == -2 else zero


def matmul_integer(n: OnnxNode) -> Tensor:
    """Exact in i32."""
    a = centred(n.tensor(0), _rows(n.zero_point(2, 0), -2, 2))
    b = centred(n.tensor(1), _rows(n.zero_point(3, 1), -1, 2))
    return (a @ b).to(i32)


def requantised(n: OnnxNode, total: Tensor, factor: Tensor, i: int) -> Tensor:
    """Exact sums in the scale and type of the output."""
    zero = n.maybe(i)
    kind = numpy_type(n.element_type(i)) if zero is not None else np.dtype(np.uint8)
    low, high = limits(kind)
    near = (total.to(f32) * factor).round()
    if high < FLOATS:
        moved = near + (0 if zero is None else zero.reshape(()).to(f32))
        return moved.clamp(low, high).to(held(kind))
    out = near.clamp(-(2.0**30), 2.0**30).to(i32) + (
        0 if zero is None else zero.reshape(()).to(i32)
    )
    return out.clamp(low, high).to(held(kind))


def qlinear_matmul(n: OnnxNode) -> Tensor:
    a = centred(n.tensor(0), _rows(n.zero_point(2, 0), -2, 2))
    b = centred(n.tensor(3), _rows(n.zero_point(5, 3), -1, 2))
    a_scale, b_scale, y_scale = (scales(n, i, divide=i == 6).to(f32) for i in (1, 4, 6))
    left, right = _rows(a_scale, -2, 2), _rows(b_scale, -1, 2)
    assert left is not None
    assert right is not None
    return requantised(n, (a @ b).to(i32), left * right / y_scale, 7)


def qlinear_conv(n: OnnxNode) -> Tensor:
    ones = (1,) * (n.tensor(3).ndim - 2)
    factor = scales(n, 1) * scales(n, 4) / scales(n, 6, divide=True)
    if factor.ndim == 1 and factor.shape[0] != 1:
        factor = factor.reshape(-1, *ones)
    total = convolved_integers(n, 3, n.maybe(8), (2, 5))
    return requantised(n, total, factor.reshape(()) if factor.ndim == 1 else factor, 7)


def bit_cast(n: OnnxNode) -> Any:
    """Known numbers by their bits."""
    return Known(n.static(0).view(numpy_type(n.attr("to"))))


ROWS = (
    Operator("QuantizeLinear", quantize),
    Operator("DequantizeLinear", dequantize),
    Operator("DynamicQuantizeLinear", dynamic),
    Operator("MatMulInteger", matmul_integer),
    Operator("QLinearMatMul", qlinear_matmul),
    Operator("QLinearConv", qlinear_conv),
    Operator("BitCast", bit_cast),
)
