"""worker: runs the jobs that it is told of, one after another.

It is a process of its own, since what it runs may be wrong, and a kernel that faults takes it down:
`python -m lumigen.search.worker TARGET THREADS COLD NUMBER`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import perf_counter

import numpy as np

from lumigen.child import served
from lumigen.emit.counter import Array, fill
from lumigen.emit.vectors import WEIGHT_SCALE, WEIGHT_STREAM, input_of
from lumigen.index import Dim
from lumigen.lower.assemble import LoweredModel
from lumigen.measuring import Bound, Lane, Seconds
from lumigen.program import Program, Stored, WeightInfo
from lumigen.search.jobs import NEAR, Job, Timed
from lumigen.search.lanes import measuring_of
from lumigen.search.samples import Dims, distinct
from lumigen.target import parse_target

WHOLE = ""  # beside the names of kernels
CHUNK = 1 << 18  # elements that are compared at a time
DATA = 1 << 20  # streams of random numbers between two sets of data

Key = tuple[str, tuple[tuple[Dim, int], ...], int]  # an entry, its dims, which data


class Runner:
    """Inputs, weights and the results of the first job, for as long as the process lives."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.weights: dict[WeightInfo, Array] = {}
        self.inputs: dict[Key, dict[str, Array]] = {}
        self.expected: dict[Key, dict[str, Array]] = {}
        self.near = 0.0

    def run(self, job: Job) -> Timed:
        """Every entry at each of its samples."""
        start = perf_counter()
        model = LoweredModel(job.programs, job.weights, (), job.states, job.counters)
        weights = {s: self._weight(s) for s in job.weights}
        seconds: dict[str, list[float]] = {}
        wrong: list[str] = []
        for program in job.programs:
            samples = job.samples[program.entry]
            found: dict[int, Seconds] = {}
            for place, dims in distinct(samples):
                key = (program.entry, tuple(dims.items()), job.data)
                inputs = self._inputs(key, program, dims)
                bound = self.lane.bind(model, program, job.kernels, inputs, weights)
                bound.clear()
                bound.run()
                made = bound.results()
                if job.is_first:
                    self.expected[key], self.near = made, job.near
                elif not _agree(made, self.expected[key], max(self.near, job.near)):
                    wrong.append(program.entry)
                    break
                found[place] = self._times(bound, job)
            for place, dims in enumerate(samples):
                one = found.get(samples.index(dims), Seconds({}, 0.0))
                for name, t in {**one.kernels, WHOLE: one.whole}.items():
                    seconds.setdefault(name, [0.0] * len(samples))[place] += t
        times = {name: tuple(t) for name, t in seconds.items()}
        run = times.pop(WHOLE, ())
        return Timed(times, run, tuple(wrong), perf_counter() - start)

    def _times(self, bound: Bound, job: Job) -> Seconds:
        return bound.times(quick=job.is_quick) if job.is_timed else Seconds({}, 0.0)

    def _weight(self, stored: Stored) -> Array:
        info = stored.weight
        if info not in self.weights:
            stream = WEIGHT_STREAM + len(self.weights)
            count = int(np.prod(info.shape))
            made = fill(info.dtype, count, stream, 0, 1, WEIGHT_SCALE)
            self.weights[info] = made.reshape(info.shape)
        return self.weights[info]

    def _inputs(self, key: Key, program: Program, dims: Dims) -> dict[str, Array]:
        if key not in self.inputs:
            ports = enumerate(program.inputs, 1 + DATA * key[2])
            self.inputs[key] = {p.name: input_of(p, i, dims) for i, p in ports}
        return self.inputs[key]


def _agree(made: Mapping[str, Array], expected: Mapping[str, Array], near: float) -> bool:
    """Whether all results are near: floats by the greatest, integers all alike."""
    return all(are_near(made[name], wanted, near) for name, wanted in expected.items())


def are_near(a: Array, b: Array, near: float = 0.0) -> bool:
    """Whether two arrays are as near as their type or `near` allows: NaN and infinities where the second has them."""
    if _bytes(a) == _bytes(b):
        return True
    if a.dtype.kind in "iub?":
        return False
    name = {"float64": "f64", "float32": "f32", "float16": "f16"}.get(a.dtype.name, "bf16")
    exact = np.float64 if a.dtype.itemsize > 4 else np.float32
    greatest = worst = 0.0
    for start in range(0, a.size, CHUNK):
        x, y = (array.reshape(-1)[start : start + CHUNK].astype(exact) for array in (a, b))
        finite = np.isfinite(y)
        if not finite.all():
            if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
                return False
            x, y = x[finite], y[finite]
        if not np.isfinite(x).all():
            return False
        greatest = max(greatest, float(np.max(np.abs(y), initial=0)))
        worst = max(worst, float(np.max(np.abs(x.astype(np.float64) - y), initial=0)))
    return worst <= max(NEAR[name], near) * greatest


def _bytes(a: Array) -> memoryview:
    """Two of these are compared as quickly as memory is."""
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8).data


def main() -> None:
    """Until stdin ends."""
    measuring = measuring_of(parse_target(sys.argv[1]))
    assert measuring is not None, "asked before"
    lane = measuring.open(int(sys.argv[2]), sys.argv[3] == "True", int(sys.argv[4]))
    served(Runner(lane).run)


if __name__ == "__main__":
    main()
