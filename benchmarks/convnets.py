"""ResNet-18 and a detector in the shape of YOLOv8n, batch 1, f32: emitted projects beside their peers.

PYTHONPATH=. python3 benchmarks/convnets.py --quick

Weights are random, with norms whose statistics are not trivial: times do not depend on them.
"""

# ruff: noqa: PLC0415  # a worker imports its own peer and no other

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import convnet_models
import harness
import numpy as np
from convnet_models import SIZES
from harness import Case, Job, Samples, Worker

THREADS = (1, 2)
TOLERANCE = 1e-5  # of outputs below 1, to the same network in f64
GIGAFLOPS = {
    "resnet18": 3.63,
    "yolov8n": 8.74,
}  # of the contractions, an addition and a product each


def image(name: str) -> np.ndarray:
    """N(0, 1), channels before rows."""
    size = SIZES[name]
    return np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32)


# --- peers: what each worker does -----------------------------------------------------------------


def lumigen_peer(job: Job) -> dict[str, Case]:
    """The Python modules of the emitted projects; nothing of the compiler is imported."""

    def case(name: str) -> Case:
        sys.path.insert(0, str(Path(job["work"]) / f"{name}-cpu" / "python"))
        context = importlib.import_module(name).Model(threads=job["threads"]).context()
        x = image(name)
        return lambda: context.infer(x)

    return {name: case(name) for name in SIZES}


def onnxruntime_peer(job: Job) -> dict[str, Case]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1

    def case(name: str) -> Case:
        file = str(Path(job["work"]) / f"{name}.onnx")
        session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        x = {"x": image(name)}
        return lambda: session.run(None, x)[0]

    return {name: case(name) for name in SIZES}


def torch_compile_peer(job: Job) -> dict[str, Case]:
    """Frozen: weights are constants, packed for oneDNN."""
    import torch
    import torch._inductor.config as inductor

    torch.set_num_threads(job["threads"])
    inductor.freezing = True
    nets = convnet_models.networks()

    def case(name: str) -> Case:
        compiled, x = torch.compile(nets[name], dynamic=False), torch.from_numpy(image(name))

        def call():
            with torch.no_grad():
                return compiled(x)

        return call

    return {name: case(name) for name in SIZES}


def openvino_peer(job: Job) -> dict[str, Case]:
    import openvino

    core, settings = openvino.Core(), harness.openvino_settings(job["threads"], "f32")

    def case(name: str) -> Case:
        model = core.read_model(str(Path(job["work"]) / f"{name}.onnx"))
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        x = openvino.Tensor(image(name))
        request.set_input_tensor(0, x)

        def call():
            request.infer()
            return request.get_output_tensor(0).data

        return call

    return {name: case(name) for name in SIZES}


PEERS = {
    "lumigen": lumigen_peer,
    "onnxruntime": onnxruntime_peer,
    "torch.compile": torch_compile_peer,
    "openvino": openvino_peer,
}
NEEDS = {
    "onnxruntime": ("onnxruntime", "onnx"),
    "torch.compile": ("torch",),
    "openvino": ("openvino", "onnx"),
}


# --- what they are built from ---------------------------------------------------------------------


def emit(name: str, work: Path, numerics: str) -> None:
    """The project, compiled, with its Python module."""
    from safetensors.torch import save_file

    import lumigen as lg
    from lumigen import nn
    from lumigen.make_project import compile_project
    from lumigen.weights import open_weights

    net, size, file = (
        convnet_models.make(nn, lg.cat)[name],
        SIZES[name],
        work / f"{name}.safetensors",
    )
    state = convnet_models.networks()[name].state_dict().items()
    save_file({k: v.contiguous() for k, v in state if not k.endswith("num_batches_tracked")}, file)
    model = lg.Model(name, net)

    @model.entry(x=lg.spec(1, 3, size, size))
    def infer(x):
        return {"out": net(x)}

    directory = work / f"{name}-cpu"
    weights = open_weights(file)
    compile_project(
        model.trace(), directory=directory, weights=weights, numerics=numerics, force=True
    )


def export(name: str, work: Path) -> None:
    """The network as ONNX."""
    import torch

    has_script = importlib.util.find_spec("onnxscript") is not None
    more = {"external_data": False} if has_script else {"opset_version": 17}
    x = (torch.from_numpy(image(name)),)
    file = work / f"{name}.onnx"
    torch.onnx.export(
        convnet_models.networks()[name], x, file, input_names=["x"], dynamo=has_script, **more
    )


def references() -> dict[str, np.ndarray]:
    """What the networks give in f64."""
    import torch

    nets = convnet_models.networks()
    with torch.no_grad():
        return {
            name: nets[name].double()(torch.from_numpy(image(name)).double()).numpy()
            for name in SIZES
        }


# --- the driver -----------------------------------------------------------------------------------


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--threads", default=",".join(map(str, THREADS)), help="1,2 by default")
    parser.add_argument(
        "--numerics",
        default="default",
        choices=("strict", "default", "fast"),
        help="of ours: `fast` sums over windows by fewer products",
    )
    parser.add_argument(
        "--built", action="store_true", help="the projects of the last run are still good"
    )
    options = parser.parse_args()
    threads = [int(t) for t in options.threads.split(",")]
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    options.work.mkdir(parents=True, exist_ok=True)
    harness.probes().cpu_library()  # compiled here, before the workers need it
    about = harness.machine()
    workers: list[Worker] = []
    try:
        prepare(workers, options, threads)
        differences = harness.compare(workers, references(), TOLERANCE)
        samples = harness.measure(workers, rounds, 0.1 if options.quick else 0.25)
    finally:
        harness.stop(workers)
    ready = {f"{w.peer} {w.threads}": w.seconds for w in workers}
    report(options, about, samples, differences, ready)


def prepare(workers: list[Worker], options: Any, threads: Sequence[int]) -> None:
    """Add workers whose cases are built, compiled and called once."""
    wanted = options.peers.split(",") if options.peers else list(PEERS)
    peers = harness.available([p for p in PEERS if p in wanted or p == "lumigen"], NEEDS)
    for name in SIZES:
        start = time.perf_counter()
        if not options.built:
            emit(name, options.work, options.numerics)
            print(f"{name}: built in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        if {"onnxruntime", "openvino"} & set(peers):
            export(name, options.work)
    for name in ("limits", *peers):
        workers.extend(harness.start(__file__, name, t, options.work) for t in threads)
    harness.await_all(workers)


def report(
    options: Any,
    about: Mapping[str, Any],
    samples: Sequence[Samples],
    differences: Mapping[str, Mapping[str, float]],
    ready: Mapping[str, float],
) -> None:
    peers = [p for p in PEERS if any(s.peer == p for s in samples)]
    limits = harness.rates(samples)
    table = harness.Table(samples, peers, limits, GIGAFLOPS.__getitem__)
    worst = max(d for cases in differences.values() for d in cases.values())
    print(f"Random weights, batch 1, f32; all within {worst:.0e} of the same networks in f64.")
    print(f"Ours with {options.numerics} numerics.")
    print(harness.describe(about, samples, len(samples[0].median)))
    print(harness.limits_text(limits), end="\n\n")
    print(table.markdown("network"))
    harness.write(
        options.json or options.work / "convnets.json",
        about,
        table,
        benchmark="convnets",
        differences=differences,
        ready_s=ready,
    )


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
