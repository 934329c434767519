"""Nests of loops that any model may have, from naive ops: how many launches each is, and what its kernels compute.

Softmax is exponentials and a division here, operands are exchanged, heads lie last: no fusion has a name. What stores
its scores, or reads its rows once more, has another number of launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from small_programs import Library, SmallProgram, agree, on_demand
from tiles import run_entry

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.dtype import bf16, f32
from lumigen.frontend import Traced
from lumigen.index import Dim
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import lower_model
from lumigen.target import HOST, parse_target

N = Dim("n", 1, 2048, typical=512)
M = Dim("m", 1, 2048, typical=512)
POINTS = ({"n": 1, "m": 1}, {"n": 5, "m": 33}, {"n": 37, "m": 70})
WIDE, WORDS = 64, 1100
SCALE = 0.125


@dataclass(frozen=True)
class Nest:
    """What a region of a model computes, of inputs of some shapes; launches for a CPU in f32 and a GPU in bf16."""

    function: Any
    shapes: Mapping[str, tuple[Any, ...]]
    launches: tuple[int, int]


def softmax(x: Any, axis: int = -1) -> Any:
    weights = (x - x.amax(axis, keepdim=True)).exp()
    return weights / weights.sum(axis, keepdim=True)


def attend(scored: Any) -> Any:
    """Attention whose scores are made of those of a product."""

    def function(q: Any, k: Any, v: Any, **others: Any) -> Any:
        return softmax(scored(q @ k.mT * SCALE, **others)) @ v

    return function


def distance() -> Any:
    """Of each key from each query."""
    at = lg.arange(N)
    return at[:, None] - at[None, :]


def with_sink(q: Any, k: Any, v: Any, sink: Any) -> Any:
    scores = lg.cat([q @ k.mT * SCALE, sink[:, None, None].expand(2, N, 1)], -1)
    return softmax(scores)[..., :-1] @ v


def of_groups(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k[:, None].mT * SCALE) @ v[:, None]


def of_one_product(x: Any, w: Any) -> Any:
    """Queries, keys and values of two heads, which are parts of what one product gives, in f32."""
    q, k, v = (x @ w).reshape(N, 3, 2, WIDE).permute(1, 2, 0, 3).float().unbind(0)
    return (softmax(q @ k.mT * (SCALE / 16)) @ v).to(x.dtype)  # of large numbers


def with_heads_last(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    return (softmax(q @ k.mT * SCALE) @ v).transpose(0, 1)


def and_its_sums(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT * SCALE
    return {"o": softmax(scores) @ v, "lse": scores.logsumexp(-1)}


def in_steps(q: Any, k: Any, v: Any) -> Any:
    """Rows as products of integers take them: each 32 numbers as parts of the greatest."""
    o = with_heads_last(q, k, v).reshape(-1, 4, 32)
    greatest = o.abs().amax(-1, keepdim=True)
    return {"parts": o / greatest, "greatest": greatest}


def losses(x: Any, words: Any, t: Any) -> Any:
    scores = x @ words.mT
    return scores.logsumexp(-1) - scores.gather(-1, t[:, None])[:, 0]


def most_and_sum(x: Any, words: Any) -> Any:
    scores = x @ words.mT
    return {"most": scores.amax(-1), "sum": scores.sum(-1)}


def rms_norm(x: Any) -> Any:
    return x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt() * weight(x, "norm", WIDE)


def weight(x: Any, name: str, *shape: int) -> Any:
    return nn.Parameter(*shape, name=name, dtype=x.dtype)


def linear(x: Any, name: str, outputs: int = WIDE) -> Any:
    return x @ weight(x, name, outputs, x.shape[-1]).mT


def gradients(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any) -> tuple[Any, Any]:
    """(weights, gradients of scores) of an attention, of what its forward pass stored."""
    weights = (q @ k.mT * SCALE - lse[..., None]).exp().to(q.dtype)
    return weights, (weights * (do @ v.mT - delta[..., None]) * SCALE).to(q.dtype)


def of_queries(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any) -> Any:
    return gradients(q, k, v, do, lse, delta)[1] @ k


def of_keys_and_values(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any) -> Any:
    weights, scores = gradients(q, k, v, do, lse, delta)
    return {"dk": scores.mT @ q, "dv": weights.mT @ do}


def convolved(x: Any) -> Any:
    return F.conv2d(x, weight(x, "w", 16, 16, 3, 3), weight(x, "b", 16), padding=1)


def statistics(x: Any) -> Any:
    mean = x.mean(0)
    return {"mean": mean, "variance": ((x - mean) * (x - mean)).mean(0)}


def gated(x: Any) -> Any:
    return F.silu(linear(x, "gate", 128)) * linear(x, "up", 128)


Q, K = (2, N, WIDE), (2, M, WIDE)
QKV = {"q": Q, "k": K, "v": K}
SELF = {"q": Q, "k": Q, "v": Q}
BACKWARD = {**QKV, "do": Q, "lse": (2, N), "delta": (2, N)}
ROWS = {"x": (N, WIDE)}
IMAGE = {"x": (2, 16, 14, 14)}

NESTS: Mapping[str, Nest] = {
    "attention": Nest(attend(lambda s: s), QKV, (1, 1)),
    "attention, operands exchanged": Nest(
        lambda q, k, v: (v.mT @ softmax(k @ q.mT * SCALE, -2)).mT, QKV, (1, 1)
    ),
    "attention, heads last": Nest(
        with_heads_last, {"q": (N, 2, WIDE), "k": (M, 2, WIDE), "v": (M, 2, WIDE)}, (1, 1)
    ),
    "attention, masked": Nest(
        attend(lambda s, mask: lg.where(mask > 0, s, -1e9)), {**QKV, "mask": (M,)}, (1, 1)
    ),
    "attention, causal": Nest(attend(lambda s: lg.where(distance() >= 0, s, -1e9)), SELF, (1, 1)),
    "attention of a window": Nest(
        attend(lambda s: lg.where((distance() >= 0) & (distance() < 9), s, -1e9)), SELF, (1, 1)
    ),
    "attention, biased by distance": Nest(
        attend(lambda s, slope: s - distance().abs().to(s.dtype) * slope[:, None, None]),
        {**SELF, "slope": (2,)},
        (1, 1),
    ),
    "attention, capped": Nest(attend(lambda s: (s / 30).tanh() * 30), QKV, (1, 1)),
    "attention with a sink": Nest(with_sink, {**SELF, "sink": (2,)}, (1, 1)),
    "attention of groups": Nest(of_groups, {**QKV, "q": (2, 3, N, WIDE)}, (1, 1)),
    "attention of one row": Nest(attend(lambda s: s), {**QKV, "q": (2, 1, WIDE)}, (2, 2)),
    "attention of one product": Nest(of_one_product, {"x": (N, 320), "w": (320, 6 * WIDE)}, (2, 2)),
    "attention and its sums": Nest(and_its_sums, QKV, (1, 1)),
    "attention in steps": Nest(
        in_steps, {"q": (N, 2, WIDE), "k": (M, 2, WIDE), "v": (M, 2, WIDE)}, (3, 3)
    ),
    "gradient of queries": Nest(of_queries, BACKWARD, (1, 1)),
    "gradients of keys and values": Nest(of_keys_and_values, BACKWARD, (1, 1)),
    "sums of a product": Nest(
        lambda q, k: (q @ k.mT).logsumexp(-1), {"q": (N, WIDE), "k": (M, WIDE)}, (1, 1)
    ),
    "losses of a product": Nest(losses, {**ROWS, "words": (WORDS, WIDE), "t": (N,)}, (1, 2)),
    "greatest and sum of a product": Nest(most_and_sum, {**ROWS, "words": (WORDS, WIDE)}, (1, 2)),
    "place of the greatest of a product": Nest(
        lambda x, words: (x @ words.mT).argmax(-1), {**ROWS, "words": (WORDS, WIDE)}, (1, 2)
    ),
    "three products of the same rows": Nest(
        lambda x: {n: linear(x, n, 32 if n == "q" else 16) for n in "qkv"}, ROWS, (1, 1)
    ),
    "gate and up": Nest(gated, ROWS, (1, 2)),
    "norm of rows, then a product": Nest(lambda x: linear(rms_norm(x), "w"), ROWS, (1, 2)),
    "norm with a mean, then a product": Nest(
        lambda x: linear(F.layer_norm(x, (WIDE,), weight(x, "a", WIDE), weight(x, "b", WIDE)), "w"),
        ROWS,
        (1, 2),
    ),
    "product of gathered rows": Nest(
        lambda x, t: linear(x[t], "w"), {"x": (50, WIDE), "t": (N,)}, (1, 1)
    ),
    "product of masked rows": Nest(
        lambda x, t: linear(x * (t == 3)[:, None].to(x.dtype), "w"), {**ROWS, "t": (N,)}, (1, 1)
    ),
    "product of one-hot rows": Nest(
        lambda x, t: (t[:, None] == lg.arange(50)[None, :]).to(x.dtype) @ x,
        {"x": (50, WIDE), "t": (N,)},
        (1, 1),
    ),
    "convolution and what follows": Nest(
        lambda x, r: F.relu(convolved(x) + r), {**IMAGE, "r": (2, 16, 14, 14)}, (1, 2)
    ),
    "convolution and a pool": Nest(lambda x: F.max_pool2d(F.relu(convolved(x)), 2), IMAGE, (2, 3)),
    "windows of each channel": Nest(
        lambda x, r: F.relu(F.conv2d(x, weight(x, "w", 16, 1, 3, 3), padding=1, groups=16) + r),
        {**IMAGE, "r": (2, 16, 14, 14)},
        (1, 1),
    ),
    "deep product of few rows": Nest(lambda x: linear(x, "w", 16), {"x": (4, 5000)}, (1, 1)),
    "softmax of long rows": Nest(softmax, {"x": (2, 70000)}, (1, 2)),
    "statistics of a batch": Nest(statistics, {"x": (5000, 24)}, (2, 2)),
    "scan of a long row": Nest(lambda x: x.cumsum(-1), {"x": (1, 40000)}, (1, 3)),
    "small feed forward": Nest(
        lambda x: linear(F.gelu(linear(x, "up", 128)), "down"), ROWS, (1, 1)
    ),
    "small feed forward with a gate": Nest(lambda x: linear(gated(x), "down"), ROWS, (2, 1)),
    "maps of the same": Nest(
        lambda x, y: {"a": (x + y).exp(), "b": (x + y).sin() * 2, "c": (x * y).tanh()},
        {"x": (N, WIDE), "y": (N, WIDE)},
        (1, 1),
    ),
}


PLACES = ("cpu", "cuda:sm_80")


def program(name: str, dtype: lg.DType) -> SmallProgram:
    nest = NESTS[name]
    kinds = {
        n: lg.i64 if n == "t" else f32 if n in ("lse", "delta") else dtype for n in nest.shapes
    }
    inputs = tuple((n, lg.spec(*shape, dtype=kinds[n])) for n, shape in nest.shapes.items())
    points = POINTS if {N, M} & {d for shape in nest.shapes.values() for d in shape} else ({},)
    return SmallProgram(name, nest.function, inputs, points, fill)


def fill(rng: np.random.Generator, shape: tuple[int, ...], dtype: lg.DType) -> np.ndarray[Any, Any]:
    """Rows that exist; ordinary floats."""
    if dtype.is_int:
        return rng.integers(0, 50, shape).astype(dtype.numpy)
    return (rng.normal(size=shape) / 2).astype(dtype.numpy)


def lowered(name: str, place: str) -> tuple[SmallProgram, LoweredModel]:
    """A nest for a CPU in f32, or for a GPU in bf16."""
    target, dtype = (HOST, f32) if place == "cpu" else (parse_target(place), bf16)
    one = program(name, dtype)
    made = Traced("nest", "0", (("nest", one.graph),), ())
    return one, lower_model(made, {}, target=target, dtype=f32).lowered


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NESTS)
def test_launches(name: str, place: str) -> None:
    _, model = lowered(name, place)
    assert len(model.programs[0].launches) == NESTS[name].launches[PLACES.index(place)]


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Callable[[str], Library]:
    return on_demand([program(name, f32) for name in NESTS], 5, request)


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTS)
def test_kernels_of_a_cpu(name: str, library: Callable[[str], Library]) -> None:
    library(name).check(program(name, f32))


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTS)
def test_blocks_of_a_gpu(name: str) -> None:
    """In the interpreter of tiles; `tests/gpu` runs nests of these kinds."""
    one, model = lowered(name, "cuda:sm_80")
    for point in one.points:
        inputs, weights = one.arrays(point)
        wanted = evaluate(one.graph, inputs, weights)
        for out, value in run_entry(model, inputs, weights).items():
            agree(value, wanted[out], f"{name}: {out} at {dict(point)}")
