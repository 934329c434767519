"""Sorting, and what follows from it: the order of places is a native kernel's, the elements are read at them.

NaN is greater than all numbers and equal elements stay as they stood, `stable` or not.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lumigen.dtype import i64, u8
from lumigen.errors import BadArgument
from lumigen.frontend import indexing, movement, native, reduction
from lumigen.frontend.arrangement import counting
from lumigen.frontend.extents import check_extent, counted
from lumigen.frontend.looping import scanned
from lumigen.frontend.operand import choice, filled, is_tensor, raw, where
from lumigen.frontend.primitive import Extent, size, tensor
from lumigen.frontend.trace import fail
from lumigen.graph import Edge
from lumigen.index import ix

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


class Sorted(NamedTuple):
    """Elements, and where they were along the dimension, as i64."""

    values: Tensor
    indices: Tensor


def _first(op: str, input: Tensor, kept: Extent | None, dim: int, *, descending: bool) -> Sorted:
    """The first elements along a dimension by value; all of them where no number is given."""
    if input.ndim == 0:
        movement.axis(op, input.reshape(1).edge, dim)
        return Sorted(input, input.new_zeros((), dtype=i64))
    d = movement.axis(op, input.edge, dim)
    rows = input.movedim(d, -1)
    *rest, n = rows.extents
    count = n if kept is None else ix(kept)
    if any(e == 0 for e in (*rest, count)):
        nothing = filled(input, (*rest, count), 0)
        return Sorted(nothing.movedim(-1, d), nothing.to(i64).movedim(-1, d))
    places = input.of(native.order(rows.edge, count, descending=descending))
    values = taken(rows, places)
    return Sorted(values.movedim(-1, d), places.movedim(-1, d))


def taken(rows: Tensor, places: Tensor) -> Tensor:
    """The elements of rows at places that are inside them."""
    if rows.dtype.is_bool:
        return taken(rows.to(u8), places).type_as(rows)
    return rows.of(indexing.gather(rows.edge, -1, places.edge))


def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Sorted:
    """Elements along a dimension from the least on, or from the greatest on, and where they were.

    NaN is greater than all numbers. Equal elements stay as they stood, also where `stable` does not ask for it.
    """
    del stable  # always
    return _first("sort", input, None, dim, descending=descending)


def msort(input: Tensor) -> Tensor:
    """Elements along the first dimension from the least on."""
    return sort(input, 0).values


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """Where the elements of `sort` were, as i64."""
    return sort(input, dim, descending, stable=stable).indices


def topk(
    input: Tensor, k: Extent, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Sorted:
    """The k greatest elements along a dimension (or the least), and where they were.

    They stand from the greatest on, `sorted` or not; of equal ones those with lower places. NaN is greater than all
    numbers.
    """
    del sorted  # always
    n = input.extents[movement.axis("topk", input.edge, dim)] if input.ndim else ix(1)
    counted("topk", "k", k, 0)
    check_extent("topk", f"{k} of {n} elements are asked for", n - ix(k), 0)
    if input.ndim == 0 and ix(k) == 0:
        raise fail(BadArgument, op="topk", name="k", value=k, expected="1 of a 0-d tensor")
    return _first("topk", input, k, dim, descending=largest)


# --- single ones of the order ---------------------------------------------------------------------


def _at(
    op: str, input: Tensor, rank: Tensor | None, dim: int, keepdim: bool, kept: Extent | None = None
) -> Sorted:
    """The element of a rank along a dimension: of each row's own, or of the last one kept."""
    if input.ndim == 0:
        return _first(op, input, None, dim, descending=False)
    d = movement.axis(op, input.edge, dim)
    rows = input.movedim(d, -1)
    n = rows.extents[-1]
    places = input.of(native.order(rows.edge, n if kept is None else ix(kept)))
    place = places[..., -1:] if rank is None else taken(places, rank)
    value = taken(rows, place)
    found = (x.movedim(-1, d) if keepdim else x.squeeze(-1) for x in (value, place))
    return Sorted(*found)


def kthvalue(input: Tensor, k: Extent, dim: int = -1, keepdim: bool = False) -> Sorted:
    """The k-th least element along a dimension, counted from 1, and where it is; NaN is greater than all numbers."""
    n = input.extents[movement.axis("kthvalue", input.edge, dim)] if input.ndim else ix(1)
    check_extent("kthvalue", f"element {k} of {n} is asked for", n - ix(k), 0)
    check_extent("kthvalue", f"element {k} is asked for", ix(k), 1)
    return _at("kthvalue", input, None, dim, keepdim, k)


def _counted(input: Tensor) -> Tensor:
    """How many elements of each row are no NaN, as i64 (.., 1)."""
    return (~input.isnan()).sum(-1, keepdim=True)


