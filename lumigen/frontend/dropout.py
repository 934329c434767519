"""Dropout: in training elements or channels leave at random, at inference all stay.

`training` is False unless it is asked for, and then numbers are drawn from `generator`.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math

from lumigen.errors import BadArgument
from lumigen.frontend.activation import SELU_ALPHA, SELU_SCALE, leaky_relu
from lumigen.frontend.operand import drawn, where, zeros_like
from lumigen.frontend.random import Generator, uniform
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import ix
from lumigen.view import Shape

LEAST = -SELU_SCALE * SELU_ALPHA  # what selu tends to


def _is_idle(op: str, p: float, training: bool) -> bool:
    """Whether all elements stay as they are."""
    if not 0 <= p <= 1:
        raise fail(BadArgument, op=op, name="p", value=p, expected="a chance between 0 and 1")
    return not training or p == 0


def _stays(op: str, input: Tensor, shape: Shape, p: float, generator: Generator | None) -> Tensor:
    """Whether each element of a shape stays, with chance 1 - p."""
    wide = input.float() if input.dtype.bits < 32 else input
    return uniform(wide.new_zeros(*shape), generator=drawn(op, generator)) >= p


def _dropped(op: str, input: Tensor, shape: Shape, p: float, generator: Generator | None) -> Tensor:
    """Those that stay over 1 - p, the others 0."""
    stays = _stays(op, input, shape, p, generator)
    return where(stays, input * (1 / (1 - p)), 0) if p < 1 else zeros_like(input)


def _channels(input: Tensor, spatial: int) -> Shape:
    """The shape with extents of 1 for the dimensions after the channels."""
    rank = input.ndim - (spatial or max(input.ndim - 2, 0))
    return (*input.extents[:rank], *(ix(1) for _ in input.extents[rank:]))


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Elements that stay with chance 1 - p, over that chance; the identity unless `training`."""
    del inplace
    if _is_idle("dropout", p, training):
        return input
    return _dropped("dropout", input, input.extents, p, generator)


def dropout1d(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Channels of ((batch,) channel, length) that stay or leave as a whole; the identity unless `training`."""
    del inplace
    if _is_idle("dropout1d", p, training):
        return input
    return _dropped("dropout1d", input, _channels(input, 1), p, generator)


def dropout2d(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Channels of (batch, channel, ..) that stay or leave as a whole; the identity unless `training`."""
    del inplace
    if _is_idle("dropout2d", p, training):
        return input
    return _dropped("dropout2d", input, _channels(input, 0), p, generator)


def dropout3d(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Channels of (batch, channel, ..) that stay or leave as a whole; the identity unless `training`."""
    del inplace
    if _is_idle("dropout3d", p, training):
        return input
    return _dropped("dropout3d", input, _channels(input, 0), p, generator)


def _alpha(op: str, input: Tensor, shape: Shape, p: float, generator: Generator | None) -> Tensor:
    """What leaves becomes selu's least, then mean and variance are put back (Klambauer et al. 2017)."""
    stays = _stays(op, input, shape, p, generator)
    if p == 1:
        return zeros_like(input)
    scale = 1 / math.sqrt((1 - p) * (1 + p * LEAST**2))
    return where(stays, input, LEAST) * scale - scale * LEAST * p


def alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Dropout that keeps mean and variance of what selu gives; the identity unless `training`."""
    del inplace
    if _is_idle("alpha_dropout", p, training):
        return input
    return _alpha("alpha_dropout", input, input.extents, p, generator)


def feature_alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`alpha_dropout` of channels of (batch, channel, ..) as a whole; the identity unless `training`."""
    del inplace
    if _is_idle("feature_alpha_dropout", p, training):
        return input
    return _alpha("feature_alpha_dropout", input, _channels(input, 0), p, generator)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """x, or x by a slope below 0: the mean of both, in `training` one drawn between them for each element."""
    del inplace
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    slope = uniform(input, lower, upper, generator=drawn("rrelu", generator))
    return where(input >= 0, input, input * slope)
