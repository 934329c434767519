"""Reflections: A = Q R by Householder's matrices I - tau v v^T, as LAPACK computes it.

Each step needs the one before it, so steps are laid out one after the other: extents of matrices are fixed numbers,
and a matrix of n columns is some n kernels. Matrices are the last two dimensions; the others are a batch.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from typing import NamedTuple

from lumigen.frontend.arrangement import joined
from lumigen.frontend.creation import arange, eye
from lumigen.frontend.elimination import ahead, column_of, entry, sizes
from lumigen.frontend.extents import fixed
from lumigen.frontend.operand import choice, where
from lumigen.frontend.tensor import Tensor


class Reflected(NamedTuple):
    """R from the diagonal on, below it the vectors of the reflections, whose first element is 1; and their factors."""

    a: Tensor
    tau: Tensor


class Orthogonal(NamedTuple):
    """A = Q R."""

    Q: Tensor
    R: Tensor


def geqrf(input: Tensor) -> Reflected:
    """R of A = Q R, and the reflections that Q is the product of."""
    a = input
    rows, columns = sizes("geqrf", a)
    i, j = column_of(rows), arange(columns)
    factors: list[Tensor] = []
    for k in range(min(rows, columns)):
        first, column = entry(a, k, k), a[..., k : k + 1]
        rest = where(i > k, column.square(), 0).sum(-2, True)
        size = (first.square() + rest).sqrt()
        end = where(first < 0, size, -size)
        none = rest == 0
        tau = where(none, 0, (end - first) / where(none, 1, end))
        v = where(i > k, column / where(none, 1, first - end), where(i == k, 1, 0))
        left = where(i == k, where(none, first, end), where(i > k, v, a))
        a = where(j == k, left, where(j > k, a - tau * v * (v * a).sum(-2, True), a))
        factors.append(tau.squeeze(-1))
    nothing = a.new_zeros((*ahead(a), 0))
    return Reflected(a, joined(factors, -1) if factors else nothing)


def _vector(A: Tensor, k: int, rows: int) -> Tensor:
    i = column_of(rows)
    return where(i > k, A[..., k : k + 1], where(i == k, 1, 0).type_as(A))


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q C, or Q^T C, or from the right C Q, of the Q that reflections are the factors of."""
    if not left:
        return ormqr(input, tau, other.mT, True, not transpose).mT
    rows, _ = sizes("ormqr", input)
    count = fixed("ormqr", "the number of reflections", tau.extents[-1])
    product = other
    for k in range(count) if transpose else reversed(range(count)):
        v = _vector(input, k, rows)
        product = product - tau[..., k : k + 1].unsqueeze(-1) * v * (v.mT @ product)
    return product


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections."""
    rows, columns = sizes("householder_product", input)
    start = eye(rows, columns, input.dtype).expand((*ahead(input), rows, columns))
    return ormqr(input, tau, start)


def qr(A: Tensor, mode: str = "reduced") -> Orthogonal:
    """A = Q R: as many columns of Q as A has rows or columns, all of them if `mode` is "complete", R alone if "r"."""
    choice("qr", "mode", mode, "reduced", "complete", "r")
    rows, columns = sizes("qr", A)
    found = geqrf(A)
    least = min(rows, columns)
    kept = rows if mode == "complete" else least
    R = found.a[..., :kept, :].triu()
    if mode == "r":
        return Orthogonal(A.new_zeros(0), R)
    start = eye(rows, kept, A.dtype).expand((*ahead(A), rows, kept))
    return Orthogonal(ormqr(found.a, found.tau, start), R)
