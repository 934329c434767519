# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""text: a causal language model of `transformers` over static caches, as the two entries of a text program.

The caches are buffers of the module that is exported, so that they become states.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import DummyLayer, StaticCache, StaticLayer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from lumigen.errors import BadArgument
from lumigen.frontend import Dim, TextGeneration
from lumigen.importers.hugging_face.checkpoint import Checkpoint
from lumigen.importers.hugging_face.exported import Exported
from lumigen.importers.hugging_face.original import failing, quiet
from lumigen.importers.torch.exported import export
from lumigen.importers.torch.model import Called
from lumigen.importers.torch.ports import model_name

POSITIONS = 4096  # of the caches, where a checkpoint was made for more or does not say
EXAMPLE = 3  # tokens; torch.export takes an example of one for a size that is fixed
FORWARD = "--set way=forward compiles it without caches."
CAUSAL = frozenset(
    name
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    for name in ((names,) if isinstance(names, str) else names)
)


def lacks(checkpoint: Checkpoint, module: Any) -> str:
    """Why a module continues no text over static caches, as a clause; empty where it does."""
    if checkpoint.architecture not in CAUSAL or not module.can_generate():
        return f"{checkpoint.architecture} is no causal language model"
    if not module._can_compile_fullgraph:  # noqa: SLF001  # transformers' word for a static cache
        return "transformers has no static cache for it"
    kinds = {type(layer) for layer in StaticCache(module.config, 1).layers}
    other = sorted(
        k.__name__ for k in kinds if not issubclass(k, StaticLayer) and k is not DummyLayer
    )
    return f"its caches are not of keys and values alone: {', '.join(other)}" if other else ""


def text_program(
    checkpoint: Checkpoint, module: Any, *, length: int = 0, prefill: int = 64, program: bool = True
) -> Exported:
    """`prefill` for up to so many tokens and `decode` for one, over caches of `length` positions.

    Inputs are ids i64[tokens] and position i64[], the output logits f32[vocabulary]. With a tokenizer.json beside it,
    and unless `program` is false, the model carries the program that continues texts.
    """
    length, chunk = _sizes(module, length, prefill)
    with quiet(), failing(checkpoint, "torch.export cannot trace it over its caches", FORWARD):
        text = CachedText(module, length)
        traced = export(
            text,
            (torch.zeros(min(EXAMPLE, chunk), dtype=torch.int64), torch.tensor(0)),
            None,
            {"ids": {0: torch.export.Dim("tokens", min=1, max=chunk)}, "position": None},
        )
    tokens = Dim("tokens", 1, chunk, typical=chunk)
    dims, ids = {"tokens": tokens}, (0, module.get_input_embeddings().num_embeddings - 1)
    many = {"ids": ids, "position": (0, length - tokens)}
    one = {"ids": ids, "position": (0, length - 1)}
    has_program = program and checkpoint.weights.tokenizer is not None
    return Exported(
        traced,
        model_name(checkpoint.model_type),
        (Called("prefill", dims, ranges=many), Called("decode", dims, {"tokens": 1}, one)),
        {("ids", 0): "tokens"},
        (program_of(checkpoint, text.vocabulary),) if has_program else (),
        prefix="module.",
    )


def _sizes(module: Any, length: int, prefill: int) -> tuple[int, int]:
    """How many positions the caches have, and how many tokens come at a time."""
    most = getattr(module.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        most = None
    if length < 0 or (most is not None and length > most):
        expected = f"0 to {most}, the positions that the checkpoint has" if most else "0 or more"
        raise BadArgument(op="compile", name="--set length", value=length, expected=expected)
    length = length or min(most or POSITIONS, POSITIONS)
    if prefill < 2:
        raise BadArgument(
            op="compile", name="--set prefill", value=prefill, expected="2 tokens or more"
        )
    return length, min(prefill, length)


def program_of(checkpoint: Checkpoint, vocabulary: int) -> TextGeneration:
    """The program that continues texts; they end as the configuration says."""
    tokenizer = checkpoint.weights.tokenizer
    assert tokenizer is not None
    ends = ends_of(checkpoint, checkpoint.tokens(vocabulary))
    return TextGeneration(tokenizer=tokenizer, padded=True, ends=ends)


def ends_of(checkpoint: Checkpoint, count: int) -> Sequence[int] | None:
    """The tokens that end a text, less those that the tokenizer never makes; None where nothing is said."""
    said = checkpoint.config.get("eos_token_id")
    ends = said if isinstance(said, list) else [said]
    return [e for e in ends if type(e) is int and 0 <= e < count] or None


class CachedRows(StaticLayer):
    """Keys and values (heads, length, width) of one text: new ones are stored from a position on."""

    keys: Any
    values: Any

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """The caches, empty: their shapes follow from the first keys and values."""
        self.keys, self.values = (
            torch.zeros(x.shape[1], self.max_cache_len, x.shape[-1], dtype=x.dtype)
            for x in (key_states, value_states)
        )
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values, those of the new tokens among them.

        As a choice by place: transformers' own index_copy_ is a search for each place.
        """
        del args, kwargs
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        count = key_states.shape[-2]
        at = torch.arange(self.max_cache_len) - self.cumulative_length
        is_new = ((at >= 0) & (at < count))[:, None]
        at = at.clamp(0, count - 1)
        for held, new in ((self.keys, key_states), (self.values, value_states)):
            held.copy_(torch.where(is_new, new[0].index_select(1, at), held))
        self.cumulative_length = self.cumulative_length + count
        return self.keys[None], self.values[None]


class CachedText(torch.nn.Module):
    """Tokens (tokens,) and the position () of the first to the logits (vocabulary,) after the last."""

    def __init__(self, module: Any, length: int) -> None:
        super().__init__()
        self.module = module
        parameters = inspect.signature(module.forward).parameters
        self.has_positions = "position_ids" in parameters
        self.options = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self.cache = StaticCache(module.config, length)
        layers: list[Any] = [
            layer if isinstance(layer, DummyLayer) else CachedRows(length)
            for layer in self.cache.layers
        ]
        self.cache.layers = layers
        with torch.no_grad():  # once, so that each layer knows the shapes of its caches
            logits = self.logits(torch.zeros(min(2, length), dtype=torch.int64), torch.tensor(0))
        self.vocabulary = logits.shape[-1]
        self.held = [
            (i, layer)
            for i, layer in enumerate(layers)
            if isinstance(layer, CachedRows) and layer.is_initialized
        ]
        for i, layer in self.held:
            self.register_buffer(f"keys_{i}", torch.zeros_like(layer.keys), persistent=False)
            self.register_buffer(f"values_{i}", torch.zeros_like(layer.values), persistent=False)

    def logits(self, ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """The logits after the last token."""
        given = dict[str, Any](self.options)
        if self.has_positions:
            given["position_ids"] = (torch.arange(ids.shape[0]) + position)[None]
        found = self.module(input_ids=ids[None], cache=self.cache, use_cache=True, **given)
        return found.logits[0, -1]

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> dict[str, torch.Tensor]:
        """The buffers stand for the caches while it is traced."""
        for i, layer in self.held:
            layer.keys, layer.values = getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")
            layer.cumulative_length = position
        return {"logits": self.logits(ids, position)}
