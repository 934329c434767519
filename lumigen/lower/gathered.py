"""gathered: operands of products whose vectors lie in memory, wherever each of them is.

Such an operand is read as memory holds it, in the type of the product, or is zero where a condition fails. Along the
depth 16 bytes lie side by side, or 8, and all of them are there or none: the channels of a pixel under a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumigen.dtype import DType
from lumigen.index import Axis, Ix, Lookup, ix
from lumigen.lower.operands import read_where
from lumigen.lower.scope import address
from lumigen.region import Buffer, Expr, Read

VECTOR = 16  # bytes
PIECES = (VECTOR, VECTOR // 2)  # bytes that are copied at once, the most first


def guarded(value: Expr) -> tuple[Read, tuple[Ix, ...]] | None:
    """What is read, and the slacks of the conditions without which it is 0; None of another value."""
    found = read_where(value)
    if found is None or found[2] != 0:
        return None
    return found[0], tuple(dict.fromkeys(c.slack for c in found[1]))


@dataclass(frozen=True)
class Gathered:
    """An operand over majors and depth: `source` at `place`, or 0 where a slack is negative.

    Pieces of so many `bytes` lie side by side `along` one of them.
    """

    source: Buffer
    place: Ix
    slacks: tuple[Ix, ...]
    along: Axis
    bytes: int = VECTOR

    @staticmethod
    def of(value: Expr, major: Axis, k: Axis, element: DType) -> Gathered | None:
        """None of an operand that does not lie so."""
        found = guarded(value)
        if found is None or found[0].source.dtype is not element or element.bits != 16:
            return None
        place = address(found[0].source, found[0].at)
        if any(isinstance(a, Lookup) for i in (place, *found[1]) for a in i.atoms()):
            return None
        each = (
            Gathered(found[0].source, place, found[1], axis, size)
            for size in PIECES
            for axis in (k, major)
        )
        return next((g for g in each if g.is_in_pieces()), None)

    def is_in_pieces(self) -> bool:
        """Whether the elements of a piece lie side by side from a multiple of it on, and share their conditions."""
        count = self.bytes // self.source.dtype.itemsize
        lane, vector = Axis("lane", ix(count)), Axis("vector", self.along.extent // count)
        at = {self.along: ix(vector) * count + lane}
        place, slacks = self.place.substitute(at), [i.substitute(at) for i in self.slacks]
        together = place.coefficient(lane) == 1 and not any(lane in i.axes for i in slacks)
        return together and self.along.extent % count == 0 and (place - lane) % count == 0

    def parts(self, major: Axis, k: Axis) -> tuple[tuple[Ix, ...], tuple[Ix, ...]] | None:
        """(of the place and of each slack what a major decides, what the depth does); None where a term has both."""
        each = [_split(i, major, k) for i in (self.place, *self.slacks)]
        whole = [pair for pair in each if pair is not None]
        if len(whole) < len(each):
            return None
        return tuple(own for own, _ in whole), tuple(rest for _, rest in whole)


def _split(i: Ix, major: Axis, k: Axis) -> tuple[Ix, Ix] | None:
    own, rest = ix(0), ix(i.const)
    for term in _terms(i):
        if {major, k} <= term.axes:
            return None
        if k in term.axes or not term.axes:
            rest = rest + term
        else:
            own = own + term
    return own, rest


def _terms(i: Ix) -> Sequence[Ix]:
    return [Ix.interned((t,), 0) for t in i.terms]
