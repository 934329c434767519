"""measuring: kernels compiled each to a module of its own by nvcc, and launched and timed through the driver.

A launch is timed with events, as part of a run whose launches all wait in the stream before the first begins: the host
has no part in what is measured, and the caches are as they are in use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.errors import BuildFailed
from lumigen.files import read_regular
from lumigen.index import Dim
from lumigen.interp.graph import bind_dims
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.measuring import Measuring, Ready, Seconds
from lumigen.program import (
    Argument,
    CounterArg,
    InputArg,
    KernelParameter,
    Launch,
    MapArg,
    OutputArg,
    PartArg,
    Program,
    SlotArg,
    StateArg,
    Stored,
    ValueArg,
    WeightArg,
)
from lumigen.resources import runtime_dir, templates_dir
from lumigen.target_row import Target
from lumigen.targets.cuda.driver import DeviceKernel, Driver
from lumigen.targets.cuda.speller import DeviceKernelContext, device_kernel_body, kernel_context
from lumigen.targets.cuda.tools import cuda_driver, gpu_architecture, gpu_memory, nvcc
from lumigen.toolchain import compiled_library, output

Array = npt.NDArray[Any]

ALIKE = "kernel"  # what a kernel is called in its module: the name counts the kernels of a model
ROW = "kernel_shape"
DRIVER = Path("/proc/driver/nvidia/version")
FLAGS = ("-std=c++17", "-O3", "-fmad=false", "-cubin", "-DLUMIGEN_NS=measured")
POISON = 0xFF  # what memory holds before a run: NaN, or -1
ROUNDS, ENOUGH = (
    (5, 25),
    0.05,
)  # of a measurement: the fewest, the most, and seconds that are enough
IN_ORDER = (
    200  # launches that wait in the stream at most: it takes no more than some thousand commands
)
SHARE = 4  # a model has this part of the memory
MAP_ALIGNMENT = 128
FORGETS = 2  # times its size written, a cache holds nothing else


def lacking(target: Target) -> str:
    """What a machine needs for measuring and this one has not; empty where it has all."""
    if nvcc() is None:
        return "it where nvcc is, which compiles the kernels; CUDACXX may name it"
    here = gpu_architecture(0)
    if here is None:
        return "it where an NVIDIA GPU and its driver are: nvidia-smi says what is here"
    if not any(a in target.architectures for a in features_of(here)):
        return f"it with {target.name}:{here}, this machine's GPU"
    return ""


def features_of(architecture: str) -> tuple[str, ...]:
    """The architectures whose code runs on a GPU of that one."""
    number = int(architecture.removeprefix("sm_").removesuffix("a"))
    older = [f"sm_{n}" for n in range(80, number + 1)]
    return (*older, architecture)


def features() -> tuple[str, ...]:
    """What guards may ask for and is here."""
    here = gpu_architecture(0)
    return () if here is None else features_of(here)


def machine(_threads: int) -> tuple[str, ...]:
    """The GPU, its driver, nvcc and what it is told."""
    compiler = nvcc() or ""
    version = output([compiler, "--version"]) if compiler else ""
    driver = read_regular(DRIVER) or b""
    return (cuda_driver().found, gpu_architecture(0) or "", repr(driver), version, *FLAGS)


def gpus() -> int:
    """How many GPUs like the first one are here, in a row from that one on."""
    here = gpu_architecture(0)
    alike = takewhile(lambda n: gpu_architecture(n) == here, count(1))
    return 0 if here is None else 1 + sum(1 for _ in alike)


def memory() -> int:
    """A part of what the GPU has, in bytes."""
    return gpu_memory(0) // SHARE


# ---- compiling ----


def unit(kernel: LoweredKernel) -> str:
    """A kernel as one source, with the row that says how it is launched."""
    alike = replace(kernel, name=ALIKE)
    told = (ALIKE, alike.program, alike.parameters, "")
    fields = "".join(f" {p.ctype} {p.name};" for p in alike.parameters)
    return "\n".join(
        (
            "#include <cstdint>",
            '#include "runtime/kernel.h"',
            f"namespace LUMIGEN_NS {{ struct {ALIKE}_args {{{fields} }}; }}",
            device_kernel_body(*told).body,
            f"using namespace LUMIGEN_NS;\n{_row(kernel_context(*told))}\n",
        )
    )


def _row(context: DeviceKernelContext) -> str:
    """Threads, bytes of shared memory, blocks of a cluster, if it stays, if it may begin early, most blocks."""
    cluster = context.cluster if context.box_lines else "0"
    early = "Tile::kBlocks == 1" if context.split else "1"
    stays, most = int(context.stays), context.most or "0"
    numbers = f"{context.threads}, {context.shared}, {cluster}, {stays}, {early}, {most}"
    return f'extern "C" {{ __device__ int32_t {ROW}[6] = {{{numbers}}}; }}'


def compiled(kernel: LoweredKernel, seconds: float) -> Ready | None:
    """The module of a kernel for this machine's GPU; None where it does not compile in so many seconds."""
    compiler, architecture = nvcc(), gpu_architecture(0)
    if compiler is None or architecture is None:
        return None
    return compiled_for(architecture, compiler, kernel, seconds)


