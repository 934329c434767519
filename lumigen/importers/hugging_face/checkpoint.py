"""checkpoint: a directory of Hugging Face: which model it holds, and its weights by name.

Promises that nothing in the directory is run, and that one that is damaged, or says what its files do not hold, is one
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lumigen.errors import BadCheckpoint
from lumigen.missing import advice
from lumigen.weights import Weights, config_beside, open_weights

CONFIG = "config.json"
SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# what a directory without config.json may be: a file in it, what that says, what to do
OTHERS = (
    (
        "adapter_config.json",
        "it holds an adapter, no model",
        "Merge the adapter into its model: merge_and_unload() of peft, then save_pretrained.",
    ),
    (
        "model_index.json",
        "it holds a pipeline of several models",
        "Name the directory of one of them that has a config.json.",
    ),
    (
        "*.gguf",
        "it holds GGUF and no config.json",
        "Name the model.py of an example, and the file with --weights.",
    ),
)
LAYERS = ("layers", "layer", "depth")  # how keys that count layers end


@dataclass(frozen=True)
class Checkpoint:
    """What a directory holds; `architecture` is the class of `transformers` that its tensors belong to."""

    folder: Path
    config: Mapping[str, Any]
    model_type: str
    architecture: str
    weights: Weights

    def wrong(self, why: str, remedy: str) -> BadCheckpoint:
        return BadCheckpoint(directory=str(self.folder), why=why, remedy=remedy)

    def tokens(self, vocabulary: int) -> int:
        """How many its tokenizer has; BadCheckpoint where the model has fewer, 0 without a tokenizer."""
        tokenizer = self.weights.tokenizer
        count = 0 if tokenizer is None else len(tokenizer.tokens)
        if count > vocabulary:
            why = f"its tokenizer.json has {count} tokens, and the model {vocabulary}"
            raise self.wrong(why, "Put the tokenizer there that the model was trained with.")
        return count


def is_checkpoint(path: str) -> bool:
    """Whether a path is a directory that is to be read as one of Hugging Face: one of Python files is not."""
    folder = Path(path)
    if not folder.is_dir():
        return False
    return (folder / CONFIG).exists() or not any(folder.glob("*.py"))


def read_checkpoint(path: str | Path) -> Checkpoint:
    """The checkpoint, its configuration and the headers of its weights checked; BadCheckpoint, BadWeightsFile."""
    folder = Path(path)

    def wrong(why: str, remedy: str) -> BadCheckpoint:
        return BadCheckpoint(directory=str(folder), why=why, remedy=remedy)

    if not folder.is_dir():
        instead = "Name a directory that has a config.json and a model.safetensors."
        raise wrong("there is no such directory", advice(folder, instead, Path.is_dir))
    if not (folder / CONFIG).is_file():
        for pattern, why, remedy in OTHERS:
            if any(folder.glob(pattern)):
                raise wrong(why, remedy)
        remedy = "Name a directory that save_pretrained of transformers wrote, or a Python file."
        raise wrong(f"it has no {CONFIG}", remedy)
    config = config_beside(folder)
    model_type, architecture = config.get("model_type"), _first(config.get("architectures"))
    if not isinstance(model_type, str) or not model_type:
        remedy = 'Write the model_type of transformers into it, such as "bert".'
        raise wrong(f"its {CONFIG} has no model_type", remedy)
    if architecture is None:
        remedy = 'Write the class that the weights belong to into it, such as ["BertModel"].'
        raise wrong(f"its {CONFIG} has no architectures", remedy)
    if (folder / "adapter_config.json").exists():
        remedy = "Merge the adapter into the model, or remove it from the directory."
        raise wrong("it holds an adapter beside the model", remedy)
    weights = open_weights(_weights_in(folder, wrong))
    _check_layers(config, len(weights), wrong)
    return Checkpoint(folder, config, model_type, architecture, weights)


def _first(named: object) -> str | None:
    """The first of the architectures, if they are a list of texts."""
    names = cast("list[object]", named) if isinstance(named, list) else []
    return names[0] if names and isinstance(names[0], str) and names[0] else None


def _weights_in(folder: Path, wrong: Any) -> Path:
    """The file of safetensors, or the index of its shards; pickles are not read."""
    for name in SAFETENSORS:
        if (folder / name).is_file():
            return folder / name
    if any((folder / name).exists() for name in PICKLED):
        why = f"its weights are in {PICKLED[0]} alone, a pickle, which can run any code"
        remedy = (
            "If you trust it, write them as safetensors: transformers.AutoModel.from_pretrained(DIR)"
            ".save_pretrained(DIR), with the class that config.json names."
        )
        raise wrong(why, remedy)
    remedy = (
        f"Name a directory whose weights are in {SAFETENSORS[0]}, or in shards with their index."
    )
    raise wrong(f"it has no {SAFETENSORS[0]}", remedy)


def _check_layers(config: Mapping[str, Any], tensors: int, wrong: Any) -> None:
    """Each layer has a tensor at least: a count beyond that would keep Python busy before anything else is told."""
    for key, value in config.items():
        if key.endswith(LAYERS) and isinstance(value, int) and value > tensors:
            why = f"its {CONFIG} has {key} {value}, and its files hold {tensors} tensors"
            raise wrong(why, "Compare both with their originals, and fetch them again.")
        if isinstance(value, dict):
            _check_layers(cast("dict[str, Any]", value), tensors, wrong)
