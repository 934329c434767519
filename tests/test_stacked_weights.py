"""Weights of all layers in one tensor: each layer is packed once, and its kernels are all layers'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen.lower.assemble import LoweredModel
from lumigen.make_project import compile_project
from lumigen.pipeline import lower_model
from lumigen.program import WeightArg

LAYERS, K = 3, 20
ROWS = lg.Dim("rows", 1, 64)


class Stack(lg.nn.Module):
    def __init__(self) -> None:
        self.w = lg.nn.Parameter(LAYERS, K, K)
        self.bias = lg.nn.Parameter(LAYERS, K)


def stacked() -> lg.Model:
    net = Stack()
    model = lg.Model("stacked", net)

    @model.entry(x=lg.spec(ROWS, K))
    def run(x):
        for i in range(LAYERS):
            x = (x @ net.w[i] + net.bias[i]).tanh()
        return x

    return model


def lowered(model: lg.Model) -> LoweredModel:
    return lower_model(model.trace(), {}).lowered


def both(model: LoweredModel, inputs, weights) -> tuple[np.ndarray, np.ndarray]:
    """What the interpreter of tile programs and compiled kernels make of it."""
    entry = model.programs[0].entry
    return (
        run_entry(model, inputs, weights)["out"],
        fast_lane.load(model, "-O1").run(entry, inputs, weights)["out"],
    )


@pytest.fixture
def arrays(rng):
    return {
        "w": rng.normal(size=(LAYERS, K, K)).astype(np.float32) / 4,
        "bias": rng.normal(size=(LAYERS, K)).astype(np.float32),
    }


def expected(x, arrays):
    for i in range(LAYERS):
        x = np.tanh(x @ arrays["w"][i] + arrays["bias"][i])
    return x


def test_layers_share_a_kernel_and_are_packed_once():
    model = lowered(stacked())
    assert [k.program.skeleton for k in model.kernels] == ["panel"]
    bases = [s.layout.base for s in model.weights if s.layout is not None]
    assert bases == [0, K * K, 2 * K * K]
    biases = [
        a for x in model.programs[0].launches for a in x.arguments if isinstance(a, WeightArg)
    ]
    assert sorted(a.base for a in biases if a.stored == "w_bias") == [0, K, 2 * K]


@pytest.mark.slow
def test_numbers_are_right(arrays, rng):
    x = rng.normal(size=(7, K)).astype(np.float32)
    for got in both(lowered(stacked()), {"x": x}, arrays):
        np.testing.assert_allclose(got, expected(x, arrays), rtol=1e-5, atol=1e-6)


PARTS = {
    "turned": lambda x, w: x @ w[1].mT,
    "columns": lambda x, w: x @ w[2][:, 3:17],
    "rows": lambda x, w: x @ w[0, 4:].mT @ w[0, 4:],
    "flipped": lambda x, w: x @ w[1].flip(0),
    "across": lambda x, w: x @ w[:, 2].mT,
    "grouped": lambda x, w: (x.unsqueeze(0) @ w).sum(0),  # a loop over the layers
    "two": lambda x, w: x @ w[0] + x @ w[1],
    "numbers": lambda x, w: x * w[2, 5, 3] + w[1, 0],
}


@pytest.mark.slow
def test_every_part_of_a_weight_gives_right_numbers(arrays, rng):
    net = Stack()
    model = lg.Model("stacked", net)
    for name, f in PARTS.items():

        def run(x, f=f):
            return f(x, net.w)

        run.__name__ = name
        model.entry(x=lg.spec(ROWS, K))(run)
    made = lowered(model)
    compiled = fast_lane.load(made, "-O1")
    x = rng.normal(size=(5, K)).astype(np.float32)
    for name, f in PARTS.items():
        want = f(torch.from_numpy(x), torch.from_numpy(arrays["w"])).numpy()
        interpreted = run_entry(made, {"x": x}, arrays, entry=name)
        for got in (interpreted, compiled.run(name, {"x": x}, arrays)):
            np.testing.assert_allclose(got["out"], want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_a_built_project_packs_each_layer(tmp_path: Path, arrays, rng):
    model = stacked()
    directory = tmp_path / "stacked"
    compile_project(model.trace(), directory=directory, weights=arrays)
    module = lg.load(directory)
    x = rng.normal(size=(4, K)).astype(np.float32)
    got = module.Model().context()(x)
    np.testing.assert_allclose(got, expected(x, arrays), rtol=1e-5, atol=1e-6)
    original = tmp_path / "original.safetensors"
    safetensors.numpy.save_file(arrays, original)
    again = module.Model(weights=str(original)).context()(x)
    np.testing.assert_array_equal(got, again)
