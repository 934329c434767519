"""What a file of GGUF is by the names of Hugging Face: tensors of its checkpoints, keys of its config.json.

Promises for the architectures in FAMILIES that one model.py, written for the checkpoint of Hugging Face,
reads the file of GGUF that llama.cpp's `convert_hf_to_gguf.py` makes of it: `Weights` answers to both
names, and what the converter rearranges is put back.

* Architecture `llama` (Llama, Mistral, Mixtral's attention): the rotary embedding of llama.cpp turns
  neighbouring pairs (2i, 2i + 1) of a head, that of Hugging Face pairs of halves (i, i + d / 2). For this
  architecture alone the converter rearranges the rows of q and k, weights and biases, head by head:
  `reshape(heads, 2, d / 2, ..).swapaxes(1, 2)` (`LlamaModel.permute`, where `undo_permute` is set). Here
  row i of the first or second half comes from row 2i or 2i + 1. k has `head_count_kv` heads.
* `qwen2`, `qwen3`, `gpt2`: llama.cpp turns halves too, or nothing, and no rows are moved.
* `gpt2`: Hugging Face keeps the weights of its `Conv1D` as (in, out); the converter transposes them.
* `gemma2`, `gemma3`: the converter adds 1 to the weights of norms, which Hugging Face adds as it computes.
* `qwen3moe`, and `llama` with experts: those of a layer are one tensor, (experts, rows, columns), in GGUF. Hugging
  Face has one for each, which `of_experts` calls like the stack of them; Mixtral's w1, w2 and w3 are its gate_proj,
  down_proj and up_proj. llama.cpp makes the odds of the chosen experts of both add up to 1.
* What GGUF leaves out and llama.cpp knows by the architecture, in FAMILIES: by what scores are scaled, which layers
  look back over a window, and how fast these turn.
* Tied embeddings: a file without `output.weight` has `tie_word_embeddings`, and no `lm_head.weight`.
* Scaled frequencies of Llama 3 are a tensor in GGUF, `rope_freqs.weight`, by which frequencies are
  divided; the numbers it was made of are not kept. They follow from it but for a common scale of
  `low_freq_factor`, `high_freq_factor` and `original_max_position_embeddings`, which changes nothing:
  `rope_scaling` has them with a `low_freq_factor` of 1. Any other tensor of factors is Hugging Face's
  `longrope` with an `attention_factor` of 1, whose `short_factor` and `long_factor` are both the tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from lumigen.weights.opened import Alias
from lumigen.weights.stored import Array, StoredTensor, bad

Metadata = Mapping[str, Any]

# (in GGUF, at Hugging Face) of a layer, less .weight or .bias
LLAMA_LAYER = (
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
)
LLAMA_REST = (
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
)
FUSED_LAYER = (
    ("attn_norm", "input_layernorm"),
    ("attn_qkv", "self_attn.qkv_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.gate_up_proj"),
    ("ffn_down", "mlp.down_proj"),
)
GEMMA_LAYER = (
    *(row for row in LLAMA_LAYER if row[0] != "ffn_norm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
)
EXPERT_LAYER = (
    *LLAMA_LAYER,
    ("ffn_gate_inp", "mlp.gate"),
    ("ffn_gate_exps", "mlp.experts.gate_proj"),
    ("ffn_up_exps", "mlp.experts.up_proj"),
    ("ffn_down_exps", "mlp.experts.down_proj"),
)
GPT2_LAYER = (
    ("attn_norm", "ln_1"),
    ("attn_qkv", "attn.c_attn"),
    ("attn_output", "attn.c_proj"),
    ("ffn_norm", "ln_2"),
    ("ffn_up", "mlp.c_fc"),
    ("ffn_down", "mlp.c_proj"),
)
GPT2_REST = (
    ("token_embd", "transformer.wte"),
    ("position_embd", "transformer.wpe"),
    ("output_norm", "transformer.ln_f"),
    ("output", "lm_head"),
)
GPT2_KEYS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "n_ctx": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "activation_function": "hidden_act",
}


@dataclass(frozen=True)
class Family:
    """Architectures whose checkpoints name their tensors alike.

    `interleaved` names the projections whose rows are pairs in GGUF, `transposed` those that are the
    other way round; weights of norms may be greater by 1 there (`is_above_one`). `keys` are further keys of
    config.json and those that they equal, `said` is what files may leave out. `model_type` is Hugging Face's word
    for the architecture, where it has another one. Scores of a model of `by_hidden` layers are scaled by the hidden
    size of a head, and not by its width.
    """

    layers: str
    layer: tuple[tuple[str, str], ...]
    rest: tuple[tuple[str, str], ...]
    act: str
    interleaved: frozenset[str] = frozenset()
    transposed: frozenset[str] = frozenset()
    is_above_one: bool = False
    keys: tuple[tuple[str, str], ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])
    model_type: str | None = None
    by_hidden: int | None = None


_QWEN = Family("model.layers", LLAMA_LAYER, LLAMA_REST, "silu")
_GEMMA = Family("model.layers", GEMMA_LAYER, LLAMA_REST, "gelu_pytorch_tanh", is_above_one=True)
_ROWS_OF_PAIRS = frozenset({"attn_q", "attn_k"})
FAMILIES: dict[str, Family] = {
    "llama": Family("model.layers", EXPERT_LAYER, LLAMA_REST, "silu", interleaved=_ROWS_OF_PAIRS),
    "qwen2": _QWEN,
    "qwen3": _QWEN,
    "qwen3moe": Family(
        "model.layers",
        EXPERT_LAYER,
        LLAMA_REST,
        "silu",
        said={"norm_topk_prob": True},
        model_type="qwen3_moe",
    ),
    "phi3": Family("model.layers", FUSED_LAYER, LLAMA_REST, "silu"),
    "gemma2": replace(
        _GEMMA,
        said={
            "sliding_window_pattern": 2,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        by_hidden=46,
    ),
    "gemma3": replace(
        _GEMMA,
        said={"sliding_window_pattern": 6, "rope_local_base_freq": 10_000.0},
        model_type="gemma3_text",
        by_hidden=62,
    ),
    "gpt2": Family(
        "transformer.h",
        GPT2_LAYER,
        GPT2_REST,
        "gelu_new",
        transposed=frozenset({"attn_qkv", "attn_output", "ffn_up", "ffn_down"}),
        keys=tuple(GPT2_KEYS.items()),
    ),
}

# key of config.json: the end of GGUF's key, and what it must be
KEYS: dict[str, tuple[str, type]] = {
    "hidden_size": ("embedding_length", int),
    "num_hidden_layers": ("block_count", int),
    "num_attention_heads": ("attention.head_count", int),
    "num_key_value_heads": ("attention.head_count_kv", int),
    "intermediate_size": ("feed_forward_length", int),
    "rms_norm_eps": ("attention.layer_norm_rms_epsilon", float),
    "layer_norm_eps": ("attention.layer_norm_epsilon", float),
    "rope_theta": ("rope.freq_base", float),
    "head_dim": ("attention.key_length", int),
    "vocab_size": ("vocab_size", int),
    "max_position_embeddings": ("context_length", int),
    "sliding_window": ("attention.sliding_window", int),
    "rope_local_base_freq": ("rope.freq_base_swa", float),
    "attn_logit_softcapping": ("attn_logit_softcapping", float),
    "final_logit_softcapping": ("final_logit_softcapping", float),
    "num_local_experts": ("expert_count", int),
    "num_experts_per_tok": ("expert_used_count", int),
    "moe_intermediate_size": ("expert_feed_forward_length", int),
}
NONE_IS_0 = frozenset(
    {
        "sliding_window",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "num_local_experts",
        "num_experts_per_tok",
    }
)
TOKENS = {
    "bos_token_id": "tokenizer.ggml.bos_token_id",
    "eos_token_id": "tokenizer.ggml.eos_token_id",
    "pad_token_id": "tokenizer.ggml.padding_token_id",
}
ROPE_THETA = 10_000.0  # llama.cpp's, and Hugging Face's


def aliases(file: Path, stored: Mapping[str, StoredTensor], metadata: Metadata) -> dict[str, Alias]:
    """The names of Hugging Face for the tensors of a known architecture; none for any other."""
    found: dict[str, Alias] = {}
    family = FAMILIES.get(str(metadata.get("general.architecture")))
    if family is None:
        return found
    rest, layer = dict(family.rest), dict(family.layer)
    for name, tensor in stored.items():
        stem, _, end = name.rpartition(".")
        head, _, number_and_part = stem.partition(".")
        number, _, part = number_and_part.partition(".")
        if end not in ("weight", "bias"):
            continue
        if stem in rest:
            part, target = stem, rest[stem]
        elif head == "blk" and part in layer:
            target = f"{family.layers}.{number}.{layer[part]}"
        else:
            continue
        shape, arrange = tensor.shape, _same
        is_transposed = part in family.transposed and end == "weight"
        if is_transposed:
            shape, arrange = tuple(reversed(shape)), np.transpose
        if part in family.interleaved:
            heads = _heads(file, metadata, int(number) if number.isdecimal() else 0, part)
            if not shape or heads < 1 or shape[0] % (2 * heads):
                why = f"{name[:80]} has {shape[0] if shape else 1} rows, no pairs for {heads} heads"
                raise bad(file, why)
            arrange = partial(in_halves, heads=heads)
        if family.is_above_one and target.endswith("norm"):
            arrange = less_one
        found[f"{target}.{end}"] = Alias(name, shape, arrange, is_transposed)
    return found


EXPERT = re.compile(
    r"(?P<layer>.+\.)(mlp|block_sparse_moe)\.experts\.(?P<at>\d+)\.(?P<part>\w+\.\w+)"
)
MIXTRALS = {
    "w1.weight": "gate_proj.weight",
    "w3.weight": "up_proj.weight",
    "w2.weight": "down_proj.weight",
}
ROUTER = "block_sparse_moe.gate.weight"


def of_experts(names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Tensors of one expert each, by the name of the stack of them: `..mlp.experts.up_proj.weight`.

    Those of which a number between is missing are no stack.
    """
    found: dict[str, dict[int, str]] = {}
    for name in names:
        if (m := EXPERT.fullmatch(name)) is not None:
            stack = f"{m['layer']}mlp.experts.{MIXTRALS.get(m['part'], m['part'])}"
            found.setdefault(stack, {})[int(m["at"])] = name
    return {
        stack: tuple(each[i] for i in range(len(each)))
        for stack, each in found.items()
        if stack not in names and set(each) == set(range(len(each)))
    }


