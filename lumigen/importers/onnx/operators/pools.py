"""pools: maxima, means and norms of windows, of whole channels and of regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lumigen.frontend import Tensor, functions
from lumigen.frontend.convolution import windows
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.windows import windows_of


def max_pool(n: OnnxNode) -> Any:
    """The maxima, and where they are in the flat operand: the first of equal ones."""
    x = n.tensor(0)
    w = windows_of(n, x, tuple(n.attr("kernel_shape")))
    seen = w.of(x, x.dtype.lowest)
    best = seen.amax(w.inner)
    if not n.wants(1):
        return best
    rank = len(w.size)
    extents = x.shape[-rank:]
    order = list(range(rank))
    if n.attr("storage_order", 0):  # the first axis of an image is the fastest
        flat = functions.arange(math.prod(extents)).reshape(*extents[::-1]).permute(*order[::-1])
    else:
        flat = functions.arange(math.prod(extents)).reshape(*extents)
    places = w.of(flat, -1).flatten(-rank)
    first = seen.flatten(-rank).argmax(-1, keepdim=True)
    lead = x.ndim - rank
    places = places.reshape(*(1,) * lead, *places.shape).expand(*first.shape[:-1], places.shape[-1])
    inside = places.gather(-1, first).squeeze(-1)
    images = functions.arange(math.prod(x.shape[:lead])).reshape(*x.shape[:lead], *(1,) * rank)
    return best, images * math.prod(extents) + inside


def average_pool(n: OnnxNode) -> Tensor:
    return averaged(n, n.tensor(0))


def averaged(n: OnnxNode, x: Tensor) -> Tensor:
    """Sums by how many elements a window sees; of the padding only if `count_include_pad`."""
    w = windows_of(n, x, tuple(n.attr("kernel_shape")))
    total = w.of(x, 0).sum(w.inner)
    if not w.is_padded:
        return total / math.prod(w.size)
    ones = functions.ones(*x.shape[-len(w.size) :], dtype=x.dtype)
    if n.attr("count_include_pad", 0):
        ones = w.behind(w.padded(ones, 1), 0)
        return total / windows(ones, w.size, w.step, w.dilation).sum(w.inner)
    return total / w.of(ones, 0).sum(w.inner)


def lp_pool(n: OnnxNode) -> Tensor:
    x, p = n.tensor(0), float(n.attr("p", 2))
    w = windows_of(n, x, tuple(n.attr("kernel_shape")))
    return _root(_power(w.of(x, 0), p).sum(w.inner), p)


def _power(x: Tensor, p: float) -> Tensor:
    return x * x if p == 2 else x.abs().pow(p)


def _root(x: Tensor, p: float) -> Tensor:
    return x.sqrt() if p == 2 else x if p == 1 else x.pow(1 / p)


def whole(name: str, f: Callable[[OnnxNode, Tensor, tuple[int, ...]], Tensor]) -> Operator:
    """A pool over all of each channel."""
    return Operator(name, lambda n: f(n, n.tensor(0), tuple(range(2, n.tensor(0).ndim))))


def global_lp(n: OnnxNode, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    p = float(n.attr("p", 2))
    return _root(_power(x, p).sum(axes, keepdim=True), p)


def max_unpool(n: OnnxNode) -> Tensor:
    """Elements at their places in zeros."""
    x, places = n.tensor(0), n.tensor(1)
    rank = x.ndim - 2
    size, step = n.attr("kernel_shape"), n.numbers("strides", [1] * rank)
    pads = n.pads(rank)
    small = [
        (x.shape[2 + i] - 1) * step[i] + size[i] - pads[i] - pads[i + rank] for i in range(rank)
    ]
    shape = [*x.shape[:2], *small]
    flat = functions.zeros(math.prod(shape), dtype=x.dtype)
    out = flat.scatter(0, places.flatten(), x.flatten()).reshape(*shape)
    if not n.has(2):
        return out
    behind = [want - have for have, want in zip(shape, n.sizes(2), strict=True)]
    return out.pad([w for more in reversed(behind) for w in (0, more)])


ROWS = (
    Operator("MaxPool", max_pool),
    Operator("AveragePool", average_pool),
    Operator("LpPool", lp_pool),
    Operator("MaxUnpool", max_unpool),
    whole("GlobalAveragePool", lambda n, x, axes: x.mean(axes, keepdim=True)),
    whole("GlobalMaxPool", lambda n, x, axes: x.amax(axes, keepdim=True)),
    whole("GlobalLpPool", global_lp),
)
