"""integers: where the arithmetic of a type, which wraps around, is index arithmetic, which does not."""

from __future__ import annotations

from math import prod

from lumigen.dtype import DType, u8
from lumigen.index import Ix, Lookup, of_atom

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

    Not where that adds up what is read on both sides and nothing bounds: of `-1 - a < b` both sides are exact, and
    `b + a` is not.
    """
    taken, given = _signs(left), _signs(right)
    return not ((1 in given and -1 in taken) or (-1 in given and 1 in taken))


def _signs(value: Ix) -> set[int]:
    """Those of integers of 64 bits that are read and that nothing bounds."""
    return {
        1 if k > 0 else -1
        for m, k in value.terms
        if any(isinstance(a, Lookup) and None in (a.lo, a.hi) for a in m)
    }
