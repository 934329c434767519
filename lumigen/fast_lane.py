"""fast_lane: run lowered entries without a project: one compiler call, kernels called through ctypes.

The same kernel sources as a shipped project's, for this machine's instruction set alone. It serves the small way
(`lg.Graph`) and tests of many programs; what ships is the project.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from lumigen.emit.weights_file import pack as pack_panels
from lumigen.errors import CompilerMissing
from lumigen.index import Dim
from lumigen.interp.graph import bind_dims
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.program import (
    ALIGNMENT,
    Group,
    InputArg,
    KernelParameter,
    Launch,
    OutputArg,
    PartArg,
    Program,
    SlotArg,
    StateArg,
    Stored,
    ValueArg,
    WeightArg,
    whole,
)
from lumigen.resources import runtime_dir
from lumigen.target import HOST, TARGETS
from lumigen.toolchain import compiled_library, cxx
from lumigen.weights import rounded

# What the project's CMakeLists.txt says of arithmetic, with its reasons.
FLAGS = (
    "-std=c++17",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fno-tree-vectorize",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
)

INTRINSICS = "simd.h"  # the header that takes longest to read

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FastLane:
    """The kernels of one model, loaded into this process."""

    model: LoweredModel
    functions: Mapping[str, Any]  # (arguments, tasks, scratch), by the kernel's name
    scratch_bytes: Mapping[str, int]

    def run(
        self,
        entry: str,
        inputs: Mapping[str, Array],
        weights: Mapping[str, Array],
        states: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """The outputs of an entry, by name; the arrays of `states` are written over.

        Inputs and states must be contiguous; BadInput where an input is not as declared.
        """
        call = self.prepare(entry, inputs, self.packed(weights), states)
        call.run()
        return dict(call.outputs)

    def packed(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """The given weights in the forms that kernels read, by the names of these, and what is made of them alone."""
        packed = self._packed(weights)
        if self.model.opening is not None:
            call = self._call(self._possible(self.model.opening, set(packed)), {}, packed, {})
            call.run()
            packed |= self._packed(call.outputs)
        return packed

    def _possible(self, opening: Program, packed: set[str]) -> Program:
        """What can be made of these weights."""
        parameters = {k.name: k.parameters for k in self.model.kernels}
        lacking: set[object] = set()
        groups: list[Group] = []
        for group in opening.groups:
            launches = [x for v in group.variants for x in v.launches]
            given = {whole(a) for x in launches for a in x.arguments}
            unknown = any(isinstance(a, WeightArg) and a.stored not in packed for a in given)
            if unknown or given & lacking:
                pairs = (zip(parameters[x.kernel], x.arguments, strict=True) for x in launches)
                lacking |= {whole(a) for each in pairs for p, a in each if p.changed}
            else:
                groups.append(group)
        outputs = tuple(p for p in opening.outputs if OutputArg(p.name) not in lacking)
        return replace(opening, outputs=outputs, groups=tuple(groups))

    def _packed(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        used = [s for s in self.model.weights if s.weight.name in weights]
        return {s.name: pack(s, weights[s.weight.name]) for s in used}

    def prepare(
        self,
        entry: str,
        inputs: Mapping[str, Array],
        packed: Mapping[str, Array],
        states: Mapping[str, Array] | None = None,
    ) -> Call:
        """A call at the dims of these inputs that can be run many times; it reads `inputs` anew each time.

        BadInput where one is not as declared.
        """
        program = next(p for p in self.model.programs if p.entry == entry)
        return self._call(program, inputs, packed, states or {})

    def _call(
        self,
        program: Program,
        inputs: Mapping[str, Array],
        packed: Mapping[str, Array],
        states: Mapping[str, Array],
    ) -> Call:
        dims = bind_dims(program.inputs, inputs)
        offsets, total = program.offsets(dims)
        shapes = {p.name: tuple(int(e.evaluate(dims)) for e in p.shape) for p in program.outputs}
        outputs = {p.name: np.empty(shapes[p.name], p.dtype.numpy) for p in program.outputs}
        memory = _NativeMemory(inputs, outputs, packed, states, aligned(total), offsets, dims)
        scratch = aligned(max(self.scratch_bytes.values(), default=0))
        steps = tuple(self._step(launch, memory) for launch in program.chosen(dims))
        return Call(steps, outputs, memory, scratch)

    def _step(self, launch: Launch, memory: _NativeMemory) -> BoundLaunch:
        numbers = launch.numbers(memory.dims)
        values = [memory.value(a, numbers) & (2**64 - 1) for a in launch.arguments]
        arguments = (ctypes.c_uint64 * max(1, len(values)))(*values)
        return BoundLaunch(
            launch.kernel,
            self.functions[launch.kernel],
            arguments,
            int(launch.tasks.evaluate(numbers)),
        )


@dataclass(frozen=True)
class BoundLaunch:
    """One launch with its arguments in place."""

    name: str
    kernel: Any
    arguments: Any
    tasks: int


@dataclass(frozen=True)
class Call:
    """An entry bound to dims and memory."""

    steps: tuple[BoundLaunch, ...]
    outputs: Mapping[str, Array]
    memory: _NativeMemory
    scratch: Array

    def run(self) -> None:
        for step in self.steps:
            self.launch(step)

    def launch(self, step: BoundLaunch) -> None:
        """One of the steps, which come in order."""
        scratch = ctypes.c_void_p(self.scratch.ctypes.data)
        step.kernel(ctypes.byref(step.arguments), ctypes.c_int64(step.tasks), scratch)


@dataclass(frozen=True)
class _NativeMemory:
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    weights: Mapping[str, Array]
    states: Mapping[str, Array]
    arena: Array
    offsets: Mapping[str, int]
    dims: Mapping[Dim, int]

    def value(self, a: object, numbers: Mapping[Any, int]) -> int:
        if isinstance(a, PartArg):
            return self.value(a.of, numbers) + int(a.base.evaluate(numbers)) * a.dtype.itemsize
        if isinstance(a, InputArg):
            return int(self.inputs[a.name].ctypes.data)
        if isinstance(a, OutputArg):
            return int(self.outputs[a.name].ctypes.data)
        if isinstance(a, WeightArg):
            weight = self.weights[a.stored]
            return int(weight.ctypes.data) + a.base * weight.itemsize
        if isinstance(a, StateArg):
            return int(self.states[a.name].ctypes.data)
        if isinstance(a, SlotArg):
            return int(self.arena.ctypes.data) + self.offsets[a.slot]
        assert isinstance(a, ValueArg)
        return int(a.value.evaluate(numbers))


def aligned(size: int) -> Array:
    """Uninitialised bytes that start at a multiple of the arena's alignment."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size] if size else raw[start:]


