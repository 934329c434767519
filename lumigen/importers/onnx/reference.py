"""reference: an ONNX model as onnxruntime runs it where it is installed, else as the evaluator of `onnx` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from lumigen.frontend.model import Original
from lumigen.importers.onnx.ports import tensor_type
from lumigen.importers.onnx.reading import numpy_type, package
from lumigen.importers.onnx.values import Array, Known, Value

RUNTIME = "onnxruntime"
Run = Callable[[Mapping[str, Any]], list[Any]]


def original_of(imported: Any) -> Original:
    """What an imported model was before; what runs it is made when it first runs.

    onnxruntime knows more operators than the evaluator, and the evaluator more types.
    """

    @cache
    def session() -> Run:
        return _session(str(imported.file) if imported.file else imported.proto.SerializeToString())

    @cache
    def evaluator() -> Run:  # a file's own message has no tensors that lie beside it
        proto = package().load(imported.file) if imported.file else imported.proto
        found = package("onnx.reference").ReferenceEvaluator(proto)
        return lambda given: found.run(None, given)

    ran: dict[str, None] = {}

    def outputs(given: Mapping[str, Any]) -> list[Any]:
        is_there = find_spec(RUNTIME) is not None
        if is_there:
            found = None
            with suppress(Exception):
                found = session()(given)
            if found is not None:
                ran[f"{RUNTIME} {import_module(RUNTIME).__version__}"] = None
                return found
        try:
            found = evaluator()(given)
        except Exception as e:
            if not is_there:
                e.add_note(f"{RUNTIME}, which is asked first, is not installed")
            raise
        ran[f"the reference evaluator of onnx {package().__version__}"] = None
        return found

    infos = {i.name: i for i in imported.proto.graph.input}
    labels = dict(_labels(imported.proto.graph))

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        given: dict[str, Any] = {name: _plain(v) for name, v in imported.known.items()}
        for onnx, name, _ in imported.inputs:
            kind = numpy_type(tensor_type(infos[onnx], imported.file).elem_type)
            given[onnx] = arrays[name].astype(kind)
        pairs = zip(imported.outputs, outputs(given), strict=True)
        found = [(name, _columns(value, labels.get(onnx))) for (onnx, name), value in pairs]
        return dict(part for name, value in found for part in _parts(name, value))

    return Original(run, lambda: " and ".join(ran))


def _labels(graph: Any) -> Iterator[tuple[str, list[Any]]]:
    """The keys of outputs that are maps, by the outputs' names."""
    for node in graph.node:
        if node.op_type == "ZipMap":
            for a in node.attribute:
                yield node.output[0], [*a.ints, *(s.decode() for s in a.strings)]


def _columns(value: Any, labels: list[Any] | None) -> Any:
    """Maps, one for each row, as a tensor with a column for each label."""
    if labels is None or not isinstance(value, list):
        return value
    rows = cast("list[Mapping[Any, float]]", value)
    return np.array([[row[label] for label in labels] for row in rows], np.float32)


def _session(model: str | bytes) -> Run:
    """onnxruntime on one processor, operator by operator as the file has them."""
    ort = import_module(RUNTIME)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")  # else sums may saturate
    found = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda given: found.run(None, given)


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
