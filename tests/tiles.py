"""Entries run launch by launch through the interpreter of tile programs, in their own arena."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lumigen import fast_lane
from lumigen.frontend.model import Entry, trace_entry
from lumigen.graph import Graph
from lumigen.index import Dim
from lumigen.interp import tile
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.program import Argument, InputArg, OutputArg, Program, SlotArg, ValueArg, WeightArg


def traced(
    function: Callable[..., Any], names: Mapping[Any, str] | None = None, **inputs: Any
) -> Graph:
    return trace_entry(Entry("entry", function, tuple(inputs.items())), names)


def run_entry(
    model: LoweredModel,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    order: Callable[[int], Iterable[int]] = range,
) -> dict[str, np.ndarray]:
    """The outputs of a model's only entry."""
    (program,) = model.programs
    dims = fast_lane.bind_dims(program, inputs)
    memory = Memory(program, model, inputs, weights, dims)
    for launch in program.launches:
        kernel = next(k for k in model.kernels if k.name == launch.kernel)
        memory.launch(kernel, launch.arguments, order)
    return memory.outputs


class Memory:
    """The arena as bytes, and the arrays around it."""

    def __init__(
        self,
        program: Program,
        model: LoweredModel,
        inputs: Mapping[str, np.ndarray],
        weights: Mapping[str, np.ndarray],
        dims: Mapping[Dim, int],
    ) -> None:
        self.dims, self.inputs = dims, inputs
        self.weights = {s.name: fast_lane.pack(s, weights[s.weight.name]) for s in model.weights}
        self.offsets, total = program.offsets(dims)
        self.arena = np.full(total, 0xFF, np.uint8)  # NaN in every float type
        self.outputs = {
            p.name: np.full([int(e.evaluate(dims)) for e in p.shape], -1).astype(p.dtype.numpy)
            for p in program.outputs
        }

    def launch(
        self,
        kernel: LoweredKernel,
        arguments: tuple[Argument, ...],
        order: Callable[[int], Iterable[int]],
    ) -> None:
        args = kernel.program.args
        pointers = [a for a in arguments if not isinstance(a, ValueArg)]
        buffers = {b.name: self.array(a, b) for b, a in zip(args, pointers, strict=True)}
        dst = kernel.region.stores[0].dst
        home = dict(zip((b.name for b in args), pointers, strict=True))
        place = home.pop(dst.name)
        shared = {name: dst.name for name, a in home.items() if a == place}
        out = tile.run(kernel.program, buffers, self.dims, order=order, shared=shared)
        buffers[dst.name][...] = out[dst.name]

    def array(self, a: Argument, b: Any) -> np.ndarray:
        shape = [int(e.evaluate(self.dims)) for e in b.dims]
        match a:
            case InputArg(name):
                return self.inputs[name].reshape(shape)
            case WeightArg(name):
                return self.weights[name].reshape(shape)
            case OutputArg(name):
                return self.outputs[name].reshape(shape)
            case SlotArg(name):
                size = int(np.prod(shape, dtype=int)) * b.dtype.itemsize
                start = self.offsets[name]
                assert start + size <= self.arena.size
                return self.arena[start : start + size].view(b.dtype.numpy).reshape(shape)
            case _:
                raise TypeError(a)
