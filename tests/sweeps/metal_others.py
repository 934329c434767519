"""Kernels that tinygrad's and tilelang's writers of Metal make, on the emulator: a check of the emulator by others.

    python -m venv others && others/bin/pip install numpy tinygrad==0.14.0 tilelang==0.1.15
    others/bin/python tests/sweeps/metal_others.py [--only tinygrad | tilelang] [--write docs/metal_others.md]

Both make text without a Mac. Each kernel is run with threads in four orders.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from metal_source import Array, Foreign

SEEDS = range(4)
USED = (
    "simdgroup_multiply_accumulate",
    "threadgroup_barrier",
    "half",
)  # that a row names if a kernel has it
rng = np.random.default_rng(0)


def check(
    name: str,
    source: str,
    kernel: Foreign,
    launch: tuple[Any, Any],
    arrays: list[Array],
    wanted: Array,
    at: int = 0,
) -> str:
    """`wanted` in the array number `at`, whatever the order of threads; the row of the page."""
    worst = 0.0
    for seed in SEEDS:
        found = kernel.run(*launch, arrays, seed=seed)[at].astype(np.float64)
        worst = max(worst, float(np.abs(found - wanted).max() / np.abs(wanted).max()))
    used = ", ".join(f"`{word}`" for word in USED if word in source)
    row = f"| {name} | {used} | {worst:.1e} |"
    print(row, flush=True)
    assert worst < (2e-3 if arrays[at].dtype == np.float16 else 2e-5), name
    return row


# ---- tinygrad ----


def tinygrad_writer() -> Callable[[Any], list[tuple[Any, str]]]:
    """What makes the kernels of a tensor; its compiler for a Mac is left out."""
    os.environ["DEV"] = "CPU"
    from tinygrad.device import Compiler

    class Kept(Compiler):
        def __init__(self) -> None:
            super().__init__(None)

        def compile(self, src: str) -> bytes:
            return src.encode()

    without: Any = types.ModuleType("tinygrad.runtime.ops_metal")
    without.MetalCompiler = Kept
    sys.modules["tinygrad.runtime.ops_metal"] = without
    from tinygrad.codegen import to_program
    from tinygrad.helpers import Target
    from tinygrad.renderer.cstyle import MetalRenderer
    from tinygrad.uop.ops import Ops

    renderer = MetalRenderer(Target("METAL", "METAL", "Apple7"))

    def write(t: Any) -> list[tuple[Any, str]]:
        found: list[tuple[Any, str]] = []
        for u in t.schedule_linear().toposort():
            if u.op is Ops.SINK and u.arg is not None:
                made = to_program(u, renderer)
                found.append((made.arg, next(x for x in made.src if x.op is Ops.SOURCE).arg))
        return found

    return write


def tinygrad_cases() -> Iterator[tuple[str, Any, list[Array], Array]]:
    """(name, what tinygrad computes, its inputs, the result)."""
    from tinygrad import Tensor, dtypes

    def made(*shape: int, dtype: Any = np.float32) -> Array:
        return rng.standard_normal(shape).astype(dtype)

    def empty(x: Array) -> Any:
        return Tensor.empty(*x.shape, dtype=dtypes.half if x.dtype == np.float16 else dtypes.float)

    def wide(x: Array) -> Array:
        return x.astype(np.float64)

    x, y = made(128, 64), made(64, 96)
    yield "product", empty(x) @ empty(y), [x, y], wide(x) @ wide(y)
    x, y = made(64, 64, dtype=np.float16), made(64, 64, dtype=np.float16)
    yield (
        "product of halves",
        empty(x).matmul(empty(y), dtype=dtypes.float),
        [x, y],
        wide(x) @ wide(y),
    )
    x, y = made(37, 50), made(50, 23)
    yield "ragged product", (empty(x) @ empty(y)).relu(), [x, y], np.maximum(wide(x) @ wide(y), 0)
    x, y = made(1, 4096), made(4096, 64)
    yield "one row", empty(x) @ empty(y), [x, y], wide(x) @ wide(y)
    x = made(20, 300)
    yield "sums of rows", empty(x).exp().sum(1), [x], np.exp(wide(x)).sum(1)
    yield "maxima of columns", empty(x).max(0), [x], wide(x).max(0)
    yield "a map", empty(x).sin() * 2, [x], np.sin(wide(x)) * 2
    x, y = made(2, 4, 9, 9), made(6, 4, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(wide(x), (3, 3), (2, 3))
    yield (
        "windows",
        empty(x).conv2d(empty(y)),
        [x, y],
        np.einsum("bcijuv,ocuv->boij", windows, wide(y)),
    )


def of_tinygrad(folder: Path) -> Iterator[str]:
    write = tinygrad_writer()
    for number, (name, tensor, inputs, wanted) in enumerate(tinygrad_cases()):
        made = write(tensor)
        assert len(made) == 1, f"{name} is {len(made)} kernels"
        ((info, source),) = made
        kernel = Foreign.built(source, folder / str(number))
        out = np.zeros(wanted.shape, np.float32)
        launch = (info.global_size, info.local_size)
        yield check(f"tinygrad, {name}", source, kernel, launch, [out, *inputs], wanted)


# ---- tilelang ----


def tilelang_programs() -> dict[str, Any]:
    """A map of ragged length, and products of tiles in threadgroup memory."""
    import tilelang.language as T

    @T.prim_func
    def a_map(
        A: T.Tensor((1000,), "float32"),
        B: T.Tensor((1000,), "float32"),
        C: T.Tensor((1000,), "float32"),
    ):
        with T.Kernel(8, threads=128) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < 1000:
                    C[bx * 128 + i] = A[bx * 128 + i] * B[bx * 128 + i] + 1.0

    def product(dtype: str) -> Any:
        @T.prim_func
        def main(
            A: T.Tensor((64, 128), dtype),
            B: T.Tensor((128, 96), dtype),
            C: T.Tensor((64, 96), "float32"),
        ):
            with T.Kernel(3, 2, threads=128) as (bx, by):
                rows = T.alloc_shared((32, 32), dtype, scope="shared")
                columns = T.alloc_shared((32, 32), dtype, scope="shared")
                sums = T.alloc_fragment((32, 32), "float32")
                T.clear(sums)
                for k in T.Serial(4):
                    T.copy(A[by * 32, k * 32], rows)
                    T.copy(B[k * 32, bx * 32], columns)
                    T.gemm(rows, columns, sums)
                T.copy(sums, C[by * 32, bx * 32])

        return main

    return {"a map": a_map, "product": product("float32"), "product of halves": product("float16")}


def of_tilelang(folder: Path) -> Iterator[str]:
    import tilelang
    from tilelang import tvm

    for number, (name, program) in enumerate(tilelang_programs().items()):
        with tvm.target.Target("metal"):
            source = str(tilelang.lower(program, target="metal").kernel_source)
        kernel = Foreign.built(source, folder / str(number))
        if name == "a map":
            x, y = rng.standard_normal((2, 1000)).astype(np.float32)
            launch, wanted = ((8, 1, 1), (128, 1, 1)), x.astype(np.float64) * y + 1
        else:
            kind = np.float16 if "halves" in name else np.float32
            x, y = (rng.standard_normal(s).astype(kind) for s in ((64, 128), (128, 96)))
            launch, wanted = ((3, 2, 1), (128, 1, 1)), x.astype(np.float64) @ y.astype(np.float64)
        arrays = [x, y, np.zeros(wanted.shape, np.float32)]
        yield check(f"tilelang, {name}", source, kernel, launch, arrays, wanted, at=2)


HEAD = """# Kernels of other writers on the emulator of Metal

What {writers} write for Metal, built with the
[emulator](../emulator/metal/README.md), as a check of it by others: how far results are from NumPy's in f64, as a share
of the greatest one, the worst of threads in four orders. `python tests/sweeps/metal_others.py --write
docs/metal_others.md` makes this page, in an environment of its own; this one is of {date}.

| kernel | has | apart |
| --- | --- | --- |
"""
WRITERS = {"tinygrad": of_tinygrad, "tilelang": of_tilelang}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(WRITERS), choices=list(WRITERS))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for name in options.only for row in WRITERS[name](Path(folder) / name)]
    if options.write:
        writers = " and ".join(f"{name} {version(name)}" for name in options.only)
        text = HEAD.format(writers=writers, date=datetime.now(UTC).date()) + "\n".join(rows) + "\n"
        options.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
