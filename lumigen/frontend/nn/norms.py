"""Normalisations with weights, and with the statistics of training."""

# ruff: noqa: FBT002  # signatures are PyTorch's
# `momentum` is of training

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lumigen.dtype import DType, f32
from lumigen.errors import RankMismatch
from lumigen.frontend import functional as fn
from lumigen.frontend.nn.module import Buffer, Module, Parameter
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail


class LayerNorm(Module):
    """(.., *normalized_shape) -> the same: (x - mean) * rsqrt(var + eps) * weight + bias over those."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: DType = f32,
    ) -> None:
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(*shape, dtype=dtype) if elementwise_affine else None
        self.bias = Parameter(*shape, dtype=dtype) if elementwise_affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return fn.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """(.., *normalized_shape) -> the same: x * rsqrt(mean(x^2) + eps) * weight over those."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: DType = f32,
    ) -> None:
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(*shape, dtype=dtype) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        return fn.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class _Running(Module):
    """What has running statistics, if they are tracked; its checkpoints count batches."""

    ranks: ClassVar[tuple[int, ...]]
    counted = ("num_batches_tracked",)
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Buffer | None
    running_var: Buffer | None

    def _declare(
        self, features: int, eps: float, affine: bool, tracks: bool, dtype: DType, bias: bool
    ) -> None:
        self.num_features, self.eps, self.track_running_stats = features, eps, tracks
        self.weight = Parameter(features, dtype=dtype) if affine else None
        self.bias = Parameter(features, dtype=dtype) if affine and bias else None
        self.running_mean = Buffer(features, dtype=dtype) if tracks else None
        self.running_var = Buffer(features, dtype=dtype) if tracks else None

    def _check(self, x: Tensor) -> None:
        if x.ndim not in self.ranks:
            raise fail(
                RankMismatch,
                op=type(self).__name__,
                name="the input",
                shape=x.extents,
                expected=f"{' or '.join(map(str, self.ranks))} axes",
                remedy="Add or remove axes with .reshape() or .unsqueeze().",
            )


class _BatchNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: DType = f32,
        *,
        bias: bool = True,
    ) -> None:
        self.momentum = momentum
        self._declare(num_features, eps, affine, track_running_stats, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        own = not self.track_running_stats  # then those of the batch, in inference too
        parts = (self.running_mean, self.running_var, self.weight, self.bias)
        return fn.batch_norm(input, *parts, training=own, eps=self.eps)


class BatchNorm1d(_BatchNorm):
    """(batch, channel) or (batch, channel, length) -> the same, with the statistics of training."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """(batch, channel, height, width) -> the same, with the statistics of training."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """(batch, channel, depth, height, width) -> the same, with the statistics of training."""

    ranks = (5,)


class _InstanceNorm(_Running):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: DType = f32,
        *,
        bias: bool = True,
    ) -> None:
        self.momentum = momentum
        self._declare(num_features, eps, affine, track_running_stats, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        if input.ndim == self.ranks[0]:  # without a batch
            return self._normal(input.unsqueeze(0)).squeeze(0)
        return self._normal(input)

    def _normal(self, x: Tensor) -> Tensor:
        parts = (self.running_mean, self.running_var, self.weight, self.bias)
        own = not self.track_running_stats
        return fn.instance_norm(x, *parts, use_input_stats=own, eps=self.eps)


class InstanceNorm1d(_InstanceNorm):
    """(batch, channel, length) -> the same: each channel of each example by its own mean and variance."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """(batch, channel, height, width) -> the same: each channel of each example by its own statistics."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """(batch, channel, depth, height, width) -> the same: each channel of each example by its own."""

    ranks = (4, 5)


class GroupNorm(Module):
    """(batch, channel, ..) -> the same: layer norm over each group of channels."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: DType = f32,
        *,
        bias: bool = True,
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(num_channels, dtype=dtype) if affine else None
        self.bias = Parameter(num_channels, dtype=dtype) if affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return fn.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return fn.local_response_norm(input, self.size, self.alpha, self.beta, self.k)
