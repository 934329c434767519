"""products: matrix products, contractions and determinants."""

from __future__ import annotations

from lumigen.frontend import Tensor, functions
from lumigen.importers.onnx.node import OnnxNode, Operator


def matmul(n: OnnxNode) -> Tensor:
    return n.tensor(0) @ n.tensor(1)


def gemm(n: OnnxNode) -> Tensor:
    """alpha A B + beta C, of transposed operands where that is asked for."""
    a, b = n.tensor(0), n.tensor(1)
    a = a.t() if n.attr("transA", 0) else a
    b = b.t() if n.attr("transB", 0) else b
    out = a @ b
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    out = out if alpha == 1.0 else (out * alpha).to(out.dtype)
    if not n.has(2) or beta == 0.0:
        return out
    c = n.tensor(2)
    return out + (c if beta == 1.0 else (c * beta).to(c.dtype))


def einsum(n: OnnxNode) -> Tensor:
    return functions.einsum(n.attr("equation").replace(" ", ""), *n.tensors())


ROWS = (
    Operator("MatMul", matmul),
    Operator("Gemm", gemm),
    Operator("Einsum", einsum),
    Operator("Det", lambda n: functions.det(n.tensor(0))),
)
