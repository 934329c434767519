"""Llama and its relatives, configured by config.json or GGUF: rotary positions, grouped heads, cached keys.

What a family computes in another way is a row of FAMILIES. The attributes are called as checkpoints of Hugging Face
call their tensors, which is all that binds them.
`prefill` takes several tokens of a text, `decode` one; both leave their keys and values in the context's caches.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import lumigen as lg
from lumigen import functional, nn


@dataclass(frozen=True)
class Family:
    """What a model_type computes in another way than Llama; `usual` is what its config.json may leave out."""

    is_fused: bool = False  # one projection for queries, keys and values, one for gate and up
    has_biased_projections: bool = False  # of queries, keys and values
    has_head_norms: bool = False  # of queries and keys
    has_norms_after: bool = False  # attention and feed-forward
    norm_adds: float = 0.0  # to the weights of norms
    scales_embeddings: bool = False  # by the root of their width
    turns_a_part: bool = False  # of each head may be without positions
    usual: Mapping[str, Any] = field(default_factory=dict)


GEMMA = {
    "tie_word_embeddings": True,
    "hidden_act": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
}
CAPPED = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
LOCAL = {"sliding_window_pattern": 6, "rope_local_base_freq": 10000.0}
MIXTRAL = {"norm_topk_prob": True, "rope_theta": 1e6}
FAMILIES = {
    "llama": Family(),
    "mistral": Family(),
    "qwen2": Family(has_biased_projections=True),
    "qwen3": Family(has_head_norms=True),
    "phi3": Family(is_fused=True, turns_a_part=True),
    "gemma2": Family(
        has_norms_after=True,
        norm_adds=1.0,
        scales_embeddings=True,
        usual={**GEMMA, **CAPPED, "sliding_window_pattern": 2},
    ),
    "gemma3_text": Family(
        has_head_norms=True,
        has_norms_after=True,
        norm_adds=1.0,
        scales_embeddings=True,
        usual={**GEMMA, **LOCAL, "rope_theta": 1e6},
    ),
    "mixtral": Family(usual=MIXTRAL),
    "qwen3_moe": Family(has_head_norms=True),
}
ROTATIONS = ("default", "linear", "llama3", "yarn", "longrope", "su")
ROPE = {
    "rope_type": ROTATIONS,
    "type": ROTATIONS,
    "partial_rotary_factor": (1,),
    "mscale_all_dim": (0,),
}
WINDOWED = ("sliding_attention", "full_attention")
# of rotary positions; perhaps one for each kind of layer
TABLES = (
    "rope_scaling",
    "rope_parameters",
    *(f"rope_parameters.{kind}" for kind in WINDOWED),
)
ACTIVATIONS = {
    "silu": functional.silu,
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
# what checkpoints of this form may say that changes what is computed: the values that are computed here
SUPPORTED = {
    "hidden_act": tuple(ACTIVATIONS),
    "hidden_activation": tuple(ACTIVATIONS),
    "partial_rotary_factor": (1,),
    **{f"{table}.{k}": v for table in TABLES for k, v in ROPE.items()},
    "layer_types": WINDOWED,
    "no_rope_layers": (),
    "use_bidirectional_attention": (False,),
    "embedding_multiplier": (1,),
    "residual_multiplier": (1,),
    "attention_multiplier": (),
    "logits_scaling": (1,),
}
CACHES = {"f32": lg.f32, "bf16": lg.bf16, "f16": lg.f16, "q8": lg.i8}


def read_config(weights, length):
    """The configuration of the checkpoint, complete: what it may leave out is said."""
    family = FAMILIES.get(weights.config.get("model_type"), Family())
    supported = {k: v for k, v in SUPPORTED.items() if not (family.turns_a_part and "partial" in k)}
    config = weights.config_for(*FAMILIES, supported=supported)
    for key, value in family.usual.items():
        if key not in config:
            config[key] = value
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    config["family"] = family
    config.setdefault("head_dim", hidden // heads)
    config.setdefault("num_key_value_heads", heads)
    config["length"] = length or min(config["max_position_embeddings"], 4096)
    return config


def rotation(config, layer):
    """How the layer turns pairs of features: the keys of its table of rotary positions."""
    # a table since transformers 5, perhaps one for each kind of layer; numbers and the scaling before
    table = config.get("rope_parameters") or config.get("rope_scaling") or {}
    is_local = window(config, layer) is not None
    kind, local = "sliding_attention" if is_local else "full_attention", "rope_local_base_freq"
    if kind in table:
        return table[kind]
    if is_local and config.get(local):
        return {"rope_theta": config[local]}
    for key, usual in (("rope_theta", 10000.0), ("partial_rotary_factor", 1.0)):
        table.setdefault(key, config.get(key, usual))
    return table


def turned(config, rope):
    """How many features of each head turn; the others come after them."""
    return int(config["head_dim"] * rope.get("partial_rotary_factor", 1.0))


def frequencies(config, rope):
    """(turned / 2,): by how much a position turns each pair of features, in radians; and a scale of the pairs."""
    half = turned(config, rope) // 2
    base = math.log2(rope["rope_theta"])
    pairs = lg.arange(half).float()
    turns = (pairs * (-base / half)).exp2()
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return turns, 1.0
    if kind in ("longrope", "su"):
        return stretched(config, rope, turns)
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


def stretched(config, rope, turns):
    """Turns that are divided by a factor each, https://arxiv.org/abs/2402.13753: one set for texts of the length that
    the model was made for, another one for models of longer texts, whatever the text at hand is.
    """
    most = config["max_position_embeddings"]
    made_for = rope.get("original_max_position_embeddings") or config.get(
        "original_max_position_embeddings", most
    )
    factors = rope["short_factor" if config["length"] <= made_for else "long_factor"]
    scale = rope.get("attention_factor")
    if scale is None:
        scale = math.sqrt(1 + math.log(max(most / made_for, 1)) / math.log(made_for))
    return turns / lg.tensor(factors), scale


def window(config, layer):
    """How many tokens back the layer looks; None: all."""
    kinds, pattern = config.get("layer_types"), config.get("sliding_window_pattern")
    if kinds:
        looks_back = kinds[layer] == "sliding_attention"
    elif pattern is not None:  # all but each last one of so many
        looks_back = (layer + 1) % pattern != 0
    else:  # Qwen 2 names a window, and whether and from which layer on it is used
        looks_back = config.get("use_sliding_window", True)
        first = 28 if str(config.get("model_type")).startswith("qwen") else 0  # if it names none
        looks_back = looks_back and layer >= config.get("max_window_layers", first)
    return config.get("sliding_window") if looks_back else None


def capped(x, most):
    """Between -most and most, softly; as it is where there is none."""
    return (x / most).tanh() * most if most else x


class Norm(nn.Module):
    def __init__(self, width, config):
        self.width, self.eps = width, config["rms_norm_eps"]
        self.adds = config["family"].norm_adds
        self.weight = nn.Parameter(width)

    def forward(self, x):
        weight = self.weight + self.adds if self.adds else self.weight
        return functional.rms_norm(x, (self.width,), weight, self.eps)


class Cache:
    """Keys or values of each position, (heads, rows, features); in a ring where there are fewer rows than positions.

    In i8 the greatest number of a row is 127, and its scale is kept beside it.
    """

    def __init__(self, name, shape, dtype, length, window):
        self.rows, self.window = shape[-2], window
        self.is_ring, self.is_scaled = self.rows < length, dtype is lg.i8

        def state(name, features, dtype):
            form = (*shape[:-1], features)
            ring = {"window": window} if self.is_ring else {}
            return (nn.RingCache if self.is_ring else nn.State)(name, form, dtype, **ring)

        self.numbers = state(name, shape[-1], dtype)
        if self.is_scaled:
            self.scales = state(f"{name}.scales", 1, lg.f32)

    def write(self, x, position):
        """Put x (heads, n, features) at the position of the first of them."""
        if self.is_scaled:
            scales = x.abs().amax(-1, keepdim=True) / 127
            self._put(self.scales, scales, position)
            x = (x / scales.clamp(min=1e-30) + 0.5).floor()
        self._put(self.numbers, x, position)

    def _put(self, state, x, position):
        if self.is_ring:
            state.write(x, position)
        else:
            state[:, position : position + x.shape[1]] = x

    def scaled(self, x):
        """x (.., rows) times the scale of each row: where numbers are small integers, products of these come first."""
        return x * self.scales.squeeze(-1).unsqueeze(1).unsqueeze(1) if self.is_scaled else x

    def seen(self, position, n):
        """(n, rows): what the queries at `position` and after it see."""
        if self.is_ring:
            return self.numbers.seen(position, n)
        behind = (lg.arange(n) + position).unsqueeze(-1) - lg.arange(self.rows)
        return (behind >= 0) & (behind < self.window) if self.window else behind >= 0


class Attention(nn.Module):
    def __init__(self, config, layer, chunk):
        hidden, family, length = config["hidden_size"], config["family"], config["length"]
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.width, self.length = config["head_dim"], length
        self.window = window(config, layer)
        rope = rotation(config, layer)
        self.turned = turned(config, rope)
        self.turns = lambda: frequencies(config, rope)
        self.scale = config.get("query_pre_attn_scalar", self.width) ** -0.5
        self.cap = config.get("attn_logit_softcapping")
        self.is_fused = family.is_fused
        self.rows = [self.heads * self.width, *[self.groups * self.width] * 2]
        is_biased = config.get("attention_bias", False)
        bias = is_biased or family.has_biased_projections
        if self.is_fused:
            self.qkv_proj = nn.Linear(hidden, sum(self.rows), bias=bias)
        else:
            self.q_proj, self.k_proj, self.v_proj = (
                nn.Linear(hidden, rows, bias=bias) for rows in self.rows
            )
        bias = is_biased and not family.has_biased_projections
        self.o_proj = nn.Linear(self.heads * self.width, hidden, bias=bias)
        self.q_norm = self.k_norm = nn.Identity()
        if family.has_head_norms:
            self.q_norm, self.k_norm = Norm(self.width, config), Norm(self.width, config)
        # a window needs no more rows than it sees, and those that a chunk adds before its first token looks back
        rows = min(self.window + chunk - 1 if self.window else length, length)
        shape = (self.groups, rows, self.width)
        self.keys, self.values = (
            Cache(f"layers.{layer}.self_attn.{part}", shape, config["cache"], length, self.window)
            for part in ("keys", "values")
        )

    def projected(self, x):
        """Queries, keys and values, (heads, sequence, head_dim) each."""
        if self.is_fused:
            parts = self.qkv_proj(x).split(self.rows, -1)
        else:
            parts = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return tuple(y.unflatten(-1, (-1, self.width)).transpose(0, 1) for y in parts)

    def rotated(self, x, positions):
        """x (heads, sequence, head_dim), the halves of whose turned features are the two features of each pair."""
        turns, scale = self.turns()
        angles = positions.float().unsqueeze(-1) * turns
        cos, sin = angles.cos() * scale, angles.sin() * scale
        first, second = x[..., : self.turned].chunk(2, -1)
        pairs = [first * cos - second * sin, second * cos + first * sin]
        rest = [x[..., self.turned :]] if self.turned < self.width else []
        return lg.cat([*pairs, *rest], -1)

    def forward(self, x, position):
        n = x.shape[0]
        positions = lg.arange(n) + position
        q, k, v = self.projected(x)
        q = self.rotated(self.q_norm(q), positions)
        k = self.rotated(self.k_norm(k), positions)
        self.keys.write(k, position)
        self.values.write(v, position)
        seen = self.keys.seen(position, n)
        q = q.unflatten(0, (self.groups, -1))  # (groups, heads of a group, sequence, head_dim)
        scores = q @ self.keys.numbers.float().unsqueeze(1).transpose(-1, -2) * self.scale
        scores = capped(self.keys.scaled(scores), self.cap)
        weights = self.values.scaled(scores.masked_fill(~seen, float("-inf")).softmax(-1))
        read = (weights @ self.values.numbers.float().unsqueeze(1)).flatten(0, 1)
        return self.o_proj(read.transpose(0, 1).flatten(1))


class MLP(nn.Module):
    def __init__(self, config):
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        bias = config.get("mlp_bias", False)
        self.act, self.is_fused = activation(config), config["family"].is_fused
        if self.is_fused:
            self.gate_up_proj = nn.Linear(hidden, 2 * inner, bias=bias)
        else:
            self.gate_proj = nn.Linear(hidden, inner, bias=bias)
            self.up_proj = nn.Linear(hidden, inner, bias=bias)
        self.down_proj = nn.Linear(inner, hidden, bias=bias)

    def forward(self, x):
        if self.is_fused:
            gate, up = self.gate_up_proj(x).chunk(2, -1)
        else:
            gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(self.act(gate) * up)


def activation(config):
    return ACTIVATIONS[config.get("hidden_activation", config.get("hidden_act", "silu"))]


class Stack(nn.Module):
    """A matrix for each expert."""

    def __init__(self, experts, columns, rows):
        self.weight = nn.Parameter(experts, rows, columns)


class Experts(nn.Module):
    def __init__(self, config, count):
        hidden = config["hidden_size"]
        inner = config.get("moe_intermediate_size") or config["intermediate_size"]
        self.act = activation(config)
        self.gate_proj = Stack(count, hidden, inner)
        self.up_proj = Stack(count, hidden, inner)
        self.down_proj = Stack(count, inner, hidden)

    def some(self, x, chosen, odds):
        """x (1, hidden) of one token, the numbers and the odds of its experts (k,): no other weights are read."""
        gate, up, down = (
            stack.weight.index_select(0, chosen).transpose(-1, -2)
            for stack in (self.gate_proj, self.up_proj, self.down_proj)
        )
        inner = self.act(x @ gate) * (x @ up) * odds.unsqueeze(-1).unsqueeze(-1)
        return (inner @ down).sum(0)

    def every(self, x, odds):
        """x (tokens, hidden), odds (tokens, experts), 0 of those not chosen: all weights are read, each once."""
        gate, up, down = self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight
        inner = self.act(functional.linear(x, gate.flatten(0, 1)))
        inner = inner * functional.linear(x, up.flatten(0, 1))
        inner = inner.unflatten(-1, (gate.shape[0], -1)) * odds.unsqueeze(-1)
        return inner.flatten(1) @ down.transpose(1, 2).flatten(0, 1)


class Mixture(nn.Module):
    def __init__(self, config):
        self.count = config.get("num_experts") or config["num_local_experts"]
        self.most, self.adds_to_1 = config["num_experts_per_tok"], config.get("norm_topk_prob")
        self.gate = nn.Linear(config["hidden_size"], self.count, bias=False)
        self.experts = Experts(config, self.count)

    def forward(self, x):
        odds = self.gate(x).softmax(-1)
        best, chosen = odds.topk(self.most, -1)
        total = best.sum(-1, keepdim=True) if self.adds_to_1 else 1.0
        if isinstance(x.shape[0], int):
            return self.experts.some(x, chosen[0], (best / total)[0])
        is_chosen = (chosen.unsqueeze(-1) == lg.arange(self.count)).any(1)
        return self.experts.every(x, lg.where(is_chosen, odds / total, 0.0))


def feed_forward(config, layer):
    """Experts where the configuration has them, and not in the layers that it excepts."""
    has_experts = config.get("num_experts") or config.get("num_local_experts")
    is_excepted = layer in config.get("mlp_only_layers", ())
    if not has_experts or is_excepted or (layer + 1) % config.get("decoder_sparse_step", 1):
        return MLP(config)
    return Mixture(config)


class Layer(nn.Module):
    def __init__(self, config, layer, chunk):
        hidden = config["hidden_size"]
        self.has_norms_after = config["family"].has_norms_after
        self.input_layernorm = Norm(hidden, config)
        self.self_attn = Attention(config, layer, chunk)
        self.post_attention_layernorm = Norm(hidden, config)
        if self.has_norms_after:
            self.pre_feedforward_layernorm = Norm(hidden, config)
            self.post_feedforward_layernorm = Norm(hidden, config)
        self.mlp = feed_forward(config, layer)

    def forward(self, x, position):
        read = self.self_attn(self.input_layernorm(x), position)
        if self.has_norms_after:
            x = x + self.post_attention_layernorm(read)
            found = self.mlp(self.pre_feedforward_layernorm(x))
            return x + self.post_feedforward_layernorm(found)
        x = x + read
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, config, chunk):
        hidden = config["hidden_size"]
        self.scale = hidden**0.5 if config["family"].scales_embeddings else None
        self.embed_tokens = nn.Embedding(config["vocab_size"], hidden)
        count = config["num_hidden_layers"]
        self.layers = nn.ModuleList([Layer(config, i, chunk) for i in range(count)])
        self.norm = Norm(hidden, config)

    def forward(self, ids, position):
        x = self.embed_tokens(ids)
        x = x if self.scale is None else x * self.scale
        for layer in self.layers:
            x = layer(x, position)
        return self.norm(x[-1:])  # of the last token alone


class Llama(nn.Module):
    def __init__(self, config, chunk, *, is_tied):
        self.model = Decoder(config, chunk)
        self.cap = config.get("final_logit_softcapping")
        self.is_tied = is_tied
        if not is_tied:
            self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, ids, position):
        x = self.model(ids, position)
        head = self.model.embed_tokens.weight if self.is_tied else self.lm_head.weight
        return capped(functional.linear(x, head).squeeze(0), self.cap)


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
    cache: Literal["f32", "bf16", "f16", "q8"] = "f32",
    *,
    program: bool = True,
):
    """A text has up to `length` tokens (0: as many as the checkpoint was made for); `prefill` come at a time.

    `cache` is the type of the keys and values that are kept: f32, bf16, f16, or q8 for bytes with a scale for each row.
    Where the checkpoint has a tokenizer a program comes with the model, unless `program` is false.
    """
    config = read_config(weights, length)
    config["cache"] = CACHES[cache]
    length = config["length"]
    net = Llama(config, prefill, is_tied=has_tied_head(config, weights))
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
