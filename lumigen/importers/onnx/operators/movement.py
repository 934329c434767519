"""movement: shapes, slices, joins, padding and blocks: what moves elements and computes none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lumigen.dtype import boolean
from lumigen.frontend import Tensor, functional, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.values import FEW, Array, Known, Value, as_known, shape_of
from lumigen.index import ix

# --- shapes ---------------------------------------------------------------------------------------


def shape(n: OnnxNode) -> Known:
    value = n.given(0)
    sizes = list(shape_of(value))
    return as_known(sizes[slice(n.attr("start", None), n.attr("end", None))])


def size(n: OnnxNode) -> Known:
    return as_known(math.prod(shape_of(n.given(0))))


def _target(n: OnnxNode, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """The wanted sizes, 0 as that of the operand unless `allowzero`."""
    if n.attr("allowzero", 0):
        return list(new)
    out: list[Any] = []
    for i, e in enumerate(new):
        if isinstance(e, int) and e == 0 and i >= len(old):
            raise n.unsupported(f"it copies size {i} of {len(old)} sizes", "Correct the shape.")
        out.append(old[i] if isinstance(e, int) and e == 0 else e)
    return out


def reshape(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return x.reshape(*_target(n, x.shape, n.sizes(1) if n.has(1) else n.attr("shape")))


def _known_reshape(n: OnnxNode, a: Array, *_: Array) -> Any:
    new = _target(n, a.shape, n.sizes(1) if n.has(1) else n.attr("shape"))
    return a.reshape(new) if all(isinstance(e, int) for e in new) else None


def flatten(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    axis = int(n.attr("axis", 1))
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def transpose(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return x.permute(*n.attr("perm", list(range(x.ndim))[::-1])) if x.ndim else x


def _known_transpose(n: OnnxNode, a: Array) -> Array:
    return a.transpose(n.attr("perm", None))


def _axes(n: OnnxNode, i: int, rank: int) -> list[int] | None:
    given = n.sizes(i) if n.has(i) else n.attr("axes", None)
    return None if given is None else [int(a) % rank for a in given]


def range_of_size(size: Any) -> range:
    """What a size can be."""
    low, high = ix(size).bounds()
    return range(low or 0, 2**63 - 1 if high is None else high + 1)


def squeeze(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    axes = _axes(n, 1, max(x.ndim, 1))
    if axes is None:
        axes = [d for d, e in enumerate(x.shape) if isinstance(e, int) and e == 1]
        for d, e in enumerate(x.shape):
            if d not in axes and 1 in range_of_size(e):
                why = f"it has no axes, and whether axis {d} of size {e} goes depends on a run"
                raise n.unsupported(why, f"Give it axes, or give {e} a range from 2 on.")
    for d in axes:
        if not (isinstance(e := x.shape[d], int) and e == 1):
            raise n.unsupported(f"axis {d} to be squeezed is {e}, and not 1", "Correct the axes.")
    return x.reshape(*(e for d, e in enumerate(x.shape) if d not in axes))


def _known_squeeze(n: OnnxNode, a: Array, *_: Array) -> Array:
    axes = _axes(n, 1, max(a.ndim, 1))
    return a.squeeze(None if axes is None else tuple(axes))


def _opened(n: OnnxNode, old: Sequence[Any]) -> list[Any]:
    given = n.sizes(1) if n.has(1) else n.attr("axes")
    rank = len(old) + len(given)
    new = {int(a) % rank for a in given}
    if len(new) != len(given):
        raise n.unsupported(f"its axes {given} are not different", "Correct the axes.")
    rest = iter(old)
    return [1 if d in new else next(rest) for d in range(rank)]


def unsqueeze(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return x.reshape(*_opened(n, x.shape))


def _known_unsqueeze(n: OnnxNode, a: Array, *_: Array) -> Array:
    return a.reshape(_opened(n, a.shape))


def expand(n: OnnxNode) -> Tensor:
    """Both the operand and the wanted shape broadcast."""
    x, wanted = n.tensor(0), n.sizes(1)
    rank = max(x.ndim, len(wanted))
    old = [*(1,) * (rank - x.ndim), *x.shape]
    new = [*(1,) * (rank - len(wanted)), *wanted]
    return x.reshape(*old).expand(
        *(a if isinstance(b, int) and b == 1 else b for a, b in zip(old, new, strict=True))
    )


def _known_expand(n: OnnxNode, a: Array, *_: Array) -> Any:
    wanted = n.sizes(1)
    if not all(isinstance(e, int) for e in wanted) or math.prod(wanted) > FEW:
        return None
    return np.broadcast_to(a, np.broadcast_shapes(a.shape, tuple(wanted)))


def tile(n: OnnxNode) -> Tensor:
    return n.tensor(0).repeat(*n.sizes(1))


def _known_tile(n: OnnxNode, a: Array, *_: Array) -> Any:
    times = n.sizes(1)
    if not all(isinstance(e, int) for e in times) or math.prod(times) * a.size > FEW:
        return None
    return np.tile(a, times)


# --- joins and parts ------------------------------------------------------------------------------


def concat(n: OnnxNode) -> Tensor:
    return joined(n.tensors(), int(n.attr("axis")))


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """One after the other; what is empty adds nothing."""
    full = [p for p in parts if not (isinstance(e := p.shape[axis], int) and e == 0)]
    return functions.cat(full or parts[:1], axis)


def _known_concat(n: OnnxNode, *arrays: Array) -> Array:
    if any(a.dtype == object for a in arrays):
        arrays = tuple(a.astype(object) for a in arrays)
    return np.concatenate(arrays, int(n.attr("axis")))


def parts_of(n: OnnxNode, total: Any, given: list[Any] | None, count: int) -> list[Any]:
    """The sizes of the parts; without a list equal ones, of which the last may be smaller."""
    if given is not None:
        return given
    each = -(-total // count)
    return [each] * (count - 1) + [total - each * (count - 1)]


def split(n: OnnxNode) -> tuple[Value, ...]:
    x = n.tensor(0)
    axis = int(n.attr("axis", 0)) % x.ndim
    given = n.sizes(1) if n.has(1) else n.attr("split", None)
    sizes = parts_of(n, x.shape[axis], given, int(n.attr("num_outputs", n.wanted)))
    return tuple(x.split(sizes, axis))


def split_known(n: OnnxNode) -> tuple[Value, ...]:
    """A known operand has known parts, as shapes that are taken apart."""
    value = n.value(0)
    if not isinstance(value, Known) or value.array.size > FEW:
        return split(n)
    axis = int(n.attr("axis", 0))
    given = n.sizes(1) if n.has(1) else n.attr("split", None)
    total = value.array.shape[axis]
    sizes = parts_of(n, total, given, int(n.attr("num_outputs", n.wanted)))
    ends = np.cumsum(sizes)[:-1]
    return tuple(Known(a) for a in np.split(value.array, ends, axis))


def _slices(n: OnnxNode, rank: int) -> list[tuple[int, Any, Any, Any]]:
    """(axis, start, end, step) of each sliced axis."""
    if not n.has(1):
        starts, ends = n.attr("starts"), n.attr("ends")
        axes = n.attr("axes", list(range(len(starts))))
        steps = [1] * len(starts)
    else:
        starts, ends = n.sizes(1), n.sizes(2)
        axes = n.sizes(3) if n.has(3) else list(range(len(starts)))
        steps = n.sizes(4) if n.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        why = f"it has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps"
        raise n.unsupported(why, "Correct the node.")
    return [(int(a) % rank, *rest) for a, *rest in zip(axes, starts, ends, steps, strict=True)]  # type: ignore[misc]


def slice_(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    for axis, start, end, step in _slices(n, x.ndim):
        x = _sliced(x, axis, start, end, step)
    return x


def _sliced(x: Tensor, axis: int, start: Any, end: Any, step: Any) -> Tensor:
    """Bounds count back from the end where they are negative, and stop at both ends."""
    total = x.shape[axis]
    if isinstance(step, int) and step < 0:
        if all(isinstance(e, int) for e in (total, start, end)):
            chosen = list(range(*slice(start, end, step).indices(total)))
            if not chosen:
                return x.narrow(axis, 0, 0)
            first, last = total - 1 - chosen[0], total - 1 - chosen[-1]
            return _sliced(x.flip(axis), axis, first, last + 1, -step)
        last = x.flip(axis)
        first = 0 if isinstance(start, int) and start >= 2**31 else _mirrored(total, start)
        stop = total if isinstance(end, int) and end <= -(2**31) else _mirrored(total, end)
        return _sliced(last, axis, first, stop, -step)
    if isinstance(start, int) and isinstance(total, int):
        start = max(start, -total)
    if isinstance(end, int) and end >= 2**31 - 1:
        end = None
    key = [slice(None)] * axis + [slice(start, end, step)]
    return x[tuple(key)]


def _mirrored(total: Any, i: Any) -> Any:
    """A place counted from the end."""
    if isinstance(i, int) and i < 0:
        return -i - 1
    return total - 1 - i


def _known_slice(n: OnnxNode, a: Array, *_: Array) -> Any:
    key = [slice(None)] * a.ndim
    for axis, start, end, step in _slices(n, a.ndim):
        if not all(isinstance(e, int) for e in (start, end, step)):
            return None
        key[axis] = slice(start, _behind(end, step), step)
    return a[tuple(key)]


def _behind(end: int, step: int) -> int | None:
    """A far end before the first element is none at all: Python would count it from the end."""
    return None if step < 0 and end < -(2**31) else end


# --- padding and blocks ---------------------------------------------------------------------------

PAD_MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def pad(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    given = n.sizes(1) if n.has(1) else n.attr("pads", None) or n.attr("paddings")
    axes = [int(a) % x.ndim for a in n.sizes(3)] if n.has(3) else list(range(x.ndim))
    widths = [(0, 0)] * x.ndim
    for i, d in enumerate(axes):
        widths[d] = (given[i], given[i + len(axes)])
    mode = n.attr("mode", "constant")
    flat = [w for pair in reversed(widths) for w in pair]
    if mode == "constant":
        value = n.constant(2) if n.has(2) else n.attr("value", 0.0)
        if value is None:
            return _padded_by(x, flat, n.tensor(2))
        return x.pad(flat, value if x.dtype.is_float else int(value))
    if mode not in PAD_MODES:
        raise n.unsupported(f"its mode is {mode!r}")
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        del flat[-2:]
    return functional.pad(x, flat, PAD_MODES[mode])


def _padded_by(x: Tensor, widths: list[Any], value: Tensor) -> Tensor:
    """What is added is a number that only a run knows."""
    inside = functions.ones_like(x, dtype=boolean).pad(widths, 0)
    return functions.where(inside, x.pad(widths, 0), value.reshape())


def depth_to_space(n: OnnxNode) -> Tensor:
    x, block = n.tensor(0), int(n.attr("blocksize"))
    b, c, h, w = x.shape
    if n.attr("mode", "DCR") == "DCR":
        parts = x.reshape(b, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(b, c // block**2, block, block, h, w).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(b, c // block**2, h * block, w * block)


def space_to_depth(n: OnnxNode) -> Tensor:
    x, block = n.tensor(0), int(n.attr("blocksize"))
    b, c, h, w = x.shape
    parts = x.reshape(b, c, h // block, block, w // block, block)
    is_depth_first = n.attr("mode", "DCR") == "DCR"
    parts = parts.permute(0, 3, 5, 1, 2, 4) if is_depth_first else parts.permute(0, 1, 3, 5, 2, 4)
    return parts.reshape(b, c * block**2, h // block, w // block)


def triangle(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    k = int(n.number(1, 0))
    return x.triu(k) if n.attr("upper", 1) else x.tril(k)


def reverse_sequence(n: OnnxNode) -> Tensor:
    """The first `lengths[b]` elements in time in reverse order, the others as they are."""
    x, lengths = n.tensor(0), n.tensor(1)
    time, batch = int(n.attr("time_axis", 0)), int(n.attr("batch_axis", 1))
    steps = functions.arange(x.shape[time])
    at = steps.reshape(-1, 1)
    back = lengths.reshape(1, -1) - 1 - at
    places = functions.where(back >= 0, back, at)  # (time, batch)
    if time > batch:
        places = places.t()
    places = places.reshape(*places.shape, *(1,) * (x.ndim - 2))
    return x.gather(time, places.expand(*x.shape))


def dropout(n: OnnxNode) -> tuple[Tensor, ...]:
    """Nothing is dropped when a model runs."""
    x = n.tensor(0)
    if n.has(2) and bool(n.number(2)) and n.number(1, 0.5) != 0:
        raise n.unsupported("it is in training mode", "Export the model for inference.")
    return x, functions.ones_like(x, dtype=boolean if n.version >= 10 else x.dtype)


ROWS = (
    Operator("Shape", shape),
    Operator("Size", size),
    Operator("Reshape", reshape, known=_known_reshape),
    Operator("Flatten", flatten),
    Operator("Transpose", transpose, known=_known_transpose),
    Operator("Squeeze", squeeze, known=_known_squeeze),
    Operator("Unsqueeze", unsqueeze, known=_known_unsqueeze),
    Operator("Expand", expand, known=_known_expand),
    Operator("Tile", tile, known=_known_tile),
    Operator("Concat", concat, known=_known_concat),
    Operator("Split", split_known),
    Operator("Slice", slice_, known=_known_slice),
    Operator("Pad", pad),
    Operator("DepthToSpace", depth_to_space),
    Operator("SpaceToDepth", space_to_depth),
    Operator("Trilu", triangle),
    Operator("ReverseSequence", reverse_sequence),
    Operator("Dropout", dropout),
)
