"""Products with weights, and rows of tables."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from typing import Any

from lumigen.dtype import DType, f32
from lumigen.frontend import functional as fn
from lumigen.frontend.nn.module import Module, Parameter
from lumigen.frontend.tensor import Tensor


class Identity(Module):
    """The input, whatever it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """(.., in) -> (.., out): x @ weight.T + bias, weight (out, in)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: DType = f32
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(out_features, in_features, dtype=dtype)
        self.bias = Parameter(out_features, dtype=dtype) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        return fn.linear(input, self.weight, self.bias)


class Bilinear(Module):
    """(.., m), (.., n) -> (.., out): sum_{i, j} x[i] weight[o, i, j] y[j] + bias."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DType = f32,
    ) -> None:
        self.weight = Parameter(out_features, in1_features, in2_features, dtype=dtype)
        self.bias = Parameter(out_features, dtype=dtype) if bias else None

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return fn.bilinear(input1, input2, self.weight, self.bias)


class Embedding(Module):
    """Ids (..) of integers -> (.., features): rows of weight (ids, features), 0 for an id that it has not.

    Rows whose norm is above `max_norm` are scaled down to it; the other options are of training.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        dtype: DType = f32,
    ) -> None:
        del scale_grad_by_freq, sparse
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.weight = Parameter(num_embeddings, embedding_dim, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        return fn.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)


class EmbeddingBag(Module):
    """Ids (bag, n), or (n,) with `offsets` of bags, -> (bag, features): sum, mean or maximum of rows."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: DType = f32,
    ) -> None:
        del scale_grad_by_freq, sparse
        self.max_norm, self.norm_type, self.mode = max_norm, norm_type, mode
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx
        self.weight = Parameter(num_embeddings, embedding_dim, dtype=dtype)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return fn.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )
