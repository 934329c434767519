"""Folds around a contraction, written from plain ops: attention and its like, each of which is to be one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lumigen as lg
from lumigen import functional as F

POSITIONS = lg.Dim("positions", 1, 1024, typical=512)
KEYS = lg.Dim("keys", 1, 1024, typical=512)
FEW = lg.Dim("few", 1, 1024, typical=8)


def positions(x: Any) -> tuple[Any, Any]:
    return lg.arange(x.shape[2]).unsqueeze(-1), lg.arange(x.shape[2])


def windowed(q: Any, k: Any, v: Any) -> Any:
    i, j = positions(q)
    return F.scaled_dot_product_attention(q, k, v, (i < j + 70) & (j < i + 1))


def biased(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    i, j = positions(q)
    distance = (j - i).to(q.dtype)
    return ((q @ k.mT) * 0.25 + distance * slopes.reshape(2, 1, 1)).softmax(-1) @ v


def with_log_sum_exp(q: Any, k: Any, v: Any) -> dict[str, Any]:
    scores = q @ k.mT * 0.25
    return {"mixed": scores.softmax(-1) @ v, "total": scores.logsumexp(-1)}


def heads_last(q: Any, k: Any, v: Any) -> dict[str, Any]:
    """Grouped heads whose result is (batch, position, head, feature), with m + log(sum) of (batch, head, position)."""
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    i, j = positions(q)
    scores = (q @ k.mT * 0.25).masked_fill(j > i, -np.inf)
    largest = scores.amax(-1, keepdim=True)
    weights = (scores - largest).exp()
    total = weights.sum(-1, keepdim=True)
    mixed = (weights @ v / total).transpose(1, 2)
    return {"mixed": mixed, "total": (largest + total.log()).squeeze(-1)}


def states_of_softmax(q: Any, k: Any, v: Any) -> dict[str, Any]:
    """What parts of a softmax are merged from: its maximum, its sum, and what it weights before it is divided."""
    scores = q @ k.mT * 0.25
    largest = scores.amax(-1, keepdim=True)
    weights = (scores - largest).exp()
    return {"largest": largest, "total": weights.sum(-1), "mixed": weights @ v}


def numbers_alone(q: Any, k: Any, v: Any) -> Any:
    """A row whose weights are no numbers gives zero, as exporters write it."""
    weights = (q @ k.mT * 0.25).softmax(-1)
    return weights.masked_fill(weights.isnan(), 0.0) @ v


def with_sink(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT * 0.25
    largest = scores.amax(-1, keepdim=True).maximum(0.0)
    weights = (scores - largest).exp()
    return (weights @ v) / (weights.sum(-1, keepdim=True) + (-largest).exp())


def with_sink_beside(q: Any, k: Any, v: Any, sink: Any) -> Any:
    """A column more for what is attended nowhere, which takes its part of the softmax and is dropped."""
    scores = (q @ k.mT * 0.25).to(lg.f32)
    beside = sink.to(lg.f32).reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
    weights = F.cat([scores, beside], -1).softmax(-1)
    return weights[..., :-1].to(v.dtype) @ v


def with_sink_ahead(q: Any, k: Any, v: Any, sink: Any) -> Any:
    scores = q @ k.mT * 0.25
    ahead = sink.reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
    return F.cat([ahead, scores], -1).softmax(-1)[..., 1:] @ v


def rounded(q: Any, k: Any, v: Any) -> Any:
    """A softmax in f32, rounded to the values' type."""
    scores = (q.to(lg.f32) @ k.to(lg.f32).mT) * 0.25
    return scores.softmax(-1).to(v.dtype) @ v


def rounded_causal(q: Any, k: Any, v: Any) -> Any:
    i, j = positions(q)
    scores = (q @ k.mT * 0.25).masked_fill(j > i, -np.inf)
    return scores.to(lg.f32).softmax(-1).to(v.dtype) @ v


def by_log_sum_exp(q: Any, k: Any, v: Any) -> Any:
    i, j = positions(q)
    scores = (q @ k.mT * 0.25).to(lg.f32).masked_fill(j > i, -np.inf)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp().to(v.dtype) @ v


