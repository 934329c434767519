"""Products that share a launch: several accumulators in one tile, and what the schedule and the builder refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.fast_lane import FastLane
from lumigen.frontend import Traced
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.pipeline import lower_model
from lumigen.plan import Illegal, Product
from lumigen.schedule import schedule
from lumigen.targets.cpu.device import CPU
from lumigen.tile import Mma, Pack

ROWS = lg.Dim("rows", 1, 100, typical=40)
K, INNER = 37, 50


class Net(lg.nn.Module):
    """Weights of several products."""

    def __init__(self, k: int = K) -> None:
        self.gate = lg.nn.Linear(k, INNER, bias=False)
        self.up = lg.nn.Linear(k, INNER)
        self.both = lg.nn.Linear(k, 2 * INNER)
        self.other = lg.nn.Linear(23, INNER)
        self.few = lg.nn.Linear(k, 20)


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


def compiled(programs: Mapping[str, Traced], dtype: lg.DType = lg.f32) -> FastLane:
    """Programs that share weights, an entry each by its name: one library, in which panels are compiled once."""
    entries = tuple((name, graph) for name, t in programs.items() for _, graph in t.entries)
    return fast_lane.load(lowered(Traced("programs", "0", entries, ()), dtype), "-O1")


def check(
    traced: Traced,
    model: LoweredModel,
    rows: int,
    rng: np.random.Generator,
    shared: tuple[FastLane, str] | None = None,
) -> None:
    """The interpreter of tile programs, and compiled kernels, against the graph.

    `shared`: a library that has it, and what it is called there.
    """
    ((name, graph),) = traced.entries
    inputs, weights = numbers(traced, rows, rng)
    interpreted = run_entry(model, inputs, weights)
    lane, entry = shared or (fast_lane.load(model, "-O1"), name)
    compiled = lane.run(entry, inputs, weights)
    for out, wanted in evaluate(graph, inputs, weights).items():
        agree(interpreted[out], wanted, f"{out}, interpreted")
        agree(compiled[out], wanted, f"{out}, compiled")


@functools.cache
def library(dtype: lg.DType) -> FastLane:
    """All programs of all shapes."""
    made = {f"{n}_{s}": entry(n, s, dtype=dtype) for n in NETS for s in SHAPES}
    made |= {f"{n}_{s}": grids(f, s, dtype=dtype) for n, f in GRIDS.items() for s in SHAPES}
    return compiled(made, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NETS)
def test_several_accumulators_are_one_launch(
    name: str, shape: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    traced = entry(name, shape, dtype=dtype)
    model = lowered(traced, dtype)
    (kernel, *before) = reversed(model.kernels)
    assert [k.program.skeleton for k in before] == ["simt"] * (name == "own_rows")
    assert sum(isinstance(s, Product) for s in steps(kernel)) == NETS[name][1]
    check(traced, model, 1 if shape == "one" else 39, rng, (library(dtype), f"{name}_{shape}"))


def steps(kernel: LoweredKernel) -> list[Any]:
    assert kernel.plan is not None
    return list(kernel.plan.steps())


DEEP = {lg.f32: 800, lg.bf16: 2500}  # more terms than a part of k


@functools.cache
def library_of_deep(dtype: lg.DType) -> FastLane:
    k = DEEP[dtype]
    made = {f"gate_and_up_{s}": entry("gate_and_up", s, k, dtype) for s in ("rows", "one")}
    return compiled({**made, "grids": grids(query_key_value, "rows", k, dtype)}, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DEEP, ids=str)
@pytest.mark.parametrize("shape", ["rows", "one"])
def test_products_in_parts_wait_for_each_other(
    shape: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    traced = entry("gate_and_up", shape, DEEP[dtype], dtype)
    model = lowered(traced, dtype)
    assert len(model.kernels) == 1
    shared = library_of_deep(dtype), f"gate_and_up_{shape}"
    check(traced, model, 1 if shape == "one" else 33, rng, shared)


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


# ---- several grids ----


def query_key_value(net: Net, x: Any) -> Any:
    return {"q": net.gate(x) * 0.5, "k": net.few(x), "v": net.up(x).relu()}


def with_accumulators(net: Net, x: Any) -> Any:
    """A grid of two products beside one of one."""
    return {"gated": gate_and_up(net, x), "few": net.few(x)}


def parts_of_a_weight(net: Net, x: Any) -> Any:
    """Each has rows of one weight."""
    weight = net.both.weight
    first, second = F.linear(x, weight[:INNER]), F.linear(x, weight[INNER:])
    return {"first": first.exp(), "heads": second.unflatten(-1, (5, 10))}


GRIDS = {f.__name__: f for f in (query_key_value, with_accumulators, parts_of_a_weight)}


def grids(
    function: Callable[[Net, Any], Any], shape: str, k: int = K, dtype: lg.DType = lg.f32
) -> Traced:
    net = Net(k).to(dtype)
    model = lg.Model("beside", net)

    @model.entry(x=lg.spec(*SHAPES[shape], k, dtype=dtype))
    def run(x: lg.Tensor) -> Any:
        return function(net, x)

    return model.trace()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", GRIDS)
def test_products_of_the_same_rows_are_one_launch(
    name: str, shape: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    traced = grids(GRIDS[name], shape, dtype=dtype)
    model = lowered(traced, dtype)
    (kernel,) = model.kernels
    assert kernel.plan is not None
    assert len(kernel.plan.root) == len(kernel.region.stores) == len(traced.entries[0][1].outputs)
    check(traced, model, 1 if shape == "one" else 39, rng, (library(dtype), f"{name}_{shape}"))


def test_grids_of_other_sizes_share_their_scratch(rng: np.random.Generator) -> None:
    traced = grids(query_key_value, "rows", DEEP[lg.f32])
    model = lowered(traced)
    (kernel,) = model.kernels
    groups = kernel.program.one_of
    assert len(groups) == 3
    assert {b for group in groups for b in group} == set(kernel.program.scratch)
    check(traced, model, 100, rng, (library_of_deep(lg.f32), "grids"))


def test_equal_layers_have_one_kernel_for_their_grids() -> None:
    layers = lg.nn.ModuleList([Net(INNER) for _ in range(3)])
    model = lg.Model("layers", layers)

    @model.entry(x=lg.spec(ROWS, INNER))
    def run(x: lg.Tensor) -> lg.Tensor:
        for layer in layers:
            q, v = layer.gate(x), layer.up(x)
            x = (q * v.sum(-1, keepdim=True)).softmax(-1) + layer.few(x).sum(-1, keepdim=True)
        return x

    found = lowered(model.trace())
    (program,) = found.programs
    names = [x.kernel for x in program.launches]
    assert len(names) == 3 * len(found.kernels)
    assert sum(k.program.skeleton == "panel" for k in found.kernels) == 1


def test_what_waits_for_another_product_is_launched_after_it() -> None:
    def chained(net: Net, x: Any) -> Any:
        y = net.gate(x)
        return {"y": y, "z": net.up(x) + y.amax()}

    kernels = lowered(grids(chained, "rows")).kernels
    assert [len(k.region.stores) for k in kernels if k.program.skeleton == "panel"] == [1, 1]


def test_what_grids_side_by_side_are_not_is_refused() -> None:
    (kernel,) = lowered(grids(query_key_value, "rows")).kernels
    assert kernel.plan is not None
    assert kernel.schedule is not None
    first, *others = kernel.plan.root
    sizes = kernel.schedule
    fewer = replace(sizes, parts=sizes.parts[1:])
    unknown = replace(sizes, parts=(schedule("simt", {}), *sizes.parts[1:]))
    for parts in (fewer, unknown, sizes.at("rows", 8), sizes.parts[0]):
        assert isinstance(CPU.build(kernel.plan, parts), Illegal)
    turned = replace(first, kind="seq")
    assert isinstance(CPU.build(replace(kernel.plan, root=(turned, *others)), sizes), Illegal)
