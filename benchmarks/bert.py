"""BERT sentence embeddings in plain PyTorch: what the MiniLM benchmark compares with.

Module names are those of the checkpoints on the Hugging Face hub.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

MINILM = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config["hidden_size"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], hidden)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], hidden)
        self.token_type_embeddings = nn.Embedding(config["type_vocab_size"], hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=config["layer_norm_eps"])

    def forward(self, ids):
        positions = self.position_embeddings.weight[: ids.shape[1]]
        return self.LayerNorm(
            self.word_embeddings(ids) + self.token_type_embeddings.weight[0] + positions
        )


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


class Residual(nn.Module):
    def __init__(self, width, config):
        super().__init__()
        self.dense = nn.Linear(width, config["hidden_size"])
        self.LayerNorm = nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"])

    def forward(self, x, before):
        return self.LayerNorm(self.dense(x) + before)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(config), "output": Residual(hidden, config)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(hidden, inner)})
        self.output = Residual(inner, config)

    def forward(self, x, mask):
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(functional.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = Embeddings(config)
        layers = [Layer(config) for _ in range(config["num_hidden_layers"])]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def forward(self, input_ids, attention_mask):
        """The mean of the last hidden states over the tokens, of length 1."""
        kept = attention_mask != 0
        x = self.embeddings(input_ids)
        # added to the scores: a mask of booleans exports to more operations, and slows peers
        mask = torch.where(kept, 0.0, -torch.inf).to(x.dtype)[:, None, None, :]
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        weight = kept.to(x.dtype).unsqueeze(-1)
        mean = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return functional.normalize(mean, dim=-1)


def load(directory: Path) -> Bert:
    """The checkpoint of a directory with config.json and model.safetensors."""
    model = Bert(json.loads((directory / "config.json").read_text()))
    tensors = load_file(directory / "model.safetensors")
    known = model.state_dict()
    model.load_state_dict({name: t for name, t in tensors.items() if name in known})
    return model.eval()


def make_random(directory: Path, seed: int = 0) -> Path:
    """A checkpoint of MiniLM's shape, made of random numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in Bert(MINILM).state_dict().items()}
    tensors = {name: 0.05 * torch.randn(s, generator=generator) for name, s in shapes.items()}
    for name in shapes:
        if name.endswith("LayerNorm.weight"):
            tensors[name] += 1
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(MINILM, indent=1) + "\n")
    return directory
