"""named: expressions of primitives as the intrinsics that they are, for the text of a kernel.

Promises the same value of every operand, NaN and infinities included. It does not look into reductions, whose terms
become statements of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial, reduce

from lumigen.dtype import bf16, boolean, f16, f32, f64, i8, u8
from lumigen.lower.algebra import is_not_nan
from lumigen.lower.whole import divided, in_floats
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Const,
    Expr,
    Index,
    Intrinsic,
    Prim,
    Reduce,
    Scan,
    children,
    choose,
    const,
    intrinsic,
    is_true,
    negation,
    prim,
    rebuild,
)

DIGITS = 32  # of a number whose product with a whole exponent is exact
ROUNDED = Fraction(1, 1 << 50)  # a scale has as many digits as a double, and its inverse no fewer
FAR = 1200  # beyond which the headers' vectors have no power of two; each one is infinite or zero there


@remembered
def named(e: Expr) -> Expr:
    """The same value, with an intrinsic wherever primitives say one."""
    if isinstance(e, Reduce | Scan) or not children(e):
        return e
    if (x := is_not_nan(e)) is not None:
        return negation(_truth("is_nan", named(x)))
    if _is_conjunction(e):
        return _conjunction([named(x) for x in _factors(e)])
    e = rebuild(e, named, lambda i: i)
    if isinstance(e, Choose):
        return divided(_chosen(e))
    if isinstance(e, Prim) and e.op is Op.MOD:
        return divided(e)
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype in (f32, i8, u8):
        return _from_integer(e) if e.dtype is f32 else _saturated(e)
    denied = _denied(e)
    return _magnitude(e) or _power(e) or _split_power(e) or e if denied is None else _denial(denied)


def _power(e: Expr) -> Expr | None:
    """`2^(log2(x) * y)` by one function: a logarithm that is rounded and shared with another power costs digits."""
    exponent = e.args[0] if isinstance(e, Prim) and e.op is Op.EXP2 else None
    if isinstance(exponent, Prim) and exponent.op is Op.MUL:
        for x, y in (exponent.args, exponent.args[::-1]):
            if isinstance(x, Prim) and x.op is Op.LOG2:
                return intrinsic("power", (*x.args, y), e.dtype)
    return None


def _split_power(e: Expr) -> Expr | None:
    """2^(a scale) of doubles as exp writes it: `2^n 2^((a - n upper - n lower) scale)` with n below `a scale`."""
    if not isinstance(e, Prim) or e.op is not Op.MUL or e.dtype is not f64:
        return None
    n, exponent = (x.args[0] if isinstance(x, Prim) and x.op is Op.EXP2 else None for x in e.args)
    scaled = _factors_of(exponent)
    outer = None if scaled is None else _difference(scaled[0])
    inner = None if outer is None else _difference(outer[0])
    if scaled is None or outer is None or inner is None:
        return None
    (_, scale), (_, by_lower), (a, by_upper) = scaled, outer, inner
    lower, upper = (_factors_of(x) for x in (by_lower, by_upper))
    if lower is None or upper is None or not lower[0] is upper[0] is n:
        return None
    product, one, minus = prim(Op.MUL, (a, scale), f64), const(1, f64), const(-1, f64)
    fraction = prim(Op.MUL, (prim(Op.MOD, (product, one), f64), minus), f64)
    is_whole_part = n is prim(Op.ADD, (product, fraction), f64)
    if not is_whole_part or not _is_inverse(scale, upper[1], lower[1]) or not _is_near(a, scale):
        return None
    return intrinsic("exp2_split", (a, scale, upper[1], lower[1]), f64)


def _is_inverse(scale: Const, upper: Const, lower: Const) -> bool:
    """Whether 1 / scale is the sum of both, and n upper exact: any whole number may be split off then."""
    if scale.value == 0 or not math.isfinite(scale.value):
        return False
    parts = Fraction(upper.value), Fraction(lower.value)
    digits = parts[0].numerator.bit_length()
    return digits <= DIGITS and abs(sum(parts) * Fraction(scale.value) - 1) < ROUNDED


def _is_near(a: Expr, scale: Const) -> bool:
    """Whether a number is held between two ends, so that vectors have a power of two for each whole exponent."""
    if not isinstance(a, Choose) or not isinstance(a.otherwise, Intrinsic):
        return False
    high, inner = a.then, a.otherwise
    if inner.name != "max_ordered":
        return False
    x, low = inner.args
    is_top = a.condition is prim(Op.LESS_THAN, (high, x), boolean)
    ends = [abs(e.value * scale.value) for e in (high, low) if isinstance(e, Const)]
    return is_top and len(ends) == 2 and max(ends) <= FAR


def _factors_of(e: Expr | None) -> tuple[Expr, Const] | None:
    """x and c of `x c`."""
    if isinstance(e, Prim) and e.op is Op.MUL and isinstance(e.args[1], Const):
        return e.args[0], e.args[1]
    return None


def _difference(e: Expr) -> tuple[Expr, Expr] | None:
    """x and y of `x - y`."""
    if not isinstance(e, Prim) or e.op is not Op.ADD:
        return None
    subtracted = _factors_of(e.args[1])
    is_negation = subtracted is not None and subtracted[1].value == -1
    return (e.args[0], subtracted[0]) if subtracted is not None and is_negation else None


def _truth(name: str, *args: Expr) -> Expr:
    return intrinsic(name, args, boolean)


# ---- conditions ----


def _is_conjunction(e: Expr) -> bool:
    return isinstance(e, Prim) and e.op is Op.MUL and e.dtype.is_bool


def _factors(e: Expr) -> Iterator[Expr]:
    """What all has to hold, in order."""
    if not _is_conjunction(e):
        yield e
        return
    for x in children(e):
        yield from _factors(x)


def _conjunction(conditions: Iterable[Expr]) -> Expr:
    """All of the conditions; those that say one thing together stand where the first of them stood."""
    left = dict.fromkeys(conditions)
    implied: set[Expr] = set()
    for c in tuple(left):
        found = _together(c, left) if c in left else None
        if found is None:
            continue
        whole, others, ordered = found
        left = {whole if x is c else x: None for x in left if x not in others}
        implied |= ordered
    kept = [x for x in left if x not in implied]
    return reduce(lambda a, b: prim(Op.MUL, (a, b), boolean), kept)


def _together(c: Expr, left: Iterable[Expr]) -> tuple[Expr, set[Expr], set[Expr]] | None:
    """The intrinsic that a condition says with others: those it replaces, and those that it implies."""
    denied = _denied(c)
    if denied is None:
        x, top = _compared(c) or (c, c)
        if not isinstance(top, Const) or top.value != math.inf:
            return None
        lowest = prim(Op.LESS_THAN, (const(-math.inf, x.dtype), x), boolean)
        return (_truth("is_finite", x), {lowest}, set()) if lowest in left else None
    if isinstance(denied, Intrinsic) and denied.name == "is_finite":
        number = negation(_truth("is_nan", *denied.args))
        return (_truth("is_inf", *denied.args), {number}, set()) if number in left else None
    pair = _compared(denied)
    if pair is None:
        return None
    b, a = pair  # not b < a
    numbers = {negation(_truth("is_nan", x)) for x in pair if _may_be_nan(x)}
    if not numbers <= set(left):
        return None
    mirror = negation(prim(Op.LESS_THAN, (a, b), boolean))
    return (
        (_truth("eq", b, a), {mirror}, numbers)
        if mirror in left
        else (_truth("le", a, b), set(), numbers)
    )


def _denied(e: Expr) -> Expr | None:
    """What a condition says not to hold."""
    is_denial = isinstance(e, Prim) and e.op is Op.LESS_THAN and is_true(e.args[1])
    return children(e)[0] if is_denial else None


def _denial(e: Expr) -> Expr:
    """Not the condition: another one, or one of those that a conjunction denies."""
    if isinstance(e, Intrinsic) and e.name == "eq":
        return _truth("ne", *e.args)
    factors = list(_factors(e))
    if len(factors) == 1 or not any(_denied(x) for x in factors):
        return negation(e)
    return reduce(partial(_truth, "mask_or"), map(_denial, factors))


def _compared(e: Expr) -> tuple[Expr, Expr] | None:
    """The two numbers of which the first is less, if the condition says so."""
    if not isinstance(e, Prim) or e.op is not Op.LESS_THAN or e.args[0].dtype.is_bool:
        return None
    return e.args[0], e.args[1]


def _may_be_nan(e: Expr) -> bool:
    return e.dtype.is_float and not (isinstance(e, Const) and not math.isnan(e.value))


# ---- numbers ----


def _from_integer(e: Prim) -> Expr:
    """A float of a small integer that is computed from others: computed as a float from the start."""
    (x,) = e.args
    is_rounded = x.dtype in (f16, bf16) and isinstance(x, Prim) and x.op is Op.CONTIGUOUS
    if is_rounded and isinstance(x, Prim):
        (x,) = x.args  # floats of 16 bits have each integer of 8
    found = in_floats(x) if isinstance(x, Index | Prim | Choose) and x.dtype.is_int else None
    if found is None or (is_rounded and max(-found.lo, found.hi) > u8.greatest):
        return e
    return found.value


def _saturated(e: Prim) -> Expr:
    """A cast of a float to an integer, without ends that the integer has itself."""
    (x,) = e.args
    while x.dtype is f32 and isinstance(x, Intrinsic) and x.name in ("max_ordered", "min_ordered"):
        a, end = x.args
        most = x.name == "min_ordered"
        if not isinstance(end, Const) or end.value != (
            e.dtype.greatest if most else e.dtype.lowest
        ):
            break
        x = a
    return prim(Op.CONTIGUOUS, (x,), e.dtype)


def _chosen(e: Choose) -> Expr:
    if e.dtype.is_float and (found := _extremum(e) or _floor(e) or _nearest(e)) is not None:
        return found
    denied = _denied(e.condition)
    return e if denied is None else choose(denied, e.otherwise, e.then)


def _extremum(e: Choose) -> Expr | None:
    """max and min: `a < b ? b : a`, whose condition may also hold where b is NaN."""
    a, b = e.otherwise, e.then
    nan = _truth("is_nan", b)
    for name, pair, mirror in (("max", (a, b), (b, a)), ("min", (b, a), (a, b))):
        less = prim(Op.LESS_THAN, pair, boolean)
        if e.condition is less:
            return intrinsic(f"{name}_ordered", (a, b), e.dtype)
        if e.condition in (_truth("mask_or", less, nan), negation(_truth("le", *mirror))):
            return intrinsic(f"{name}_nan", (a, b), e.dtype)
    return None


def _floor(e: Choose) -> Expr | None:
    """floor(x): `0 < m ? x - m : x` of the remainder m = x mod 1."""
    x, pair = e.otherwise, _compared(e.condition)
    if pair is None:
        return None
    zero, m = pair
    remainder = prim(Op.MOD, (x, const(1, x.dtype)), x.dtype)
    below = prim(Op.ADD, (x, prim(Op.MUL, (m, const(-1, x.dtype)), x.dtype)), x.dtype)
    is_floor = zero is const(0, x.dtype) and m is remainder and e.then is below
    return intrinsic("floor", (x,), e.dtype) if is_floor else None


def _nearest(e: Choose) -> Expr | None:
    """round(x): floor(x), or 1 more where what is left is above a half, or a half and floor(x) odd."""
    low, dtype = e.otherwise, e.dtype
    if not isinstance(low, Intrinsic) or low.name != "floor":
        return None
    (x,), one = low.args, const(-1, dtype)
    minus = prim(Op.MUL, (low, one), dtype)
    rest, odd = prim(Op.ADD, (x, minus), dtype), prim(Op.MUL, (low, const(0.5, dtype)), dtype)
    above = prim(Op.LESS_THAN, (const(0.5, dtype), rest), boolean)
    is_odd = prim(Op.LESS_THAN, (intrinsic("floor", (odd,), dtype), odd), boolean)
    half = _truth("eq", rest, const(0.5, dtype))
    up = _truth("mask_or", above, prim(Op.MUL, (half, is_odd), boolean))
    sums = (prim(Op.ADD, pair, dtype) for pair in ((minus, one), (one, minus)))
    is_more = any(e.then is prim(Op.MUL, (total, one), dtype) for total in sums)
    is_nearest = e.condition is up and is_more
    return intrinsic("round_even", (x,), dtype) if is_nearest else None


def _magnitude(e: Expr) -> Expr | None:
    """abs(x): `x < 0 ? -x : x` plus 0, which makes -0 to 0."""
    if not isinstance(e, Prim) or e.op is not Op.ADD or e.args[1] is not const(0, e.dtype):
        return None
    chosen = e.args[0]
    if not isinstance(chosen, Choose) or not e.dtype.is_float:
        return None
    x = chosen.otherwise
    is_below = chosen.condition is prim(Op.LESS_THAN, (x, const(0, x.dtype)), boolean)
    is_magnitude = is_below and chosen.then is prim(Op.MUL, (x, const(-1, x.dtype)), x.dtype)
    return intrinsic("abs", (x,), e.dtype) if is_magnitude else None
