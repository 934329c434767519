"""Elimination: systems of equations, inverses and determinants of small matrices, as LAPACK computes them.

Each step needs the one before it, so steps are laid out one after the other: extents of matrices are fixed numbers,
and a matrix of n rows is some n kernels. Matrices are the last two dimensions; the others are a batch.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from typing import NamedTuple

from lumigen.dtype import i32, i64
from lumigen.errors import DtypeMismatch, ShapeMismatch
from lumigen.frontend.arrangement import joined
from lumigen.frontend.creation import arange, eye
from lumigen.frontend.extents import fixed
from lumigen.frontend.operand import where
from lumigen.frontend.primitive import broadcast_shape, expand
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.index import Ix, product


class Factors(NamedTuple):
    """The factors of a matrix, L below the diagonal and U from it on, and the rows that were exchanged, from 1."""

    LU: Tensor
    pivots: Tensor


class FactorsEx(NamedTuple):
    """The same, and the first pivot that is 0, from 1; 0 if none is."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class Unpacked(NamedTuple):
    """A = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


class SignedLog(NamedTuple):
    """The sign of a determinant, and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class Inverted(NamedTuple):
    """An inverse, and the first pivot that is 0, from 1; 0 if none is."""

    inverse: Tensor
    info: Tensor


class SolvedEx(NamedTuple):
    """A solution, and the first pivot that is 0, from 1; 0 if none is."""

    result: Tensor
    info: Tensor


class Triangle(NamedTuple):
    """A triangle L of A = L L^T, and the first minor that is not positive, from 1; 0 if none is."""

    L: Tensor
    info: Tensor


class Solved(NamedTuple):
    """A solution, and the triangle it is one of."""

    solution: Tensor
    cloned_coefficient: Tensor


def sizes(op: str, A: Tensor) -> tuple[int, int]:
    """Rows and columns, which are fixed; the matrix has floats."""
    if A.ndim < 2:
        rule = "a matrix has at least two axes"
        raise fail(ShapeMismatch, op=op, lhs=A.extents, rhs=(), rule=rule, remedy="Add one.")
    if not A.dtype.is_float:
        remedy = "Cast it with .float()."
        raise fail(
            DtypeMismatch, op=op, name="a matrix", got=A.dtype, expected="floats", remedy=remedy
        )
    rows, columns = (fixed(op, "an extent of a matrix", e) for e in A.extents[-2:])
    return rows, columns


def square(op: str, A: Tensor) -> int:
    """The rows of a square matrix."""
    rows, columns = sizes(op, A)
    if rows != columns:
        rule, remedy = "the matrix must be square", "Take another function for others."
        raise fail(
            ShapeMismatch, op=op, lhs=A.extents[-2:], rhs=A.extents[-2:], rule=rule, remedy=remedy
        )
    return rows


def column_of(n: int) -> Tensor:
    """0 .. n - 1 as (n, 1)."""
    return arange(n).unsqueeze(-1)


def entry(A: Tensor, i: int, j: int) -> Tensor:
    """A[i, j] as (.., 1, 1)."""
    return A[..., i : i + 1, j : j + 1]


def ahead(A: Tensor) -> tuple[Ix, ...]:
    """The extents of the batch."""
    return A.extents[:-2]


# --- A = P L U ------------------------------------------------------------------------------------


def _eliminated(op: str, A: Tensor, *, pivot: bool = True) -> tuple[Tensor, list[Tensor]]:
    """(L below the diagonal and U from it on, the row (.., 1) that each step exchanges with its own).

    Of each column the element of greatest size from the diagonal on becomes the pivot.
    """
    rows, columns = sizes(op, A)
    left = A
    i, j = column_of(rows), arange(columns)
    steps: list[Tensor] = []
    for k in range(min(rows, columns)):
        if pivot:
            row = left[..., k:, k].abs().argmax(-1, True) + k
            steps.append(row)
            left = _exchanged(left, k, row)
        divisor, above = entry(left, k, k), left[..., k : k + 1, :]
        factor = where(i > k, left[..., k : k + 1] / where(divisor == 0, 1, divisor), 0)
        rest = where((i > k) & (j > k), left - factor * above, left)
        left = where((i > k) & (j == k), factor, rest)
    return left, steps


def _exchanged(A: Tensor, k: int, row: Tensor) -> Tensor:
    """Row k and the row that a number (.., 1) names, in each other's place."""
    at = row.unsqueeze(-1)  # (.., 1, 1)
    i = column_of(fixed("lu", "an extent of a matrix", A.extents[-2]))
    other = A.take_along_dim(at.expand((*at.extents[:-1], A.extents[-1])), -2)
    return where(i == k, other, where(i == at, A[..., k : k + 1, :], A))


def _order(steps: list[Tensor], A: Tensor) -> Tensor:
    """The rows of A (.., rows) in the order that the exchanges leave them in."""
    rows = fixed("lu", "an extent of a matrix", A.extents[-2])
    order = arange(rows).expand((*ahead(A), rows)).unsqueeze(-1)
    for k, row in enumerate(steps):
        order = _exchanged(order, k, row)
    return order.squeeze(-1)


