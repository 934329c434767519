"""sources: constants, ranges and fills."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lumigen.dtype import f32
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import FEW, Array, Known, held

# The type of numpy's for each attribute of a Constant; None for that of the tensor itself.
CONSTANTS: dict[str, Any] = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": str,
    "value_strings": str,
}


def constant(n: OnnxNode) -> Known:
    for name, kind in CONSTANTS.items():
        found = n.attr(name, None)
        if found is not None:
            return Known(np.asarray(found, kind))
    raise n.unsupported("it has no value of a kind that is known")


def constant_of_shape(n: OnnxNode) -> Tensor:
    sizes = n.sizes(0)
    value = n.attr("value", np.zeros(1, np.float32)).reshape(-1)
    return functions.full(sizes, value[0].item(), held(value.dtype))


def _known_constant_of_shape(n: OnnxNode, *_: Array) -> Any:
    sizes = n.sizes(0)
    value = n.attr("value", np.zeros(1, np.float32)).reshape(-1)
    if not all(isinstance(e, int) for e in sizes) or math.prod(sizes) > FEW:
        return None
    return np.full(sizes, value[0], value.dtype)


def range_(n: OnnxNode) -> Tensor:
    start, end, step = (n.number(i) for i in range(3))
    value = n.given(0)
    dtype = value.dtype if isinstance(value, Tensor) else held(value.element)
    if not isinstance(step, int | float) or step == 0:
        raise n.unsupported(f"its step is {step}", "Export it with a step that is no 0.")
    return functions.arange(start, end, step, dtype)


def _known_range(n: OnnxNode, start: Array, end: Array, step: Array) -> Any:
    if object in (start.dtype, end.dtype, step.dtype) or not step:
        return None
    first, last, by = (
        float(a.reshape(())) if a.dtype.kind == "f" else int(a.reshape(()))
        for a in (start, end, step)
    )
    count = max(math.ceil((last - first) / by), 0)
    return None if count > FEW else np.array([first + i * by for i in range(count)], start.dtype)


def eye_like(n: OnnxNode) -> Tensor:
    """1 on a diagonal, in the shape of the operand."""
    x = n.given(0)
    rows, columns = x.array.shape if isinstance(x, Known) else x.shape
    k = int(n.attr("k", 0))
    element = n.attr("dtype", None)
    dtype = n.tensor(0).dtype if element is None else held(numpy_type(element))
    at = functions.arange(rows).reshape(-1, 1) + k == functions.arange(columns)
    return at.to(dtype)


def window(name: str, of: Callable[[Tensor], Tensor]) -> Operator:
    """A window of `size` elements; symmetric unless `periodic`."""

    def function(n: OnnxNode) -> Tensor:
        size = n.number(0)
        count = size if n.attr("periodic", 1) else size - 1
        element = n.attr("output_datatype", 1)
        at = functions.arange(size).to(f32) * (2 * math.pi / count)
        return of(at).to(held(numpy_type(element)))

    return Operator(name, function)


ROWS = (
    Operator("Constant", constant),
    Operator("ConstantOfShape", constant_of_shape, known=_known_constant_of_shape),
    Operator("Range", range_, known=_known_range),
    Operator("EyeLike", eye_like),
    window("HannWindow", lambda t: 0.5 - 0.5 * t.cos()),
    window("HammingWindow", lambda t: 25 / 46 - (1 - 25 / 46) * t.cos()),
    window("BlackmanWindow", lambda t: 0.42 - 0.5 * t.cos() + 0.08 * (2 * t).cos()),
)
