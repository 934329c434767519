"""One token that attends over a cache of keys and values, written from plain ops, in ways that have one fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lumigen as lg
from lumigen import nn

KEPT, LENGTH, WIDTH = 2, 1000, 24  # heads of keys; the last part and the last step are ragged
Attends = Callable[[Any, Any, Any, Any], Any]


def every_key(q: Any, keys: Any, values: Any, pos: Any) -> Any:
    return masked(q, keys, values, lg.arange(LENGTH) <= pos)


def masked(q: Any, keys: Any, values: Any, seen: Any) -> Any:
    scores = (q @ keys.mT).float() / 5
    return scores.masked_fill(~seen, -np.inf).softmax(-1).to(values.dtype) @ values


def window(q: Any, keys: Any, values: Any, pos: Any) -> Any:
    behind = pos - lg.arange(LENGTH)
    return masked(q, keys, values, (behind >= 0) & (behind < 270))


def slopes_and_cap(q: Any, keys: Any, values: Any, pos: Any) -> Any:
    """A bias by distance, and scores that stay below a cap."""
    behind = pos - lg.arange(LENGTH)
    scores = ((q @ keys.mT).float() / 9).tanh() * 3 - behind.float() * 0.01
    return scores.masked_fill(behind < 0, -np.inf).softmax(-1).to(values.dtype) @ values


def no_maximum(q: Any, keys: Any, values: Any, pos: Any) -> Any:
    weights = ((q @ keys.mT).float() * 0.05).relu()
    return weights.masked_fill(lg.arange(LENGTH) > pos, 0.0).to(values.dtype) @ values


def commuted(q: Any, keys: Any, values: Any, pos: Any) -> Any:
    scores = (keys @ q.mT).float() / 5
    unseen = (lg.arange(LENGTH) > pos).unsqueeze(-1)
    return values.mT @ scores.masked_fill(unseen, -np.inf).softmax(-2).to(values.dtype)


def wider_query(q: Any, keys: Any, values: Any, pos: Any) -> Any:
    return every_key(q.float(), keys.float(), values.float(), pos)


ATTENDS: dict[str, tuple[Attends, int]] = {  # and heads of queries that share keys
    "one_head": (every_key, 1),
    "group": (every_key, 4),
    "window": (window, 4),
    "slopes_and_cap": (slopes_and_cap, 4),
    "no_maximum": (no_maximum, 4),
    "commuted": (commuted, 4),
    "wider_query": (wider_query, 3),
}


def token(attends: Attends, dtype: lg.DType) -> Callable[..., Any]:
    """One query for each head, whose group has keys in a cache; its own is written first."""

    def entry(q: Any, k: Any, v: Any, pos: Any) -> Any:
        keys, values = (nn.State(n, (KEPT, LENGTH, WIDTH), dtype) for n in ("keys", "values"))
        keys[:, pos : pos + 1] = k
        values[:, pos : pos + 1] = v
        return attends(q, keys, values, pos)

    return entry


def specs_of_token(group: int, dtype: lg.DType) -> dict[str, Any]:
    row = lg.spec(KEPT, 1, WIDTH, dtype=dtype)
    q = lg.spec(KEPT, group, WIDTH, dtype=dtype)
    return {"q": q, "k": row, "v": row, "pos": lg.spec(dtype=lg.i64, range=(0, LENGTH - 1))}
