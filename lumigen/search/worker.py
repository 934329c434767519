"""worker: runs the jobs that it is told of on stdin, one after another, and says `done` after each.

It is a process of its own, since what it runs may be wrong: `python -m lumigen.search.worker`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns

import numpy as np

from lumigen.emit.counter import Array, fill
from lumigen.emit.vectors import WEIGHT_SCALE, WEIGHT_STREAM, input_of
from lumigen.fast_lane import Call, FastLane, function, pack
from lumigen.lower.assemble import LoweredModel
from lumigen.program import Program, Stored, WeightInfo
from lumigen.search.trial import ALIKE, Job, Timed

ROUNDS, ENOUGH = (3, 15), 0.3  # of a measurement: the fewest, the most, and seconds that are enough
POISON = 0xFF  # what memory holds before a run: NaN, or -1
# How far results may be from those of the first trial, relative to the greatest.
NEAR = {"f64": 1e-9, "f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}


class Worker:
    """Inputs, packed weights and the results of the first job, for as long as the process lives."""

    def __init__(self) -> None:
        self.weights: dict[WeightInfo, Array] = {}
        self.packed: dict[Stored, Array] = {}
        self.inputs: dict[str, dict[str, Array]] = {}
        self.expected: dict[str, dict[str, Array]] = {}

    def run(self, job: Job) -> Timed:
        """Every entry at its typical dims."""
        start = perf_counter()
        functions = {name: function(path, ALIKE) for name, path in job.libraries.items()}
        model = LoweredModel(job.programs, job.weights, (), job.states)
        lane = FastLane(model, functions, job.scratch)
        packed = {s.name: self._packed(s) for s in job.weights}
        seconds: dict[str, float] = {}
        wrong: list[str] = []
        for program in job.programs:
            states = {s.name: np.zeros([*map(int, s.shape)], s.dtype.numpy) for s in job.states}
            inputs = self._inputs(program)
            call = lane.prepare(program.entry, inputs, packed, states)
            for memory in (*call.outputs.values(), call.memory.arena):
                memory.reshape(-1).view(np.uint8).fill(POISON)
            call.run()
            made = {**call.outputs, **{f"state {n}": a for n, a in states.items()}}
            if job.is_first:
                self.expected[program.entry] = {n: a.copy() for n, a in made.items()}
            elif not _agree(made, self.expected[program.entry]):
                wrong.append(program.entry)
                continue
            for name, t in _timed(call, job.threads).items():
                seconds[name] = seconds.get(name, 0.0) + t
        return Timed(seconds, tuple(wrong), perf_counter() - start)

    def _packed(self, stored: Stored) -> Array:
        if stored not in self.packed:
            info = stored.weight
            if info not in self.weights:
                stream = WEIGHT_STREAM + len(self.weights)
                count = int(np.prod(info.shape))
                made = fill(info.dtype, count, stream, 0, 1, WEIGHT_SCALE)
                self.weights[info] = made.reshape(info.shape)
            self.packed[stored] = pack(stored, self.weights[info])
        return self.packed[stored]

    def _inputs(self, program: Program) -> dict[str, Array]:
        if program.entry not in self.inputs:
            dims = {d: d.estimate for d in program.dims}
            ports = enumerate(program.inputs, 1)
            self.inputs[program.entry] = {p.name: input_of(p, i, dims) for i, p in ports}
        return self.inputs[program.entry]


def _timed(call: Call, threads: int) -> dict[str, float]:
    """Of each kernel the median of its seconds in a run, as they are with all threads: of whole tasks on each."""
    each: dict[str, list[float]] = {}
    start, rounds = perf_counter(), 0
    fewest, most = ROUNDS
    while rounds < fewest or (rounds < most and perf_counter() - start < ENOUGH):
        run: dict[str, float] = {}
        for step in call.steps:
            begin = perf_counter_ns()
            call.launch(step)
            taken = (perf_counter_ns() - begin) * 1e-9
            share = -(-step.tasks // threads) / step.tasks if step.tasks else 0.0
            run[step.name] = run.get(step.name, 0.0) + taken * share
        for name, t in run.items():
            each.setdefault(name, []).append(t)
        rounds += 1
    return {name: median(found) for name, found in each.items()}


def _agree(made: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Whether all results are near: floats by the greatest, integers all alike."""
    return all(_near(made[name], wanted) for name, wanted in expected.items())


def _near(a: Array, b: Array) -> bool:
    if a.dtype.kind in "iub?":
        return np.array_equal(a, b)
    name = {"float64": "f64", "float32": "f32", "float16": "f16"}.get(a.dtype.name, "bf16")
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    greatest = float(np.max(np.abs(y[finite]), initial=0.0))
    return bool(np.max(np.abs(x[finite] - y[finite]), initial=0.0) <= NEAR[name] * greatest)


def main() -> None:
    """Until stdin ends."""
    worker = Worker()
    while (job := sys.stdin.readline().strip()) and (made := sys.stdin.readline().strip()):
        # Both files are those of the process that has started this one.
        timed = worker.run(pickle.loads(Path(job).read_bytes()))  # noqa: S301
        Path(made).write_bytes(pickle.dumps(timed))
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
