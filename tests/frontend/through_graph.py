"""Runs a function of tensors through its traced graph and the interpreter, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from lumigen.dtype import of_numpy
from lumigen.frontend.model import Entry, trace_entry
from lumigen.frontend.spec import Spec, spec
from lumigen.interp.graph import evaluate
from lumigen.verify.graph import verify


def spec_of(array: np.ndarray) -> Spec:
    dtype = of_numpy(array.dtype)
    assert dtype is not None
    return spec(*array.shape, dtype=dtype)


def interpret(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    specs: Mapping[str, Spec] | None = None,
    brute: bool = False,
) -> Any:
    """What `function` makes of the arrays: one array, or a list of them for a sequence."""
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = {n: (specs or {}).get(n) or spec_of(a) for n, a in zip(names, arrays, strict=True)}
    several = False

    def entry(**given: Any) -> Any:
        nonlocal several
        out = function(*given.values())
        several = isinstance(out, tuple | list)
        return {f"out{i}": t for i, t in enumerate(out)} if several else out

    graph = verify(trace_entry(Entry("entry", entry, tuple(inputs.items()))))
    found = evaluate(graph, dict(zip(names, arrays, strict=True)), {}, brute=brute)
    return list(found.values()) if several else found["out"]


def as_torch(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.copy())


def check(got: np.ndarray, expected: torch.Tensor, rtol: float = 1e-6, atol: float = 0.0) -> None:
    """Same shape and dtype; NaN where NaN is; infinities exactly."""
    want = expected.numpy()
    assert got.shape == want.shape
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
