"""groups: what products of integers in groups come to (`GroupScales`): exact sums inside a group, then its scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from lumigen.index import Ix
from lumigen.interp.read import Array
from lumigen.program import PANEL
from lumigen.region import Buffer
from lumigen.tile import GroupNumbers, GroupScales, Operand

Number = Callable[[Ix], int]
Flat = Callable[[Buffer, Array], Array]


def multiplied_in_groups(g: GroupScales, a: Array, cols: int, number: Number, flat: Flat) -> Array:
    """(rows, cols) in f32, of integers `a` (rows, k). `flat` gives elements of a buffer at places."""
    rows, depth = int(a.shape[0]), int(a.shape[1])
    panels = _PanelColumns(np.arange(cols), number, flat)
    k: Array = np.arange(depth)
    first: Array = np.arange(0, depth, g.size)
    b: Array = np.full((depth, cols), -g.zero, np.int64)
    for p in g.planes:
        each = 8 // p.bits
        byte: Array = k // (each * p.run) * p.run + k % p.run
        shift: Array = k // p.run % each * p.bits
        found: Array = panels.read(p.operand, byte).astype(np.int64)
        b += (found >> shift[:, None] & (1 << p.bits) - 1 if p.bits < 8 else found) << p.place
    assert g.rows.source is not None
    assert g.rows.stride is not None
    at: Array = number(g.rows.base) + np.arange(rows)[:, None] * number(g.rows.stride)
    of_rows: Array = flat(g.rows.source, at + first // g.row_span).astype(np.float32)
    grouped: Array = a.astype(np.int64).reshape(rows, len(first), g.size)
    of_columns = panels.product(g.scales, first)
    out: Array = np.zeros((rows, cols), np.float32)
    with np.errstate(all="ignore"):
        least = panels.product(g.least, first) if g.least else None
        for i, start in enumerate(first):
            sums: Array = (grouped[:, i] @ b[start : start + g.size]).astype(np.float32)
            value: Array = sums * of_columns[i]
            if least is not None:
                value = value + grouped[:, i].sum(-1).astype(np.float32)[:, None] * least[i]
            out += value * of_rows[:, i, None]
    return out


@dataclass(frozen=True)
class _PanelColumns:
    """Columns that lie in panels."""

    n: Array
    number: Number
    flat: Flat

    def product(self, numbers: Sequence[GroupNumbers], k: Array) -> Array:
        """Products of numbers (k, n)."""
        each = (
            self.read(x.operand, k // x.span).astype(np.float32) * np.float32(x.factor)
            for x in numbers
        )
        return reduce(np.multiply, each)

    def read(self, o: Operand, k: Array) -> Array:
        """Elements (k, n)."""
        assert o.source is not None
        assert o.stride is not None
        row, n, side = k[:, None], self.n, o.side
        at: Array = self.number(o.base) + n // PANEL * self.number(o.stride)
        return self.flat(o.source, at + (row // side * PANEL + n % PANEL) * side + row % side)
