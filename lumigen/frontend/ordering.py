"""Positions in sorted numbers, and counts of what lies between them.

A position is found by halving. Few numbers, or few comparisons in all, are compared one by one in a single kernel.
"""

# signatures are PyTorch's

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lumigen.dtype import i32, i64
from lumigen.errors import BadArgument
from lumigen.frontend.arrangement import counting
from lumigen.frontend.extents import check_count, fixed
from lumigen.frontend.movement import stack
from lumigen.frontend.operand import (
    Value,
    dtype_of,
    filled,
    first_tensor,
    is_tensor,
    where,
)
from lumigen.frontend.primitive import size
from lumigen.frontend.scattering import FEW, FEW_COMPARISONS, counted, rank
from lumigen.frontend.sorting import sort, taken
from lumigen.frontend.trace import fail
from lumigen.index import Ix, ix, product
from lumigen.view import Shape

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


def searchsorted(
    sorted_sequence: Tensor,
    input: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value would be put into rows of sorted numbers: before equal ones, or after them if `right`.

    `sorter` says in which order the numbers are sorted. Of numbers that are not sorted it is some position.
    """
    after = right or side == "right"
    row = sorted_sequence
    if sorter is not None:
        row = row.take_along_dim(sorter, -1)
    values = input if is_tensor(input) else row.new_full((), input)  # type: ignore[arg-type]
    dtype = dtype_of("searchsorted", row, values)
    found = _positions(row.to(dtype), values.to(dtype), after=after)
    return found.to(i32) if out_int32 else found


def _positions(row: Tensor, values: Tensor, *, after: bool) -> Tensor:
    """How many elements of its row (.., n), or of a row for all, stand before each of the values, as i64."""
    if not _are_few(row, values):
        return _looked_up(row, values, after=after)
    x = row if row.ndim == 1 else row.unsqueeze(-2)  # (.., 1, n)
    y = values.unsqueeze(-1)
    before = ~(y < x) & ~x.isnan() | y.isnan() if after else (x < y) | y.isnan() & ~x.isnan()
    return before.sum(-1)


def _are_few(row: Tensor, values: Tensor) -> bool:
    """Whether comparing each value with all elements of its row takes less than to look for it."""
    n, searched = _most(row.extents[-1]), _most(product(values.extents))
    return n <= FEW or n * searched <= FEW_COMPARISONS


MOST_PLACES = 1 << 30  # up to which twice a position is an i32


def _most(extent: Ix) -> int:
    most = extent.bounds()[1]
    assert most is not None, "dims have a greatest value"
    return most


def _looked_up(row: Tensor, values: Tensor, *, after: bool) -> Tensor:
    """The same by halving: a step compares one pair, and NaN is seen to before and after all steps."""
    shape, n = values.extents, row.extents[-1]
    if product((*shape, n)) == 0:
        return filled(values, shape, 0).to(i64)
    if row.ndim == 1:
        values = values.flatten()
    rows = row.expand((*values.extents[:-1], n))
    kind = i32 if _most(n) < MOST_PLACES else i64
    count = row.of(size(n)).to(kind)
    if not row.dtype.is_float:
        found = _halved(
            rows, count, values.extents, lambda x: ~(values < x) if after else x < values
        )
        return found.to(i64).reshape(shape)
    numbers = _halved(rows, count, (*values.extents[:-1], ix(1)), lambda x: ~x.isnan())
    if after:  # NaN is not less than what it follows
        found = _halved(rows, numbers, values.extents, lambda x: ~(values < x))
    else:
        found = _halved(rows, count, values.extents, lambda x: x < values)
    return where(values.isnan(), count if after else numbers, found).to(i64).reshape(shape)


def _halved(
    rows: Tensor, count: Tensor, shape: Shape, passes: Callable[[Tensor], Tensor]
) -> Tensor:
    """How many of the first `count` elements of each row (.., n) pass, those ahead of all others, in a shape (.., m).

    A position moves on, by steps of halving lengths, if the last element that it would leave behind passes. It may
    pass the end, where all of them do.
    """
    last = (count - 1).maximum(0)
    place = filled(rows, shape, 0).to(count.dtype)
    for step in (1 << k for k in reversed(range(_most(rows.extents[-1]).bit_length()))):
        x = taken(rows, (place + (step - 1)).minimum(last))
        place = where(passes(x), place + step, place)
    return place.minimum(count)


def isin(elements: Value, test_elements: Value, *, invert: bool = False) -> Tensor:
    """Whether each element is among the others, as bool; or is not, if `invert`. NaN is among none."""
    if is_tensor(elements) and is_tensor(test_elements):
        found = _is_among(elements, test_elements.flatten())
    elif is_tensor(elements):
        found = elements == test_elements
    else:
        found = (first_tensor("isin", elements, test_elements) == elements).any()
    return ~found if invert else found


def _is_among(elements: Tensor, others: Tensor) -> Tensor:
    """Whether each element is one of (n,), which are sorted to look for it.

    To sort them takes as many comparisons as to compare each with log2(n) elements.
    """
    n = others.extents[0]
    if _are_few(others, elements) or _most(product(elements.extents)) <= _most(n).bit_length():
        return (elements.unsqueeze(-1) == others).any(-1)
    dtype = dtype_of("isin", elements, others)
    values, row = elements.to(dtype).flatten(), sort(others.to(dtype)).values
    places = _positions(row, values, after=False)
    found = (places < row.of(size(n))) & (taken(row, places) == values)
    return found.reshape(elements.extents)


def bucketize(
    input: Value, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Between which sorted boundaries each value lies: how many of them are below it."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of so many equal pieces between `min` and `max`; both 0: between the extrema."""
    if bins < 1:
        raise fail(BadArgument, op="histc", name="bins", value=bins, expected="at least 1")
    x = input.flatten()
    if x.numel() == 0:
        return x.new_zeros(bins)
    low: Tensor = x.new_full((), min)
    high: Tensor = x.new_full((), max)
    if min == max:
        low, high = (x.amin(), x.amax()) if min == 0 else (low, high)
        same = low == high
        low, high = where(same, low - 1, low), where(same, high + 1, high)
    piece = ((x - low) * bins / (high - low)).floor()
    piece = where(x == high, bins - 1, piece)
    inside = (x >= low) & (x <= high)
    return counted(where(inside, piece.to(i32), -1), bins).type_as(input)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The positions of the first `size` elements that are not 0, as rows; `fill_value` where there are fewer."""
    mask = (input != 0).flatten()
    number = counting(mask, mask.extents[0])
    at = number.new_full((size,), -1).scatter(0, where(mask, rank(mask), -1), number)
    found = at >= 0
    columns: list[Tensor] = []
    for extent in reversed(input.shape):
        columns.append(where(found, at % extent, fill_value))
        at = at // extent
    if not columns:
        return at.new_zeros(size, 0)
    return at.of(stack([c.edge for c in reversed(columns)], 1))


class Histogram(NamedTuple):
    """Counts, or weights, of the elements between edges; and the edges."""

    hist: Tensor
    bin_edges: Tensor


class HistogramOfMany(NamedTuple):
    """Counts, or weights, of the points between edges of each dimension; and these."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _edges(x: Tensor, bins: int | Tensor, range: Sequence[float] | None) -> Tensor:
    """The edges as they are given, or so many equal pieces of a range, or of what the elements reach over."""
    if not isinstance(bins, int):
        return bins
    check_count("histogram", "bins", bins)
    if range is not None:
        low, high = (x.new_full((), v) for v in range)
    elif x.numel() == 0:
        low, high = x.new_zeros(()), x.new_ones(())
    else:
        low, high = x.amin(), x.amax()
    same = low == high
    low, high = where(same, low - 0.5, low), where(same, high + 0.5, high)
    part = counting(x, bins + 1).type_as(x) / bins
    return where(part == 1, high, low + (high - low) * part)


def _hits(x: Tensor, edges: Tensor) -> Tensor:
    """Whether each element (n,) lies in each piece, as (n, pieces); the last one has its upper edge."""
    at = x.unsqueeze(1)
    low, high = edges[:-1], edges[1:]
    last = counting(edges, low.extents[0]) == low.extents[0] - 1
    return (at >= low) & ((at < high) | (last & (at == high)))


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramOfMany:
    """How many of the points (.., dims) lie in each box between the edges of every dimension.

    `bins` are numbers of equal pieces, of a `range` of two numbers a dimension or of what the points reach over, or
    the edges themselves. `weight` counts points by weights; `density` divides by the sum of all counts and by the
    volumes.
    """
    dims = fixed("histogramdd", "the number of dimensions", input.extents[-1])
    points = input.reshape(-1, dims) if input.numel() != 0 else input.new_zeros(0, dims)
    given = (bins,) * dims if isinstance(bins, int) else tuple(bins)
    edges: list[Tensor] = []
    out = points.new_ones(points.extents[0]) if weight is None else weight.flatten()
    for d, wanted in enumerate(given):
        column = points[:, d]
        bounds = None if range is None else range[2 * d : 2 * d + 2]
        edges.append(_edges(column, wanted, bounds))
        hits = _hits(column, edges[-1])
        hits = hits.reshape(hits.extents[0], *(1,) * d, hits.extents[1])
        out = where(hits, out.unsqueeze(-1), 0)
    out = out.sum(0)
    if density:
        out = out / out.sum()
        for d, e in enumerate(edges):
            width = e[1:] - e[:-1]
            out = out / width.reshape(-1, *(1,) * (dims - 1 - d))
    return HistogramOfMany(out, tuple(edges))


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """How many of all elements lie in each piece between edges, the last piece with its upper edge.

    `bins` is a number of equal pieces, of a `range` or of what the elements reach over, or the edges themselves.
    """
    rows = input.reshape(-1, 1) if input.numel() != 0 else input.new_zeros(0, 1)
    pieces = [bins] if is_tensor(bins) else [int(bins)]  # type: ignore[arg-type]
    found = histogramdd(rows, pieces, range=range, weight=weight, density=density)  # type: ignore[arg-type]
    return Histogram(found.hist, found.bin_edges[0])
