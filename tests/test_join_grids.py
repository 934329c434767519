"""Vector loops of a GPU that share a launch: which do, which stay apart, what every one computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, every_variant_agrees, lowered
from small_programs import agree
from tiles import run_entry

import lumigen as lg
from lumigen import functional as F
from lumigen import nn
from lumigen.interp.graph import evaluate
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body
from lumigen.tile import When

ROWS = lg.Dim("rows", 1, 300, typical=64)


def spec(*shape: Any, dtype: Any = lg.bf16) -> Any:
    return lg.spec(*shape, dtype=dtype)


def rotated(x: Any, turns: Any) -> Any:
    """Halves of a row that are turned by the same angles: where one ends, whole vectors begin."""
    first, second = x.chunk(2, -1)
    return lg.cat([first * turns - second, second * turns + first], -1)


def queries_and_keys(q: Any, k: Any, turns: Any) -> Any:
    return {"y": rotated(q, turns), "z": rotated(k, turns).transpose(0, 1)}


MAPS: dict[str, Case] = {
    "rotated": (
        queries_and_keys,
        {"q": spec(6, ROWS, 64), "k": spec(2, ROWS, 64), "turns": spec(ROWS, 32)},
    ),
    "of other vectors": (
        lambda x, y: {"a": x.exp(), "b": y.exp()},
        {"x": spec(ROWS, 6400), "y": spec(ROWS, 2400, dtype=lg.f32)},
    ),
    "of one value": (
        lambda x, y: {"a": x.exp(), "b": x.exp() * y},
        {"x": spec(ROWS, 64), "y": spec(ROWS, 64)},
    ),
    "after a sum": (
        lambda x, y: {"a": x.sum(-1), "b": y.exp()},
        {"x": spec(ROWS, 64), "y": spec(ROWS, 64)},
    ),
}
# stores of each kernel, and the grids that it has for them
KERNELS = {
    "rotated": [(2, 2)],
    "of other vectors": [(1, 1), (1, 1)],
    "of one value": [(2, 1)],
    "after a sum": [(1, 1), (1, 1)],
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_in_a_row_are_one_launch(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(MAPS[name])
    found = [
        (len(k.region.stores), 1 + sum(isinstance(s, When) for s in k.program.statements()))
        for k in model.kernels
    ]
    assert found == KERNELS[name]
    for rows in (1, 37):
        every_variant_agrees(graph, model, {ROWS: rows}, rng, f"{name} at {rows}")


def test_what_a_space_has_are_plans() -> None:
    """One nest has no loops for stores over axes of their own: such a region runs as grids alone."""
    for case in MAPS.values():
        for kernel in lowered(case)[1].kernels:
            assert kernel.of is not None
            for found in CUDA.space(kernel.of):
                CUDA.realise(found)  # raises where a plan does not verify


def test_a_vector_whose_lanes_are_on_one_side_chooses_once() -> None:
    (kernel,) = lowered(MAPS["rotated"])[1].kernels
    body = device_kernel_body("k", kernel.program, kernel.parameters, "model.py:1").body
    assert "(i2 <= 31)" in body
    assert "build_lanes" not in body


@pytest.mark.slow
@nvcc.needed
def test_kernels_compile_without_a_warning(tmp_path: Path) -> None:
    cases = {name.replace(" ", "_"): case for name, case in MAPS.items()}
    assert compiled_kernels(cases, cases, "simt", "90a", tmp_path)


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
def test_products_that_have_tiles_are_never_vector_loops(dtype: lg.DType) -> None:
    """Also where they are no one launch: of a batch, or with weights that lie otherwise."""
    x, w, v = (spec(*shape, dtype=dtype) for shape in ((3, 40, 64), (3, 64, 48), (3, 64, 48)))
    batch: Case = (lambda x, w, v: {"y": x @ w, "z": x @ v}, {"x": x, "w": w, "v": v})
    x, w, v = (spec(*shape, dtype=dtype) for shape in ((40, 64), (48, 64), (64, 48)))
    otherwise: Case = (lambda x, w, v: {"y": x @ w.T, "z": x @ v}, {"x": x, "w": w, "v": v})
    for case in (batch, otherwise):
        assert {k.program.skeleton for k in lowered(case)[1].kernels} == {"pipeline"}


class Net(nn.Module):
    def __init__(self) -> None:
        self.norm = nn.RMSNorm(264)
        self.q, self.k, self.v = (nn.Linear(264, n, bias=False) for n in (72, 40, 24))

    def forward(self, x: Any) -> Any:
        x = self.norm(x)
        return {"y": self.q(x), "relu": F.relu(self.k(x)), "z": self.v(x).unflatten(-1, (3, 8))}


@pytest.mark.parametrize("rows", [1, 12])
def test_products_with_several_weights_are_one_launch(rows: int, rng: np.random.Generator) -> None:
    """Of one row they are loops over vectors, of more tiles of products."""
    net = Net().bfloat16()
    model = lg.Model("products", net)

    @model.entry(x=spec(rows, 264))
    def run(x: Any) -> Any:
        return net(x)

    traced = model.trace()
    compiled = lower_model(traced, {}, target=parse_target("cuda:sm_80")).lowered
    assert [len(k.region.stores) for k in compiled.kernels][-1] == 3
    ((_, graph),) = traced.entries
    weights = {
        w.name: rng.standard_normal(w.shape).astype(w.dtype.numpy) / 8 for w in traced.weights
    }
    inputs = {"x": rng.standard_normal((rows, 264)).astype(lg.bf16.numpy)}
    expected = evaluate(graph, inputs, weights)
    for name, value in run_entry(compiled, inputs, weights).items():
        agree(value, expected[name], name)
