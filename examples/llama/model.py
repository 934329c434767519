"""Llama, Mistral, Qwen, configured by their config.json or GGUF: rotary positions, grouped heads, cached keys.

The attributes are called as the checkpoint of Hugging Face calls its tensors, which is all that binds them.
`prefill` takes several tokens of a text, `decode` one; both leave their keys and values in the context's caches.
"""

import math
from typing import Literal

import numpy as np

import lumigen as lg
from lumigen import functional, nn

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
ROPE = {
    "rope_type": ("default", "linear", "llama3", "yarn"),
    "type": ("default", "linear", "llama3", "yarn"),
    "partial_rotary_factor": (1,),
    "mscale_all_dim": (0,),
}
# what checkpoints of this form may say that changes what is computed: the values that are computed here
SUPPORTED = {
    "hidden_act": ("silu",),
    "partial_rotary_factor": (1,),
    **{f"{table}.{k}": v for table in ("rope_parameters", "rope_scaling") for k, v in ROPE.items()},
    "no_rope_layers": (),
    "embedding_multiplier": (1,),
    "residual_multiplier": (1,),
    "attention_multiplier": (),
    "logits_scaling": (1,),
}
CACHES = {"f32": lg.f32, "bf16": lg.bf16, "f16": lg.f16}


def frequencies(config):
    """(head_dim / 2,): by how much a position turns each pair of features, in radians; and a scale of the pairs."""
    # one table since transformers 5, a number and the scaling before
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    half = config["head_dim"] // 2
    base = math.log2(rope.get("rope_theta", config.get("rope_theta", 10000.0)))
    pairs = lg.arange(half).float()
    turns = (pairs * (-base / half)).exp2()
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return turns, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return turns / factor, 1.0
    # slow turns are stretched, fast ones stay, between them it is blended
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        made_for = rope["original_max_position_embeddings"]
        fast = (turns * (made_for / (2 * math.pi)) - low) / (high - low)
        scale = 1.0
    else:  # yarn, https://arxiv.org/abs/2309.00071
        made_for = rope.get("original_max_position_embeddings") or config["max_position_embeddings"]

        def pair(rounds):  # the one that turns as often in the length that the model was made for
            return half * math.log2(made_for / (rounds * 2 * math.pi)) / base

        first, last = pair(rope.get("beta_fast") or 32), pair(rope.get("beta_slow") or 1)
        if rope.get("truncate", True):
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * half - 1)
        fast = 1 - (pairs - first) / max(last - first, 0.001)
        scale = rope.get("attention_factor") or 0.1 * math.log(factor) + 1
    fast = fast.clamp(0.0, 1.0)
    return turns * (fast + (1 - fast) / factor), scale


def window(config, layer):
    """How many tokens back the layer looks; None: all."""
    kinds = config.get("layer_types")
    if kinds:
        looks_back = kinds[layer] == "sliding_attention"
    else:  # Qwen 2 names a window, and whether and from which layer on it is used
        looks_back = config.get("use_sliding_window", True)
        first = 28 if str(config.get("model_type")).startswith("qwen") else 0  # if it names none
        looks_back = looks_back and layer >= config.get("max_window_layers", first)
    return config.get("sliding_window") if looks_back else None


class Attention(nn.Module):
    def __init__(self, config, layer, length, chunk):
        hidden, family = config["hidden_size"], config.get("model_type")
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.width, self.length = config["head_dim"], length
        self.window = window(config, layer)
        self.turns = lambda: frequencies(config)
        bias = family == "qwen2" or config.get("attention_bias", False)
        self.q_proj = nn.Linear(hidden, self.heads * self.width, bias=bias)
        self.k_proj = nn.Linear(hidden, self.groups * self.width, bias=bias)
        self.v_proj = nn.Linear(hidden, self.groups * self.width, bias=bias)
        bias = bias and family != "qwen2"
        self.o_proj = nn.Linear(self.heads * self.width, hidden, bias=bias)
        self.q_norm = self.k_norm = nn.Identity()
        if family == "qwen3":
            self.q_norm = nn.RMSNorm(self.width, eps=config["rms_norm_eps"])
            self.k_norm = nn.RMSNorm(self.width, eps=config["rms_norm_eps"])
        # a window needs no more rows than it sees, and those that a chunk adds before its first token looks back
        rows = self.window + chunk - 1 if self.window else length
        self.is_ring = rows < length
        self.keys, self.values = (
            nn.RingCache(name, (self.groups, rows, self.width), config["cache"], window=self.window)
            if self.is_ring
            else nn.State(name, (self.groups, length, self.width), config["cache"])
            for name in (f"layers.{layer}.self_attn.{part}" for part in ("keys", "values"))
        )

    def rotated(self, x, positions):
        """x (heads, sequence, head_dim), whose halves are the two features of each pair."""
        turns, scale = self.turns()
        angles = positions.float().unsqueeze(-1) * turns
        cos, sin = angles.cos() * scale, angles.sin() * scale
        first, second = x.chunk(2, -1)
        return lg.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def forward(self, x, position):
        n = x.shape[0]

        def split(y):  # (sequence, heads * head_dim) -> (heads, sequence, head_dim)
            return y.unflatten(-1, (-1, self.width)).transpose(0, 1)

        positions = lg.arange(n) + position
        q = self.rotated(self.q_norm(split(self.q_proj(x))), positions)
        k = self.rotated(self.k_norm(split(self.k_proj(x))), positions)
        v = split(self.v_proj(x))
        if self.is_ring:
            self.keys.write(k, position)
            self.values.write(v, position)
            seen = self.keys.seen(position, n)
        else:
            self.keys[:, position : position + n] = k
            self.values[:, position : position + n] = v
            behind = positions.unsqueeze(-1) - lg.arange(self.length)
            seen = behind >= 0
            if self.window:
                seen = seen & (behind < self.window)
        q = q.unflatten(0, (self.groups, -1))  # (groups, heads of a group, sequence, head_dim)
        scores = q @ self.keys.float().unsqueeze(1).transpose(-1, -2) * self.width**-0.5
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        read = (weights @ self.values.float().unsqueeze(1)).flatten(0, 1)
        return self.o_proj(read.transpose(0, 1).flatten(1))


