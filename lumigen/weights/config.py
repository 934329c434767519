"""The configuration of a checkpoint, checked against what a model computes.

Promises that a value that the model does not compute is NotComputed, and a key that it reads and the file lacks a
BadWeightsFile; both name the key and the value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from lumigen.errors import BadWeightsFile, NotComputed, user_location

Supported = Mapping[str, Collection[Any]]


# keys of Hugging Face's config.json that are numbers wherever they stand
_COUNTS = """
d_model decoder_attention_heads decoder_ffn_dim decoder_layers encoder_attention_heads encoder_ffn_dim encoder_layers
decoder_sparse_step head_dim hidden_size intermediate_size max_position_embeddings max_source_positions
max_target_positions n_ctx n_embd n_head n_inner n_layer n_positions num_attention_heads
num_channels num_hidden_layers num_key_value_heads num_mel_bins sliding_window type_vocab_size vocab_size
"""
COUNTS = frozenset(_COUNTS.split())
_NUMBERS = """
attention_factor attn_logit_softcapping beta_fast beta_slow factor final_logit_softcapping high_freq_factor
layer_norm_eps layer_norm_epsilon low_freq_factor max_window_layers moe_intermediate_size num_experts
num_experts_per_tok num_local_experts original_max_position_embeddings partial_rotary_factor query_pre_attn_scalar
rms_norm_eps rope_local_base_freq rope_theta
"""
NUMBERS = frozenset(_NUMBERS.split())
# those of them that divide, or whose logarithm is taken
POSITIVE = frozenset(
    {"factor", "original_max_position_embeddings", "rope_local_base_freq", "rope_theta"}
)
# a key that is more than another of the same table, which it is reduced by and divides by
ORDERED = {"high_freq_factor": "low_freq_factor"}
# a key that is so many times another: heads that share keys and values, features of a head
SHARED = (
    ("num_attention_heads", "num_key_value_heads", ""),
    ("hidden_size", "num_attention_heads", "head_dim"),  # unless that says it
    ("n_embd", "n_head", ""),
    ("d_model", "encoder_attention_heads", ""),
    ("d_model", "decoder_attention_heads", ""),
)
_FLAGS = """
attention_bias mlp_bias norm_topk_prob qkv_bias scale_attn_by_inverse_layer_idx scale_attn_weights
scale_embedding tie_word_embeddings truncate use_sliding_window
"""
FLAGS = frozenset(_FLAGS.split())


class Config(dict[str, Any]):
    """The keys of a configuration, or of a table in it; reading one that it lacks is a BadWeightsFile.

    A key that is null counts as left out: Hugging Face takes its default for it.
    """

    def __init__(
        self, said: Mapping[str, Any], file: Path, model_types: Collection[str], table: str = ""
    ) -> None:
        super().__init__(said)
        self.file = file
        self.model_types = model_types
        self.table = table
        for key, value in self.items():
            if isinstance(value, dict):
                inner = cast("dict[str, Any]", value)
                self[key] = Config(inner, file, model_types, f"{table}{key}.")
            elif value is not None and (wanted := _instead(key, value)):
                why = f"its {table}{key} is {str(value)[:80]}, where this model reads {wanted}"
                raise _refused(file, why, f"Write {wanted}, or pass another checkpoint.")
        if wrong := self._misfit():
            raise _refused(file, wrong, "Correct one of the two, or pass another checkpoint.")

    def _misfit(self) -> str:
        """What is said of two keys and cannot be of one model, as a clause; empty where nothing is."""
        for more, less in ORDERED.items():
            high, low = self.get(more), self.get(less)
            if high is not None and low is not None and high <= low:
                return f"its {self.table}{more} is {high}, and not above its {less} {low}"
        for whole, part, unless in SHARED:
            count, among = self.get(whole), self.get(part)
            if (
                count is not None
                and among is not None
                and self.get(unless) is None
                and count % among
            ):
                return f"its {self.table}{whole} is {count}, and no multiple of its {part} {among}"
        return ""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value, unless there is none or it is null."""
        found = super().get(key)
        return default if found is None else found

    def setdefault(self, key: str, default: Any = None, /) -> Any:
        """The value; `default`, which it then has, where there is none or it is null."""
        self[key] = self.get(key, default)
        return self[key]

    def __getitem__(self, key: str) -> Any:
        found = super().get(key)
        return self._missing(key) if found is None else found

    def _missing(self, key: str) -> Any:
        why = "there is no such file"
        remedy = f"Pass a checkpoint whose model_type is {_listed(self.model_types)}."
        if self.file.is_file():
            why = f"it has no {self.table}{key}, which this model reads"
        if self.table:
            remedy = f"Complete its {self.table.rstrip('.')}, or pass another checkpoint."
        raise _refused(self.file, why, remedy)


def checked(
    said: Mapping[str, Any], file: Path, model_types: Collection[str], supported: Supported
) -> Config:
    """The configuration in `file`; BadWeightsFile where it says what is not supported."""
    for table in (key.rpartition(".")[0] for key in supported if "." in key):
        value = _value(said, table)
        if value is not None and not isinstance(value, dict):
            why = f"its {table} is {str(value)[:80]}, where this model reads an object"
            remedy = "Write it as an object of keys and values, or pass another checkpoint."
            raise _refused(file, why, remedy)
    for key, values in {"model_type": model_types, **supported}.items():
        value = _value(said, key)
        if value is not None and value not in values and not _are_among(value, values):
            wanted = f"where it is {_listed(values)}" if values else "that leaves it out"
            why = f"its {key} is {str(value)[:80]}, which this model does not compute"
            remedy = f"Pass a checkpoint {wanted}, or extend the model."
            raise NotComputed(where=user_location(), file=str(file), why=why, remedy=remedy)
    return Config(said, file, model_types)


def _instead(key: str, value: object) -> str:
    """What the value of a key must be, where it is something else; empty where it may be so."""
    if key in COUNTS and not (type(value) is int and value > 0):
        return "an integer of at least 1"
    if key == "head_dim" and cast("int", value) % 2:
        return "an even number: features turn in pairs"
    if key in NUMBERS and not (
        type(value) in (int, float) and 0 <= cast("float", value) < math.inf
    ):
        return "a number of at least 0"
    if key in POSITIVE and value == 0:
        return "a number above 0"
    if key in FLAGS and not isinstance(value, bool):
        return "true or false"
    return ""


def _are_among(value: Any, values: Collection[Any]) -> bool:
    """Whether it is a list of such values."""
    return isinstance(value, list) and all(v in values for v in cast("list[Any]", value))


def _value(said: Mapping[str, Any], key: str) -> Any:
    """What is said of a key, of `table.key` in that table, which may be in another; None where nothing is."""
    found: Any = said
    for part in key.split("."):
        found = cast("Mapping[str, Any]", found).get(part) if isinstance(found, Mapping) else None
    return found


def _listed(values: Collection[Any]) -> str:
    return " or ".join(map(str, values))


def _refused(file: Path, why: str, remedy: str) -> BadWeightsFile:
    return BadWeightsFile(where=user_location(), file=str(file), why=why, remedy=remedy)
