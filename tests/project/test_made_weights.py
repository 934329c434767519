"""Weights that are made when a model is opened, from the file that was packed for it and from any other one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import nn
from lumigen.interp.graph import evaluate

pytestmark = pytest.mark.slow


def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Variances are positive, so all are."""
    shapes = {
        "0.weight": (20, 3, 3, 3),
        "1.weight": (20,),
        "1.bias": (20,),
        "1.running_mean": (20,),
        "1.running_var": (20,),
        "2.weight": (18, 20),
    }
    return {n: rng.uniform(0.1, 1, s).astype(np.float32) for n, s in shapes.items()}


def test_any_file_of_the_weights_gives_what_the_graph_says(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    conv, norm, last = nn.Conv2d(3, 20, 3, bias=False), nn.BatchNorm2d(20), nn.Linear(20, 18, False)
    model = lg.Model("made", nn.ModuleList([conv, norm, last]))

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 4), 3, 6, 6, dtype=lg.f32))
    def infer(x: lg.Tensor) -> dict[str, lg.Tensor]:
        rows = norm(conv(x)).relu().amax((2, 3))
        return {"y": rows @ (last.weight / last.weight.norm(dim=1, keepdim=True)).mT}

    traced = model.trace()
    first, second = weights(rng), weights(rng)
    built = lg.compile(traced, weights=first, output=tmp_path / "made", isa="native")
    packed = tmp_path / "made" / "weights" / "made.safetensors"
    other = tmp_path / "other.safetensors"
    save_file(second, other)
    x = rng.standard_normal((3, 3, 6, 6)).astype(np.float32)
    for file, given in ((packed, first), (other, second)):
        found = built.Model(weights=str(file)).context(threads=2).infer(x)
        wanted = evaluate(traced.entries[0][1], {"x": x}, given)["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    manifest = (tmp_path / "made" / "manifest.json").read_text(encoding="utf-8")
    assert "prepared" not in manifest.partition('"weights"')[2].partition("]")[0]
