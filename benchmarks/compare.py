"""Rows of the benchmarks of a CPU for two checkouts in alternation: is the compiler as good as it was?

    python3 benchmarks/compare.py --before ../old --after . --rows minilm "layers:lstm_1" "contraction:512^3"

A row is BENCHMARK:CASE, or a benchmark's name for all of its cases. Each checkout emits and builds the projects
with its own compiler, examples and benchmark scripts. In every round each case runs once of both, in random order.
The ratio is the time before over the time after: above 1 the second checkout is faster; 0.97 and more is even.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
MODELS = ("110m", "1b")  # of llama.py
KINDS = ("decode", "prefill")
TOLERANCE = (
    0.02  # between the results of both, of the greatest value: whether they compute the same
)
# the cases of each benchmark, by its module; those of llama carry their dtype in their names
CASES: dict[str, Callable[[Any, str], Sequence[str]]] = {
    "layers": lambda m, _: list(m.CASES),
    "minilm": lambda m, _: list(m.INPUTS),
    "contraction": lambda m, _: list(m.SHAPES),
    "llama": lambda m, dtype: list(m.cases_of(MODELS, [dtype], KINDS)),
}


def emit(job: dict[str, Any]) -> None:
    """In a process whose modules are those of one checkout: the project of a benchmark, compiled."""
    benchmark, dtype, work = job["benchmark"], job["dtype"], Path(job["work"])
    module = importlib.import_module(benchmark)
    project = Path(job["project"])
    compiler = Path(importlib.import_module("lumigen").__file__ or "")
    if Path(job["checkout"]) not in compiler.parents:
        raise SystemExit(f"The compiler is {compiler}, not that of {job['checkout']}.")
    if benchmark == "layers":
        module.emit(project, job["cases"])
    elif benchmark == "contraction":
        module.emit(project, dtype)
    elif benchmark == "minilm":
        checkpoint = importlib.import_module("bert").make_random(work / "random")
        module.emit(checkpoint, project, dtype)
    else:
        for model in job["models"]:
            checkpoint = module.make_checkpoint(work / model, model)
            module.emit(checkpoint, work / module.project_of(model, dtype), dtype)


def wanted(rows: Sequence[str], dtype: str) -> dict[str, list[str]]:
    """By benchmark: the cases that the rows name."""
    found: dict[str, list[str]] = {}
    for row in rows:
        benchmark, _, case = row.partition(":")
        if benchmark not in CASES:
            raise SystemExit(f"No benchmark {benchmark}. There are {', '.join(CASES)}.")
        known = CASES[benchmark](importlib.import_module(benchmark), dtype)
        if case and case not in known:
            raise SystemExit(f"{benchmark} has no case {case}. There are {'; '.join(known)}.")
        found.setdefault(benchmark, []).extend([case] if case else known)
    return {benchmark: list(dict.fromkeys(cases)) for benchmark, cases in found.items()}


def start(harness: Any, side: str, job: dict[str, Any], threads: int) -> Any:
    """A worker for a benchmark of a checkout, whose project is emitted and compiled first."""
    checkout, work = Path(job["checkout"]), Path(job["work"])
    work.mkdir(parents=True, exist_ok=True)
    # `-P`: the folder of this script, which has the modules of this checkout, is not searched
    path = os.pathsep.join([str(checkout / "benchmarks"), str(checkout)])
    subprocess.run(
        [sys.executable, "-P", __file__, "--emit", json.dumps(job)],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    script = str(checkout / "benchmarks" / f"{job['benchmark']}.py")
    more = {k: v for k, v in job.items() if k != "work"}
    worker = harness.start(script, "lumigen", threads, work, **more)
    harness.await_all([worker])
    if worker.error:
        raise SystemExit(f"{side}: {worker.error}; see {worker.log}")
    worker.peer = side
    worker.cases = [case for case in worker.cases if case in job["cases"]]
    return worker


def lines(benchmark: str, options: Any, cases: list[str]) -> Iterator[str]:
    """A row of the table for each case of a benchmark."""
    harness = importlib.import_module("harness")
    kinds = [kind for kind in KINDS if any(f", {kind} " in case for case in cases)]
    workers: list[Any] = []
    try:
        for side in ("before", "after"):
            work = options.work / side / benchmark
            job = {"benchmark": benchmark, "checkout": str(getattr(options, side).resolve())}
            job |= {"cases": cases, "dtype": options.dtype, "dtypes": [options.dtype]}
            job |= {"work": str(work), "project": str(work / "project"), "kinds": kinds}
            job["models"] = [m for m in MODELS if any(c.split(" ")[0] == m for c in cases)]
            workers.append(start(harness, side, job, options.threads))
        before, after = workers
        expected = {case: before.result(case) for case in cases}
        limits = {case: TOLERANCE * float(np.abs(x).max()) for case, x in expected.items()}
        harness.compare([after], expected, limits)
        samples = harness.measure(workers, options.rounds, options.seconds)
    finally:
        harness.stop(workers)
    of = {(s.peer, s.case): s for s in samples}
    for case in cases:
        old, new = of["before", case], of["after", case]
        mark = "!" if old.disturbed or new.disturbed else ""
        times = " | ".join(f"{s.seconds * 1e3:.4g}" for s in (old, new))
        yield f"| {benchmark}:{case}{mark} | {times} | {harness.ratio(new, old)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout")
    parser.add_argument("--after", type=Path, required=True, help="another")
    parser.add_argument("--rows", nargs="+", default=["layers", "minilm", "contraction"])
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15, help="fewer are good for a look only")
    parser.add_argument("--seconds", type=float, default=0.15, help="of a case in a round")
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "compare")
    options = parser.parse_args()
    options.work = options.work.resolve()
    found = wanted(options.rows, options.dtype)
    print(f"{options.dtype}, {options.threads} threads, {options.rounds} rounds.", end="\n\n")
    print("| row | before, ms | after, ms | before / after |\n| --- | --- | --- | --- |")
    for benchmark, cases in found.items():
        for line in lines(benchmark, options, cases):
            print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--emit"]:
        emit(json.loads(sys.argv[2]))
    else:
        main()
