"""contrib: further operators of onnxruntime (domain com.microsoft) that its optimizer puts into exported models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumigen.dtype import f32, i32, i64
from lumigen.frontend import Tensor, functional, functions
from lumigen.importers.onnx.node import Function, OnnxNode, Operator
from lumigen.importers.onnx.operators import convolutions, norms, pools, products, quantised
from lumigen.importers.onnx.operators.attention import MICROSOFT
from lumigen.importers.onnx.operators.few_bits import matmul_nbits
from lumigen.importers.onnx.operators.quantised import requantised
from lumigen.importers.onnx.operators.recurrent import ACTIVATIONS


def fused_matmul(n: OnnxNode) -> Tensor:
    a, b = n.tensor(0), n.tensor(1)
    a = a.movedim(0, -2) if n.attr("transBatchA", 0) else a
    b = b.movedim(0, -2) if n.attr("transBatchB", 0) else b
    a = a.mT if n.attr("transA", 0) and a.ndim > 1 else a
    b = b.mT if n.attr("transB", 0) and b.ndim > 1 else b
    alpha = n.attr("alpha", 1.0)
    return a @ b if alpha == 1.0 else (a @ b) * alpha


def bias_gelu(n: OnnxNode) -> Tensor:
    return functional.gelu(n.tensor(0) + n.tensor(1))


def fast_gelu(n: OnnxNode) -> Tensor:
    x = n.tensor(0) + n.tensor(1) if n.has(1) else n.tensor(0)
    return functional.gelu(x, approximate="tanh")


def quick_gelu(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return x * (x * n.attr("alpha", 1.702)).sigmoid()


def skip_layer_norm(n: OnnxNode) -> tuple[Any, ...]:
    """The norm of a sum, and the sum."""
    total = n.tensor(0) + n.tensor(1)
    total = total + n.tensor(4) if n.has(4) else total
    apart, mean, variance = norms.centred(total.to(f32), (-1,))
    inverse = (variance + n.attr("epsilon", 1e-12)).rsqrt()
    out = apart * inverse * n.tensor(2)
    out = out + n.tensor(3) if n.has(3) else out
    return out.to(total.dtype), mean, inverse, total


def simplified_norm(x: Tensor, scale: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """x by the root of the mean of its squares, and 1 / that root."""
    wide = x.to(f32)
    inverse = ((wide * wide).mean(-1, keepdim=True) + epsilon).rsqrt()
    return (wide * inverse).to(x.dtype) * scale, inverse


def simplified_layer_norm(n: OnnxNode) -> tuple[Any, ...]:
    x = n.tensor(0)
    if int(n.attr("axis", -1)) % x.ndim != x.ndim - 1:
        raise n.unsupported(
            "it normalises more than the last axis", "Export it without that fusion."
        )
    return simplified_norm(x, n.tensor(1), n.attr("epsilon", 1e-5))


def skip_simplified_norm(n: OnnxNode) -> tuple[Any, ...]:
    total = n.tensor(0) + n.tensor(1)
    total = total + n.tensor(3) if n.has(3) else total
    out, inverse = simplified_norm(total, n.tensor(2), n.attr("epsilon", 1e-12))
    return out, None, inverse, total


def embed_layer_norm(n: OnnxNode) -> tuple[Any, ...]:
    """Embeddings of words, positions and segments, their sum and its norm; how long each text is."""
    words = n.tensor(0)
    total = n.tensor(2)[words]
    at = n.tensor(8) if n.has(8) else functions.arange(words.shape[1])
    total = total + n.tensor(3)[at]
    if n.has(1) and n.has(4):
        total = total + n.tensor(4)[n.tensor(1)]
    apart, _, variance = norms.centred(total, (-1,))
    out = apart * (variance + n.attr("epsilon", 1e-12)).rsqrt() * n.tensor(5) + n.tensor(6)
    mask = n.tensor(7) if n.has(7) else functions.zeros(words.shape[0], 1, dtype=i32)
    return out, mask.to(i64).sum(1).to(i32), total


def activated(function: Function) -> Function:
    """An operator with an activation behind it."""

    def f(n: OnnxNode) -> Tensor:
        name = str(n.attr("activation", ""))
        out = function(n)
        if not name:
            return out
        if name.lower() not in ACTIVATIONS:
            raise n.unsupported(f"its activation is {name!r}", "Export it without that fusion.")
        act, a, b = ACTIVATIONS[name.lower()]
        given = n.attr("activation_params", None) or [
            n.attr("activation_alpha", a),
            n.attr("activation_beta", b),
        ]
        return act(out, *(*given, b)[:2])

    return f


def fused_conv(n: OnnxNode) -> Tensor:
    out = convolutions.conv(n)
    return out + n.tensor(3) if n.has(3) else out


# --- integers -------------------------------------------------------------------------------------


def bias_softmax(n: OnnxNode) -> Tensor:
    """A softmax of a sum over the axes from one on."""
    total = n.tensor(0) + n.tensor(1)
    axis = int(n.attr("axis", 1)) % total.ndim
    return total.flatten(axis).softmax(-1).reshape(*total.shape)


def bias_split_gelu(n: OnnxNode) -> Tensor:
    """One half of a sum times the gelu of the other."""
    left, right = (n.tensor(0) + n.tensor(1)).chunk(2, -1)
    return left * functional.gelu(right)


def gemm_fast_gelu(n: OnnxNode) -> Tensor:
    out = n.tensor(0) @ n.tensor(1)
    return functional.gelu(out + n.tensor(2) if n.has(2) else out, approximate="tanh")


def matmul_to_float(n: OnnxNode) -> Tensor:
    """Exact sums of integers times both scales, and a bias."""
    a = convolutions.centred(n.tensor(0), n.zero_point(4, 0))
    b = convolutions.centred(n.tensor(1), n.zero_point(5, 1))
    out = (a @ b).to(i32).to(f32) * (quantised.scales(n, 2) * quantised.scales(n, 3))
    return out + n.tensor(6) if n.has(6) else out


def dynamic_matmul(n: OnnxNode) -> Tensor:
    matrix = convolutions.centred(n.tensor(1), n.zero_point(3, 1))
    out = quantised.dynamic_product(n.tensor(0), matrix, quantised.scales(n, 2))
    return out + n.tensor(4) if n.has(4) else out


def real(n: OnnxNode, i: int) -> Tensor:
    """The numbers that an operand, its scale and its zero point stand for."""
    return convolutions.centred(n.tensor(i), n.zero_point(i + 2, i)).to(f32) * quantised.scales(
        n, i + 1
    )


def rounded(n: OnnxNode, x: Tensor, scale: int, like: int) -> Tensor:
    """Floats as integers by an operand's scale and the zero point after it."""
    zero = n.maybe(scale + 1)
    element = n.element_type(scale + 1 if zero is not None else like)
    by = quantised.scales(n, scale, divide=True)
    return quantised.quantised(x, by, zero, quantised.numpy_type(element))


