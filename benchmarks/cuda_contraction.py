"""Contractions of templates/cuda beside torch.matmul (cuBLAS), on this machine's GPU.

    python3 benchmarks/cuda_contraction.py [--quick] [--only TEXT]

Builds cuda_contraction.cu for this GPU, checks each kernel against f32 and prints, for each shape, the
fastest kernel of those meant for it. Kernels and torch.matmul are timed in turns, as CUDA graphs over
inputs that do not fit in the cache; between samples the GPU rests, since large products in a row run into
the card's power limit. Needs nvcc, torch and, for what roles.cuh holds, a GPU of compute capability 9.0.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "benchmarks"
LARGE = [(4096, 4096, 4096), (8192, 8192, 8192)]
LAYERS = [
    (14336, 4096),
    (4096, 14336),
    (6144, 4096),
    (4096, 4096),
]  # (N, K) of a Llama of 8 billion weights
LIMIT = {torch.bfloat16: 2.5e-3, torch.float32: 1e-5}  # relative to the norm


def build() -> ctypes.CDLL:
    BUILD.mkdir(parents=True, exist_ok=True)
    library = BUILD / "libcuda_contraction.so"
    sources = [
        "benchmarks/cuda_contraction.cu",
        "runtime/cuda/tensor_map.cpp",
        "runtime/status.cpp",
    ]
    flags = ["-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "--split-compile", "0"]
    flags += ["--shared", "-Xcompiler", "-fPIC", "-DLUMIGEN_NS=benchmark"]
    flags += ["-Itemplates/cuda", "-Iruntime"]
    subprocess.run(["nvcc", *flags, *sources, "-o", str(library)], cwd=ROOT, check=True)
    found = ctypes.CDLL(str(library))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    found.contraction.argtypes = (
        [ctypes.c_int]
        + [pointer] * 3
        + [ctypes.c_int] * 3
        + [size] * 3
        + [ctypes.c_int, ctypes.c_bool]
        + [pointer]
    )
    for name in ("variant_name", "variant_kind", "contraction_error"):
        getattr(found, name).restype = ctypes.c_char_p
    return found


class Kernels:
    """The kernels of the library, by name."""

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        names = [library.variant_name(i).decode() for i in range(library.variants())]
        self.number = {name: i for i, name in enumerate(names)}
        self.kind = {name: library.variant_kind(i).decode() for name, i in self.number.items()}

    def of(self, *kinds: str) -> list[str]:
        return [name for name in self.number if self.kind[name] in kinds]

    def __call__(self, name: str, c, a, b, *, band: int = 2048, overlap: bool = False) -> None:
        (rows, depth), columns = a.shape, b.shape[0]
        pointers = (c.data_ptr(), a.data_ptr(), b.data_ptr())
        strides = (c.stride(0), a.stride(0), b.stride(0))
        stream = torch.cuda.current_stream().cuda_stream
        if self.library.contraction(
            self.number[name], *pointers, rows, columns, depth, *strides, band, overlap, stream
        ):
            sys.exit(f"{name}: {self.library.contraction_error().decode()}")


def normal(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda", dtype=dtype)


def relative_error(c, a, b) -> float:
    exact = a.double() @ b.double().T if a.dtype == torch.float32 else a.float() @ b.float().T
    return ((c - exact).norm() / exact.norm()).item()


def graph_of(calls) -> torch.cuda.CUDAGraph:
    """One graph of all calls, so that the host's launches are not timed."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for call in calls:
            call()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for call in calls:
            call()
    return graph