def pack(stored: Stored, weight: Array) -> Array:
    """A weight in the form that kernels read."""
    weight = rounded(weight, stored.weight.dtype)
    if stored.layout is None:
        return np.ascontiguousarray(weight, stored.weight.dtype.numpy)
    return pack_panels(weight, stored.layout)


def source(model: LoweredModel) -> str:
    """All kernels of a model as one translation unit."""
    return unit(model.kernels)[0]


def unit(kernels: Sequence[LoweredKernel]) -> tuple[str, dict[str, int]]:
    """(kernels as one translation unit, bytes of scratch that a task of each needs)."""
    scratch: dict[str, int] = {}
    parts = ["#include <cstdint>", "namespace LUMIGEN_NS {"]
    parts.extend(map(_struct, kernels))
    parts.append("}  // namespace LUMIGEN_NS")
    for k in kernels:
        text = TARGETS[HOST.name].spell(k.name, k.program, k.parameters, "")
        scratch[k.name] = text.scratch_bytes
        parts.append(text.body)
        parts.append(
            f'extern "C" void {_symbol(k.name)}(const void* args, int64_t tasks, char* scratch) {{\n'
            f"  for (int64_t task = 0; task < tasks; ++task) LUMIGEN_NS::{k.name}(args, task, scratch);\n}}"
        )
    return "\n".join(parts) + "\n", scratch


def _symbol(kernel: str) -> str:
    return f"run_{kernel}"


def _struct(k: LoweredKernel) -> str:
    fields = "".join(f" {_ctype(p)} {p.name};" for p in k.parameters)
    return f"struct {k.name}_args {{{fields} }};"


def _ctype(p: KernelParameter) -> str:
    return p.ctype


def load(model: LoweredModel, optimise: str = "-O3", more: Sequence[str] = ()) -> FastLane:
    """Compile, with `more` flags, and load; the library is cached by the content of its sources."""
    text, scratch = unit(model.kernels)
    library = compiled(text, optimise, more)
    return FastLane(model, {name: function(library, name) for name in scratch}, scratch)


def compiled(
    text: str, optimise: str = "-O3", more: Sequence[str] = (), seconds: float | None = None
) -> Path:
    """The library of a unit, for this machine's instruction set.

    CompilerMissing; BuildFailed if it does not compile, or not in so many seconds.
    """
    compiler = cxx()
    if compiler is None:
        raise CompilerMissing(
            tool="a C++17 compiler", purpose="run a graph", remedy="Install g++ or clang++."
        )
    flags = (*FLAGS, optimise, *more, "-DLUMIGEN_NS=fast_lane", "-DLUMIGEN_ISA=native")
    parsed = INTRINSICS if f'#include "runtime/{INTRINSICS}"' in text else ""
    kind, name = "fast_lane", "kernels.cpp"
    return compiled_library(kind, compiler, flags, name, text, _headers(), seconds, parsed)


def function(library: Path, kernel: str) -> Any:
    """A kernel of a library, as one function of its arguments, the number of tasks and scratch.

    The library is unloaded with the last of its functions, each of which holds it: ctypes itself never does.
    """
    opened = ctypes.CDLL(str(library))
    finalize(opened, _unload, opened._handle).atexit = False  # noqa: SLF001  # what dlopen gave
    return opened[_symbol(kernel)]  # as an attribute of `opened` it would live until a collection


def _unload(handle: int) -> None:
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle))


def _headers() -> tuple[Path, ...]:
    """All that kernels may include, in one order."""
    folders = (*HOST.template_folders, runtime_dir())
    return (*sorted(p for f in folders for p in f.glob("*.h")),)
