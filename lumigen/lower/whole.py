"""whole: small integers as floats of the same value, which vectors compute with.

Bits of packed numbers are remainders and quotients of small integers, and f32 holds each integer up to 2^24:

    f32(q % 16)                      whole_remainder(x, 16) of x = f32(q)
    f32(u8(floor((x + 0.5)/16)))     whole_quotient(x, 16)
    x % 16                           whole_remainder(x, 16)
    f32(u8(x))                       saturated_u8(x)

Targets have words for these, as bits of several bytes at a time may be found at once.

Promises the same value wherever it gives one: bounds show that each step is exact and that no integer wraps around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

from lumigen.dtype import f32, i8, u8
from lumigen.index import Atom, Ix, Lookup, Quotient, Remainder
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Index,
    Intrinsic,
    Prim,
    Read,
    choose,
    const,
    intrinsic,
    prim,
    read,
)

MOST = 1 << 24  # f32 has each integer up to here
ROUNDED = 2.0**-20  # by which some steps in f32 may be off, relative to the greatest value


@dataclass(frozen=True)
class Floats:
    """A value of f32 between `lo` and `hi`; `is_whole`: an integer, and each step to it is exact."""

    value: Expr
    lo: float
    hi: float
    is_whole: bool = True


@remembered
def in_floats(e: Expr) -> Floats | None:
    """A small integer as a float; None where bounds do not show that it is one."""
    if isinstance(e, Const):
        return _constant(int(e.value)) if abs(e.value) <= MOST else None
    if isinstance(e, Read):
        cast = prim(Op.CONTIGUOUS, (e,), f32)
        is_small = e.source.dtype in (i8, u8)
        return Floats(cast, e.dtype.lowest, e.dtype.greatest) if is_small else None
    if isinstance(e, Index):
        return _of_index(e.value)
    if isinstance(e, Choose):
        then, otherwise = in_floats(e.then), in_floats(e.otherwise)
        if then is None or otherwise is None:
            return None
        value = choose(e.condition, then.value, otherwise.value)
        return Floats(value, min(then.lo, otherwise.lo), max(then.hi, otherwise.hi))
    if not isinstance(e, Prim) or not e.dtype.is_int:
        return None
    found = _of_cast(e) if e.op is Op.CONTIGUOUS else _of_arithmetic(e)
    return found if found is not None and _holds(e, found) else None


def _holds(e: Expr, found: Floats) -> bool:
    """Whether the integer's own type has all values between the bounds, and f32 too."""
    lo, hi = max(e.dtype.lowest, -MOST), min(e.dtype.greatest, MOST)
    return lo <= found.lo and found.hi <= hi


def _of_cast(e: Prim) -> Floats | None:
    (x,) = e.args
    if x.dtype.is_int:
        return in_floats(x)
    span = _span(x) if x.dtype is f32 else None
    if span is not None and span.is_whole and _holds(e, span):
        return span
    if x.dtype is not f32 or e.dtype not in (i8, u8):
        return None
    value = intrinsic(f"saturated_{e.dtype.name}", (x,), f32)
    return Floats(value, e.dtype.lowest, e.dtype.greatest)


def _of_arithmetic(e: Prim) -> Floats | None:
    parts = [in_floats(a) for a in e.args]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    if e.op is Op.MOD:
        divisor = e.args[1]
        return _remainder(parts[0], divisor.value) if isinstance(divisor, Const) else None
    return _combined(e.op, parts[0], parts[1])


def _of_index(i: Ix) -> Floats | None:
    """A sum of multiples of what small integers in memory say; an index is computed without wrapping around."""
    terms: list[Floats | None] = []
    for monomial, factor in i.terms:
        factors = [_of_atom(a) for a in monomial]
        terms.append(_all(Op.MUL, factors if factor == 1 else [*factors, _constant(factor)]))
    total = _all(Op.ADD, terms if terms and i.const == 0 else [*terms, _constant(i.const)])
    return total if total is not None and total.is_whole else None


def _all(op: Op, parts: list[Floats | None]) -> Floats | None:
    """The sum or the product of one or more."""
    return reduce(lambda a, b: a and b and _combined(op, a, b), parts)


