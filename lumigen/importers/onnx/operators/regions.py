"""regions: images read between elements: regions of interest and deformed convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.operators.convolutions import kernel_of


def between(
    x: Tensor,
    image: Tensor,
    y: Tensor,
    across: Tensor,
    together: Callable[[Tensor, Tensor], Tensor] = Tensor.add,
) -> Tensor:
    """(.., channel) of images (batch, channel, height, width) at places of one shape: four weighted neighbours.

    They are put `together` by a sum. Those that are no elements count as 0.
    """
    height, width = x.shape[2:]
    rows = x.permute(0, 2, 3, 1)
    low_y, low_x = y.floor(), across.floor()
    total: Tensor | None = None
    for dy in (0, 1):
        for dx in (0, 1):
            at_y, at_x = low_y + dy, low_x + dx
            weight = (1 - (y - at_y).abs()) * (1 - (across - at_x).abs())
            inside = (at_y >= 0) & (at_y <= height - 1) & (at_x >= 0) & (at_x <= width - 1)
            weight = functions.where(inside, weight, 0.0)
            read = rows[image, _held(at_y, height), _held(at_x, width)]
            part = read * weight.to(x.dtype).unsqueeze(-1)
            total = part if total is None else together(total, part)
    assert total is not None
    return total


def _held(at: Tensor, size: Any) -> Tensor:
    return at.long().clamp(0, size - 1)


def roi_align(n: OnnxNode) -> Tensor:
    """(rois, channel, height', width'): means or maxima of samples in the bins of each region."""
    x, rois, image = n.tensor(0), n.tensor(1), n.tensor(2).long()
    samples = int(n.attr("sampling_ratio", 0))
    if not samples:
        why = "its sampling_ratio is 0, so that each region has samples of its own number"
        raise n.unsupported(why, "Set sampling_ratio, such as to 2.")
    scale = n.attr("spatial_scale", 1.0)
    half = (
        0.5
        if n.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
        and n.version >= 16
        else 0.0
    )
    counts = (int(n.attr("output_height", 1)), int(n.attr("output_width", 1)))
    left, top, right, bottom = (rois[:, i] * scale - half for i in range(4))
    places: list[Tensor] = []
    for start, end, count, size in (
        (top, bottom, counts[0], x.shape[2]),
        (left, right, counts[1], x.shape[3]),
    ):
        extent = end - start if half else (end - start).clamp(min=1.0)
        step = extent / (count * samples)
        at = start.unsqueeze(-1) + (functions.arange(count * samples) + 0.5) * step.unsqueeze(-1)
        outside = (at < -1.0) | (at > size)
        held = functions.minimum(at.clamp(min=0.0), functions.zeros_like(at) + (size - 1))
        places.append(functions.where(outside, -2.0, held))
    shape = (rois.shape[0], counts[0] * samples, counts[1] * samples)
    y, across = places[0].unsqueeze(2).expand(*shape), places[1].unsqueeze(1).expand(*shape)
    is_max = n.attr("mode", "avg") == "max"  # which is that of weighted neighbours
    images = image.reshape(-1, 1, 1).expand(*shape)
    found = between(x, images, y, across, Tensor.maximum if is_max else Tensor.add)
    found = found.reshape(rois.shape[0], counts[0], samples, counts[1], samples, -1)
    if is_max:
        return found.amax((2, 4)).permute(0, 3, 1, 2)
    return found.mean((2, 4)).permute(0, 3, 1, 2)


def deform_conv(n: OnnxNode) -> Tensor:
    """Each place of a kernel reads at an offset of its own, weighed by a mask."""
    x, weight, offset = n.tensor(0), n.tensor(1), n.tensor(2)
    rank, kernel = 2, kernel_of(n, weight)
    if x.ndim != 4:
        raise n.unsupported(f"its input has {x.ndim} axes, and 4 are possible")
    step, dilation = n.numbers("strides", [1] * rank), n.numbers("dilations", [1] * rank)
    pads = n.pads(rank)
    groups, parts = int(n.attr("group", 1)), int(n.attr("offset_group", 1))
    batch, channels = x.shape[:2]
    counts = offset.shape[2:]
    places = kernel[0] * kernel[1]
    moved = offset.reshape(batch, parts, places, 2, *counts)
    grid: list[Tensor] = []
    for k in range(rank):
        base = functions.arange(counts[k]) * step[k] - pads[k]
        base = base.reshape(*((-1, 1) if k == 0 else (1, -1)))
        tap = functions.arange(places)
        tap = (tap // kernel[1] if k == 0 else tap % kernel[1]) * dilation[k]
        grid.append(moved[:, :, :, k] + (base + tap.reshape(-1, 1, 1)))
    shape = (batch * parts, places, *counts)
    image = functions.arange(batch * parts).reshape(-1, 1, 1, 1).expand(*shape)
    split = x.reshape(batch * parts, channels // parts, *x.shape[2:])
    seen = between(split, image, grid[0].reshape(*shape), grid[1].reshape(*shape))
    if n.has(4):
        seen = seen * n.tensor(4).reshape(*shape).unsqueeze(-1)
    # channels and places of a group are one axis
    seen = seen.permute(0, 4, 1, 2, 3).reshape(batch, groups, channels // groups * places, -1)
    filters = weight.reshape(groups, weight.shape[0] // groups, -1)
    out = (filters @ seen).reshape(batch, weight.shape[0], *counts)
    return out + n.tensor(3).reshape(-1, 1, 1) if n.has(3) else out


ROWS = (
    Operator("RoiAlign", roi_align),
    Operator("DeformConv", deform_conv),
)
