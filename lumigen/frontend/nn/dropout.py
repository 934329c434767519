"""Dropout: the identity, as a model is compiled for inference."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from lumigen.frontend.nn.module import Module
from lumigen.frontend.tensor import Tensor


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input


class Dropout(_Dropout):
    """The identity: elements are dropped in training alone."""


class Dropout1d(_Dropout):
    """The identity: channels are dropped in training alone."""


class Dropout2d(_Dropout):
    """The identity: channels are dropped in training alone."""


class Dropout3d(_Dropout):
    """The identity: channels are dropped in training alone."""


class AlphaDropout(_Dropout):
    """The identity: elements are dropped in training alone."""


class FeatureAlphaDropout(_Dropout):
    """The identity: channels are dropped in training alone."""
