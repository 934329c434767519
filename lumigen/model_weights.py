"""model_weights: what a model reads of the weights that it is given, and what it refuses.

Promises to refuse before the work of compiling what can be refused by names, types and shapes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, bf16, f16, f32, of_numpy
from lumigen.errors import (
    BadArgument,
)
from lumigen.frontend import Traced
from lumigen.graph import tensor_of
from lumigen.program import CompiledModel
from lumigen.weights import Weights, check_fit, fitted, missing

Array = npt.NDArray[Any]

DTYPES = (f32, f16, bf16)  # in which a model of f32 can be held


def check_dtype(dtype: DType) -> None:
    """Refuse a dtype in which a model of f32 cannot be stored."""
    if dtype not in DTYPES:
        expected = "lg.f32, lg.f16 or lg.bf16"
        raise BadArgument(op="compile", name="dtype", value=repr(dtype), expected=expected)


def weights_path(directory: Path, name: str) -> Path:
    """Where a project keeps its weights."""
    return directory / "weights" / f"{name}.safetensors"


def check_weights(traced: Traced, weights: Weights | Mapping[str, Array]) -> None:
    """Refuse weights of which a name, a type or a shape is not the model's, before the work of compiling."""
    source = source_of(weights)
    read = {tensor_of(n).name: n for _, g in traced.entries for n in g.weights()}
    for name, n in read.items():
        if name not in weights:
            raise missing(name, source, list(weights), list(read))
        if isinstance(weights, Weights):
            kind, shape = weights.dtype(name), weights.shape(name)
        else:
            array = np.asarray(weights[name])
            kind, shape = of_numpy(array.dtype) or str(array.dtype), array.shape
        check_fit(kind, shape, name, n.dtype, tuple(e.const for e in n.shape), source)


def source_of(weights: Weights | Mapping[str, Array]) -> str:
    """What an error calls the weights."""
    return str(weights.path) if isinstance(weights, Weights) else "the given arrays"


def wanted_weights(
    model: CompiledModel, weights: Weights | Mapping[str, Array]
) -> Mapping[str, Array]:
    """The arrays that the model reads, by name, rounded where it holds f32 in 16 bits.

    Raises for one that is missing or different.
    """
    source = source_of(weights)
    names = list(dict.fromkeys(s.weight.name for s in model.read))
    found: dict[str, Array] = {}
    for w in (s.weight for s in model.read):
        if w.name not in weights:
            raise missing(w.name, source, list(weights), names)
        found[w.name] = fitted(np.asarray(weights[w.name]), w.name, w.dtype, w.shape, source)
    return found


def not_read(weights: Weights | Mapping[str, Array], read: set[str]) -> list[str]:
    """The names in a file, less those that are read under these names or others of theirs."""
    if isinstance(weights, Weights):
        read = {n for name in read for n in weights.stored_names(name)}
    return [name for name in weights if name not in read]


def unused_weights(
    model: CompiledModel, weights: Weights | Mapping[str, Array] | None
) -> tuple[str, ...]:
    """What is in the file and not in the model, less the counters of BatchNorm: only training reads those."""
    others = not_read(weights or {}, {s.weight.name for s in model.read})
    return tuple(sorted(n for n in others if n.rpartition(".")[2] != "num_batches_tracked"))
