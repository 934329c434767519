"""jobs: what a worker is told to run, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lumigen.lower.assemble import LoweredModel
from lumigen.measuring import Ready
from lumigen.program import Program, StateInfo, Stored
from lumigen.search.samples import Dims

WORKER = "lumigen.search.worker"  # the module of a process that is told
FIRST = (
    600.0  # seconds more that what a process runs first may take: it begins with imports and data
)

# How far floats may be from those of the first trial, relative to the greatest.
NEAR = {"f64": 1e-9, "f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}

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
    near: float = 0.0  # how far results may be that were made of rounded values


def glimpse(job: Job) -> Job:
    """The same in as few runs as can be, at the typical dims alone."""
    return replace(job, samples={e: each[:1] for e, each in job.samples.items()}, is_quick=True)


def nearness(model: LoweredModel) -> float:
    """How near the results of two equal models are: what stays f32 may be made of values that were stored as bf16."""
    stored = {s.dst.dtype.name for k in model.kernels for s in k.region.stores}
    return max((NEAR[name] for name in stored & set(NEAR)), default=0.0)


@dataclass(frozen=True)
class Timed:
    """Seconds of one run of every entry, at each sample; which entries are wrong."""

    seconds: Mapping[str, tuple[float, ...]]  # of all launches of each kernel
    run: tuple[float, ...]  # of all of it
    wrong: tuple[str, ...]
    whole: float  # seconds that the trial took
