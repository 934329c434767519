"""jobs: what a worker is told to run, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lumigen.measuring import Ready
from lumigen.program import Program, StateInfo, Stored
from lumigen.search.samples import Dims

WORKER = "lumigen.search.worker"  # the module of a process that is told
FIRST = (
    600.0  # seconds more that what a process runs first may take: it begins with imports and data
)

Samples = Mapping[str, tuple[Dims, ...]]  # of each entry, where it is measured


@dataclass(frozen=True)
class Job:
    """What the worker runs, on one of several sets of random data."""

    programs: tuple[Program, ...]
    weights: tuple[Stored, ...]
    states: tuple[StateInfo, ...]
    counters: int
    kernels: Mapping[str, Ready]
    samples: Samples
    data: int = 0
    is_first: bool = False  # others are compared with it
    is_timed: bool = True
    is_quick: bool = False  # in as few runs as can be


def glimpse(job: Job) -> Job:
    """The same in as few runs as can be, at the typical dims alone."""
    return replace(job, samples={e: each[:1] for e, each in job.samples.items()}, is_quick=True)


@dataclass(frozen=True)
class Timed:
    """Seconds of one run of every entry, at each sample; which entries are wrong."""

    seconds: Mapping[str, tuple[float, ...]]  # of all launches of each kernel
    run: tuple[float, ...]  # of all of it
    wrong: tuple[str, ...]
    whole: float  # seconds that the trial took
