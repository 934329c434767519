"""Cumulative operations: scans of an associative operation along one dimension."""

# signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lumigen.dtype import DType, i64, u8
from lumigen.errors import BadArgument
from lumigen.frontend import movement, reduction
from lumigen.frontend.elementwise import logaddexp
from lumigen.frontend.looping import scanned
from lumigen.frontend.operand import Value, filled, floats, full_like, where
from lumigen.frontend.primitive import Scalar
from lumigen.frontend.statistics import Extremum, diff
from lumigen.frontend.trace import fail
from lumigen.graph import Edge

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """x[0] + .. + x[i] for each i along `dim`; integers and bools are summed in i64.

    A sum of f32 carries what its roundings have lost.
    """
    x = input.to(dtype or (input.dtype if input.dtype.is_float else i64))
    return _along("cumsum", x, dim, 0, "sum", lambda a, b: a + b)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """x[0] * .. * x[i] for each i along `dim`; integers and bools are multiplied in i64."""
    x = input.to(dtype or (input.dtype if input.dtype.is_float else i64))
    return _along("cumprod", x, dim, 1, "product", lambda a, b: a * b)


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(exp(x[0]) + .. + exp(x[i])) for each i along `dim`."""
    x = floats(input)
    return _along("logcumsumexp", x, dim, -math.inf, "logsumexp", logaddexp)


def cummax(input: Tensor, dim: int) -> Extremum:
    """The greatest of x[0], .., x[i] for each i along `dim`, and the last position that has it.

    Behind a NaN all are NaN, and the position is that of the last one.
    """
    return _extremum("cummax", input, dim, lambda a, b: a.maximum(b), least=True)


def cummin(input: Tensor, dim: int) -> Extremum:
    """The least of x[0], .., x[i] for each i along `dim`, and the last position that has it."""
    return _extremum("cummin", input, dim, lambda a, b: a.minimum(b), least=False)


def _extremum(
    op: str, input: Tensor, dim: int, pick: Callable[[Tensor, Tensor], Tensor], *, least: bool
) -> Extremum:
    """A scan of the values, then one of the positions at which each has become what it is."""
    x = input.to(u8) if input.dtype.is_bool else input
    greatest = math.inf if x.dtype.is_float else x.dtype.greatest
    unset: Scalar = x.dtype.lowest if least else greatest
    values = _along(op, x, dim, unset, "max" if least else "min", pick)
    if not input.extents or any(e == 0 for e in input.extents):
        return Extremum(input, full_like(input, 0, dtype=i64))
    d = movement.axis(op, input.edge, dim)
    hit = x == values
    if x.dtype.is_float:
        hit = hit | x.isnan()
    back = (1,) * (input.ndim - 1 - d)
    number = input.of(reduction.emit_iota(input.extents[d])).reshape(-1, *back)
    indices = _along(op, where(hit, number, 0), d, 0, "max", lambda a, b: a.maximum(b))
    return Extremum(values.type_as(input), indices)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Value | None = None, dim: int = -1
) -> Tensor:
    """The integral by the rule of trapezoids up to each element but the first: one fewer along `dim`.

    `x` has the places of the elements, `dx` their distance, 1 if neither is given; not both.
    """
    op = "cumulative_trapezoid"
    if x is not None and dx is not None:
        raise fail(BadArgument, op=op, name="dx", value=dx, expected="one of x and dx")
    d = movement.axis(op, y.edge, dim)
    count = y.extents[d]
    sums = y.narrow(d, 1, count - 1) + y.narrow(d, 0, count - 1)
    if x is None:
        return floats(sums * (1 if dx is None else dx)).cumsum(d) / 2
    tail = (1,) * (y.ndim - 1 - d)
    steps = diff(x).reshape(-1, *tail) if x.ndim == 1 else diff(x, dim=dim)
    return (sums * steps).cumsum(d) / 2


def _along(
    op: str,
    x: Tensor,
    dim: int,
    first: Scalar,
    monoid: str,
    combine: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The scan of one tensor by an associative operation, of which `first` is the neutral element."""
    if not movement.axes(op, x.edge, dim) or any(e == 0 for e in x.extents):
        return x
    d = movement.axis(op, x.edge, dim)
    if x.extents[d] == 1:
        return x

    def body(carries: list[Edge], elements: list[Edge]) -> tuple[list[Edge], list[Edge]]:
        (so_far,), (element,) = carries, elements
        return [combine(x.of(so_far), x.of(element)).edge], []

    kept = tuple(e for i, e in enumerate(x.extents) if i != d)
    start = filled(x, kept, first).edge
    (out,), _ = scanned(body, [start], [x.edge], axis=d, length=x.extents[d], monoid=monoid)
    return x.of(out)
