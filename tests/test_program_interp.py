"""Whole models run launch by launch, in their own arena: what their graphs say comes out."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import nn
from lumigen.errors import BadInput, BadLaunch
from lumigen.frontend import Model, Traced, functional, load_model_file
from lumigen.graph import Graph, tensor_of
from lumigen.index import ix
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import Compilation, lower_model
from lumigen.program import InputArg, Launch, Program, Slot, ValueArg, always
from lumigen.verify.program import points

EXAMPLES = Path(__file__).parent.parent / "examples"
B = lg.Dim("batch", 1, 40, typical=7)
T = lg.Dim("length", 2, 24, typical=11)


def test_a_condition_is_asked_where_those_before_it_hold(rng: np.random.Generator) -> None:
    """Places that a place in memory says are read where it is inside alone."""
    graph = traced(
        lambda x, i: x.index_select(0, i).index_select(0, i),
        x=lg.spec(33, 4),
        i=lg.spec(40, dtype=lg.i32),
    )
    inputs = {
        "x": rng.normal(size=(33, 4)).astype(np.float32),
        "i": rng.integers(-9, 60, 40).astype(np.int32),
    }
    found = run_entry(
        lower_model(Traced("p", "1", (("entry", graph),), ()), {}).lowered, inputs, {}
    )
    assert np.array_equal(found["out"], evaluate(graph, inputs, {})["out"])


def softmax() -> Model:
    model = lg.Model("soft", nn.Identity(), version="0.1.0")

    @model.entry(x=lg.spec(B, 33))
    def run(x: Any) -> Any:
        return x.softmax(-1)

    return model


def mlp() -> Model:
    net = nn.Sequential(nn.Linear(20, 36), nn.ReLU(), nn.Linear(36, 10))
    model = lg.Model("mlp", net, version="0.1.0")

    @model.entry(x=lg.spec(B, 20))
    def run(x: Any) -> Any:
        return {"logits": net(x), "probs": net(x).softmax(-1)}

    return model


class Attention(nn.Module):
    """A block with temporaries of several sizes, some of them alive for long."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.q, self.k, self.v, self.out = (nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (2, 12)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return x + self.out(mixed)


def attention() -> Model:
    block = Attention()
    model = lg.Model("block", block, version="0.1.0")

    @model.entry(x=lg.spec(lg.Dim("few", 1, 3), T, 24))
    def run(x: Any) -> Any:
        return block(x)

    return model


def conv() -> Model:
    return load_model_file(EXAMPLES / "digits" / "cnn.py")


def two_entries() -> Model:
    """They share a weight in one layout, and differ in dims."""
    table = nn.Embedding(30, 16)
    model = lg.Model("two", table, version="0.1.0")

    @model.entry(ids=lg.spec(B, dtype=lg.i64, range=(0, 29)))
    def embed(ids: Any) -> Any:
        return table(ids)

    @model.entry(x=lg.spec(T, 16))
    def score(x: Any) -> Any:
        return (x @ table.weight.transpose(0, 1)).softmax(-1)

    return model


SLOW = {"conv"}  # to interpret: not at the greatest dims
MODELS = {f.__name__: f for f in (softmax, mlp, attention, conv, two_entries)}


@functools.cache
def lowered(name: str) -> Compilation:
    return lower_model(MODELS[name]().trace(), {})


