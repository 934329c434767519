"""Convolutions with weights, and their transposes."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument
from lumigen.frontend import functional as fn
from lumigen.frontend.convolution import Sizes, several
from lumigen.frontend.extents import fixed
from lumigen.frontend.nn.module import Module, Parameter
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail

CONV = {1: fn.conv1d, 2: fn.conv2d, 3: fn.conv3d}
TRANSPOSED = {1: fn.conv_transpose1d, 2: fn.conv_transpose2d, 3: fn.conv_transpose3d}


def _check_groups(op: str, in_channels: int, out_channels: int, groups: int) -> None:
    if groups < 1 or in_channels % groups or out_channels % groups:
        expected = f"a divisor of {in_channels} in_channels and of {out_channels} out_channels"
        raise fail(BadArgument, op=op, name="groups", value=groups, expected=expected)


class _Conv(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: DType = f32,
    ) -> None:
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.padding_mode = padding_mode
        name = type(self).__name__
        _check_groups(name, in_channels, out_channels, groups)
        self.kernel_size = several(name, "kernel_size", kernel_size, self.rank)
        self.weight = Parameter(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype)
        self.bias = Parameter(out_channels, dtype=dtype) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = fn.pad(input, self._widths(), mode=self.padding_mode), 0
        conv = CONV[self.rank]
        return conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _widths(self) -> list[int]:
        """Before and after, of the last dimension first."""
        name = type(self).__name__
        if not isinstance(self.padding, str):
            widths = several(name, "padding", self.padding, self.rank)
            return [w for width in reversed(widths) for w in (width, width)]
        steps = several(name, "dilation", self.dilation, self.rank)
        total = [
            d * (k - 1) if self.padding == "same" else 0
            for k, d in zip(self.kernel_size, steps, strict=True)
        ]
        return [w for t in reversed(total) for w in (t // 2, t - t // 2)]


class Conv1d(_Conv):
    """(batch, in, length) -> (batch, out, length'), weight (out, in / groups, r)."""

    rank = 1


class Conv2d(_Conv):
    """(batch, in, height, width) -> (batch, out, height', width'), weight (out, in / groups, r, s)."""

    rank = 2


class Conv3d(_Conv):
    """(batch, in, depth, height, width) -> (batch, out, ..'), weight (out, in / groups, q, r, s)."""

    rank = 3


class _ConvTranspose(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        dtype: DType = f32,
    ) -> None:
        name = type(self).__name__
        if padding_mode != "zeros":
            expected = "'zeros', the only one that transposes have"
            value = repr(padding_mode)
            raise fail(BadArgument, op=name, name="padding_mode", value=value, expected=expected)
        _check_groups(name, in_channels, out_channels, groups)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.output_padding, self.padding_mode = output_padding, padding_mode
        self.kernel_size = several(name, "kernel_size", kernel_size, self.rank)
        self.weight = Parameter(in_channels, out_channels // groups, *self.kernel_size, dtype=dtype)
        self.bias = Parameter(out_channels, dtype=dtype) if bias else None

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        padding = self.output_padding if output_size is None else self._for(input, output_size)
        conv = TRANSPOSED[self.rank]
        return conv(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            padding,
            self.groups,
            self.dilation,
        )

    def _for(self, x: Tensor, output_size: Sequence[int]) -> list[int]:
        """The output padding that makes an output of that size."""
        name, rank = type(self).__name__, self.rank
        parts = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        steps, widths, dilations = (several(name, key, v, rank) for key, v in parts.items())
        sizes = [fixed(name, "the input's size", e) for e in x.extents[-rank:]]
        least = [
            (size - 1) * s - 2 * w + d * (k - 1) + 1
            for size, s, w, d, k in zip(
                sizes, steps, widths, dilations, self.kernel_size, strict=True
            )
        ]
        found = [w - m for w, m in zip(output_size[-rank:], least, strict=False)]
        if len(found) != rank or not all(
            0 <= f < max(s, d) for f, s, d in zip(found, steps, dilations, strict=True)
        ):
            expected = f"a size from {tuple(least)} on, by less than a stride"
            value = tuple(output_size)
            raise fail(BadArgument, op=name, name="output_size", value=value, expected=expected)
        return found


class ConvTranspose1d(_ConvTranspose):
    """(batch, in, length) -> (batch, out, length'), weight (in, out / groups, r)."""

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """(batch, in, height, width) -> (batch, out, height', width'), weight (in, out / groups, r, s)."""

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """(batch, in, depth, height, width) -> (batch, out, ..'), weight (in, out / groups, q, r, s)."""

    rank = 3