def qlinear(f: Callable[[Tensor, Tensor], Tensor]) -> Function:
    """An operator of two quantised operands."""
    return lambda n: rounded(n, f(real(n, 0), real(n, 3)), 6, 0)


def qlinear_unary(f: Callable[[OnnxNode, Tensor], Tensor]) -> Function:
    """An operator of one quantised operand."""
    return lambda n: rounded(n, f(n, real(n, 0)), 3, 0)


def _mean_of_channels(n: OnnxNode, x: Tensor) -> Tensor:
    if n.attr("channels_last", 0):
        raise n.unsupported("its channels are last", "Export it with channels first.")
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


def _averaged(n: OnnxNode, x: Tensor) -> Tensor:
    if n.attr("channels_last", 0):
        raise n.unsupported("its channels are last", "Export it with channels first.")
    return pools.averaged(n, x)


def _softmax(n: OnnxNode, x: Tensor) -> Tensor:
    """Along an axis; before operator set 13 over all axes from it on."""
    axis = int(n.attr("axis", -1)) % x.ndim
    if n.attr("opset", 13) >= 13:
        return x.softmax(axis)
    return x.flatten(axis).softmax(-1).reshape(*x.shape)


def qlinear_where(n: OnnxNode) -> Tensor:
    return rounded(n, functions.where(n.tensor(0), real(n, 1), real(n, 4)), 7, 1)


