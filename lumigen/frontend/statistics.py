"""Reductions beyond sums and maxima: products, moments, extrema with their positions, norms, differences.

A product is a tree over an axis of known extent, else where a scan ends; the rest is made of sums and maxima.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from lumigen.dtype import DType, i64
from lumigen.errors import BadArgument
from lumigen.frontend import movement, primitive, reduction
from lumigen.frontend.arrangement import counting
from lumigen.frontend.extents import check_extent, fixed
from lumigen.frontend.operand import (
    Dims,
    Value,
    choice,
    floats,
    is_tensor,
    listed,
    ones_like,
    where,
)
from lumigen.frontend.trace import fail
from lumigen.index import is_less, is_nonnegative, ix

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


class Extremum(NamedTuple):
    """The greatest or least values along a dimension, and their positions as i64."""

    values: Tensor
    indices: Tensor


class Range(NamedTuple):
    """The least and the greatest values."""

    min: Tensor
    max: Tensor


# --- sums and products ----------------------------------------------------------------------------


def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The product along a dimension, or of all elements; integers and bools in i64."""
    wanted = dtype or (input.dtype if input.dtype.is_float else i64)
    x = input.to(wanted)
    if dim is None:
        out = prod(x.flatten(), 0, dtype=wanted)
        return out.reshape((1,) * input.ndim) if keepdim else out
    if not input.ndim:
        movement.axes("prod", input.edge, dim)
        return x
    d = movement.axis("prod", input.edge, dim)
    extent = x.extents[d]
    if not extent.is_const and is_nonnegative(extent):
        if not is_less(ix(0), extent):
            x = x.pad((*(0, 0) * (x.ndim - 1 - d), 1, 0), 1)  # the product of nothing
        last = x.cumprod(d, dtype=x.dtype).narrow(d, x.extents[d] - 1, 1)
        return last if keepdim else last.squeeze(d)
    n = fixed("prod", "the extent of what is multiplied", extent)
    if not n:
        return ones_like(x.sum(d, keepdim))
    while n > 1:
        half = n // 2
        pairs = x.narrow(d, 0, half) * x.narrow(d, half, half)
        x = x.of(movement.cat([pairs.edge, x.narrow(d, n - 1, 1).edge], d)) if n % 2 else pairs
        n = half + n % 2
    return x if keepdim else x.squeeze(d)


def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum of what is no NaN."""
    return where(input.isnan(), 0, input).sum(dim, keepdim, dtype)


def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean of what is no NaN."""
    x = input if dtype is None else input.to(dtype)
    return nansum(x, dim, keepdim) / (~x.isnan()).sum(dim, keepdim).type_as(x)


def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are not 0, as i64."""
    return (input != 0).sum(dim)


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    return input.diagonal().sum()


# --- moments --------------------------------------------------------------------------------------


def _correction(
    dim: Dims | bool, unbiased: bool | None, correction: float | None
) -> tuple[Dims, float]:
    if isinstance(dim, bool):  # var(unbiased)
        dim, unbiased = None, dim
    if correction is not None:
        return dim, correction
    return dim, 1 if unbiased is None else int(unbiased)


def var(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """sum((x - mean)^2) / max(0, count - correction), of floats; the correction is 1 unless given."""
    dims, less = _correction(dim, unbiased, correction)
    return input.of(reduction.var(input.edge, dims, keepdim=keepdim, correction=less))


def std(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The square root of `var`, of floats."""
    return var(input, dim, unbiased, keepdim, correction=correction).sqrt()


def var_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(`var`, `mean`)."""
    dims, less = _correction(dim, unbiased, correction)
    return var(input, dims, None, keepdim, correction=less), input.mean(dims, keepdim)


def std_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(`std`, `mean`)."""
    dims, less = _correction(dim, unbiased, correction)
    return std(input, dims, None, keepdim, correction=less), input.mean(dims, keepdim)


