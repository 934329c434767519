"""Integers as their bits, and powers of integers: exact in every dtype, negative numbers as two's complement.

A bit is a comparison: what is left of a number after its greater bits were taken away reaches 2^i or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumigen.errors import DtypeMismatch
from lumigen.frontend.operand import Value, common, ones_like, where, zeros_like
from lumigen.frontend.trace import fail

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


def _bits(input: Tensor, lowest: int = 0) -> list[tuple[int, Tensor]]:
    """(i, whether bit i is set), from the greatest to the lowest that is asked for; no sign."""
    width, signed = input.dtype.bits, input.dtype.name[0] == "i"
    left = where(input < 0, input - _least(input), input) if signed else input
    found: list[tuple[int, Tensor]] = []
    for i in reversed(range(lowest, width - signed)):
        is_set = left >= 2**i
        found.append((i, is_set))
        left = where(is_set, left - 2**i, left)
    return found


def _least(input: Tensor) -> int:
    return -(2 ** (input.dtype.bits - 1))


def _whole(op: str, input: Tensor, other: Value) -> tuple[Tensor, Tensor]:
    x, y = common(op, input, other)
    if x.dtype.is_float:
        raise fail(
            DtypeMismatch,
            op=op,
            name="an operand",
            got=x.dtype,
            expected="integers or bools",
            remedy="Compare floats first, as in x != 0, or cast with .to(lg.i64).",
        )
    return x, y


def _below(input: Tensor, count: int) -> Tensor:
    """The number that the lowest bits are, no sign among them."""
    signed = input.dtype.name[0] == "i"
    if count < input.dtype.bits - signed:
        return input % 2**count
    return where(input < 0, input - _least(input), input) if signed else input


def _masked(input: Tensor, mask: int) -> Tensor:
    """The bits that a number has too: of each run of ones, what is below its end less what is below its start."""
    if mask < 0:
        return input - _masked(input, ~mask)
    changes = mask ^ mask << 1  # a one where each run begins, and one where it has ended
    edges = [i for i in range(changes.bit_length()) if changes >> i & 1]
    out = zeros_like(input)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        out = out + _below(input, end)
        if start:
            out = out - _below(input, start)
    return out


def bitwise_and(input: Tensor, other: Value) -> Tensor:
    """Bits that both have; of bools, whether both hold.

    Of a tensor and a number as fast as a remainder. Slow of two tensors: some comparisons and choices for each bit that
    they may have; `range=` of an input says which these are.
    """
    x, y = _whole("and", input, other)
    if x.dtype.is_bool:
        return x.logical_and(y)
    if isinstance(other, int) and x.dtype.lowest <= other <= x.dtype.greatest:
        return _masked(x, other)
    total = where((x < 0) & (y < 0), _least(x), zeros_like(x)) if x.dtype.name[0] == "i" else None
    for (i, a), (_, b) in zip(_bits(x), _bits(y), strict=True):
        part = where(a & b, 2**i, zeros_like(x))
        total = part if total is None else total + part
    assert total is not None
    return total


def _number(given: Value, tensor: Tensor) -> Value:
    """A number as it was given, of which more is known than of a tensor."""
    return given if isinstance(given, int) else tensor


def bitwise_or(input: Tensor, other: Value) -> Tensor:
    """Bits that one of the two has: x + y less those that both have; of bools, whether one holds."""
    x, y = _whole("or", input, other)
    return x.logical_or(y) if x.dtype.is_bool else x + y - bitwise_and(x, _number(other, y))


def bitwise_xor(input: Tensor, other: Value) -> Tensor:
    """Bits that exactly one has: x + y less twice those that both have; of bools, whether one alone holds."""
    x, y = _whole("xor", input, other)
    return x.logical_xor(y) if x.dtype.is_bool else x + y - bitwise_and(x, _number(other, y)) * 2


def bitwise_not(input: Tensor) -> Tensor:
    """Every bit turned over: -1 - x; of bools, whether it does not hold."""
    x, _ = _whole("not", input, input)
    if x.dtype.is_bool:
        return x.logical_not()
    return -x - 1 if x.dtype.name[0] == "i" else 255 - x


def _two_to(count: Tensor) -> Tensor:
    """2^count for 0 <= count < the width of the dtype, as a product of those of its bits."""
    out = ones_like(count)
    for i in range((count.dtype.bits - 1).bit_length()):
        bit = count % 2 ** (i + 1) >= 2**i
        out = out * where(bit, 2 ** (2**i), ones_like(count))
    return out


def bitwise_left_shift(input: Tensor, other: Value) -> Tensor:
    """x 2^y, wrapped; 0 where y is not below the width."""
    x, y = _whole("bitwise_left_shift", input, other)
    inside = (y >= 0) & (y < x.dtype.bits)
    return where(inside, x * _two_to(where(inside, y, 0)), zeros_like(x))


def bitwise_right_shift(input: Tensor, other: Value) -> Tensor:
    """floor(x / 2^y); the sign alone where y is not below the width."""
    x, y = _whole("bitwise_right_shift", input, other)
    last = x.dtype.bits - (2 if x.dtype.name[0] == "i" else 1)
    inside = (y >= 0) & (y <= last)
    shifted = x // _two_to(where(inside, y, 0))
    return where(inside, shifted, where(x < 0, -1, zeros_like(x)))


def whole_power(base: Tensor, exponent: Tensor) -> Tensor:
    """base ** exponent of integers, wrapped; below 0 what is left of 1 / base: 0, or a power of 1 and -1."""
    out, square = ones_like(base), base
    for i, is_set in reversed(_bits(exponent)):
        if i:
            square = square * square
        out = where(is_set, out * square, out)
    if exponent.dtype.name[0] == "u":
        return out
    is_odd = exponent % 2 == 1
    of_minus_one = where(is_odd, -1, ones_like(base))
    below = where(base == 1, 1, where(base == -1, of_minus_one, zeros_like(base)))
    return where(exponent < 0, below, out)


def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor, by as many of Euclid's steps as the dtype's numbers can need."""
    x, y = _whole("gcd", input, other)
    x, y = x.abs(), y.abs()
    for _ in range({8: 13, 32: 46}.get(x.dtype.bits, 92)):  # Lame: 1.44 log2 of the smaller one
        x, y = where(y == 0, x, y), where(y == 0, 0, x % where(y == 0, 1, y))
    return x


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple; 0 of 0."""
    x, y = _whole("lcm", input, other)
    shared = gcd(x, y)
    return (x // where(shared == 0, 1, shared) * y).abs()
