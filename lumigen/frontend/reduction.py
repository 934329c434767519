"""Reductions over named dimensions, from SumReduce and MaxReduce."""

from __future__ import annotations

from collections.abc import Sequence

from lumigen.dtype import DType, boolean, f32, i64
from lumigen.errors import BadArgument, DtypeMismatch
from lumigen.frontend import movement
from lumigen.frontend.compare import INF, isnan, logical_and, maximum, where
from lumigen.frontend.elementary import absolute, exp, log, neg, square, sub
from lumigen.frontend.movement import axis, flatten, flip, reshape, with_ones
from lumigen.frontend.primitive import (
    Edge,
    add,
    cast,
    complement,
    constant,
    either,
    expand,
    floating,
    is_ordered,
    less,
    mul,
    recip,
    reduce_max,
    reduce_sum,
    select,
    size,
)
from lumigen.frontend.trace import emit, fail
from lumigen.graph import iota
from lumigen.index import Ix, ix, product

Dims = int | Sequence[int] | None


def axes(op: str, a: Edge, dim: Dims) -> tuple[int, ...]:
    """The dimensions that are reduced: all of them where none are named."""
    return movement.axes(
        op, a, None if dim is not None and not isinstance(dim, int) and not len(dim) else dim
    )


def _kept(a: Edge, gone: tuple[int, ...], *, keepdim: bool) -> Edge:
    """Reduced dimensions back as extents of 1."""
    return with_ones(a, gone) if keepdim else a


def sum(a: Edge, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None) -> Edge:
    """The sum; integers and bools are summed in i64. As a bool: whether anything is not 0."""
    gone = axes("sum", a, dim)
    wanted = dtype or (a.dtype if a.dtype.is_float else i64)
    if wanted is boolean:
        return _greatest(cast(a, boolean), dim, keepdim=keepdim)
    return _kept(reduce_sum(cast(a, wanted), gone), gone, keepdim=keepdim)


def count(a: Edge, gone: tuple[int, ...]) -> Ix:
    """How many elements each result of a reduction comes from."""
    return product(tuple(a.shape[d] for d in gone))


def _over(total: Edge, n: Ix) -> Edge:
    """total / n for an extent."""
    return mul(total, recip(size(n, total.dtype)))


def mean(a: Edge, dim: Dims = None, *, keepdim: bool = False) -> Edge:
    """sum / count."""
    _need_float("mean", a)
    return _over(sum(a, dim, keepdim=keepdim), count(a, axes("mean", a, dim)))


def var(a: Edge, dim: Dims = None, *, keepdim: bool = False, correction: float = 1) -> Edge:
    """sum((a - mean)^2) / max(0, count - correction)."""
    _need_float("var", a)
    gone = axes("var", a, dim)
    centred = sub(a, mean(a, gone, keepdim=True))
    n = count(a, gone)
    total = sum(square(centred), gone, keepdim=keepdim)
    if correction == 0:
        return _over(total, n)
    count_less = (
        size(n - correction, total.dtype)
        if isinstance(correction, int)
        else sub(size(n, total.dtype), correction)
    )
    rest = maximum(count_less, 0.0)
    return mul(total, recip(rest))


def amax(a: Edge, dim: Dims = None, *, keepdim: bool = False) -> Edge:
    """The maximum; NaN if there is one. Where an axis turns out to be empty, the least of the type."""
    need_elements("amax", a, dim)
    return _greatest(a, dim, keepdim=keepdim)


def amin(a: Edge, dim: Dims = None, *, keepdim: bool = False) -> Edge:
    """The minimum; NaN if there is one. Where an axis turns out to be empty, the greatest of the type."""
    need_elements("amin", a, dim)
    return _least(a, dim, keepdim=keepdim)


def need_elements(op: str, a: Edge, dim: Dims) -> None:
    """Refuse an axis that is always empty: nothing has no extremum."""
    for d in axes(op, a, dim):
        if a.shape[d] == 0:
            raise fail(
                BadArgument,
                op=op,
                name=f"axis {d} of shape ({', '.join(map(str, a.shape))})",
                value="reduced, as it has no element",
                expected="a tensor with elements along it",
            )


def _greatest(a: Edge, dim: Dims, *, keepdim: bool = False) -> Edge:
    """The maximum, of nothing too: the least of the type."""
    gone = axes("amax", a, dim)
    return _kept(reduce_max(a, gone), gone, keepdim=keepdim)


