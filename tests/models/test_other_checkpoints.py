"""Checkpoints that an example does not compute: each is refused by the key that tells it apart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import example, save
from test_classifiers import VIT
from test_decoders import GPT2, GROUPED
from test_whisper import SIZES

from lumigen import errors

LLAMA = {**GROUPED, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
BERT = {"hidden_size": 24, "vocab_size": 61, "max_position_embeddings": 16}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "gpt2": GPT2,
    "minilm": BERT,
    "vit": VIT,
    "whisper": SIZES,
}
# example, what its configuration says beside, what is wrong, what would be right
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    *(
        ("llama", {"model_type": other}, f"model_type is {other}", "llama or mistral or qwen2")
        for other in ("gemma", "granite", "smollm3", "gpt2")
    ),
    ("gpt2", {"model_type": "qwen2"}, "model_type is qwen2", "it is gpt2"),
    ("minilm", {"model_type": "roberta"}, "model_type is roberta", "it is bert"),
    ("vit", {"model_type": "whisper"}, "model_type is whisper", "it is vit"),
    ("whisper", {"model_type": "vit"}, "model_type is vit", "it is whisper"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act is gelu", "it is silu"),
    ("gpt2", {"activation_function": "relu"}, "activation_function is relu", "gelu_new"),
    ("minilm", {"hidden_act": "relu"}, "hidden_act is relu", "it is gelu"),
    (
        "minilm",
        {"position_embedding_type": "relative_key"},
        "position_embedding_type is relative_key",
        "it is absolute",
    ),
    ("minilm", {"is_decoder": True}, "is_decoder is True", "it is False"),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention is True", "it is False"),
    ("vit", {"hidden_act": "silu"}, "hidden_act is silu", "it is gelu"),
    ("whisper", {"activation_function": "relu"}, "activation_function is relu", "it is gelu"),
    ("whisper", {"tie_word_embeddings": False}, "tie_word_embeddings is False", "it is True"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5", "it is 1"),
    (
        "llama",
        {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        "rope_parameters.partial_rotary_factor is 0.5",
        "it is 1",
    ),
    (
        "llama",
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "rope_scaling.type is dynamic",
        "default or linear or llama3 or yarn",
    ),
    (
        "llama",
        {"rope_parameters": {"full_attention": {"rope_type": "dynamic", "rope_theta": 1e4}}},
        "rope_parameters.full_attention.rope_type is dynamic",
        "default or linear or llama3 or yarn",
    ),
    (
        "llama",
        {"layer_types": ["full_attention", "chunked_attention"]},
        "layer_types is ['full_attention', 'chunked_attention']",
        "sliding_attention or full_attention",
    ),
    ("llama", {"no_rope_layers": [1, 0]}, "no_rope_layers is [1, 0]", "leaves it out"),
    ("llama", {"attention_multiplier": 0.1}, "attention_multiplier is 0.1", "leaves it out"),
    *(
        ("llama", {key: 12.0}, f"{key} is 12.0", "it is 1")
        for key in ("embedding_multiplier", "residual_multiplier", "logits_scaling")
    ),
]


@pytest.mark.parametrize(("name", "more", "why", "right"), REFUSED)
def test_what_is_not_computed_is_refused(
    name: str, more: dict[str, Any], why: str, right: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, {}, CONFIGS[name] | more)
    text = f"config.json cannot be used: its {why}, which this model does not compute."
    with pytest.raises(errors.BadWeightsFile, match=re.escape(text)) as raised:
        example(name, folder)
    assert right in str(raised.value).rpartition("compute. ")[2]


def test_usual_values_may_be_said(tmp_path: Path) -> None:
    said = {"model_type": "mistral", "hidden_act": "silu", "partial_rotary_factor": 1.0}
    said |= {"logits_scaling": 1.0, "no_rope_layers": None}
    rope = {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}
    example("llama", save(tmp_path, {}, LLAMA | said | rope))


def test_null_stands_for_the_usual_value(tmp_path: Path) -> None:
    said = {"num_key_value_heads": None, "rope_theta": None, "rope_scaling": None}
    said |= {"model_type": "qwen2", "sliding_window": 5, "max_window_layers": None}
    example("llama", save(tmp_path, {}, LLAMA | said))


FAMILIES = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "phi3",
    "gemma2",
    "gemma3_text",
    "mixtral",
    "qwen3_moe",
)
# example, the example whose configuration it is given, the first key that is missing, what it computes
OTHERS = [
    ("llama", "gpt2", "hidden_size", " or ".join(FAMILIES)),
    ("gpt2", "llama", "n_positions", "gpt2"),
    ("vit", "whisper", "hidden_size", "vit or deit"),
    ("whisper", "vit", "d_model", "whisper"),
    ("minilm", "gpt2", "max_position_embeddings", "bert"),
]


@pytest.mark.parametrize(("name", "other", "key", "types"), OTHERS)
def test_a_key_that_is_missing_is_named(
    name: str, other: str, key: str, types: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, {"classifier.bias": np.zeros(5)}, CONFIGS[other])
    with pytest.raises(errors.BadWeightsFile) as raised:
        example(name, folder)
    assert raised.value.where is not None
    assert raised.value.where.file.endswith(f"{name}/model.py")
    assert str(raised.value).endswith(
        f": [weights] {folder / 'config.json'} cannot be used: it has no {key}, which this model "
        f"reads. Pass a checkpoint whose model_type is {types}."
    )


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("attn_logit_softcapping", "x", "a number of at least 0"),
        ("query_pre_attn_scalar", -1, "a number of at least 0"),
        ("rope_local_base_freq", "1e4", "a number of at least 0"),
        ("rope_local_base_freq", 0, "a number above 0"),
        ("tie_word_embeddings", "no", "true or false"),
        ("num_local_experts", "4", "a number of at least 0"),
        ("decoder_sparse_step", 0, "an integer of at least 1"),
    ],
)
def test_a_value_that_is_no_number_is_named(
    key: str, value: Any, wanted: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, {}, LLAMA | {key: value})
    text = f"its {key} is {value}, where this model reads {wanted}. Write {wanted}"
    with pytest.raises(errors.BadWeightsFile, match=re.escape(text)):
        example("llama", folder)


NEEDED = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
}


@pytest.mark.parametrize("table", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(("kind", "key"), [(kind, k) for kind, ks in NEEDED.items() for k in ks])
def test_a_key_that_is_missing_in_a_table_is_named(
    kind: str, key: str, table: str, tmp_path: Path
) -> None:
    said = {"rope_type": kind, **{k: 4.0 + i for i, k in enumerate(NEEDED[kind]) if k != key}}
    folder = save(tmp_path, {}, LLAMA | {table: said})
    with pytest.raises(errors.BadWeightsFile) as raised:
        example("llama", folder)
    assert str(raised.value).endswith(
        f": [weights] {folder / 'config.json'} cannot be used: it has no {table}.{key}, which this "
        f"model reads. Complete its {table}, or pass another checkpoint."
    )


@pytest.mark.parametrize("table", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("value", [["linear", 2.0], [], "linear", "", 2.0, False])
def test_a_table_that_is_none_is_named(table: str, value: Any, tmp_path: Path) -> None:
    folder = save(tmp_path, {}, LLAMA | {table: value})
    with pytest.raises(errors.BadWeightsFile) as raised:
        example("llama", folder)
    assert str(raised.value).endswith(
        f": [weights] {folder / 'config.json'} cannot be used: its {table} is {value}, where this "
        "model reads an object. Write it as an object of keys and values, or pass another checkpoint."
    )


def test_weights_alone_lack_their_configuration(tmp_path: Path) -> None:
    folder = save(tmp_path, {}, {})
    (folder / "config.json").unlink()
    with pytest.raises(errors.BadWeightsFile, match=r"config\.json cannot .* there is no such"):
        example("llama", folder)


def test_an_option_says_which_values_it_takes(tmp_path: Path) -> None:
    text = "option cache cannot be 'bf8'. Pass one of f32, bf16, f16, q8."
    with pytest.raises(errors.BadArgument, match=re.escape(text)):
        example("llama", save(tmp_path, {}, LLAMA), cache="bf8")
