"""variants: the sets of rules that are tried, by the numerics that they keep."""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.algebra.answer import RuleSet
from lumigen.algebra.extract import Prices
from lumigen.algebra.numerics import Numerics
from lumigen.algebra.rules import allowed
from lumigen.dtype import DType, f32
from lumigen.machine import Machine


def bounded(numerics: Numerics) -> Iterator[Numerics]:
    """What a user allows, the freest first."""
    return (n for n in reversed(Numerics) if numerics.allows(n))


def rule_set(numerics: Numerics, machine: Machine, dtype: DType) -> RuleSet:
    """The rules that keep these numerics.

    A model that is held in 16 bits reads what is made of its weights in f32, which its products would rather not: then
    nothing is counted as made once.
    """
    prices = Prices.of(machine.storing.steps, once=dtype is f32)
    return RuleSet(tuple(r.name for r in allowed(numerics)), prices)
