"""samples: the dims at which an entry is measured: typical, least, and as great as is sensible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lumigen.index import Dim
from lumigen.lower.assemble import LoweredKernel
from lumigen.program import Program

Dims = Mapping[Dim, int]

SAMPLES = ("typical", "least", "greatest")
MUCH = 8  # times the work at the typical dims, and no more, is what a search can afford at the greatest
HALVINGS = 16


def samples_of(
    program: Program, kernels: Mapping[str, LoweredKernel], memory: int, much: float = MUCH
) -> tuple[Dims, ...]:
    """For each of SAMPLES the dims of an entry; the last are as great as memory and `much` of the usual work allow."""
    usual = typical(program)
    least = {d: -(-d.lo // d.multiple_of) * d.multiple_of for d in program.dims}
    most = much * work(program, kernels, usual)
    for dims in _between(usual):
        if work(program, kernels, dims) <= most and _bytes(program, dims) <= memory:
            return (usual, least, dims)
    return (usual, least, usual)


def typical(program: Program) -> Dims:
    """The typical dims of an entry."""
    return {d: d.estimate for d in program.dims}


def _between(usual: Dims) -> Iterator[Dims]:
    """The greatest dims, then those ever nearer to the typical ones."""
    for halved in range(HALVINGS):
        far = {d: (d.hi - t) >> halved for d, t in usual.items()}
        yield {d: (t + far[d]) // d.multiple_of * d.multiple_of for d, t in usual.items()}


def work(program: Program, kernels: Mapping[str, LoweredKernel], dims: Dims) -> int:
    """Of all kernels that run everywhere: bytes that are moved and operations."""
    total = 0
    for launch in program.chosen(dims):
        total += sum(kernels[launch.kernel].cost.at(dims))
    return total


def _bytes(program: Program, dims: Dims) -> int:
    total = program.offsets(dims)[1]
    for port in (*program.inputs, *program.outputs):
        count = 1
        for extent in port.shape:
            count *= int(extent.evaluate(dims))
        total += count * port.dtype.itemsize
    return total


def distinct(samples: Sequence[Dims]) -> list[tuple[int, Dims]]:
    """Each that has no equal before, with its place."""
    return [(i, dims) for i, dims in enumerate(samples) if dims not in samples[:i]]
