"""phases: addresses that advance once in so many lanes, and what changes between them.

`p[k // 2 + 1600 * (k % 2)]` along k has elements of two rows in turn, as after a pixel shuffle or a transposed
convolution; `p[k // 2]` has each of them twice, as an image made larger by repeating its pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.index import Axis, Ix, Quotient, Remainder, is_nonnegative, ix

MOST = 4  # phases: a vector is put together from a load of each


@dataclass(frozen=True)
class Phases:
    """base + k // count + k % count * between, where k is `start` at the lanes' first point and one more at each."""

    base: Ix
    count: int
    start: Ix
    between: Ix


def in_phases(at: Ix, lanes: Axis) -> Phases | None:
    """The address in this form, if it has it."""
    parted = (a for a in at.atoms() if isinstance(a, Quotient | Remainder))
    found = [a for a in parted if lanes in a.numerator.axes]
    if not found:
        return None
    start, count = found[0].numerator, found[0].denominator
    same = all(a.numerator is start and a.denominator is count for a in found)
    if not same or not count.is_const or not 2 <= count.const <= MOST:
        return None
    if start.coefficient(lanes) != 1 or not is_nonnegative(start):
        return None
    step, phase = Axis(f"{lanes}_step", start + 1), Axis(f"{lanes}_phase", count)
    names = {Quotient(start, count): ix(step), Remainder(start, count): ix(phase)}
    apart = at.substitute(names)
    by_step, between = apart.coefficient(step), apart.coefficient(phase)
    if by_step != 1 or between is None:
        return None
    base = apart - step - between * phase
    if {lanes, step, phase} & (base.axes | between.axes):
        return None
    return Phases(base, count.const, start, between)
