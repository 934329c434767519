"""limits: what a GPU can do at most, probed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection

from lumigen.errors import CompilerMissing, LimitsUnknown
from lumigen.limits import PASSED, Limits, Memory, best, best_of, falling, probes, rates_here
from lumigen.resources import runtime_dir, templates_dir
from lumigen.targets.cuda.tools import gpu_architecture, nvcc

REMEDY = "Run nvidia-smi to see why."
GPU_BYTES = (1 << 22, 1 << 25, 1 << 27, 1 << 30)
GPU_FLAGS = ("-std=c++17", "-O3", "-Xcompiler=-fPIC", "-shared", "-DLUMIGEN_NS=limits")


def probe_gpu(dtypes: Collection[str], device: int = 0) -> Limits:
    """The limits of a GPU, of arithmetic for these dtypes.

    CompilerMissing, BuildFailed or LimitsUnknown where they cannot be probed.
    """
    compiler, architecture = nvcc(), gpu_architecture(device)
    if compiler is None:
        remedy = "Install the CUDA toolkit."
        raise CompilerMissing(tool="nvcc", purpose="probing limits", remedy=remedy)
    if architecture is None:
        raise LimitsUnknown(why="the NVIDIA driver shows no GPU", remedy=REMEDY)
    flags = (*GPU_FLAGS, f"-arch={architecture}")
    headers = (
        *sorted((templates_dir() / "cuda").glob("*.*h")),
        *sorted(p for f in (runtime_dir(), runtime_dir() / "cuda") for p in f.glob("*.h")),
    )
    library = probes(compiler, flags, "cuda.cu", headers)
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
            raise LimitsUnknown(why=f"CUDA says {why}", remedy=REMEDY)

    def asked(seconds: float) -> float:
        if seconds <= 0:
            raise LimitsUnknown(why=f"CUDA says {library.limits_error().decode()}", remedy=REMEDY)
        return seconds

    rates: list[tuple[str, float]] = []
    iterations = 2000
    for i, name in rates_here(library, dtypes):
        done = library.limits_flops(i, iterations)
        seconds = best(lambda i=i: asked(library.limits_fma(i, iterations)))
        rates.append((name, done / seconds))

    def memory(size: int) -> Memory:
        times = max(1, 8 * PASSED // size)

        def rate(move: Callable[..., float]) -> float:
            return size * times / best(lambda: asked(move(size, times)))

        return Memory(size, rate(library.limits_read), rate(library.limits_write))

    return Limits(falling([memory(size) for size in sizes]), best_of(rates))
