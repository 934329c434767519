"""reference: an ONNX model as the reference evaluator of the package `onnx` runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

import numpy as np

from lumigen.frontend.model import Original
from lumigen.importers.onnx.ports import tensor_type
from lumigen.importers.onnx.reading import numpy_type, package
from lumigen.importers.onnx.values import Array, Known, Value


def original_of(imported: Any) -> Original:
    """What an imported model was before; the evaluator is made when it first runs."""

    @cache
    def reference() -> Any:  # a file's own message has no tensors that lie beside it
        proto = package().load(imported.file) if imported.file else imported.proto
        return package("onnx.reference").ReferenceEvaluator(proto)

    infos = {i.name: i for i in imported.proto.graph.input}

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        given: dict[str, Any] = {name: _plain(v) for name, v in imported.known.items()}
        for onnx, name, _ in imported.inputs:
            kind = numpy_type(tensor_type(infos[onnx], imported.file).elem_type)
            given[onnx] = arrays[name].astype(kind)
        found = reference().run(None, given)
        pairs = zip(imported.outputs, found, strict=True)
        return dict(part for (_, name), value in pairs for part in _parts(name, value))

    return run


def _plain(value: Value) -> Any:
    """A value that was given, as the reference takes it."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.array if isinstance(value, Known) else None


def _parts(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of an output, called as the entry calls them; nothing for none."""
    if isinstance(value, list):
        for i, part in enumerate(cast("list[Any]", value)):
            yield from _parts(f"{name}_{i}", part)
    elif value is not None:
        yield name, np.asarray(value)