def compiled_for(
    architecture: str, compiler: str, kernel: LoweredKernel, seconds: float
) -> Ready | None:
    """The same for any GPU; none has to be here."""
    code = f"-gencode=arch={architecture.replace('sm', 'compute')},code={architecture}"
    folders = (templates_dir() / "cuda", runtime_dir(), runtime_dir() / "cuda")
    headers = [p for f in folders for pattern in ("*.h", "*.cuh") for p in sorted(f.glob(pattern))]
    flags, text = (*FLAGS, code), unit(kernel)
    try:
        module = compiled_library("cuda_lane", compiler, flags, "kernel.cu", text, headers, seconds)
    except BuildFailed:
        return None
    return Ready(module, kernel.parameters)


# ---- running ----


class CudaLane:
    """The GPU of a number, whose cache is `cold` before each launch or as it is.

    What arrays hold is uploaded once; all else lies in one block, whose owner changes with `bind`.
    """

    def __init__(self, number: int, *, cold: bool) -> None:
        self.gpu = Driver(number)
        self.other = self.gpu.allocate(FORGETS * self.gpu.cache) if cold else 0
        self.functions: dict[str, DeviceKernel] = {}
        self.uploaded: dict[int, tuple[Array, int]] = {}  # by the identity of the array
        self.block, self.size = 0, 0
        self.features = features()

    def bind(
        self,
        model: LoweredModel,
        program: Program,
        kernels: Mapping[str, Ready],
        inputs: Mapping[str, Array],
        weights: Mapping[Stored, Array],
    ) -> CudaBound:
        """The entry over these arrays."""
        dims = bind_dims(program.inputs, inputs)
        offsets, total = program.offsets(dims)
        outputs = {
            p.name: np.empty([int(e.evaluate(dims)) for e in p.shape], p.dtype.numpy)
            for p in program.outputs
        }
        states = {s.name: np.empty(s.shape, s.dtype.numpy) for s in model.states}
        sizes = [*(a.nbytes for a in outputs.values()), total]
        zeros = [*(a.nbytes for a in states.values()), 4 * model.counters]
        at = self._places([*sizes, *zeros])
        held: dict[Argument, int] = {
            **{InputArg(n): self._upload(a) for n, a in inputs.items()},
            **{WeightArg(s.name): self._upload(a) for s, a in weights.items()},
            **dict(zip(map(OutputArg, outputs), at, strict=False)),
            **{SlotArg(n): at[len(outputs)] + o for n, o in offsets.items()},
            **dict(zip(map(StateArg, states), at[len(sizes) :], strict=False)),
            CounterArg(0): at[-1],
        }
        memory = _Addresses(held, {s.name: s.weight.dtype.itemsize for s in model.weights}, dims)
        chosen = program.chosen(dims, self.features)
        steps = tuple(self._step(launch, kernels[launch.kernel], memory) for launch in chosen)
        poisoned = (at[0], at[len(sizes)] - at[0])
        cleared = (at[len(sizes)], self.block + self.size - at[len(sizes)])
        results = (*((outputs[n], held[OutputArg(n)], n) for n in outputs),)
        kept = (*((states[n], held[StateArg(n)], f"state {n}") for n in states),)
        return CudaBound(self.gpu, steps, poisoned, cleared, (*results, *kept), self.other)

    def _places(self, sizes: Sequence[int]) -> list[int]:
        """The addresses of so many bytes each in the block, one after another."""
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-max(1, size) // 256) * 256)
        if starts[-1] > self.size:
            if self.block:
                self.gpu.release(self.block)
            self.block, self.size = self.gpu.allocate(starts[-1]), starts[-1]
        return [self.block + s for s in starts[:-1]]

    def _upload(self, array: Array) -> int:
        if id(array) not in self.uploaded:
            address = self.gpu.allocate(array.nbytes)
            self.gpu.upload(address, array)
            self.uploaded[id(array)] = (array, address)
        return self.uploaded[id(array)][1]

    def _step(self, launch: Launch, kernel: Ready, memory: _Addresses) -> _Launched:
        name = str(kernel.library)
        if name not in self.functions:
            self.functions[name] = self.gpu.function(kernel.library.read_bytes(), ROW)
        numbers = launch.numbers(memory.dims)
        arguments = _arguments(self.gpu, kernel.parameters, launch.arguments, memory, numbers)
        tasks = int(launch.tasks.evaluate(numbers))
        return _Launched(launch.kernel, self.functions[name], tasks, arguments)


