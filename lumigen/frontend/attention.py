"""Attention: softmax of products, weighted sums; the compiler makes one loop of it by itself."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math

from lumigen.dtype import DType, computed, f32
from lumigen.errors import BadArgument, DtypeMismatch
from lumigen.frontend import movement
from lumigen.frontend.creation import arange
from lumigen.frontend.lookup import linear
from lumigen.frontend.operand import where
from lumigen.frontend.primitive import unequal
from lumigen.frontend.promote import Vote, result_type
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value over (.., heads, positions, features).

    A bool mask keeps what is true; a float mask is added; `is_causal` keeps key <= query. With
    `enable_gqa` each head of `key` and `value` serves heads(query) / heads(key) heads of `query`.
    A row for which a mask leaves no key is 0. Of f16 and bf16 it is computed in f32, and rounded at the end.
    """
    if dropout_p:
        raise fail(
            BadArgument,
            op="scaled_dot_product_attention",
            name="dropout_p",
            value=dropout_p,
            expected="0.0: models are compiled for inference",
        )
    if attn_mask is not None:
        check_mask("scaled_dot_product_attention", "attn_mask", attn_mask, query)
    attend = _grouped_attention if enable_gqa else _attention
    dtype, wide = query.dtype, computed(query.dtype)
    if dtype is wide or not dtype is key.dtype is value.dtype:  # the products say where they differ
        return attend(query, key, value, attn_mask, is_causal, scale)
    q, k, v = (x.to(wide) for x in (query, key, value))
    return attend(q, k, v, attn_mask, is_causal, scale).to(dtype)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    _check_heads(query, key)
    scores = query @ key.mT * _scale(query, scale)  # (.., heads, queries, keys)
    if is_causal:
        i, j = arange(scores.extents[-2]).unsqueeze(-1), arange(scores.extents[-1])
        scores = where(i < j, -math.inf, scores)
    if attn_mask is None:
        return scores.softmax(-1) @ value
    masked = attn_mask.dtype.is_bool
    scores = where(attn_mask, scores, -math.inf) if masked else scores + attn_mask.to(scores.dtype)
    if key.extents[-2] == 0:
        return scores @ value
    sees_none = scores.amax(-1, keepdim=True) == -math.inf
    return where(sees_none, 0.0, scores.softmax(-1) @ value)


def check_mask(op: str, name: str, mask: Tensor, query: Tensor) -> None:
    """DtypeMismatch unless the mask is bool, f32 or of the query's dtype."""
    if not (mask.dtype.is_bool or mask.dtype is f32 or mask.dtype is query.dtype):
        remedy = (
            f"Write .bool() after a mask of 0 and 1, .to({query.dtype!r}) after one that is added."
        )
        floats = dict.fromkeys((f32, query.dtype))
        expected = f"bool or {' or '.join(map(str, floats))}"
        raise fail(
            DtypeMismatch, op=op, name=name, got=mask.dtype, expected=expected, remedy=remedy
        )


def check_masks(op: str, query: Tensor, **masks: Tensor | None) -> None:
    """DtypeMismatch unless the sum of the masks, which is what scores get, is f32 or of the query's dtype."""
    given = {name: mask for name, mask in masks.items() if mask is not None}
    are_added = all(m.dtype.is_bool or m.dtype.is_float for m in given.values())
    votes = (Vote(query.dtype if m.dtype.is_bool else m.dtype, m.extents) for m in given.values())
    if given and are_added and result_type(op, tuple(votes)) in (f32, query.dtype):
        return
    for name, mask in given.items():
        check_mask(op, name, mask, query)


def _check_heads(query: Tensor, key: Tensor) -> None:
    """Each head of the queries has its own of the keys, or one is for all."""
    if query.ndim < 3 or key.ndim < 3:
        return
    heads, shared = query.extents[-3], key.extents[-3]
    if heads is shared or heads == 1 or shared == 1:
        return
    rule = f"{heads} query heads and {shared} key heads"
    remedy = "Pass enable_gqa=True, where heads of the key serve several of the query."
    op = "scaled_dot_product_attention"
    raise unequal(op, heads, shared, query.extents, key.extents, rule, remedy)


def _scale(query: Tensor, scale: float | None) -> float:
    if scale is not None:
        return scale
    features = query.extents[-1]
    if not features.is_const:
        raise fail(
            BadArgument,
            op="scaled_dot_product_attention",
            name="scale",
            value=f"left out for heads of {features} features",
            expected="a number",
        )
    return 1 / math.sqrt(features.const)


