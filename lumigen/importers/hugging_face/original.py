# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""original: a checkpoint as the module of `transformers` that its config.json names, in f32.

Promises that no code of the checkpoint is run, that nothing is fetched, and that every weight of the module is from its
files: transformers would draw random numbers for one that is missing.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator, Mapping
from typing import Any, cast

import numpy as np
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import logging

from lumigen.errors import BadCheckpoint
from lumigen.importers.hugging_face.checkpoint import Checkpoint
from lumigen.importers.torch.original import as_tensor
from lumigen.weights import Array, Weights

VERSION = f"transformers {transformers.__version__}"
KERNELS = "attn_implementation"  # a key that may name code to fetch
STORAGE = ("quantization_config", "quantization")
SILENT = 50  # the level of transformers' logging that says of nothing but crashes
TOLD = 200  # characters of another program's error


def original(checkpoint: Checkpoint) -> Any:
    """The module, in evaluation mode; weights of f32 are views of the mapped files. BadCheckpoint."""
    kind = class_of(checkpoint)
    config = config_of(checkpoint, kind)
    floats = floats_of(checkpoint.weights)
    with quiet(), failing(checkpoint, f"{VERSION} cannot load it"):
        module, info = kind.from_pretrained(
            None if floats else checkpoint.folder,
            config=config,
            state_dict=floats,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    _check_loaded(checkpoint, info)
    return module.eval()


def floats_of(weights: Weights) -> dict[str, torch.Tensor] | None:
    """The tensors of a checkpoint in few bits as what they stand for, which transformers needs no package to read.

    None where all are floats in its files.
    """
    if not weights.packed_names:
        return None
    parts = {part for name in weights.packed_names for part in weights.stored_names(name)}
    whole = [name for name in weights.names if name not in parts]
    names = [*weights.packed_names, *filter(weights.has_supported_dtype, whole)]
    return {name: as_tensor(weights[name]) for name in names}


def class_of(checkpoint: Checkpoint) -> Any:
    """The class that the architecture names."""
    name = checkpoint.architecture
    known = checkpoint.model_type in CONFIG_MAPPING
    kind = getattr(transformers, name, None) if name.isidentifier() else None
    if known and isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel):
        return kind
    what = f"no class {name}" if known else f"no model_type {checkpoint.model_type}"
    why, remedy = f"{VERSION} has {what}", "Correct config.json, or install a newer transformers."
    if "auto_map" in checkpoint.config:
        why += "; its code is in the directory, and is not run"
        remedy = "Export the model yourself: lg.from_torch takes any torch.nn.Module."
    raise checkpoint.wrong(why, remedy)


def config_of(checkpoint: Checkpoint, kind: Any) -> Any:
    """The configuration as transformers reads it."""
    with quiet(), failing(checkpoint, f"{VERSION} cannot read its config.json"):
        made = CONFIG_MAPPING[checkpoint.model_type].from_dict(computed(checkpoint.config))
    if kind.config_class is not None and not isinstance(made, kind.config_class):
        why = f"its model_type {checkpoint.model_type} is none of {checkpoint.architecture}"
        raise checkpoint.wrong(why, "Correct model_type or architectures in config.json.")
    return made


def computed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration less what chooses kernels, and how weights are stored: they are floats here."""
    return {
        key: computed(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for key, value in config.items()
        if KERNELS not in key and key not in STORAGE
    }


def _check_loaded(checkpoint: Checkpoint, info: Mapping[str, Any]) -> None:
    """Every weight is there and has its shape."""
    remedy = "Compare config.json and the weights with their originals, and fetch them again."
    lost = sorted(map(str, info["missing_keys"]))
    if unlike := sorted(info["mismatched_keys"], key=str):
        name, held, wanted = unlike[0]
        why = f"{name} is {list(held)} in its files and {list(wanted)} by its config.json"
        raise checkpoint.wrong(why + _more(len(unlike)), remedy)
    if lost:
        why = f"its files lack {lost[0]}, which {checkpoint.architecture} reads"
        raise checkpoint.wrong(why + _more(len(lost)), remedy)


def in_few_bits(weights: Weights, values: Mapping[str, Array]) -> Weights | Mapping[str, Array]:
    """The weights of a model whose `values` are floats, those as the files have them that stand for the same numbers.

    transformers may have given one another name or joined it with others: then it stays floats.
    """
    own = {
        name: array
        for name, array in values.items()
        if weights.packed(name) is None or not np.array_equal(weights[name], array)
    }
    return weights.beside(own) if len(own) < len(values) else values


def _more(count: int) -> str:
    return f" (one of {count})" if count > 1 else ""


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """No warnings and bars of transformers: what matters of them is an error here."""
    level, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(SILENT)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()


@contextlib.contextmanager
def failing(checkpoint: Checkpoint, why: str, remedy: str = "") -> Generator[None]:
    """Whatever another program raises of a checkpoint, as one message."""
    try:
        yield
    except BadCheckpoint:
        raise
    except Exception as e:
        said = f"{type(e).__name__}: {' '.join(str(e).split())[:TOLD].rstrip('.')}"
        remedy = remedy or "Compare the directory with its original, and fetch it again."
        raise checkpoint.wrong(f"{why}: {said}", remedy) from e
