"""What index expressions are made of: axes, dims, quotients and remainders, extrema, indicators, integer reads.

An atom holds the expressions inside of it; `lumigen.index` says how they are built, so that equal ones are
the same object.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Union

from lumigen.errors import BadArgument, user_location
from lumigen.memo import HashedOnce

if TYPE_CHECKING:
    from lumigen.index.polynomial import Ix

Monomial = tuple["Atom", ...]
Terms = tuple[tuple[Monomial, int], ...]


class Symbolic:
    """What stands for an expression: a dim, or a size that a user was given."""

    @property
    def expression(self) -> Ix | Dim:
        """The expression that it stands for, or the dim that is one alone."""
        raise NotImplementedError


@dataclass(frozen=True)
class Dim(Symbolic):
    """A symbolic extent in `lo..hi`, a multiple of `multiple_of`, and the value that costs are estimated with.

    It compares by what it is declared as. Users get the subclass of `frontend.symbolic`.
    """

    name: str
    lo: int
    hi: int
    multiple_of: int = 1
    typical: int | None = None

    def __post_init__(self) -> None:
        # Not later: 1.0 and True equal 1, and equal expressions are one.
        for key in ("lo", "hi", "multiple_of", *(["typical"] if self.typical is not None else [])):
            value: object = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, Integral):
                place, name = user_location(), f"{key} of {self.name}"
                raise BadArgument(
                    where=place, op="Dim", name=name, value=repr(value), expected="an integer"
                )
            object.__setattr__(self, key, int(value))

    def __str__(self) -> str:
        return self.name

    @property
    def expression(self) -> Ix | Dim:
        """The dim itself."""
        return self

    @property
    def estimate(self) -> int:
        """The value that costs are estimated with."""
        return self.hi if self.typical is None else self.typical


@dataclass(frozen=True)
class Axis(HashedOnce):
    """A loop variable, `0 <= axis < extent`. Axes of the same name and extent are the same axis."""

    name: str
    extent: Ix

    __hash__ = HashedOnce.__hash__

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """floor(numerator / denominator); the denominator is positive."""

    numerator: Ix
    denominator: Ix

    def __str__(self) -> str:
        return f"({self.numerator})//{_wrap(self.denominator)}"


@dataclass(frozen=True)
class Remainder:
    """numerator - denominator * floor(numerator / denominator); the denominator is positive."""

    numerator: Ix
    denominator: Ix

    def __str__(self) -> str:
        return f"({self.numerator})%{_wrap(self.denominator)}"


@dataclass(frozen=True)
class MinMax:
    """The lesser (`is_min`) or the greater of two expressions."""

    left: Ix
    right: Ix
    is_min: bool

    def __str__(self) -> str:
        return f"{'min' if self.is_min else 'max'}({self.left}, {self.right})"


@dataclass(frozen=True)
class Indicator:
    """1 where left < right, else 0."""

    left: Ix
    right: Ix

    def __str__(self) -> str:
        return f"({self.left} < {self.right})"


@dataclass(frozen=True)
class Lookup:
    """An integer read from a tensor at `at`, promised to be in `lo..hi` (None: unknown)."""

    source: Hashable
    at: tuple[Ix, ...]
    lo: int | None
    hi: int | None

    def __str__(self) -> str:
        return f"{self.source}[{', '.join(map(str, self.at))}]"


Atom = Union[Dim, Axis, Quotient, Remainder, MinMax, Indicator, Lookup]


def parts(atom: Atom) -> tuple[Ix, ...]:
    """The expressions directly inside an atom. An axis's extent is its range, not a part."""
    if isinstance(atom, Quotient | Remainder):
        return (atom.numerator, atom.denominator)
    if isinstance(atom, MinMax | Indicator):
        return (atom.left, atom.right)
    if isinstance(atom, Lookup):
        return atom.at
    return ()


def _wrap(e: Ix) -> str:
    """What divides: what is multiplied or added up is in parentheses."""
    is_atom = [(len(m), c) for m, c in e.terms] == [(1, 1)] and not e.const
    return str(e) if is_atom or e.is_const else f"({e})"
