"""Reductions of what a mask leaves in (torch.masked); of nothing, what a reduction of nothing gives."""

# signatures are PyTorch's

from __future__ import annotations

import math

from lumigen.dtype import DType, i64
from lumigen.frontend import elementwise, movement, sorting, statistics
from lumigen.frontend.offered import namespace
from lumigen.frontend.operand import Dims, floats, ones_like, where
from lumigen.frontend.primitive import Scalar
from lumigen.frontend.tensor import Tensor


def _kept(input: Tensor, mask: Tensor | None, fill: Scalar) -> Tensor:
    """The input, and `fill` where the mask does not hold."""
    if mask is None:
        return input
    return where(mask.bool().expand(input.extents), input, fill)


def _number(input: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool) -> Tensor:
    """How many elements are left in."""
    held = ones_like(input, dtype=i64)
    return _kept(held, mask, 0).sum(_dims(dim), keepdim)


def _dims(dim: Dims) -> Dims:
    return None if isinstance(dim, tuple | list) and not dim else dim


def _each(input: Tensor, dim: Dims) -> tuple[int, ...]:
    dims = _dims(dim)
    return movement.axes("masked", input.edge, dims)


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of what is left in."""
    return _kept(_cast(input, dtype), mask, 0).sum(_dims(dim), keepdim)


def _cast(input: Tensor, dtype: DType | None) -> Tensor:
    if dtype is not None:
        return input.to(dtype)
    return input if input.dtype.is_float else input.to(i64)


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of what is left in."""
    x = _kept(_cast(input, dtype), mask, 1)
    dims = _each(input, dim)
    for d in reversed(dims):
        x = x.prod(d, True)
    return x if keepdim else x.squeeze(dims)


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The greatest of what is left in; the least of the dtype of nothing."""
    x = input if dtype is None else input.to(dtype)
    return _kept(x, mask, x.dtype.lowest).amax(_dims(dim), keepdim)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The least of what is left in; the greatest of the dtype of nothing."""
    x = input if dtype is None else input.to(dtype)
    return _kept(x, mask, _most(x)).amin(_dims(dim), keepdim)


def _most(x: Tensor) -> Scalar:
    return math.inf if x.dtype.is_float else x.dtype.greatest


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The first position of the greatest of what is left in, in the dtype of the input."""
    x = input if dtype is None else input.to(dtype)
    return _kept(x, mask, x.dtype.lowest).argmax(dim, keepdim).type_as(x)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The first position of the least of what is left in."""
    x = input if dtype is None else input.to(dtype)
    return _kept(x, mask, _most(x)).argmin(dim, keepdim).type_as(x)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of what is left in."""
    x = floats(input) if dtype is None else input.to(dtype)
    total = _kept(x, mask, 0).sum(_dims(dim), keepdim)
    return total / _number(x, mask, dim, keepdim).type_as(x)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """sum((x - mean)^2) / max(0, count - correction) of what is left in."""
    x = floats(input) if dtype is None else input.to(dtype)
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    away = x - mean(x, dim, keepdim=True, mask=mask)
    total = _kept(away * away, mask, 0).sum(_dims(dim), keepdim)
    count = _number(x, mask, dim, keepdim).type_as(x) - less
    return total / count.clamp(min=0)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of `var`."""
    return var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    ).sqrt()


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The p-norm of what is left in."""
    x = _kept(input if dtype is None else input.to(dtype), mask, math.inf if ord < 0 else 0)
    return statistics.vector_norm(x, ord, _dims(dim), keepdim)


def softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The softmax of what is left in."""
    x = input if dtype is None else input.to(dtype)
    return _kept(x, mask, -math.inf).softmax(dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the softmax of what is left in."""
    x = input if dtype is None else input.to(dtype)
    return _kept(x, mask, -math.inf).log_softmax(dim)


def softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The softmax of -x of what is left in."""
    x = input if dtype is None else input.to(dtype)
    return (-_kept(x, mask, math.inf)).softmax(dim)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """x over the p-norm of what is left in."""
    x = input if dtype is None else input.to(dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return _kept(x, mask, 0) / size.clamp(min=eps)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log(sum(exp(x))) of what is left in."""
    x = floats(input) if dtype is None else input.to(dtype)
    return _kept(x, mask, -math.inf).logsumexp(_dims(dim), keepdim).type_as(x if dtype else input)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(x) + exp(y)) of what both masks leave in."""
    a, b = (x if dtype is None else x.to(dtype) for x in (input, other))
    return elementwise.logaddexp(_kept(a, input_mask, -math.inf), _kept(b, other_mask, -math.inf))


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The middle one of what is left in, of an even number the lower one; NaN of nothing, or where one is NaN."""
    x = input if dtype is None else input.to(dtype)
    found = sorting.nanmedian(_kept(x, mask, math.nan), dim, keepdim)
    assert isinstance(found, sorting.Sorted)
    spoiled = _kept(x.isnan(), mask, False).any(dim, keepdim)
    return where(spoiled, math.nan, found.values)


def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sums of what is left in up to each element, in the dtype of the input."""
    wanted = dtype or input.dtype
    return _kept(input.to(wanted), mask, 0).cumsum(dim, dtype=wanted)


def cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The products of what is left in up to each element, in the dtype of the input."""
    wanted = dtype or input.dtype
    return _kept(input.to(wanted), mask, 1).cumprod(dim, dtype=wanted)


__getattr__, __dir__ = namespace(globals())