def _listed(steps: list[Tensor], A: Tensor) -> Tensor:
    """The exchanged rows (.., steps) from 1, as i32."""
    if not steps:
        return A.new_zeros((*ahead(A), 0), dtype=i32)
    return (joined(steps, -1) + 1).to(i32)


def _first_zero(LU: Tensor) -> Tensor:
    """The first element of the diagonal that is 0, from 1; 0 if none is."""
    diagonal = LU.diagonal(0, -2, -1)
    return _first(diagonal == 0)


def _first(held: Tensor) -> Tensor:
    """The first place of (.., n) that holds, from 1; 0 if none does."""
    if held.extents[-1] == 0:
        return held.new_zeros(held.extents[:-1], dtype=i32)
    return where(held.any(-1), held.to(i32).argmax(-1) + 1, 0).to(i32)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> FactorsEx:
    """The factors of A = P L U in one matrix, the exchanged rows, and the first pivot that is 0."""
    del check_errors
    LU, steps = _eliminated("lu_factor", A, pivot=pivot)
    rows, columns = sizes("lu_factor", A)
    none = arange(1, min(rows, columns) + 1, dtype=i32).expand((*ahead(A), min(rows, columns)))
    return FactorsEx(LU, _listed(steps, A) if pivot else none, _first_zero(LU))


def lu_factor(A: Tensor, *, pivot: bool = True) -> Factors:
    """The factors of A = P L U in one matrix, and the exchanged rows."""
    return Factors(*lu_factor_ex(A, pivot=pivot)[:2])


def lu(A: Tensor, *, pivot: bool = True) -> Unpacked:
    """A = P L U: rows exchanged, 1 on the diagonal of L."""
    found = lu_factor_ex(A, pivot=pivot)
    return lu_unpack(found.LU, found.pivots)


def _steps_of(pivots: Tensor) -> list[Tensor]:
    count = fixed("lu_solve", "the number of pivots", pivots.extents[-1])
    return [pivots[..., k : k + 1].to(i64) - 1 for k in range(count)]


def _exchange_matrix(order: Tensor, like: Tensor) -> Tensor:
    """P of A = P B, where B has the rows of A in an order (.., rows)."""
    rows = order.extents[-1]
    return (order.unsqueeze(-2) == arange(rows).unsqueeze(-1)).type_as(like)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Unpacked:
    """P, L and U of factors in one matrix; what is not asked for has no element."""
    rows, columns = sizes("lu_unpack", LU_data)
    least = min(rows, columns)
    nothing = LU_data.new_zeros(0)
    exchanged = lower = upper = nothing
    if unpack_pivots:
        exchanged = _exchange_matrix(_order(_steps_of(LU_pivots), LU_data), LU_data)
    if unpack_data:
        lower = LU_data[..., :least].tril(-1) + eye(rows, least, LU_data.dtype)
        upper = LU_data[..., :least, :].triu()
    return Unpacked(exchanged, lower, upper)


# --- triangles ------------------------------------------------------------------------------------


def _substituted(T: Tensor, B: Tensor, *, upper: bool, unit: bool) -> Tensor:
    """X of T X = B for a triangle T."""
    n = square("solve_triangular", T)
    i, rest = column_of(n), B
    for k in reversed(range(n)) if upper else range(n):
        x = rest[..., k : k + 1, :] if unit else rest[..., k : k + 1, :] / entry(T, k, k)
        ahead_of = i < k if upper else i > k
        rest = where(i == k, x, where(ahead_of, rest - T[..., k : k + 1] * x, rest))
    return rest


def _batched(op: str, A: Tensor, B: Tensor) -> Tensor:
    """B, which has as many rows as A, in the batch of both."""
    if B.ndim < 2 or B.extents[-2] is not A.extents[-2]:
        raise fail(
            ShapeMismatch,
            op=op,
            lhs=A.extents,
            rhs=B.extents,
            rule="both have as many rows",
            remedy="Of vectors make columns with .unsqueeze(-1).",
        )
    to = broadcast_shape(op, ahead(A), ahead(B))
    return B.of(expand(op, B.edge, (*to, *B.extents[-2:])))


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of A X = B, or of X A = B unless `left`, for a triangle A whose other half is not read."""
    if not left:
        turned = solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    return _substituted(A, _batched("solve_triangular", A, B), upper=upper, unit=unitriangular)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Solved:
    """X of A X = b, or of A^T X = b, for a triangle A; and A in the batch of both."""
    T = A.mT if transpose else A
    X = solve_triangular(T, b, upper=upper != transpose, unitriangular=unitriangular)
    return Solved(X, _batched("triangular_solve", b, A))


# --- A X = B --------------------------------------------------------------------------------------


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X of A X = B from the factors of A; of X A = B unless `left`, of A^T instead of A if `adjoint`."""
    if not left:
        return lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT
    order = _order(_steps_of(pivots), LU)
    right = _batched("lu_solve", LU, B)
    if adjoint:
        y = _substituted(LU.mT, right, upper=False, unit=False)
        z = _substituted(LU.mT, y, upper=True, unit=True)
        return _exchange_matrix(order, LU) @ z
    return _solved(LU, order, right)


