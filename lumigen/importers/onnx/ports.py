"""ports: inputs and outputs of an ONNX graph as an entry has them: identifiers, dims, types.

A character of a name that is no letter, digit or underscore becomes an underscore; a name that does not begin with a
letter, or belongs to C++ or Python, begins with `t_`; of two that are then alike the later one ends with a number.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from lumigen.errors import (
    BadArgument,
    BadOnnxFile,
    DimsWithoutRange,
    UnknownOption,
    first_line,
)
from lumigen.frontend import Dim, Spec, spec
from lumigen.frontend.trace import fail
from lumigen.importers.onnx.kinds import NARROW
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Known, Value, held
from lumigen.importers.same import same_sizes
from lumigen.names import taken_by

# Of dims: a number, (least, greatest[, multiple of]), an lg.Dim, or the name of another.
Given = Mapping[str, Any]
MOST = 2**62  # of a size
LONGEST = 1000  # characters of a size's name, which may be arithmetic of others
RESERVED = ("out",)  # an argument of the emitted Python module


def identifier(name: str, others: Collection[str], reserved: Collection[str] = RESERVED) -> str:
    """A name as C, C++ and Python take it, different from the others."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not re.match(r"[A-Za-z]", plain) or taken_by(plain) or plain in reserved:
        plain = f"t_{plain}"
    out, number = plain, 2
    while out in others:
        out, number = f"{plain}_{number}", number + 1
    return out


def tensor_type(info: Any, file: Any) -> Any:
    """The declared type of an input that is a tensor, or an option of one, which is then always there."""
    declared = info.type
    if declared.WhichOneof("value") == "optional_type":
        declared = declared.optional_type.elem_type
    if declared.WhichOneof("value") != "tensor_type":
        which = declared.WhichOneof("value") or "value without a type"
        why = f"input {info.name} is no tensor, but a {which.removesuffix('_type')}"
        raise BadOnnxFile(file=file, why=why, remedy="Export the model with tensors as inputs.")
    return declared.tensor_type


def sizes_of(info: Any, file: Any) -> list[int | str]:
    """The declared sizes of an input: numbers, and names of those that a run decides."""
    tensor = tensor_type(info, file)
    if not tensor.HasField("shape"):
        why = f"input {info.name} has no declared shape"
        raise BadOnnxFile(file=file, why=why, remedy="Export the model with shapes of inputs.")
    out: list[int | str] = []
    for i, d in enumerate(tensor.shape.dim):
        if len(d.dim_param) > LONGEST:
            why = f"input {info.name[:LONGEST]} has a size whose name has {len(d.dim_param)} characters along axis {i}"
            raise BadOnnxFile(file=file, why=why, remedy="Give the size a short name.")
        if d.WhichOneof("value") == "dim_value" and d.dim_value >= MOST:
            why = f"input {info.name} has size {d.dim_value} along axis {i}"
            raise BadOnnxFile(file=file, why=why, remedy="Export the model with sizes below 2**62.")
        if d.WhichOneof("value") == "dim_value" and d.dim_value > 0:
            out.append(int(d.dim_value))
        elif d.WhichOneof("value") == "dim_value" and d.dim_value == 0:
            why = f"input {info.name} has size 0 along axis {i}"
            raise BadOnnxFile(
                file=file, why=why, remedy="Export the model with sizes of at least 1."
            )
        else:  # -1 and ? are what some exporters write for a size without a name
            has_name = any(c.isalnum() for c in d.dim_param)
            out.append(d.dim_param if has_name else f"{info.name}_{i}")
    return out


