"""Stored vectors of kernels: what each leaves at small dims, from the meaning of its region in numpy.

Buffers are filled as tests/kernels_test.cpp fills them. Promises numbers that share nothing with the texts
of the kernel and of its reference: the region's values are computed in double precision, as they stand.
Only the elements that are stored are computed, and only what these depend on is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, f64
from lumigen.emit.counter import Array, elements, few
from lumigen.emit.entry import case_range, narrowed, ways
from lumigen.emit.vectors import NOISE_STREAM, Vector, moved, points
from lumigen.index import Axis, Dim
from lumigen.interp import region as interp
from lumigen.interp.read import concrete
from lumigen.lower.assemble import LoweredKernel
from lumigen.program import CompiledModel, Launch, Program, Variant
from lumigen.region import Buffer, Expr, Reduce, Region, Scan, Store, children, free_axes

# Values on the way to those that are stored of a kernel at one point; of more, nothing is stored.
# Half a second at most.
MAX_VALUES = 1 << 24


def kernel_vectors(
    model: CompiledModel, kernels: Sequence[LoweredKernel]
) -> dict[str, tuple[Vector, ...]]:
    """For each kernel, launched as it first is, those at the least dims and at small odd ones."""
    lowered = {k.name: k for k in kernels}
    out: dict[str, tuple[Vector, ...]] = {}
    for program, variant, launch in ways(model):
        if launch.kernel not in out:
            out[launch.kernel] = _vectors(lowered[launch.kernel], program, variant, launch)
    return out


def _vectors(
    kernel: LoweredKernel, program: Program, variant: Variant, launch: Launch
) -> tuple[Vector, ...]:
    found: dict[tuple[int, ...], Vector] = {}  # by the numbers that the kernel is given
    for values in points([narrowed(d, variant.when) for d in program.dims]):
        dims = dict(zip(program.dims, values, strict=True))
        if not variant.when.holds(dims, variant.when.features):
            continue
        numbers = launch.numbers(dims)
        given = tuple(numbers[d] for d in kernel.program.dim_arguments)
        if given not in found and _values(kernel.region, numbers) <= MAX_VALUES:
            found[given] = Vector(values, _outputs(kernel, program, launch, numbers))
    return tuple(found.values())


def _outputs(
    kernel: LoweredKernel, program: Program, launch: Launch, numbers: Mapping[Dim, int]
) -> tuple[tuple[float, ...] | None, ...]:
    """One for each parameter that is written."""
    filled: dict[str, Filled] = {}
    written: list[Buffer] = []
    arguments = zip(kernel.program.args, kernel.parameters, launch.arguments, strict=False)
    for stream, (b, parameter, argument) in enumerate(arguments, 1):
        lo, hi = case_range(parameter, argument, program)
        filled[b.name] = Filled(concrete(b.dims, numbers), b.dtype, stream, lo, hi)
        if parameter.written:
            written.append(b)
    return tuple(_stored(kernel.region, b, filled, numbers) for b in written)


def _stored(
    region: Region, dst: Buffer, filled: Mapping[str, Filled], numbers: Mapping[Dim, int]
) -> tuple[float, ...] | None:
    at = few(prod(filled[dst.name].shape))
    values = interp.elements(region, dst, at, filled, numbers)
    if not dst.dtype.is_float:
        shaken = {name: Shaken(f) if f.dtype.is_float else f for name, f in filled.items()}
        if not np.array_equal(values, interp.elements(region, dst, at, shaken, numbers)):
            return None
    return tuple(values.astype(np.float64).tolist())


@dataclass(frozen=True)
class Filled:
    """A buffer of `fill` of which an element is made when it is read."""

    shape: tuple[int, ...]
    dtype: DType
    stream: int
    lo: int
    hi: int

    def __getitem__(self, at: tuple[Array, ...]) -> Array:
        return elements(self.dtype, self.flat(at), self.stream, self.lo, self.hi)

    def flat(self, at: tuple[Array, ...]) -> npt.NDArray[np.int64]:
        """The number of each element, row by row."""
        out = np.zeros((), np.int64)
        for i, size in zip(at, self.shape, strict=True):
            out = out * size + np.asarray(i, np.int64)
        return np.asarray(out)


@dataclass(frozen=True)
class Shaken:
    """A buffer of floats, moved as far as a rounding error might."""

    of: Filled

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of.shape

    def __getitem__(self, at: tuple[Array, ...]) -> Array:
        noise = elements(f64, self.of.flat(at), NOISE_STREAM, 0, 0)
        return moved(self.of[at], self.of.dtype, noise)


def _values(region: Region, numbers: Mapping[Dim, int]) -> int:
    """How many values `interp.elements` computes for `few` of each buffer, places to store to included."""
    total = 0
    seen: set[tuple[Expr, frozenset[Axis]]] = set()
    none: frozenset[Axis] = frozenset()
    for store in region.stores:
        size = prod(concrete(store.dst.dims, numbers))
        is_counted = size < 2**63  # else an element has no number
        total += 0 if interp.in_order(store) and is_counted else size
        places = _places(store, few(size).size, numbers)
        stack: list[tuple[Expr, frozenset[Axis]]] = [(store.value, none)]
        while stack:
            e, bound = stack.pop()
            axes = bound & free_axes(e)  # of the loops around it
            if (e, axes) in seen:
                continue
            seen.add((e, axes))
            extents = concrete([a.extent for a in axes], numbers)
            free = free_axes(e) - axes
            total += prod(extents) * prod(n for half, n in places if free & half)
            if isinstance(e, Reduce):
                bound = bound | frozenset(e.axes)
            elif isinstance(e, Scan):
                bound = bound | {e.axis}
            stack += ((c, bound) for c in children(e))
    return total


def _places(
    store: Store, count: int, numbers: Mapping[Dim, int]
) -> tuple[tuple[frozenset[Axis], int], ...]:
    """The two groups of axes that `at_points` has a dimension for, and at most how many places there."""
    halves = (store.axes[:-1], store.axes[-1:])
    extents = (prod(concrete([a.extent for a in axes], numbers)) for axes in halves)
    return tuple((frozenset(h), min(count, n)) for h, n in zip(halves, extents, strict=True))
