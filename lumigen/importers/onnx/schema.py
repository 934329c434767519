"""schema: what the package `onnx` itself says of operators: functions of others that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumigen.importers.onnx.node import OnnxNode
from lumigen.importers.onnx.reading import package
from lumigen.importers.onnx.values import HELD, Known, Value


def body_of(node: OnnxNode) -> tuple[Any, list[Any]] | None:
    """The FunctionProto that the operator stands for, and its default attributes; None if there is none."""
    defs = package("onnx.defs")
    try:
        schema = defs.get_schema(node.op, node.version, node.proto.domain)
    except defs.SchemaError:
        return None
    if schema.has_function:
        version = _newest(schema.function_opset_versions, node.version)
        text = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions, node.version)
        types = [type_of(v).SerializeToString() for v in node.inputs]
        proto = node.resolved().SerializeToString()
        text = schema.get_context_dependent_function_with_opset_version(version, proto, types)
    else:
        return None
    body = package().FunctionProto()
    body.ParseFromString(text)
    defaults = [a.default_value for a in schema.attributes.values() if a.default_value.type]
    return (body, defaults) if body.node else None


def is_function(domain: str, op: str, version: int) -> bool:
    """Whether an operator is one of others."""
    defs = package("onnx.defs")
    try:
        schema = defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def output_element(node: OnnxNode, i: int, given: Sequence[int]) -> int:
    """The element type of an output: that of an operand which the operator declares alike; 0 where it says none."""
    if node.op == "Cast":
        return int(node.attr("to"))
    defs = package("onnx.defs")
    try:
        schema = defs.get_schema(node.op, node.version, node.proto.domain)
    except defs.SchemaError:
        return 0
    variadic = defs.OpSchema.FormalParameterOption.Variadic
    outputs = schema.outputs
    if not outputs or (i >= len(outputs) and outputs[-1].option != variadic):
        return 0
    wanted = outputs[min(i, len(outputs) - 1)].type_str
    for k, element in enumerate(given):
        at = min(k, len(schema.inputs) - 1)
        if element and schema.inputs[at].type_str == wanted and schema.inputs[at].is_homogeneous:
            return element
    return 0


def _newest(versions: list[int], version: int) -> int:
    """The newest that is not above a version; the oldest where all are."""
    return max((v for v in versions if v <= version), default=min(versions))


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
        kind = value.element
        shape: tuple[Any, ...] = value.array.shape
    else:
        kind = next(k for k, dtype in HELD.items() if dtype is value.dtype)
        shape = value.shape
    number = helper.np_dtype_to_tensor_dtype(kind)
    return helper.make_tensor_type_proto(number, [n if isinstance(n, int) else None for n in shape])
