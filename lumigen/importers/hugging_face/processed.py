# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""processed: what a module of `transformers` gives for the inputs of a compiled model, which may be an example's.

Examples take tokens, images and sound as files have them: a row for each says what transformers' processors do to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from transformers import WhisperFeatureExtractor

from lumigen.importers.hugging_face.opening import Opened
from lumigen.importers.hugging_face.original import quiet
from lumigen.importers.hugging_face.text import CachedText
from lumigen.importers.torch.ports import output_names
from lumigen.weights import Array, as_array, config_in

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])  # mean and deviation of each channel
CACHED = ("prefill", "decode")
HALF = ([0.5] * 3, [0.5] * 3)


def processed(opened: Opened, module: Any, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The outputs by the names that the compiled model has for them."""
    given = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in inputs.items()}
    run = RUNS[opened.model.name] if opened.chosen.example else RUNS[opened.chosen.way]
    return run(opened, module, given)


def first_run(opened: Opened, entry: str, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """What a new context gives: in those with caches, tokens before the position have keys and values of zeros."""
    module = opened.module
    with torch.no_grad(), quiet():
        if entry not in CACHED:
            return processed(opened, module, inputs)
        ids, position = (torch.from_numpy(inputs[name].copy()) for name in ("ids", "position"))
        text = CachedText(module, int(position) + len(ids))
        return {"logits": as_array(text(ids, position)["logits"])}


def called(opened: Opened, module: Any, given: Mapping[str, Any]) -> dict[str, Array]:
    """A call by names."""
    del opened
    found = module(**given, **({"use_cache": False} if hasattr(module, "generate") else {}))
    leaves, spec = pytree.tree_flatten(found)
    names = output_names(spec, given.keys())
    return {n: as_array(x) for n, x in zip(names, leaves, strict=True) if hasattr(x, "shape")}


def text(opened: Opened, module: Any, given: Mapping[str, Any]) -> dict[str, Array]:
    """The logits after the last of the tokens."""
    del opened
    logits = module(input_ids=given["ids"][None], use_cache=False).logits
    return {"logits": as_array(logits[0, -1])}


def embedding(opened: Opened, module: Any, given: Mapping[str, Any]) -> dict[str, Array]:
    """The mean over the tokens, of length 1."""
    del opened
    kept = given["attention_mask"].unsqueeze(-1)
    mean = (module(**given).last_hidden_state * kept).sum(1) / kept.sum(1)
    return {"embedding": as_array(torch.nn.functional.normalize(mean, dim=-1))}


def classes(opened: Opened, module: Any, given: Mapping[str, Any]) -> dict[str, Array]:
    """The logits of an image of bytes (batch, height, width, channels)."""
    said = config_in(opened.chosen.checkpoint.folder / "preprocessor_config.json")
    mean, deviation = IMAGENET if opened.model.name == "resnet" else HALF
    mean, deviation = said.get("image_mean", mean), said.get("image_std", deviation)
    image = given["image"].float() / 255
    pixels = (image - torch.tensor(mean)) / torch.tensor(deviation)
    return {"logits": as_array(module(pixel_values=pixels.permute(0, 3, 1, 2)).logits)}


def speech(opened: Opened, module: Any, given: Mapping[str, Any]) -> dict[str, Array]:
    """What is heard, and with tokens the logits after the last one."""
    del opened
    bins = module.config.num_mel_bins
    extract: Any = WhisperFeatureExtractor(feature_size=bins)
    sound = given["audio"].double().numpy()[None]
    spectra = extract._np_extract_fbank_features(sound, "cpu")  # noqa: SLF001  # as it is, without padding to 30 s
    features = torch.from_numpy(spectra).float()
    if "ids" not in given:
        return {"hidden": as_array(module.model.encoder(features).last_hidden_state[0])}
    logits = module(features, decoder_input_ids=given["ids"][None], use_cache=False).logits
    return {"logits": as_array(logits[0, -1])}


RUNS: Mapping[str, Callable[[Opened, Any, Mapping[str, Any]], dict[str, Array]]] = {
    "forward": called,
    "text": text,
    "llama": text,
    "gpt2": text,
    "minilm": embedding,
    "vit": classes,
    "resnet": classes,
    "whisper": speech,
}
