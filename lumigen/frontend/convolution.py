"""Convolutions: sums of products over windows, which the compiler finds by their index sets.

The transposed ones are convolutions too, one for each phase of the stride.
"""

# signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import TypeAlias, TypeVar

from lumigen.errors import BadArgument, DtypeMismatch, RankMismatch
from lumigen.frontend import movement
from lumigen.frontend.extents import check_count, check_extent, check_multiple, fixed, need_axes
from lumigen.frontend.operand import check_tensor
from lumigen.frontend.primitive import Extent, unequal
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import Ix, ix

Pair: TypeAlias = int | tuple[int, int]
Sizes: TypeAlias = int | tuple[int, ...] | list[int]
Several = TypeVar("Several", bound=Extent)
AXES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def pair(value: Pair) -> tuple[int, int]:
    """One number for both directions, or (vertical, horizontal)."""
    return (value, value) if isinstance(value, int) else value


def several(
    op: str, name: str, value: Several | Sequence[Several], rank: int
) -> tuple[Several, ...]:
    """One number for all directions, or one for each."""
    if not isinstance(value, Sequence):
        return (value,) * rank
    found = tuple(value)
    if len(found) == 1:
        return found * rank
    if len(found) != rank:
        expected = f"one number or {rank} of them"
        raise fail(BadArgument, op=op, name=name, value=found, expected=expected)
    return found


def need_rank(op: str, name: str, x: Tensor, axes: tuple[str, ...]) -> None:
    if x.ndim != len(axes):
        raise fail(
            RankMismatch,
            op=op,
            name=name,
            shape=x.extents,
            expected=f"{len(axes)} axes ({', '.join(axes)})",
            remedy="Add or remove axes with .reshape() or .unsqueeze().",
        )


def same_dtype(op: str, x: Tensor, weight: Tensor) -> None:
    check_tensor(op, x)
    if x.dtype is not weight.dtype:
        raise fail(
            DtypeMismatch,
            op=op,
            name="the input",
            got=x.dtype,
            expected=f"{weight.dtype}, as the weight",
            remedy=f"Cast it with .to(lg.{weight.dtype}).",
        )


