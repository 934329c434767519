"""quotients: whole quotients of positions, which are traced as floats, as index expressions again.

    floor((i - i mod 128) * (1/128) + 1/2)    is    i // 128

A quotient of integers is exact by what it adds up (`_whole_quotient` of the frontend's elementary), and by its first
addend alone where that is exact, as here.
"""

from __future__ import annotations

import numpy as np

from lumigen.dtype import DType, f32, f64
from lumigen.index import Ix, ix
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Prim, as_index, const, index, is_zero, prim


def whole_number(e: Expr, dtype: DType) -> Expr | None:
    """A float as an integer, if it is the quotient of two that leaves no rest; else None."""
    found = _floored(e) if e.dtype in (f32, f64) and dtype.is_int else None
    return None if found is None else index(found, dtype)


def _floored(e: Expr) -> Ix | None:
    """q of floor(q + 1/2), spelled as x - x mod 1 where that rest is above 0, and as x elsewhere."""
    if not isinstance(e, Choose) or not isinstance(e.condition, Prim):
        return None
    x, below = e.otherwise, e.condition
    if below.op is not Op.LESS_THAN or not is_zero(below.args[0]):
        return None
    rest = below.args[1]
    one, minus = (const(value, x.dtype) for value in (1, -1))
    if rest is not prim(Op.MOD, (x, one), x.dtype):
        return None
    if e.then is not prim(Op.ADD, (x, prim(Op.MUL, (rest, minus), x.dtype)), x.dtype):
        return None
    is_above = isinstance(x, Prim) and x.op is Op.ADD and x.args[1] is const(0.5, x.dtype)
    return _quotient(x.args[0]) if is_above and isinstance(x, Prim) else None


def _quotient(e: Expr) -> Ix | None:
    """x / d of x (1 / d) for a multiple of an integer d."""
    if not isinstance(e, Prim) or e.op is not Op.MUL:
        return None
    dividend, divisor = _whole(e.args[0]), _divisor(e.args[1])
    if dividend is None or divisor is None or dividend % divisor != 0:
        return None
    return dividend // divisor


def _divisor(e: Expr) -> int | None:
    """d of 1 / d, as a number or as a reciprocal."""
    if isinstance(e, Prim) and e.op is Op.RECIP:
        (d,) = e.args
        whole = _whole(d)
        return whole.const if whole is not None and whole.is_const and whole.const > 0 else None
    if not isinstance(e, Const) or not 0 < e.value <= 1:
        return None
    d = round(1 / e.value)
    return d if e.value in (1 / d, float(np.float32(1 / d))) else None


def _whole(e: Expr) -> Ix | None:
    """A float that is an integer expression, so small that its quotients are nearly exact."""
    found: Ix | None = None
    if isinstance(e, Const) and float(e.value).is_integer():
        found = ix(round(e.value))
    elif isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.args[0].dtype.is_int:
        found = as_index(e.args[0])
    elif isinstance(e, Prim) and e.op in (Op.ADD, Op.MUL):
        a, b = map(_whole, e.args)
        if a is not None and b is not None:
            found = a + b if e.op is Op.ADD else a * b
    if found is None:
        return None
    ends = found.bounds()
    return found if all(end is not None and abs(end) < 2**50 for end in ends) else None
