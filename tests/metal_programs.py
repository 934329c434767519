"""metal_programs: small programs of every kind of kernel that the Metal target has, as entries of one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from random_programs import drawn

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.frontend import Traced

ROWS = lg.Dim("rows", 1, 20, typical=7)
MANY = lg.Dim("many", 1, 300, typical=64)


def spec(*shape: Any, dtype: lg.DType = lg.f32) -> Any:
    return lg.spec(*shape, dtype=dtype)


def ids(most: int, *shape: Any) -> Any:
    return lg.spec(*shape, dtype=lg.i64, range=(0, most))


def weight(name: str, *shape: int, dtype: lg.DType = lg.f32) -> nn.Parameter:
    return nn.Parameter(*shape, name=name, dtype=dtype)


def norm_and_sums(x: Any) -> dict[str, Any]:
    normed = F.layer_norm(x, (40,), weight("norm_weight", 40), weight("norm_bias", 40))
    return {"normed": normed, "columns": x.square().sum(0), "most": x.amax(-1)}


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def row_states(x: Any, w: Any) -> Any:
    """A fold of scores that nobody stores."""
    return (x @ w.T).logsumexp(-1)


def gated(x: Any) -> Any:
    gate, up = (weight(n, 24, 40, dtype=lg.f16) for n in ("gate", "up"))
    return F.silu(x @ gate) * (x @ up)


def integers(x: Any, y: Any) -> dict[str, Any]:
    return {"mod": x % 7, "wrapped": x * y + x, "sum": (x * y).sum(-1), "most": y.amax()}


def numbers(x: Any) -> dict[str, Any]:
    near = x.clip(-3, 3)
    return {
        "power": (near.abs() + 0.5) ** near,
        "wave": near.sin() * near.cos(),
        "floor": (x * 2.5).floor(),
    }


def ordered(x: Any) -> dict[str, Any]:
    return {"sorted": x.sort(-1)[0], "places": x.topk(3)[1]}


def random(seed: Any) -> dict[str, Any]:
    generator = lg.Generator(seed)
    return {
        "floats": lg.rand(30, generator=generator),
        "bits": lg.randint(0, 99, (9,), generator=generator),
    }


def scattered(x: Any, at: Any) -> Any:
    return lg.zeros(20, 8).index_add(0, at, x)


def recurrent(x: Any) -> Any:
    return lg.scan(lambda h, e: (h * 0.9 + e, h), x[0], x)[1]


def loss(x: Any, y: Any) -> Any:
    """A fold of scores and of the one at the label, each in a tile of its own."""
    return F.cross_entropy(x @ weight("loss_weight", 130, 24).T, y, reduction="none")


def convolution(x: Any) -> Any:
    weights, bias = weight("conv_weight", 8, 4, 3, 3), weight("conv_bias", 8)
    return F.max_pool2d(F.conv2d(x, weights, bias, padding=1).relu(), 2)


def linear_gelu(x: Any) -> Any:
    return F.gelu(F.linear(x, weight("linear_weight", 72, 24), weight("linear_bias", 72)))


def chosen(x: Any) -> dict[str, Any]:
    """And steps between rows, of which one row has none."""
    values = lg.where(x > 0.5, x.exp(), lg.where(x < -0.5, (-x).log(), x * x))
    return {"steps": x[1:] - x[:-1], "values": values}


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "maps": (chosen, {"x": spec(ROWS, 300)}),
    "norms": (norm_and_sums, {"x": spec(ROWS, 40)}),
    "long_rows": (lambda x: x.softmax(-1), {"x": spec(ROWS, 700)}),
    "long_sum": (lambda x: x.sum(), {"x": spec(40000)}),
    "gather": (lambda x, at: x[at] * 2, {"x": spec(50, 8), "at": ids(49, ROWS)}),
    "scatter": (scattered, {"x": spec(MANY, 8), "at": ids(19, MANY)}),
    "cumsum": (lambda x: x.cumsum(1), {"x": spec(ROWS, 120)}),
    "long_scan": (lambda x: x.cumsum(0), {"x": spec(33000)}),
    "random": (random, {"seed": lg.spec(dtype=lg.i64)}),
    "recurrent": (recurrent, {"x": spec(ROWS, 12)}),
    "ordered": (ordered, {"x": spec(ROWS, 40)}),
    "integers": (integers, {n: spec(ROWS, 24, dtype=lg.i64) for n in "xy"}),
    "numbers": (numbers, {"x": spec(ROWS, 24)}),
    "linear": (linear_gelu, {"x": spec(ROWS, 24)}),
    "deep": (lambda x: (x @ weight("deep_weight", 1024, 40)).relu(), {"x": spec(ROWS, 1024)}),
    "one_row": (lambda x: x @ weight("row_weight", 24, 40), {"x": spec(1, 24)}),
    "product_bf16": (
        lambda x, w: (x @ w.T).relu(),
        {n: spec(ROWS, 64, dtype=lg.bf16) for n in "xw"},
    ),
    "gated": (gated, {"x": spec(ROWS, 24, dtype=lg.f16)}),
    "attention": (attention, {n: spec(1, 2, ROWS, 16) for n in "qkv"}),
    "attention_bf16": (attention, {n: spec(1, 2, MANY, 16, dtype=lg.bf16) for n in "qkv"}),
    "row_states": (row_states, {"x": spec(ROWS, 24), "w": spec(300, 24)}),
    "loss": (loss, {"x": spec(ROWS, 24), "y": ids(129, ROWS)}),
    "convolution": (convolution, {"x": spec(1, 4, 12, 12)}),
}


RANDOM = 8


def programs() -> Traced:
    """One model of all of them, and of random programs."""
    model = lg.Model("programs")
    for name, (function, inputs) in PROGRAMS.items():

        def entry(function: Callable[..., Any] = function, **given: Any) -> Any:
            return function(**given)

        entry.__name__ = name
        model.entry(**inputs)(entry)
    traced = model.trace()
    random = [p.program(f"random{i}").graph for i, p in enumerate(drawn(2 * RANDOM, seed=3))]
    held = [g for g in random if all(n.dtype is not lg.f64 for n in g.nodes())][:RANDOM]
    entries = tuple((f"random{i}", g) for i, g in enumerate(held))
    return replace(traced, entries=(*traced.entries, *entries))
