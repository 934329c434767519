"""formulas: the operations of weights' formulas (`weights.formats`) as those of a model."""

from __future__ import annotations

from collections.abc import Sequence

from lumigen.dtype import f32
from lumigen.frontend.functions import cat, full, where
from lumigen.frontend.tensor import Tensor


class _Traced:
    """The operations of a formula, as those of a model."""

    def floats(self, x: Tensor) -> Tensor:
        return x.to(f32)

    def floor(self, x: Tensor) -> Tensor:
        return x.floor()

    def join(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        return cat(parts, axis)

    def lookup(self, table: Sequence[float], index: Tensor) -> Tensor:
        return _looked_up(tuple(table), 0, index)

    def columns(self, x: Tensor, order: Tensor) -> Tensor:
        return x.index_select(-1, order)


def _looked_up(table: tuple[float, ...], first: int, index: Tensor) -> Tensor:
    """By comparisons, half of the table with each: vectors have no faster way to a few numbers."""
    if len(table) == 1:
        return full((), table[0], dtype=f32)
    half = len(table) // 2
    low, high = (
        _looked_up(table[:half], first, index),
        _looked_up(table[half:], first + half, index),
    )
    return where(index < first + half, low, high)


TRACED = _Traced()