class MLP(nn.Module):
    def __init__(self, config):
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        bias = config.get("mlp_bias", False)
        self.gate_proj = nn.Linear(hidden, inner, bias=bias)
        self.up_proj = nn.Linear(hidden, inner, bias=bias)
        self.down_proj = nn.Linear(inner, hidden, bias=bias)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, layer, length, chunk):
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = nn.RMSNorm(hidden, eps=eps)
        self.self_attn = Attention(config, layer, length, chunk)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=eps)
        self.mlp = MLP(config)

    def forward(self, x, position):
        x = x + self.self_attn(self.input_layernorm(x), position)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, config, length, chunk):
        hidden = config["hidden_size"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], hidden)
        count = config["num_hidden_layers"]
        self.layers = nn.ModuleList([Layer(config, i, length, chunk) for i in range(count)])
        self.norm = nn.RMSNorm(hidden, eps=config["rms_norm_eps"])

    def forward(self, ids, position):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, position)
        return self.norm(x[-1:])  # of the last token alone


class Llama(nn.Module):
    def __init__(self, config, length, chunk, *, is_tied):
        self.model = Decoder(config, length, chunk)
        self.is_tied = is_tied
        if not is_tied:
            self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, ids, position):
        x = self.model(ids, position)
        head = self.model.embed_tokens.weight if self.is_tied else self.lm_head.weight
        return functional.linear(x, head).squeeze(0)


def has_tied_head(config, weights):
    """Whether the embeddings of tokens are the head as well: if so configured, and the file has no other one."""
    head, tokens = "lm_head.weight", "model.embed_tokens.weight"
    if not config.get("tie_word_embeddings"):
        return False
    return head not in weights or np.array_equal(weights[head], weights[tokens])


def application(weights):
    """The program that continues texts; they end as the configuration says, with one token or one of several.

    Qwen's vocabularies are filled up to a round number.
    """
    said = weights.config.get("eos_token_id")
    ends = [said] if isinstance(said, int) else said
    return lg.TextGeneration(tokenizer=weights.tokenizer, padded=True, ends=ends)


def build(
    weights,
    length: int = 0,
    prefill: int = 64,
    cache: Literal["f32", "bf16", "f16"] = "f32",
    *,
    program: bool = True,
):
    """A text has up to `length` tokens (0: as many as the checkpoint was made for); `prefill` come at a time.

    `cache` is the type of the keys and values that are kept: f32, bf16 or f16.
    Where the checkpoint has a tokenizer a program comes with the model, unless `program` is false.
    """
    config = weights.config_for(*MODEL_TYPES, supported=SUPPORTED)
    config["head_dim"] = (
        config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    )
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    config["cache"] = CACHES[cache]
    length = length or min(config["max_position_embeddings"], 4096)
    net = Llama(config, length, prefill, is_tied=has_tied_head(config, weights))
    apps = [application(weights)] if program and weights.tokenizer else []
    model = lg.Model("llama", net, apps=apps)
    token = (0, config["vocab_size"] - 1)
    tokens = lg.Dim("tokens", 1, min(prefill, length), typical=min(prefill, length))

    def text(count):
        """So many tokens, and the position of the first: the text has room for them behind it."""
        position = lg.spec(dtype=lg.i64, range=(0, length - count))
        return {"ids": lg.spec(count, dtype=lg.i64, range=token), "position": position}

    def logits(ids, position):
        return {"logits": net(ids, position)}

    @model.entry(**text(tokens))
    def prefill(ids, position):
        return logits(ids, position)

    @model.entry(**text(1))
    def decode(ids, position):
        return logits(ids, position)

    return model
