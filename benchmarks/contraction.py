"""x @ w with w a weight, f32 or bf16: an emitted project beside BLAS.

    PYTHONPATH=. python3 benchmarks/contraction.py --quick --dtype bf16

Square matrices, and the products of a Llama of 2048 features with a prompt of 128 tokens. Of the peers, `torch.mm`
(MKL, and oneDNN for bf16) and `numpy` (OpenBLAS) take w as it is. The prepacked ones had it put in order beforehand,
as lumigen has and as torch.compile does with frozen weights.
"""

# ruff: noqa: PLC0415, SLF001  # a worker imports its own peer and no other; torch packs in private

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Case, Job, Worker

SHAPES = {f"{n}^3": (n, n, n) for n in (256, 512, 1024, 2048)}  # rows, depth, columns
SHAPES |= {f"128x{k}x{n}": (128, k, n) for k, n in ((2048, 2048), (2048, 8192), (8192, 2048))}
# on sums of products of N(0, 1), to f64: what a running sum in f32 is off by grows with its depth; of bf16 half an ulp
# of 500, which few of them reach
TOLERANCE_OF_DEPTH, TOLERANCE_OF_BF16 = 5e-7, 1.0


@cache
def operand(name: str, rows: int, columns: int, dtype: str) -> np.ndarray:
    """N(0, 1), different for x and w."""
    rng = np.random.default_rng([ord(name), rows, columns])
    out = rng.standard_normal((rows, columns), dtype=np.float32)
    if dtype == "f32":
        return out
    import ml_dtypes

    return out.astype(ml_dtypes.bfloat16)


def tensor(array: np.ndarray) -> Any:
    """The same in torch, which does not know ml_dtypes."""
    import torch

    if array.dtype == np.float32:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


# --- peers: what each worker does -----------------------------------------------------------------


def lumigen_peer(job: Job) -> dict[str, Case]:
    """The Python module of the emitted project; nothing of the compiler is imported."""
    sys.path.insert(0, str(Path(job["project"]) / "python"))
    model = importlib.import_module("products").Model(threads=job["threads"])
    context = model.context()

    def case(m: int, k: int, n: int) -> Case:
        run, x = getattr(context, f"times_{m}_{k}_{n}"), operand("x", m, k, job["dtype"])
        out = np.empty((m, n), x.dtype)

        def call() -> np.ndarray:
            run(x, out=out)
            return out

        return call

    return {name: case(*shape) for name, shape in SHAPES.items()}


def torch_mm_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])

    def case(m: int, k: int, n: int) -> Case:
        x, w = (tensor(operand(*o, job["dtype"])) for o in (("x", m, k), ("w", k, n)))
        out = torch.empty(m, n, dtype=x.dtype)
        return lambda: torch.mm(x, w, out=out)

    return {name: case(*shape) for name, shape in SHAPES.items()}


def prepacked_mkl_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])

    def case(m: int, k: int, n: int) -> Case:
        x = tensor(operand("x", m, k, "f32"))
        w = tensor(operand("w", k, n, "f32")).t().contiguous()
        packed = torch.ops.mkl._mkl_reorder_linear_weight(w, m)
        return lambda: torch.ops.mkl._mkl_linear(x, packed, w, None, m)

    return {name: case(*shape) for name, shape in SHAPES.items()}


def prepacked_onednn_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])

    def case(m: int, k: int, n: int) -> Case:
        x = tensor(operand("x", m, k, job["dtype"]))
        w = tensor(operand("w", k, n, job["dtype"])).t().contiguous()
        packed = torch.ops.mkldnn._reorder_linear_weight(w, m)
        return lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")

    return {name: case(*shape) for name, shape in SHAPES.items()}


def numpy_peer(_: Job) -> dict[str, Case]:
    def case(m: int, k: int, n: int) -> Case:
        x, w = operand("x", m, k, "f32"), operand("w", k, n, "f32")
        out = np.empty((m, n), np.float32)
        return lambda: np.matmul(x, w, out=out)

    return {name: case(*shape) for name, shape in SHAPES.items()}


