"""Products of vectors, matrices and tensors in PyTorch's and Einstein's words, all sums of products.

What is summed stands in one formula each; the compiler finds products of tiles in it by itself.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lumigen.errors import BadArgument, RankMismatch
from lumigen.frontend import movement
from lumigen.frontend.arrangement import counting
from lumigen.frontend.extents import fixed
from lumigen.frontend.operand import dtype_of, filled, listed
from lumigen.frontend.primitive import Scalar
from lumigen.frontend.trace import fail
from lumigen.index import ix

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


def _need_rank(op: str, name: str, x: Tensor, rank: int) -> None:
    if x.ndim != rank:
        raise fail(
            RankMismatch,
            op=op,
            name=name,
            shape=x.extents,
            expected=f"{rank} axes",
            remedy="Use matmul, or reshape it.",
        )


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """(m, k) @ (k, n) -> (m, n)."""
    _need_rank("mm", "the left operand", input, 2)
    _need_rank("mm", "the right operand", mat2, 2)
    return input.matmul(mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """(batch, m, k) @ (batch, k, n) -> (batch, m, n)."""
    _need_rank("bmm", "the left operand", input, 3)
    _need_rank("bmm", "the right operand", mat2, 3)
    return input.matmul(mat2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """(m, k) @ (k,) -> (m,)."""
    _need_rank("mv", "the matrix", input, 2)
    _need_rank("mv", "the vector", vec, 1)
    return input.matmul(vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """sum_k x[k] y[k] of two vectors."""
    _need_rank("dot", "the left operand", input, 1)
    _need_rank("dot", "the right operand", tensor, 1)
    return input.matmul(tensor)


def vecdot(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """sum x y along a dimension, broadcast."""
    return (input * other).sum(dim, dtype=dtype_of("vecdot", input, other))


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """x[i] y[j] of two vectors."""
    _need_rank("outer", "the left operand", input, 1)
    _need_rank("outer", "the right operand", vec2, 1)
    return input.unsqueeze(1) * vec2


def inner(input: Tensor, other: Tensor) -> Tensor:
    """sum_k x[.., k] y[.., k] over all pairs of rows; a product if one is 0-d."""
    if not input.ndim or not other.ndim:
        return input * other
    return tensordot(input, other, ([-1], [-1]))


def _plus(input: Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """beta x + alpha y, by whole numbers for integers; nothing of x where beta is 0."""
    if (
        not product.dtype.is_float
        and isinstance(alpha, float | int)
        and isinstance(beta, float | int)
    ):
        alpha, beta = int(alpha), int(beta)
    scaled = product if _is_one(alpha) else product * alpha
    if beta == 0:
        return scaled
    return (input if _is_one(beta) else input * beta) + scaled


def _is_one(a: Scalar) -> bool:
    return a == 1 or a is True


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta x + alpha (a @ b) of matrices."""
    return _plus(input, mm(mat1, mat2), beta, alpha).type_as(input)


def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta x + alpha (a @ v)."""
    return _plus(input, mv(mat, vec), beta, alpha).type_as(input)


def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta x + alpha outer(u, v)."""
    if input.dtype.is_bool and vec1.dtype.is_bool and vec2.dtype.is_bool:
        both = outer(vec1, vec2)
        both = both if alpha else both & ~both
        return both | input if beta else both
    return _plus(input, outer(vec1, vec2), beta, alpha)


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta x + alpha (a @ b) of batches of matrices."""
    return _plus(input, bmm(batch1, batch2), beta, alpha).type_as(input)


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta x + alpha (the sum of a @ b over the batch)."""
    total = bmm(batch1, batch2).sum(0, dtype=batch1.dtype)
    return _plus(input, total, beta, alpha).type_as(input)


