"""Convolutional networks on a GPU, f16, beside torch.compile with channels last in the same run.

PYTHONPATH=. python3 benchmarks/cuda_convnets.py [--only NAMES] [--batches 1,16] [--emit] [--built] [--profile]

Weights are random, with norms whose statistics are not trivial: times do not depend on them. Ours takes
an image whose channels come before its rows, torch's one whose channels are innermost. Both are calls in CUDA graphs of
ours, and are checked against the same network in f32. A ratio is torch.compile's time over ours. `--emit` builds the
projects and stops, `--built` takes them as they are, `--profile` prints what each kernel of ours takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import convnet_models
import harness
import torch
from convnet_models import LATENT, SIZES
from cuda_layers import distance, measure
from cuda_products import graph_of
from safetensors.torch import save_file

import lumigen as lg
from lumigen import nn
from lumigen.build import build_project, load_module, write_project
from lumigen.dtype import f16
from lumigen.emit.project import render_project
from lumigen.pipeline import lower_model
from lumigen.target import parse_target

TARGET = "cuda:sm_90a"
TOLERANCE = 2e-2  # of the norm, to f32
IMAGES = {
    "resnet18": (3, SIZES["resnet18"]),
    "resnet50": (3, SIZES["resnet18"]),
    "yolov8n": (3, SIZES["yolov8n"]),
    "unet_block": (320, LATENT),
    "vae_decoder": (4, LATENT),
}  # channels, height and width


def emit(name: str, batches: Sequence[int], work: Path) -> None:
    """The project with an entry for each batch, without the stored numbers of its own tests."""
    channels, size = IMAGES[name]
    net = convnet_models.make(nn, lg.cat)[name]
    model = lg.Model(name, net)
    for batch in batches:

        def entry(x: Any) -> Any:
            return {"out": net(x)}

        entry.__name__ = f"infer_{batch}"
        model.entry(x=lg.spec(batch, channels, size, size))(entry)
    compiled = lower_model(model.trace(), {}, target=parse_target(TARGET), dtype=f16).model
    write_project(render_project(compiled), work / f"{name}-cuda", force=True)
    build_project(work / f"{name}-cuda")


def weights_of(net: torch.nn.Module, file: Path) -> Path:
    state = net.state_dict().items()
    save_file({k: v.contiguous() for k, v in state if not k.endswith("num_batches_tracked")}, file)
    return file


def run(name: str, batches: Sequence[int], options: argparse.Namespace) -> None:
    net = convnet_models.networks()[name]
    file = weights_of(net, options.work / f"{name}-cuda.safetensors")
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        model = load_module(options.work / f"{name}-cuda").Model(str(file))
        half = net.cuda().half().to(memory_format=torch.channels_last)
        for batch in batches:
            channels, size = IMAGES[name]
            x = torch.randn(batch, channels, size, size, device="cuda").half()
            entry = getattr(model.context(stream=stream), f"infer_{batch}")
            row(f"{name}, batch {batch}", entry, half, x, stream, options)


def row(
    name: str,
    entry: Callable[..., Any],
    net: torch.nn.Module,
    x: torch.Tensor,
    stream: torch.cuda.Stream,
    options: argparse.Namespace,
) -> None:
    exact = net.float()(x.float())
    net.half()
    out = torch.full(exact.shape, float("nan"), device="cuda", dtype=torch.half)
    entry(x, out=out)
    torch.cuda.synchronize()
    error = distance(out, exact)
    last = x.to(memory_format=torch.channels_last)
    peer = torch.compile(net, mode=options.mode, dynamic=False) if options.mode else net
    calls: dict[str, list[Callable[[], Any]]] = {
        "ours": [lambda: entry(x, out=out)] * 4,
        "torch.compile": [lambda: peer(last)] * 4,
    }
    graphs = {program: graph_of(each, stream) for program, each in calls.items()}
    samples = measure(graphs, options.rounds, 4)
    ours, theirs = (samples[p].seconds * 1e6 for p in calls)
    ratio = harness.ratio(samples["ours"], samples["torch.compile"])
    said = "" if error <= TOLERANCE else f"wrong by {error:.1e} of the norm"
    print(f"| {name} | {ours:.1f} | {theirs:.1f} | {ratio.median:.3f} | {error:.1e} | {said} |")
    if options.profile:
        profile(graphs["ours"])


def profile(graph: torch.cuda.CUDAGraph) -> None:
    """Microseconds of each kernel in a call, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        graph.replay()
        torch.cuda.synchronize()
    events = sorted(found.key_averages(), key=lambda e: -e.self_device_time_total)
    for e in events[:24]:
        print(f"  {e.self_device_time_total / 4:8.1f} us in {e.count // 4} of {e.key[:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(IMAGES))
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--emit", action="store_true", help="build the projects alone")
    parser.add_argument("--built", action="store_true", help="take the projects as they are")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--mode", default="max-autotune-no-cudagraphs", help="torch's; '': none")
    parser.add_argument("--rounds", type=int, default=harness.ROUNDS)
    parser.add_argument("--work", type=Path, default=harness.ROOT / "build" / "benchmarks")
    options = parser.parse_args()
    names, batches = options.only.split(","), [int(b) for b in options.batches.split(",")]
    options.work.mkdir(parents=True, exist_ok=True)
    for name in names if not options.built else ():
        emit(name, batches, options.work)
    if options.emit:
        return
    print("| network | ours, us | torch.compile, us | torch.compile / ours | error | |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        run(name, batches, options)


if __name__ == "__main__":
    main()
