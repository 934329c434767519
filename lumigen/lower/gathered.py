"""gathered: operands of products whose vectors lie in memory, wherever each of them is.

Such an operand is read as memory holds it, in the type of the product, or is zero where a condition fails. Along the
depth 16 bytes lie side by side, and all of them are there or none: the channels of a pixel under a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumigen.dtype import DType
from lumigen.index import Axis, Ix, Lookup, ix
from lumigen.lower.scope import address
from lumigen.region import Buffer, Choose, Expr, Holds, Read, is_zero

VECTOR = 16  # bytes


def guarded(value: Expr) -> tuple[Read, tuple[Ix, ...]] | None:
    """What is read, and the slacks of the conditions without which it is 0; None of another value."""
    slacks: dict[Ix, None] = {}
    while isinstance(value, Choose) and isinstance(value.condition, Holds):
        if not is_zero(value.otherwise):
            return None
        slacks |= dict.fromkeys(c.slack for c in value.condition.conditions)
        value = value.then
    return (value, tuple(slacks)) if isinstance(value, Read) else None


@dataclass(frozen=True)
class Gathered:
    """An operand over (major, k): `source` at `place`, or 0 where one of the slacks is negative."""

    source: Buffer
    place: Ix
    slacks: tuple[Ix, ...]

    @staticmethod
    def of(value: Expr, k: Axis, element: DType) -> Gathered | None:
        """None of an operand that does not lie so."""
        found = guarded(value)
        if found is None or found[0].source.dtype is not element or element.bits != 16:
            return None
        read, slacks = found
        count = VECTOR // element.itemsize
        lane, vector = Axis("lane", ix(count)), Axis("vector", k.extent // count)
        place = address(read.source, read.at)
        if k.extent % count != 0 or any(
            isinstance(a, Lookup) for i in (place, *slacks) for a in i.atoms()
        ):
            return None
        at = {k: ix(vector) * count + lane}
        inside = place.substitute(at)
        if inside.coefficient(lane) != 1 or (inside - lane) % count != 0:
            return None
        if any(lane in i.substitute(at).axes for i in slacks):
            return None
        return Gathered(read.source, place, slacks)

    def parts(self, k: Axis) -> tuple[tuple[Ix, ...], tuple[Ix, ...]] | None:
        """(of the place and of each slack what a major decides, what the depth does); None where a term has both."""
        each = [_split(i, k) for i in (self.place, *self.slacks)]
        whole = [pair for pair in each if pair is not None]
        if len(whole) < len(each):
            return None
        return tuple(own for own, _ in whole), tuple(rest for _, rest in whole)


def _split(i: Ix, k: Axis) -> tuple[Ix, Ix] | None:
    own, rest = ix(0), ix(i.const)
    for term in _terms(i):
        if not term.axes - {k}:
            rest = rest + term
        elif k not in term.axes:
            own = own + term
        else:
            return None
    return own, rest


def _terms(i: Ix) -> Sequence[Ix]:
    return [Ix.interned((t,), 0) for t in i.terms]
