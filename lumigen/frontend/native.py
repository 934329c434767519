"""native: the places of each row in the order of its elements, or by groups, which a kernel of its own finds.

Its meaning is in the twelve ops: an element's rank is how many stand before it, and place r of the order is where
the element of rank r lies. As many comparisons as pairs of elements: no device runs it so, all are tested by it.
"""

from __future__ import annotations

from lumigen.dtype import i64
from lumigen.frontend.compare import clamp, eq
from lumigen.frontend.movement import cat, with_ones
from lumigen.frontend.primitive import (
    both,
    cast,
    complement,
    constant,
    either,
    expand,
    is_ordered,
    less,
    reduce_sum,
    select,
    size,
)
from lumigen.frontend.trace import emit
from lumigen.graph import Edge, Graph, Node, contiguous, edge, iota, native, source
from lumigen.index import Ix
from lumigen.ops import SOURCES, Op
from lumigen.view import Shape, identity

READ = {Op.INPUT, Op.WEIGHT, Op.STATE}


def order(a: Edge, kept: Ix, *, descending: bool = False) -> Edge:
    """Where the first `kept` elements of each row of (.., n) lie, by value, as i64 (.., kept).

    From the least on with NaN after all numbers, or from the greatest on with NaN before them; equal elements by
    place.
    """
    if a.shape[-1] == 1:
        first = with_ones(edge(iota(a.shape[-1], i64)), tuple(range(len(a.shape) - 1)))
        return expand("order", first, (*a.shape[:-1], kept))
    rows = _stored(a)
    name = "order_descending" if descending else "order"
    meant = meaning(rows, kept, descending=descending)
    return emit(native(name, (rows,), meant))


def groups(a: Edge, count: Ix) -> Edge:
    """Of each row of (.., n) integers, its elements by group, as i64 (.., count + 1 + n).

    An element g is of group g, of `count` groups, or of none. Entry g is how many elements are less than g, so that
    the places of group g's begin there among the n that follow; what comes after the last group begins at `count`.
    """
    rows = _stored(a)
    given, keys, below = _below(rows, count)
    out = cat([below, _places(keys, rows.shape[-1], descending=False)], len(rows.shape) - 1)
    return emit(native("groups", (rows,), Graph((given,), (("groups", out),))))


def starts(a: Edge, count: Ix) -> Edge:
    """The first count + 1 of these alone: where the places of each group begin, and where those of the last one end."""
    rows = _stored(a)
    given, _, below = _below(rows, count)
    return emit(native("starts", (rows,), Graph((given,), (("starts", below),))))


def sums(a: Edge, values: Edge, count: Ix) -> Edge:
    """Of each row of (.., n) integers, and of as many values, the sum of those of each group, (.., count)."""
    rows, terms = _stored(a), _stored(values)
    given = source(Op.INPUT, "rows", rows.shape, rows.dtype)
    summed = source(Op.INPUT, "values", terms.shape, terms.dtype)
    rank, n = len(rows.shape), rows.shape[-1]
    wide = (*rows.shape[:-1], count, n)  # (.., g, i)
    key = expand("sums", with_ones(cast(edge(given), i64), (rank - 1,)), wide)
    group = expand("sums", _counting(count, rank, rank - 1), wide)
    value = expand("sums", with_ones(edge(summed), (rank - 1,)), wide)
    out = reduce_sum(select(eq(key, group), value), (rank,))
    return emit(native("sums", (rows, terms), Graph((given, summed), (("sums", out),))))


def _below(rows: Edge, count: Ix) -> tuple[Node, Edge, Edge]:
    """The input of a meaning, its elements as numbers of groups, and how many are below each group."""
    given = source(Op.INPUT, "rows", rows.shape, rows.dtype)
    keys = clamp(cast(edge(given), i64), -1, cast(size(count), i64))
    rank, n = len(rows.shape), rows.shape[-1]
    wide = (*rows.shape[:-1], count + 1, n)  # (.., g, i)
    key = expand("groups", with_ones(keys, (rank - 1,)), wide)
    group = expand("groups", _counting(count + 1, rank, rank - 1), wide)
    one = expand("groups", constant(1, i64), wide)
    return given, keys, reduce_sum(select(less(key, group), one), (rank,))


def _stored(a: Edge) -> Edge:
    """Rows as they lie in some memory."""
    is_plain = a.view == identity(a.node.shape) and (a.node.op in READ or a.node.op not in SOURCES)
    return a if is_plain else emit(contiguous(a))


def meaning(a: Edge, kept: Ix, *, descending: bool) -> Graph:
    """The graph of one input, the rows, in the twelve ops."""
    rows = source(Op.INPUT, "rows", a.shape, a.dtype)
    return Graph((rows,), (("places", _places(edge(rows), kept, descending=descending)),))


def _places(rows: Edge, kept: Ix, *, descending: bool) -> Edge:
    """The places of the first elements by their ranks."""
    shape, n = rows.shape, rows.shape[-1]
    rank = len(shape)
    wide = (*shape, n)  # (.., i, j)
    mine, other = (expand("order", with_ones(rows, (d,)), wide) for d in (rank, rank - 1))
    if descending:
        ahead, behind = _before(mine, other), _before(other, mine)
    else:
        ahead, behind = _before(other, mine), _before(mine, other)
    i, j = (_counting(n, rank, d) for d in (rank - 1, rank))
    earlier = expand("order", less(j, i), wide)
    before = either(ahead, both(complement(behind), earlier))
    ranks = reduce_sum(cast(before, i64), (rank,))  # (.., i)
    to: Shape = (*shape[:-1], kept, n)  # (.., r, i)
    r, place = _counting(kept, rank, rank - 1), expand("order", _counting(n, rank, rank), to)
    hit = eq(with_ones(ranks, (rank - 1,)), expand("order", r, to))
    return reduce_sum(select(hit, place), (rank,))


def _before(a: Edge, b: Edge) -> Edge:
    """a < b, NaN being greater than all numbers."""
    if not a.dtype.is_float:
        return less(a, b)
    return either(less(a, b), both(is_ordered(a), complement(is_ordered(b))))


def _counting(extent: Ix, rank: int, axis: int) -> Edge:
    """0, 1, .. along an axis of rank + 1, the others being 1."""
    return with_ones(edge(iota(extent, i64)), tuple(d for d in range(rank + 1) if d != axis))
