"""Memory-bound kernels, products and MiniLM on a GPU, beside torch in the same run.

PYTHONPATH=. python3 benchmarks/cuda_rows.py [--quick] [--only TEXT] [--work DIRECTORY]

Every program runs on one stream through the Python module, with its outputs in place, many calls between two events;
programs take turns in rounds, since clocks drift. A ratio is torch's time over ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import bert
import harness
import numpy as np
import torch
import torch.nn.functional as tf

import lumigen as lg
from lumigen import functional

ROWS, COLUMNS = 16384, 4096
SIZE = 4096
HEAD_START = 4_000_000  # cycles of the GPU, some 2 ms
SENTENCES = ((1, 16), (1, 128), (1, 256), (32, 128), (256, 128))


def time_of(
    call: Callable[[], object], stream: torch.cuda.Stream, calls: int, ahead: bool
) -> float:
    """Microseconds of a call, of `calls` between two events.

    With `ahead` the GPU sleeps until the host has queued all calls, and the time is that of the kernels; without,
    what the host takes for a call may be a part of it.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        if ahead:
            torch.cuda._sleep(HEAD_START)  # noqa: SLF001 -- it has no public name
        start.record(stream)
        for _ in range(calls):
            call()
        end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / calls * 1e3


def rounds(
    programs: dict[str, Callable[[], object]],
    stream: torch.cuda.Stream,
    count: int,
    calls: int,
    *,
    ahead: bool,
) -> dict[str, float]:
    """The median over rounds of each program's microseconds."""
    with torch.cuda.stream(stream):
        for call in programs.values():
            for _ in range(3):
                call()
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(count):
        for name, call in programs.items():
            times[name].append(time_of(call, stream, calls, ahead))
    return {name: median(found) for name, found in times.items()}


# ---- kernels ----------------------------------------------------------------------------------------


def model() -> lg.Model:
    kernels = lg.Model("kernels")
    rows = lg.Dim("rows", 1, ROWS, typical=ROWS)
    wide = {"x": lg.spec(rows, COLUMNS, dtype=lg.bf16)}
    weight = {"w": lg.spec(COLUMNS, dtype=lg.bf16)}
    more = {"r": lg.spec(rows, COLUMNS, dtype=lg.bf16)}

    @kernels.entry(**wide)
    def softmax(x):
        return x.softmax(-1)

    @kernels.entry(**wide, **more, **weight)
    def residual_rms_norm(x, r, w):
        total = x + r
        return {"total": total, "out": functional.rms_norm(total, (COLUMNS,), w)}

    @kernels.entry(**wide, **weight)
    def layer_norm(x, w):
        return functional.layer_norm(x, (COLUMNS,), w, w)

    @kernels.entry(**wide, **more)
    def gelu_mul(x, r):
        return functional.gelu(x) * r

    for dtype in (lg.bf16, lg.f32):
        square = lg.spec(SIZE, SIZE, dtype=dtype)

        def product(a, b):
            return a @ b.transpose(0, 1)

        product.__name__ = f"product_{dtype}"
        kernels.entry(a=square, b=square)(product)
    return kernels


def torch_kernels() -> dict[str, tuple[Callable[..., list[torch.Tensor]], int]]:
    """For each entry the same in torch, and how often it passes over a matrix; 0: it is a product."""

    def residual_rms_norm(x, r, w):
        total = x + r
        return [total, tf.rms_norm(total, (COLUMNS,), w)]

    def product(a, b):
        return [a @ b.T]

    return {
        "softmax": (lambda x: [torch.softmax(x, -1)], 2),
        "residual_rms_norm": (residual_rms_norm, 4),
        "layer_norm": (lambda x, w: [tf.layer_norm(x, (COLUMNS,), w, w)], 2),
        "gelu_mul": (lambda x, r: [tf.gelu(x) * r], 3),
        "product_bf16": (product, 0),
        "product_f32": (product, 0),
    }


