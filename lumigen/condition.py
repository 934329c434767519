"""Conditions on indices: comparisons of index expressions, as a slack that must not be negative.

Promises the same spelling and order wherever a condition is shown, and True or False only where it is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lumigen.index import (
    Axis,
    Ix,
    IxLike,
    Quotient,
    apart,
    has_unbounded,
    is_nonnegative,
    ix,
    of_atom,
    sides,
)


@dataclass(frozen=True)
class Cmp:
    """The condition `lhs < rhs`, stored as its slack: true when `slack = rhs - lhs - 1 >= 0`."""

    slack: Ix

    def __str__(self) -> str:
        return f"{self.slack} >= 0"

    def comparison(self, spell: Callable[[Ix], str] = str) -> str:
        """The condition with what is subtracted on the other side: `batch < 4`."""
        more, less, number = sides(self.slack)
        if not less.terms and number == -1:
            return f"{spell(more)} > 0"
        if not less.terms:
            return f"{spell(more)} >= {spell(ix(-number))}"
        if not more.terms:
            return f"{spell(less)} < {spell(ix(number + 1))}"
        if number < 0:
            return f"{spell(less - number - 1)} < {spell(more)}"
        return f"{spell(less)} <= {spell(more + number)}"

    def holds(self, value: Callable[[Ix], Any]) -> Any:
        """Whether it is true of what `value` gives. Each side is asked for alone: their difference may leave an i64."""
        more, less, number = apart(self.slack)
        if number == -1:
            return value(less) < value(more)
        if number < 0 and not has_unbounded(less):
            return value(less - number - 1) < value(more)
        return value(less) <= value(more + number)

    @property
    def axes(self) -> frozenset[Axis]:
        return self.slack.axes

    def substitute(self, mapping: Mapping[Any, Ix]) -> Cmp:
        return Cmp(self.slack.substitute(mapping))

    def of_numerator(self, axis: Axis) -> Cmp:
        """The same condition with a quotient that alone holds the axis multiplied out: `k <= n // 8` as `8 * k <= n`.

        As it is if there is no such quotient, or if the product might leave an i64.
        """
        holding = [(m, c) for m, c in self.slack.terms if axis in Ix.interned(((m, 1),), 0).axes]
        if len(holding) != 1 or len(holding[0][0]) != 1 or holding[0][1] not in (1, -1):
            return self
        ((atom,), factor) = holding[0]
        if not isinstance(atom, Quotient) or not atom.denominator.is_const:
            return self
        rest, by = self.slack - of_atom(atom) * factor, atom.denominator.const
        end = atom.numerator if factor == 1 else by - 1 - atom.numerator
        slack = rest * by + end
        terms = (Ix.interned((term,), 0).bounds() for term in slack.terms)
        ends = (slack.const, *(bound for bounds in terms for bound in bounds))
        fits = all(bound is not None and abs(bound) < 2**58 for bound in ends)
        return Cmp(slack) if fits else self

    def known(self) -> bool | None:
        """True or False where it is provable, else None."""
        if is_nonnegative(self.slack):
            return True
        return False if is_nonnegative(-self.slack - 1) else None


def less(a: IxLike, b: IxLike) -> Cmp:
    """The condition `a < b`."""
    return Cmp(ix(b) - ix(a) - 1)