def _grouped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    heads, shared = query.extents[-3], key.extents[-3]
    group = heads // shared
    if group * shared is not heads:
        rule = f"{heads} query heads are not a multiple of {shared} key heads"
        op = "scaled_dot_product_attention"
        raise unequal(op, heads, shared, query.extents, key.extents, rule, "Correct the heads.")
    split = query.unflatten(-3, (shared, group))  # (.., shared, group, queries, features)
    if attn_mask is not None and attn_mask.ndim >= 3:
        few = attn_mask.extents[-3] == 1
        attn_mask = attn_mask.unsqueeze(-3) if few else attn_mask.unflatten(-3, (shared, group))
    keys, values = key.unsqueeze(-3), value.unsqueeze(-3)
    out = _attention(split, keys, values, attn_mask, is_causal, scale)
    return out.flatten(-4, -3)


# --- with projections -----------------------------------------------------------------------------


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads over (positions, batch, hidden), or without the batch, between projections.

    (output, weights): the weights (batch, queries, keys) are the mean of the heads, or each head's, or None unless
    needed. A bool mask leaves out what is true; `is_causal` is a hint that comes with its mask. A query that sees no
    key takes nothing from values where no weights are needed, else NaN.
    """
    if training and dropout_p:
        expected = "0.0: models are compiled for inference"
        raise fail(
            BadArgument, op="attention", name="dropout_p", value=dropout_p, expected=expected
        )
    del embed_dim_to_check, is_causal
    op = "multi_head_attention_forward"
    check_masks(op, query, attn_mask=attn_mask, key_padding_mask=key_padding_mask)
    if query.ndim == 2:
        out, weights = multi_head_attention_forward(
            query.unsqueeze(1),
            key.unsqueeze(1),
            value.unsqueeze(1),
            0,
            num_heads,
            in_proj_weight,
            in_proj_bias,
            bias_k,
            bias_v,
            add_zero_attn,
            dropout_p,
            out_proj_weight,
            out_proj_bias,
            training,
            None if key_padding_mask is None else key_padding_mask.unsqueeze(0),
            need_weights,
            attn_mask,
            use_separate_proj_weight,
            q_proj_weight,
            k_proj_weight,
            v_proj_weight,
            static_k,
            static_v,
            average_attn_weights,
        )
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _projected((query, key, value), in_proj_weight, separate, in_proj_bias)
    mask = None if attn_mask is None else added_mask(attn_mask, q.dtype)
    if bias_k is not None and bias_v is not None:
        k = _followed(k, bias_k.expand(1, *k.extents[1:]))
        v = _followed(v, bias_v.expand(1, *v.extents[1:]))
    heads = [_heads(x, num_heads) for x in (q, k, v)]
    heads[1] = heads[1] if static_k is None else static_k
    heads[2] = heads[2] if static_v is None else static_v
    if add_zero_attn:
        heads[1:] = [x.pad((0, 0, 0, 1)) for x in heads[1:]]
    batch, keys = query.extents[1], heads[1].extents[1]
    q, k, v = (x.unflatten(0, (batch, num_heads)) for x in heads)
    if mask is not None:  # keys that were added are seen by all
        mask = mask.pad((0, keys - mask.extents[-1]))
        mask = mask.unflatten(0, (batch, num_heads)) if mask.ndim == 3 else mask
    if key_padding_mask is not None:
        gone = added_mask(key_padding_mask, q.dtype)
        gone = gone.pad((0, keys - gone.extents[-1])).reshape(batch, 1, 1, keys)
        mask = gone if mask is None else mask + gone
    weights = None
    if need_weights:
        scores = q @ k.mT * _scale(q, None)  # (batch, head, query, key)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        mixed = weights @ v
    else:
        mixed = scaled_dot_product_attention(q, k, v, mask)
    out = mixed.permute(2, 0, 1, 3).flatten(2)  # (query, batch, hidden)
    out = linear(out, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    return out, weights


def _projected(
    inputs: tuple[Tensor, Tensor, Tensor],
    together: Tensor | None,
    separate: tuple[Tensor | None, ...],
    bias: Tensor | None,
) -> list[Tensor]:
    """Queries, keys and values, by one weight in three parts or by three."""
    weights = separate if together is None else together.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    found: list[Tensor] = []
    for x, w, b in zip(inputs, weights, biases, strict=True):
        assert w is not None
        found.append(linear(x, w, b))
    return found


def _heads(x: Tensor, heads: int) -> Tensor:
    """(positions, batch, hidden) -> (batch * heads, positions, hidden / heads)."""
    positions, batch, hidden = x.extents
    return x.reshape(positions, batch * heads, hidden // heads).transpose(0, 1)


def _followed(x: Tensor, last: Tensor) -> Tensor:
    return Tensor(movement.cat([x.edge, last.edge]))


def added_mask(mask: Tensor, dtype: DType) -> Tensor:
    """A mask as what is added to scores of a dtype: -inf where a bool one is true."""
    return (where(mask, -math.inf, 0.0) if mask.dtype.is_bool else mask).to(dtype)