def of_routers(stored: Mapping[str, StoredTensor]) -> dict[str, Alias]:
    """What chooses Mixtral's experts, as the other families call it."""
    return {
        f"{name.removesuffix(ROUTER)}mlp.gate.weight": Alias(name, tensor.shape, _same)
        for name, tensor in stored.items()
        if name.endswith(f".{ROUTER}")
    }


def _same(array: Array) -> Array:
    return array


def less_one(array: Array) -> Array:
    """Weights of a norm to which 1 is still to be added."""
    found = array - array.dtype.type(1)
    found.flags.writeable = False
    return found


def in_halves(array: Array, heads: int) -> Array:
    """The rows of each head: those of even numbers, then those of odd ones."""
    pairs = array.reshape(heads, array.shape[0] // heads // 2, 2, *array.shape[1:])
    found = pairs.swapaxes(1, 2).reshape(array.shape)
    found.flags.writeable = False
    return found


def _heads(file: Path, metadata: Metadata, layer: int, part: str) -> int:
    arch = metadata["general.architecture"]
    keys = [f"{arch}.attention.head_count_kv"] if part == "attn_k" else []
    for key in (*keys, f"{arch}.attention.head_count"):
        value: Any = metadata.get(key)
        if isinstance(value, np.ndarray):  # one for each layer
            of_layers = cast("Array", value)
            value = of_layers[layer].item() if layer < len(of_layers) else None
        if type(value) is int:
            return value
    raise bad(file, f"it has no {arch}.attention.head_count, which its tensors need")


def config(
    file: Path,
    stored: Mapping[str, StoredTensor],
    metadata: Metadata,
    load: Callable[[StoredTensor], Array],
) -> dict[str, Any]:
    """The metadata as they are, and what config.json would say, as far as the file knows."""
    arch = metadata.get("general.architecture")
    if not isinstance(arch, str):
        return dict(metadata)
    family = FAMILIES.get(arch)
    found = _said(file, arch, family, metadata)
    heads, hidden = found.get("num_attention_heads"), found.get("hidden_size")
    found.setdefault("num_key_value_heads", heads)
    if isinstance(heads, int) and isinstance(hidden, int) and heads > 0:
        found.setdefault("head_dim", hidden // heads)
    if "token_embd.weight" in stored:
        found["vocab_size"] = stored["token_embd.weight"].shape[0]
    found["tie_word_embeddings"] = "output.weight" not in stored
    found["attention_bias"] = "blk.0.attn_q.bias" in stored or "blk.0.attn_qkv.bias" in stored
    for key, of in TOKENS.items():
        if isinstance(metadata.get(of), int):
            found[key] = metadata[of]
    rotary = _value(file, f"{arch}.rope.dimension_count", metadata, int)
    if rotary is not None or "rope_theta" in found:
        found.setdefault("rope_theta", ROPE_THETA)
        found["rope_scaling"] = _scaling(file, arch, stored, metadata, load)
    width = found.get("head_dim")
    if isinstance(rotary, int) and isinstance(width, int) and width:
        found["partial_rotary_factor"] = rotary / width
    if family is not None:
        if family.by_hidden is not None and isinstance(heads, int) and isinstance(hidden, int):
            is_by_hidden = found.get("num_hidden_layers") == family.by_hidden
            scaled = hidden / max(heads, 1) if is_by_hidden else found.get("head_dim")
            found["query_pre_attn_scalar"] = scaled
        found |= {key: found[of] for key, of in family.keys if of in found}
    return {**metadata, **{k: v for k, v in found.items() if v is not None or k == "rope_scaling"}}


def _said(file: Path, arch: str, family: Family | None, metadata: Metadata) -> dict[str, Any]:
    """The keys of config.json that the metadata answer, and those that the architecture does."""
    found: dict[str, Any] = {"model_type": arch}
    if family is not None:
        found |= {"hidden_act": family.act, **family.said}
        found["model_type"] = family.model_type or arch
    for key, (end, kind) in KEYS.items():
        value = _value(file, f"{arch}.{end}", metadata, kind)
        if value == 0 and key in NONE_IS_0:
            found.pop(key, None)
        elif value is not None:
            found[key] = value
    if arch == "llama" and "num_local_experts" in found:
        found["model_type"] = "mixtral"
    return found


def _value(file: Path, key: str, metadata: Metadata, kind: type) -> Any:
    """A number of the metadata; one for each layer is a list, unless all are the same."""
    value: Any = metadata.get(key)
    if isinstance(value, np.ndarray):
        values = cast("list[Any]", value.tolist())
        value = values[0] if values and all(v == values[0] for v in values) else values
    if value is None or (isinstance(value, list) and kind is int):
        return cast("Any", value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(file, f"{key} is {str(cast('object', value))[:40]!r}, no number")
    if kind is int and not isinstance(value, int):
        raise bad(file, f"{key} is {value}, no whole number")
    return kind(value)


def _scaling(
    file: Path,
    arch: str,
    stored: Mapping[str, StoredTensor],
    metadata: Metadata,
    load: Callable[[StoredTensor], Array],
) -> dict[str, Any] | None:
    """How rotary frequencies are scaled, as `rope_scaling` has it; None where they are not."""
    ends = {"original_max_position_embeddings": "original_context_length"}
    known = {
        key: value
        for key, end in ends.items()
        if (value := _value(file, f"{arch}.rope.scaling.{end}", metadata, int)) is not None
    }
    if "rope_freqs.weight" in stored:
        factors = _floats(file, stored["rope_freqs.weight"], load)
        theta = _value(file, f"{arch}.rope.freq_base", metadata, float)
        if found := llama3(factors, ROPE_THETA if theta is None else theta):
            return found
        by = {"short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
        return {"rope_type": "longrope", **by, **known}
    names = ("rope_factors_short.weight", "rope_factors_long.weight")
    attention = _value(file, f"{arch}.rope.scaling.attn_factor", metadata, float)
    if all(n in stored for n in names):
        short, long = (_floats(file, stored[n], load) for n in names)
        more = {} if attention is None else {"attention_factor": attention}
        return {
            "rope_type": "longrope",
            "short_factor": short,
            "long_factor": long,
            **more,
            **known,
        }
    kind = metadata.get(f"{arch}.rope.scaling.type")
    if kind is not None and not isinstance(kind, str):
        raise bad(file, f"{arch}.rope.scaling.type is {str(kind)[:40]!r}, no text")
    factor = _value(file, f"{arch}.rope.scaling.factor", metadata, float)
    if kind is None:  # as files had it before there were types
        factor = _value(file, f"{arch}.rope.scale_linear", metadata, float)
        kind = "linear"
    if kind == "none" or factor is None or (kind == "linear" and factor == 1.0):
        return None
    found = {"rope_type": kind, "factor": factor, **known}
    if kind == "yarn" and attention is not None and factor > 1:
        # llama.cpp multiplies by it what Hugging Face computes without an attention_factor
        found["attention_factor"] = attention * (0.1 * math.log(factor) + 1.0)
    return found


def llama3(factors: list[float], theta: float) -> dict[str, Any] | None:
    """Llama 3's scaling that has these factors, if there is one.

    A frequency w is divided by `factor` where w * original / (2 pi) < low, by 1 where it is above high,
    and its inverse factor is linear in w between: a line through those between gives the rest.
    """
    if theta <= 1 or not all(1 <= f < math.inf for f in factors):
        return None
    inverse = 1 / np.array(factors)
    factor = max(factors, default=1.0)
    turns = float(theta) ** (-np.arange(len(factors)) / max(len(factors), 1))
    fast = (inverse - 1 / factor) / (1 - 1 / factor) if factor > 1 else np.zeros(0)
    between = (fast > 1e-4) & (fast < 1 - 1e-4)
    if between.sum() < 2:
        return None
    slope, start = np.polyfit(turns[between], fast[between], 1)
    if slope <= 0 or start >= 0:
        return None
    high = round(1 - 1 / start, 3)
    original = round(slope * 2 * math.pi * (high - 1))
    rounds = turns * original / (2 * math.pi)
    expected = np.clip((rounds - 1) / (high - 1), 0, 1)
    if not np.allclose(expected * (1 - 1 / factor) + 1 / factor, inverse, rtol=1e-3):
        return None
    return {
        "rope_type": "llama3",
        "factor": float(factor),
        "low_freq_factor": 1.0,
        "high_freq_factor": float(high),
        "original_max_position_embeddings": int(original),
    }


def _floats(file: Path, tensor: StoredTensor, load: Callable[[StoredTensor], Array]) -> list[float]:
    if tensor.dtype is None or not tensor.dtype.is_float or len(tensor.shape) != 1:
        raise bad(
            file, f"{tensor.name[:80]} is {tensor.kind}{list(tensor.shape)}, no list of factors"
        )
    return cast("list[float]", load(tensor).astype(np.float64).tolist())