def run_kernels(options: argparse.Namespace, stream: torch.cuda.Stream) -> list[dict[str, object]]:
    module = lg.compile(model(), "cuda:sm_90a", options.work / "kernels")
    context = module.Model().context(stream=stream)
    made = torch.Generator("cuda").manual_seed(0)

    def normal(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, generator=made, device="cuda").to(dtype)

    given = {"x": normal(ROWS, COLUMNS), "r": normal(ROWS, COLUMNS), "w": normal(COLUMNS)}
    copied = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    kept = torch.empty_like(copied)
    limit = (
        2
        * copied.numel()
        / rounds({"copy": lambda: kept.copy_(copied)}, stream, 5, 5, ahead=True)["copy"]
        / 1e3
    )
    table: list[dict[str, object]] = [{"case": "copy", "GB/s": limit}]
    for name, (peer, passes) in torch_kernels().items():
        if options.only not in name:
            continue
        arguments = dict(given)
        if not passes:
            dtype = torch.bfloat16 if name.endswith("bf16") else torch.float32
            arguments = {k: normal(SIZE, SIZE, dtype=dtype) for k in "ab"}
        names = module.Model().entries[name].inputs
        arguments = {k: arguments[k] for k in names}
        wanted = peer(**arguments)
        outputs = [torch.empty_like(w) for w in wanted]
        entry = getattr(context, name)
        out = outputs if len(outputs) > 1 else outputs[0]
        programs = {"ours": lambda e=entry, a=arguments, o=out: e(**a, out=o)}
        programs["torch"] = lambda p=peer, a=arguments: p(**a)
        if passes:
            compiled = torch.compile(peer, mode="max-autotune-no-cudagraphs")
            programs["torch.compile"] = lambda p=compiled, a=arguments: p(**a)
        found = rounds(programs, stream, options.rounds, 10, ahead=True)
        torch.cuda.synchronize()
        error = max(
            ((o.double() - w.double()).norm() / w.double().norm()).item()
            for o, w in zip(outputs, wanted, strict=True)
        )
        row: dict[str, object] = {"case": name, "us": found["ours"], "error": error}
        row |= {f"{k} / ours": v / found["ours"] for k, v in found.items() if k != "ours"}
        if passes:
            rate = passes * ROWS * COLUMNS * 2 / found["ours"] / 1e3
            row |= {"GB/s": rate, "of copy": rate / limit}
        else:
            row["TFLOP/s"] = 2 * SIZE**3 / found["ours"] / 1e6
        table.append(row)
    return table


# ---- MiniLM -------------------------------------------------------------------------------------------


def run_minilm(
    options: argparse.Namespace, stream: torch.cuda.Stream, dtype: str
) -> list[dict[str, object]]:
    checkpoint = bert.make_random(options.work / "checkpoint")
    place = options.work / f"minilm-{dtype}"
    model_file = harness.ROOT / "examples" / "minilm" / "model.py"
    command = [sys.executable, "-m", "lumigen", "compile", model_file, "--weights", checkpoint]
    command += ["--target", "cuda:sm_90a", "--dtype", dtype, "-o", place]
    command += ["--set", f"max_batch={max(batch for batch, _ in SENTENCES)}"]
    subprocess.run(command, check=True, capture_output=True)
    module = lg.load(place)
    context = module.Model().context(stream=stream)
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    reference = bert.load(checkpoint).double().eval()
    peer = torch.compile(bert.load(checkpoint).to("cuda", kind).eval(), mode="reduce-overhead")
    table: list[dict[str, object]] = []
    for batch, length in SENTENCES:
        rng = np.random.default_rng(length)
        ids = torch.from_numpy(rng.integers(0, 30522, (batch, length)))
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length // 2 :] = 0
        with torch.no_grad():
            wanted = reference(ids, mask)
        ids, mask = ids.cuda(), mask.cuda()
        out = torch.empty(batch, wanted.shape[1], dtype=kind, device="cuda")
        programs: dict[str, Callable[[], object]] = {
            "ours": lambda i=ids, m=mask, o=out: context.embed(i, m, out=o)
        }
        with torch.no_grad():
            programs["torch.compile"] = lambda i=ids, m=mask: peer(i, m)
            found = rounds(programs, stream, options.rounds, 10, ahead=False)
        torch.cuda.synchronize()
        error = (out.cpu().double() - wanted).abs().max().item()
        row: dict[str, object] = {"case": f"minilm {dtype} {batch} x {length}", "us": found["ours"]}
        row |= {"error": error, "torch.compile / ours": found["torch.compile"] / found["ours"]}
        table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 rounds instead of 15")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    parser.add_argument("--dtype", default="f16", choices=["f16", "bf16", "f32"], help="of MiniLM")
    parser.add_argument("--work", type=Path, help="what is built is kept here")
    parser.add_argument("--report", type=Path, help="all figures as JSON")
    options = parser.parse_args()
    options.rounds = 5 if options.quick else 15
    with tempfile.TemporaryDirectory() as folder:
        options.work = options.work or Path(folder)
        stream = torch.cuda.Stream()
        table = run_kernels(options, stream)
        if options.only in "minilm":
            table += run_minilm(options, stream, options.dtype)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for row in table:
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()))
    if options.report:
        options.report.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
