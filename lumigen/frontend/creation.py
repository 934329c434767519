"""Tensors from nothing: constants, and counting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from lumigen.dtype import DType, f32, f64, i64, of_numpy
from lumigen.errors import BadArgument
from lumigen.frontend import compare, elementwise, movement, primitive, reduction
from lumigen.frontend.extents import check_extents, counted
from lumigen.frontend.operand import Value, listed, one_sequence, raw, where
from lumigen.frontend.primitive import Extent, Scalar
from lumigen.frontend.promote import join
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import Ix, Symbolic, ceildiv, ix, maximum
from lumigen.weights import Array, as_array

MAX_WRITTEN = 64  # numbers of a constant; each is a choice in the kernels that read it


def full(size: Extent | Sequence[Extent], fill_value: Scalar, dtype: DType | None = None) -> Tensor:
    """`fill_value` everywhere, in the dtype of the number (i64, f32 or bool) if none is given."""
    to = tuple(ix(e) for e in listed(size))
    check_extents("full", to)
    wanted = dtype or primitive.dtype_of(fill_value)
    return Tensor(primitive.expand("full", primitive.fill("full", raw(fill_value), wanted), to))


def zeros(*size: Extent | Sequence[Extent], dtype: DType = f32) -> Tensor:
    """0 everywhere; extents one by one, or as one sequence."""
    return full(one_sequence(size), 0, dtype)


def ones(*size: Extent | Sequence[Extent], dtype: DType = f32) -> Tensor:
    """1 everywhere; extents one by one, or as one sequence."""
    return full(one_sequence(size), 1, dtype)


def scalar_tensor(s: Scalar, *, dtype: DType = f32) -> Tensor:
    """A number as a 0-d tensor."""
    return Tensor(primitive.fill("scalar_tensor", raw(s), dtype))


def tensor(data: Any, *, dtype: DType | None = None) -> Tensor:
    """A constant: a number, numbers in nested lists, or a small array of numpy's or torch's.

    Without a dtype integers are i64, floats f32, truth values bool; an array keeps its own. Of at most 64 elements,
    unless all are the same, as they are written into the code: a larger constant is a buffer of a module.
    """
    array, kind = _numbers(data)
    wanted = kind if dtype is None else dtype
    primitive.check_dtype("tensor", wanted)
    values = (array.astype(np.float64) if kind.is_float else array).reshape(-1).tolist()
    if wanted.is_bool:
        values = list(map(bool, values))
    if len(set(map(repr, values))) <= 1:
        return full(array.shape, values[0] if values else 0, wanted)
    if len(values) > MAX_WRITTEN:
        expected = (
            f"at most {MAX_WRITTEN}, and more as a buffer of a module, "
            "self.register_buffer(name, array, persistent=False)"
        )
        value = f"{len(values)} numbers"
        raise fail(BadArgument, op="tensor", name="data", value=value, expected=expected)
    numbers = [primitive.fill("tensor", v, wanted) for v in values]
    return Tensor(movement.stack(numbers)).reshape(*array.shape)


def _numbers(data: Any) -> tuple[Array, DType]:
    """What a constant is made of, and its own dtype."""
    try:
        kind = _kind(data)
        array = None if kind is None else as_array(data)
    except (TypeError, ValueError):  # lists of unlike lengths
        array, kind = None, None
    if array is None or kind is None:
        value = f"a {type(data).__name__} of this kind"
        expected = (
            "a number, nested lists of numbers of equal lengths, or an array of a dtype of ours; "
            "lg.stack puts tensors together"
        )
        raise fail(BadArgument, op="tensor", name="data", value=value, expected=expected)
    return array, kind


def _kind(data: Any) -> DType | None:
    """The dtype of a number or an array, or of all in a list together; None where there is none."""
    if isinstance(data, list | tuple):
        kinds = [_kind(d) for d in cast("list[Any]", data)]
        out = kinds[0] if kinds else f32
        for kind in kinds[1:]:
            out = join(out, kind) if out and kind else None
        return out
    if isinstance(data, bool | int | float) and not hasattr(
        data, "dtype"
    ):  # numpy's f64 is a float
        return primitive.dtype_of(data)
    return None if isinstance(data, Tensor) else of_numpy(as_array(data).dtype)


def arange(
    start: Scalar, end: Scalar | None = None, step: float = 1, dtype: DType | None = None
) -> Tensor:
    """start, start + step, ... before `end`; of one argument 0, 1, ... before it. i64, or f32 if one is a float."""
    if step == 0:
        raise fail(BadArgument, op="arange", name="the step", value=0, expected="another number")
    if dtype is not None and dtype.is_int:
        start, end, step = _whole(start), None if end is None else _whole(end), int(step)
    if isinstance(start, float) or isinstance(end, float) or isinstance(step, float):
        first, last = (0, start) if end is None else (start, end)
        if not (isinstance(first, int | float) and isinstance(last, int | float)):
            expected = "numbers, as one of them is a float"
            raise fail(BadArgument, op="arange", name="a bound", value=last, expected=expected)
        count = max(math.ceil((last - first) / step), 0)
        return _spaced(first, step, count).to(dtype or f32)
    low, high = (ix(0), ix(start)) if end is None else (ix(start), ix(end))
    n = ceildiv(high - low, step) if step > 0 else ceildiv(low - high, -step)
    check_extents("arange", (count := maximum(n, 0),))
    out = reduction.emit_iota(count)
    if step != 1:
        out = primitive.mul(out, step)
    if low != 0:
        out = primitive.add(out, low)
    return Tensor(primitive.cast(out, dtype or i64))


def _whole(a: Scalar) -> Scalar:
    """Integers are counted from and to whole numbers, as PyTorch does."""
    return int(a) if isinstance(a, float) else a


def _spaced(first: Value, step: Value, count: Extent) -> Tensor:
    """first + i step, in f64."""
    return Tensor(reduction.emit_iota(ix(count))).to(f64) * step + first


def linspace(start: Value, end: Value, steps: Extent, *, dtype: DType = f32) -> Tensor:
    """`steps` numbers from `start` to `end`, both included."""
    count = counted("linspace", "steps", steps, 0)
    a, b = _end(start, dtype), _end(end, dtype)
    span = maximum(count - 1, 1)
    step = (b - a) / (span.const if span.is_const else full((), span, f64))
    up = _spaced(a, step, count)
    down = b - (count - 1 - arange(count)).to(f64) * step
    out = where(arange(count) < maximum(count // 2, 1), up, down)  # both ends exactly
    return (_snapped(out) if dtype.is_int and isinstance(step, Tensor) else out).to(dtype)


def _end(v: Value, dtype: DType) -> Tensor | float:
    """An end of numbers in a row, in f64; whole if they are."""
    if isinstance(v, Tensor):
        return (v.trunc() if dtype.is_int else v).to(f64)
    if isinstance(v, Symbolic | Ix):
        return full((), v, f64)
    return float(int(v)) if dtype.is_int else float(v)  # type: ignore[arg-type]


def logspace(
    start: Value, end: Value, steps: Extent, base: float = 10.0, *, dtype: DType = f32
) -> Tensor:
    """base ** x for x from `start` to `end`, both included."""
    a, b = _end(start, dtype), _end(end, dtype)
    out = elementwise.rpow(linspace(a, b, steps, dtype=f64), base)
    return (_snapped(out) if dtype.is_int else out).to(dtype)


def _snapped(x: Tensor) -> Tensor:
    """Whole where it is so but for rounding in f64: what is cut off next would be one less."""
    near = x.round()
    return where((x - near).abs() <= near.abs() * 1e-12, near, x)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType = i64) -> Tensor:
    """Rows and columns (2, n) of the elements where column <= row + offset."""
    return _indices(
        [(i, j) for i in range(row) for j in range(min(col, max(0, i + offset + 1)))], dtype
    )


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType = i64) -> Tensor:
    """Rows and columns (2, n) of the elements where column >= row + offset."""
    return _indices([(i, j) for i in range(row) for j in range(max(0, i + offset), col)], dtype)


def _indices(places: Sequence[tuple[int, int]], dtype: DType) -> Tensor:
    if not places:
        return zeros(2, 0, dtype=dtype)
    sides = zip(*places, strict=True)
    rows = [movement.stack([primitive.constant(i, dtype) for i in side]) for side in sides]
    return Tensor(movement.stack(rows))


def eye(rows: Extent, columns: Extent | None = None, dtype: DType = f32) -> Tensor:
    """1 where row and column agree."""
    check_extents("eye", (ix(rows), ix(rows if columns is None else columns)))
    i = movement.unsqueeze(reduction.emit_iota(ix(rows)), 1)
    j = reduction.emit_iota(ix(rows if columns is None else columns))
    return Tensor(primitive.cast(compare.eq(i, j), dtype))
