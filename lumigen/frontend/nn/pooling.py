"""Pooling: the greatest, the mean or the norm of each window, or of parts of given number."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from lumigen.frontend import functional as fn
from lumigen.frontend.convolution import Sizes
from lumigen.frontend.nn.module import Module
from lumigen.frontend.tensor import Tensor

MAX = {1: fn.max_pool1d, 2: fn.max_pool2d, 3: fn.max_pool3d}
NORM = {1: fn.lp_pool1d, 2: fn.lp_pool2d, 3: fn.lp_pool3d}
Parts = int | None | Sequence[int | None]


class _MaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation = dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return MAX[self.rank](
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPool):
    """(.., length) -> (.., length'): the greatest of each window."""

    rank = 1


class MaxPool2d(_MaxPool):
    """(.., height, width) -> (.., height', width'): the greatest of each window."""

    rank = 2


class MaxPool3d(_MaxPool):
    """(.., depth, height, width) -> (.., depth', height', width'): the greatest of each window."""

    rank = 3


class AvgPool1d(Module):
    """(.., length) -> (.., length'): the mean of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        step = (self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return fn.avg_pool1d(input, self.kernel_size, *step)


class _AvgPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        pool = fn.avg_pool2d if self.rank == 2 else fn.avg_pool3d
        step = (self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return pool(input, self.kernel_size, *step, self.divisor_override)


class AvgPool2d(_AvgPool):
    """(.., height, width) -> (.., height', width'): the mean of each window."""

    rank = 2


class AvgPool3d(_AvgPool):
    """(.., depth, height, width) -> (.., depth', height', width'): the mean of each window."""

    rank = 3


class _LPPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        pool = NORM[self.rank]
        return pool(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """(.., length) -> (.., length'): (sum x^p)^(1 / p) of each window."""

    rank = 1


class LPPool2d(_LPPool):
    """(.., height, width) -> (.., height', width'): (sum x^p)^(1 / p) of each window."""

    rank = 2


class LPPool3d(_LPPool):
    """(.., depth, height, width) -> (.., depth', height', width'): (sum x^p)^(1 / p) of each window."""

    rank = 3


class AdaptiveAvgPool1d(Module):
    """(.., length) -> (.., output_size): the mean of each of so many parts."""

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return fn.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(Module):
    """(.., height, width) -> (.., *output_size): the mean of each of so many parts; None keeps an extent."""

    def __init__(self, output_size: Parts) -> None:
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return fn.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(Module):
    """(.., depth, height, width) -> (.., *output_size): the mean of each of so many parts."""

    def __init__(self, output_size: Parts) -> None:
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return fn.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(Module):
    """(.., length) -> (.., output_size): the greatest of each of so many parts."""

    def __init__(self, output_size: Sizes, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return fn.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(Module):
    """(.., height, width) -> (.., *output_size): the greatest of each of so many parts."""

    def __init__(self, output_size: Parts, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return fn.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(Module):
    """(.., depth, height, width) -> (.., *output_size): the greatest of each of so many parts."""

    def __init__(self, output_size: Parts, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return fn.adaptive_max_pool3d(input, self.output_size, self.return_indices)