def _median(
    op: str, input: Tensor, dim: int | None, keepdim: bool, *, ignores_nan: bool
) -> Tensor | Sorted:
    if dim is None:
        of_all = _median(op, input.flatten(), 0, False, ignores_nan=ignores_nan)
        assert isinstance(of_all, Sorted)
        return of_all.values
    if input.ndim == 0:
        return _first(op, input, None, dim, descending=False)
    reduction.need_elements(op, input.edge, dim)
    d = movement.axis(op, input.edge, dim)
    rows = input.movedim(d, -1)
    n = rows.extents[-1]
    if not input.dtype.is_float:
        return _at(op, input, None, dim, keepdim, (n + 1) // 2)
    numbers = _counted(rows)
    rank = ((numbers - 1) // 2).maximum(0)
    if not ignores_nan:
        rank = where(numbers == input.of(size(n)), rank, numbers)  # the first NaN
    return _at(op, input, rank, dim, keepdim)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Sorted:
    """The middle element, of an even number the lower of the two, and along `dim` where it is; NaN if there is one."""
    return _median("median", input, dim, keepdim, ignores_nan=False)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Sorted:
    """The middle one of the elements that are no NaN, of an even number the lower one, and along `dim` where it is."""
    return _median("nanmedian", input, dim, keepdim, ignores_nan=True)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Sorted:
    """The most frequent element along a dimension, of several the least, and the last place where it is.

    NaN equals nothing: it is found where there is no number, at place 0.
    """
    if input.ndim == 0:
        return _first("mode", input, None, dim, descending=False)
    reduction.need_elements("mode", input.edge, dim)
    d = movement.axis("mode", input.edge, dim)
    rows = sort(input.movedim(d, -1))
    last = _longest_run(rows.values)
    pair = (taken(each, last) for each in rows)
    found = (x.movedim(-1, d) if keepdim else x.squeeze(-1) for x in pair)
    return Sorted(*found)


def _longest_run(rows: Tensor) -> Tensor:
    """Where the longest run of equal neighbours ends in each row (.., n), of several the first one, as (.., 1)."""
    n = rows.extents[-1]
    place = counting(rows, n)
    begins = place.expand(rows.extents)
    if n != 1:
        before = taken(rows, (place - 1).maximum(0).expand(rows.extents))
        begins = where((rows == before) & (place > 0), 0, place)

    def body(carries: list[Edge], elements: list[Edge]) -> tuple[list[Edge], list[Edge]]:
        (first,), (element,) = carries, elements
        return [rows.of(first).maximum(rows.of(element)).edge], []

    nothing = filled(place, rows.extents[:-1], 0).edge
    (first,), _ = scanned(
        body, [nothing], [begins.edge], axis=rows.ndim - 1, length=n, monoid="max"
    )
    return (place - rows.of(first)).argmax(-1, keepdim=True)


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    op: str,
    input: Tensor,
    q: float | Tensor,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    *,
    ignores_nan: bool,
) -> Tensor:
    choice(op, "interpolation", interpolation, *INTERPOLATIONS)
    rank = input.ndim
    if dim is None:
        rows = input.flatten()
    else:
        rows = (
            input.reshape(1) if rank == 0 else input.movedim(movement.axis(op, input.edge, dim), -1)
        )
    reduction.need_elements(op, rows.edge, -1)
    if not is_tensor(q) and not 0 <= q <= 1:
        raise fail(BadArgument, op=op, name="q", value=q, expected="a share between 0 and 1")
    wanted = q if is_tensor(q) else input.of(tensor(raw(q), input.dtype))
    numbers = _counted(rows).type_as(input)  # (.., 1)
    n = input.of(size(rows.extents[-1], input.dtype))
    ranks = wanted.reshape(-1) * (numbers - 1 if ignores_nan else n - 1)  # (.., q)
    ranks = ranks.maximum(0) if ignores_nan else where(numbers == n, ranks, n - 1)
    match interpolation:
        case "lower":
            ranks = ranks.floor()
        case "higher":
            ranks = ranks.ceil()
        case "nearest":
            ranks = ranks.round()
        case _:
            pass
    ordered = sort(rows).values
    below = ranks.to(i64)
    value = taken(ordered, below)
    if interpolation in {"linear", "midpoint"}:
        above = taken(ordered, ranks.ceil().to(i64))
        weight = (
            value.new_full((), 0.5) if interpolation == "midpoint" else ranks - below.type_as(ranks)
        )
        value = value.lerp(above, weight)
    if dim is None:
        value = value.reshape(*(1,) * rank, -1) if keepdim else value
    elif keepdim and rank:
        value = value.unsqueeze(-2).movedim(-2, movement.axis(op, input.edge, dim))
    elif rank == 0:
        value = value.reshape(-1)
    value = value.movedim(-1, 0)
    return value if is_tensor(q) and q.ndim else value.squeeze(0)


def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The value below which a share `q` of all elements lies, or of those along `dim`; NaN if one of them is.

    Between two elements it is interpolated, or the one or other: "linear", "lower", "higher", "midpoint", "nearest".
    Of several shares, a 1-d tensor, there are as many results, along a first dimension.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, ignores_nan=False)


def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The quantile of the elements that are no NaN; NaN where there are none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, ignores_nan=True)
