"""Products of matrices: expanded operands, multiplied and summed; the compiler finds the rest."""

from __future__ import annotations

from lumigen.errors import DtypeMismatch, RankMismatch
from lumigen.frontend.movement import squeeze, transpose, with_ones
from lumigen.frontend.primitive import Edge, broadcast_shape, expand, mul, reduce_sum, unequal
from lumigen.frontend.trace import fail
from lumigen.view import Shape


def matmul(a: Edge, b: Edge) -> Edge:
    """PyTorch's `@`: (..., M, K) by (..., K, N) over broadcast leading axes; vectors fit in.

    sum_k a[..., m, k] * b[..., k, n]
    """
    _check_operands(a, b)
    if len(a.shape) == 1:
        out = matmul(with_ones(a, (0,)), b)
        return squeeze(out, -1 if len(b.shape) == 1 else -2)
    if len(b.shape) == 1:
        out = matmul(a, with_ones(b, (1,)))
        return squeeze(out, -1)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if k is not b.shape[-2]:
        rule = f"the last axis of the left is {k}, the last but one of the right {b.shape[-2]}"
        remedy = "Transpose or reshape one of them."
        raise unequal("matmul", k, b.shape[-2], a.shape, b.shape, rule, remedy)
    batch = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    to = (*batch, m, n, k)
    left = expand("matmul", with_ones(a, (len(a.shape) - 1,)), to)
    right = expand("matmul", with_ones(transpose(b, -1, -2), (len(b.shape) - 2,)), to)
    return reduce_sum(mul(left, right), (len(to) - 1,))


def _check_operands(a: Edge, b: Edge) -> None:
    for name, x in (("the left operand", a), ("the right operand", b)):
        if not x.shape:
            raise fail(
                RankMismatch,
                op="matmul",
                name=name,
                shape=x.shape,
                expected="at least 1 axis",
                remedy="Use * to scale by a number.",
            )
    if a.dtype is not b.dtype or a.dtype.is_bool:
        raise fail(
            DtypeMismatch,
            op="matmul",
            name="the right operand" if a.dtype is not b.dtype else "the left operand",
            got=b.dtype,
            expected="a number" if a.dtype is b.dtype else a.dtype,
            remedy="Cast one with .to().",
        )


def linear(x: Edge, weight: Edge) -> Edge:
    """(..., in) by (out, in): sum_i x[..., i] * weight[o, i]."""
    return matmul(x, transpose(weight, 0, 1))


def check_linear(x: Shape, weight: Shape) -> None:
    """Whether the shapes fit, before anything is made of them."""
    if len(weight) != 2 or not x:
        name, shape = ("the input", x) if len(weight) == 2 else ("the weight", weight)
        expected = "at least 1 axis" if len(weight) == 2 else "2 axes (out, in)"
        raise fail(
            RankMismatch,
            op="linear",
            name=name,
            shape=shape,
            expected=expected,
            remedy="Reshape it.",
        )
    if x[-1] is not weight[1]:
        rule = f"the last axis of the input must be {weight[1]}"
        remedy = "Check the layer before, or flatten the input."
        raise unequal("linear", x[-1], weight[1], x, weight, rule, remedy)
