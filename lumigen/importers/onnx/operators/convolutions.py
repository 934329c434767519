"""convolutions: plain, transposed, of integers and deformable; and columns summed back to images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumigen.dtype import i32
from lumigen.errors import NotConstant
from lumigen.frontend import Tensor, functional, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.windows import pads_of
from lumigen.importers.onnx.values import ints

CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)


def kernel_of(n: OnnxNode, weight: Tensor) -> tuple[int, ...]:
    """The kernel's sizes; there is a frontend function for one to three axes."""
    size = tuple(int(e) for e in weight.shape[2:])
    said = n.attr("kernel_shape", None)
    if said is not None and tuple(said) != size:
        raise n.unsupported(f"its kernel_shape is {said}, and its weights are of {list(size)}")
    if not 1 <= len(size) <= 3:
        raise n.unsupported(f"its kernel has {len(size)} axes, and 1 to 3 are possible")
    return size


def convolved(
    n: OnnxNode,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    fill: float = 0,
    centre: Callable[[Tensor], Tensor] = lambda x: x,
) -> Tensor:
    """The convolution that the attributes say, of an image that is padded with `fill`, then centred."""
    size = kernel_of(n, weight)
    rank = len(size)
    step, dilation = n.numbers("strides", [1] * rank), n.numbers("dilations", [1] * rank)
    reach = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    pads = pads_of(n, x.shape[2:], reach, tuple(step))
    same = all(isinstance(a, int) and isinstance(b, int) and a == b for a, b in pads)
    if not same or fill:
        x, pads = x.pad([w for pair in reversed(pads) for w in pair], fill), [(0, 0)] * rank
    widths = tuple(before for before, _ in pads)
    f, groups = CONVOLUTIONS[rank - 1], int(n.attr("group", 1))
    return f(centre(x), weight, bias, tuple(step), widths, tuple(dilation), groups)


def conv(n: OnnxNode) -> Tensor:
    return convolved(n, n.tensor(0), n.tensor(1), n.maybe(2))


def conv_transpose(n: OnnxNode) -> Tensor:
    """Uncropped first: the paddings of its two ends may differ."""
    x, weight, bias = n.tensor(0), n.tensor(1), n.maybe(2)
    size = kernel_of(n, weight)
    rank = len(size)
    step, dilation = n.numbers("strides", [1] * rank), n.numbers("dilations", [1] * rank)
    more = n.attr("output_padding", [0] * rank)
    reach = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    full = [(e - 1) * s + r for e, s, r in zip(x.shape[2:], step, reach, strict=True)]
    pads = _cropped(n, x, full, more, step)
    found = TRANSPOSED[rank - 1](
        x, weight, None, tuple(step), 0, 0, int(n.attr("group", 1)), tuple(dilation)
    )
    widths: list[Any] = []
    for (before, after), extra in zip(pads, more, strict=True):
        widths = [-before, extra - after, *widths]
    out = found.pad(widths)
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)


def _cropped(
    n: OnnxNode, x: Tensor, full: list[Any], more: list[int], step: list[int]
) -> list[tuple[Any, Any]]:
    """What is cut off at both ends: as listed, or so that the output has the wanted sizes."""
    rank = len(full)
    auto, wanted = n.attr("auto_pad", "NOTSET"), n.attr("output_shape", None)
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [e * s for e, s in zip(x.shape[2:], step, strict=True)]
    if wanted is None:
        given = n.pads(rank)
        return [(given[i], given[i + rank]) for i in range(rank)]
    out: list[tuple[Any, Any]] = []
    for have, extra, want in zip(full, more, wanted[-rank:], strict=True):
        total = have + extra - want
        half = total // 2
        out.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
    return out


def centred(x: Tensor, zero: Tensor | None) -> Tensor:
    """Integers of 8 bits less their zero point, in i32."""
    wide = x.to(i32)
    return wide if zero is None else wide - zero.to(i32)


def convolved_integers(
    n: OnnxNode, matrix: int, bias: Tensor | None, zeros: tuple[int, int]
) -> Tensor:
    """Exact in i32; what is padded is the zero point. `matrix`: which operand the weight is; `zeros`: the zero points.

    A zero point that is known is padded in 8 bits: so it is added to all that a sum adds up.
    """
    x, weight = n.tensor(0), n.tensor(matrix)
    of_x, of_weight = n.zero_point(zeros[0], 0), n.zero_point(zeros[1], matrix)
    if of_weight is not None and of_weight.ndim:
        of_weight = of_weight.reshape(-1, *(1,) * (weight.ndim - 1))
    weight = centred(weight, of_weight)
    fill = 0 if of_x is None else _known(n, zeros[0])
    if fill is None:
        return convolved(n, centred(x, of_x), weight, bias)
    return convolved(n, x, weight, bias, fill, lambda x: centred(x, of_x))


def _known(n: OnnxNode, i: int) -> int | None:
    """The number that an operand is; None where it depends on inputs."""
    try:
        return int(n.static(i).reshape(()))
    except NotConstant:
        return None


def conv_integer(n: OnnxNode) -> Tensor:
    return convolved_integers(n, 1, None, (2, 3))


def col2im(n: OnnxNode) -> Tensor:
    """Columns (batch, channel * block, windows) summed back into an image of any rank."""
    x = n.tensor(0)
    size, block = ints(n.static(1)), ints(n.static(2))
    rank = len(size)
    step, dilation = n.numbers("strides", [1] * rank), n.numbers("dilations", [1] * rank)
    pads = n.pads(rank)
    weights = 1
    for k in block:
        weights *= k
    counts = [
        (size[i] + pads[i] + pads[i + rank] - dilation[i] * (block[i] - 1) - 1) // step[i] + 1
        for i in range(rank)
    ]
    batch, columns, _ = x.shape
    channels = columns // weights
    x = x.reshape(batch * channels, weights, *counts)
    if rank > 3:
        raise n.unsupported(f"its image has {rank} axes, and 1 to 3 are possible")
    eye = functions.eye(weights, dtype=x.dtype)
    f = TRANSPOSED[rank - 1]
    found = f(x, eye.reshape(weights, 1, *block), None, tuple(step), 0, 0, 1, tuple(dilation))
    widths: list[Any] = []
    for i in range(rank):
        widths = [-pads[i], size[i] + pads[i] - found.shape[2 + i], *widths]
    return found.pad(widths).reshape(batch, channels, *size)


ROWS = (
    Operator("Conv", conv),
    Operator("ConvTranspose", conv_transpose),
    Operator("ConvInteger", conv_integer),
    Operator("Col2Im", col2im),
)
