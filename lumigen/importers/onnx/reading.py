"""reading: an ONNX file as a message, its tensors as arrays; the only place that knows the package `onnx`.

Promises that a file which is truncated, untrue or too large is a BadOnnxFile, and that nothing outside of the model's
directory is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lumigen.errors import BadOnnxFile, PackageMissing, first_line
from lumigen.importers.onnx.values import Array
from lumigen.missing import advice

MOST = 2**31 - 1  # bytes of a message of protobuf's
# uint16, int16, uint32, uint64, uint4, int4, uint2, int2 in TensorProto.DataType
NARROW_ELEMENTS = {4, 5, 12, 13, 21, 22, 25, 26}
EXTERNAL = 1  # data_location of tensors whose bytes are in another file


def package(name: str = "onnx") -> Any:
    """A module of the package `onnx`; PackageMissing where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] != "onnx":
            raise
        raise PackageMissing(op="onnx", package="onnx") from None


def read_model(source: Any) -> tuple[Any, Path | None]:
    """The message of a path or of a ModelProto, and the file that it is from."""
    onnx = package()
    if isinstance(source, onnx.ModelProto):
        return source, None
    file = Path(source)
    if not file.is_file():
        why = "it is a directory" if file.is_dir() else "there is no such file"
        remedy = advice(file, "Name an .onnx file.", lambda p: p.suffix == ".onnx")
        raise BadOnnxFile(file=file, why=why, remedy=remedy)
    if file.stat().st_size > MOST:
        why = f"it has {file.stat().st_size} bytes, and a message has at most {MOST}"
        remedy = (
            "Save the model with external data: onnx.save(model, path, save_as_external_data=True)."
        )
        raise BadOnnxFile(file=file, why=why, remedy=remedy)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(file.read_bytes())
    except Exception as e:  # noqa: BLE001  # protobuf has errors of its own, which differ by version
        why = f"it is no complete ONNX model ({first_line(e)[:80].rstrip('.')})"
        raise BadOnnxFile(file=file, why=why, remedy="Export the model again.") from None
    if not model.HasField("graph") or not model.graph.output:
        why = "it is no ONNX model: it has no graph with outputs"
        raise BadOnnxFile(file=file, why=why, remedy="Export the model again.")
    return model, file


def numpy_type(element: int) -> np.dtype[Any]:
    """The type of numpy's for a number of TensorProto.DataType; objects for strings."""
    found = package("onnx.helper").tensor_dtype_to_np_dtype(element)
    return np.dtype(found)


def array_of(tensor: Any, file: Path | None) -> Array:
    """The array of a TensorProto, mapped where its bytes are in another file."""
    shown = file or "the model"
    try:
        if tensor.data_location == EXTERNAL:
            return _external(tensor, file)
        found = np.asarray(package("onnx.numpy_helper").to_array(tensor))
        return found.astype(str) if found.dtype == object else found  # objects are sizes
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as e:
        name = tensor.name or "a constant"
        why = f"tensor {name} of shape {list(tensor.dims)} is not what it says: {first_line(e)[:100].rstrip('.')}"
        raise BadOnnxFile(file=shown, why=why, remedy="Export the model again.") from None


def _external(tensor: Any, file: Path | None) -> Array:
    """The mapped bytes of another file, which lies below the model's directory and is long enough."""
    if file is None:
        raise ValueError("its bytes are in another file, and the model is from none")
    entries = {e.key: e.value for e in tensor.external_data}
    folder = file.resolve().parent
    place = (folder / entries["location"]).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise ValueError(
            f"its bytes would be in {entries['location']}, and that is no file beside the model"
        )
    kind = numpy_type(tensor.data_type)
    if kind.hasobject or kind.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        raise ValueError(f"elements of {kind} are in no file of their own")
    shape = tuple(int(d) for d in tensor.dims)
    count, offset = math.prod(shape), int(entries.get("offset", 0))
    length = int(entries.get("length", count * kind.itemsize))
    if min((*shape, offset), default=0) < 0 or length != count * kind.itemsize:
        raise ValueError(f"{length} bytes at {offset} are not {count} elements of {kind}")
    if offset + length > place.stat().st_size:
        raise ValueError(
            f"{place.name} ends at {place.stat().st_size}, and it needs {offset + length}"
        )
    return np.memmap(place, kind, "r", offset, shape) if count else np.zeros(shape, kind)


def declared_elements(proto: Any) -> dict[str, int]:
    """The element type of each value of the main graph, by name: those that say it, and all where a type is narrow."""
    graph = proto.graph
    used = {t.data_type for t in graph.initializer}
    used |= {a.i for n in graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to"}
    used |= {i.type.tensor_type.elem_type for i in graph.input}
    if used & NARROW_ELEMENTS:
        try:
            graph = package("onnx.shape_inference").infer_shapes(proto).graph
        except Exception as e:  # noqa: BLE001  # onnx has errors of its own
            why = f"the types of its values do not fit together: {first_line(e)[:100].rstrip('.')}"
            remedy = "Check it with onnx.checker.check_model, or export it again."
            raise BadOnnxFile(file="the model", why=why, remedy=remedy) from None
    tensors = {t.name: int(t.data_type) for t in graph.initializer}
    return tensors | elements_of((*graph.input, *graph.output, *graph.value_info))


def elements_of(infos: Iterable[Any]) -> dict[str, int]:
    """The element types of values that declare one."""
    found = {v.name: int(v.type.tensor_type.elem_type) for v in infos}
    return {name: element for name, element in found.items() if element}