def relu_rounded(q: Any, k: Any, v: Any) -> Any:
    return (q.to(lg.f32) @ k.to(lg.f32).mT * 0.05).relu().to(v.dtype) @ v


# name: the function, heads of q, heads of k and v, features, further inputs
FOLDED: dict[str, tuple[Callable[..., Any], int, int, int, dict[str, tuple[Any, ...]]]] = {
    "full": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), 2, 2, 16, {}),
    "other_keys": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), 2, 2, 16, {}),
    "few_of_many_heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        16,
        1,
        16,
        {},
    ),
    "features_200": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), 1, 1, 200, {}),
    "features_80": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), 1, 1, 80, {}),
    "causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        2,
        2,
        16,
        {},
    ),
    "bias": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
        2,
        2,
        16,
        {"mask": (POSITIONS, POSITIONS)},
    ),
    "bias_of_heads": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
        2,
        2,
        16,
        {"mask": (2, POSITIONS, POSITIONS)},
    ),
    "bias_of_one_head": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask),
        1,
        1,
        16,
        {"mask": (POSITIONS, POSITIONS)},
    ),
    "mask": (
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask < 1.5),
        2,
        2,
        16,
        {"mask": (1, 1, 1, POSITIONS)},
    ),
    "window": (windowed, 2, 2, 16, {}),
    "slopes": (biased, 2, 2, 16, {"slopes": (2,)}),
    "softcap": (lambda q, k, v: ((q @ k.mT / 5).tanh() * 5).softmax(-1) @ v, 2, 2, 16, {}),
    "numbers_alone": (numbers_alone, 2, 2, 16, {}),
    "relu": (lambda q, k, v: (q @ k.mT * 0.05).relu() @ v, 2, 2, 16, {}),
    "sink": (with_sink, 2, 2, 16, {}),
    "sink_beside": (with_sink_beside, 2, 2, 16, {"sink": (2,)}),
    "sink_ahead": (with_sink_ahead, 2, 2, 16, {"sink": (2,)}),
    "gqa": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        4,
        2,
        16,
        {},
    ),
    "values_turned": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, (v + 1).relu()),
        2,
        2,
        16,
        {},
    ),
    "commuted": (lambda q, k, v: v.mT @ (k @ q.mT * 0.25).softmax(-2), 2, 2, 16, {}),
    "relu_commuted": (lambda q, k, v: v.mT @ (0.05 * (k @ q.mT)).relu(), 2, 2, 16, {}),
    "wider_keys": (
        lambda q, k, v: F.scaled_dot_product_attention(q.to(lg.f32), k, v),
        2,
        2,
        16,
        {},
    ),
    "log_sum_exp": (with_log_sum_exp, 1, 1, 16, {}),
    "heads_last": (heads_last, 4, 2, 16, {}),
    "rounded": (rounded, 2, 2, 16, {}),
    "rounded_causal": (rounded_causal, 2, 2, 16, {}),
    "by_log_sum_exp": (by_log_sum_exp, 2, 2, 16, {}),
    "relu_rounded": (relu_rounded, 2, 2, 16, {}),
    "states_of_softmax": (states_of_softmax, 2, 2, 16, {}),
}


def specs_of(name: str, dtype: Any) -> dict[str, Any]:
    """What the function takes, held in `dtype`."""
    _, heads, kept, features, more = FOLDED[name]
    keys = KEYS if name in ("other_keys", "few_of_many_heads") else POSITIONS
    queries = FEW if name == "few_of_many_heads" else POSITIONS
    held = lg.f32 if name == "wider_keys" else dtype
    return {
        "q": lg.spec(1, heads, queries, features, dtype=dtype),
        "k": lg.spec(1, kept, keys, features, dtype=held),
        "v": lg.spec(1, kept, keys, features, dtype=held),
        **{n: lg.spec(*shape, dtype=dtype) for n, shape in more.items()},
    }
