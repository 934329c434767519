"""Every form survives a pickle: nodes are again the one object of their key, and mean the same in another process."""

from __future__ import annotations

import math
import multiprocessing
import pickle

import numpy as np
import pytest

import lumigen as lg
from lumigen import graph, memo, nn, region
from lumigen.condition import less
from lumigen.dtype import DTYPES
from lumigen.graph import Graph, binary, edge
from lumigen.index import Axis, Dim, indicator, ix, lookup, maximum
from lumigen.interp.region import evaluate
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.ops import Op
from lumigen.pipeline import Compilation, lower_model
from lumigen.printer import graph as graph_text
from lumigen.printer import region as region_text
from lumigen.printer import tile as tile_text
from lumigen.region import Buffer, Expr, Monoid, Region, Role, Store
from lumigen.targets.cpu.device import CPU

N = Dim("n", 1, 8)
A, B = Axis("i", ix(N)), Axis("j", ix(5))
IDS = Buffer("ids", Role.INPUT, (ix(5),), lg.i32, (0, 4))
X = Buffer("x", Role.INPUT, (ix(N), ix(5)), lg.f32)


def again(thing: object) -> object:
    return pickle.loads(pickle.dumps(thing))


INDICES = [
    ix(7), ix(N) * 2 + 1, (ix(A) * 5 + B) // 3 % ix(N), maximum(ix(A), ix(B) - 2), indicator(ix(A) - B),
    lookup(IDS, (ix(B),), 0, 4) + ix(A),
]  # fmt: skip


def expressions() -> list[Expr]:
    x = region.read(X, (ix(A), ix(B)))
    total = region.reduce(Monoid.SUM, (B,), x, lg.f32, (less(ix(B), ix(A)),))
    old = region.carried(0, "old", lg.f32)
    return [
        *(region.const(v, lg.f32) for v in (0.0, -0.0, math.nan, -math.inf, 0.1)),
        region.const(True, lg.boolean),
        region.index(ix(A) + B, lg.i64),
        region.holds((less(ix(A), ix(B)),)),
        x,
        total,
        region.random(region.const(3, lg.i64), ix(A), 1, lg.i64),
        region.prim(Op.SIN, (total,), lg.f32),
        region.choose(region.holds((less(ix(A), ix(B)),)), x, total),
        region.scan(A, region.const(0.0, lg.f32), region.prim(Op.ADD, (old, x), lg.f32)),
        region.local("t", frozenset({A, B}), lg.f32),
    ]


@pytest.mark.parametrize("e", INDICES, ids=str)
def test_indices_are_the_same_object(e: object) -> None:
    assert again(e) is e


@pytest.mark.parametrize("e", expressions(), ids=lambda e: type(e).__name__)
def test_expressions_are_the_same_object(e: Expr) -> None:
    assert again(e) is e
    assert again((e, [e])) == (e, [e])


def test_expressions_are_the_same_object_after_a_compilation() -> None:
    before = expressions()
    memo.forget()
    assert all(a is b for a, b in zip(before, expressions(), strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_and_ops_are_the_same_object(dtype: lg.DType) -> None:
    assert again(dtype) is dtype
    assert all(again(op) is op for op in Op)


def test_long_chains_have_no_long_stack() -> None:
    x = graph.source(Op.INPUT, "x", (ix(4),), lg.f32)
    n, e = x, region.read(X, (ix(A), ix(B)))
    for _ in range(5000):
        n = graph.unary(Op.SIN, edge(n))
        e = region.prim(Op.SIN, (e,), lg.f32)
    assert again(n) is n
    assert again(e) is e
    whole = Graph((x,), (("y", edge(n)),))
    assert again(whole) == whole


def small() -> Compilation:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model = lg.Model("small", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 64, typical=2), 4))
    def classify(x: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"probs": net(x).softmax(-1), "last": x.cumsum(-1)}

    return lower_model(model.trace(), {})


def test_what_a_compilation_makes_is_equal_again() -> None:
    made = small()
    for name, g in made.traced.entries:
        other = again(g)
        assert isinstance(other, Graph)
        assert other == g
        assert other.lines == g.lines
        assert graph_text.show(other) == graph_text.show(g), name
    assert again(made.lowered) == made.lowered
    for kernel in made.lowered.kernels:
        for part in (kernel.region, kernel.plan, kernel.schedule, kernel.program):
            assert again(part) == part
    assert again(made.model) == made.model


def lower(g: Graph) -> tuple[LoweredKernel, str, str]:
    """What a worker does: its result, and the texts that it sees."""
    (kernel,) = assemble((("run", g),), CPU).kernels
    return kernel, tile_text.show(kernel.program), region_text.show(kernel.region)


@pytest.mark.slow
def test_a_worker_lowers_what_it_is_sent() -> None:
    x = graph.source(Op.INPUT, "x", (ix(N), ix(5)), lg.f32)
    squares = binary(Op.MUL, edge(x), edge(x))
    g = Graph((x,), (("y", edge(graph.reduce(Op.SUM_REDUCE, edge(squares), (1,)))),))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        kernel, tiles, meaning = pool.apply(lower, (g,))
    here, own_tiles, own_meaning = lower(g)
    assert (tiles, meaning) == (own_tiles, own_meaning)
    assert tile_text.show(kernel.program) == tiles
    assert kernel.program == here.program
    assert [s.value for s in kernel.region.stores] == [s.value for s in here.region.stores]
    data = np.arange(15, dtype=np.float32).reshape(3, 5)
    (source,) = kernel.region.reads()
    (out,) = evaluate(kernel.region, {source.name: data}, {N: 3}).values()
    np.testing.assert_allclose(out, (data * data).sum(1))


def test_stores_keep_their_values() -> None:
    value = region.read(X, (ix(A), ix(B)))
    dst = Buffer("y", Role.OUTPUT, X.dims, lg.f32)
    whole = Region((Store(dst, (A, B), (ix(A), ix(B)), value),))
    other = again(whole)
    assert isinstance(other, Region)
    assert other.stores[0].value is value
