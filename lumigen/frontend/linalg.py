"""What torch.linalg has of products, norms, elimination and A = Q R; no eigenvalues, no singular values."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence

from lumigen.dtype import DType
from lumigen.errors import ShapeMismatch
from lumigen.frontend import elimination, products, reflections, statistics
from lumigen.frontend.creation import eye
from lumigen.frontend.offered import namespace
from lumigen.frontend.operand import Dims, where
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail

matmul = Tensor.matmul
multi_dot, vecdot = products.multi_dot, products.vecdot
cholesky, cholesky_ex = elimination.cholesky, elimination.cholesky_ex
det, slogdet = elimination.det, elimination.slogdet
inv, inv_ex, tensorinv = elimination.inv, elimination.inv_ex, elimination.tensorinv
lu, lu_factor, lu_factor_ex = elimination.lu, elimination.lu_factor, elimination.lu_factor_ex
lu_solve, solve, solve_ex = elimination.lu_solve, elimination.solve, elimination.solve_ex
solve_triangular, tensorsolve = elimination.solve_triangular, elimination.tensorsolve
householder_product, qr = reflections.householder_product, reflections.qr
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
    return products.vander(x.reshape(1) if not x.ndim else x, N, increasing=True)


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


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A @ A @ .. of `n` factors, by squares; below 0 of -n inverses."""
    return products.matrix_power(elimination.inv(A) if n < 0 else A, abs(n))


TERMS = 18  # of the series: below 1/2 the next one is less than 2^-70
DOUBLINGS = 20


def matrix_exp(A: Tensor) -> Tensor:
    """exp(A) of square matrices of a fixed size: the series of A / 2^s, squared s times (Moler and Van Loan 2003).

    s brings the greatest sum of a column below 1/2. One of 2^19 or more is NaN: so often nothing is squared here.
    """
    n = elimination.square("matrix_exp", A)
    unit = eye(n, dtype=A.dtype)
    if n == 0:
        return A
    size = A.abs().sum(-2, True).amax(-1, True)
    doublings = (size.maximum(0.5).log2() + 1).ceil()
    small = A * (-doublings).exp2()
    out = unit + small / TERMS
    for term in reversed(range(1, TERMS)):
        out = unit + small @ out / term
    for number in range(DOUBLINGS):
        out = where(doublings > number, out @ out, out)
    return where(doublings > DOUBLINGS, math.nan, out)


__all__ = [
    "cholesky",
    "cholesky_ex",
    "cross",
    "det",
    "diagonal",
    "householder_product",
    "inv",
    "inv_ex",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


__getattr__, __dir__ = namespace(globals())