def dims_for(sizes: Sequence[Sequence[int | str]], given: Given, file: Any) -> dict[str, Any]:
    """A number, a Dim or arithmetic of them for each name; DimsWithoutRange lists those that nobody has given."""
    texts = list(dict.fromkeys(s for each in sizes for s in each if isinstance(s, str)))
    computed = {t: e for t in texts if (e := _expression(t, texts)) is not None}
    names = [t for t in texts if t not in computed]
    for name in given:
        if name not in names:
            raise UnknownOption(command="onnx", name=f"dim {name}", known=names)
    same = same_sizes("onnx", given, names)
    asked = dict.fromkeys(same.get(name, name) for name in names)
    if missing := [name for name in asked if name not in given]:
        raise DimsWithoutRange(file=file, dims=missing, example=example_of(missing))
    used: list[str] = []
    out: dict[str, Any] = {}
    for name in asked:
        used.append(identifier(name, used, ()))
        out[name] = _size(used[-1], given[name])
    out |= {name: out[end] for name, end in same.items()}
    return out | {text: _evaluated(e, out) for text, e in computed.items()}


ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def _expression(text: str, texts: Collection[str]) -> ast.expr | None:
    """A size that is arithmetic of names which are sizes themselves; None for what is a name, such as `batch-size`."""
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(found, ast.Name):
        return None
    for part in ast.walk(found):
        match part:
            case ast.BinOp(op=op) if type(op) in ARITHMETIC:
                pass
            case ast.Name(id=name) if name in texts:
                pass
            case ast.Constant(value=int()) | ast.operator() | ast.Load():
                pass
            case _:
                return None
    return found


def _evaluated(e: ast.expr, dims: Mapping[str, Any]) -> Any:
    match e:
        case ast.BinOp(left=left, op=op, right=right):
            return ARITHMETIC[type(op)](_evaluated(left, dims), _evaluated(right, dims))
        case ast.Name(id=name):
            return dims[name]
        case _:
            assert isinstance(e, ast.Constant)
            return e.value


def example_of(names: Sequence[str], refused: Collection[str] = ()) -> str:
    """Options that give sizes a range: 1..64, unless that is one of the `refused`."""
    return " ".join(
        f"--dim {shlex.quote(name)}={'LEAST..GREATEST' if name in refused else '1..64'}"
        for name in names
    )


def _size(name: str, given: Any) -> Any:
    """A number, or a Dim of that name."""
    if not isinstance(given, tuple | list):
        return given
    bounds = tuple(cast("Sequence[Any]", given))
    if len(bounds) not in (2, 3):
        value, expected = repr(bounds)[:80], "a number, or (least, greatest[, multiple of])"
        raise fail(BadArgument, op="onnx", name=f"dim {name}", value=value, expected=expected)
    return bounds[0] if bounds[0] == bounds[1] else Dim(name, *bounds)


def spec_of(tensor: Any, sizes: Sequence[int | str], dims: Mapping[str, Any]) -> Spec:
    """What the entry takes for an input; of integers that ours holds in a wider type, the range is theirs."""
    kind = numpy_type(tensor.elem_type)
    dtype = held(kind)
    bounds = None
    if kind.name in NARROW:
        bits, is_signed = NARROW[kind.name]
        bounds = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    elif kind == np.uint64:
        bounds = (0, 2**63 - 1)
    extents = [dims[s] if isinstance(s, str) else s for s in sizes]
    return spec(*extents, dtype=dtype, range=bounds)


def fixed(value: Any, info: Any, file: Any) -> Value:
    """The value that an input is given while the model is imported, in the input's type; a list is a sequence."""
    which = info.type.WhichOneof("value")
    try:
        return _fixed(value, info.type)
    except (ValueError, TypeError) as e:
        why = f"input {info.name} of {which} cannot be {str(value)[:40]}: {first_line(e)[:80].rstrip('.')}"
        raise BadOnnxFile(file=file, why=why, remedy="Pass numbers of the input's type.") from None


def _fixed(value: Any, declared: Any) -> Value:
    match declared.WhichOneof("value"):
        case "optional_type":
            return None if value is None else _fixed(value, declared.optional_type.elem_type)
        case "sequence_type":
            return [_fixed(v, declared.sequence_type.elem_type) for v in value]
        case _:
            return Known(np.asarray(value).astype(numpy_type(declared.tensor_type.elem_type)))
