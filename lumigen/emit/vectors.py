"""Stored vectors: what each entry gives at small dims, from the graph's meaning in numpy.

Inputs and weights are those that tests/entries_test.cpp makes. Promises numbers that share nothing
with passes, plans and kernels: the graph is evaluated as it was traced (or retyped), floats in double
precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from lumigen.dtype import DType, f64, of_numpy
from lumigen.emit.contract import test_range
from lumigen.emit.counter import Array, fill, sample
from lumigen.graph import Graph, Node, tensor_of
from lumigen.index import Dim
from lumigen.interp.graph import computed, evaluate
from lumigen.interp.read import concrete
from lumigen.ops import ROWS, Form
from lumigen.program import CompiledModel, Port, Program

# More work is not done while a model is compiled: multiply-adds of sums, and ELEMENT for each
# element that is made or read otherwise. About a second.
MAX_WORK, ELEMENT = 1 << 31, 32
WEIGHT_STREAM, WEIGHT_SCALE = 100, 0.05  # as entries_test.cpp has them
NOISE_STREAM = 3

# How far a float is moved to see whether an integer that depends on it stays, relative to it: a
# fifth of `tolerance` in testing.h, or less.
SHAKE = {"f64": 1e-12, "f32": 1e-5, "f16": 5e-4, "bf16": 5e-3}


@dataclass(frozen=True)
class Vector:
    """What an entry or a kernel gives at these dims, in their order.

    For each output the elements of `sample`, of a kernel those of `few`; None where a rounding error
    may give another integer. `drawn`: from which integers inputs were, of an original.
    """

    dims: tuple[int, ...]
    outputs: tuple[tuple[float, ...] | None, ...]
    drawn: tuple[tuple[int, int], ...] = ()


def vectors(
    model: CompiledModel, graphs: Sequence[tuple[str, Graph]]
) -> dict[str, tuple[Vector, ...]]:
    """For each entry those at the least dims and at small odd ones, unless they are too much work."""
    names = dict.fromkeys(s.weight.name for s in model.read)
    streams = {name: i for i, name in enumerate(names, WEIGHT_STREAM)}
    made: dict[str, Array] = {}
    out: dict[str, tuple[Vector, ...]] = {}
    for (name, graph), program in zip(graphs, model.programs, strict=True):
        nodes = computed(graph)
        small = (dict(zip(program.dims, p, strict=True)) for p in points(program.dims))
        affordable = [dims for dims in small if work(nodes, dims) <= MAX_WORK]
        for n in graph.weights() if affordable else ():
            weight = tensor_of(n).name
            if weight not in made:
                made[weight] = _weight(n, streams.get(weight))
        out[name] = tuple(_vector(graph, program, dims, made) for dims in affordable)
    return out


def work(nodes: Sequence[Node], dims: Mapping[Dim, int]) -> int:
    """What it costs to compute these nodes, in multiply-adds."""
    total = 0
    for n in nodes:
        if n.op in ROWS and ROWS[n.op].form is Form.REDUCE:
            sizes = concrete(n.args[0].shape, dims)
            total += prod(sizes) + ELEMENT * sum(sizes)  # along each axis its indices are made
        else:
            total += ELEMENT * prod(concrete(n.shape, dims))
    return total


def points(dims: Sequence[Dim]) -> list[tuple[int, ...]]:
    """The least values of the dims, and small odd ones: each different where they may be."""
    least = [-(-d.lo // d.multiple_of) * d.multiple_of for d in dims]
    most = [d.hi // d.multiple_of * d.multiple_of for d in dims]
    steps = [
        (2 + 2 * i) * d.multiple_of for i, d in enumerate(dims)
    ]  # 3, 5, 7 where 1 is the least
    odd = [min(m, n + s) for m, n, s in zip(most, least, steps, strict=True)]
    return list(dict.fromkeys((tuple(least), tuple(odd))))


def _vector(
    graph: Graph, program: Program, dims: Mapping[Dim, int], weights: Mapping[str, Array]
) -> Vector:
    inputs = {p.name: input_of(p, i, dims) for i, p in enumerate(program.inputs, 1)}
    return stored(
        tuple(dims[d] for d in program.dims),
        evaluate(graph, inputs, weights),
        lambda: evaluate(graph, shaken(inputs), shaken(weights)),
    )


def stored(
    dims: tuple[int, ...], found: Mapping[str, Array], again: Callable[[], Mapping[str, Array]]
) -> Vector:
    """What is stored of these outputs; `again` computes them from floats that are moved a little."""
    steady = {name for name, array in found.items() if _is_float(array)}
    if len(steady) < len(found):
        moved = again()
        steady |= {name for name in found if np.array_equal(found[name], moved[name])}
    return Vector(dims, tuple(_sampled(a) if name in steady else None for name, a in found.items()))


def _is_float(array: Array) -> bool:
    dtype = of_numpy(array.dtype)
    return dtype is not None and dtype.is_float


def _sampled(array: Array) -> tuple[float, ...]:
    return tuple(array.reshape(-1)[sample(array.size)].astype(np.float64).tolist())


def input_of(
    port: Port, stream: int, dims: Mapping[Dim, int], bounds: tuple[int, int] | None = None
) -> Array:
    """What entries_test.cpp gives an input; `bounds` are of integers, its own range without them."""
    shape = concrete(port.shape, dims)
    lo, hi = bounds or test_range(port)
    return fill(port.dtype, prod(shape), stream, lo, hi).reshape(shape)


def _weight(n: Node, stream: int | None) -> Array:
    """One that a pass has found to have no influence is in no file: it may be anything."""
    shape = concrete(n.shape, {})
    if stream is None:
        return np.zeros(shape, n.dtype.numpy)
    return fill(n.dtype, prod(shape), stream, 0, 1, WEIGHT_SCALE).reshape(shape)


def shaken(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays, floats moved as a rounding error would."""
    return {name: _moved(array) for name, array in arrays.items()}


def _moved(array: Array) -> Array:
    dtype = of_numpy(array.dtype)
    if dtype is None or not dtype.is_float:
        return array
    return moved(array, dtype, fill(f64, array.size, NOISE_STREAM, 0, 0).reshape(array.shape))


def moved(array: Array, dtype: DType, noise: Array) -> Array:
    """Floats, each moved by `SHAKE` times its noise."""
    return (array * (1 + SHAKE[dtype.name] * noise)).astype(array.dtype)
