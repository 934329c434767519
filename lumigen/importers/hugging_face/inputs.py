# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""inputs: what a model of `transformers` takes, by its signature and its configuration: examples to trace it with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lumigen.importers.hugging_face.checkpoint import Checkpoint
from lumigen.weights import config_in

Bounds = int | tuple[int, int]
BATCH = (1, 64)
LONGEST = 512  # tokens, where more would be possible
SAMPLES = (1_600, 160_000)  # 0.1 to 10 seconds of sound
FRAMES = (16, 1_000)
SIDE = 224  # of an image, where nothing is said
EXAMPLES = {"batch": 2, "sequence": 7, "decoder_sequence": 5, "samples": 4_000, "frames": 24}
TEXT = ("batch", "sequence")
OTHERS = ("generation_config", "kwargs", "args")


@dataclass(frozen=True)
class Input:
    """An example of an input, and the dims that its axes are."""

    example: torch.Tensor
    dims: tuple[str | None, ...]


def ranges_of(checkpoint: Checkpoint, module: Any) -> dict[str, Bounds]:
    """The least and the greatest of each size that a model may have, where the user gives none."""
    longest = longest_of(checkpoint, module)
    return {
        "batch": BATCH,
        "sequence": (1, longest),
        "decoder_sequence": (1, longest),
        "samples": SAMPLES,
        "frames": FRAMES,
    }


def longest_of(checkpoint: Checkpoint, module: Any) -> int:
    """The most tokens, where nobody says how many."""
    most = config_in(checkpoint.folder / "tokenizer_config.json").get("model_max_length")
    said = [most] if isinstance(most, int) and most > 0 else []
    return min([LONGEST, positions_of(module) or LONGEST, *said])


def positions_of(module: Any) -> int | None:
    """How many tokens have a position: those before the first, where padding has one, are none of them."""
    positions = getattr(module.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return None
    tables = [m for m in module.modules() if isinstance(m, torch.nn.Embedding)]
    paddings = [t.padding_idx for t in tables if t.num_embeddings == positions]
    return max(1, positions - max((p + 1 for p in paddings if p is not None), default=0))


def inputs_of(checkpoint: Checkpoint, module: Any, sizes: Mapping[str, Bounds]) -> dict[str, Input]:
    """The inputs by name. BadCheckpoint where the module needs one that is not known here."""
    accepted = inspect.signature(module.forward).parameters
    rows = {name: row for name, row in _rows(checkpoint, module, sizes) if name in accepted}
    needed = [
        name
        for name, p in accepted.items()
        if p.default is p.empty and name not in rows and p.kind is not p.VAR_KEYWORD
    ]
    if needed or not rows:
        why = f"{checkpoint.architecture} takes {', '.join(needed) or 'nothing that is known here'}"
        remedy = "lg.from_torch takes the module with example inputs of yours."
        raise checkpoint.wrong(why, remedy)
    return rows


def _rows(
    checkpoint: Checkpoint, module: Any, sizes: Mapping[str, Bounds]
) -> Iterator[tuple[str, Input]]:
    """The inputs of the module's kind."""
    config, main = module.config, module.main_input_name
    n = {d: example_of(d, bounds) for d, bounds in sizes.items()}
    accepted = inspect.signature(module.forward).parameters
    tokens = torch.ones(n["batch"], n["sequence"], dtype=torch.int64)
    if main == "input_ids":
        yield "input_ids", Input(tokens, TEXT)
        yield (
            "attention_mask",
            Input(torch.ones_like(tokens), TEXT),
        )  # one tensor would be one input
        if (getattr(config, "type_vocab_size", None) or 1) > 1:
            yield "token_type_ids", Input(torch.zeros_like(tokens), TEXT)
        boxes = torch.zeros(*tokens.shape, 4, dtype=torch.int64)
        yield "bbox", Input(boxes, (*TEXT, None))
    if main == "pixel_values" or hasattr(config, "vision_config"):
        shape = pixels_of(checkpoint, getattr(config, "vision_config", config))
        yield (
            "pixel_values",
            Input(torch.zeros(n["batch"], *shape), ("batch", *[None] * len(shape))),
        )
    if main == "input_values":
        yield main, sound_of(config, n)
    if main == "input_features":
        yield main, features_of(config, "input_features_mask" in accepted, n)
    ids = torch.ones(n["batch"], n["decoder_sequence"], dtype=torch.int64)
    yield "decoder_input_ids", Input(ids, ("batch", "decoder_sequence"))


def example_of(dim: str, bounds: Bounds) -> int:
    """A size to trace with: torch.export takes an example of 1 for a size that is fixed."""
    if isinstance(bounds, int):
        return bounds
    low, high = bounds
    return min(max(low, EXAMPLES[dim]), high)


def pixels_of(checkpoint: Checkpoint, config: Any) -> tuple[int, ...]:
    """The shape of an image, or of a video: channels, height and width."""
    said = getattr(config, "image_size", None) or size_said(checkpoint) or SIDE
    height, width = said if isinstance(said, list | tuple) else (said, said)
    frames = getattr(config, "num_frames", None)
    shape = (getattr(config, "num_channels", None) or 3, height, width)
    return (frames, *shape) if frames else shape


def size_said(checkpoint: Checkpoint) -> tuple[int, int] | int | None:
    """What images are cut or scaled to before they come to the model."""
    said = config_in(checkpoint.folder / "preprocessor_config.json")
    for key in ("crop_size", "size"):
        size = said.get(key)
        if isinstance(size, int):
            return size
        if isinstance(size, dict) and {"height", "width"} <= size.keys():
            return size["height"], size["width"]
        if isinstance(size, dict) and isinstance(size.get("shortest_edge"), int):
            return size["shortest_edge"]
    return None


def sound_of(config: Any, n: Mapping[str, int]) -> Input:
    """Samples, or of a model that sees patches a spectrum of a fixed length: (batch, frames, bins)."""
    if hasattr(config, "patch_size") and hasattr(config, "num_mel_bins"):
        spectrum = torch.zeros(n["batch"], config.max_length, config.num_mel_bins)
        return Input(spectrum, ("batch", None, None))
    return Input(torch.zeros(n["batch"], n["samples"]), ("batch", "samples"))


def features_of(config: Any, is_masked: bool, n: Mapping[str, int]) -> Input:
    """Spectra of sound: (batch, bins, frames) of a fixed length, as of Whisper, or (batch, frames, bins)."""
    bins = getattr(config, "num_mel_bins", None) or getattr(
        config, "feature_projection_input_dim", 80
    )
    del is_masked
    if config.model_type == "whisper":
        return Input(
            torch.zeros(n["batch"], bins, 2 * config.max_source_positions), ("batch", None, None)
        )
    return Input(torch.zeros(n["batch"], n["frames"], bins), ("batch", "frames", None))