@dataclass(frozen=True)
class _Addresses:
    """Where everything begins that a launch may be given."""

    held: Mapping[Argument, int]
    items: Mapping[str, int]  # bytes of an element of each weight
    dims: Mapping[Dim, int]

    def value(self, a: Argument, numbers: Mapping[Dim, int]) -> int:
        match a:
            case PartArg(of, base):
                return self.value(of, numbers) + int(base.evaluate(numbers)) * a.dtype.itemsize
            case WeightArg(stored, base):
                return self.held[WeightArg(stored)] + base * self.items[stored]
            case CounterArg(number):
                return self.held[CounterArg(0)] + 4 * number
            case ValueArg(value):
                return int(value.evaluate(numbers))
            case _:
                return self.held[a]


@dataclass(frozen=True)
class _Launched:
    kernel: str
    function: DeviceKernel
    tasks: int
    arguments: Any  # pointers to the argument struct, which the second item keeps alive

    def launch(self, gpu: Driver, *, overlaps: bool = False) -> None:
        gpu.launch(self.function, self.tasks, self.arguments[0], overlaps=overlaps)


def _arguments(
    gpu: Driver,
    parameters: Sequence[KernelParameter],
    arguments: Sequence[Argument],
    memory: _Addresses,
    numbers: Mapping[Dim, int],
) -> Any:
    """The argument struct of a launch as CUDA takes it."""
    room = ctypes.create_string_buffer(MAP_ALIGNMENT * (len(parameters) + 2))
    start = -(-ctypes.addressof(room) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    at, pointers = start, dict[str, int]()
    for p, a in zip(parameters, arguments, strict=True):
        if isinstance(a, MapArg):
            assert p.dtype is not None, "a map has the type of what it is of"
            at = -(-at // MAP_ALIGNMENT) * MAP_ALIGNMENT
            base, *sizes = (int(n.evaluate(numbers)) for n in a.numbers)
            address = pointers[p.maps] + base * p.dtype.itemsize
            box = (*sizes[:4], a.box_lines)
            gpu.tensor_map(at, p.dtype.name, address, box, sizes[4:], a.windows)
            at += MAP_ALIGNMENT
            continue
        value = memory.value(a, numbers)
        pointers[p.name] = value
        ctypes.c_uint64.from_address(at).value = value & (2**64 - 1)
        at += 8
    return (ctypes.c_void_p * 1)(start), room


@dataclass(frozen=True)
class CudaBound:
    """An entry whose launches have their arguments."""

    gpu: Driver
    steps: tuple[_Launched, ...]
    poisoned: tuple[int, int]  # where it begins, bytes
    cleared: tuple[int, int]
    kept: tuple[tuple[Array, int, str], ...]
    other: int  # memory that caches have instead of what a launch reads; 0: none

    def clear(self) -> None:
        """Poison what the entry writes; states and counters are zero."""
        start, size = self.poisoned
        self.gpu.fill(start, POISON, size)
        start, size = self.cleared
        self.gpu.fill(start, 0, size)

    def run(self) -> None:
        for step in self.steps:
            step.launch(self.gpu)
        self.gpu.wait()

    def results(self) -> dict[str, Array]:
        """Copies of outputs and states."""
        for array, address, _ in self.kept:
            self.gpu.download(array, address)
        return {name: array for array, _, name in self.kept}

    def times(self, *, quick: bool = False) -> Seconds:
        """The medians of several runs: launches apart, then one after another as soon as each may begin."""
        events = [self.gpu.event() for _ in range(2 * len(self.steps) + 2)]
        each: dict[str, list[float]] = {}
        whole: list[float] = []
        begun = perf_counter()
        fewest, most = (ROUNDS[0], ROUNDS[0]) if quick else ROUNDS
        while len(whole) < fewest or (len(whole) < most and perf_counter() - begun < ENOUGH):
            run: dict[str, float] = {}
            for name, seconds in self._apart(events):
                run[name] = run.get(name, 0.0) + seconds
            for name, seconds in run.items():
                each.setdefault(name, []).append(seconds)
            whole.append(self._in_a_row(*events[:2]))
        for event in events:
            self.gpu.forget(event)
        return Seconds({name: median(found) for name, found in each.items()}, median(whole))

    def _parts(self) -> list[Sequence[_Launched]]:
        return [self.steps[i : i + IN_ORDER] for i in range(0, len(self.steps), IN_ORDER)]

    def _apart(self, events: Iterable[ctypes.c_void_p]) -> list[tuple[str, float]]:
        """(kernel, seconds) of each launch of one run."""
        left, between = iter(events), list[tuple[str, ctypes.c_void_p, ctypes.c_void_p]]()
        for part in self._parts():
            self.gpu.close_gate()
            for step in part:
                self._forget()
                start, end = next(left), next(left)
                self.gpu.record(start)
                step.launch(self.gpu)
                self.gpu.record(end)
                between.append((step.kernel, start, end))
            self.gpu.open_gate()
        self.gpu.wait()
        return [(name, self.gpu.seconds(*pair)) for name, *pair in between]

    def _in_a_row(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Seconds of one run, launched as a project launches it."""
        for number, part in enumerate(self._parts()):
            self.gpu.close_gate()
            if number == 0:
                self._forget()
                self.gpu.record(start)
            for step in part:
                step.launch(self.gpu, overlaps=True)
            self.gpu.open_gate()
        self.gpu.record(end)
        self.gpu.wait()
        return self.gpu.seconds(start, end)

    def _forget(self) -> None:
        """Where caches are to be cold, write over what they have."""
        if self.other:
            self.gpu.fill(self.other, 0, FORGETS * self.gpu.cache)


MEASURING = Measuring(
    lacking,
    machine,
    features,
    memory,
    compiled,
    workers=gpus,
    apart=True,  # no launch waits for the host
    open=lambda _threads, cold, number: CudaLane(number, cold=cold),
    gpus=1,
)
