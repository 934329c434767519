"""Programs whose tasks are blocks of threads: their meaning is the graph's, and each kernel has a text."""

from __future__ import annotations

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
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import CUDA
from lumigen.verify.tile import verify

ROWS = lg.Dim("rows", 1, 300, typical=40)


def attention(x: Any) -> Any:
    q = x.unflatten(-1, (4, -1)).transpose(0, 1)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "map": (lambda x: (x.exp() + 1).tanh(), {"x": lg.spec(ROWS, 64)}),
    "softmax": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 64)}),
    "long_softmax": (lambda x: x.softmax(-1), {"x": lg.spec(ROWS, 1500)}),
    "layer_norm": (lambda x: F.layer_norm(x, (64,)), {"x": lg.spec(ROWS, 64)}),
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
    "batched": (
        lambda x, y: x.transpose(1, 2) @ y,
        {"x": lg.spec(3, 20, ROWS), "y": lg.spec(3, 20, 17)},
    ),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(2, 3, 8, 9), "w": lg.spec(5, 3, 3, 3)},
    ),
}


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
    for name in ("product", "computed_operand", "batched", "attention"):
        assert any(k.program.skeleton == "pipeline" for k in lowered(name)[1].kernels), name