def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Summed over pairs of dimensions, or over the last `dims` of the one with the first of the other."""
    if isinstance(dims, int):
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left = [movement.axis("tensordot", a.edge, d) for d in listed(dims[0])]
        right = [movement.axis("tensordot", b.edge, d) for d in listed(dims[1])]
    names = iter(range(a.ndim + b.ndim))
    axes_a = [next(names) for _ in range(a.ndim)]
    axes_b = [axes_a[left[right.index(d)]] if d in right else next(names) for d in range(b.ndim)]
    kept = [axes_a[d] for d in range(a.ndim) if d not in left]
    kept += [axes_b[d] for d in range(b.ndim) if d not in right]
    return _contracted([a, b], [axes_a, axes_b], kept)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of x times all of y."""
    rank = max(input.ndim, other.ndim)
    x = input.reshape(*(1,) * (rank - input.ndim), *input.extents)
    y = other.reshape(*(1,) * (rank - other.ndim), *other.extents)
    wide = x.reshape(*(e for n in x.extents for e in (n, ix(1))))
    out = wide * y.reshape(*(e for n in y.extents for e in (ix(1), n)))
    return out.reshape(*(a * b for a, b in zip(x.extents, y.extents, strict=True)))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along a dimension of 3 elements, the first such one if none is given."""
    if dim is None:
        dim = next((d for d, e in enumerate(input.extents) if e == 3), -1)
    x, y = input, other
    rank = max(x.ndim, y.ndim)
    d = dim - rank if dim >= 0 else dim
    turned = [(t.roll(-1, d), t.roll(-2, d)) for t in (x, y)]
    return turned[0][0] * turned[1][1] - turned[0][1] * turned[1][0]


def matrix_power(input: Tensor, n: int) -> Tensor:
    """x @ x @ .. of `n` factors, by squares."""
    if n < 0:
        expected = "at least 0; lg.linalg.matrix_power takes powers of the inverse"
        raise fail(BadArgument, op="matrix_power", name="n", value=n, expected=expected)
    if n == 0:
        i = counting(input, input.extents[-1])
        return (i.unsqueeze(1) == i).type_as(input).expand(input.extents)
    out: Tensor | None = None
    square = input
    while n:
        if n % 2:
            out = square if out is None else out.matmul(square)
        n //= 2
        square = square.matmul(square) if n else square
    assert out is not None
    return out


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in a row, in the order of least work where extents are known; ends may be vectors."""
    first, *rest = tensors
    chain = [first.unsqueeze(0) if first.ndim == 1 else first, *rest]
    chain[-1] = chain[-1].unsqueeze(1) if chain[-1].ndim == 1 else chain[-1]
    out = _chained(chain)
    if tensors[0].ndim == 1:
        out = out.squeeze(-2)
    return out.squeeze(-1) if tensors[-1].ndim == 1 else out


def _chained(chain: Sequence[Tensor]) -> Tensor:
    if len(chain) == 1:
        return chain[0]
    sizes = [chain[0].extents[0], *(x.extents[1] for x in chain)]
    if not all(e.is_const for e in sizes):
        out = chain[0]
        for x in chain[1:]:
            out = out.matmul(x)
        return out
    known = [e.const for e in sizes]
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(chain))}
    for span in range(1, len(chain)):
        for i in range(len(chain) - span):
            j = i + span
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + known[i] * known[k + 1] * known[j + 1], k)
                for k in range(i, j)
            )

    def made(i: int, j: int) -> Tensor:
        k = cost[i, j][1]
        return chain[i] if i == j else made(i, k).matmul(made(k + 1, j))

    return made(0, len(chain) - 1)


# --- Einstein's sums ------------------------------------------------------------------------------


def einsum(equation: str, *operands: Tensor | Sequence[Tensor]) -> Tensor:
    """Sums over the letters that the result lacks: `bij,bjk->bik` is bmm; `...` stands for any axes.

    Operands are multiplied from left to right, each letter summed as soon as no later operand has it.
    """
    tensors: list[Tensor] = []
    for x in operands:
        tensors.extend(x) if isinstance(x, Sequence) else tensors.append(x)
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(tensors):
        value = f"{len(tensors)} tensors for {len(terms)} terms"
        raise fail(
            BadArgument, op="einsum", name="the equation", value=value, expected="one for each term"
        )
    most = max(
        (
            x.ndim - len(t.replace("...", ""))
            for t, x in zip(terms, tensors, strict=True)
            if "..." in t
        ),
        default=0,
    )
    axes = [_letters(t, x) for t, x in zip(terms, tensors, strict=True)]
    if arrow:
        ellipsis = [-1 - k for k in reversed(range(most))]
        before, dots, after = result.partition("...")
        kept = [*map(ord, before), *(ellipsis if dots else []), *map(ord, after)]
    else:
        count: dict[int, int] = {}
        for a in (a for listed in axes for a in listed):
            count[a] = count.get(a, 0) + 1
        kept = sorted(a for a in count if a < 0) + sorted(
            a for a, n in count.items() if a > 0 and n == 1
        )
    if len(set(kept)) < len(kept) or not set(kept) <= {a for listed in axes for a in listed}:
        value, expected = repr(equation), "each letter of the result once, and in an operand"
        raise fail(BadArgument, op="einsum", name="the equation", value=value, expected=expected)
    return _contracted(tensors, axes, kept)


