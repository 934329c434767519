"""integers: where the arithmetic of a type, which wraps around, is index arithmetic, which does not."""

from __future__ import annotations

from math import prod

from lumigen.dtype import DType, u8
from lumigen.index import Indicator, Ix, is_nonnegative, of_atom, unbounded

Range = tuple[int | None, int | None]  # both ends included; None where no end is known

FURTHEST = 1 << 62  # that two positions are apart: further ones wrap around, and have no literal
UNKNOWN = (
    1 << 40
)  # an integer of 64 bits that nothing bounds is taken to be less, where it is a term


def range_of(dtype: DType) -> Range:
    """What a type can hold; None, None of 64 bits, which no index expression is bounded by."""
    if dtype.bits == 64:
        return None, None
    low = 0 if dtype is u8 else -(2 ** (dtype.bits - 1))
    return low, low + 2**dtype.bits - 1


def wrapped(value: int, dtype: DType) -> int:
    """What an integer type keeps of a number: it is that number modulo 2^bits."""
    low = 0 if dtype is u8 else -(2 ** (dtype.bits - 1))
    return (value - low) % 2**dtype.bits + low


def fits(value: Ix, dtype: DType) -> bool:
    """Whether the type holds the expression whatever its atoms are: only then index arithmetic is its arithmetic.

    Of a number it is in any case, as a constant wraps around.
    """
    if value.is_const:
        return True
    low, high = range_of(dtype)
    if low is None or high is None:
        return _furthest(value) < FURTHEST  # so that the difference of two is an i64 too
    least, greatest = value.bounds()
    return least is not None and greatest is not None and low <= least and greatest <= high


def _furthest(value: Ix) -> int:
    """What the expression is at most, whatever its sign; an atom that nothing bounds counts as UNKNOWN."""
    least, greatest = value.bounds()
    if least is not None and greatest is not None:
        return max(-least, greatest)
    ends = {m: [of_atom(a).bounds() for a in m] for m, _ in value.terms}
    sizes = {
        m: prod(UNKNOWN if lo is None or hi is None else max(-lo, hi) for lo, hi in bounds)
        for m, bounds in ends.items()
    }
    return abs(value.const) + sum(abs(k) * sizes[m] for m, k in value.terms)


def remainder_fits(value: Ix, by: Ix, dtype: DType) -> bool:
    """Whether the remainder by `by`, which must be positive, is that of index arithmetic.

    In 64 bits it is of what cannot wrap around, as an atom cannot, and by a power of two.
    """
    if (by.bounds()[0] or 0) <= 0:
        return False
    if dtype.bits < 64 or None not in value.bounds():
        return True
    is_power_of_two = by.is_const and by.const & (by.const - 1) == 0
    return is_power_of_two or any(value is of_atom(a) for m, _ in value.terms for a in m)


def comparable(left: Ix, right: Ix) -> bool:
    """Whether two integers compare as index expressions do, which subtract one from the other.

    Not where a side may wrap around, and not where the difference adds up what is read on both sides and nothing
    bounds: of `-1 - a < b` both sides are exact, and `b + a` is not.
    """
    taken, given = unbounded(left), unbounded(right)
    if not _is_exact(left, taken) or not _is_exact(right, given):
        return False
    return not taken or not given or taken[0][1] == given[0][1]


def _is_exact(value: Ix, found: list[tuple[Ix, int]]) -> bool:
    """Whether it cannot wrap around: nothing unbounded is added to, but where it is negative, or taken away."""
    if not found:
        return True
    a, factor = found[0]
    rest = value - a * factor
    if len(found) > 1 or a not in map(of_atom, a.atoms()):
        return False
    if rest.is_const:
        return (factor, rest.const) in ((1, 0), (-1, -1))
    return factor == 1 and rest.const == 0 and _is_from_end(rest, a)


def _is_from_end(rest: Ix, a: Ix) -> bool:
    """Whether it is a size where `a` is negative, and else 0."""
    if len(rest.terms) != 1:
        return False
    ((monomial, factor),) = rest.terms
    below = [i for i in monomial if isinstance(i, Indicator) and i.left is a]
    others = (of_atom(i) for i in monomial if i not in below)
    is_size = factor > 0 and all(map(is_nonnegative, others))
    return is_size and len(below) == 1 and below[0].right.is_const and below[0].right.const <= 0
