"""measuring: how a search has a target's kernels compiled, run and timed on this machine.

A target's row has one where callers may pass memory of a device; kernels of the machine that compiles run as the fast
lane runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.program import KernelParameter, Program, Stored
from lumigen.target_row import Target

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Ready:
    """A kernel as it was compiled; `scratch` bytes for each thread."""

    library: Path
    parameters: tuple[KernelParameter, ...]
    scratch: int = 0


@dataclass(frozen=True)
class Seconds:
    """Of all launches of each kernel in one run of an entry, and of the whole run, in the median of several runs."""

    kernels: Mapping[str, float]
    whole: float


class Bound(Protocol):
    """An entry at some dims, with memory of its own."""

    def clear(self) -> None:
        """Poison what the entry writes; states and counters are zero."""
        ...

    def run(self) -> None: ...

    def results(self) -> dict[str, Array]:
        """Copies of outputs and states."""
        ...

    def times(self, *, quick: bool = False) -> Seconds:
        """A `quick` one is of as few runs as can be."""
        ...


class Lane(Protocol):
    """What runs kernels, in a process that they may take down with them."""

    def bind(
        self,
        model: LoweredModel,
        program: Program,
        kernels: Mapping[str, Ready],
        inputs: Mapping[str, Array],
        weights: Mapping[Stored, Array],
    ) -> Bound:
        """The entry `program` over these arrays and at their dims; arrays that are one object have one content.

        What was bound before has no memory any more.
        """
        ...


@dataclass(frozen=True)
class Measuring:
    """A row. `lacking` says what is to be passed where a target cannot be measured here; empty where it can be."""

    lacking: Callable[[Target], str]
    machine: Callable[[int], tuple[str, ...]]  # what a measurement with so many threads is of
    features: Callable[[], tuple[str, ...]]  # that guards may ask for and are here
    memory: Callable[[], int]  # bytes that inputs, outputs and temporaries may take
    compiled: Callable[[LoweredKernel, float], Ready | None]  # in so many seconds; None: it was not
    workers: Callable[[], int]  # that may measure at the same time
    apart: bool  # kernels may be compiled while others are measured
    open: Callable[
        [int, bool, int], Lane
    ]  # for so many threads; if caches are cold before each launch; for which worker
    gpus: int = 0  # that each worker takes
