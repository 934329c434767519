"""Whole models on a GPU against the interpreter: compiled from Python, weights from seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg
from lumigen import nn
from lumigen.interp.graph import evaluate

pytestmark = pytest.mark.gpu


def softmax() -> lg.Model:
    model = lg.Model("softmax")

    @model.entry(x=lg.spec(lg.Dim("rows", 1, 500), 1000, dtype=lg.f32))
    def normalise(x):
        return {"y": x.softmax(-1)}

    return model


def mlp() -> lg.Model:
    net = nn.Sequential(nn.Linear(100, 257), nn.GELU(), nn.Linear(257, 33))
    model = lg.Model("mlp", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 130), 100, dtype=lg.f32))
    def apply(x):
        return {"y": net(x)}

    return model


def digits() -> lg.Model:
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = lg.Model("digits", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 64), 64, dtype=lg.f32))
    def classify(x):
        return {"probs": net(x).softmax(-1)}

    return model


MODELS: tuple[Callable[[], lg.Model], ...] = (softmax, mlp, digits)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_model_agrees_with_the_interpreter(make, target: str, tmp_path: Path) -> None:
    traced = make().trace()
    entry, graph = traced.entries[0]
    rng = np.random.default_rng(0)
    weights = {w.name: (rng.normal(size=w.shape) * 0.1).astype(np.float32) for w in traced.weights}
    module = lg.compile(traced, target, tmp_path / "out", weights)
    context = module.Model().context()
    (name, bounds), *_ = module.Model().entries[entry].dims.items()
    assert name
    width = int(traced.entries[0][1].inputs[0].shape[1].const)
    sizes = [bounds[0], 5, 17, bounds[1], 17, 17, 5]
    for size in sizes:
        x = rng.normal(size=(size, width)).astype(np.float32)
        wanted = evaluate(graph, {"x": x}, weights)
        found = getattr(context, entry)(x)
        np.testing.assert_allclose(found, next(iter(wanted.values())), rtol=2e-4, atol=2e-5)
    torch = pytest.importorskip("torch")
    found = getattr(context, entry)(torch.from_numpy(x).cuda())
    np.testing.assert_allclose(
        torch.from_dlpack(found).cpu(), next(iter(wanted.values())), rtol=2e-4, atol=2e-5
    )
