"""norms: of batches, channels, groups, rows and neighbourhoods."""

from __future__ import annotations

from typing import Any

from lumigen.dtype import computed, f32
from lumigen.frontend import Tensor
from lumigen.frontend.convolution import windows
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import held


def centred(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """x less its mean, the mean and the variance over axes, which stay."""
    mean = x.mean(axes, keepdim=True)
    apart = x - mean
    return apart, mean, (apart * apart).mean(axes, keepdim=True)


def along_channels(t: Tensor, rank: int) -> Tensor:
    """A vector for the channels of (batch, channel, ..)."""
    return t.reshape(-1, *(1,) * (rank - 2))


def batch_norm(n: OnnxNode) -> Any:
    x, scale, bias = n.tensor(0), n.tensor(1), n.tensor(2)
    mean, variance = n.tensor(3), n.tensor(4)
    epsilon = n.attr("epsilon", 1e-5)
    if not n.attr("training_mode", 0):
        factor = scale / (variance + epsilon).sqrt()
        shift = bias - mean * factor
        if x.ndim == 1:
            return x * factor + shift
        return (x * along_channels(factor, x.ndim) + along_channels(shift, x.ndim)).to(x.dtype)
    axes = (0, *range(2, x.ndim))
    apart, now, var = centred(x, axes)
    weight, offset = (along_channels(t, x.ndim) for t in (scale, bias))
    out = apart / (var + epsilon).sqrt() * weight + offset
    momentum = n.attr("momentum", 0.9)
    running = (
        old * momentum + new.flatten() * (1 - momentum)
        for old, new in ((mean, now), (variance, var))
    )
    return (out.to(x.dtype), *running)


def instance_norm(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    apart, _, variance = centred(x, tuple(range(2, x.ndim)))
    scale, bias = (along_channels(n.tensor(i), x.ndim) for i in (1, 2))
    return apart / (variance + n.attr("epsilon", 1e-5)).sqrt() * scale + bias


def layer_norm(n: OnnxNode) -> tuple[Tensor, ...]:
    """Rows of the axes from one on; computed in the type of `stash_type`."""
    x = n.tensor(0)
    axis = int(n.attr("axis", -1)) % x.ndim
    wide = held(numpy_type(n.attr("stash_type", 1)))
    wide = wide if x.dtype.bits <= wide.bits else x.dtype
    apart, mean, variance = centred(x.to(wide), tuple(range(axis, x.ndim)))
    inverse = (variance + n.attr("epsilon", 1e-5)).rsqrt()
    out = (apart * inverse).to(x.dtype) * n.tensor(1)
    if n.has(2):
        out = out + n.tensor(2)
    return out, mean, inverse


def group_norm(n: OnnxNode) -> Tensor:
    """Groups of channels; the factors are one for each channel from version 21 on, and one for each group before."""
    x = n.tensor(0)
    groups = int(n.attr("num_groups"))
    batch, channels = x.shape[:2]
    wide = computed(x.dtype)
    grouped = x.to(wide).reshape(batch, groups, channels // groups, -1)
    apart, _, variance = centred(grouped, (2, 3))
    out = apart / (variance + n.attr("epsilon", 1e-5)).sqrt()
    scale, bias = n.tensor(1).to(wide), n.tensor(2).to(wide)
    if n.version < 21:
        out = out * scale.reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)
        return out.reshape(*x.shape).to(x.dtype)
    out = out.reshape(*x.shape)
    return (out * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)).to(x.dtype)


def rms_norm(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    axis = int(n.attr("axis", -1)) % x.ndim
    wide = f32 if x.dtype.bits < 32 else x.dtype
    y = x.to(wide)
    mean = (y * y).mean(tuple(range(axis, x.ndim)), keepdim=True)
    return ((y * (mean + n.attr("epsilon", 1e-5)).rsqrt()).to(x.dtype) * n.tensor(1)).to(x.dtype)


def local_response(n: OnnxNode) -> Tensor:
    """By the squares of the `size` neighbouring channels."""
    x, size = n.tensor(0), int(n.attr("size"))
    before = (size - 1) // 2
    squares = (x * x).transpose(1, -1)
    near = windows(squares.pad([before, size - 1 - before]), (size,), (1,), (1,)).sum(-1)
    total = near.transpose(1, -1)
    alpha, beta = n.attr("alpha", 1e-4), n.attr("beta", 0.75)
    return x / (n.attr("bias", 1.0) + total * (alpha / size)).pow(beta)


def lp_normalization(n: OnnxNode) -> Tensor:
    """x by its norm along an axis; 0 where that is 0."""
    x, axis = n.tensor(0), int(n.attr("axis", -1))
    length = x.norm(p=int(n.attr("p", 2)), dim=axis, keepdim=True)
    return x / length.masked_fill(length == 0, 1)


ROWS = (
    Operator("BatchNormalization", batch_norm),
    Operator("InstanceNormalization", instance_norm),
    Operator("LayerNormalization", layer_norm),
    Operator("GroupNormalization", group_norm),
    Operator("RMSNormalization", rms_norm),
    Operator("LRN", local_response),
    Operator("LpNormalization", lp_normalization),
)
