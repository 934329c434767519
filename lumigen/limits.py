"""limits: what this machine can do at most: bytes read and written a second, operations a second of each dtype.

Probed, not looked up: sources of `templates/limits` are compiled once and timed. Promises rates that some program has
reached here, so that a share of a limit is one of something that can be had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from lumigen.errors import CompilerMissing, LimitsUnknown
from lumigen.resources import runtime_dir, templates_dir
from lumigen.toolchain import compiled_library, cxx, gpu_architecture, nvcc

SECONDS = 0.05  # for a probe
LEAST = 5  # runs of it
CPU_BYTES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)  # working sets, from caches to memory
GPU_BYTES = (1 << 22, 1 << 25, 1 << 27, 1 << 30)
PASSED = 1 << 26  # bytes that a run moves at least, so that its beginning and end cost little
CPU_FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread"),
    "-ffp-contract=fast",  # a multiply and an add are one instruction, where there is one
)
GPU_FLAGS = ("-std=c++17", "-O3", "-Xcompiler=-fPIC", "-shared", "-DLUMIGEN_NS=limits")


@dataclass(frozen=True)
class Memory:
    """Bytes a second, of a working set of so many bytes that is gone through again and again."""

    bytes: int
    read: float
    written: float


@dataclass(frozen=True)
class Rate:
    """Floating-point operations a second; a multiply-add is two. `how` names the instructions: avx2, wgmma."""

    flops: float
    how: str


@dataclass(frozen=True)
class Limits:
    """Rates of memory by working set, ascending; the best of arithmetic by the name of the dtype."""

    memory: tuple[Memory, ...]
    arithmetic: Mapping[str, Rate]

    def least(self, computes: str, flops: int, read: int, written: int) -> tuple[float, str] | None:
        """(seconds that so much work takes at least, what binds it: `memory`, or the dtype); None if unprobed.

        Memory is that of the largest probed working set which is no larger than what is moved: it lies in the
        same cache, or in one that is faster still. Reading and writing share it, so their times add up.
        """
        fitting = [m for m in self.memory if m.bytes <= read + written]
        memory = fitting[-1] if fitting else self.memory[0]
        moving = read / memory.read + written / memory.written
        rate = self.arithmetic.get(computes)
        if rate is None and flops > 0:
            return None
        computing = flops / rate.flops if rate else 0.0
        return (computing, computes) if computing > moving else (moving, "memory")


# --- processors -----------------------------------------------------------------------------------


def cpu_library() -> ctypes.CDLL:
    """The probes of the processor; CompilerMissing or BuildFailed where they cannot be had."""
    compiler = cxx()
    if compiler is None:
        remedy = "Install g++ or clang++."
        raise CompilerMissing(tool="a C++17 compiler", purpose="probing limits", remedy=remedy)
    library = _library(compiler, CPU_FLAGS, "cpu.cpp")
    library.limits_name.restype = ctypes.c_char_p
    library.limits_here.restype = ctypes.c_bool
    library.limits_flops.restype = ctypes.c_double
    library.limits_flops.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.limits_fma.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    moves = (library.limits_read, library.limits_read_side_by_side, library.limits_write)
    for move in moves:
        move.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    return library


def probe_cpu(threads: int, dtypes: Collection[str]) -> Limits:
    """The limits of so many threads of the processor, of arithmetic for these dtypes.

    Where no instruction multiplies bf16 faster it is widened, and f32 is the limit of both.
    """
    library = cpu_library()
    dtypes = {*dtypes, *(["f32"] if "bf16" in dtypes else [])}
    rates: list[tuple[str, float]] = []
    iterations = 500_000
    for i, name in rates_here(library, dtypes):
        done = threads * library.limits_flops(i, iterations)
        seconds = _best(lambda i=i: _timed(partial(library.limits_fma, i, threads, iterations)))
        rates.append((name, done / seconds))
    data = np.zeros(max(CPU_BYTES), np.uint8)
    data.fill(0)  # pages of its own, not the one page of zeros

    def memory(size: int) -> Memory:
        times = max(1, PASSED // size)

        def rate(move: Callable[..., object]) -> float:
            run = partial(move, threads, data.ctypes.data, size // 4, times)
            return size * times / _best(lambda: _timed(run))

        read = max(map(rate, read_ways(library).values()))
        return Memory(size, read, rate(library.limits_write))

    best = _best_of(rates)
    if "bf16" in dtypes:
        best["bf16"] = max(best.get("bf16", best["f32"]), best["f32"], key=lambda r: r.flops)
    return Limits(_falling([memory(size) for size in CPU_BYTES]), best)


def read_ways(library: ctypes.CDLL) -> dict[str, Callable[..., object]]:
    """Ways of reading memory, of which the fastest one is the limit."""
    return {"read": library.limits_read, "read side by side": library.limits_read_side_by_side}


# --- GPUs -----------------------------------------------------------------------------------------


def probe_gpu(dtypes: Collection[str], device: int = 0) -> Limits:
    """The limits of a GPU, of arithmetic for these dtypes.

    CompilerMissing, BuildFailed or LimitsUnknown where they cannot be probed.
    """
    compiler, architecture = nvcc(), gpu_architecture(device)
    if compiler is None:
        remedy = "Install the CUDA toolkit."
        raise CompilerMissing(tool="nvcc", purpose="probing limits", remedy=remedy)
    if architecture is None:
        raise LimitsUnknown(why="the NVIDIA driver shows no GPU")
    flags = (*GPU_FLAGS, f"-arch={architecture}")
    headers = (
        *sorted((templates_dir() / "cuda").glob("*.*h")),
        *sorted(p for f in (runtime_dir(), runtime_dir() / "cuda") for p in f.glob("*.h")),
    )
    library = _library(compiler, flags, "cuda.cu", headers)
    for name, gives in {
        "name": ctypes.c_char_p, "error": ctypes.c_char_p, "here": ctypes.c_bool, "open": ctypes.c_bool,
        "flops": ctypes.c_double, "fma": ctypes.c_double, "read": ctypes.c_double, "write": ctypes.c_double,
    }.items():  # fmt: skip
        getattr(library, f"limits_{name}").restype = gives
    library.limits_open.argtypes = [ctypes.c_int, ctypes.c_size_t]
    library.limits_close.restype = None
    for compute in (library.limits_flops, library.limits_fma):
        compute.argtypes = [ctypes.c_int, ctypes.c_int64]
    for move in (library.limits_read, library.limits_write):
        move.argtypes = [ctypes.c_size_t, ctypes.c_int64]
    try:
        return _probe_opened_gpu(library, dtypes, device)
    finally:
        library.limits_close()


def _probe_opened_gpu(library: ctypes.CDLL, dtypes: Collection[str], device: int) -> Limits:
    """With less memory where others have most of it."""
    sizes = GPU_BYTES
    while not library.limits_open(device, max(sizes)):
        why = library.limits_error().decode()
        library.limits_close()
        sizes = sizes[:-1]
        if not sizes:
            raise LimitsUnknown(why=f"CUDA says {why}")

    def asked(seconds: float) -> float:
        if seconds <= 0:
            raise LimitsUnknown(why=f"CUDA says {library.limits_error().decode()}")
        return seconds

    rates: list[tuple[str, float]] = []
    iterations = 2000
    for i, name in rates_here(library, dtypes):
        done = library.limits_flops(i, iterations)
        seconds = _best(lambda i=i: asked(library.limits_fma(i, iterations)))
        rates.append((name, done / seconds))

    def memory(size: int) -> Memory:
        times = max(1, 8 * PASSED // size)

        def rate(move: Callable[..., float]) -> float:
            return size * times / _best(lambda: asked(move(size, times)))

        return Memory(size, rate(library.limits_read), rate(library.limits_write))

    return Limits(_falling([memory(size) for size in sizes]), _best_of(rates))


# --- what both need -------------------------------------------------------------------------------


def _library(
    compiler: str, flags: tuple[str, ...], name: str, headers: tuple[Path, ...] = ()
) -> ctypes.CDLL:
    text = (templates_dir() / "limits" / name).read_text(encoding="utf-8")
    return ctypes.CDLL(str(compiled_library("limits", compiler, flags, name, text, headers)))


def rates_here(library: ctypes.CDLL, dtypes: Collection[str]) -> list[tuple[int, str]]:
    """The kinds of arithmetic that are here for these dtypes: `f32 avx2`."""
    here = [i for i in range(library.limits_rates()) if library.limits_here(i)]
    named = [(i, library.limits_name(i).decode()) for i in here]
    return [(i, name) for i, name in named if name.partition(" ")[0] in dtypes]


def _best_of(rates: list[tuple[str, float]]) -> dict[str, Rate]:
    out: dict[str, Rate] = {}
    for name, flops in sorted(rates, key=lambda r: r[1]):
        dtype, _, how = name.partition(" ")
        out[dtype] = Rate(flops, how)
    return out


def _falling(probed: list[Memory]) -> tuple[Memory, ...]:
    """A smaller working set is never slower: what a larger one reached, it could reach too."""
    out: list[Memory] = []
    for m in reversed(probed):
        read, written = (out[-1].read, out[-1].written) if out else (0.0, 0.0)
        out.append(Memory(m.bytes, max(m.read, read), max(m.written, written)))
    return tuple(reversed(out))


def _timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _best(seconds_of: Callable[[], float]) -> float:
    """The least of some runs, which other programs disturbed least."""
    seconds_of()
    times: list[float] = []
    end = perf_counter() + SECONDS
    while len(times) < LEAST or perf_counter() < end:
        times.append(seconds_of())
    return min(times)
