"""checking: an imported model beside the reference evaluator of the package `onnx`, on random inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lumigen.errors import BadOnnxFile, first_line
from lumigen.frontend import Model, Spec
from lumigen.graph import Graph
from lumigen.importers.onnx.importing import Imported, model_of, opened
from lumigen.importers.onnx.ports import tensor_type
from lumigen.importers.onnx.reading import numpy_type, package
from lumigen.importers.onnx.values import Array, Known, Value
from lumigen.index import Dim
from lumigen.interp.graph import evaluate

SEED = 0


@dataclass(frozen=True)
class Checked:
    """Of one output at one set of sizes: the greatest difference, and the greatest number that was expected."""

    sizes: str
    output: str
    difference: float
    greatest: float


def checked(
    model: Any, dims: Mapping[str, Any], inputs: Mapping[str, Any]
) -> tuple[Model, tuple[Checked, ...]]:
    """The model, and each output at the least sizes and at larger ones against the reference, in f32."""
    imported = opened(model, dims, inputs)
    made = model_of(imported)
    ((_, graph),) = made.trace().entries
    try:  # a file's own message has no tensors that lie beside it
        proto = package().load(imported.file) if imported.file else imported.proto
        reference = package("onnx.reference").ReferenceEvaluator(proto)
    except Exception as e:  # noqa: BLE001  # it refuses in many ways
        raise _refused(imported, e) from None
    rows: list[Checked] = []
    for sizes in chosen(graph.dims()):
        rows += _at(imported, made, graph, reference, sizes)
    return made, tuple(rows)


def chosen(dims: tuple[Dim, ...]) -> list[dict[Dim, int]]:
    """The least sizes, and two of each a little larger: the reference is slow."""
    out: list[dict[Dim, int]] = []
    for more in (0, 3, 7):
        sizes = {d: min(d.hi, d.lo + more) for d in dims}
        if sizes not in out:
            out.append(sizes)
    return out


def _at(
    imported: Imported, made: Model, graph: Graph, reference: Any, sizes: Mapping[Dim, int]
) -> list[Checked]:
    """The outputs at one set of sizes."""
    rng = np.random.default_rng(SEED)
    infos = {i.name: i for i in imported.proto.graph.input}
    ours: dict[str, Array] = {}
    theirs: dict[str, Any] = {name: _plain(v) for name, v in imported.known.items()}
    for onnx, name, spec in imported.inputs:
        array = _random(rng, spec, sizes)
        ours[name] = array
        kind = numpy_type(tensor_type(infos[onnx], imported.file).elem_type)
        theirs[onnx] = array.astype(kind)
    try:
        wanted = reference.run(None, theirs)
    except Exception as e:  # noqa: BLE001
        raise _refused(imported, e) from None
    found = evaluate(graph, ours, made.values())
    text = ", ".join(f"{d.name}={n}" for d, n in sizes.items())
    pairs = zip(found.items(), wanted, strict=True)
    return [_compared(text, name, got, np.asarray(want)) for (name, got), want in pairs]


def _random(rng: np.random.Generator, spec: Spec, sizes: Mapping[Dim, int]) -> Array:
    """Normal floats; integers of 0 and 1, which are places in any table."""
    shape = [int(e.evaluate(sizes)) for e in spec.shape]
    if spec.dtype.is_float:
        return rng.standard_normal(shape).astype(spec.dtype.numpy)
    return rng.integers(0, 2, shape).astype(spec.dtype.numpy)


def _plain(value: Value) -> Any:
    """A value that was given, as the reference takes it."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.array if isinstance(value, Known) else None


def _compared(sizes: str, name: str, got: Array, want: Array) -> Checked:
    if got.shape != want.shape:
        return Checked(sizes, name, float("inf"), 0.0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.where(same, 0.0, np.abs(a - b))
    return Checked(
        sizes, name, float(np.max(apart, initial=0)), float(np.nanmax(np.abs(b), initial=0))
    )


def _refused(imported: Imported, error: Exception) -> BadOnnxFile:
    why = f"the reference evaluator of the package onnx ends with: {first_line(error)[:120].rstrip('.')}"
    remedy = "That says nothing of what is compiled: leave --check out, and compare with another program."
    return BadOnnxFile(file=imported.file or "the model", why=why, remedy=remedy)
