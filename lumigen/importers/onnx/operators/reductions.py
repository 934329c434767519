"""reductions: sums, means, extremes and norms over axes, softmax, and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lumigen.dtype import DType, i64
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.values import Array

Reduction = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def axes_of(n: OnnxNode, rank: int) -> tuple[int, ...]:
    """The axes, which are an input or an attribute; all of them where none is named, unless that means none."""
    given = n.sizes(1) if n.has(1) else n.attr("axes", None)
    if not given:
        return () if n.attr("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({int(a) % rank for a in given}))


def reduction(name: str, f: Reduction, known: Callable[..., Any] | None = None) -> Operator:
    """A reduction, whose result has the type of its operand."""

    def function(n: OnnxNode) -> Tensor:
        x = n.tensor(0)
        axes = axes_of(n, x.ndim)
        return f(x, axes, bool(n.attr("keepdims", 1))).to(x.dtype)

    def of_known(n: OnnxNode, a: Array, *_: Array) -> Any:
        axes = axes_of(n, a.ndim)
        assert known is not None
        if not a.size:
            return None
        return np.asarray(known(a, axis=axes, keepdims=bool(n.attr("keepdims", 1))))

    return Operator(name, function, known=None if known is None else of_known)


def over(method: Callable[..., Tensor]) -> Reduction:
    """A method that reduces several axes; no axes leave the tensor as it is."""
    return lambda x, axes, keep: method(x, axes, keep) if axes else x


def extreme(method: Callable[..., Tensor], of_nothing: Callable[[DType], Any]) -> Reduction:
    """The greatest or the least; over no elements at all the neutral one of the type."""

    def f(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
        if not any(isinstance(x.shape[d], int) and x.shape[d] == 0 for d in axes):
            return over(method)(x, axes, keep)
        sizes = [1 if d in axes else e for d, e in enumerate(x.shape) if keep or d not in axes]
        return functions.full(sizes, of_nothing(x.dtype), x.dtype)

    return f


def _least(dtype: DType) -> Any:
    return bool(dtype.lowest) if dtype.is_bool else dtype.lowest


def _greatest(dtype: DType) -> Any:
    return math.inf if dtype.is_float else bool(dtype.greatest) if dtype.is_bool else dtype.greatest


def product(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The product over several axes, one after the other."""
    for axis in reversed(axes):
        x = x.prod(axis, keep)
    return x


def log_sum(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return over(Tensor.sum)(x, axes, keep).log()


def log_sum_exp(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return x.logsumexp(axes, keep) if axes else x


def norm1(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return over(Tensor.sum)(x.abs(), axes, keep)


def norm2(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The root of the sum of squares; of integers rounded down."""
    return over(Tensor.sum)(x * x, axes, keep).sqrt()


def squares(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    return over(Tensor.sum)(x * x, axes, keep)


def mean(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The mean; of integers rounded towards 0."""
    return over(Tensor.mean)(x if x.dtype.is_float else x.double(), axes, keep)


def place(name: str, f: Callable[..., Tensor]) -> Operator:
    """The place of an extreme: the first one, or the last."""

    def function(n: OnnxNode) -> Tensor:
        x, keep = n.tensor(0), bool(n.attr("keepdims", 1))
        axis = int(n.attr("axis", 0)) % max(x.ndim, 1)
        if not n.attr("select_last_index", 0):
            return f(x, axis, keep)
        return -f(x.flip(axis), axis, keep) + (x.shape[axis] - 1)

    return Operator(name, function)


def along(name: str, f: Callable[[Tensor, int], Tensor]) -> tuple[Operator, Operator]:
    """An operator along one axis; before version 13 along all axes from one on."""

    def old(n: OnnxNode) -> Tensor:
        x = n.tensor(0)
        axis = int(n.attr("axis", 1))
        rows = x.shape[: axis % x.ndim if axis < x.ndim else axis]
        count: Any = 1
        for size in rows:
            count = count * size
        return f(x.reshape(count, -1), 1).reshape(*x.shape)

    return (
        Operator(name, old),
        Operator(name, lambda n: f(n.tensor(0), int(n.attr("axis", -1))), since=13),
    )


def hardmax(x: Tensor, axis: int) -> Tensor:
    """1 at the first greatest element, else 0."""
    d = axis % x.ndim
    places = functions.arange(x.shape[d]).reshape(-1, *(1,) * (x.ndim - 1 - d))
    return (places == x.argmax(d, keepdim=True)).to(x.dtype)


def running(name: str, f: Callable[[Tensor, int], Tensor], neutral: int) -> Operator:
    """Sums or products of all elements before, along an axis."""

    def function(n: OnnxNode) -> Tensor:
        x = n.tensor(0)
        axis = int(n.number(1)) % x.ndim
        backwards = bool(n.attr("reverse", 0))
        out = f(x.flip(axis) if backwards else x, axis).to(x.dtype)
        if n.attr("exclusive", 0):
            first = functions.full_like(x.narrow(axis, 0, 1), neutral)
            out = functions.cat([first, out.narrow(axis, 0, x.shape[axis] - 1)], axis)
        return out.flip(axis) if backwards else out

    return Operator(name, function)


def top(n: OnnxNode) -> tuple[Tensor, ...]:
    """The k greatest elements or the least, and their places."""
    x = n.tensor(0)
    k = n.number(1) if n.has(1) else n.attr("k")
    axis = int(n.attr("axis", -1)) % x.ndim
    found = x.topk(k, axis, largest=bool(n.attr("largest", 1)))
    return found[0], found[1].to(i64)


ROWS = (
    reduction("ReduceSum", over(Tensor.sum), np.sum),
    reduction("ReduceMean", mean),
    reduction("ReduceMax", extreme(Tensor.amax, _least), np.max),
    reduction("ReduceMin", extreme(Tensor.amin, _greatest), np.min),
    reduction("ReduceProd", product, np.prod),
    reduction("ReduceLogSum", log_sum),
    reduction("ReduceLogSumExp", log_sum_exp),
    reduction("ReduceL1", norm1),
    reduction("ReduceL2", norm2),
    reduction("ReduceSumSquare", squares),
    place("ArgMax", Tensor.argmax),
    place("ArgMin", Tensor.argmin),
    *along("Softmax", lambda x, d: x.softmax(d)),
    *along("LogSoftmax", lambda x, d: x.log_softmax(d)),
    *along("Hardmax", hardmax),
    running("CumSum", lambda x, d: x.cumsum(d), 0),
    running("CumProd", lambda x, d: x.cumprod(d), 1),
    Operator("TopK", top),
)
