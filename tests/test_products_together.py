"""Products that share a launch: several accumulators in one tile, and what the schedule and the builder refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.compile import lower_model
from lumigen.frontend import Traced
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.lower.devices import CPU
from lumigen.plan import Illegal, Product
from lumigen.schedule import schedule
from lumigen.tile import Mma, Pack

ROWS = lg.Dim("rows", 1, 100, typical=40)
K, INNER = 37, 50


class Net(lg.nn.Module):
    """Weights of several products; `deep` has more terms than a part of k."""

    def __init__(self, k: int = K) -> None:
        self.gate = lg.nn.Linear(k, INNER, bias=False)
        self.up = lg.nn.Linear(k, INNER)
        self.both = lg.nn.Linear(k, 2 * INNER)
        self.other = lg.nn.Linear(23, INNER)


def gate_and_up(net: Net, x: Any) -> Any:
    return F.silu(net.gate(x)) * net.up(x)


def commuted(net: Net, x: Any) -> Any:
    return net.up(x) * (net.gate(x).sigmoid() * net.gate(x))


def halves(net: Net, x: Any) -> Any:
    """Two parts of one weight."""
    return F.glu(net.both(x), -1)


def three(net: Net, x: Any) -> Any:
    return net.gate(x) + net.up(x) * net.both(x)[..., :INNER].tanh()


def own_rows(net: Net, x: Any) -> Any:
    """Each has rows and terms of its own."""
    return net.gate(x) + net.other(x[..., :23].exp())


def normed(net: Net, x: Any) -> Any:
    """Folds of what is stored stand between the products and the store."""
    return gate_and_up(net, x) * x.sum(-1, keepdim=True)


NETS: dict[str, tuple[Callable[[Net, Any], Any], int]] = {
    f.__name__: (f, count)
    for f, count in (
        (gate_and_up, 2),
        (commuted, 2),
        (halves, 2),
        (three, 3),
        (own_rows, 2),
        (normed, 2),
    )
}
SLOW = {"commuted", "three", "normed"}  # to compile
SHAPES: dict[str, tuple[Any, ...]] = {"rows": (ROWS,), "one": (1,), "batch": (2, ROWS)}


def entry(name: str, shape: str, k: int = K, dtype: lg.DType = lg.f32) -> Traced:
    net = Net(k).to(dtype)
    model = lg.Model("together", net)

    @model.entry(x=lg.spec(*SHAPES[shape], k, dtype=dtype))
    def run(x: lg.Tensor) -> lg.Tensor:
        return NETS[name][0](net, x)

    return model.trace()


def lowered(traced: Traced, dtype: lg.DType = lg.f32) -> LoweredModel:
    return lower_model(traced, {}, dtype=dtype).lowered


def numbers(traced: Traced, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """(inputs, weights) of so many rows."""
    ((_, graph),) = traced.entries

    def made(n: Any) -> Any:
        shape = [int(e.evaluate({ROWS: rows})) for e in n.shape]
        return (rng.normal(size=shape) / 3).astype(n.dtype.numpy)

    inputs = {tensor_of(n).name: made(n) for n in graph.inputs}
    return inputs, {tensor_of(n).name: made(n) for n in graph.weights()}


def check(traced: Traced, model: LoweredModel, rows: int, rng: np.random.Generator) -> None:
    """The interpreter of tile programs, and compiled kernels, against the graph."""
    ((name, graph),) = traced.entries
    inputs, weights = numbers(traced, rows, rng)
    wanted = evaluate(graph, inputs, weights)["out"]
    agree(run_entry(model, inputs, weights)["out"], wanted, "interpreted")
    agree(fast_lane.load(model, "-O1").run(name, inputs, weights)["out"], wanted, "compiled")


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in NETS]
)
def test_several_accumulators_are_one_launch(
    name: str, shape: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    traced = entry(name, shape, dtype=dtype)
    model = lowered(traced, dtype)
    (kernel, *before) = reversed(model.kernels)
    assert [k.program.skeleton for k in before] == ["simt"] * (name == "own_rows")
    assert sum(isinstance(s, Product) for s in steps(kernel)) == NETS[name][1]
    check(traced, model, 1 if shape == "one" else 39, rng)


def steps(kernel: LoweredKernel) -> list[Any]:
    assert kernel.plan is not None
    return list(kernel.plan.steps())


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("shape", ["rows", "one"])
def test_products_in_parts_wait_for_each_other(
    shape: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    traced = entry("gate_and_up", shape, 800 if dtype is lg.f32 else 2500, dtype)
    model = lowered(traced, dtype)
    assert len(model.kernels) == 1
    check(traced, model, 1 if shape == "one" else 33, rng)


def test_rows_in_common_are_packed_once() -> None:
    for name, packed in (("gate_and_up", 1), ("own_rows", 2)):
        program = lowered(entry(name, "rows")).kernels[-1].program
        statements = list(program.statements())
        assert sum(isinstance(s, Pack) for s in statements) == packed
        assert len({s.acc for s in statements if isinstance(s, Mma)}) == 2


def test_a_value_that_sees_one_product_twice_stores_it() -> None:
    """Else it would be multiplied for each place."""
    net = Net()
    model = lg.Model("turned", net)

    @model.entry(x=lg.spec(ROWS, K))
    def run(x: lg.Tensor) -> lg.Tensor:
        y = net.gate(x)
        return y * x.sum(-1, keepdim=True) + y.flip(-1)

    assert len(lowered(model.trace()).kernels) == 2


def test_what_is_no_tile_of_products_is_refused() -> None:
    (kernel,) = lowered(entry("gate_and_up", "rows")).kernels
    assert kernel.plan is not None
    assert kernel.schedule is not None
    (grid,) = kernel.plan.root
    first, second, *rest = grid.body
    assert isinstance(second, Product)
    turned = replace(second, m=second.n, n=second.m)
    for steps in ((first, turned, *rest), (first, rest[-1], second), rest):
        plan = replace(kernel.plan, root=(replace(grid, body=tuple(steps)),))
        assert isinstance(CPU.build(plan, kernel.schedule), Illegal)
    assert isinstance(CPU.build(kernel.plan, schedule("windows", {})), Illegal)
