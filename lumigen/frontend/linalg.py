"""What torch.linalg has of products and norms; decompositions and solvers are not offered."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence

from lumigen.dtype import DType
from lumigen.errors import ShapeMismatch
from lumigen.frontend import products, statistics
from lumigen.frontend.operand import Dims
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail

matmul, matrix_power = Tensor.matmul, Tensor.matrix_power
multi_dot, vecdot = products.multi_dot, products.vecdot
matrix_norm, vector_norm = statistics.matrix_norm, statistics.vector_norm


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product along a dimension of 3 elements."""
    for x in (input, other):
        if x.size(dim) != 3:
            raise fail(
                ShapeMismatch,
                op="cross",
                lhs=input.extents,
                rhs=other.extents,
                rule=f"axis {dim} must have 3 elements",
                remedy="Name another axis.",
            )
    return products.cross(input, other, dim)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 .. N - 1 of each element, as a last dimension."""
    x = x if x.dtype.is_float else x.long()
    return products.vander(x.reshape(1) if not x.ndim else x, N)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """x[i, i + offset] of the last two dimensions, or of two others."""
    return A.diagonal(offset, dim1, dim2)


def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The 2-norm of all elements; with `ord` that of vectors (one dimension) or of matrices (two)."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        dim = (0,) if A.ndim == 1 else (0, 1) if A.ndim == 2 else ()
    dims: Sequence[int] = (dim,) if isinstance(dim, int) else dim
    if len(dims) == 1 and not isinstance(ord, str):
        return vector_norm(A, ord, dims[0], keepdim, dtype=dtype)
    if not dims and not isinstance(ord, str):
        return vector_norm(A, ord, None, keepdim, dtype=dtype)
    return matrix_norm(A, ord, dims, keepdim, dtype=dtype)


def matrix_transpose(input: Tensor) -> Tensor:
    """The last two dimensions swapped."""
    return input.mT
