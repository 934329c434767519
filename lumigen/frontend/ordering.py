"""Positions in sorted numbers, and counts of what lies between them: sums over comparisons."""

# signatures are PyTorch's

from __future__ import annotations

from typing import TYPE_CHECKING

from lumigen.dtype import i32, i64
from lumigen.errors import BadArgument
from lumigen.frontend.arrangement import counting
from lumigen.frontend.movement import stack
from lumigen.frontend.operand import Value, common, is_tensor, where
from lumigen.frontend.trace import fail

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
    """Where each value would be put into rows of sorted numbers: before equal ones, or behind them if `right`.

    `sorter` says in which order the numbers are sorted. As many comparisons as numbers for each value.
    """
    behind = right or side == "right"
    row = sorted_sequence
    if sorter is not None:
        row = row.take_along_dim(sorter, -1)
    single = row.ndim == 1
    values = input if is_tensor(input) else row.new_full((), input)  # type: ignore[arg-type]
    wide = values.unsqueeze(-1)  # (.., values, 1)
    rows = row if single else row.unsqueeze(-2)  # (.., 1, numbers)
    x, y = common("searchsorted", rows, wide)
    before = ~(x > y) if behind else ~(x >= y)
    before = where(y.isnan(), (~x.isnan()) | behind, before & ~x.isnan())
    return before.sum(-1, dtype=i32 if out_int32 else i64)


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
    hits = (counting(x, bins).unsqueeze(1) == piece) & inside
    return hits.sum(1).to(input.dtype)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The positions of the first `size` elements that are not 0, as rows; `fill_value` where there are fewer."""
    mask = (input != 0).flatten()
    number = counting(mask, mask.extents[0])
    rank = (mask & (number < number.unsqueeze(1))).sum(1)
    hit = mask & (rank == counting(mask, size).unsqueeze(1))  # (size, elements)
    found, at = hit.any(1), where(hit, number, 0).sum(1)
    columns: list[Tensor] = []
    for extent in reversed(input.shape):
        columns.append(where(found, at % extent, fill_value))
        at = at // extent
    if not columns:
        return at.new_zeros(size, 0)
    return at.of(stack([c.edge for c in reversed(columns)], 1))
