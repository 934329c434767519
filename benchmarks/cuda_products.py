"""Products of emitted models beside torch.matmul, on this machine's GPU: the kernels that the compiler chooses.

    PYTHONPATH=. python3 benchmarks/cuda_products.py [--quick] [--only TEXT] [--target cuda:sm_90a]

Compiles one model with an entry for each shape, checks each entry against f32, with aligned tensors and with
such as begin at an element, and prints torch's time over ours. Both are timed in turns, as CUDA graphs over
inputs that do not fit in the cache; between samples the GPU rests. Needs nvcc and torch.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import lumigen as lg
from lumigen import functional
from lumigen.build import build_project, load_module, write_project
from lumigen.emit.project import render_project
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "benchmarks" / "products"
LAYERS = [
    (14336, 4096),
    (4096, 14336),
    (6144, 4096),
    (128256, 4096),
]  # (N, K) of a Llama of 8 billion weights
SQUARES = [(4096, 4096, 4096), (8192, 8192, 8192)]
LIMIT = 4e-3  # relative to the norm; a result of bf16


@dataclass(frozen=True)
class Product:
    """An entry. `form`: `nt` of w (N, K), `nn` of w (K, N), `gelu` with a map behind, `batched`."""

    form: str
    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def name(self) -> str:
        return f"{self.form}_{self.m}_{self.n}_{self.k}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of x, w and the result."""
        w = (self.k, self.n) if self.form == "nn" else (self.n, self.k)
        if self.form == "batched":
            return (self.batch, self.m, self.k), (self.batch, *w), (self.batch, self.m, self.n)
        return (self.m, self.k), w, (self.m, self.n)

    def ours(self, x: Any, w: Any) -> Any:
        y = x @ (w if self.form == "nn" else w.transpose(-1, -2))
        return functional.gelu(y) if self.form == "gelu" else y

    def exact(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x, w = x.float(), w.float()
        y = x @ (w if self.form == "nn" else w.mT)
        return torch.nn.functional.gelu(y) if self.form == "gelu" else y

    def peer(self, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
        torch.matmul(x, w if self.form == "nn" else w.mT, out=out)


PRODUCTS = (
    *(Product("nt", *shape) for shape in SQUARES),
    Product("nn", 4096, 4096, 4096),
    Product("gelu", 4096, 4096, 4096),
    Product("batched", 2048, 2048, 128, 16),
    *(Product("nt", m, n, k) for m in (2048, 512, 64, 8, 1) for n, k in LAYERS),
)


def entry_of(p: Product) -> Callable[[Any, Any], Any]:
    def entry(x: Any, w: Any) -> Any:
        return {"y": p.ours(x, w)}

    entry.__name__ = p.name
    return entry


def build(products: list[Product], target: str) -> ModuleType:
    model = lg.Model("products")
    for number, p in enumerate(products):
        x, w, _ = p.shapes
        rows = lg.Dim(f"rows{number}", 1, 16384, typical=p.m)
        dims: tuple[Any, ...] = (*x[:-2], rows, x[-1])
        model.entry(x=lg.spec(*dims, dtype=lg.bf16), w=lg.spec(*w, dtype=lg.bf16))(entry_of(p))
    # without the stored numbers of a project's own tests, which take the host a while at these sizes
    compiled = lower_model(model.trace(), {}, target=parse_target(target)).model
    write_project(render_project(compiled), BUILD, force=True)
    build_project(BUILD)
    return load_module(BUILD)


def tensor(shape: tuple[int, ...], *, shift: int = 0) -> torch.Tensor:
    """Random numbers that begin `shift` elements behind an aligned place."""
    count = torch.Size(shape).numel()
    return torch.randn(count + 8, device="cuda").bfloat16()[shift : shift + count].view(shape)


def check(p: Product, context: Any) -> None:
    """Launched one by one, as a graph, as a graph with other tensors; at other rows; not aligned."""
    for rows in (p.m, max(1, p.m - 3)):
        at = Product(p.form, rows, p.n, p.k, p.batch)
        for round_, shift in enumerate((0, 0, 0, 0, 1, 0)):
            x_shape, w_shape, y_shape = at.shapes
            x, w = tensor(x_shape, shift=shift), tensor(w_shape)
            y = torch.full(y_shape, float("nan"), device="cuda", dtype=torch.bfloat16)
            getattr(context, p.name)(x, w, out=y)
            torch.cuda.synchronize()
            exact = p.exact(x, w)
            error = ((y.float() - exact).norm() / exact.norm()).item()
            if not error < LIMIT:
                sys.exit(f"{p.name} at {rows} rows, call {round_}, shift {shift}: error {error}")


def graph_of(calls: list[Callable[[], Any]], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    with torch.cuda.stream(stream):
        for call in [*calls, *calls]:
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
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


def measure(p: Product, context: Any, stream: torch.cuda.Stream, rounds: int) -> float:
    """Torch's time over ours, and a row of the table."""
    shapes = p.shapes
    size = 2 * sum(torch.Size(s).numel() for s in shapes)
    sets = max(2, min(12, int(500e6 / size)))
    data = []
    for _ in range(sets):
        y = torch.empty(shapes[2], device="cuda", dtype=torch.bfloat16)
        data.append((y, tensor(shapes[0]), tensor(shapes[1])))
    run = getattr(context, p.name)
    calls = max(sets, 4)
    ours = [lambda s=data[i % sets]: run(s[1], s[2], out=s[0]) for i in range(calls)]
    peer = [lambda s=data[i % sets]: p.peer(*s) for i in range(calls)]
    graphs = [graph_of(peer, stream), graph_of(ours, stream)]
    times: list[list[float]] = [[], []]
    last = [sample(g, calls) for g in graphs]
    for _ in range(rounds):
        for i, graph in enumerate(graphs):
            time.sleep(min(0.03, 4e-3 * calls * last[i]))
            last[i] = sample(graph, calls)
            times[i].append(last[i])
    torch_ms, ours_ms = (statistics.median(t) for t in times)
    rate = 2e-9 * p.batch * p.m * p.n * p.k
    print(
        f"{p.name:24s} torch {torch_ms * 1e3:8.1f} us {rate / torch_ms:6.1f}"
        f" | ours {ours_ms * 1e3:8.1f} us {rate / ours_ms:6.1f} | {torch_ms / ours_ms:.3f}",
        flush=True,
    )
    return torch_ms / ours_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    parser.add_argument("--only", default="", help="only entries whose name contains this")
    parser.add_argument("--target", default="cuda:sm_90a")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    products = [p for p in PRODUCTS if arguments.only in p.name]
    start = time.perf_counter()
    module = build(products, arguments.target)
    print(f"built in {time.perf_counter() - start:.0f} s; {torch.cuda.get_device_name()}")
    print("TFLOP/s; ratio = torch's time / ours", flush=True)
    stream = torch.cuda.Stream()
    model = module.Model()
    context = model.context(stream=stream)
    with torch.cuda.stream(stream):
        for p in products:
            check(p, context)
    print("all entries agree with f32", flush=True)
    ratios = [measure(p, context, stream, 7 if arguments.quick else 15) for p in products]
    print(f"geometric mean: {statistics.geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
