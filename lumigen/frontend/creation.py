"""Tensors from nothing: constants, counting, and triangles."""

from __future__ import annotations

from lumigen.dtype import DType, boolean, f32, i64
from lumigen.errors import BadArgument
from lumigen.frontend import compare, movement, primitive, reduction
from lumigen.frontend.extents import check_extents
from lumigen.frontend.primitive import Extent, Scalar
from lumigen.frontend.tensor import Tensor, raw
from lumigen.frontend.trace import fail
from lumigen.index import ceildiv, ix, maximum


def full(shape: tuple[Extent, ...], value: Scalar, dtype: DType = f32) -> Tensor:
    """`value` everywhere."""
    to = tuple(ix(e) for e in shape)
    check_extents("full", to)
    return Tensor(primitive.expand("full", primitive.tensor(raw(value), dtype), to))


def zeros(*shape: Extent, dtype: DType = f32) -> Tensor:
    """0 everywhere; extents one by one."""
    return full(shape, 0, dtype)


def ones(*shape: Extent, dtype: DType = f32) -> Tensor:
    """1 everywhere; extents one by one."""
    return full(shape, 1, dtype)


def arange(start: Extent, end: Extent | None = None, step: int = 1, dtype: DType = i64) -> Tensor:
    """start, start + step, ... below `end`; of one argument 0, 1, ... below it."""
    if step == 0:
        raise fail(BadArgument, op="arange", name="the step", value=0, expected="another number")
    first, last = (ix(0), ix(start)) if end is None else (ix(start), ix(end))
    n = ceildiv(last - first, step) if step > 0 else ceildiv(first - last, -step)
    out = reduction.emit_iota(maximum(n, 0))
    if step != 1:
        out = primitive.mul(out, step)
    if first != 0:
        out = primitive.add(out, first)
    return Tensor(primitive.cast(out, dtype))


def eye(rows: Extent, columns: Extent | None = None, dtype: DType = f32) -> Tensor:
    """1 where row and column agree."""
    check_extents("eye", (ix(rows), ix(rows if columns is None else columns)))
    i = movement.unsqueeze(reduction.emit_iota(ix(rows)), 1)
    j = reduction.emit_iota(ix(rows if columns is None else columns))
    return Tensor(primitive.cast(compare.eq(i, j), dtype))


def _band(x: Tensor) -> tuple[primitive.Edge, primitive.Edge]:
    """Row and column numbers of the last two dimensions."""
    rows, columns = x.extents[-2:]
    return movement.unsqueeze(reduction.emit_iota(rows), 1), reduction.emit_iota(columns)


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """`x` where column <= row + diagonal, else 0."""
    i, j = _band(x)
    keep = primitive.complement(primitive.less(primitive.add(i, diagonal), j))
    return _kept(x, keep)


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """`x` where column >= row + diagonal, else 0."""
    i, j = _band(x)
    keep = primitive.complement(primitive.less(j, primitive.add(i, diagonal)))
    return _kept(x, keep)


def _kept(x: Tensor, keep: primitive.Edge) -> Tensor:
    zero = primitive.constant(value=0, dtype=x.dtype)
    keep = primitive.expand("tril", keep, x.extents)
    return Tensor(compare.where(primitive.cast(keep, boolean), x.edge, zero))
