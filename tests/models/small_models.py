"""Small checkpoints of random numbers as transformers saves them, and ways to run what the examples make of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import fast_lane
from lumigen.dtype import DType, f32, of_numpy
from lumigen.graph import tensor_of
from lumigen.interp.graph import step
from lumigen.lower.retype import retype
from lumigen.pipeline import lower_model
from lumigen.weights import rounded

EXAMPLES = Path(__file__).parents[2] / "examples"
Array = np.ndarray
NO_TRANSFORMERS = "transformers, which has the models to compare with, is not installed"


def randomised(net: torch.nn.Module, deviation: float = 0.2) -> torch.nn.Module:
    """The module in float64 and without dropout, its weights random: scales near 1, variances positive."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.randn(p.shape) * (deviation if p.ndim > 1 else 0.1))
            if p.ndim == 1 and name.endswith("weight"):
                p.add_(1)
        for name, b in net.named_buffers():
            if name.endswith("running_mean"):
                b.copy_(torch.randn(b.shape) * 0.1)
            if name.endswith("running_var"):
                b.copy_(torch.rand(b.shape) + 0.5)
    return net.double().eval()


def transformer(folder: Path, model: str, config: str, **sizes: Any) -> Any:
    """A model of transformers, random, in float64; its checkpoint is in the folder, in f32."""
    transformers = pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    made = getattr(transformers, model)(getattr(transformers, config)(**sizes))
    randomised(made).float().save_pretrained(folder)
    return made.double()


def save(folder: Path, arrays: Mapping[str, Array], config: Mapping[str, Any]) -> Path:
    """A checkpoint in the layout of Hugging Face."""
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {k: np.ascontiguousarray(a, np.float32) for k, a in arrays.items()},
        folder / "model.safetensors",
    )
    return folder


def example(name: str, folder: Path, **options: str) -> tuple[lg.Traced, lg.Weights]:
    """The model.py of an example for the checkpoint in a folder."""
    weights = lg.open_weights(folder)
    model = lg.load_model_file(EXAMPLES / name / "model.py", weights=weights, options=options)
    return model.trace(), weights


def random_weights(traced: lg.Traced, deviation: float = 0.2) -> dict[str, Array]:
    """Numbers for a model that has no checkpoint."""
    rng = np.random.default_rng(0)
    return {
        w.name: (rng.normal(size=w.shape) * (deviation if len(w.shape) > 1 else 0.1)).astype("f4")
        for w in traced.weights
    }


class Interpreted:
    """A context of a model whose graphs are evaluated in float64."""

    def __init__(self, traced: lg.Traced, weights: Mapping[str, Array], dtype: DType = f32) -> None:
        self.graphs = {name: retype(graph, dtype) for name, graph in traced.entries}
        held = {tensor_of(n).name: n.dtype for g in self.graphs.values() for n in g.weights()}
        self.weights = {name: rounded(weights[name], held[name]) for name in held}
        self.states: dict[str, Array] = {}

    def run(self, entry: str, **inputs: Any) -> dict[str, Array]:
        given = {name: np.asarray(x) for name, x in inputs.items()}
        outputs, states = step(self.graphs[entry], given, self.weights, self.states)
        self.states |= states
        return {name: as_numbers(x) for name, x in outputs.items()}


class Compiled:
    """A context of a model whose kernels are compiled, in f32 or held in a dtype of 16 bits."""

    def __init__(self, traced: lg.Traced, weights: Mapping[str, Array], dtype: DType = f32) -> None:
        self.dtype = dtype
        self.model = lower_model(traced, {}, dtype=dtype).lowered
        self.lane = fast_lane.load(self.model, "-O0")
        self.packed = self.lane.packed({w.name: weights[w.name] for w in traced.weights})
        self.states = {s.name: np.zeros(s.shape, s.dtype.numpy) for s in self.model.states}

    def run(self, entry: str, **inputs: Any) -> dict[str, Array]:
        given = {name: rounded(np.array(x, order="C"), self.dtype) for name, x in inputs.items()}
        call = self.lane.prepare(entry, given, self.packed, self.states)
        call.run()
        return {name: as_numbers(x) for name, x in call.outputs.items()}


def farthest(
    traced: lg.Traced,
    weights: Mapping[str, Array],
    dtype: DType,
    calls: Sequence[tuple[str, Mapping[str, Any]]],
    least: float,
) -> list[float]:
    """How far the results of each call may be from exact ones where numbers are held in `dtype`; `least` or more.

    Both operands of a product are rounded. So results may be twice as far as those of exact arithmetic are where
    weights alone are rounded: one layer after another enlarges such errors, in some calls more than in others.
    """
    exact = Interpreted(traced, weights)
    held = Interpreted(
        traced,
        {name: rounded(np.asarray(w), dtype).astype(np.float32) for name, w in weights.items()},
    )
    allowed: list[float] = []
    for entry, inputs in calls:
        pairs = zip(
            held.run(entry, **inputs).values(), exact.run(entry, **inputs).values(), strict=True
        )
        allowed.append(max(least, *(2 * distance(one, other) for one, other in pairs)))
    return allowed


def as_numbers(x: Array) -> Array:
    """Floats of any width as float64."""
    found = of_numpy(x.dtype)
    return x.astype(np.float64) if found and found.is_float else x


def distance(found: Array, expected: Any) -> float:
    """The greatest error, of the greatest value expected."""
    wanted = np.asarray(expected, np.float64)
    assert found.shape == wanted.shape
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
