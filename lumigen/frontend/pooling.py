"""Pooling: maxima, means and norms of windows, and of pieces of a dimension (adaptive)."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeAlias

from lumigen.errors import BadArgument
from lumigen.frontend import movement
from lumigen.frontend.convolution import Sizes, several, windows
from lumigen.frontend.creation import arange, full
from lumigen.frontend.extents import check_extent, counted, fixed, need_axes
from lumigen.frontend.operand import where
from lumigen.frontend.primitive import Extent
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import Axis, Ix, Symbolic, ceildiv, is_less, ix, maximum, minimum, product

Targets: TypeAlias = Extent | Sequence[Extent | None] | None


class _Windows:
    """Windows of the last axes of an input, with the widths that `ceil_mode` adds at the end."""

    def __init__(
        self,
        op: str,
        rank: int,
        x: Tensor,
        kernel: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
    ) -> None:
        need_axes(op, x.extents, rank)
        self.size = several(op, "kernel_size", kernel, rank)
        given = (
            kernel if stride is None or (isinstance(stride, Sequence) and not stride) else stride
        )
        self.step = several(op, "stride", given, rank)
        self.padding = several(op, "padding", padding, rank)
        self.dilation = several(op, "dilation", dilation, rank)
        for p, k in zip(self.padding, self.size, strict=True):
            if not 0 <= p <= k // 2:
                expected = f"0 to {k // 2}, half the window"
                raise fail(BadArgument, op=op, name="padding", value=p, expected=expected)
        self.extents = x.extents[-rank:]
        self.more = [self._more(k, e) if ceil_mode else ix(0) for k, e in enumerate(self.extents)]

    def _more(self, axis: int, n: Ix) -> Ix:
        """How far the last window reaches beyond the padded extent."""
        p, step = self.padding[axis], self.step[axis]
        window = self.dilation[axis] * (self.size[axis] - 1) + 1
        count = ceildiv(n + 2 * p - window, step) + 1
        count = minimum(count, ceildiv(n + p, step))  # none begins in the padding behind
        return maximum((count - 1) * step + window - n - 2 * p, 0)

    def of(self, x: Tensor, fill: float, padded: bool = False) -> Tensor:
        """(.., *counts, *size); `padded` is a tensor that has the padding already."""
        widths: list[Ix] = []
        for p, more in reversed(list(zip(self.padding, self.more, strict=True))):
            widths += [ix(0), more] if padded else [ix(p), more + p]
        x = x.pad(widths, fill) if any(w != 0 for w in widths) else x
        return windows(x, self.size, self.step, self.dilation)

    @property
    def inner(self) -> tuple[int, ...]:
        return tuple(range(-len(self.size), 0))


# --- maxima ---------------------------------------------------------------------------------------


def _max_pool(
    rank: int,
    x: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    op = f"max_pool{rank}d"
    w = _Windows(op, rank, x, kernel, stride, padding, dilation, ceil_mode)
    seen = w.of(x, x.dtype.lowest)
    if not return_indices:
        return seen.amax(w.inner)
    count = product(w.extents)
    places = w.of(arange(count).reshape(w.extents), -1)
    return _with_places(seen.flatten(-rank), places.flatten(-rank), count)


def _with_places(seen: Tensor, places: Tensor, count: Ix) -> tuple[Tensor, Tensor]:
    """The maxima over the last axis, and the least of the places below `count` that hold them; of NaN the greatest.

    Padding has the place -1.
    """
    best = seen.amax(-1, keepdim=True)
    first = where((seen == best) & (places >= 0), places, count).amin(-1)
    best = best.squeeze(-1)
    if not seen.dtype.is_float:
        return best, first
    last = where(seen.isnan(), places, -1).amax(-1)
    return best, where(best.isnan(), last, first)


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """(.., length) -> (.., length'): the greatest of each window; padding never wins.

    With `return_indices` also where it is: (values, positions in row-major order of the input's last axes).
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """(.., height, width) -> (.., height', width'): the greatest of each window; padding never wins.

    With `return_indices` also where it is: (values, positions in row-major order of the input's last axes).
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """(.., depth, height, width) -> (.., depth', height', width'): the greatest of each window; padding never wins.

    With `return_indices` also where it is: (values, positions in row-major order of the input's last axes).
    """
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# --- means and norms ------------------------------------------------------------------------------


def _avg_pool(
    rank: int,
    x: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    op = f"avg_pool{rank}d"
    if divisor_override is not None and (
        isinstance(divisor_override, bool)
        or not isinstance(divisor_override, Integral | Symbolic)
        or divisor_override == 0
    ):
        expected = "an integer other than 0, or None"
        value = repr(divisor_override)
        raise fail(BadArgument, op=op, name="divisor_override", value=value, expected=expected)
    w = _Windows(op, rank, x, kernel, stride, padding, 1, ceil_mode)
    return _means(w, x, count_include_pad, divisor_override)


def _means(w: _Windows, x: Tensor, count_include_pad: bool, divisor: int | None) -> Tensor:
    """The sums of windows over how many elements they have, or over `divisor`."""
    total = w.of(x, 0).sum(w.inner, dtype=x.dtype)
    if divisor is not None or (
        all(more == 0 for more in w.more) and (count_include_pad or not any(w.padding))
    ):
        count: Tensor | int = divisor or math.prod(w.size)
    else:
        count = _counts(w, x, count_include_pad)
    if x.dtype.is_float:
        return total / count
    return total.div(count, rounding_mode="trunc")


def _counts(w: _Windows, x: Tensor, include_padding: bool) -> Tensor:
    """How many elements each window has, with or without those of the padding."""
    extents = w.extents
    if include_padding:
        extents = tuple(e + 2 * p for e, p in zip(extents, w.padding, strict=True))
    ones = full(tuple(extents), 1, x.dtype)
    return w.of(ones, 0, padded=include_padding).sum(w.inner, dtype=x.dtype)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """(.., length) -> (.., length'): means of windows, padding as zeros or not counted."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """(.., height, width) -> (.., height', width'): means of windows, padding as zeros or not counted."""
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """As `avg_pool2d`, over depth, height and width."""
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(
    rank: int, x: Tensor, p: float, kernel: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    w = _Windows(f"lp_pool{rank}d", rank, x, kernel, stride, 0, 1, ceil_mode)
    if math.isinf(p):
        greatest = w.of((x.abs() if p > 0 else -x.abs()), x.dtype.lowest).amax(w.inner)
        return greatest if p > 0 else -greatest
    # PyTorch's: a window that is cut off at the end stands for a whole one
    total = _means(w, x.pow(p), True, None) * math.prod(w.size)
    return (total.sign() * total.abs().relu()).pow(1 / p)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window, one that `ceil_mode` cuts off scaled to a whole one; of inf the greatest |x|."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window, one that `ceil_mode` cuts off scaled to a whole one; of inf the greatest |x|."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window, one that `ceil_mode` cuts off scaled to a whole one; of inf the greatest |x|."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# --- adaptive -------------------------------------------------------------------------------------


def _sizes(op: str, rank: int, x: Tensor, output_size: Targets) -> list[Ix | None]:
    """The extents that are asked for; None keeps one, and is as good as an extent that is there."""
    need_axes(op, x.extents, rank)
    given: list[Extent | None]
    given = list(output_size) if isinstance(output_size, Sequence) else [output_size] * rank
    given = given * rank if len(given) == 1 else given
    sizes = [None if size is None else counted(op, "output_size", size, 0) for size in given]
    if len(given) != rank:
        expected = f"one number or {rank} of them"
        raise fail(BadArgument, op=op, name="output_size", value=tuple(given), expected=expected)
    return [None if n is x.extents[d - rank] else n for d, n in enumerate(sizes)]


def _pieces(op: str, x: Tensor, d: int, size: Ix, fill: float) -> tuple[Tensor, bool]:
    """Dimension `d` as so many pieces, a last dimension inside them; and whether all are as long.

    Piece i goes from floor(i n / size) to ceil((i + 1) n / size).
    """
    n = x.extents[d]
    if is_less(ix(0), size) and (n // size) * size is n:
        return x.unflatten(d, (size, n // size)).movedim(d + 1, -1), True
    if size == 0:
        return x.narrow(d, 0, 0).unsqueeze(-1), True
    check_extent(op, f"the number of pieces of {n} is {size}", size, least=1)
    some = ix(Axis("piece", size))
    if not is_less(some * n // size, n):
        fixed(op, f"the number of pieces of {n}, of which it cannot be told where they begin", size)

    def start(i: Ix) -> Ix:
        return i * n // size

    def end(i: Ix) -> Ix:
        return ceildiv((i + 1) * n, size)

    return Tensor(movement.pieces(x.edge, d, size, start, end, fill)), False


def _adaptive_avg_pool(rank: int, x: Tensor, output_size: Targets) -> Tensor:
    """The sum over all dimensions of a piece at once: in one pass, rounded once."""
    op = f"adaptive_avg_pool{rank}d"
    first, counts, alike = x.ndim - rank, list[Tensor](), True
    for k, size in enumerate(_sizes(op, rank, x, output_size)):
        if size is None:
            continue
        ones = full((x.extents[first + k],), 1, x.dtype)
        x, are_alike = _pieces(op, x, first + k, size, 0)
        ones, _ = _pieces(op, ones, 0, size, 0)
        counts.append(ones.sum(-1).reshape(-1, *(1,) * (rank - 1 - k)))
        alike = alike and are_alike
    inside = tuple(range(first + rank, x.ndim))
    if alike:
        return x.mean(inside) if inside else x
    return x.sum(inside) / functools.reduce(operator.mul, counts)


def adaptive_avg_pool1d(input: Tensor, output_size: Targets) -> Tensor:
    """(.., length) -> (.., output_size): means of equal or overlapping pieces."""
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Targets) -> Tensor:
    """(.., height, width) -> (.., *output_size): means of pieces; None keeps an extent."""
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Targets) -> Tensor:
    """(.., depth, height, width) -> (.., *output_size): means of pieces; None keeps an extent."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(rank: int, x: Tensor, output_size: Targets, return_indices: bool) -> Any:
    op, first = f"adaptive_max_pool{rank}d", x.ndim - rank
    count = product(x.extents[-rank:])
    numbers = arange(count).reshape(x.extents[-rank:]).expand(x.extents)
    for k, size in enumerate(_sizes(op, rank, x, output_size)):
        if size is None:
            continue
        x, _ = _pieces(op, x, first + k, size, x.dtype.lowest)
        if return_indices:
            numbers, _ = _pieces(op, numbers, first + k, size, -1)
            x, numbers = _with_places(x, numbers, count)
    inside = tuple(range(first + rank, x.ndim))
    return (x, numbers) if return_indices else x.amax(inside) if inside else x


def adaptive_max_pool1d(input: Tensor, output_size: Targets, return_indices: bool = False) -> Any:
    """(.., length) -> (.., output_size): maxima of pieces, with their positions if `return_indices`."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Targets, return_indices: bool = False) -> Any:
    """(.., height, width) -> (.., *output_size): maxima of pieces; None keeps an extent."""
    return _adaptive_max_pool(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Targets, return_indices: bool = False) -> Any:
    """(.., depth, height, width) -> (.., *output_size): maxima of pieces; None keeps an extent."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


# --- undone ---------------------------------------------------------------------------------------


def _max_unpool(
    rank: int,
    x: Tensor,
    indices: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    op = f"max_unpool{rank}d"
    need_axes(op, x.extents, rank)
    size = several(op, "kernel_size", kernel, rank)
    step = several(op, "stride", kernel if stride is None else stride, rank)
    less = several(op, "padding", padding, rank)
    if output_size is not None:
        wanted = [ix(e) for e in output_size[-rank:]]
    else:
        counts = x.extents[-rank:]
        parts = zip(counts, step, size, less, strict=True)
        wanted = [(n - 1) * s + k - 2 * p for n, s, k, p in parts]
    rest = x.extents[:-rank]
    empty = x.new_zeros(*rest, product(tuple(wanted)))
    out = empty.scatter(-1, indices.flatten(-rank), x.flatten(-rank))
    return out.reshape(*rest, *wanted)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What `max_pool1d` with `return_indices` gave, back where it was; 0 elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What `max_pool2d` with `return_indices` gave, back where it was; 0 elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What `max_pool3d` with `return_indices` gave, back where it was; 0 elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
