"""original: an imported model beside the program that it was imported from, on inputs from a counter, at several sizes.

Promises the inputs of entries_test.cpp, so that what the original gives becomes a test of the emitted project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lumigen.emit.contract import test_range
from lumigen.emit.vectors import Vector, input_of, points, shaken, stored
from lumigen.errors import BadArgument, OriginalFailed, first_line, user_location
from lumigen.frontend import Model
from lumigen.frontend.model import Original
from lumigen.index import Dim
from lumigen.interp.graph import evaluate, ports
from lumigen.program import Port
from lumigen.weights import Array

MORE, APART = (
    9,
    2,
)  # sizes above the least of the largest point: of the first dim, and of the next ones
TOLD = 120  # characters of another program's error


@dataclass(frozen=True)
class Difference:
    """Of one output at one set of sizes: the greatest difference, and the greatest number that was expected."""

    sizes: str
    output: str
    difference: float
    greatest: float

    def __str__(self) -> str:
        at = f" at {self.sizes}" if self.sizes else ""
        return (
            f"{self.output}{at}: {self.difference:.3g} apart, of numbers up to {self.greatest:.3g}"
        )


@dataclass(frozen=True)
class Checked:
    """Each output at each set of sizes; `vectors` are what the project's tests keep of the original's, by entry."""

    rows: tuple[Difference, ...]
    vectors: Mapping[str, tuple[Vector, ...]]

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))


def check(model: Model) -> Checked:
    """How far an imported model is from its original, in f32: the interpreter's outputs beside the original's.

    The sizes are the least ones, and two of each a little larger. Floats are about normal; integers are the two least
    of their range, which are places in any table. BadArgument for a model that was not imported; OriginalFailed where
    the original does not run.
    """
    original = model.original if isinstance(model, Model) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if original is None:
        expected = "one of from_torch, of from_onnx, or of their files: it has an original"
        raise BadArgument(
            where=user_location(),
            op="check",
            name="the model",
            value="one that was written for lumigen",
            expected=expected,
        )
    ((entry, graph),) = model.trace().entries
    wanted, dims, weights = ports(graph), graph.dims(), model.values()
    rows: list[Difference] = []
    vectors: list[Vector] = []
    for point in chosen(dims):
        sizes = dict(zip(dims, point, strict=True))
        inputs = {p.name: _input(p, i, sizes) for i, p in enumerate(wanted, 1)}
        want = _run(model.name, original, inputs)
        got = evaluate(graph, inputs, weights)
        text = ", ".join(f"{d.name}={n}" for d, n in sizes.items())
        rows += [_apart(text, name, array, want[name]) for name, array in got.items()]
        vectors.append(stored(point, {name: want[name] for name in got}, _again(model, inputs)))
    return Checked(tuple(rows), {entry: tuple(vectors)})


def chosen(dims: Sequence[Dim]) -> list[tuple[int, ...]]:
    """The points of the stored tests, and a larger one: the original may be slow."""
    steps = ((MORE + APART * i) * d.multiple_of for i, d in enumerate(dims))
    small = points(dims)
    most = (d.hi // d.multiple_of * d.multiple_of for d in dims)
    larger = tuple(min(m, n + s) for m, n, s in zip(most, small[0], steps, strict=True))
    return list(dict.fromkeys((*small, larger)))


def _input(port: Port, stream: int, dims: Mapping[Dim, int]) -> Array:
    lo, hi = test_range(port)
    return input_of(port, stream, dims, (lo, min(lo + 1, hi)))


def _run(model: str, original: Original, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    try:
        return original(inputs)
    except Exception as e:  # another program, which ends in many ways
        why = f"{type(e).__name__}: {first_line(e)[:TOLD].rstrip('.')}"
        raise OriginalFailed(model=model, why=why) from e


def _again(model: Model, inputs: Mapping[str, Array]) -> Callable[[], Mapping[str, Array]]:
    """The model on floats that are moved a little: which integers depend on rounding."""
    ((_, graph),) = model.trace().entries
    return lambda: evaluate(graph, shaken(inputs), model.values())


def _apart(sizes: str, name: str, got: Array, want: Array) -> Difference:
    if got.shape != want.shape:
        return Difference(sizes, name, float("inf"), 0.0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    greatest = np.abs(b[~np.isnan(b)])
    return Difference(
        sizes, name, float(np.max(apart, initial=0)), float(np.max(greatest, initial=0))
    )
