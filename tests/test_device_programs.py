"""Programs whose tasks are blocks of threads: their meaning is the graph's, and each kernel has a text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.emit.kernel import device_kernel_body
from lumigen.graph import tensor_of
from lumigen.index import ix
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import CPU, CUDA
from lumigen.lower.pipeline import multiplied_in
from lumigen.ops import Op
from lumigen.region import Buffer, Expr, Prim, Role, read, walk
from lumigen.verify.tile import verify

ROWS = lg.Dim("rows", 1, 300, typical=40)


def attention(x: Any) -> Any:
    q = x.unflatten(-1, (4, -1)).transpose(0, 1)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def residual(x: Any, r: Any) -> Any:
    total = x + r
    return {"y": F.rms_norm(total, (x.shape[-1],)), "total": total}


def maps_in_one(x: Any) -> Any:
    y = x.exp() + 1
    return {"y": y, "z": y * 2, "turned": y.transpose(1, 2) - 1}


MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "map": (lambda x: (x.exp() + 1).tanh(), {"x": lg.spec(ROWS, 64)}),
    "softmax": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 64)}),
    "long_softmax": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 1500)}),
    "layer_norm": (lambda x: F.layer_norm(x, (64,)), {"x": lg.spec(ROWS, 64)}),
    "residual": (residual, {"x": lg.spec(ROWS, 64), "r": lg.spec(ROWS, 64)}),
    "long_residual": (
        residual,
        {"x": lg.spec(ROWS, 1500, dtype=lg.bf16), "r": lg.spec(ROWS, 1500, dtype=lg.bf16)},
    ),
    "maps_in_one": (maps_in_one, {"x": lg.spec(ROWS, 3, 20)}),
    "edges": (lambda x: F.pad(x, (3, 5)).softmax(-1), {"x": lg.spec(ROWS, 60)}),
    "shared": (lambda x: F.gelu(x) * F.gelu(x).amax(-1, keepdim=True), {"x": lg.spec(ROWS, 60)}),
    "column_sum": (lambda x: x.sum(0), {"x": lg.spec(ROWS, 70)}),
    "row_sum": (lambda x: x.sum(-1), {"x": lg.spec(ROWS, 70)}),
    "all": (lambda x: x.sum(), {"x": lg.spec(ROWS, 70)}),
    "is_greatest": (lambda x: x == x.amax(-1, keepdim=True), {"x": lg.spec(ROWS, 9)}),
    "integers": (lambda x: (x * 3 + 1).sum(-1) % 5, {"x": lg.spec(ROWS, 9, dtype=lg.i32)}),
    "attention": (attention, {"x": lg.spec(ROWS, 64)}),
    "product": (lambda x, y: F.gelu(x @ y), {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65)}),
    "computed_operand": (
        lambda x, y: (x * 2 + 1).relu() @ y,
        {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65)},
    ),
    "by_row_sums": (
        lambda x, y, z: (x @ y) / (z.square().sum(1, keepdim=True) + 1),
        {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65), "z": lg.spec(ROWS, 7)},
    ),
    "by_counts": (
        lambda x, y, z: (x @ y) * (z % 3).sum(0),
        {"x": lg.spec(ROWS, 33), "y": lg.spec(33, 65), "z": lg.spec(7, 65, dtype=lg.i32)},
    ),
    "batched": (
        lambda x, y: x.transpose(1, 2) @ y,
        {"x": lg.spec(3, 20, ROWS), "y": lg.spec(3, 20, 17)},
    ),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(2, 3, 8, 9), "w": lg.spec(5, 3, 3, 3)},
    ),
}


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


def with_sink(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT * 0.25
    largest = scores.amax(-1, keepdim=True).maximum(0.0)
    weights = (scores - largest).exp()
    return (weights @ v) / (weights.sum(-1, keepdim=True) + (-largest).exp())


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
    "relu": (lambda q, k, v: (q @ k.mT * 0.05).relu() @ v, 2, 2, 16, {}),
    "sink": (with_sink, 2, 2, 16, {}),
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
    "log_sum_exp": (with_log_sum_exp, 1, 1, 16, {}),
    "heads_last": (heads_last, 4, 2, 16, {}),
    "states_of_softmax": (states_of_softmax, 2, 2, 16, {}),
}
APART = {
    "relu in f16": "nothing bounds the weights, which f16 may not hold",
}


def folded(name: str, dtype: Any) -> tuple[Any, LoweredModel, LoweredModel]:
    function, heads, kept, features, more = FOLDED[name]
    keys = KEYS if name in ("other_keys", "few_of_many_heads") else POSITIONS
    queries = FEW if name == "few_of_many_heads" else POSITIONS
    inputs = {
        "q": lg.spec(1, heads, queries, features, dtype=dtype),
        "k": lg.spec(1, kept, keys, features, dtype=dtype),
        "v": lg.spec(1, kept, keys, features, dtype=dtype),
        **{n: lg.spec(*shape, dtype=dtype) for n, shape in more.items()},
    }
    graph = traced(function, **inputs)
    entry = graph
    for step in GRAPH_PASSES:
        entry = step(entry)
    entries = (("entry", entry),)
    return graph, assemble(entries, CUDA), assemble(entries, CPU)


SLOW = {"few_of_many_heads", "gqa", "heads_last", "sink"}  # to interpret


@pytest.mark.parametrize(
    "dtype", [lg.f32, pytest.param(lg.f16, marks=pytest.mark.slow), lg.bf16], ids=str
)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in FOLDED]
)
def test_folds_around_a_contraction(name: str, dtype: Any, rng: np.random.Generator) -> None:
    graph, model, on_cpu = folded(name, dtype)
    apart = dtype is lg.f32 or name in APART or f"{name} in {dtype}" in APART
    skeletons = [k.program.skeleton for k in model.kernels]
    before = ["simt"] * (name == "values_turned")  # each value is made once, for all queries
    assert apart or skeletons == [*before, "cascade"]
    assert len(on_cpu.kernels) == len(before) + 1
    assert not (apart and "cascade" in skeletons)
    for kernel in model.kernels:
        verify(kernel.program, name)
    for count in (1, 33) if apart else (1, 2, 63, 65, 130):
        inputs = {}
        for n in graph.inputs:
            shape = [
                int(e.evaluate({POSITIONS: count, KEYS: count + 7, FEW: count})) for e in n.shape
            ]
            inputs[tensor_of(n).name] = rng.standard_normal(shape).astype(n.dtype.numpy)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name} at {count} positions")


def lowered(name: str) -> tuple[Any, LoweredModel]:
    function, inputs = MODELS[name]
    graph = traced(function, **inputs)
    entry = graph
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CUDA)


@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_threads_compute_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(name)
    for rows in (1, 37, 131):
        inputs = {}
        for n in graph.inputs:
            shape = [int(e.evaluate({ROWS: rows})) for e in n.shape]
            values = rng.standard_normal(shape) * (100 if n.dtype.is_int else 1)
            inputs[tensor_of(n).name] = values.astype(n.dtype.numpy)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name} at {rows} rows")


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_keeps_the_rules_and_has_a_text(name: str) -> None:
    for kernel in lowered(name)[1].kernels:
        verify(kernel.program, name)
        text = device_kernel_body(kernel.name, kernel.program, kernel.parameters, "model.py:1")
        assert "__global__ void __launch_bounds__" in text


def test_products_run_in_tiles() -> None:
    for name in ("product", "computed_operand", "by_row_sums", "by_counts", "batched", "attention"):
        assert any(k.program.skeleton == "pipeline" for k in lowered(name)[1].kernels), name


def test_operands_of_f32_products_keep_their_digits_and_range() -> None:
    def held(role: Role, dtype: lg.DType) -> Expr:
        return read(Buffer("m", role, (ix(8), ix(8)), dtype), (ix(0), ix(0)))

    product = multiplied_in(held(Role.TEMP, lg.bf16), held(Role.TEMP, lg.bf16))
    assert product is lg.bf16
    assert multiplied_in(held(Role.TEMP, lg.f16), held(Role.TEMP, lg.bf16)) is lg.f32
    assert multiplied_in(held(Role.TEMP, lg.bf16), held(Role.WEIGHT, lg.f32)) is lg.f32
    assert multiplied_in(held(Role.STATE, lg.f32), held(Role.WEIGHT, lg.bf16)) is lg.bf16


def test_no_tile_is_twice_as_long_as_a_product() -> None:
    for m, n in ((64, 100000), (32, 100000), (100000, 40)):
        graph = traced(lambda x, y: x @ y, x=lg.spec(m, 64), y=lg.spec(64, n))
        (kernel,) = assemble((("entry", graph),), CUDA).kernels
        rows, columns, *_ = map(int, re.findall(r"\d+", kernel.program.tile))
        assert rows < 2 * m, kernel.program.tile
        assert columns < 2 * n or columns == 64, kernel.program.tile


@pytest.mark.parametrize(("width", "kernels"), [(64, 1), (2048, 2)])
def test_sums_that_are_seen_at_several_places_are_stored_where_they_are_long(
    width: int, kernels: int
) -> None:
    """Each half of the rotated row needs both halves of what the weights make of one row."""

    def rotated(x: Any, w: Any) -> Any:
        first, second = (w @ x).chunk(2)
        return lg.cat([first - second * 2, second + first * 3])

    graph = traced(rotated, x=lg.spec(width), w=lg.spec(width, width))
    for step in GRAPH_PASSES:
        graph = step(graph)
    for device in (CPU, CUDA):
        assert len(assemble((("entry", graph),), device).kernels) == kernels


@pytest.mark.parametrize(("heads", "regions"), [(32, 1), (2, 2)])
def test_a_transcendental_that_regions_read_like_a_table_is_stored(
    heads: int, regions: int
) -> None:
    """Once, where they have many more elements than it has; in f32, whatever memory holds else."""

    def turned(q: Any, angles: Any) -> Any:
        turns = angles.sin()
        return {"y": q * turns, "z": q.amax(0) - (q + turns).amax(1)}

    graph = traced(turned, q=lg.spec(heads, heads, 16), angles=lg.spec(16))
    for step in GRAPH_PASSES:
        graph = step(graph)
    for device in (CPU, CUDA):
        model = assemble((("entry", graph),), device, dtype=lg.bf16)
        stores = [s for k in model.kernels for s in k.region.stores]
        turning = [
            s
            for s in stores
            if any(isinstance(e, Prim) and e.op is Op.SIN for e in walk([s.value]))
        ]
        assert len(turning) == regions
        assert [s.dst.dtype for s in turning if len(s.axes) == 1] == [lg.f32] * (2 - regions)


def test_a_softmax_between_products_that_are_stored_is_one_kernel() -> None:
    """No skeleton of f32 keeps the scores on the GPU's chip: they are stored, and nothing else twice."""
    specs = [lg.spec(2, 4, 256, 64)] * 3
    graph = traced(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        **dict(zip("qkv", specs, strict=True)),
    )
    for step in GRAPH_PASSES:
        graph = step(graph)
    kernels = assemble((("entry", graph),), CUDA).kernels
    assert [k.program.skeleton for k in kernels] == ["pipeline", "simt", "pipeline"]