def _letters(term: str, x: Tensor) -> list[int]:
    """A term as names of axes: those of `...` are negative, the last one -1."""
    before, dots, after = term.partition("...")
    named = len(before) + len(after)
    if x.ndim < named or (x.ndim != named and not dots):
        expected = f"{named} axes, one for each letter of {term}"
        raise fail(
            RankMismatch,
            op="einsum",
            name="an operand",
            shape=x.extents,
            expected=expected,
            remedy="Correct the equation.",
        )
    free = x.ndim - named
    return [*map(ord, before), *(-1 - k for k in reversed(range(free))), *map(ord, after)]


def _contracted(
    tensors: Sequence[Tensor], axes: Sequence[Sequence[int]], kept: Sequence[int]
) -> Tensor:
    """The product of tensors with named axes, summed over the names that are not kept."""
    out, names = _once(tensors[0], axes[0])
    for position, (x, listed_axes) in enumerate(zip(tensors[1:], axes[1:], strict=True), 1):
        other, its = _once(x, listed_axes)
        later = {a for rest in axes[position + 1 :] for a in rest} | {*kept}
        both = [*names, *(a for a in its if a not in names)]
        order = [a for a in both if a in later] + [a for a in both if a not in later]
        product = _aligned(out, names, order) * _aligned(other, its, order)
        gone = tuple(range(len(order) - sum(a not in later for a in both), len(order)))
        out = product.sum(gone, dtype=product.dtype) if gone else product
        names = [a for a in order if a in later]
    gone = tuple(d for d, a in enumerate(names) if a not in kept)
    out = out.sum(gone) if gone else out  # of one tensor alone, which is a sum as any other
    names = [a for a in names if a in kept]
    return out.permute(tuple(names.index(a) for a in kept))


def _once(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, list[int]]:
    """Names that an operand has twice as one: its diagonal."""
    names = list(axes)
    while len(set(names)) < len(names):
        i = next(i for i, a in enumerate(names) if a in names[:i])
        j = names.index(names[i])
        x = x.diagonal(0, j, i)
        names = [a for k, a in enumerate(names) if k not in (i, j)] + [names[i]]
    return x, names


def _aligned(x: Tensor, names: Sequence[int], order: Sequence[int]) -> Tensor:
    """Axes in an order, of extent 1 where the operand has none."""
    there = [a for a in order if a in names]
    x = x.permute(tuple(names.index(a) for a in there))
    left = iter(x.extents)
    shape = [next(left) if a in names else ix(1) for a in order]
    return x.reshape(shape)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norms of the differences of all rows: (.., m, k), (.., n, k) -> (.., m, n)."""
    del compute_mode  # how PyTorch computes it
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if x1.extents[-1] == 0:
        return apart.sum(-1)
    return apart.norm(p, -1)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows, each pair once."""
    _need_rank("pdist", "the input", input, 2)
    count = fixed("pdist", "the number of rows", input.extents[0])
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if not pairs:
        return filled(input, (0,), 0)
    left, right = (list(side) for side in zip(*pairs, strict=True))
    return (input[left] - input[right]).norm(p, -1)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers N - 1 .. 0 of each element, or 0 .. N - 1 if `increasing`, as a last dimension."""
    count = fixed("vander", "the number of columns", x.extents[-1] if N is None else ix(N))
    x = x if x.dtype.is_float else x.long()
    columns = [x.pow(k) for k in (range(count) if increasing else reversed(range(count)))]
    return x.of(movement.stack([c.edge for c in columns], -1))


def trilinear(x1: Tensor, x2: Tensor, weight: Tensor) -> Tensor:
    """sum_{i, j} a[.., i] w[o, i, j] b[.., j] -> (.., o)."""
    return einsum("...i,oij,...j->...o", x1, weight, x2)
