"""Normalizations: a tensor less its mean, over its deviation, for axes that differ from name to name."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence

from lumigen.dtype import computed
from lumigen.errors import BadArgument
from lumigen.frontend.extents import check_multiple, counted, need_axes
from lumigen.frontend.info import finfo
from lumigen.frontend.primitive import Extent, unequal
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import ix, product


def layer_norm(
    input: Tensor,
    normalized_shape: Extent | Sequence[Extent],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) * rsqrt(var + eps) * weight + bias over the last dimensions."""
    dims = _last_dims("layer_norm", input, normalized_shape)
    return _affine(_standard(input, dims, eps), weight, bias)


def _standard(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """(x - mean) * rsqrt(var + eps)."""
    centred = x - x.mean(dims, keepdim=True)
    return centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt()


def rms_norm(
    input: Tensor,
    normalized_shape: Extent | Sequence[Extent],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x * rsqrt(mean(x^2) + eps) * weight over the last dimensions; eps is the dtype's, that of f32 for 16 bits."""
    dims = _last_dims("rms_norm", input, normalized_shape)
    least = finfo(computed(input.dtype)).eps if eps is None else eps
    scale = (input.square().mean(dims, keepdim=True) + least).rsqrt()
    return _affine(input * scale, weight, None)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _last_dims(op: str, x: Tensor, shape: Extent | Sequence[Extent]) -> tuple[int, ...]:
    wanted = tuple(ix(e) for e in (shape if isinstance(shape, Sequence) else [shape]))
    have = x.extents[-len(wanted) :]
    if len(have) != len(wanted):
        rule = "the input has too few axes"
        raise unequal(op, ix(x.ndim), ix(len(wanted)), x.extents, wanted, rule, "Reshape it.")
    for a, b in zip(have, wanted, strict=True):
        if a is not b:
            rule = f"the input ends in {a} where the norm is over {b}"
            raise unequal(op, a, b, x.extents, wanted, rule, "Correct normalized_shape.")
    return tuple(range(-len(wanted), 0))


def _channelwise(x: Tensor, p: Tensor | None) -> Tensor | None:
    """A vector along the second dimension."""
    return None if p is None else p.reshape(-1, *(1,) * (x.ndim - 2))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(batch, channel, ..): (x - mean) * rsqrt(var + eps) * weight + bias, per channel.

    In `training` mean and variance are those of the input itself; the running ones are never changed.
    """
    del momentum
    scale, shift = _channelwise(input, weight), _channelwise(input, bias)
    if training:
        dims = (0, *range(2, input.ndim))
        return _affine(_standard(input, dims, eps), scale, shift)
    if running_mean is None or running_var is None:
        expected = "running_mean and running_var, or training=True"
        raise fail(BadArgument, op="batch_norm", name="the mean", value="None", expected=expected)
    mean = _channelwise(input, running_mean)
    factor = _channelwise(input, (running_var + eps).rsqrt())
    assert mean is not None
    assert factor is not None
    return _affine((input - mean) * factor, scale, shift)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(batch, channel, ..): each channel of each example less its own mean, over its own deviation."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    out = _standard(input, tuple(range(2, input.ndim)), eps)
    return _affine(out, _channelwise(input, weight), _channelwise(input, bias))


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(batch, channel, ..): layer norm over the channels of a group and all positions."""
    need_axes("group_norm", input.extents, 2)
    batch, channels, *rest = input.extents
    groups = counted("group_norm", "num_groups", num_groups)
    check_multiple("group_norm", "the channels", channels, groups)
    grouped = input.reshape(batch, groups, product((channels, *rest)) // groups)
    out = _standard(grouped, (-1,), eps).reshape(*input.extents)
    return _affine(out, _channelwise(input, weight), _channelwise(input, bias))


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta."""
    if product(input.extents) == 0:
        return input
    squares = input.square().movedim(1, -1).pad((size // 2, (size - 1) // 2))
    total = squares.unfold(-1, size, 1).sum(-1)
    mean = total / size if total.dtype.is_float else total.div(size, rounding_mode="trunc")
    return input / (mean.movedim(-1, 1) * alpha + k).pow(beta)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(|x|_p, eps) along `dim`."""
    return input / input.norm(p, dim, keepdim=True).maximum(eps)
