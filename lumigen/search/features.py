"""features: a candidate as numbers, by name: what its plan and its schedules say of its axes on a machine.

Names are those of builders, sites and kinds of loops, so that a new one of these has its numbers without a line here.
All sizes are logarithms to the base 2, as times are products of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log2

from lumigen.cost import computed_in, cost
from lumigen.dtype import f32
from lumigen.index import extent_of
from lumigen.limits import Limits
from lumigen.lower.built import Built
from lumigen.machine import Gpu, Machine
from lumigen.plan import KernelPlan, Loop
from lumigen.schedule import Schedule

Features = Mapping[str, float]
Running = tuple[KernelPlan, Schedule, Built]

ROOFLINE = "roofline"  # the feature that a time is taken to be in proportion to until more is known


@dataclass(frozen=True)
class Workers:
    """What a launch's tasks are shared out to: so many at a time, and what they do at most, where that is known."""

    count: int
    limits: Limits | None = None


def tasks_at_once(machine: Machine, threads: int) -> int:
    """That a machine runs: of a thread each, or of a block."""
    return machine.multiprocessors if isinstance(machine, Gpu) else threads


def features_of(kernels: Sequence[Running], workers: Workers) -> Features:
    """Of the kernels of a candidate that run at the typical dims."""
    out: dict[str, float] = {
        ROOFLINE: log2(sum(_least(built, workers) for _, _, built in kernels)),
        "kernels": float(len(kernels)),
        "statements": sum(log2(1 + _count(built)) for _, _, built in kernels),
        "idle": sum(log2(_idle(built, workers)) for _, _, built in kernels),
    }
    for plan, sizes, _ in kernels:
        points = log2(extent_of(plan.root[-1].axes).estimate())
        for name, value in chain(_of_loops(plan), _of_sizes(sizes, points)):
            out[name] = out.get(name, 0.0) + value
    return out


def _count(built: Built) -> int:
    return sum(1 for _ in built.program.statements())


def _least(built: Built, workers: Workers) -> float:
    """In proportion to the seconds that its work takes at least, where as many tasks are idle as these are.

    Where nothing is known of the machine these are bytes that are moved.
    """
    work = cost(built.meaning)
    flops, read, written = (e.estimate() for e in (work.flops, work.read, work.written))
    computes = (computed_in(built.meaning) or f32).name
    limits = workers.limits
    bound = None if limits is None else limits.least(computes, flops, read, written)
    return (float(read + written) if bound is None else bound[0]) * _idle(built, workers)


def _idle(built: Built, workers: Workers) -> float:
    """How many times as long tasks take as if they were shared out evenly."""
    tasks = built.program.tasks.estimate()
    return -(-tasks // workers.count) * workers.count / tasks


def _of_loops(plan: KernelPlan) -> Iterator[tuple[str, float]]:
    """The kinds of its loops with their extents, and how many states they carry."""
    for loop in plan.loops():
        kind = _kind(loop)
        yield f"loops {kind}", 1.0
        yield f"points {kind}", log2(extent_of(loop.axes).estimate())
        if loop.carries:
            yield f"carries {kind}", float(len(loop.carries))
    if plan.then is not None:
        yield from _of_loops(plan.then)


def _kind(loop: Loop) -> str:
    return f"{loop.kind} fold" if loop.carries else loop.kind


def _of_sizes(sizes: Schedule, points: float) -> Iterator[tuple[str, float]]:
    """Each site's size, squared since there is a best one, and with the points of the grid, on which that depends."""
    yield f"builder {sizes.builder}", 1.0
    for site, size in sizes.tile:
        value = log2(1 + size)
        yield f"{sizes.builder}.{site}", value
        yield f"{sizes.builder}.{site} squared", value * value
        yield f"{sizes.builder}.{site} by points", value * points
    for operand, where in sizes.place:
        yield f"{sizes.builder}.{operand} in {where}", 1.0
    for part in sizes.parts:
        yield from _of_sizes(part, points)
