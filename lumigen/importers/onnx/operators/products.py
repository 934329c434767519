"""products: matrix products, contractions and determinants."""

from __future__ import annotations

from lumigen.dtype import f64
from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator


def matmul(n: OnnxNode) -> Tensor:
    return n.tensor(0) @ n.tensor(1)


def gemm(n: OnnxNode) -> Tensor:
    """alpha A B + beta C, of transposed operands where that is asked for; of integers cut off once, at the end."""
    a, b = n.tensor(0), n.tensor(1)
    a = a.t() if n.attr("transA", 0) else a
    b = b.t() if n.attr("transB", 0) else b
    out = a @ b
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    dtype, wide = out.dtype, out
    if dtype.is_int and not (alpha == int(alpha) and beta == int(beta)):
        wide = out.to(f64)
    elif dtype.is_int:
        alpha, beta = int(alpha), int(beta)
    wide = wide if alpha == 1 else wide * alpha
    if not n.has(2) or beta == 0:
        return wide.to(dtype)
    c = n.tensor(2).to(wide.dtype)
    return (wide + (c if beta == 1 else c * beta)).to(dtype)


def einsum(n: OnnxNode) -> Tensor:
    return functions.einsum(n.attr("equation").replace(" ", ""), *n.tensors())


ROWS = (
    Operator("MatMul", matmul),
    Operator("Gemm", gemm),
    Operator("Einsum", einsum),
    Operator("Det", lambda n: functions.det(n.tensor(0))),
)
