"""schema: what the package `onnx` itself says of operators: functions of others that they stand for."""

from __future__ import annotations

from typing import Any

from lumigen.importers.onnx.node import Node
from lumigen.importers.onnx.reading import package
from lumigen.importers.onnx.values import HELD, Known, Value


def body_of(node: Node) -> Any:
    """The FunctionProto that the operator stands for in its version; None where it is none."""
    onnx = package()
    defs = package("onnx.defs")
    try:
        schema = defs.get_schema(node.op, node.version, node.proto.domain)
    except defs.SchemaError:
        return None
    text = b""
    if schema.has_function:
        text = schema.get_function_with_opset_version(
            max((v for v in schema.function_opset_versions if v <= node.version), default=-1)
            if any(v <= node.version for v in schema.function_opset_versions)
            else min(schema.function_opset_versions)
        )
    elif schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        version = max((v for v in versions if v <= node.version), default=min(versions))
        types = [type_of(v).SerializeToString() for v in node.inputs]
        text = schema.get_context_dependent_function_with_opset_version(
            version, node.proto.SerializeToString(), types
        )
    if not text:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body


def type_of(value: Value) -> Any:
    """The TypeProto of a value: its element type, and its shape where that is numbers."""
    onnx = package()
    helper = package("onnx.helper")
    if isinstance(value, list):
        inner = type_of(value[0]) if value else onnx.TypeProto()
        return helper.make_sequence_type_proto(inner)
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, Known):
        kind = value.array.dtype if not value.is_symbolic else None
        shape: tuple[Any, ...] = value.array.shape
    else:
        kind = next(k for k, dtype in HELD.items() if dtype is value.dtype)
        shape = value.shape
    number = onnx.TensorProto.INT64 if kind is None else helper.np_dtype_to_tensor_dtype(kind)
    return helper.make_tensor_type_proto(number, [n if isinstance(n, int) else None for n in shape])


