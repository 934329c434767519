"""Folds around several products, written from plain ops: gradients of attention, from the log-sum-exp of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from tiles import traced

import lumigen as lg
from lumigen.graph import Graph

QUERIES = lg.Dim("queries", 1, 1024, typical=512)
KEYS = lg.Dim("keys", 1, 1024, typical=512)
BATCH, HEADS, FEATURES, SCALE = 2, 2, 16, 0.25
Array = np.ndarray[Any, Any]


def masked(scores: Any) -> Any:
    i, j = lg.arange(scores.shape[-2]).unsqueeze(-1), lg.arange(scores.shape[-1])
    return scores.masked_fill(j > i, -np.inf)


def as_it_is(scores: Any) -> Any:
    return scores


def product(a: Any, b: Any) -> Any:
    """a b^T in f32, whatever holds the operands."""
    return a.to(lg.f32) @ b.to(lg.f32).mT


def weights(q: Any, k: Any, lse: Any, mask: Callable[[Any], Any] = as_it_is) -> Any:
    return (mask(product(q, k) * SCALE) - lse.unsqueeze(-1)).exp()


def of_scores(p: Any, v: Any, dy: Any, delta: Any) -> Any:
    return p * (product(dy, v) - delta.unsqueeze(-1)) * SCALE


def of_queries(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    return {"dq": of_scores(weights(q, k, lse), v, dy, delta).to(k.dtype) @ k}


def of_queries_causal(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    return {"dq": of_scores(weights(q, k, lse, masked), v, dy, delta).to(k.dtype) @ k}


def of_keys(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    return {"dk": of_scores(weights(q, k, lse), v, dy, delta).to(q.dtype).mT @ q}


def of_values(q: Any, k: Any, dy: Any, lse: Any) -> Any:
    return {"dv": weights(q, k, lse).to(dy.dtype).mT @ dy}


def of_keys_and_values(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    p = weights(q, k, lse)
    return {"dk": of_scores(p, v, dy, delta).to(q.dtype).mT @ q, "dv": p.to(dy.dtype).mT @ dy}


def of_keys_and_values_causal(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    p = weights(q, k, lse, masked)
    return {"dk": of_scores(p, v, dy, delta).to(q.dtype).mT @ q, "dv": p.to(dy.dtype).mT @ dy}


def commuted(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    """Of transposed scores, each product from the other side."""
    p = (SCALE * product(k, q) - lse.unsqueeze(-2)).exp()
    ds = (product(v, dy) - delta.unsqueeze(-2)) * (SCALE * p)
    return {"dq": (k.mT @ ds.to(k.dtype)).mT}


def keys_commuted(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    p = (SCALE * product(k, q) - lse.unsqueeze(-2)).exp()
    ds = (product(v, dy) - delta.unsqueeze(-2)) * (SCALE * p)
    return {"dv": (dy.mT @ p.to(dy.dtype).mT).mT, "dk": (q.mT @ ds.to(q.dtype).mT).mT}


def heads_last(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    """Of results (batch, position, head, feature)."""
    q, k, v, dy = (x.transpose(1, 2) for x in (q, k, v, dy))
    return {"dq": of_queries_causal(q, k, v, dy, lse, delta)["dq"].transpose(1, 2)}


def keys_heads_last(q: Any, k: Any, v: Any, dy: Any, lse: Any, delta: Any) -> Any:
    q, k, v, dy = (x.transpose(1, 2) for x in (q, k, v, dy))
    found = of_keys_and_values_causal(q, k, v, dy, lse, delta)
    return {name: x.transpose(1, 2) for name, x in found.items()}


def of_all(q: Any, k: Any, v: Any, dy: Any, lse: Any, o: Any) -> Any:
    """All of them in one graph, with the delta of rows as PyTorch has it."""
    delta = (dy.to(lg.f32) * o.to(lg.f32)).sum(-1)
    p = weights(q, k, lse, masked)
    ds = of_scores(p, v, dy, delta)
    dv = p.to(dy.dtype).mT @ dy
    return {"dq": ds.to(k.dtype) @ k, "dk": ds.to(q.dtype).mT @ q, "dv": dv}


def few_queries(few: Any, k: Any, v: Any, dfew: Any, lse_few: Any, delta_few: Any) -> Any:
    return of_queries(few, k, v, dfew, lse_few, delta_few)


def few_keys(q: Any, few: Any, dfew: Any, dy: Any, lse: Any, delta: Any) -> Any:
    return of_keys_and_values(q, few, dfew, dy, lse, delta)


def gated(q: Any, k: Any, v: Any, dy: Any) -> Any:
    """No gradient: a product weighs what two others come to together."""
    return {"gated": (product(q, k) * 0.1 * product(dy, v).sigmoid()).relu().to(v.dtype) @ v}


@dataclass(frozen=True)
class Case:
    """A function of some of the inputs, and whether these have their heads last."""

    function: Callable[..., Any]
    heads_last: bool = False


CASES = {
    "queries": Case(of_queries),
    "queries_causal": Case(of_queries_causal),
    "keys": Case(of_keys),
    "values": Case(of_values),
    "keys_and_values": Case(of_keys_and_values),
    "keys_and_values_causal": Case(of_keys_and_values_causal),
    "commuted": Case(commuted),
    "keys_commuted": Case(keys_commuted),
    "heads_last": Case(heads_last, heads_last=True),
    "keys_heads_last": Case(keys_heads_last, heads_last=True),
    "gated": Case(gated),
}
FEW_COLUMNS = {"few_queries": Case(few_queries), "few_keys": Case(few_keys)}
FEW = 2
SCORED = {"q": few_queries, "k": few_keys}  # what has scores, but in the case where few have


def specs_of(case: Case, dtype: lg.DType = lg.f32, features: int = FEATURES) -> dict[str, Any]:
    def matrix(length: Any) -> Any:
        shape = (length, HEADS) if case.heads_last else (HEADS, length)
        return lg.spec(BATCH, *shape, features, dtype=dtype)

    specs: dict[str, Any] = {
        **{name: matrix(QUERIES) for name in ("q", "dy", "o")},
        **{name: matrix(KEYS) for name in ("k", "v")},
        **{name: matrix(FEW) for name in ("few", "dfew")},
        **{name: lg.spec(BATCH, HEADS, QUERIES) for name in ("lse", "delta")},
        **{name: lg.spec(BATCH, HEADS, FEW) for name in ("lse_few", "delta_few")},
    }
    names = signature(case.function).parameters
    return {name: specs[name] for name in names}


def graph_of(case: Case, dtype: lg.DType = lg.f32) -> Graph:
    return traced(case.function, None, **specs_of(case, dtype))


def arrays(case: Case, queries: int, keys: int, dtype: lg.DType = lg.f32) -> dict[str, Array]:
    """Numbers for the inputs of a case, with the log-sum-exp of its scores, and any delta: none that cancels to 0."""
    rng = np.random.default_rng(queries * 1000 + keys)
    lengths = {
        "q": queries,
        "dy": queries,
        "o": queries,
        "k": keys,
        "v": keys,
        "few": FEW,
        "dfew": FEW,
    }
    made: dict[str, Array] = {}
    for name, length in lengths.items():
        drawn: Array = rng.standard_normal((BATCH, HEADS, length, FEATURES))
        made[name] = drawn.astype(np.float32).astype(dtype.numpy)
    rows, columns = [made["few" if case.function is f else n] for n, f in SCORED.items()]
    causal = "causal" in case.function.__name__ or case.heads_last
    lse, _ = softmax(rows, columns, causal=causal)
    for end in ("", "_few"):
        made[f"lse{end}"] = np.asarray(lse, np.float32)
        made[f"delta{end}"] = np.asarray(rng.standard_normal(lse.shape), np.float32)
    if case.heads_last:
        made |= {name: made[name].transpose(0, 2, 1, 3) for name in lengths}
    names = signature(case.function).parameters
    return {name: np.ascontiguousarray(made[name]) for name in names}


def softmax(q: Array, k: Array, *, causal: bool) -> tuple[Array, Array]:
    """(log-sum-exp of rows, weights) in f64."""
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * SCALE
    if causal:
        later = ~np.tri(q.shape[-2], k.shape[-2], dtype=bool)
        scores = np.where(later, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    lse = np.log(np.exp(scores - top).sum(-1)) + top[..., 0]
    return lse, np.exp(scores - lse[..., None])


def gradients(inputs: Mapping[str, Array], *, causal: bool) -> dict[str, Array]:
    """dq, dk and dv in f64, from their definition, and the delta of rows that they take."""
    q, k, v, dy = (inputs[name].astype(np.float64) for name in ("q", "k", "v", "dy"))
    _, p = softmax(q, k, causal=causal)
    dp = dy @ v.swapaxes(-1, -2)
    delta = (dp * p).sum(-1)
    ds = p * (dp - delta[..., None]) * SCALE
    turned = ds.swapaxes(-1, -2)
    return {"dq": ds @ k, "dk": turned @ q, "dv": p.swapaxes(-1, -2) @ dy, "delta": delta}
