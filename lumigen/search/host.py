"""host: kernels of the machine that compiles, run in the worker itself as the fast lane runs them, by one thread."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter, thread_time_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.errors import BuildFailed
from lumigen.fast_lane import FLAGS, BoundLaunch, Call, FastLane, compiled, function, pack, unit
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.measuring import Measuring, Ready, Seconds
from lumigen.program import Program, Stored
from lumigen.toolchain import cxx, output, processor

Array = npt.NDArray[Any]

ALIKE = "kernel"  # what a kernel is called in its library: the name counts the kernels of a model
ROUNDS, ENOUGH = (3, 15), 0.3  # of a measurement: the fewest, the most, and seconds that are enough
POISON = 0xFF  # what memory holds before a run: NaN, or -1
CACHES = 1 << 28  # bytes that no cache holds
SHARE = 4  # a model has this part of the free memory


def machine(threads: int) -> tuple[str, ...]:
    """The processor, the compiler with its flags, the threads."""
    tool = output([cxx() or "", "--version"])
    return (processor(), platform.system(), tool, *FLAGS, str(threads))


def memory() -> int:
    """A part of what nobody uses, in bytes."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE


def compiled_alone(kernel: LoweredKernel, seconds: float) -> Ready | None:
    """The library of a kernel; None where it does not compile in so many seconds."""
    text, scratch = unit((replace(kernel, name=ALIKE),))
    try:
        return Ready(compiled(text, seconds=seconds), kernel.parameters, scratch[ALIKE])
    except BuildFailed:
        return None


class HostLane:
    """Weights as kernels read them are packed once."""

    def __init__(self, threads: int, cold: bool, _number: int) -> None:  # as a row has it
        self.threads = threads
        self.other = np.zeros(CACHES, np.uint8) if cold else None
        self.packed: dict[Stored, Array] = {}

    def bind(
        self,
        model: LoweredModel,
        program: Program,
        kernels: Mapping[str, Ready],
        inputs: Mapping[str, Array],
        weights: Mapping[Stored, Array],
    ) -> HostBound:
        """The entry over these arrays, at the dims that their shapes say."""
        functions = {name: function(k.library, ALIKE) for name, k in kernels.items()}
        lane = FastLane(model, functions, {name: k.scratch for name, k in kernels.items()})
        for stored in weights:
            if stored not in self.packed:
                self.packed[stored] = pack(stored, weights[stored])
        states = {s.name: np.zeros(s.shape, s.dtype.numpy) for s in model.states}
        packed = {s.name: self.packed[s] for s in weights}
        return HostBound(
            lane.prepare(program.entry, inputs, packed, states), states, self.threads, self.other
        )


@dataclass(frozen=True)
class HostBound:
    """An entry whose launches have their arguments."""

    call: Call
    states: Mapping[str, Array]
    threads: int
    other: Array | None  # what caches have instead of what a launch reads

    def clear(self) -> None:
        """Poison what the entry writes; states are zero."""
        for memory in (*self.call.outputs.values(), self.call.memory.arena):
            memory.reshape(-1).view(np.uint8).fill(POISON)
        for state in self.states.values():
            state.fill(0)

    def run(self) -> None:
        self.call.run()

    def results(self) -> dict[str, Array]:
        """Copies of outputs and states."""
        made = {**self.call.outputs, **{f"state {n}": a for n, a in self.states.items()}}
        return {name: a.copy() for name, a in made.items()}

    def times(self, *, quick: bool = False) -> Seconds:
        """As they are with all threads: of whole tasks on each.

        Of launches that are alike, as those of layers, each round runs another one, and counts it for all.
        """
        alike: dict[tuple[str, int], list[BoundLaunch]] = {}
        for step in self.call.steps:
            alike.setdefault((step.name, step.tasks), []).append(step)
        each: dict[str, list[float]] = {}
        whole: list[float] = []
        start = perf_counter()
        fewest, most = (ROUNDS[0], ROUNDS[0]) if quick else ROUNDS
        while len(whole) < fewest or (len(whole) < most and perf_counter() - start < ENOUGH):
            run: dict[str, float] = {}
            for (name, tasks), steps in alike.items():
                if self.other is not None:
                    np.add(self.other, 1, out=self.other)
                begin = thread_time_ns()  # what others do on the machine is no part of it
                self.call.launch(steps[len(whole) % len(steps)])
                taken = (thread_time_ns() - begin) * 1e-9
                share = -(-tasks // self.threads) / tasks if tasks else 0.0
                run[name] = run.get(name, 0.0) + taken * share * len(steps)
            for name, t in run.items():
                each.setdefault(name, []).append(t)
            whole.append(sum(run.values()))
        return Seconds({name: median(found) for name, found in each.items()}, median(whole))


MEASURING = Measuring(
    lambda _target: "",
    machine,
    tuple,
    memory,
    compiled_alone,
    workers=lambda: os.cpu_count() or 1,
    apart=False,
    open=HostLane,
)