def _solved(LU: Tensor, order: Tensor, B: Tensor) -> Tensor:
    at = order.unsqueeze(-1).expand((*order.extents, B.extents[-1]))
    y = _substituted(
        LU, B.take_along_dim(at, -2) if order.extents[-1] != 0 else B, upper=False, unit=True
    )
    return _substituted(LU, y, upper=True, unit=False)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolvedEx:
    """X of A X = B, or of X A = B unless `left`; and the first pivot that is 0."""
    del check_errors
    square("solve", A)
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.extents == A.extents[:-1]):
        found = solve_ex(A, B.unsqueeze(-1), left=left)
        return SolvedEx(found.result.squeeze(-1), found.info)
    if not left:
        found = solve_ex(A.mT, B.mT)
        return SolvedEx(found.result.mT, found.info)
    LU, steps = _eliminated("solve", A)
    X = _solved(LU, _order(steps, A), _batched("solve", A, B))
    return SolvedEx(X, _first_zero(LU))


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B for a square matrix; infinite or NaN where it has no inverse."""
    return solve_ex(A, B, left=left).result


def inv_ex(A: Tensor, *, check_errors: bool = False) -> Inverted:
    """The inverse of a square matrix, and the first pivot that is 0."""
    n = square("inv", A)
    found = solve_ex(A, eye(n, dtype=A.dtype).expand((*ahead(A), n, n)), check_errors=check_errors)
    return Inverted(found.result, found.info)


def inv(A: Tensor) -> Tensor:
    """The inverse of a square matrix; infinite or NaN where there is none."""
    return inv_ex(A).inverse


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor as the map from its dimensions from `ind` on to those ahead."""
    rows = product(A.extents[:ind])
    flat = A.reshape(rows, product(A.extents[ind:]))
    return inv(flat).reshape(*A.extents[ind:], *A.extents[:ind])


def tensorsolve(A: Tensor, B: Tensor, dims: tuple[int, ...] | None = None) -> Tensor:
    """X of tensordot(A, X) = B over the dimensions of A after those of B; `dims` of A are moved to its end first."""
    turned = A if dims is None else A.movedim(dims, tuple(range(-len(dims), 0)))
    to = turned.extents[B.ndim :]
    size = product(B.extents)
    return solve(turned.reshape(size, product(to)), B.reshape(size)).reshape(*to)


# --- determinants ---------------------------------------------------------------------------------


def _sign(steps: list[Tensor], A: Tensor) -> Tensor:
    """1, or -1 where an odd number of rows was exchanged."""
    even = A.new_ones(*ahead(A))
    for k, row in enumerate(steps):
        even = even * where(row.squeeze(-1) != k, -1, even.new_ones(()))
    return even


def det(A: Tensor) -> Tensor:
    """The determinant of a square matrix."""
    square("det", A)
    LU, steps = _eliminated("det", A)
    return LU.diagonal(0, -2, -1).prod(-1) * _sign(steps, A)


def slogdet(A: Tensor) -> SignedLog:
    """The sign of a determinant and the logarithm of its size, which neither under- nor overflows."""
    square("slogdet", A)
    LU, steps = _eliminated("slogdet", A)
    diagonal = LU.diagonal(0, -2, -1)
    return SignedLog(diagonal.sign().prod(-1) * _sign(steps, A), diagonal.abs().log().sum(-1))


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where that is negative."""
    sign, size = slogdet(input)
    return where(sign < 0, float("nan"), size)


# --- A = L L^T ------------------------------------------------------------------------------------


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Triangle:
    """The triangle of a positive definite matrix, and the first minor that is not positive."""
    del check_errors
    n = square("cholesky", A)
    if upper:
        found = cholesky_ex(A.mT)
        return Triangle(found.L.mT, found.info)
    left, i, j = A, column_of(n), arange(n)
    pivots: list[Tensor] = []
    for k in range(n):
        pivots.append(left[..., k, k : k + 1])
        column = where(i > k, left[..., k : k + 1] / entry(left, k, k).sqrt(), 0)
        rest = where((i > k) & (j > k), left - column * column.mT, left)
        left = where(j == k, where(i == k, entry(left, k, k).sqrt(), column), rest)
    wrong = ~(joined(pivots, -1) > 0) if pivots else left.new_zeros((*ahead(left), 0)).bool()
    return Triangle(left.tril(), _first(wrong))


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L of A = L L^T for a positive definite matrix, or U of A = U^T U; NaN where it is not definite."""
    return cholesky_ex(A, upper=upper).L


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X of A X = B from the triangle of A."""
    lower = L.mT if upper else L
    y = solve_triangular(lower, B, upper=False)
    return solve_triangular(lower.mT, y, upper=True)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from its triangle."""
    return cholesky_solve(eye(square("cholesky_inverse", L), dtype=L.dtype), L, upper)
