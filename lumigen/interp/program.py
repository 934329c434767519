"""What a program does, in numpy: the launches of the variants chosen, in an arena of bytes.

Temporaries lie where the program puts them, so that a slot placed over another one that is alive
spoils its value. Memory holds NaN (and -1 in integers) until it is written, inputs and weights
cannot be written, and no kernel gets less memory than its tensors need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.errors import BadLaunch
from lumigen.index import Dim
from lumigen.interp import region, tile
from lumigen.program import (
    Argument,
    CounterArg,
    Group,
    InputArg,
    Launch,
    MapArg,
    OutputArg,
    PartArg,
    Port,
    Program,
    SlotArg,
    StateArg,
    ValueArg,
    Variant,
    WeightArg,
    whole,
)
from lumigen.region import Buffer, Region
from lumigen.tile import TileProgram

Array = npt.NDArray[Any]
UNWRITTEN = 0xFF  # of every byte: NaN in all float types


def run(
    program: Program,
    kernels: Mapping[str, TileProgram],
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    dims: Mapping[Dim, int],
    *,
    states: Mapping[str, Array] | None = None,
    choose: Callable[[Group], Variant] | None = None,
    order: Callable[[int], Iterable[int]] = range,
    meanings: Mapping[str, Region] | None = None,
) -> dict[str, Array]:
    """The outputs by name.

    `weights` has them as kernels read them, by the names of their stored forms. `choose` takes a
    variant of each group; by itself, the one for these dims on a machine without features. `order`
    says in which order so many tasks of a launch run. With the `meanings` of the kernels a launch
    stores what these say, whatever the kernel's program does. The arrays of `states` are written over.
    """
    memory = _Memory.of(program, weights, inputs, dims, states or {})
    launches = program.taken(dims, choose or (lambda g: g.chosen(dims)))
    for step, launch in enumerate(launches):
        where = f"launch {step} of entry {program.entry}, of kernel {launch.kernel}"
        kernel = kernels[launch.kernel]
        numbers = launch.numbers(dims)
        try:
            views, values = memory.bind(kernel, launch, numbers)
            tasks = int(launch.tasks.evaluate(numbers))
            if meanings is None:
                tile.run_in(kernel, views, values, tasks, order=order)
            else:
                _store_meaning(meanings[launch.kernel], kernel, views, values)
        except Exception as e:
            e.add_note(f"at {where}")
            raise
    return {p.name: memory.outputs[p.name].reshape(_shape(p, dims)) for p in program.outputs}


def _store_meaning(
    meaning: Region, kernel: TileProgram, views: Mapping[str, Array], numbers: Mapping[Dim, int]
) -> None:
    """Write what a region means into its destinations; reads see memory as it was before."""
    shaped = {
        b.name: views[b.name].reshape([int(e.evaluate(numbers)) for e in b.dims])
        for b in kernel.args
    }
    for name, value in region.evaluate(meaning, shaped, numbers).items():
        views[name][:] = value.reshape(-1)


@dataclass(frozen=True)
class _Memory:
    """All that kernels may be handed; outputs and what is only read as flat arrays of their type."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    weights: Mapping[str, Array]
    states: Mapping[str, Array]
    arena: Mapping[str, npt.NDArray[np.uint8]]  # the bytes of each slot; slots may share some

    @staticmethod
    def of(
        program: Program,
        weights: Mapping[str, Array],
        inputs: Mapping[str, Array],
        dims: Mapping[Dim, int],
        states: Mapping[str, Array],
    ) -> _Memory:
        start, total = program.offsets(dims)
        arena = _unwritten(total)
        return _Memory(
            {p.name: _read_only(_checked(inputs[p.name], p, dims)) for p in program.inputs},
            {p.name: _output(p, dims) for p in program.outputs},
            {name: _read_only(w) for name, w in weights.items()},
            {name: s.reshape(-1) for name, s in states.items()},
            {s.name: arena[start[s.name] :][: int(s.bytes.evaluate(dims))] for s in program.arena},
        )

    def bind(
        self, kernel: TileProgram, launch: Launch, numbers: Mapping[Dim, int]
    ) -> tuple[dict[str, Array], dict[Dim, int]]:
        """(memory of the kernel's tensors, values of its numbers) as the launch hands them over."""
        names = [*kernel.dims, *(name for name, _ in kernel.numbers)]
        given = [a for a in launch.arguments if not isinstance(a, MapArg)]  # maps say nothing new
        expected, got = len(kernel.args) + len(names), len(given)
        if got != expected:
            raise BadLaunch(kernel=launch.kernel, what=f"it has {got} arguments, not {expected}")
        tensors = given[: len(kernel.args)]
        values: dict[Dim, int] = {}
        for name, a in zip(names, given[len(tensors) :], strict=True):
            if not isinstance(a, ValueArg):
                raise BadLaunch(kernel=launch.kernel, what=f"the number {name} is given {a}")
            values[name] = int(a.value.evaluate(numbers))
        views: dict[str, Array] = {}
        for b, a in zip(kernel.args, tensors, strict=True):
            start = int(a.base.evaluate(numbers)) if isinstance(a, PartArg) else 0
            views[b.name] = self.view(whole(a), b, start, _size(b, values), launch.kernel)
        return views, values

    def view(self, a: Argument, b: Buffer, start: int, elements: int, kernel: str) -> Array:
        """The memory of `a` from an element on, as so many elements of the kernel's tensor `b`."""
        match a:
            case InputArg(name):
                given = self.inputs[name]
            case OutputArg(name):
                given = self.outputs[name]
            case WeightArg(name, base):
                given = self.weights[name].reshape(-1)[base:]
            case StateArg(name):
                given = self.states[name]
            case CounterArg(_, count):
                given = np.zeros(count, np.int32)
            case SlotArg(name):
                given = self.arena[name]
            case _:
                raise BadLaunch(kernel=kernel, what=f"the tensor {b.name} is given {a}")
        start, needed = start * b.dtype.itemsize, (start + elements) * b.dtype.itemsize
        if needed > given.nbytes:
            what = f"{b.name} takes {needed} bytes, {a} has {given.nbytes}"
            raise BadLaunch(kernel=kernel, what=what)
        if not isinstance(a, SlotArg) and given.dtype != np.dtype(b.dtype.numpy):
            raise BadLaunch(kernel=kernel, what=f"{b.name} is {b.dtype}, {a} is {given.dtype}")
        return given.view(np.uint8)[start:needed].view(b.dtype.numpy)


def _checked(given: Array, p: Port, dims: Mapping[Dim, int]) -> Array:
    shape = _shape(p, dims)
    if given.shape != shape or given.dtype != np.dtype(p.dtype.numpy):
        raise ValueError(f"{p.name} is {given.dtype}{given.shape}, not {p.dtype}{shape}")
    return given


def _read_only(given: Array) -> Array:
    """A flat copy; kernels that write to it raise."""
    out = np.array(given, order="C").reshape(-1)
    out.flags.writeable = False
    return out


def _output(p: Port, dims: Mapping[Dim, int]) -> Array:
    count = int(np.prod(_shape(p, dims), dtype=np.int64))
    return _unwritten(count * p.dtype.itemsize).view(p.dtype.numpy)


def _unwritten(size: int) -> npt.NDArray[np.uint8]:
    return np.full(size, UNWRITTEN, np.uint8)


def _shape(p: Port, dims: Mapping[Dim, int]) -> tuple[int, ...]:
    return tuple(int(e.evaluate(dims)) for e in p.shape)


def _size(b: Buffer, numbers: Mapping[Dim, int]) -> int:
    return int(np.prod([int(e.evaluate(numbers)) for e in b.dims], dtype=np.int64))
