"""variants: which rules may be used, as a text that a file of schedules can hold."""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.algebra.answer import RuleSet
from lumigen.algebra.extract import Prices
from lumigen.algebra.numerics import Numerics
from lumigen.algebra.rules import allowed
from lumigen.dtype import DType, f32
from lumigen.machine import Machine

ONCE = "weights once"


def variants(numerics: Numerics, dtype: DType, *, has_weights: bool) -> Iterator[str]:
    """What a user allows, the freest first: `default, weights once`, then `default`, then `strict`.

    What is made once is computed in another order than a run would, and in 16 bits it is rounded once more: then it
    takes numerics that change precision.
    """
    for one in reversed(Numerics):
        if not numerics.allows(one):
            continue
        least = Numerics.DEFAULT if dtype is f32 else Numerics.FAST
        if has_weights and one.allows(least):
            yield f"{one.value}, {ONCE}"
        yield one.value


def variant_of(text: str, machine: Machine) -> RuleSet:
    """The variant that a text says; ValueError if it says none."""
    name, _, once = text.partition(", ")
    if once not in {"", ONCE}:
        raise ValueError(text)
    rules = tuple(r.name for r in allowed(Numerics(name)))
    steps = machine.storing.steps
    return RuleSet(rules, Prices.of(steps, once=bool(once)))
