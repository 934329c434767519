"""parts: floats that a file computes of sizes, such as `floor(height / 2)`, exact as long as only a run knows the size.

Promises that what is known of one is what ONNX computes in f32: anything else is a TypeError, and tensors compute it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lumigen.index import is_nonnegative, ix

MOST = 2**20  # of a numerator, so that a few roundings of its quotient in f32 pass no whole number


@dataclass(frozen=True, eq=False)
class SizeQuotient:
    """A size, or arithmetic of sizes, by a positive number."""

    of: Any
    by: int = 1

    def __post_init__(self) -> None:
        ends = ix(self.of).bounds()
        if any(end is None or abs(end) > MOST for end in ends):
            raise TypeError("a float of a size may be too large to be exact")

    def __add__(self, other: Any) -> SizeQuotient:
        other = _part(other)
        return SizeQuotient(self.of * other.by + other.of * self.by, self.by * other.by)

    def __mul__(self, other: Any) -> SizeQuotient:
        other = _part(other)
        return SizeQuotient(self.of * other.of, self.by * other.by)

    def __truediv__(self, other: Any) -> SizeQuotient:
        other = _part(other)
        if not isinstance(other.of, int) or other.of == 0:
            raise TypeError("a size divides")
        sign = 1 if other.of > 0 else -1
        return SizeQuotient(self.of * (other.by * sign), self.by * abs(other.of))

    def __neg__(self) -> SizeQuotient:
        return self * -1

    def __sub__(self, other: Any) -> SizeQuotient:
        return self + -_part(other)

    def __rsub__(self, other: Any) -> SizeQuotient:
        return _part(other) - self

    def __rtruediv__(self, other: Any) -> SizeQuotient:
        return _part(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        raise TypeError("only a run knows what a size is equal to")

    __hash__ = None  # type: ignore[assignment]

    def floor(self) -> Any:
        return self.of if self.by == 1 else self.of // self.by

    def whole(self) -> Any:
        """Cut off towards 0."""
        if is_nonnegative(ix(self.of)):
            return self.floor()
        if is_nonnegative(-ix(self.of)):
            return -(-self).floor()
        raise TypeError("a size may be negative")


def _part(value: Any) -> SizeQuotient:
    if isinstance(value, SizeQuotient):
        return value
    exact = Fraction(value) if isinstance(value, int | float) else None
    return (
        SizeQuotient(value) if exact is None else SizeQuotient(exact.numerator, exact.denominator)
    )


def floor(value: Any) -> SizeQuotient:
    return SizeQuotient(_part(value).floor())


def ceil(value: Any) -> SizeQuotient:
    return -floor(-_part(value))


def whole(value: Any) -> Any:
    """A float of sizes, or an integer, as an integer."""
    return (
        value.whole()
        if isinstance(value, SizeQuotient)
        else int(value)
        if isinstance(value, float)
        else value
    )


def has_parts(*values: Any) -> bool:
    """Whether some element is a float of sizes."""
    return any(isinstance(v, SizeQuotient | float) for v in values)