PEERS = {
    "lumigen": lumigen_peer,
    "torch.mm": torch_mm_peer,
    "MKL prepacked": prepacked_mkl_peer,
    "oneDNN prepacked": prepacked_onednn_peer,
    "numpy": numpy_peer,
}
OF_BF16 = ("lumigen", "torch.mm", "oneDNN prepacked")
NEEDS = dict.fromkeys(("torch.mm", "MKL prepacked", "oneDNN prepacked"), ("torch",))


# --- the driver -----------------------------------------------------------------------------------


def emit(directory: Path, dtype: str) -> Path:
    """A project with an entry for each shape, compiled, with its Python module."""
    import lumigen as lg
    from lumigen import nn
    from lumigen.make_project import compile_project

    class Product(nn.Module):
        def __init__(self, k, n):
            self.w = nn.Parameter(k, n)

        def forward(self, x):
            return x @ self.w

    products = {"p" + "_".join(map(str, s)): Product(*s[1:]) for s in SHAPES.values()}
    model = lg.Model("products", products)
    weights: dict[str, np.ndarray] = {}
    for m, k, n in SHAPES.values():
        name = f"p{m}_{k}_{n}"

        def times(x, net=products[name]):
            return {"product": net(x)}

        times.__name__ = f"times_{m}_{k}_{n}"
        model.entry(x=lg.spec(m, k))(times)
        weights[f"{name}.w"] = operand("w", k, n, dtype)
    held = getattr(lg, dtype)
    compile_project(model.trace(), directory=directory, weights=weights, dtype=held, force=True)
    return directory


def expected(m: int, k: int, n: int, dtype: str) -> np.ndarray:
    x, w = operand("x", m, k, dtype), operand("w", k, n, dtype)
    return x.astype(np.float64) @ w.astype(np.float64)


def gigaflops(case: str) -> float:
    m, k, n = SHAPES[case]
    return 2e-9 * m * k * n


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1", help="such as 1,16; 1 by default")
    options = parser.parse_args()
    dtype, threads = options.dtype, [int(t) for t in options.threads.split(",")]
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    harness.probes().cpu_library()  # compiled here, before the workers need it
    about = harness.machine()
    possible = [p for p in PEERS if dtype == "f32" or p in OF_BF16]
    wanted = options.peers.split(",") if options.peers else possible
    peers = harness.available([p for p in possible if p in wanted or p == "lumigen"], NEEDS)
    project = emit(work / f"products-cpu-{dtype}", dtype)
    right = {name: expected(*shape, dtype) for name, shape in SHAPES.items()}

    workers: list[Worker] = []
    try:
        workers.extend(
            harness.start(__file__, peer, t, work, project=str(project), dtype=dtype)
            for peer in ("limits", *peers)
            for t in threads
        )
        harness.await_all(workers)
        tolerances = {
            name: TOLERANCE_OF_DEPTH * k if dtype == "f32" else TOLERANCE_OF_BF16
            for name, (_, k, _) in SHAPES.items()
        }
        differences = harness.compare(workers, right, tolerances)
        samples = harness.measure(workers, rounds, 0.05 if options.quick else 0.15)
    finally:
        harness.stop(workers)

    limits = harness.rates(samples)
    timed = [p for p in peers if any(s.peer == p for s in samples)]
    table = harness.Table(samples, timed, limits, gigaflops, dtype)
    print(f"x @ w, {dtype}, w a weight; rows x depth x columns.")
    print(harness.describe(about, samples, rounds))
    print(harness.limits_text(limits), end="\n\n")
    print(table.markdown("size"))
    file = options.json or work / f"contraction-{dtype}.json"
    harness.write(file, about, table, benchmark="contraction", differences=differences)


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