def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of variables (variable, observation), weighted by counts and by importance."""
    x = floats(input)
    x = x.reshape(1, -1) if x.ndim < 2 else x
    if fweights is None and aweights is None:
        centred = x - x.mean(1, keepdim=True)
        norm = x.of(primitive.size(x.extents[1], x.dtype)) - correction
        return (centred.matmul(centred.mT) / norm.clamp(min=0)).squeeze()
    counts = ones_like(x[0]) if fweights is None else fweights.type_as(x)
    importance = ones_like(x[0]) if aweights is None else aweights.type_as(x)
    weights = counts * importance
    total = weights.sum()
    centred = x - (x * weights).sum(1, keepdim=True) / total
    lost = 1.0 if aweights is None else (weights * importance).sum() / total
    norm = total - lost * correction
    return ((centred * weights).matmul(centred.mT) / norm.clamp(min=0)).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables (variable, observation), between -1 and 1."""
    c = cov(input)
    if not c.ndim:
        return c / c
    scale = c.diagonal().sqrt()
    return (c / scale.unsqueeze(1) / scale).clamp(-1, 1)


# --- extrema --------------------------------------------------------------------------------------


@overload
def max(input: Tensor, dim: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False) -> Extremum: ...
def max(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | Extremum:
    """The greatest of all elements; along `dim` with their first positions; or of two tensors."""
    return _extremum("max", input, dim, keepdim)


@overload
def min(input: Tensor, dim: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False) -> Extremum: ...
def min(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | Extremum:
    """The least of all elements; along `dim` with their first positions; or of two tensors."""
    return _extremum("min", input, dim, keepdim)


def _extremum(op: str, input: Tensor, dim: object, keepdim: bool) -> Tensor | Extremum:
    greatest = op == "max"
    if dim is None:
        return input.amax() if greatest else input.amin()
    if is_tensor(dim):
        return input.maximum(dim) if greatest else input.minimum(dim)
    if not isinstance(dim, int):
        expected = f"one dimension or a tensor; of several dimensions use a{op}"
        raise fail(BadArgument, op=op, name="dim", value=repr(dim), expected=expected)
    if greatest:
        return Extremum(input.amax(dim, keepdim), input.argmax(dim, keepdim))
    return Extremum(input.amin(dim, keepdim), input.argmin(dim, keepdim))


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Range:
    """(the least, the greatest) of all elements or along a dimension."""
    return Range(input.amin(dim, keepdim), input.amax(dim, keepdim))


# --- norms ----------------------------------------------------------------------------------------


def vector_norm(
    input: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """(sum |x|^p)^(1/p); extrema of |x| for p = inf and -inf; the count of what is not 0 for p = 0."""
    x = floats(input if dtype is None else input.to(dtype))
    size = x.abs()
    if ord in (math.inf, -math.inf):
        reduction.need_elements("norm", x.edge, dim)
        return size.amax(dim, keepdim) if ord > 0 else size.amin(dim, keepdim)
    if ord == 0:
        return (x != 0).type_as(x).sum(dim, keepdim)
    if ord == 1:
        return size.sum(dim, keepdim)
    if ord == 2:
        return x.square().sum(dim, keepdim).sqrt()
    return size.pow(ord).sum(dim, keepdim).pow(1 / ord)


def matrix_norm(
    input: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """`fro`: sqrt(sum x^2); 1 and inf: the greatest sum of |x| in a column and a row; -1, -inf: the least."""
    x = floats(input if dtype is None else input.to(dtype))
    choice("matrix_norm", "ord", ord, "fro", 1, -1, math.inf, -math.inf)
    rows, columns = (movement.axis("matrix_norm", x.edge, d) for d in dim)
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns), keepdim)
    inner, outer = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = x.abs().sum(inner, keepdim=True)
    if x.extents[outer] == 0 and ord in (1, math.inf):
        return sums.sum(outer, keepdim) if keepdim else sums.sum((inner, outer))
    out = sums.amax(outer, keepdim=True) if ord in (1, math.inf) else sums.amin(outer, keepdim=True)
    return out if keepdim else out.squeeze((rows, columns))


def norm(
    input: Tensor,
    p: float | str | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """(sum |x|^p)^(1/p) over one dimension, several, or all; `fro` is p = 2."""
    choice("norm", "p", p, "fro") if isinstance(p, str) else None
    power = 2.0 if p is None or isinstance(p, str) else p
    return vector_norm(input, power, dim, keepdim, dtype=dtype)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return norm(input - other, p)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Parts along `dim` whose p-norm is above `maxnorm` scaled down to it."""
    d = movement.axis("renorm", input.edge, dim)
    rest = tuple(k for k in range(input.ndim) if k != d)
    size = vector_norm(input, p, rest, keepdim=True)
    return where(size > maxnorm, input * (maxnorm / (size + 1e-7)), input)


# --- neighbours -----------------------------------------------------------------------------------


def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """x[i + 1] - x[i] along a dimension, `n` times; of bools, whether they differ."""
    d = movement.axis("diff", input.edge, dim)
    if not n:
        return input
    parts = [x.edge for x in (prepend, input, append) if x is not None]
    x = input.of(movement.cat(parts, d)) if len(parts) > 1 else input
    for _ in range(n):
        count = x.extents[d]
        if count == 0:
            return x
        after, before = x.narrow(d, 1, count - 1), x.narrow(d, 0, count - 1)
        x = after ^ before if x.dtype.is_bool else after - before
    return x


def gradient(
    input: Tensor,
    *,
    spacing: float | Sequence[float] | Sequence[Tensor] | None = None,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """The derivatives along dimensions, by central differences; one-sided ones at the ends.

    `spacing` is a step for all dimensions, one for each, or the places of the elements along each.
    """
    choice("gradient", "edge_order", edge_order, 1, 2)
    dims = movement.axes("gradient", input.edge, dim)
    order = (
        [movement.axis("gradient", input.edge, d) for d in listed(dim)] if dim is not None else dims
    )
    steps = list(spacing) if isinstance(spacing, Sequence) else [spacing or 1.0] * len(dims)
    return tuple(_slope(floats(input), d, h, edge_order) for d, h in zip(order, steps, strict=True))


def _slope(x: Tensor, d: int, spacing: float | Tensor, edge_order: int) -> Tensor:
    n = x.extents[d]
    check_extent("gradient", f"axis {d} has extent {n}", n, least=edge_order + 1)
    tail = (1,) * (x.ndim - 1 - d)
    places = spacing if is_tensor(spacing) else counting(x, n).type_as(x) * spacing
    steps = diff(places.type_as(x)).reshape(-1, *tail)
    rise = diff(x, dim=d) / steps
    before, after = steps.narrow(0, 0, n - 2), steps.narrow(0, 1, n - 2)
    first, last = rise.narrow(d, 0, 1), rise.narrow(d, n - 2, 1)
    middle = (rise.narrow(d, 0, n - 2) * after + rise.narrow(d, 1, n - 2) * before) / (
        before + after
    )
    if edge_order == 2:
        a, b = steps.narrow(0, 0, 1), steps.narrow(0, 1, 1)
        first = first + (first - rise.narrow(d, 1, 1)) * a / (a + b)
        b, a = steps.narrow(0, n - 3, 1), steps.narrow(0, n - 2, 1)
        last = last + (last - rise.narrow(d, n - 3, 1)) * a / (a + b)
    return x.of(movement.cat([first.edge, middle.edge, last.edge], d))


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Value = 1, dim: int = -1) -> Tensor:
    """The integral by the rule of trapezoids: sum (y[i] + y[i + 1]) / 2 * (x[i + 1] - x[i])."""
    d = movement.axis("trapezoid", y.edge, dim)
    count = y.extents[d]
    if count == 0:
        return floats(y).sum(d)
    sums = y.narrow(d, 1, count - 1) + y.narrow(d, 0, count - 1)
    if x is None:
        return (sums * dx).sum(d) / 2 if y.dtype.is_float else floats(sums * dx).sum(d) / 2
    tail = (1,) * (y.ndim - 1 - d)
    steps = diff(x).reshape(-1, *tail) if x.ndim == 1 else diff(x, dim=dim)
    return (sums * steps).sum(d) / 2
