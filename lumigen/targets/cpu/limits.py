"""limits: what a processor can do at most, probed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection
from functools import partial

import numpy as np

from lumigen.errors import CompilerMissing
from lumigen.limits import PASSED, Limits, Memory, best, best_of, falling, probes, rates_here, timed
from lumigen.toolchain import cxx

CPU_BYTES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)  # working sets, from caches to memory
CPU_FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread"),
    "-ffp-contract=fast",  # a multiply and an add are one instruction, where there is one
)


def cpu_library() -> ctypes.CDLL:
    """The probes of the processor; CompilerMissing or BuildFailed where they cannot be had."""
    compiler = cxx()
    if compiler is None:
        remedy = "Install g++ or clang++."
        raise CompilerMissing(tool="a C++17 compiler", purpose="probing limits", remedy=remedy)
    library = probes(compiler, CPU_FLAGS, "cpu.cpp")
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
        seconds = best(lambda i=i: timed(partial(library.limits_fma, i, threads, iterations)))
        rates.append((name, done / seconds))
    data = np.zeros(max(CPU_BYTES), np.uint8)
    data.fill(0)  # pages of its own, not the one page of zeros

    def memory(size: int) -> Memory:
        times = max(1, PASSED // size)

        def rate(move: Callable[..., object]) -> float:
            run = partial(move, threads, data.ctypes.data, size // 4, times)
            return size * times / best(lambda: timed(run))

        read = max(map(rate, read_ways(library).values()))
        return Memory(size, read, rate(library.limits_write))

    rate_of = best_of(rates)
    if "bf16" in dtypes:
        f32 = rate_of["f32"]
        rate_of["bf16"] = max(rate_of.get("bf16", f32), f32, key=lambda r: r.flops)
    return Limits(falling([memory(size) for size in CPU_BYTES]), rate_of)


def read_ways(library: ctypes.CDLL) -> dict[str, Callable[..., object]]:
    """Ways of reading memory, of which the fastest one is the limit."""
    return {"read": library.limits_read, "read side by side": library.limits_read_side_by_side}
