"""Values that loops would compute again and again are stored once; parts of a concatenation have loops of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.errors import VerifyFailed
from lumigen.graph import Graph, tensor_of
from lumigen.index import Dim
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.plan import KernelPlan, Loop
from lumigen.program import InputArg
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import For, StoreTile
from lumigen.verify.plan import verify_kernel

BATCH = Dim("batch", 1, 16, typical=8)
ROWS = Dim("rows", 1, 4096, typical=2048)
SCORES = {"x": lg.spec(BATCH, 8, 128, 128)}
HEADS = {n: lg.spec(BATCH, 8, 128, 32) for n in "qkv"}


def places(n: int) -> tuple[Any, Any]:
    return lg.arange(n)[:, None], lg.arange(n)[None]


def distance(n: int) -> Any:
    i, j = places(n)
    return (i - j).abs().to(lg.f32)


def blocks(n: int) -> Any:
    i, j = places(n)
    return (i // 16 == j // 16) | (j % 8 == 0)


def attention(bias: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda q, k, v: bias(q @ k.mT).softmax(-1) @ v


def causal(s: Any) -> Any:
    i, j = places(128)
    return lg.where(j <= i, s, float("-inf"))


def frequencies(x: Any, count: int) -> Any:
    waves = [f(x * 2.0**k) for k in range(count) for f in (lg.sin, lg.cos)]
    return lg.cat([x, *waves], -1)


def rotated(x: Any) -> Any:
    angle = distance(128)[:, :16] * 0.1
    a, b = x.chunk(2, -1)
    c, s = angle.cos(), angle.sin()
    return lg.cat([a * c - b * s, b * c + a * s], -1)


@dataclass(frozen=True)
class Case:
    """A function, what it takes, and launches of it: one more for each value that is stored."""

    function: Callable[..., Any]
    inputs: dict[str, Any]
    launches: int


CASES: dict[str, Case] = {
    "a bias of distances": Case(lambda x: x - (distance(128) + 1).log(), SCORES, 2),
    "a bias, then a softmax": Case(lambda x: (x - distance(128).sqrt()).softmax(-1), SCORES, 2),
    "slopes of heads times distances": Case(
        lambda x: x - distance(128) * lg.exp2(-lg.arange(8).to(lg.f32))[:, None, None], SCORES, 2
    ),
    "blocks": Case(lambda x: lg.where(blocks(128), x, -1e9), SCORES, 2),
    "a bias in an attention": Case(attention(lambda s: s - (distance(128) + 1).log()), HEADS, 2),
    "a causal attention": Case(attention(causal), HEADS, 1),
    "tables of angles": Case(rotated, {"x": lg.spec(BATCH, 8, 128, 32)}, 3),
    "a part that is the same in many rows": Case(
        lambda x, t: lg.cat([x, t.sin().expand(x.shape[0], 128, 64)], -1),
        {"x": lg.spec(BATCH, 128, 64), "t": lg.spec(BATCH, 1, 64)},
        2,
    ),
    "a gate of columns": Case(
        lambda x, g: x * g.sigmoid(), {"x": lg.spec(ROWS, 256), "g": lg.spec(256)}, 2
    ),
    "a gate of rows": Case(
        lambda x, g: x * g.sigmoid(), {"x": lg.spec(ROWS, 256), "g": lg.spec(ROWS, 1)}, 1
    ),
    "a sum of columns": Case(lambda x, y: (x + y).tanh(), {n: lg.spec(ROWS, 256) for n in "xy"}, 1),
    "a norm": Case(lambda x: F.layer_norm(x, (256,)), {"x": lg.spec(ROWS, 256)}, 1),
    "narrow pieces": Case(lambda x: frequencies(x, 4), {"x": lg.spec(ROWS, 3)}, 1),
    "wide pieces": Case(lambda x: frequencies(x, 6), {"x": lg.spec(ROWS, 64)}, 1),
    "pieces of one": Case(
        lambda x: lg.stack([x.cos(), -x.sin(), x.sin(), x.cos()], -1), {"x": lg.spec(ROWS)}, 1
    ),
}
SIZES = ({BATCH: 1, ROWS: 1}, {BATCH: 2, ROWS: 35})


def graph_of(name: str) -> Graph:
    graph = traced(CASES[name].function, **CASES[name].inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return graph


def lowered(*names: str) -> LoweredModel:
    return assemble(tuple((name.replace(" ", "_"), graph_of(name)) for name in names), CPU)


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_again_and_again_is_stored_once(name: str) -> None:
    (program,) = lowered(name).programs
    assert len(program.launches) == CASES[name].launches


def test_a_reduction_reads_an_attention_that_is_shown() -> None:
    """An id that is read, and may be no row of the table, bounds no loop."""

    def pooled(q: Any, k: Any, v: Any, table: Any, ids: Any) -> dict[str, Any]:
        y = ((q @ k.mT).softmax(-1) @ v) + table[ids][:, None]
        return {"y": y, "mean": y.mean(-2)}

    rows = {"table": lg.spec(50, 32), "ids": lg.spec(BATCH, 128, dtype=lg.i64)}
    graph = traced(pooled, **HEADS, **rows)
    for step in GRAPH_PASSES:
        graph = step(graph)
    first, *_, last = assemble((("entry", graph),), CPU).programs[0].launches
    assert {"q", "k", "v"} <= {a.name for a in first.arguments if isinstance(a, InputArg)}
    assert not [a.name for a in last.arguments if isinstance(a, InputArg)]


def test_a_gpu_computes_them_where_they_are_read() -> None:
    (program,) = assemble((("entry", graph_of("a bias of distances")),), CUDA).programs
    assert len(program.launches) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
def test_the_programs_compute_the_graph(
    name: str, device: Device, rng: np.random.Generator
) -> None:
    graph, model = graph_of(name), assemble((("entry", graph_of(name)),), device)
    sizes = {d: n for d, n in SIZES[1].items() if d in model.programs[0].dims}
    given = drawn(graph, sizes, rng)
    for out, value in run_entry(model, given, {}).items():
        agree(value, evaluate(graph, given, {})[out], name)


@pytest.mark.slow
def test_the_compiled_kernels_do(rng: np.random.Generator) -> None:
    lane = fast_lane.load(lowered(*CASES), "-O1")
    for name in CASES:
        graph = graph_of(name)
        for sizes in SIZES:
            given = drawn(graph, sizes, rng)
            for out, value in lane.run(name.replace(" ", "_"), given, {}).items():
                agree(value, evaluate(graph, given, {})[out], f"{name}, {sizes}")


def drawn(graph: Graph, sizes: dict[Dim, int], rng: np.random.Generator) -> dict[str, Any]:
    shapes = {tensor_of(n).name: [int(e.evaluate(sizes)) for e in n.shape] for n in graph.inputs}
    return {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}


# ---- pieces ----


def plan_of(name: str) -> KernelPlan:
    (kernel,) = lowered(name).kernels
    assert kernel.plan is not None
    return kernel.plan


@pytest.mark.parametrize(("name", "stores"), [("narrow pieces", 27), ("pieces of one", 4)])
def test_narrow_pieces_have_stores_of_their_own(name: str, stores: int) -> None:
    plan = plan_of(name)
    assert [loop.kind for loop in plan.loops()] == ["grid", "lanes"]
    assert len(plan.stores) == stores
    assert {s.axes for s in plan.stores} == {plan.stores[0].axes}


def test_wide_pieces_have_loops_of_their_own() -> None:
    (kernel,) = lowered("wide pieces").kernels
    loops = [s for s in kernel.program.statements() if isinstance(s, For) and s.lanes]
    assert len(loops) == 13
    assert all(isinstance(s, StoreTile) for loop in loops for s in loop.body[-1:])


def test_a_plan_without_one_of_its_pieces_is_refused() -> None:
    plan = plan_of("pieces of one")
    (grid,) = plan.root
    (lanes,) = grid.body
    assert isinstance(lanes, Loop)
    fewer = replace(grid, body=(replace(lanes, body=lanes.body[1:]),))
    with pytest.raises(VerifyFailed, match="3 stores to out are not the 1 of the region"):
        verify_kernel(replace(plan, root=(fewer,)))
