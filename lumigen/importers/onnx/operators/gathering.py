"""gathering: elements by their places, and places by elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lumigen.dtype import i64
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.values import Array, Known
from lumigen.importers.places import outside

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def from_front(places: Tensor, count: Any) -> Tensor:
    """Places that count back from the end where they are negative."""
    return functions.where(places < 0, places + count, places)


def check_places(n: OnnxNode, i: int, sizes: Sequence[Any]) -> None:
    """UnsupportedNode where an operand holds known places of which one is outside of an axis, whatever its size is.

    There is one size, or one for each element along the last axis of the operand.
    """
    places = n.value(i)
    if not isinstance(places, Known) or places.is_symbolic:
        return
    wrong = outside(places.array, sizes)
    if wrong:
        raise n.unsupported(f"its input {i + 1} has {wrong}", "Correct the constant.")


def gather(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    axis = int(n.attr("axis", 0)) % x.ndim
    check_places(n, 1, x.shape[axis : axis + 1])
    before: list[Any] = [slice(None)] * axis
    given = n.value(1)
    if isinstance(given, Known) and not given.array.ndim and not given.is_symbolic:
        return x[(*before, int(given.array))]
    return x[(*before, n.tensor(1))]


def _known_gather(n: OnnxNode, a: Array, places: Array) -> Array:
    return np.take(a, places.astype(np.int64), int(n.attr("axis", 0)))


def gather_elements(n: OnnxNode) -> Tensor:
    x, places = n.tensor(0), n.tensor(1)
    axis = int(n.attr("axis", 0)) % x.ndim
    check_places(n, 1, x.shape[axis : axis + 1])
    return x.gather(axis, from_front(places, x.shape[axis]))


def gather_nd(n: OnnxNode) -> Tensor:
    """The last axis of the places names an element, or a slice, of each batch."""
    x, places = n.tensor(0), n.tensor(1).to(i64)
    batch = int(n.attr("batch_dims", 0))
    depth = int(places.shape[-1])
    check_places(n, 1, x.shape[batch : batch + depth])
    keys: list[Tensor] = []
    rows = places.shape[:-1]
    for d in range(batch):
        count = functions.arange(x.shape[d])
        line = count.reshape(*(1,) * d, -1, *(1,) * (len(rows) - 1 - d))
        keys.append(line.expand(*rows))
    for k in range(depth):
        at = places.narrow(-1, k, 1).squeeze(-1)
        keys.append(from_front(at, x.shape[batch + k]))
    return x[tuple(keys)]


def scatter_elements(n: OnnxNode) -> Tensor:
    x, places, updates = n.tensor(0), n.tensor(1), n.tensor(2)
    axis = int(n.attr("axis", 0)) % x.ndim
    how = n.attr("reduction", "none")
    check_places(n, 1, x.shape[axis : axis + 1])
    at = from_front(places.to(i64), x.shape[axis])
    if how == "none":
        return x.scatter(axis, at, updates)
    return x.scatter_reduce(axis, at, updates, REDUCTIONS[how])


def scatter_nd(n: OnnxNode) -> Tensor:
    """Updates go to elements, or slices, that the last axis of the places names."""
    x, places, updates = n.tensor(0), n.tensor(1).to(i64), n.tensor(2)
    depth = int(places.shape[-1])
    how = n.attr("reduction", "none")
    check_places(n, 1, x.shape[:depth])
    keys = [from_front(places.narrow(-1, k, 1).squeeze(-1), x.shape[k]) for k in range(depth)]
    if how in ("none", "add"):
        return functions.index_put(x, keys, updates, how == "add")
    at = keys[0]
    count: Any = x.shape[0]
    for k in range(1, depth):
        at = at * x.shape[k] + keys[k]
        count = count * x.shape[k]
    flat = x.reshape(count, -1)
    given = updates.reshape(-1, flat.shape[1])
    index = at.reshape(-1, 1).expand(given.shape[0], flat.shape[1])
    return flat.scatter_reduce(0, index, given, REDUCTIONS[how]).reshape(*x.shape)


def one_hot(n: OnnxNode) -> Tensor:
    places = n.tensor(0)
    depth, values = n.number(1), n.tensor(2)
    depth = int(depth) if isinstance(depth, int | float) else depth
    axis = int(n.attr("axis", -1)) % (places.ndim + 1)
    at = from_front(places.to(i64), depth).unsqueeze(axis)
    line = functions.arange(depth).reshape(-1, *(1,) * (places.ndim - axis))
    return functions.where(at == line, values[1], values[0])


def compress(n: OnnxNode) -> Tensor:
    """The slices, or elements, where a known condition holds."""
    x = n.tensor(0)
    chosen = np.flatnonzero(n.static(1).astype(bool)).tolist()
    axis = n.attr("axis", None)
    if axis is None:
        x, axis = x.flatten(), 0
    if not chosen:
        return x.narrow(axis, 0, 0)
    places = n.around.tensor(Known(np.array(chosen), f"{n.proto.output[0]}.places"))
    return x.index_select(int(axis) % x.ndim, places)


def nonzero(n: OnnxNode) -> Known:
    """Of a known operand: how many there are decides a shape."""
    return Known(np.array(np.nonzero(n.static(0)), np.int64))


def unique(n: OnnxNode) -> tuple[Known, ...]:
    """Of a known operand, likewise."""
    axis = n.attr("axis", None)
    values, first, inverse, counts = np.unique(
        n.static(0), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.argsort(first) if not n.attr("sorted", 1) else np.arange(len(first))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    chosen = np.take(values, order, 0 if axis is None else axis)
    numbers = (first[order], rank[inverse.reshape(-1)], counts[order])
    return (Known(chosen), *(Known(np.asarray(a, np.int64)) for a in numbers))


def tensor_scatter(n: OnnxNode) -> Tensor:
    """Rows of an update written into a cache, from a place on that differs by batch."""
    past, update = n.tensor(0), n.tensor(1)
    axis = int(n.attr("axis", -2)) % past.ndim
    length = update.shape[axis]
    start = n.tensor(2) if n.has(2) else functions.zeros(past.shape[0], dtype=i64)
    steps = functions.arange(length).reshape(-1, *(1,) * (past.ndim - 1 - axis))
    at = start.reshape(-1, *(1,) * (past.ndim - 1)) + steps
    if n.attr("mode", "linear") == "circular":
        at = at % past.shape[axis]
    return past.scatter(axis, at.expand(*update.shape), update)


ROWS = (
    Operator("Gather", gather, known=_known_gather),
    Operator("GatherElements", gather_elements),
    Operator("GatherND", gather_nd),
    Operator("ScatterElements", scatter_elements),
    Operator("Scatter", scatter_elements),
    Operator("ScatterND", scatter_nd),
    Operator("OneHot", one_hot),
    Operator("Compress", compress),
    Operator("NonZero", nonzero),
    Operator("Unique", unique),
    Operator("TensorScatter", tensor_scatter),
)
