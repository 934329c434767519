"""Short rows that threads run through several at a time: whole vectors, no idle threads, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.region import Read, walk
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import For, Keep, StoreTile


def scaled(x: Any, a: Any, b: Any) -> Any:
    return (x.float() * a[:, None, None] + b[:, None, None]).half()


def group_norm(x: Any, a: Any, b: Any) -> Any:
    return F.silu(F.group_norm(x, 4, a, b))


def batch_norm(x: Any, a: Any, b: Any) -> Any:
    return F.batch_norm(x, None, None, a, b, training=True)


def normed_rows_of_groups(x: Any, a: Any, b: Any) -> Any:
    x = F.group_norm(x, 2, a, b)
    return x - x.mean(-1, keepdim=True)


N = lg.Dim("n", 1, 9, typical=4)
# name: the function, the shape of its images, its launches
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "scaled": (scaled, (N, 24, 7, 7), 1),
    "scaled rows of a vector and more": (scaled, (3, 24, 3, 3), 1),
    "group_norm": (group_norm, (N, 40, 16, 16), 1),
    "group_norm of odd planes": (group_norm, (2, 40, 7, 7), 1),
    "batch_norm": (batch_norm, (256, 128, 7, 7), 3),
}


def lowered(name: str) -> tuple[Any, LoweredModel]:
    function, shape, _ = CASES[name]
    dtype = lg.f32 if function is scaled else lg.f16
    graph = traced(
        function,
        x=lg.spec(*shape, dtype=lg.f16),
        a=lg.spec(shape[1], dtype=dtype),
        b=lg.spec(shape[1], dtype=dtype),
    )
    entry = graph
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CUDA)


def last(name: str) -> LoweredKernel:
    *_, kernel = lowered(name)[1].kernels
    return kernel


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(name)
    assert len(model.kernels) == CASES[name][2]
    for n in (1, 5) if graph.dims() else (0,):
        inputs: dict[str, np.ndarray] = {}
        for node in graph.inputs:
            shape = [int(e.evaluate({N: n})) for e in node.shape]
            values = rng.normal(1, 1, shape)
            inputs[tensor_of(node).name] = values.astype(node.dtype.numpy)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name} at n={n}")


@pytest.mark.parametrize("name", CASES)
def test_one_loop_stores_what_lies_in_a_row(name: str) -> None:
    statements = list(last(name).program.statements())
    (store,) = (s for s in statements if isinstance(s, StoreTile))
    assert store.lanes is not None
    rows = [s for s in statements if isinstance(s, For) and not s.lanes]
    assert not any(isinstance(s, For) and not s.lanes for r in rows for s in r.body)
    channels = CASES[name][1][1]
    plane = CASES[name][1][2] * CASES[name][1][3]
    assert store.lanes.extent.const in (channels * plane, channels // 4 * plane)


def test_a_group_is_read_once() -> None:
    keeps = [s for s in last("group_norm").program.statements() if isinstance(s, Keep)]
    reads = [e.source.name for s in keeps for e in walk([s.value]) if isinstance(e, Read)]
    assert reads.count("x") == 1


def test_statistics_of_rows_and_of_groups_are_merged_by_each_row(rng: np.random.Generator) -> None:
    inputs = {
        "x": rng.normal(1, 1, (3, 24, 11, 11)).astype(np.float16),
        "a": rng.normal(1, 1, 24).astype(np.float16),
        "b": rng.normal(1, 1, 24).astype(np.float16),
    }
    specs = {k: lg.spec(*v.shape, dtype=lg.f16) for k, v in inputs.items()}
    graph = traced(normed_rows_of_groups, **specs)
    model = assemble((("entry", graph),), CUDA)
    assert len(model.kernels) == 2
    (found,) = run_entry(model, inputs, {}).values()
    agree(found, evaluate(graph, inputs, {})["out"], "normed rows of groups")


@pytest.mark.parametrize("shape", [(4, 24, 8, 8), (4, 24, 14, 14)])
def test_rows_of_whole_vectors_and_long_ones_stay(shape: tuple[int, ...]) -> None:
    graph = traced(
        scaled, x=lg.spec(*shape, dtype=lg.f16), a=lg.spec(shape[1]), b=lg.spec(shape[1])
    )
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    (store,) = (s for s in kernel.program.statements() if isinstance(s, StoreTile))
    assert store.lanes is not None
    assert store.lanes.extent == shape[2] * shape[3]


def test_threads_that_share_no_rows_run_through_one_at_a_time() -> None:
    graph = traced(scaled, x=lg.spec(4, 24, 7, 7, dtype=lg.f16), a=lg.spec(24), b=lg.spec(24))
    (kernel,) = assemble((("entry", graph),), CPU).kernels
    (store,) = (s for s in kernel.program.statements() if isinstance(s, StoreTile))
    assert store.lanes is not None
    assert store.lanes.extent == 49
