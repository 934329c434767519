"""The decoders among the examples: caches against whole texts, and all against transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import Compiled, Interpreted, distance, example, random_weights, save, transformer

from lumigen.dtype import DType, bf16, f32
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

# As a share of the greatest logit: sums in another order, and 2^-9 of every number held in bf16.
TOLERANCE = {f32: 1e-4, bf16: 2e-2}

GROUPED = {
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 61,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {
    "n_embd": 32,
    "n_head": 4,
    "n_layer": 2,
    "vocab_size": 61,
    "n_positions": 48,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "beta_fast": 2.0,
    "original_max_position_embeddings": 256,
}
STRETCHED = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.5, 3.0],
    "long_factor": [2.0, 4.0, 8.0],
    "attention_factor": 1.25,
    "original_max_position_embeddings": 12,
    "partial_rotary_factor": 0.75,
}
LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
GEMMA = {
    **GROUPED,
    "head_dim": 16,
    "num_hidden_layers": 3,
    "sliding_window": 5,
    "query_pre_attn_scalar": 24,
}
# in float64 transformers has experts in this form alone
EXPERTS = {**GROUPED, "experts_implementation": "eager"}
WINDOW = {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1}
# example, model and configuration of transformers, sizes
MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "llama": ("llama", "LlamaForCausalLM", "LlamaConfig", {**GROUPED, "rope_parameters": LLAMA3}),
    "mistral": (
        "llama",
        "MistralForCausalLM",
        "MistralConfig",
        {**GROUPED, "sliding_window": 7, "head_dim": 8},
    ),
    "qwen2": ("llama", "Qwen2ForCausalLM", "Qwen2Config", {**GROUPED, **WINDOW}),
    "qwen3": (
        "llama",
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**GROUPED, "head_dim": 32, "tie_word_embeddings": True, "rope_parameters": YARN},
    ),
    "phi3": ("llama", "Phi3ForCausalLM", "Phi3Config", {**GROUPED, "sliding_window": 7}),
    "phi3 stretched": (
        "llama",
        "Phi3ForCausalLM",
        "Phi3Config",
        {
            **GROUPED,
            "original_max_position_embeddings": 12,
            "rope_parameters": STRETCHED,
            "tie_word_embeddings": True,
        },
    ),
    "gemma2": (
        "llama",
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    ),
    "gemma3": (
        "llama",
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**GEMMA, "layer_types": LAYERS},
    ),
    "mixtral": (
        "llama",
        "MixtralForCausalLM",
        "MixtralConfig",
        {**EXPERTS, "num_local_experts": 4, "sliding_window": 6},
    ),
    "qwen3 with experts": (
        "llama",
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        {
            **EXPERTS,
            "head_dim": 16,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 24,
        },
    ),
    "gpt2": ("gpt2", "GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2 with a head": (
        "gpt2",
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "tie_word_embeddings": False},
    ),
}
PARTS = ((0, 9), (9, 10), (10, 11), (11, 20), *((i, i + 1) for i in range(20, 23)))
IDS = np.random.default_rng(1).integers(0, 61, 23)


def logits(context: Interpreted | Compiled) -> dict[int, np.ndarray]:
    """By the number of tokens before: those that each part of the text leaves."""
    found: dict[int, np.ndarray] = {}
    for start, stop in PARTS:
        entry = "decode" if stop == start + 1 else "prefill"
        given = {"ids": IDS[start:stop], "position": np.array(start)}
        found[stop] = context.run(entry, **given)["logits"]
    return found


def test_caches_and_the_whole_text_agree(tmp_path: Path) -> None:
    config = {**GPT2, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    traced, _ = example("gpt2", save(tmp_path, {}, config))
    weights = random_weights(traced)
    for stop, parts in logits(Interpreted(traced, weights)).items():
        given = {"ids": IDS[:stop], "position": np.array(0)}
        whole = Interpreted(traced, weights).run("prefill", **given)["logits"]
        assert distance(parts, whole) < 1e-6


LLAMA = {**GROUPED, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
TOKENS = {"gpt2": "transformer.wte.weight", "llama": "model.embed_tokens.weight"}


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("head", ["none", "the same", "another"])
def test_a_head_is_tied_unless_the_file_has_another_one(
    name: str, head: str, tmp_path: Path
) -> None:
    """As transformers has it, whatever config.json says."""
    more = {"layer_norm_epsilon": 1e-5} if name == "gpt2" else {}
    config = {"gpt2": GPT2, "llama": LLAMA}[name] | more | {"tie_word_embeddings": True}
    table = np.random.default_rng(0).normal(size=(61, 32))
    heads = {"the same": table, "another": table + 1}
    found = {"lm_head.weight": heads[head]} if head != "none" else {}
    traced, _ = example(name, save(tmp_path, {TOKENS[name]: table, **found}, config))
    assert ("lm_head.weight" in {w.name for w in traced.weights}) is (head == "another")


def test_the_first_release_of_gpt2_has_bare_names(tmp_path: Path) -> None:
    config = {**GPT2, "layer_norm_epsilon": 1e-5}
    traced, _ = example("gpt2", save(tmp_path, {"wte.weight": np.zeros((61, 32))}, config))
    assert {"wte.weight", "h.1.mlp.c_fc.bias"} < {w.name for w in traced.weights}


@pytest.mark.slow
def test_kernels_of_a_gpu_keep_the_rules(tmp_path: Path) -> None:
    """Heads that are too narrow for tiles run as vector loops, whose lanes hold no other lanes."""
    config = {**GPT2, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    traced, _ = example("gpt2", save(tmp_path, {}, config))
    lower_model(traced, {}, target=parse_target("cuda:sm_90a"), dtype=bf16)  # which verifies them


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_graphs_give_what_transformers_gives(name: str, tmp_path: Path) -> None:
    folder, model, config, sizes = MODELS[name]
    reference = transformer(tmp_path, model, config, **sizes)
    expected = whole(reference)
    for stop, found in logits(Interpreted(*example(folder, tmp_path))).items():
        assert distance(found, expected[stop - 1]) < 1e-5, stop


def whole(reference: torch.nn.Module) -> np.ndarray:
    with torch.no_grad():
        return reference(torch.from_numpy(IDS)[None]).logits[0].numpy()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("gpt2", f32), ("qwen3", bf16)], ids=str)
def test_the_kernels_give_what_transformers_gives(name: str, dtype: DType, tmp_path: Path) -> None:
    """Logits, and the token that greed takes where the exact logits tell it apart."""
    folder, model, config, sizes = MODELS[name]
    expected = whole(transformer(tmp_path, model, config, **sizes))
    margin = TOLERANCE[dtype] * np.abs(expected).max()
    told = 0
    for stop, found in logits(Compiled(*example(folder, tmp_path), dtype)).items():
        exact = expected[stop - 1]
        assert np.abs(found - exact).max() <= margin
        second, first = np.sort(exact)[-2:]
        if first - second > margin:
            assert found.argmax() == exact.argmax()
            told += 1
    assert told > 2
