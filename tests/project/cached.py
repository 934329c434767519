"""Attention over caches of keys and values: a model with states that CPUs and GPUs are tested with."""

from __future__ import annotations

import numpy as np

import lumigen as lg
from lumigen import nn

LENGTH, HEADS, GROUPS, WIDTH = 16, 4, 2, 8


def model(dtype: lg.DType = lg.f32) -> lg.Model:
    """`prefill` takes several positions, `decode` one."""
    keys = nn.State("cache.keys", (GROUPS, LENGTH, WIDTH), dtype)
    values = nn.State("cache.values", (GROUPS, LENGTH, WIDTH), dtype)
    length = lg.Dim("length", 1, 8, typical=4)
    made = lg.Model("cached")

    def attend(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, position: lg.Tensor) -> lg.Tensor:
        n = q.shape[1]
        keys[:, position : position + n] = k
        values[:, position : position + n] = v
        grouped = q.reshape(GROUPS, HEADS // GROUPS, n, WIDTH)
        scores = grouped @ keys.unsqueeze(1).transpose(-1, -2) * WIDTH**-0.5
        seen = lg.arange(LENGTH).unsqueeze(0) <= lg.arange(n).unsqueeze(1) + position
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return (weights @ values.unsqueeze(1)).reshape(HEADS, n, WIDTH)

    def inputs(n: int | lg.Dim) -> dict[str, object]:
        kv = lg.spec(GROUPS, n, WIDTH, dtype=dtype)
        position = lg.spec(dtype=lg.i64, range=(0, LENGTH - 1))
        return {"q": lg.spec(HEADS, n, WIDTH, dtype=dtype), "k": kv, "v": kv, "position": position}

    @made.entry(**inputs(length))
    def prefill(q, k, v, position):
        return attend(q, k, v, position)

    @made.entry(**inputs(1))
    def decode(q, k, v, position):
        return attend(q, k, v, position)

    return made


def random_qkv(dtype: lg.DType = lg.f32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = ((HEADS, LENGTH, WIDTH), (GROUPS, LENGTH, WIDTH), (GROUPS, LENGTH, WIDTH))
    q, k, v = (rng.standard_normal(s).astype(dtype.numpy) for s in shapes)
    return q, k, v


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention over all positions at once, in float64."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, HEADS // GROUPS, 0) for a in (k, v))
    scores = q @ k.transpose(0, 2, 1) * WIDTH**-0.5
    scores = np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def part(arrays: tuple[np.ndarray, ...], start: int, stop: int) -> list[np.ndarray]:
    return [np.ascontiguousarray(a[:, start:stop]) for a in arrays]


def feed(context, arrays: tuple[np.ndarray, ...], steps: list[tuple[int, int]]) -> np.ndarray:
    out = []
    for start, stop in steps:
        entry = context.decode if stop == start + 1 else context.prefill
        out.append(entry(*part(arrays, start, stop), np.array(start)))
    return np.concatenate(out, 1)


def one_by_one(start: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(start, LENGTH)]
