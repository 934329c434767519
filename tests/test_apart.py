"""Products of few tiles and a long depth: parts that are a batch, and the launch that adds them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.graph import Graph
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.machine import PartsApart
from lumigen.targets.cuda.device import CUDA, device_of
from lumigen.targets.cuda.machines import SM_80, SM_90A
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify

SMALL = replace(
    SM_80.products, long_part=512, apart=PartsApart(rows=16, columns=16, depth=64, step=16, worth=1)
)
DEVICE = device_of(replace(SM_80, products=SMALL), replace(SM_90A, products=SMALL))
Case = tuple[Callable[..., Any], dict[str, Any]]


def spec(*shape: int) -> Any:
    return lg.spec(*shape, dtype=lg.bf16)


CASES: dict[str, Case] = {
    "plain": (lambda x, w: x @ w, {"x": spec(24, 1024), "w": spec(1024, 17)}),
    "turned": (lambda x, w: x.transpose(0, 1) @ w, {"x": spec(1024, 16), "w": spec(1024, 32)}),
    "batched": (lambda x, y: x @ y, {"x": spec(3, 16, 2048), "y": spec(3, 2048, 24)}),
    "epilogue": (
        lambda x, w, b: F.relu(x @ w.transpose(0, 1) + b).to(lg.f32),
        {"x": spec(40, 1536), "w": spec(16, 1536), "b": spec(16)},
    ),
}
WHOLE: dict[str, Case] = {
    "a depth that no number of parts divides": (
        lambda x, w: x @ w,
        {"x": spec(24, 1031), "w": spec(1031, 17)},
    ),
    "a short depth": (lambda x, w: x @ w, {"x": spec(24, 256), "w": spec(256, 17)}),
    "large results": (lambda x, w: x @ w, {"x": spec(200, 1024), "w": spec(1024, 160)}),
    "f32": (lambda x, w: x @ w, {"x": lg.spec(24, 1024), "w": lg.spec(1024, 17)}),
}


def lowered(graph: Graph, device: Any = DEVICE) -> LoweredModel:
    for step in GRAPH_PASSES:
        graph = step(graph)
    model = assemble((("entry", graph),), device, architectures=("sm_90a",))
    for k in model.kernels:
        verify_region(k.region)
        verify(k.program)
    return model


def has_parts(model: LoweredModel) -> bool:
    return any(s.dst.name.startswith("parts") for k in model.kernels for s in k.region.stores)


@pytest.mark.parametrize("name", CASES)
def test_the_sum_of_the_parts_is_the_product(name: str, rng: np.random.Generator) -> None:
    function, inputs = CASES[name]
    graph = traced(function, **inputs)
    model = lowered(graph)
    assert has_parts(model)
    given = {
        n: rng.standard_normal([int(e.const) for e in s.shape]).astype(s.dtype.numpy)
        for n, s in inputs.items()
    }
    expected = evaluate(graph, given, {})
    for by_region in (False, True):
        found = run_entry(model, given, {}, rng.permutation, by_region=by_region)
        for out, value in expected.items():
            agree(found[out], value, name)


@pytest.mark.parametrize("name", WHOLE)
def test_others_stay_whole(name: str) -> None:
    function, inputs = WHOLE[name]
    assert not has_parts(lowered(traced(function, **inputs)))


def test_the_parts_of_a_long_product_keep_a_device_busy() -> None:
    """Each kernel of a product has one for Hopper, which stores the same parts."""
    graph = traced(lambda x, w: x @ w, x=spec(512, 65536), w=spec(65536, 128))
    model = lowered(graph, CUDA)
    products = [k for k in model.kernels if k.program.skeleton in ("pipeline", "roles")]
    assert [k.program.skeleton for k in products] == ["pipeline", "roles"]
    for k in products:
        (store,) = k.region.stores
        assert store.dst.dims[0] == 32
    assert all(len(v.launches) == 2 for g in model.programs[0].groups for v in g.variants)