def sample(graph: torch.cuda.CUDAGraph, calls: int) -> float:
    """Milliseconds of a call."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / calls


def rounds(graphs, calls: int, count: int) -> list[float]:
    """The median time of each, sampled in turns, so that all see the same clocks."""
    times: list[list[float]] = [[] for _ in graphs]
    last = [sample(graph, calls) for graph in graphs]
    for _ in range(count):
        for i, graph in enumerate(graphs):
            time.sleep(min(0.03, 4e-3 * calls * last[i]))
            last[i] = sample(graph, calls)
            times[i].append(last[i])
    return [statistics.median(series) for series in times]


def measure(
    kernels: Kernels, names, shape, dtype: torch.dtype, count: int, *, overlaps
) -> list[float]:
    """Prints a row: torch, the fastest kernel, and what its launches gain by overlapping."""
    rows, columns, depth = shape
    size = torch.finfo(dtype).bits // 8 * (rows * depth + columns * depth + rows * columns)
    sets = max(2, min(12, int(500e6 / size)))
    calls = max(sets, 4)
    data = []
    for _ in range(sets):
        a, b = normal(rows, depth, dtype), normal(columns, depth, dtype)
        data.append((torch.empty(rows, columns, device="cuda", dtype=dtype), a, b))

    def ours(name: str, band: int, overlap: bool) -> torch.cuda.CUDAGraph:
        return graph_of(
            [
                lambda s=data[i % sets]: kernels(name, *s, band=band, overlap=overlap)
                for i in range(calls)
            ]
        )

    peer = graph_of(
        [lambda s=data[i % sets]: torch.matmul(s[1], s[2].T, out=s[0]) for i in range(calls)]
    )
    bands = (512, 1024, 2048) if rows >= 2048 else (2048,)
    candidates = [(name, band) for name in names for band in bands]
    trials = rounds(
        [ours(name, band, False) for name, band in candidates], calls, max(3, count // 4)
    )
    ranked = sorted(zip(trials, candidates, strict=True))
    best = ranked[0][1]
    graphs = [peer] + [ours(*best, overlap) for overlap in overlaps]
    for s in data:
        s[0].fill_(float("nan"))
    times = rounds(graphs, calls, count)
    for s in data:  # as the timed launches left it
        if not (error := relative_error(*s)) < (
            1e-3 if best[0].startswith("tf32") else LIMIT[dtype]
        ):
            sys.exit(f"{shape} {best[0]}: error {error}")
    ratios = [times[0] / t for t in times[1:]]
    rate = 2e-9 * rows * columns * depth
    print(
        f"{rows:5d} x {columns:5d} x {depth:5d}  {best[0]:22s} band {best[1]:<5d}"
        f" torch {times[0] * 1e3:8.1f} us {rate / times[0]:6.1f} | ours {times[1] * 1e3:8.1f} us {rate / times[1]:6.1f}"
        f" | {'  '.join(f'{r:.3f}' for r in ratios)}",
        flush=True,
    )
    print(
        "      " + "; ".join(f"{name} {band}: {t * 1e3:.1f}" for t, (name, band) in ranked[:8]),
        flush=True,
    )
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    parser.add_argument("--only", default="", help="only tables whose title contains this")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    kernels = Kernels(build())
    count = 7 if arguments.quick else 15
    print(
        f"{torch.cuda.get_device_name()}; TFLOP/s; ratio = torch's time / ours: plain launches, then launches"
    )
    print("that overlap the kernel before")
    print("below each row: microseconds of the fastest kernels and bands, few rounds")
    small = [(m, n, k) for m in (1, 8) for n, k in LAYERS]
    some = [(64, n, k) for n, k in LAYERS]
    many = [(m, n, k) for m in (512, 2048) for n, k in LAYERS]
    bf16, f32 = torch.bfloat16, torch.float32
    tables = [
        ("bf16 large", LARGE + many, kernels.of("bf16 large"), bf16, (False, True)),
        ("bf16 small", some, kernels.of("bf16 small"), bf16, (False, True)),
        ("bf16 thin", small, kernels.of("bf16 thin"), bf16, (False, True)),
        ("bf16 with a map before the boxes", LARGE, kernels.of("bf16 relu"), bf16, (False,)),
        (
            "bf16 stored from registers, by fours or pairs",
            LARGE,
            kernels.of("bf16 pairs"),
            bf16,
            (False,),
        ),
        ("bf16 by mma", [LARGE[0], (2048, 14336, 4096)], kernels.of("bf16 mma"), bf16, (False,)),
        ("f32, torch without tf32", LARGE[:1], kernels.of("f32"), f32, (False,)),
        ("tf32", LARGE[:1], kernels.of("tf32"), f32, (False,)),
    ]
    for title, shapes, names, dtype, overlaps in tables:
        if arguments.only not in title:
            continue
        print(f"\n{title}", flush=True)
        torch.backends.cuda.matmul.allow_tf32 = title == "tf32"
        ratios = []
        for shape in shapes:
            if "relu" in names[0]:
                ratios.append(measure_relu(kernels, names[0], shape, count))
            else:
                ratios.append(measure(kernels, names, shape, dtype, count, overlaps=overlaps))
        means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
        print("geometric means: " + "  ".join(f"{mean:.3f}" for mean in means))


def measure_relu(kernels: Kernels, name: str, shape, count: int) -> list[float]:
    """Beside torch.matmul alone: the map should cost nothing."""
    rows, columns, depth = shape
    a, b = normal(rows, depth, torch.bfloat16), normal(columns, depth, torch.bfloat16)
    c, peer_c = (torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    peer = graph_of([lambda: torch.matmul(a, b.T, out=peer_c)] * 4)
    ours = graph_of([lambda: kernels(name, c, a, b, band=1024)] * 4)
    times = rounds([peer, ours], 4, count)
    exact = (a.float() @ b.float().T).relu()
    if not (error := ((c - exact).norm() / exact.norm()).item()) < LIMIT[torch.bfloat16]:
        sys.exit(f"{shape} {name}: error {error}")
    print(
        f"{rows:5d} x {columns:5d} x {depth:5d}  torch {times[0] * 1e3:.1f} us"
        f" | ours {times[1] * 1e3:.1f} us | {times[0] / times[1]:.3f}"
    )
    return [times[0] / times[1]]


if __name__ == "__main__":
    main()