def qlinear_concat(n: OnnxNode) -> Tensor:
    """Parts in scales of their own, joined in one."""
    parts = [real(n, i) for i in range(2, len(n.inputs), 3)]
    kind = quantised.numpy_type(n.element_type(1))
    joined = functions.cat(parts, int(n.attr("axis")))
    by = quantised.scales(n, 0, divide=True)
    return quantised.quantised(joined, by, n.tensor(1), kind)


def qgemm(n: OnnxNode) -> Tensor:
    """An exact product of integers, as integers in the output's scale or as floats."""
    a = convolutions.centred(n.tensor(0), n.zero_point(2, 0))
    b = convolutions.centred(n.tensor(3), n.zero_point(5, 3))
    a = a.t() if n.attr("transA", 0) else a
    b = b.t() if n.attr("transB", 0) else b
    total = (a @ b).to(i32)
    total = total + n.tensor(6) if n.has(6) else total
    factor = quantised.scales(n, 1) * quantised.scales(n, 4) * n.attr("alpha", 1.0)
    if not n.has(7):
        return total.to(f32) * factor
    return requantised(n, total, factor / quantised.scales(n, 7, divide=True), 8)


_LEAKY = ACTIVATIONS["leakyrelu"][0]

_FUNCTIONS: dict[str, Function] = {
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "Gelu": lambda n: functional.gelu(n.tensor(0)),
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "QuickGelu": quick_gelu,
    "GemmFastGelu": gemm_fast_gelu,
    "BiasSplitGelu": bias_split_gelu,
    "BiasSoftmax": bias_softmax,
    "BiasDropout": lambda n: n.tensor(0) + n.tensor(1) + (n.tensor(2) if n.has(2) else 0),
    "FusedMatMulActivation": activated(fused_matmul),
    "ExpandDims": lambda n: n.tensor(0).unsqueeze(int(n.number(1))),
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_simplified_norm,
    "SimplifiedLayerNormalization": simplified_layer_norm,
    "EmbedLayerNormalization": embed_layer_norm,
    "FusedConv": activated(fused_conv),
    "FusedGemm": activated(products.gemm),
    "MatMulNBits": matmul_nbits,
    "MatMulIntegerToFloat": matmul_to_float,
    "DynamicQuantizeMatMul": dynamic_matmul,
    "QuantizeLinear": quantised.quantize,
    "DequantizeLinear": quantised.dequantize,
    "QLinearAdd": qlinear(lambda a, b: a + b),
    "QLinearMul": qlinear(lambda a, b: a * b),
    "QLinearSigmoid": qlinear_unary(lambda n, x: x.sigmoid()),
    "QLinearLeakyRelu": qlinear_unary(lambda n, x: _LEAKY(x, n.attr("alpha", 0.01), 0)),
    "QLinearGlobalAveragePool": qlinear_unary(_mean_of_channels),
    "QLinearAveragePool": qlinear_unary(_averaged),
    "QLinearSoftmax": qlinear_unary(_softmax),
    "QLinearWhere": qlinear_where,
    "QLinearConcat": qlinear_concat,
    "QGemm": qgemm,
}

ROWS = (
    *(Operator(name, f, domain=MICROSOFT) for name, f in _FUNCTIONS.items()),
    Operator(
        "SimplifiedLayerNormalization", simplified_layer_norm
    ),  # where onnxruntime's exporter puts it
)
