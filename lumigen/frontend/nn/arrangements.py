"""Modules that move elements: other shapes, other sizes, edges around."""

# signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lumigen.frontend import functional as fn
from lumigen.frontend.convolution import Sizes
from lumigen.frontend.nn.module import Module
from lumigen.frontend.primitive import Extent
from lumigen.frontend.tensor import Tensor


class Flatten(Module):
    """One dimension for those from `start_dim` to `end_dim`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """Several dimensions for one, one of whose sizes may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[Extent]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)


class PixelShuffle(Module):
    """(.., channel * r^2, height, width) -> (.., channel, height * r, width * r)."""

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return fn.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """(.., channel, height * r, width * r) -> (.., channel * r^2, height, width)."""

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return fn.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """(batch, channel, ..) -> the same, with the channels of all groups in turn."""

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return fn.channel_shuffle(input, self.groups)


class Unfold(Module):
    """(batch, channel, height, width) -> (batch, channel * window, windows): windows as columns."""

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return fn.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Module):
    """(batch, channel * window, windows) -> (batch, channel, *output_size): the sum of windows."""

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        step = (self.dilation, self.padding, self.stride)
        return fn.fold(input, self.output_size, self.kernel_size, *step)


class Upsample(Module):
    """(batch, channel, ..) -> the same at another size: `size`, or its own times `scale_factor`."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        how = (self.mode, self.align_corners, self.recompute_scale_factor)
        return fn.interpolate(input, self.size, self.scale_factor, *how)


class UpsamplingNearest2d(Upsample):
    """(batch, channel, height, width) -> the same at another size, by the nearest element."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """(batch, channel, height, width) -> the same at another size, by lines between corners."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


# --- edges ----------------------------------------------------------------------------------------


class _Pad(Module):
    rank: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        one = isinstance(padding, int)
        self.padding = (padding,) * (2 * self.rank) if one else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return fn.pad(input, self.padding, self.mode)


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return fn.pad(input, self.padding, value=self.value)


class ConstantPad1d(_ConstantPad):
    """`value` before and after the last dimension."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """`value` around the last two dimensions: left, right, top, bottom."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """`value` around the last three dimensions."""

    rank = 3


class ZeroPad1d(_Pad):
    """Zeros before and after the last dimension."""

    rank = 1


class ZeroPad2d(_Pad):
    """Zeros around the last two dimensions: left, right, top, bottom."""

    rank = 2


class ZeroPad3d(_Pad):
    """Zeros around the last three dimensions."""

    rank = 3


class ReflectionPad1d(_Pad):
    """The elements mirrored at both ends of the last dimension."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """The elements mirrored at the edges of the last two dimensions."""

    rank, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """The elements mirrored at the edges of the last three dimensions."""

    rank, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The nearest element before and after the last dimension."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The nearest element around the last two dimensions."""

    rank, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The nearest element around the last three dimensions."""

    rank, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The elements of the other end before and after the last dimension."""

    rank, mode = 1, "circular"


class CircularPad2d(_Pad):
    """The elements of the other end around the last two dimensions."""

    rank, mode = 2, "circular"


class CircularPad3d(_Pad):
    """The elements of the other end around the last three dimensions."""

    rank, mode = 3, "circular"
