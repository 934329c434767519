"""Small ONNX models, made with `onnx.helper`, and what the reference evaluator says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import lumigen as lg
from lumigen.interp.graph import evaluate

VERSION = 17
Shape = Sequence[int | str]


def node(op: str, inputs: str, outputs: str, /, **attributes: Any) -> NodeProto:
    """A node; names are separated by blanks, and `_` is an input that is left out."""
    name = attributes.pop("name", f"/{outputs.split(maxsplit=1)[0]}/{op}")
    given = ["" if i == "_" else i for i in inputs.split()]
    return helper.make_node(op, given, outputs.split(), name=name, **attributes)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[Any, Shape]],
    outputs: str = "y",
    initial: Mapping[str, Any] | None = None,
    functions: Sequence[FunctionProto] = (),
    version: int = VERSION,
) -> ModelProto:
    """A model; inputs are (dtype, shape) by name, initialisers arrays by name."""
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), list(s))
        for n, (t, s) in inputs.items()
    ]
    ends = [helper.make_empty_tensor_value_info(n) for n in outputs.split()]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (initial or {}).items()]
    graph = helper.make_graph(list(nodes), "small", ports, ends, tensors)
    domains = sorted({"", *(n.domain for n in nodes)} - {"com.microsoft"})
    opsets = [helper.make_opsetid(d, version if not d else 1) for d in domains]
    opsets.append(helper.make_opsetid("com.microsoft", 1))
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def run(
    proto: ModelProto,
    arrays: Mapping[str, Any],
    dims: Mapping[str, Any] | None = None,
    **given: Any,
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of the imported model, by the interpreter."""
    made = lg.from_onnx(proto, dims=dims or {}, **given)
    ((_, graph),) = made.trace().entries
    return evaluate(graph, dict(arrays), made.values())


def expected(proto: ModelProto, arrays: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The same by the reference evaluator of `onnx`."""
    names = [o.name for o in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, dict(arrays)), strict=True))


def classifier(rng: np.random.Generator) -> ModelProto:
    """A convolution, a pool, a shape that is computed, a layer and a softmax, as exporters write them."""
    nodes = [
        node("Conv", "image.1 conv.weight conv.bias", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", "p", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "shape", axis=0),
        node("Reshape", "p shape", "flat"),
        node("Gemm", "flat fc.weight fc.bias", "logits", transB=1),
        node("Softmax", "logits", "probs", axis=-1),
    ]
    initial = {
        "conv.weight": rng.standard_normal((4, 1, 3, 3)).astype(np.float32),
        "conv.bias": rng.standard_normal(4).astype(np.float32),
        "fc.weight": rng.standard_normal((5, 64)).astype(np.float32),
        "fc.bias": rng.standard_normal(5).astype(np.float32),
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
    }
    return model(nodes, {"image.1": (np.float32, ["batch", 1, 8, 8])}, "probs", initial)
