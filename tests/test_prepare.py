"""What follows from weights alone is computed when a model is opened: which values, and that results stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import nn
from lumigen.dtype import bf16, f32
from lumigen.frontend import Traced
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.prepare import Entries, prepare
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

B = lg.Dim("batch", 1, 4, typical=2)


def traced(function: Callable[..., Any], *modules: Any, x: Any = None) -> Traced:
    net = nn.ModuleList(modules) if modules else nn.Identity()
    model = lg.Model("m", net)
    function.__name__ = "entry"
    model.entry(x=x or lg.spec(B, 6, 5, 5, dtype=lg.f32))(function)
    return model.trace()


def simplified(of: Traced) -> Entries:
    entries = of.entries
    for step in GRAPH_PASSES:
        entries = tuple((name, step(g)) for name, g in entries)
    return entries


def made(of: Traced) -> dict[str, str]:
    """What each weight that is made holds, by name: the ops that it takes."""
    graph = prepare(simplified(of)).made
    if graph is None:
        return {}
    assert graph.inputs == ()
    return {name: e.node.op.value for name, e in graph.outputs}


def normed() -> Traced:
    conv, norm = nn.Conv2d(6, 4, 3, bias=False), nn.BatchNorm2d(4)
    return traced(lambda x: {"y": norm(conv(x)).relu()}, conv, norm)


def test_factors_of_a_norm_become_one() -> None:
    of = normed()
    assert made(of) == {"1.running_var.prepared": "mul"}
    ((_, graph),) = prepare(simplified(of)).entries
    read = {tensor_of(n).name for n in graph.weights()}
    assert read == {"0.weight", "1.running_mean", "1.running_var.prepared", "1.bias"}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (lambda w: w / w.norm(dim=1, keepdim=True), ["mul"]),
        (lambda w: w.exp().tril(), ["exp2"]),  # a product leaves out what is above the diagonal
        (lambda w: w * 2 + 1, []),  # costs no more than to read it
    ],
    ids=["rows", "masked", "cheap"],
)
def test_which_values_are_kept(value: Callable[..., Any], kept: list[str]) -> None:
    layer = nn.Linear(6, 6, bias=False)
    x = lg.spec(B, 6, dtype=lg.f32)
    of = traced(lambda x: {"y": x @ value(layer.weight).mT}, layer, x=x)
    assert [*made(of).values()] == kept


def test_what_is_much_larger_than_its_weights_is_computed_where_it_is_read() -> None:
    a, b = nn.Linear(2, 64, bias=False), nn.Linear(64, 2, bias=False)
    x = lg.spec(B, 64, dtype=lg.f32)
    of = traced(lambda x: {"y": x @ (a.weight @ b.weight)}, a, b, x=x)
    assert made(of) == {}


def test_a_value_that_depends_on_the_dims_of_a_call_is_not_made() -> None:
    layer = nn.Linear(6, 4)
    x = lg.spec(B, 6, dtype=lg.f32)
    of = traced(lambda x: {"y": layer(x) * layer.bias.exp()[: x.shape[0], None]}, layer, x=x)
    assert made(of) == {"0.bias.prepared": "exp2"}


def test_terms_that_share_terms_are_looked_at_once() -> None:
    def value(w: lg.Tensor) -> lg.Tensor:
        for _ in range(60):
            w = w + w.mT
        return w

    layer = nn.Linear(6, 6, bias=False)
    x = lg.spec(B, 6, dtype=lg.f32)
    of = traced(lambda x: {"y": x @ value(layer.weight.exp())}, layer, x=x)
    assert [*made(of).values()] == ["add"]


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90a", "metal"])
@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_kernels_compute_the_graph(target: str, dtype: lg.DType, rng: np.random.Generator) -> None:
    of = normed()
    low = lower_model(of, {}, target=parse_target(target), dtype=dtype)
    ((_, graph),) = low.graphs.get("retype", of.entries)
    weights = {
        tensor_of(n).name: np.abs(rng.standard_normal([e.const for e in n.shape]) + 0.1).astype(
            n.dtype.numpy
        )
        for n in graph.weights()
    }
    inputs = {"x": rng.standard_normal((3, 6, 5, 5)).astype(graph.inputs[0].dtype.numpy)}
    found = run_entry(low.lowered, inputs, weights)["y"].astype(np.float64)
    wanted = evaluate(graph, inputs, weights)["y"].astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=2e-5 if dtype is f32 else 2e-2, atol=1e-5)
    assert low.lowered.opening is not None
    assert {s.weight.name for s in low.lowered.weights if s.weight.made} == set(made(of))
