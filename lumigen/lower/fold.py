"""fold: compute constants while compiling.

Before: any graph. After: no op has no elements, or only constants for operands, but for a sum over an extent that
is not known, and for a reciprocal that is rounded or no normal number: there kernels divide. What comes out
is a 0-d constant seen through a view: nothing large is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumigen.dtype import DType, accumulator
from lumigen.graph import Edge, Graph, Node, axes_of, const, edge
from lumigen.index import is_nonnegative, product
from lumigen.interp.graph import apply, number, quotient_of
from lumigen.ops import ROWS, SOURCES, Form, Op
from lumigen.pattern import rewrite
from lumigen.view import Shape, expand


def fold(graph: Graph) -> Graph:
    """The graph without ops on constants alone."""
    return rewrite(graph, fold_node)


def fold_node(n: Node) -> Edge | None:
    """The number that an op of constants is, in the op's shape; 0 stands for what has no elements."""
    if n.op not in SOURCES and any(e == 0 for e in n.shape):
        return everywhere(np.zeros((), n.dtype.numpy), n.dtype, n.shape)
    divided = quotient_of(n)
    args = divided or n.args
    if n.op not in ROWS or not all(e.node.op is Op.CONST and not e.view.valid for e in args):
        return None
    values = [number(e.node) for e in args]
    with np.errstate(all="ignore"):
        if ROWS[n.op].form is not Form.REDUCE:
            if divided:
                return everywhere(rounded(values[0] / values[1], n.dtype), n.dtype, n.shape)
            value = result_of(n, values)
            if n.op is Op.RECIP and not _is_exact(value, of=values[0]):
                return None
            return everywhere(value, n.dtype, n.shape)
        count = product(tuple(n.args[0].shape[d] for d in axes_of(n)))
        if not is_nonnegative(count - 1):
            return None
        if n.op is Op.MAX_REDUCE:
            return everywhere(values[0], n.dtype, n.shape)
        if not count.is_const:
            return None
        total = values[0] * np.asarray(count.const).astype(values[0].dtype)
        return everywhere(rounded(total, n.dtype), n.dtype, n.shape)


def result_of(n: Node, values: list[Any]) -> Any:
    """What an op gives of constants; a product or a sum keeps more digits than its type has if an operand does."""
    value = apply(n, values)
    is_exact = n.op in (Op.MUL, Op.ADD) and any(rounded(v, n.dtype) != v for v in values)
    return value if is_exact and np.isfinite(rounded(value, n.dtype)) else rounded(value, n.dtype)


def _is_exact(reciprocal: Any, of: Any) -> bool:
    """Whether x * reciprocal is x / of: the reciprocal of a power of two that is a normal number, or no number."""
    if of == 0 or not np.isfinite(of):
        return True
    is_power = abs(np.frexp(of)[0]) == 0.5
    return bool(is_power and np.finfo(reciprocal.dtype).tiny <= abs(reciprocal) < np.inf)


def everywhere(value: Any, dtype: DType, shape: Shape) -> Edge:
    """One number in every place of a shape."""
    return seen_as(edge(const(np.asarray(value).item(), dtype)), shape)


def seen_as(scalar: Edge, shape: Shape) -> Edge:
    """A 0-d value in every place of a shape."""
    return Edge(scalar.node, expand((), shape))


def rounded(value: Any, dtype: DType) -> Any:
    """A float as the type in which the dtype is computed holds it."""
    return np.asarray(value).astype(accumulator(dtype).numpy) if dtype.is_float else value
