"""x @ w of square f32 matrices with w a weight, one thread: an emitted project beside BLAS.

    PYTHONPATH=. python3 benchmarks/contraction.py --quick

Of the peers, `torch.mm` (MKL) and `numpy` (OpenBLAS) take w as it is. The prepacked ones had it put
in order beforehand, as lumigen has and as torch.compile does with frozen weights.
"""

# ruff: noqa: PLC0415, SLF001  # a worker imports its own peer and no other; torch packs in private

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path

import harness
import numpy as np
from harness import Case, Job, Worker

SIZES = (256, 512, 1024, 2048)
NAMES = {f"{n}^3": n for n in SIZES}
TOLERANCE = 1e-3  # on sums of up to 2048 products of N(0, 1), to f64


@cache
def operand(name: str, n: int) -> np.ndarray:
    """N(0, 1), different for x and w."""
    return np.random.default_rng([ord(name), n]).standard_normal((n, n), dtype=np.float32)


# --- peers: what each worker does -----------------------------------------------------------------


def lumigen_peer(job: Job) -> dict[str, Case]:
    """The Python module of the emitted project; nothing of the compiler is imported."""
    sys.path.insert(0, str(Path(job["project"]) / "python"))
    model = importlib.import_module("squares").Model(threads=job["threads"])
    context = model.context()

    def case(n: int) -> Case:
        run, x, out = getattr(context, f"times{n}"), operand("x", n), np.empty((n, n), np.float32)
        return lambda: run(x, out=out)

    return {name: case(n) for name, n in NAMES.items()}


def torch_mm_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])

    def case(n: int) -> Case:
        x, w = torch.from_numpy(operand("x", n)), torch.from_numpy(operand("w", n))
        out = torch.empty(n, n)
        return lambda: torch.mm(x, w, out=out)

    return {name: case(n) for name, n in NAMES.items()}


def prepacked_mkl_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])

    def case(n: int) -> Case:
        x = torch.from_numpy(operand("x", n))
        w = torch.from_numpy(operand("w", n)).t().contiguous()
        packed = torch.ops.mkl._mkl_reorder_linear_weight(w, n)
        return lambda: torch.ops.mkl._mkl_linear(x, packed, w, None, n)

    return {name: case(n) for name, n in NAMES.items()}


def prepacked_onednn_peer(job: Job) -> dict[str, Case]:
    import torch

    torch.set_num_threads(job["threads"])

    def case(n: int) -> Case:
        x = torch.from_numpy(operand("x", n))
        w = torch.from_numpy(operand("w", n)).t().contiguous()
        packed = torch.ops.mkldnn._reorder_linear_weight(w, n)
        return lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")

    return {name: case(n) for name, n in NAMES.items()}


def numpy_peer(_: Job) -> dict[str, Case]:
    def case(n: int) -> Case:
        x, w, out = operand("x", n), operand("w", n), np.empty((n, n), np.float32)
        return lambda: np.matmul(x, w, out=out)

    return {name: case(n) for name, n in NAMES.items()}


PEERS = {
    "lumigen": lumigen_peer,
    "torch.mm": torch_mm_peer,
    "MKL prepacked": prepacked_mkl_peer,
    "oneDNN prepacked": prepacked_onednn_peer,
    "numpy": numpy_peer,
}
NEEDS = dict.fromkeys(("torch.mm", "MKL prepacked", "oneDNN prepacked"), ("torch",))


# --- the driver -----------------------------------------------------------------------------------


def emit(directory: Path) -> Path:
    """A project with an entry for each size, compiled, with its Python module."""
    import lumigen as lg
    from lumigen import nn
    from lumigen.compile import compile_project

    class Square(nn.Module):
        def __init__(self, n):
            self.w = nn.Parameter(n, n)

        def forward(self, x):
            return x @ self.w

    squares = {f"square{n}": Square(n) for n in SIZES}
    model = lg.Model("squares", squares)
    for n in SIZES:

        def times(x, net=squares[f"square{n}"]):
            return {"product": net(x)}

        times.__name__ = f"times{n}"
        model.entry(x=lg.spec(n, n))(times)
    weights = {f"square{n}.w": operand("w", n) for n in SIZES}
    compile_project(model.trace(), directory=directory, weights=weights, force=True)
    return directory


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    harness.probes().cpu_library()  # compiled here, before the workers need it
    about = harness.machine()
    wanted = options.peers.split(",") if options.peers else list(PEERS)
    peers = harness.available([p for p in PEERS if p in wanted or p == "lumigen"], NEEDS)
    project = emit(work / "squares-cpu")
    expected = {
        name: operand("x", n).astype(np.float64) @ operand("w", n) for name, n in NAMES.items()
    }

    workers: list[Worker] = []
    try:
        workers.extend(
            harness.start(__file__, peer, 1, work, project=str(project))
            for peer in ("limits", *peers)
        )
        harness.await_all(workers)
        differences = harness.compare(workers, expected, TOLERANCE)
        samples = harness.measure(workers, rounds, 0.05 if options.quick else 0.15)
    finally:
        harness.stop(workers)

    limits = harness.rates(samples)
    timed = [p for p in peers if any(s.peer == p for s in samples)]
    table = harness.Table(samples, timed, limits, lambda case: 2e-9 * NAMES[case] ** 3)
    print("x @ w, f32, square, w a weight, one thread.")
    print(harness.describe(about, samples, rounds))
    print(harness.limits_text(limits), end="\n\n")
    print(table.markdown("size"))
    file = options.json or work / "contraction.json"
    harness.write(file, about, table, benchmark="contraction", differences=differences)


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
