"""A Llama in torch, written so that torch.compile makes the most of it: the peer of `cuda_llama.py`.

* The caches are a buffer of keys and one of values for each layer, made once. A step writes into them at a position
  that is a tensor. One tensor for all layers would not do: what is written through a view of it becomes, in the
  compiled graph, a copy of all of it, twice in every layer.
* Weights are parameters, caches and tables are buffers: a CUDA graph finds them where they lie, and would copy what
  is neither.
* Queries, keys and values are one product, gate and up another.
* Attention of one token is `scaled_dot_product_attention` over the whole cache with a mask (`masked`), or
  FlexAttention over the blocks that hold tokens (`blocks`); a prompt's is causal, over its own keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as tf
from torch import nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

BLOCK = 128  # keys that are left out together
Weights = Mapping[str, torch.Tensor]


def fixed(weight: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(weight, requires_grad=False)


class Layer(nn.Module):
    def __init__(self, config: Mapping[str, Any], weights: Weights, at: str, length: int) -> None:
        super().__init__()

        def joined(*names: str) -> nn.Parameter:
            found = [weights[f"{at}.{name}.weight"] for name in names]
            return fixed(torch.cat(found) if len(found) > 1 else found[0])

        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.features, self.epsilon = config["hidden_size"] // self.heads, config["rms_norm_eps"]
        self.qkv = joined(*(f"self_attn.{n}_proj" for n in "qkv"))
        self.out = joined("self_attn.o_proj")
        self.gate_up = joined("mlp.gate_proj", "mlp.up_proj")
        self.down = joined("mlp.down_proj")
        self.before, self.behind = joined("input_layernorm"), joined("post_attention_layernorm")
        shape = (1, self.groups, length, self.features)
        for name in ("keys", "values"):
            self.register_buffer(name, self.out.new_zeros(shape))

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        seen: torch.Tensor | BlockMask | None,
    ) -> torch.Tensor:
        y = tf.linear(tf.rms_norm(x, x.shape[-1:], self.before, self.epsilon), self.qkv)
        y = y.unflatten(-1, (-1, self.features)).transpose(1, 2)
        q, k, v = y.split((self.heads, self.groups, self.groups), 1)
        q, k = rotated(q, *turns), rotated(k, *turns)
        self.keys[:, :, positions] = k
        self.values[:, :, positions] = v
        if seen is None:
            y = tf.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        elif isinstance(seen, BlockMask):
            y = flex_attention(q, self.keys, self.values, block_mask=seen, enable_gqa=True)
        else:
            y = tf.scaled_dot_product_attention(
                q, self.keys, self.values, attn_mask=seen, enable_gqa=True
            )
        x = x + tf.linear(y.transpose(1, 2).flatten(2), self.out)
        y = tf.linear(tf.rms_norm(x, x.shape[-1:], self.behind, self.epsilon), self.gate_up)
        gate, up = y.chunk(2, -1)
        return x + tf.linear(tf.silu(gate) * up, self.down)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Decoder(nn.Module):
    """Logits (vocabulary) behind the last of the tokens; caches of `length` positions, a multiple of `BLOCK`."""

    def __init__(self, config: Mapping[str, Any], weights: Weights, length: int) -> None:
        super().__init__()
        self.length, self.epsilon = length, config["rms_norm_eps"]
        self.embedding = fixed(weights["model.embed_tokens.weight"])
        self.head, self.norm = fixed(weights["lm_head.weight"]), fixed(weights["model.norm.weight"])
        self.layers = nn.ModuleList(
            Layer(config, weights, f"model.layers.{i}", length)
            for i in range(config["num_hidden_layers"])
        )
        half = config["hidden_size"] // config["num_attention_heads"] // 2
        places = torch.arange(length, device=self.head.device)
        pairs = torch.arange(half, device=self.head.device)
        angles = places[:, None] * config["rope_theta"] ** (-pairs / half)
        blocks = torch.arange(length // BLOCK, device=self.head.device, dtype=torch.int32)
        for name, table in (
            ("cos", angles.cos()),
            ("sin", angles.sin()),
            ("places", places),
            ("blocks", blocks[None, None, None]),
        ):
            self.register_buffer(name, table)

    def seen(self, positions: torch.Tensor, attend: str) -> torch.Tensor | BlockMask | None:
        """What a token looks at; None: a prompt, whose tokens look at those before them."""
        if attend == "prompt":
            return None
        if attend == "masked":
            return (self.places <= positions[:, None])[None, None]
        last = positions[0]
        return BlockMask.from_kv_blocks(
            (last // BLOCK + 1).to(torch.int32).view(1, 1, 1),
            self.blocks,
            BLOCK_SIZE=BLOCK,
            mask_mod=lambda _batch, _head, _query, key: key <= last,
            seq_lengths=(1, self.length),
            compute_q_blocks=False,
        )

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, attend: str) -> torch.Tensor:
        """`attend`: `prompt` from position 0 on, or for one token behind others `masked` or `blocks`."""
        x = self.embedding[ids][None]
        turns, seen = (self.cos[positions], self.sin[positions]), self.seen(positions, attend)
        for layer in self.layers:
            x = layer(x, positions, turns, seen)
        x = tf.rms_norm(x[0, -1:], x.shape[-1:], self.norm, self.epsilon)
        return tf.linear(x, self.head)[0]
