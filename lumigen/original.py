"""original: an imported model beside the program that it was imported from, on inputs from a counter, at several sizes.

Promises the inputs of entries_test.cpp, so that what the original gives becomes a test of the emitted project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lumigen.drawn import Bounds, drawn
from lumigen.emit.vectors import Vector, input_of, points, shaken, stored
from lumigen.errors import BadArgument, OriginalFailed, first_line, user_location
from lumigen.frontend import Model
from lumigen.frontend.model import Original
from lumigen.graph import Graph
from lumigen.index import Dim
from lumigen.interp.graph import evaluate, ports
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
    """Each output at each set of sizes; `by` is what ran the original.

    `vectors` are what the project's tests keep of the original's, by entry.
    """

    rows: tuple[Difference, ...]
    vectors: Mapping[str, tuple[Vector, ...]]
    by: str

    def __str__(self) -> str:
        return "\n".join([f"compared with {self.by}", *map(str, self.rows)])


def check(model: Model) -> Checked:
    """How far an imported model is from its original, in f32: the interpreter's outputs beside the original's.

    The sizes are the least ones, and two of each a little larger. Floats are about normal; integers are places of the
    table that they index, else the two least of their range (`drawn`). BadArgument for a model that was not imported;
    OriginalFailed where the original does not run.
    """
    originals = model.originals if isinstance(model, Model) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not originals:
        expected = "one of from_torch, from_onnx or from_hugging_face, or of their files: it has an original"
        raise BadArgument(
            where=user_location(),
            op="check",
            name="the model",
            value="one that was written for lumigen",
            expected=expected,
        )
    rows: list[Difference] = []
    vectors: dict[str, list[Vector]] = {}
    weights = _weights(model)
    for call in _calls(model, weights):
        got = evaluate(call.graph, call.inputs, weights)
        of_several = [call.entry] if len(originals) > 1 else []
        text = ", ".join([*of_several, *filter(None, [call.sizes])])
        rows += [_apart(text, name, array, call.outputs[name]) for name, array in got.items()]
        vectors.setdefault(call.entry, []).append(_vector(call, weights))
    by = ", ".join(dict.fromkeys(o.by() for o in originals.values()))
    return Checked(tuple(rows), {entry: tuple(found) for entry, found in vectors.items()}, by)


def kept(model: Model) -> dict[str, tuple[Vector, ...]]:
    """What the project's tests keep of the originals, as `check` does, for a model that is compared in another way."""
    vectors: dict[str, list[Vector]] = {}
    weights = _weights(model)
    for call in _calls(model, weights):
        vectors.setdefault(call.entry, []).append(_vector(call, weights))
    return {entry: tuple(found) for entry, found in vectors.items()}


@dataclass(frozen=True)
class OriginalRun:
    """One run of an original: the entry and its graph, the values of the dims, inputs and outputs by their names.

    `bounds` are of the integers that inputs are drawn from.
    """

    entry: str
    graph: Graph
    point: tuple[int, ...]
    bounds: Mapping[str, Bounds]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    @property
    def sizes(self) -> str:
        named = zip(self.graph.dims(), self.point, strict=True)
        return ", ".join(f"{d.name}={n}" for d, n in named)


def _calls(model: Model, weights: Mapping[str, Array]) -> Iterator[OriginalRun]:
    """The runs of the originals, which each begin with a new context."""
    for entry, graph in model.trace().entries:
        original = model.originals.get(entry)
        if original is None:
            continue
        bounds = drawn(graph, weights)
        for point in chosen(graph.dims()):
            sizes = dict(zip(graph.dims(), point, strict=True))
            named = enumerate(ports(graph), 1)
            inputs = {p.name: input_of(p, i, sizes, bounds[p.name]) for i, p in named}
            found = _run(model.name, original, inputs)
            names = [name for name, _ in graph.outputs]
            yield OriginalRun(
                entry, graph, point, bounds, inputs, {name: found[name] for name in names}
            )


def _weights(model: Model) -> dict[str, Array]:
    """The arrays of the model's weights, those of few bits as what they stand for."""
    held = model.sources(None) or {}
    return {w.name: np.asarray(held[w.name]) for w in model.trace().weights}


def chosen(dims: Sequence[Dim]) -> list[tuple[int, ...]]:
    """The points of the stored tests, and a larger one: the original may be slow."""
    steps = ((MORE + APART * i) * d.multiple_of for i, d in enumerate(dims))
    small = points(dims)
    most = (d.hi // d.multiple_of * d.multiple_of for d in dims)
    larger = tuple(min(m, n + s) for m, n, s in zip(most, small[0], steps, strict=True))
    return list(dict.fromkeys((*small, larger)))


def _run(model: str, original: Original, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    try:
        return original.run(inputs)
    except Exception as e:  # another program, which ends in many ways
        why = f"{type(e).__name__}: {first_line(e)[:TOLD].rstrip('.')}"
        why += "".join(f" ({note})" for note in getattr(e, "__notes__", ()))
        raise OriginalFailed(model=model, why=why) from e


def _vector(call: OriginalRun, weights: Mapping[str, Array]) -> Vector:
    """What is kept of a run; the graph on floats that are moved a little says which integers depend on rounding."""
    found = stored(
        call.point, call.outputs, lambda: evaluate(call.graph, shaken(call.inputs), weights)
    )
    return replace(found, drawn=tuple(call.bounds[p.name] for p in ports(call.graph)))


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
