"""schema: what the package `onnx` itself says of operators: functions of others that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from lumigen.importers.onnx.node import OnnxNode
from lumigen.importers.onnx.reading import package
from lumigen.importers.onnx.values import HELD, Known, Value


@cache
def schema_of(op: str, version: int, domain: str) -> Any:
    """The OpSchema of an operator in a version of its operator set; None where the package has none."""
    defs = package("onnx.defs")
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


def misfit(proto: Any, domain: str, version: int) -> str:
    """What a node has that its operator does not take, as a clause; empty where it fits, or nobody knows."""
    schema = schema_of(proto.op_type, version, domain)
    if schema is None:
        return ""
    for names, most, what in (
        (proto.input, schema.max_input, "inputs"),
        (proto.output, schema.max_output, "outputs"),
    ):
        count = max((i for i, name in enumerate(names, 1) if name), default=0)
        if count > most:
            return f"it has {count} {what}, and its operator at most {most}"
    declared = schema.attributes
    seen: set[str] = set()
    for a in proto.attribute:
        if a.name in seen:
            return f"it has two attributes {a.name[:60]!r}"
        seen.add(a.name)
        if a.name not in declared:
            return f"its operator has no attribute {a.name[:60]!r} in version {version}"
        kind = declared[a.name].type
        if a.type and a.type != kind.value:
            given = a.AttributeType.Name(a.type)
            return f"its attribute {a.name} is of type {given}, and its operator takes {kind.name}"
    return ""


def body_of(node: OnnxNode) -> tuple[Any, list[Any]] | None:
    """The FunctionProto that the operator stands for, and its default attributes; None if there is none."""
    schema = schema_of(node.op, node.version, node.proto.domain)
    if schema is None:
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
    schema = schema_of(op, version, domain)
    return bool(schema and (schema.has_function or schema.has_context_dependent_function))


# Attributes that say the type of the output.
SAID = {"Cast": "to", "QuantizeLinear": "output_dtype"}


def output_element(node: OnnxNode, i: int, given: Sequence[int]) -> int:
    """The element type of an output: that of an operand which the operator declares alike; 0 where it says none."""
    if node.op in SAID and (said := node.attr(SAID[node.op], 0)):
        return int(said)
    schema = schema_of(node.op, node.version, node.proto.domain)
    if schema is None:
        return 0
    variadic = package("onnx.defs").OpSchema.FormalParameterOption.Variadic
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
