"""unbounded: integers that are read and that nothing bounds; what is added to one may wrap around."""

from __future__ import annotations

from lumigen.index.atoms import Atom, Lookup, Monomial
from lumigen.index.polynomial import Ix, sides


def apart(slack: Ix) -> tuple[Ix, Ix, int]:
    """`sides` of a condition, where what is read and nothing bounds stands alone: nothing is added to it."""
    more, less, number = sides(slack)
    found = unbounded(slack)
    if len(found) != 1:
        return more, less, number
    ((_, factor),) = found
    rest = Ix.interned(tuple(t for t in slack.terms if _reads(t[0])), 0)
    moved = slack - number - rest
    return (rest, -moved, number) if factor > 0 else (moved, -rest, number)


def has_unbounded(value: Ix) -> bool:
    """Whether a term of it is read and nothing bounds it."""
    return bool(unbounded(value))


def unbounded(value: Ix) -> list[tuple[Ix, int]]:
    """What is read of 64 bits and nothing bounds, with its factor."""
    found = [(m, k) for m, k in value.terms if any(map(_is_unbounded, m))]
    return [(Ix.interned(((m, 1),), 0), k) for m, k in found]


def _reads(monomial: Monomial) -> bool:
    """Whether something in it is read and unbounded, also inside a comparison."""
    return any(_is_unbounded(a) for a in Ix.interned(((monomial, 1),), 0).atoms())


def _is_unbounded(atom: Atom) -> bool:
    return isinstance(atom, Lookup) and None in (atom.lo, atom.hi)
