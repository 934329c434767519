"""Attention with its projections, under the names of PyTorch's checkpoints."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math

from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument, RankMismatch
from lumigen.frontend import functional as fn
from lumigen.frontend.attention import added_mask, check_masks
from lumigen.frontend.creation import zeros
from lumigen.frontend.nn.linear import Linear
from lumigen.frontend.nn.module import Module, Parameter
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail


class MultiheadAttention(Module):
    """Queries, keys and values (position, batch, features), or (batch, position, features).

    softmax(q k^T / sqrt(d) + mask) v for each head, between projections. Gives the output like the
    queries, and the weights (batch, queries, keys) as means over heads, or (batch, heads, queries,
    keys), or None. A bool mask is true where a key is *not* seen, as PyTorch has it here.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: DType = f32,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise fail(
                BadArgument,
                op="MultiheadAttention",
                name="num_heads",
                value=num_heads,
                expected=f"a divisor of the {embed_dim} features",
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        alike = self.kdim == embed_dim == self.vdim
        whole, parts = (3 * embed_dim, embed_dim), (embed_dim, self.kdim, self.vdim)
        q, k, v = (None if alike else Parameter(embed_dim, n, dtype=dtype) for n in parts)
        self.in_proj_weight = Parameter(*whole, dtype=dtype) if alike else None
        self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = q, k, v
        self.in_proj_bias = Parameter(3 * embed_dim, dtype=dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        self.bias_k = Parameter(1, 1, embed_dim, dtype=dtype) if add_bias_kv else None
        self.bias_v = Parameter(1, 1, embed_dim, dtype=dtype) if add_bias_kv else None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            expected = "the mask as attn_mask too: is_causal only says what it holds"
            op = "MultiheadAttention"
            raise fail(BadArgument, op=op, name="is_causal", value=True, expected=expected)
        if query.ndim not in (2, 3) or {key.ndim, value.ndim} != {query.ndim}:
            raise fail(
                RankMismatch,
                op="MultiheadAttention",
                name="the query",
                shape=query.extents,
                expected="3 axes, or 2 without a batch, as keys and values",
                remedy="Add or remove axes with .reshape() or .unsqueeze().",
            )
        masks = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        check_masks("MultiheadAttention", query, **masks)
        alone = query.ndim == 2
        q, k, v = (self._batched(x) for x in (query, key, value))  # (batch, position, features)
        q, k, v = self._projected(q, k, v)
        mask = self._mask(q, k, attn_mask, key_padding_mask)
        k, v, mask = self._extended(k, v, mask)
        q, k, v = (self._heads(x) for x in (q, k, v))  # (batch, head, position, d)
        weights = None
        if need_weights:
            scores = q / math.sqrt(self.embed_dim // self.num_heads) @ k.mT
            weights = (scores if mask is None else scores + mask).softmax(-1)
            out = weights @ v
        else:
            out = fn.scaled_dot_product_attention(q, k, v, mask)
        out = self.out_proj(out.transpose(1, 2).flatten(2))  # (batch, position, features)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if alone:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _batched(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _projected(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n = self.embed_dim
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(n)
        if self.in_proj_weight is not None:
            weights: tuple[Tensor, ...] = self.in_proj_weight.split(n)
        else:
            found = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            weights = tuple(w for w in found if w is not None)
        q, k, v = (fn.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))
        return q, k, v

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _mask(
        self, q: Tensor, k: Tensor, mask: Tensor | None, padding: Tensor | None
    ) -> Tensor | None:
        """What is added to the scores, (batch or 1, head or 1, query or 1, key)."""
        batch, heads = q.extents[0], self.num_heads
        found = None
        if mask is not None:
            found = added_mask(mask, q.dtype)
            if found.ndim == 3:  # (batch * head, query, key)
                found = found.reshape(batch, heads, *found.extents[1:])
        if padding is not None:
            keys = added_mask(padding, q.dtype).reshape(-1, 1, 1, k.extents[1])
            found = keys if found is None else found + keys
        return found

    def _extended(
        self, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values after those given: the learned ones, and zeros."""
        batch, _, features = k.extents
        more = 0
        if self.bias_k is not None and self.bias_v is not None:
            k = fn.cat([k, self.bias_k.expand(batch, 1, features)], 1)
            v = fn.cat([v, self.bias_v.expand(batch, 1, features)], 1)
            more += 1
        if self.add_zero_attn:
            zero = zeros(batch, 1, features, dtype=k.dtype)
            k, v = fn.cat([k, zero], 1), fn.cat([v, zero], 1)
            more += 1
        return k, v, None if mask is None else mask.pad((0, more))
