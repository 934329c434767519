"""masks: between which points of the depth the factors of a tile of a product are not zero.

A factor that conditions choose, as of a triangle, a band or blocks, is zero elsewhere. A tile of the product has sums
from the first point of the depth to the last where any of its rows and columns have something to add (`reach`), and
conditions need not be asked where all of them hold for all of the tile (`whole`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lumigen.condition import Cmp
from lumigen.index import Axis, Ix, ceildiv, floordiv, ix, maximum, minimum
from lumigen.lower.bounds import Ranges, absent_unless, extreme, loop_bounds
from lumigen.lower.scope import is_safe
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Holds, Monoid, Prim, is_zero


def unmasked_factor(e: Expr) -> tuple[Expr, tuple[Cmp, ...]]:
    """A factor without the conditions around it, and these: elsewhere it is zero."""
    if isinstance(e, Choose) and isinstance(e.condition, Holds) and is_zero(e.otherwise):
        inner, conditions = unmasked_factor(e.then)
        return inner, tuple(dict.fromkeys((*e.condition.conditions, *conditions)))
    if isinstance(e, Prim) and e.op is Op.MUL and e.dtype.is_float:
        for x, by in (e.args, e.args[::-1]):
            one, conditions = unmasked_factor(by)
            if conditions and isinstance(one, Const) and one.value == 1:
                inner, others = unmasked_factor(x)
                return inner, tuple(dict.fromkeys((*conditions, *others)))
    return e, ()


@dataclass(frozen=True)
class Masks:
    """Conditions without which the rows or the columns of a product are zero, over the axes of its tiles."""

    m: Axis
    n: Axis
    k: Axis
    rows: tuple[Cmp, ...]
    columns: tuple[Cmp, ...]

    @staticmethod
    def of(rows: Expr, columns: Expr, m: Axis, n: Axis, k: Axis) -> Masks:
        """Those of the factors; not of windows, whose edges are no reason to leave out steps."""
        each = (
            tuple(c.of_numerator(k) for c in absent_unless(Monoid.SUM, e))
            if is_safe(unmasked_factor(e)[0])
            else ()
            for e in (rows, columns)
        )
        return Masks(m, n, k, *each)

    @property
    def both(self) -> tuple[Cmp, ...]:
        return (*self.rows, *self.columns)

    def reach(self, m0: Ix, n0: Ix, rows: int, columns: int, step: int) -> tuple[Ix, Ix]:
        """The points of the depth that a tile adds up, from a multiple of `step` on; none where the end is before."""
        found = loop_bounds(self.both, self.k, self._tile(m0, n0, rows, columns))
        return floordiv(found.lo, ix(step)) * step, found.hi

    def whole(self, m0: Ix, n0: Ix, rows: int, columns: int) -> tuple[Ix, Ix]:
        """The points for which all conditions hold, whatever the row and the column; none if that is not known."""
        tile = self._tile(m0, n0, rows, columns)
        lo, hi = ix(0), self.k.extent
        for c in self.both:
            factor = c.slack.coefficient(self.k)
            if factor is None or not factor.is_const or factor.const == 0:
                return ix(0), ix(0)
            lowest = extreme(c.slack - factor * self.k, tile, highest=False)
            if lowest is None or lowest.axes & tile.keys():
                return ix(0), ix(0)
            if factor.const > 0:
                lo = maximum(lo, ceildiv(-lowest, factor.const))
            else:
                hi = minimum(hi, floordiv(lowest, ix(-factor.const)) + 1)
        return lo, hi

    def share(self, rows: int, columns: int) -> float:
        """The part of the depth that tiles reach on average, at the dims' typical values."""
        if not self.both:
            return 1.0
        depth = self.k.extent.estimate()
        m0, n0 = Axis("m0", self.m.extent), Axis("n0", self.n.extent)
        lo, hi = self.reach(ix(m0), ix(n0), rows, columns, 1)
        places = [
            {m0: ix(i), n0: ix(j)}
            for i in _samples(self.m.extent.estimate(), rows)
            for j in _samples(self.n.extent.estimate(), columns)
        ]
        ends = ((lo.substitute(p).estimate(), hi.substitute(p).estimate()) for p in places)
        return sum(max(0, b - a) for a, b in ends) / (depth * len(places))

    def _tile(self, m0: Ix, n0: Ix, rows: int, columns: int) -> Ranges:
        return {self.m: (m0, m0 + (rows - 1)), self.n: (n0, n0 + (columns - 1))}


def _samples(extent: int, size: int) -> Iterable[int]:
    """Where some of the tiles along an axis begin, evenly apart."""
    tiles = -(-extent // size)
    count = min(tiles, 6)
    return [(2 * i + 1) * tiles // (2 * count) * size for i in range(count)]
