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
* Tied embeddings: a file without `output.weight` has `tie_word_embeddings`, and no `lm_head.weight`.
* Scaled frequencies of Llama 3 are a tensor in GGUF, `rope_freqs.weight`, by which frequencies are
  divided; the numbers it was made of are not kept. They follow from it but for a common scale of
  `low_freq_factor`, `high_freq_factor` and `original_max_position_embeddings`, which changes nothing:
  `rope_scaling` has them with a `low_freq_factor` of 1. Any other tensor of factors is Hugging Face's
  `longrope` with an `attention_factor` of 1, whose `short_factor` and `long_factor` are both the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    other way round; `keys` are further keys of config.json and those that they equal.
    """

    layers: str
    layer: tuple[tuple[str, str], ...]
    rest: tuple[tuple[str, str], ...]
    act: str
    interleaved: frozenset[str] = frozenset()
    transposed: frozenset[str] = frozenset()
    keys: tuple[tuple[str, str], ...] = ()


_QWEN = Family("model.layers", LLAMA_LAYER, LLAMA_REST, "silu")
FAMILIES: dict[str, Family] = {
    "llama": Family(
        "model.layers", LLAMA_LAYER, LLAMA_REST, "silu", interleaved=frozenset({"attn_q", "attn_k"})
    ),
    "qwen2": _QWEN,
    "qwen3": _QWEN,
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
}
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
        if end not in ("weight", "bias"):
            continue
        if stem in rest:
            found[f"{rest[stem]}.{end}"] = Alias(name, tensor.shape, _same)
            continue
        head, _, number_and_part = stem.partition(".")
        number, _, part = number_and_part.partition(".")
        if head != "blk" or part not in layer:
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
        found[f"{family.layers}.{number}.{layer[part]}.{end}"] = Alias(
            name, shape, arrange, is_transposed
        )
    return found


def _same(array: Array) -> Array:
    return array


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
    found: dict[str, Any] = {"model_type": arch}
    for key, (end, kind) in KEYS.items():
        value = _value(file, f"{arch}.{end}", metadata, kind)
        if value is not None:
            found[key] = value
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
    family = FAMILIES.get(arch)
    if family is not None:
        found["hidden_act"] = family.act
        found |= {key: found[of] for key, of in family.keys if of in found}
    return {**metadata, **{k: v for k, v in found.items() if v is not None or k == "rope_scaling"}}


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