def arrays(graph: Graph, dims: Mapping[Any, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(inputs, weights) of an entry."""
    rng = np.random.default_rng(0)

    def made(node: Any) -> np.ndarray:
        shape = [int(e.evaluate(dims)) for e in node.shape]
        bounds = tensor_of(node).range
        if bounds is not None:
            return rng.integers(bounds[0], bounds[1] + 1, shape).astype(node.dtype.numpy)
        return rng.normal(size=shape).astype(node.dtype.numpy)

    inputs = {tensor_of(n).name: made(n) for n in graph.inputs}
    return inputs, {tensor_of(n).name: made(n) for n in graph.weights()}


def check(graph: Graph, model: LoweredModel, dims: Mapping[Any, int], entry: str) -> None:
    """What the launches leave in the outputs is what the graph, before any pass, says."""
    inputs, weights = arrays(graph, dims)
    found = run_entry(model, inputs, weights, entry=entry)
    for name, wanted in evaluate(graph, inputs, weights).items():
        agree(found[name], wanted, f"{entry}: {name} at {dict(dims)}")


@pytest.mark.parametrize(
    "name", [pytest.param(m, marks=[pytest.mark.slow] if m in SLOW else []) for m in MODELS]
)
def test_a_program_computes_what_its_graph_says(name: str) -> None:
    compiled = lowered(name)
    for entry, graph in compiled.graphs["graph"]:
        program = next(p for p in compiled.lowered.programs if p.entry == entry)
        for dims in points(program.dims)[: 2 if name in SLOW else 3]:
            check(graph, compiled.lowered, dims, entry)


@pytest.mark.parametrize("by_region", [False, True])
def test_comparisons_of_integers_far_apart(by_region: bool) -> None:
    """Whose difference no i64 holds."""
    graph = traced(lambda a, b: a > b, a=lg.spec(3, dtype=lg.i64), b=lg.spec(3, dtype=lg.i64))
    ends = np.iinfo(np.int64)
    inputs = {"a": np.array([ends.min, 1, ends.max]), "b": np.array([1, ends.min, -2])}
    model = lower_model(Traced("far", "0", (("entry", graph),), ()), {}).lowered
    found = run_entry(model, inputs, {}, by_region=by_region)
    np.testing.assert_array_equal(found["out"], [False, True, True])


# ---- broken by hand ----


def broken(name: str, change: Any) -> None:
    """Check a model whose only program was changed."""
    compiled = lowered(name)
    ((entry, graph),) = compiled.graphs["graph"]
    (program,) = compiled.lowered.programs
    model = replace(compiled.lowered, programs=(change(program),))
    check(graph, model, points(program.dims)[1], entry)


def of(p: Program, *launches: Launch) -> Program:
    return replace(p, groups=(always(*launches),))


def one_on_another(program: Program) -> Program:
    assert len(program.arena) > 1
    return replace(program, arena=tuple(Slot(s.name, s.bytes, ()) for s in program.arena))


def test_slots_that_lie_on_one_another_spoil_the_result() -> None:
    with pytest.raises(AssertionError, match=r"off by|not finite"):
        broken("attention", one_on_another)


def test_a_launch_that_is_left_out_shows() -> None:
    """What it should have written is NaN."""
    with pytest.raises(AssertionError, match="not finite"):
        broken("attention", lambda p: replace(p, groups=p.groups[1:]))


def test_a_task_too_few_shows() -> None:
    def fewer(p: Program) -> Program:
        *before, last = p.launches
        return of(p, *before, replace(last, tasks=last.tasks - 1))

    with pytest.raises(AssertionError):
        broken("softmax", fewer)


def test_a_slot_too_small_for_what_is_written_is_an_error() -> None:
    def smaller(p: Program) -> Program:
        return replace(p, arena=tuple(replace(s, bytes=s.bytes - 64) for s in p.arena))

    with pytest.raises(BadLaunch, match=r"takes \d+ bytes, SlotArg\(slot='\w+'\) has"):
        broken("attention", smaller)


def test_inputs_are_read_only() -> None:
    def into_input(p: Program) -> Program:
        first = p.launches[0]
        pointers = [a for a in first.arguments if not isinstance(a, ValueArg)]
        numbers = [a for a in first.arguments if isinstance(a, ValueArg)]
        back = (*(InputArg("x") for _ in pointers), *numbers)
        return of(p, replace(first, arguments=back))

    with pytest.raises(ValueError, match="read-only") as failed:
        broken("softmax", into_input)
    assert failed.value.__notes__ == ["at launch 0 of entry run, of kernel k00_softmax_simt"]


def test_a_launch_with_too_few_arguments_is_an_error() -> None:
    def without(p: Program) -> Program:
        first, *rest = p.launches
        return of(p, replace(first, arguments=first.arguments[:-1]), *rest)

    with pytest.raises(BadLaunch, match="2 arguments, not 3"):
        broken("softmax", without)


def test_inputs_must_have_the_declared_shape() -> None:
    (program,) = lowered("softmax").lowered.programs
    inputs = {"x": np.zeros((3, 32), np.float32)}
    with pytest.raises(BadInput, match=r"x is f32\[3, 32\], must be f32\[batch, 33\]"):
        run_entry(lowered("softmax").lowered, inputs, {})
    assert program.inputs[0].shape[1] == ix(33)