def windows(
    x: Tensor, size: tuple[Extent, ...], step: tuple[Extent, ...], dilation: tuple[int, ...]
) -> Tensor:
    """(.., *extents) -> (.., *counts, *size): the windows of the last axes."""
    edge = x.edge
    rank = len(size)
    for k, s, d in zip(size, step, dilation, strict=True):
        edge = movement.unfold(edge, -rank, k, s, d)
    return Tensor(edge)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """(batch, in, length), (out, in / groups, r) -> (batch, out, length'); the batch may be missing."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """(batch, in, height, width), (out, in / groups, r, s) -> (batch, out, height', width').

    sum_{c, r, s} x[b, c, i stride + r dilation, j stride + s dilation] * weight[o, c, r, s]; the batch may be missing.
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """As `conv2d`, over depth, height and width."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _conv(
    op: str,
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    if x.ndim == rank + 1:
        out = _conv(op, rank, x.unsqueeze(0), weight, bias, stride, padding, dilation, groups)
        return out.squeeze(0)
    need_rank(op, "the input", x, ("batch", "channel", *AXES[rank]))
    need_rank(op, "the weight", weight, ("out", "in", *AXES[rank]))
    same_dtype(op, x, weight)
    _check_channels(op, x, weight, groups)
    out_channels, per_group, *extents = weight.extents
    names = AXES[rank]
    kernel = tuple(fixed(op, f"the kernel's {n}", e) for n, e in zip(names, extents, strict=True))
    steps = several(op, "dilation", dilation, rank)
    widths = _padding(op, padding, kernel, steps)
    x = x.pad([w for both in reversed(widths) for w in both])
    seen = windows(x, kernel, several(op, "stride", stride, rank), steps)
    batch, _, *counts = seen.extents[: rank + 2]
    per_out = out_channels // groups
    ones = (1,) * rank
    seen = seen.reshape(batch, groups, 1, per_group, *counts, *kernel)
    inner = tuple(range(4, 4 + rank))
    # (batch, group, 1, *counts, in / groups, *kernel)
    seen = seen.permute((0, 1, 2, *inner, 3, *range(4 + rank, 4 + 2 * rank)))
    filters = weight.reshape(groups, per_out, *ones, per_group, *kernel)
    total = (seen * filters).sum(tuple(range(-rank - 1, 0)), dtype=x.dtype)
    out = total.reshape(batch, out_channels, *counts)
    return out if bias is None else out + bias.reshape(-1, *ones)


def _padding(
    op: str, padding: Sizes | str, kernel: tuple[int, ...], dilation: tuple[int, ...]
) -> list[tuple[int, int]]:
    """(before, after) of each direction."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            expected = "a number, a pair, 'same' or 'valid'"
            raise fail(BadArgument, op=op, name="padding", value=repr(padding), expected=expected)
        same = padding == "same"
        total = [d * (k - 1) if same else 0 for k, d in zip(kernel, dilation, strict=True)]
        return [(t // 2, t - t // 2) for t in total]
    return [(p, p) for p in several(op, "padding", padding, len(kernel))]


def _check_channels(op: str, x: Tensor, weight: Tensor, groups: int) -> None:
    check_count(op, "groups", groups)
    have, per_group, out = x.extents[1], weight.extents[1], weight.extents[0]
    if per_group * groups is not have:
        rule = f"the input has {have} channels, the weight takes {groups} groups of {per_group}"
        remedy = "Check groups and the layer before."
        raise unequal(op, have, per_group * groups, x.extents, weight.extents, rule, remedy)
    if (out // groups) * groups is not out:
        raise fail(
            BadArgument,
            op=op,
            name="groups",
            value=groups,
            expected=f"a divisor of the {out} output channels",
        )


# --- transposed -----------------------------------------------------------------------------------


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """(batch, in, length), (in, out / groups, r) -> (batch, out, length'); the batch may be missing."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """(batch, in, height, width), (in, out / groups, r, s) -> (batch, out, height', width').

    Each element is spread: out[b, o, i stride - padding + r dilation, ..] sums x[b, c, i, ..] * weight[c, o, r, ..].
    What is not spread to counts as 0 times a weight, so that infinite and NaN weights are NaN there.
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """As `conv_transpose2d`, over depth, height and width."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _transposed(
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Tensor:
    op = f"conv_transpose{rank}d"
    if x.ndim == rank + 1:
        one = x.unsqueeze(0)
        out = _transposed(
            rank, one, weight, bias, stride, padding, output_padding, groups, dilation
        )
        return out.squeeze(0)
    need_rank(op, "the input", x, ("batch", "channel", *AXES[rank]))
    need_rank(op, "the weight", weight, ("in", "out", *AXES[rank]))
    check_count(op, "groups", groups)
    have, taken = x.extents[1], weight.extents[0]
    if have is not taken:
        rule = f"the input has {have} channels, the weight takes {taken}"
        raise unequal(op, have, taken, x.extents, weight.extents, rule, "Check the layer before.")
    names = AXES[rank]
    sizes = zip(names, weight.extents[2:], strict=True)
    kernel = [fixed(op, f"the kernel's {n}", e) for n, e in sizes]
    step, less = several(op, "stride", stride, rank), several(op, "padding", padding, rank)
    steps = several(op, "dilation", dilation, rank)
    more = several(op, "output_padding", output_padding, rank)
    for extra, most in zip(more, map(max, step, steps), strict=True):
        if not 0 <= extra < most:
            expected = f"0 to {most - 1}, less than the stride or the dilation"
            raise fail(BadArgument, op=op, name="output_padding", value=extra, expected=expected)
    lengths: list[Ix] = []
    for axis, n in enumerate(x.extents[2:]):
        reach = steps[axis] * (kernel[axis] - 1) + 1
        length = (n - 1) * step[axis] + reach + more[axis] - 2 * less[axis]
        check_extent(op, f"the {names[axis]} of the result would be {length}", length)
        lengths.append(length)
    # zeros are between the results if stride and dilation share a factor; what is left of a dilation is zeros
    # between the weights, unless all of them meet in one phase
    between = tuple(map(gcd, step, steps))
    phases = tuple(s // b for s, b in zip(step, between, strict=True))
    apart = [d // b for d, b in zip(steps, between, strict=True)]
    widened = [1 if s == 1 else d for s, d in zip(phases, apart, strict=True)]
    dilated = tuple(d // w for d, w in zip(apart, widened, strict=True))
    found = _in_phases(op, x, spread(weight, widened), phases, dilated, groups)
    found = spread(found, between)
    widths: list[Ix | int] = []
    for have, length, cropped in zip(found.extents[2:], lengths, less, strict=True):
        widths = [-cropped, length + cropped - have, *widths]
    out = found.pad(widths)
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)


def _in_phases(
    op: str,
    x: Tensor,
    weight: Tensor,
    phases: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Tensor:
    """out[q s + r] sums x[q - t dilation] * weight[t s + r]: a convolution for each phase r of a stride s.

    They are channels of one convolution whose results are put between each other, so that no zeros of the input are
    multiplied: only those after a kernel whose size is no multiple of the stride.
    """
    rank = len(phases)
    channels, per_out, *extents = weight.extents
    kernel = [e.const for e in extents]
    taps = tuple(-(-k // s) for k, s in zip(kernel, phases, strict=True))
    missing = [t * s - k for k, t, s in zip(kernel, taps, phases, strict=True)]
    filters = weight.pad([w for n in reversed(missing) for w in (0, n)])
    parts = [n for both in zip(taps, phases, strict=True) for n in both]
    filters = filters.reshape(groups, channels // groups, per_out, *parts)
    of_taps, of_phases = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    # the weights of one tap are used as they lie; else phases are apart, and the results of one lie side by side
    phases_first = any(t > 1 for t in taps)
    outs = (*of_phases, 2) if phases_first else (2, *of_phases)
    filters = filters.flip(*of_taps).permute((0, *outs, 1, *of_taps))
    filters = filters.reshape(groups * prod(phases) * per_out, channels // groups, *taps)
    reach = [d * (t - 1) for d, t in zip(dilation, taps, strict=True)]
    x = x.pad([w for n in reversed(reach) for w in (n, n)])
    found = _conv(op, rank, x, filters, None, 1, 0, dilation, groups)
    batch, _, *counts = found.extents
    parts = (*phases, per_out) if phases_first else (per_out, *phases)
    found = found.reshape(batch, groups, *parts, *counts)
    out, first = (2 + rank, 2) if phases_first else (2, 3)
    places = (d for k in range(rank) for d in (3 + rank + k, first + k))
    found = found.permute((0, 1, out, *places))
    whole = (n * s for n, s in zip(counts, phases, strict=True))
    return found.reshape(batch, groups * per_out, *whole)


def spread(x: Tensor, step: Sequence[int]) -> Tensor:
    """Zeros between the elements of the last axes, so that they are `step` apart."""
    rank = len(step)
    for k, s in enumerate(step):
        d = x.ndim - rank + k
        if s == 1:
            continue
        n = x.extents[d]
        wide = x.unsqueeze(d + 1)
        wide = wide.pad((0, 0) * (x.ndim - 1 - d) + (0, s - 1))
        x = wide.flatten(d, d + 1).narrow(d, 0, (n - 1) * s + 1)
    return x


# --- windows as columns ---------------------------------------------------------------------------


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """(batch, channel, height, width) -> (batch, channel * r * s, windows): windows as columns (im2col)."""
    op = "unfold"
    x = input if input.ndim == 4 else input.unsqueeze(0)
    need_rank(op, "the input", x, ("batch", "channel", "height", "width"))
    kernel = several(op, "kernel_size", kernel_size, 2)
    v, h = several(op, "padding", padding, 2)
    seen = windows(
        x.pad((h, h, v, v)),
        kernel,
        several(op, "stride", stride, 2),
        several(op, "dilation", dilation, 2),
    )
    batch, channels, rows, columns, r, s = seen.extents
    out = seen.permute(0, 1, 4, 5, 2, 3).reshape(batch, channels * r * s, rows * columns)
    return out if input.ndim == 4 else out.squeeze(0)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """(batch, channel * r * s, windows) -> (batch, channel, *output_size): columns summed back (col2im)."""
    op = "fold"
    x = input if input.ndim == 3 else input.unsqueeze(0)
    need_rank(op, "the input", x, ("batch", "column", "window"))
    size, kernel = several(op, "output_size", output_size, 2), several(op, "kernel", kernel_size, 2)
    step, d = several(op, "stride", stride, 2), several(op, "dilation", dilation, 2)
    p = several(op, "padding", padding, 2)
    for name, values in (("kernel_size", kernel), ("stride", step), ("dilation", d)):
        for value in values:
            check_count(op, name, value, 1)
    counts = tuple((size[k] + 2 * p[k] - d[k] * (kernel[k] - 1) - 1) // step[k] + 1 for k in (0, 1))
    batch, columns, places = x.extents
    check_multiple(op, "the columns", columns, prod(kernel))
    channels = columns // prod(kernel)
    if places is not ix(prod(counts)):
        rule = f"the input has {places} windows where the sizes make {prod(counts)}"
        shapes = input.extents, tuple(map(ix, counts))
        raise unequal(op, places, ix(prod(counts)), *shapes, rule, "Correct the sizes.")
    x = x.reshape(batch, channels, *kernel, *counts)
    out: Tensor | None = None
    for r in range(kernel[0]):
        for s in range(kernel[1]):
            at = (r * d[0] - p[0], s * d[1] - p[1])
            part = spread(x[:, :, r, s], step)
            widths: list[int] = []
            for k in (1, 0):
                have = (counts[k] - 1) * step[k] + 1
                widths += [at[k], size[k] - have - at[k]]
            part = part.pad(widths)
            out = part if out is None else out + part
    assert out is not None
    return out if input.ndim == 3 else out.squeeze(0)


# --- channels and positions -----------------------------------------------------------------------


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(.., channel * r * r, height, width) -> (.., channel, height * r, width * r)."""
    check_count("pixel_shuffle", "upscale_factor", upscale_factor)
    need_axes("pixel_shuffle", input.extents, 3)
    r = upscale_factor
    *rest, channels, height, width = input.extents
    check_multiple("pixel_shuffle", "the channels", channels, r * r)
    n = len(rest)
    x = input.reshape(*rest, channels // (r * r), r, r, height, width)
    x = x.permute((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return x.reshape(*rest, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(.., channel, height * r, width * r) -> (.., channel * r * r, height, width)."""
    check_count("pixel_unshuffle", "downscale_factor", downscale_factor)
    need_axes("pixel_unshuffle", input.extents, 3)
    r = downscale_factor
    *rest, channels, height, width = input.extents
    check_multiple("pixel_unshuffle", "the height", height, r)
    check_multiple("pixel_unshuffle", "the width", width, r)
    n = len(rest)
    x = input.reshape(*rest, channels, height // r, r, width // r, r)
    x = x.permute((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return x.reshape(*rest, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(batch, groups * n, ..) -> the channels in the order (n, groups)."""
    check_count("channel_shuffle", "groups", groups)
    need_axes("channel_shuffle", input.extents, 3)
    batch, channels, *rest = input.extents
    check_multiple("channel_shuffle", "the channels", channels, groups)
    x = input.reshape(batch, groups, channels // groups, *rest).transpose(1, 2)
    return x.reshape(batch, channels, *rest)
