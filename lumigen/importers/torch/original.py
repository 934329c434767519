# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""original: an exported program as PyTorch runs it, by the names of the model that is made of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from lumigen.dtype import bf16
from lumigen.frontend.model import Original
from lumigen.importers.torch.ports import port_names
from lumigen.weights import Array, as_array


def original_of(given: Any, program: Any, inputs: Mapping[str, str]) -> Original:
    """`given` as a function; `program` is it without effects, and `inputs` the names of its placeholders.

    Each call is the first one of a context: buffers begin with what the program holds.
    """
    signature = program.graph_signature
    changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
    names = port_names(program, inputs.values())

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        tensors = {name: as_tensor(arrays[port]) for name, port in inputs.items()}
        leaves: list[Any] = [
            tensors.get(placed.arg.name, getattr(placed.arg, "value", None))
            for placed in signature.input_specs
            if placed.kind.name == "USER_INPUT"
        ]
        args, kwargs = pytree.tree_unflatten(leaves, given.call_spec.in_spec)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            results = iter(pytree.tree_leaves(fresh(given, changed)(*args, **kwargs)))
        out: dict[str, Array] = {}
        for placed, name in zip(signature.output_specs, names, strict=True):
            if name is None:
                continue
            is_input = placed.kind.name == "USER_INPUT_MUTATION"
            value = tensors[placed.target] if is_input else next(results)
            if isinstance(value, torch.Tensor | int):
                out[name] = as_array(value)
        return out

    return Original(run, lambda: f"torch {torch.__version__}")


def fresh(given: Any, changed: set[str]) -> torch.nn.Module:
    """The program as a module, with copies of what a run changes: those of the program are the model's weights too."""
    module = given.module()
    for name in changed:
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        value = getattr(owner, last).detach().clone()
        delattr(owner, last)
        owner.register_buffer(last, value)
    return module


def as_tensor(array: Array) -> torch.Tensor:
    """A copy of an array; bfloat16 by its bits, which numpy lacks."""
    if array.dtype == bf16.numpy:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
