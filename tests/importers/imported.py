"""What an imported model computes, by the interpreter, beside what PyTorch computes in double precision."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from lumigen.frontend import Model
from lumigen.interp.graph import step
from lumigen.weights import as_array

CLOSE = 1e-5  # by norm: one rounding to f32, and what conditions of the model make of it


def arrays(given: Any) -> list[np.ndarray]:
    """The tensors in nested containers, in order."""
    return [as_array(t) for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]


def in_f64(given: Any) -> Any:
    """Floats in double precision."""
    return pytree.tree_map(
        lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, given
    )


def expected(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[np.ndarray]:
    """What the module returns, computed in double precision where it can be."""
    kept = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return arrays(copy.deepcopy(module).double()(*in_f64(args), **in_f64(kwargs)))
    finally:
        torch.set_default_dtype(kept)


def run(
    model: Model, args: Sequence[Any], kwargs: Mapping[str, Any], states: Any = None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Outputs and states of one run; tensors go to the inputs in their order."""
    (entry,) = model.entries
    names = [name for name, _ in entry.inputs]
    given = dict(zip(names, arrays((tuple(args), dict(kwargs))), strict=True))
    return step(model.trace().entries[0][1], given, model.values(), states)


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """By norm, relative to what is wanted."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    return float(np.linalg.norm((a - b).ravel()) / max(np.linalg.norm(b.ravel()), 1e-30))


def check(got: Mapping[str, np.ndarray], want: Sequence[np.ndarray], close: float = CLOSE) -> None:
    """Each output has the shape and the values of PyTorch's; integers and bools exactly."""
    assert len(got) == len(want), (list(got), len(want))
    for (name, a), b in zip(got.items(), want, strict=True):
        assert a.shape == b.shape, (name, a.shape, b.shape)
        assert (a.dtype.kind in "fV") == (b.dtype.kind in "fV"), (name, a.dtype, b.dtype)
        if a.dtype.kind in "fV":
            assert distance(a, b) < close, (name, distance(a, b))
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)
