"""Relatives of Llama as files of GGUF, in blocks, as llama.cpp's converter writes them, against transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from small_models import Interpreted, distance, example, transformer
from test_decoders import IDS, MODELS, whole

import lumigen as lg
from lumigen.quantise import quantised

BLOCKS = gguf.GGMLQuantizationType.Q8_0
# rows are whole blocks
SIZES = {"hidden_size": 64, "intermediate_size": 96}
ARCHS = {
    "phi3": gguf.MODEL_ARCH.PHI3,
    "phi3 stretched": gguf.MODEL_ARCH.PHI3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3": gguf.MODEL_ARCH.GEMMA3,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "qwen3 with experts": gguf.MODEL_ARCH.QWEN3MOE,
}
MORE = {
    "phi3 stretched": {"num_attention_heads": 8},
    "gemma2": {"query_pre_attn_scalar": 16},  # a head's width, as of all but the largest
    "gemma3": {"query_pre_attn_scalar": 16, "num_hidden_layers": 6, "layer_types": None},
    "qwen3 with experts": {"moe_intermediate_size": 32, "norm_topk_prob": True},
}


def in_blocks(x: np.ndarray) -> np.ndarray:
    return gguf.quants.quantize(np.ascontiguousarray(x, np.float32), BLOCKS)


def rounded(net: Any) -> None:
    """Matrices become what blocks say."""
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim > 1:
                blocks = in_blocks(p.float().numpy())
                p.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, BLOCKS)))


def stacked(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those of experts, one after the other, under the name without a number."""
    found: dict[str, Any] = {}
    for name in sorted(tensors, key=lambda n: [int(d) for d in re.findall(r"\d+", n)]):
        merged = re.sub(r"experts\.\d+\.", "experts.", name)
        found.setdefault(merged, []).append(tensors[name])
    return {n: parts[0] if "experts" not in n else np.stack(parts) for n, parts in found.items()}


def in_pairs(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(heads, 2, -1, x.shape[-1]).swapaxes(1, 2).reshape(x.shape)


def arranged(name: str, x: np.ndarray, word: str, config: dict[str, Any]) -> np.ndarray:
    """A tensor as the architecture of GGUF has it."""
    if word == "llama" and (m := re.search(r"attn\.([qk])_proj", name)):
        kind = "attention" if m[1] == "q" else "key_value"
        return in_pairs(x, config[f"num_{kind}_heads"])
    return x + 1 if word.startswith("gemma") and name.endswith("norm.weight") else x


def add_keys(w: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """What the converter says of these architectures."""
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    width = config.get("head_dim") or hidden // heads
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(hidden)
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_key_length(width)
    w.add_value_length(width)
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    w.add_rope_freq_base(rope["rope_theta"])
    w.add_rope_dimension_count(int(width * rope.get("partial_rotary_factor", 1)))
    w.add_sliding_window(config.get("sliding_window") or 0)
    rows: dict[str, Callable[[Any], None]] = {
        "attn_logit_softcapping": w.add_attn_logit_softcapping,
        "final_logit_softcapping": w.add_final_logit_softcapping,
        "num_local_experts": w.add_expert_count,
        "num_experts_per_tok": w.add_expert_used_count,
        "moe_intermediate_size": w.add_expert_feed_forward_length,
    }
    for key, add in rows.items():
        if config.get(key) is not None:
            add(config[key])
    if rope["rope_type"] == "longrope":
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        w.add_rope_scaling_attn_factors(rope["attention_factor"])
        for length in ("long", "short"):
            factors = np.array(rope[f"{length}_factor"], np.float32)
            w.add_tensor(f"rope_factors_{length}.weight", factors)


def converted(folder: Path, arch: gguf.MODEL_ARCH) -> Path:
    """The directory as a file of its own."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    word = gguf.MODEL_ARCH_NAMES[arch]
    writer = gguf.GGUFWriter(folder / "model.gguf", word)
    add_keys(writer, config)
    for name, array in stacked(load_file(folder / "model.safetensors")).items():
        found = names.get_name(name, try_suffixes=(".weight",))
        assert found is not None
        made = arranged(name, array, word, config)
        is_matrix = array.ndim > 1 and "ffn_gate_inp" not in found
        data, kind = (in_blocks(made), BLOCKS) if is_matrix else (made, None)
        writer.add_tensor(found, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / "model.safetensors").unlink()
    return folder / "model.gguf"


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHS)
def test_blocks_of_gguf_give_what_transformers_gives(name: str, tmp_path: Path) -> None:
    """Prompts and single tokens, past the window, of the numbers that the blocks stand for."""
    folder, model, config, sizes = MODELS[name]
    reference = transformer(tmp_path, model, config, **{**sizes, **SIZES, **MORE.get(name, {})})
    rounded(reference)
    reference.float().save_pretrained(tmp_path)
    expected = whole(reference.double())
    file = converted(tmp_path, ARCHS[name])
    (tmp_path / "config.json").unlink()
    traced, weights = example(folder, file, length="48")
    made = quantised(traced, weights, None)
    assert made.packed["model.embed_tokens.weight"].kind == "Q8_0"
    assert isinstance(made.weights, lg.Weights)
    context = Interpreted(made.traced, made.weights)
    for entry, start, stop in (("prefill", 0, 11), ("prefill", 11, 22), ("decode", 22, 23)):
        given = {"ids": IDS[start:stop], "position": np.array(start)}
        found = context.run(entry, **given)["logits"]
        assert distance(found, expected[stop - 1]) < 1e-5, stop