def _of_atom(a: Atom) -> Floats | None:
    if isinstance(a, Lookup):
        small = isinstance(a.source, Buffer) and a.source.dtype in (i8, u8)
        return in_floats(read(a.source, a.at)) if isinstance(a.source, Buffer) and small else None
    if not isinstance(a, Quotient | Remainder) or not a.denominator.is_const:
        return None
    inner = _of_index(a.numerator)
    if inner is None:
        return None
    size = a.denominator.const
    return _remainder(inner, size) if isinstance(a, Remainder) else _quotient(inner, size)


def _constant(value: int) -> Floats:
    return Floats(const(value, f32), value, value, abs(value) <= MOST)


def _combined(op: Op, a: Floats, b: Floats) -> Floats | None:
    if op is Op.ADD:
        lo, hi = a.lo + b.lo, a.hi + b.hi
    elif op is Op.MUL:
        ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        lo, hi = min(ends), max(ends)
    else:
        return None
    whole = a.is_whole and b.is_whole and max(-lo, hi) <= MOST
    return Floats(prim(op, (a.value, b.value), f32), lo, hi, whole)


def _whole_quotient(e: Expr) -> Floats | None:
    """floor(x/size) of floor((x + c)/size), with an integer x and a c, if there is one, that reaches no other one."""
    if not isinstance(e, Prim) or e.op is not Op.MUL or not isinstance(e.args[1], Const):
        return None
    x, factor = e.args[0], e.args[1].value
    if (
        isinstance(x, Prim)
        and x.op is Op.ADD
        and isinstance(c := x.args[1], Const)
        and 0 <= c.value < 1
    ):
        x = x.args[0]
    whole = _span(x) if 0 < factor <= 1 else None
    return None if whole is None or not whole.is_whole else _quotient(whole, 1 / factor)


def _whole_remainder(e: Prim) -> Floats | None:
    size, whole = e.args[1], _span(e.args[0])
    if whole is None or not whole.is_whole or not isinstance(size, Const):
        return None
    return _remainder(whole, size.value)


def divided(e: Expr) -> Expr:
    """The quotient or the remainder of a small integer by a power of two, where floats say it; else the value."""
    found = None
    if isinstance(e, Intrinsic) and e.name == "floor":
        found = _whole_quotient(e.args[0])
    elif isinstance(e, Prim) and e.op is Op.MOD and e.dtype is f32:
        found = _whole_remainder(e)
    return e if found is None else found.value


def _quotient(a: Floats, size: float) -> Floats | None:
    """By a power of two, by which f32 divides exactly."""
    if size == 1:
        return a
    if size < 1 or math.frexp(size)[0] != 0.5 or not a.is_whole:
        return None
    value = intrinsic("whole_quotient", (a.value, const(size, f32)), f32)
    return Floats(value, a.lo // size, a.hi // size)


def _remainder(a: Floats, size: float) -> Floats | None:
    if a.is_whole and a.lo >= 0 and a.hi < size:
        return a
    if _quotient(a, size) is None:
        return None
    return Floats(intrinsic("whole_remainder", (a.value, const(size, f32)), f32), 0, size - 1)


@remembered
def _span(e: Expr) -> Floats | None:
    """The bounds of a float of small integers, if it is one."""
    if isinstance(e, Const):
        is_whole = math.isfinite(e.value) and e.value == int(e.value)
        return Floats(e, e.value, e.value, is_whole) if math.isfinite(e.value) else None
    if isinstance(e, Intrinsic) and e.name in ("whole_quotient", "whole_remainder"):
        inner, size = _span(e.args[0]), e.args[1]
        divides = _quotient if e.name == "whole_quotient" else _remainder
        return divides(inner, size.value) if inner and isinstance(size, Const) else None
    if isinstance(e, Intrinsic) and e.name == "floor":
        if (whole := _whole_quotient(e.args[0])) is not None:
            return whole
        inner = _span(e.args[0])
        if inner is None:
            return None
        slack = ROUNDED * max(-inner.lo, inner.hi)
        return Floats(e, math.floor(inner.lo - slack), math.floor(inner.hi + slack))
    if not isinstance(e, Prim) or e.dtype is not f32:
        return None
    if e.op is Op.MOD:
        return _whole_remainder(e)
    if e.op is Op.CONTIGUOUS:
        found = in_floats(e.args[0]) if e.args[0].dtype.is_int else None
        return found and Floats(e, found.lo, found.hi)
    if e.op not in (Op.ADD, Op.MUL):
        return None
    a, b = map(_span, e.args)
    found = a and b and _combined(e.op, a, b)
    return found and Floats(e, found.lo, found.hi, found.is_whole)
