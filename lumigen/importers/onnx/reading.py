"""reading: an ONNX file as a message, its tensors as arrays; the only place that knows the package `onnx`.

Promises that a file which is truncated, untrue or too large is a BadOnnxFile, and that nothing outside of the model's
directory is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
UNREADABLE = (ValueError, TypeError, KeyError, OverflowError, MemoryError, OSError, RuntimeError)
SHOWN = 160  # characters of a text of the file, or about it
SHOWN_AXES = 8
SHOWN_PLACE = 60
DIGITS = 19  # of what 64 bits hold
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
    try:
        return np.dtype(package("onnx.helper").tensor_dtype_to_np_dtype(element))
    except KeyError:
        raise ValueError(f"there is no element type {element}") from None


def array_of(tensor: Any, file: Path | None) -> Array:
    """The array of a TensorProto, mapped where its bytes are in another file."""
    shown = file or "the model"
    try:
        numpy_type(tensor.data_type)
        if min(tensor.dims, default=0) < 0:
            raise ValueError("a size is below 0")
        if tensor.data_location == EXTERNAL:
            return _external(tensor, file)
        found = np.asarray(package("onnx.numpy_helper").to_array(tensor))
        return found.astype(str) if found.dtype == object else found  # objects are sizes
    except UNREADABLE as e:
        name = (tensor.name or "a constant")[:SHOWN]
        why = f"tensor {name} of shape {list(tensor.dims)[:SHOWN_AXES]} is not what it says: {_told(e)}"
        raise BadOnnxFile(file=shown, why=why, remedy="Export the model again.") from None


def _told(error: Exception) -> str:
    """What is wrong with a tensor, as a clause."""
    text = first_line(error)[:SHOWN].rstrip(".")
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}".rstrip(": ")


def _external(tensor: Any, file: Path | None) -> Array:
    """The mapped bytes of another file, which lies below the model's directory and is long enough."""
    if file is None:
        raise ValueError("its bytes are in another file, and the model is from none")
    entries = {e.key: e.value for e in tensor.external_data}
    place = _beside(file.resolve().parent, entries.get("location", ""))
    kind = numpy_type(tensor.data_type)
    if kind.hasobject or kind.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        raise ValueError(f"elements of {kind} are in no file of their own")
    shape = tuple(int(d) for d in tensor.dims)
    count, offset = math.prod(shape), _position(entries, "offset", 0)
    length = _position(entries, "length", count * kind.itemsize)
    if length != count * kind.itemsize:
        raise ValueError(f"{length} bytes at {offset} are not {count} elements of {kind}")
    if offset + length > place.stat().st_size:
        raise ValueError(
            f"{place.name} ends at {place.stat().st_size}, and it needs {offset + length}"
        )
    return np.memmap(place, kind, "r", offset, shape) if count else np.zeros(shape, kind)


def _beside(folder: Path, location: str) -> Path:
    """The file of a location; ValueError where it is none below the folder, whatever links lead there."""
    if not location:
        raise ValueError("it does not say in which file its bytes are")
    try:
        place = (folder / location).resolve()
        if place.is_relative_to(folder) and place.is_file():
            return place
    except (OSError, RuntimeError, ValueError):  # too long a name, links in a circle, a byte 0
        pass
    shown = location[:SHOWN_PLACE]
    raise ValueError(f"its bytes would be in {shown!r}, and that is no file beside the model")


def _position(entries: Mapping[str, str], key: str, default: int) -> int:
    """A number of bytes, as digits."""
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        raise ValueError(f"its {key} is {text[:DIGITS]!r}, and that is no number of bytes")
    return int(text)


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