def _least(a: Edge, dim: Dims, *, keepdim: bool) -> Edge:
    """The maximum in reversed order (-a, -1 - a of integers, not a), reversed back."""
    if a.dtype.is_bool:
        return complement(_greatest(complement(a), dim, keepdim=keepdim))
    return _reversed(_greatest(_reversed(a), dim, keepdim=keepdim))


def _reversed(a: Edge) -> Edge:
    return neg(a) if a.dtype.is_float else add(neg(a), -1)


def any(a: Edge, dim: Dims = None, *, keepdim: bool = False) -> Edge:
    return _greatest(cast(a, boolean), dim, keepdim=keepdim)


def all(a: Edge, dim: Dims = None, *, keepdim: bool = False) -> Edge:
    return _least(cast(a, boolean), dim, keepdim=keepdim)


def argmax(a: Edge, dim: int | None = None, *, keepdim: bool = False) -> Edge:
    """The first position of the maximum, or of a NaN, as i64.

    n - max(n - i where a[i] is the maximum)
    """
    need_elements("argmax", a, dim)
    return _first(a, dim, keepdim=keepdim)


def _first(a: Edge, dim: int | None, *, keepdim: bool = False) -> Edge:
    rank = len(a.shape)
    if not rank:
        axes("argmax", a, dim)
        return constant(0, i64)
    if dim is None:
        first = _first(flatten(a), 0)
        return reshape(first, (1,) * rank) if keepdim else first
    d = axis("argmax", a, dim)
    n = a.shape[d]
    best = expand("argmax", _greatest(a, d, keepdim=True), a.shape)
    hit = complement(less(a, best))
    if a.dtype.is_float:  # beside a NaN nothing is less: only the NaNs themselves remain
        hit = logical_and(hit, either(isnan(a), is_ordered(best)))
    back = with_ones(flip(add(emit_iota(n), 1), 0), tuple(range(1, rank - d)))  # n, n - 1, ..., 1
    far = _greatest(select(hit, back), d, keepdim=keepdim)
    return sub(size(n), far)


def argmin(a: Edge, dim: int | None = None, *, keepdim: bool = False) -> Edge:
    """The first position of the minimum, or of a NaN, as i64."""
    need_elements("argmin", a, dim)
    return _first(complement(a) if a.dtype.is_bool else _reversed(a), dim, keepdim=keepdim)


def emit_iota(n: Ix) -> Edge:
    """0, 1, ..., n - 1 as i64."""
    return emit(iota(ix(n), i64))


def logsumexp(a: Edge, dim: Dims, *, keepdim: bool = False) -> Edge:
    """log(sum(exp(a - m))) + m with m = max(a), or m where that is infinite.

    The sum is that of a softmax of the same elements, which one loop then has for both.
    """
    a = floating(a)
    gone = axes("logsumexp", a, dim)
    m = _greatest(a, gone, keepdim=True)
    total = log(sum(exp(sub(a, m)), gone, keepdim=True))
    out = where(less(absolute(m), INF), add(total, m), m)
    return out if keepdim else _dropped(out, gone)


def _dropped(a: Edge, gone: tuple[int, ...]) -> Edge:
    return reshape(a, tuple(e for d, e in enumerate(a.shape) if d not in gone))


def softmax(a: Edge, dim: int) -> Edge:
    """exp(a - max) / sum(exp(a - max)). Subtracting the maximum keeps exp2 from overflowing."""
    _need_float("softmax", a)
    if not a.shape:
        return reshape(softmax(reshape(a, (1,)), dim), ())
    d = axis("softmax", a, dim)
    e = exp(sub(a, _greatest(a, d, keepdim=True)))
    return mul(e, recip(sum(e, d, keepdim=True)))


def log_softmax(a: Edge, dim: int) -> Edge:
    """(a - max) - log(sum(exp(a - max)))."""
    _need_float("log_softmax", a)
    if not a.shape:
        return reshape(log_softmax(reshape(a, (1,)), dim), ())
    d = axis("log_softmax", a, dim)
    shifted = sub(a, _greatest(a, d, keepdim=True))
    return sub(shifted, log(sum(exp(shifted), d, keepdim=True)))


def _need_float(op: str, a: Edge) -> None:
    if not a.dtype.is_float:
        raise fail(
            DtypeMismatch,
            op=op,
            name="the operand",
            got=a.dtype,
            expected="a float type",
            remedy=f"Cast it first, with .to({f32!r}).",
        )
