"""Small entries traced, and lowered ones run by the interpreter of programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lumigen import fast_lane
from lumigen.frontend.model import Entry, trace_entry
from lumigen.graph import Graph
from lumigen.interp import program as interp_program
from lumigen.interp.graph import bind_dims
from lumigen.lower.assemble import LoweredModel
from lumigen.program import THREADS


def traced(
    function: Callable[..., Any], names: Mapping[Any, str] | None = None, **inputs: Any
) -> Graph:
    return trace_entry(Entry("entry", function, tuple(inputs.items())), names)


def packed(model: LoweredModel, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights as kernels read them, by the names of their stored forms."""
    return {
        s.name: fast_lane.pack(s, weights[s.weight.name])
        for s in model.weights
        if s.weight.name in weights
    }


def run_entry(
    model: LoweredModel,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    order: Callable[[int], Iterable[int]] = range,
    entry: str | None = None,
    *,
    states: Mapping[str, np.ndarray] | None = None,
    by_region: bool = False,
    threads: int = THREADS.estimate,
) -> dict[str, np.ndarray]:
    """The outputs of an entry, or of a model's only one: what its kernels do, or what they mean.

    The arrays of `states` are written over. Work is divided as for so many threads.
    """
    (program,) = (p for p in model.programs if entry in {None, p.entry})
    kernels = {k.name: k.program for k in model.kernels}
    if model.opening is not None:
        weights = {
            **weights,
            **interp_program.run(model.opening, kernels, packed(model, weights), {}, {}),
        }
    stored = packed(model, weights)
    dims = {**bind_dims(program.inputs, inputs), THREADS: threads}
    meanings = {k.name: k.region for k in model.kernels} if by_region else None
    return interp_program.run(
        program, kernels, stored, inputs, dims, states=states, order=order, meanings=meanings
    )
