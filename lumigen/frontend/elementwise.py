"""Functions of one element, or of one of each operand, written with the operators of tensors.

Promises PyTorch's limits at zeros and infinities, and no overflow on the way to a finite result.
The formula is each function's docstring; an error says how far f32 is from the truth, relatively.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, cast

from lumigen.dtype import boolean, f64, i32
from lumigen.errors import BadArgument
from lumigen.frontend import elementary, primitive
from lumigen.frontend.bitwise import whole_power
from lumigen.frontend.operand import (
    Value,
    choice,
    common,
    common_floats,
    dtype_of,
    first_tensor,
    floats,
    full_like,
    is_tensor,
    ones_like,
    raw,
    where,
    zeros_like,
)
from lumigen.frontend.primitive import Scalar
from lumigen.frontend.trace import fail

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor

LN_2 = math.log(2)


class Frexp(NamedTuple):
    """Mantissas, and exponents as i32."""

    mantissa: Tensor
    exponent: Tensor


LARGE = 1e9  # beyond it 1 + x^2 is x^2, in f64 too


# --- signs and parts ------------------------------------------------------------------------------


def positive(input: Tensor) -> Tensor:
    """+x."""
    return input


def signbit(input: Tensor) -> Tensor:
    """Whether the sign is negative, as bool; also of -0.0, but of no NaN."""
    if not input.dtype.is_float:
        return input < 0
    return (input < 0) | ((input == 0) & (input.reciprocal() < 0))


def copysign(input: Tensor, other: Value) -> Tensor:
    """|x| with the sign of `other`."""
    x, sign = common_floats("copysign", input, other)
    size = x.abs()
    return where(signbit(sign), -size, size)


def trunc(input: Tensor) -> Tensor:
    """The whole number next to x towards 0, in the same dtype."""
    return where(input < 0, input.ceil(), input.floor()) if input.dtype.is_float else input


def frac(input: Tensor) -> Tensor:
    """x - trunc(x)."""
    return input - trunc(input)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest whole number, the even one of two; with `decimals` the nearest multiple of 10^-decimals."""
    if not input.dtype.is_float:
        return input
    if decimals:
        power = float(10 ** abs(decimals))
        near = round(input * power if decimals > 0 else input / power)
        return near / power if decimals > 0 else near * power
    low = input.floor()
    rest = input - low
    half = low * 0.5  # no whole number if low is odd
    up = (rest > 0.5) | ((rest == 0.5) & (half.floor() < half))
    return where(up, -(-1 - low), low)  # low + 1, which of -1 is -0.0


def sgn(input: Tensor) -> Tensor:
    """1, 0 or -1: the sign."""
    return input.sign()


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, `values` at 0."""
    return where(input == 0, values, (input > 0).type_as(input))


def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Numbers for NaN (0) and the infinities (the greatest and least finite ones of the dtype)."""
    if not input.dtype.is_float:
        return input
    most = input.dtype.greatest
    out = where(input == math.inf, most if posinf is None else posinf, input)
    out = where(input == -math.inf, -most if neginf is None else neginf, out)
    return where(input.isnan(), 0.0 if nan is None else nan, out)


def angle(input: Tensor) -> Tensor:
    """The angle of a real number: pi below 0, else 0; NaN stays."""
    x = floats(input)
    return where(x < 0, math.pi, where(x.isnan(), x, 0.0))


# --- exponentials and logarithms ------------------------------------------------------------------


def expm1(input: Tensor) -> Tensor:
    """exp(x) - 1, accurate near 0, where it is its series: x + x^2/2! + x^3/3! + ..."""
    x = floats(input)
    terms = 17 if x.dtype is f64 else 9  # what is left out at 0.7 is a fifth of the last digit
    near = x * _polynomial(x, [1 / math.factorial(k + 1) for k in range(terms)])
    return where(x.abs() < 0.7, near, x.exp() - 1)


def log1p(input: Tensor) -> Tensor:
    """log(1 + x), accurate near 0, where it is 2 atanh(x / (2 + x)) as a series."""
    x = floats(input)
    terms = 16 if x.dtype is f64 else 9
    s = x / (x + 2)
    near = s * _polynomial(s * s, [2 / (2 * k + 1) for k in range(terms)])
    return where(x.abs() < 0.4, near, (x + 1).log())


def _polynomial(x: Tensor, coefficients: list[float]) -> Tensor:
    return x.of(elementary.polynomial(x.edge, coefficients))


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(y)): the greater one + log1p(exp(-|x - y|))."""
    x, y = common("logaddexp", input, other)
    apart = where(x == y, 0.0, (x - y).abs())  # infinities too
    return x.maximum(y) + log1p((-apart).exp())


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2^x + 2^y)."""
    x, y = common("logaddexp2", input, other)
    apart = where(x == y, 0.0, (x - y).abs())
    return x.maximum(y) + log1p((-apart).exp2()) / LN_2


def xlogy(input: Value, other: Value) -> Tensor:
    """x log(y), 0 where x is 0; NaN where y is."""
    x, y = common_floats("xlogy", input, other)
    return where(y.isnan(), y, where(x == 0, 0.0, x * y.log()))


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of x clamped to eps .. 1 - eps."""
    x = floats(input)
    x = x if eps is None else x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


def frexp(input: Tensor) -> Frexp:
    """(m, e) with x = m 2^e and 1/2 <= |m| < 1; what is 0 or not finite stays, with exponent 0."""
    x = floats(input)
    size = x.abs()
    ordinary = (size > 0) & (size < math.inf)
    safe = where(ordinary, size, 1.0)
    exponent = safe.log2().floor() + 1
    half = (exponent * 0.5).floor()  # two steps, as 2^-e may leave the range
    mantissa = safe * (-half).exp2() * (half - exponent).exp2()
    up, down = mantissa >= 1, mantissa < 0.5  # where log2 was rounded over a power of two
    exponent = where(up, exponent + 1, where(down, exponent - 1, exponent))
    mantissa = where(up, mantissa * 0.5, where(down, mantissa * 2, mantissa))
    signed = where(x < 0, -mantissa, mantissa)
    return Frexp(where(ordinary, signed, x), where(ordinary, exponent, 0.0).to(i32))


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """x * 2^y."""
    x, y = common_floats("ldexp", input, other)
    return x * y.exp2()


# --- trigonometric and hyperbolic functions -------------------------------------------------------


def atan(input: Tensor) -> Tensor:
    """The angle whose tangent is x: twice that of x / (1 + sqrt(1 + x^2)), two times, then a series."""
    x = floats(input)
    size = x.abs()
    small = where(size > 1, size.reciprocal(), size)
    for _ in range(2):
        small = small / ((small * small + 1).sqrt() + 1)
    terms = 12 if x.dtype is f64 else 6  # of small^2 < 0.04
    near = 4 * small * _polynomial(small * small, [(-1) ** k / (2 * k + 1) for k in range(terms)])
    near = where(size > 1, math.pi / 2 - near, near)
    return _odd(near, x)


def _odd(size: Tensor, x: Tensor) -> Tensor:
    """What a function f with f(-x) = -f(x) and f(0) = 0 is at x, from what it is at |x|; zeros keep their sign."""
    return where(x > 0, size, where(x < 0, -size, x))


def atan2(input: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, input), from -pi to pi."""
    y, x = common_floats("atan2", input, other)
    height, width = y.abs(), x.abs()
    low, high = height.minimum(width), height.maximum(width)
    ratio = where(high == 0, 0.0, where(low == math.inf, 1.0, low / high))
    near = atan(ratio)
    near = where(height > width, math.pi / 2 - near, near)
    near = where(signbit(x), math.pi - near, near)
    return where(signbit(y), -near, near)


def asin(input: Tensor) -> Tensor:
    """The angle whose sine is x: 2 atan(x / (1 + sqrt((1 - x) (1 + x))))."""
    x = floats(input)
    return 2 * atan(x / (((1 - x) * (x + 1)).sqrt() + 1))


def acos(input: Tensor) -> Tensor:
    """The angle whose cosine is x: 2 atan(sqrt((1 - x) / (1 + x)))."""
    x = floats(input)
    return 2 * atan(((1 - x) / (x + 1)).sqrt())


def sinh(input: Tensor) -> Tensor:
    """(exp(x) - exp(-x)) / 2; from exp(x / 2), which is finite where the result is."""
    x = floats(input)
    size = x.abs()
    e, h = expm1(size), (size * 0.5).exp()
    near = 0.5 * (e + e / (e + 1))
    far = 0.5 * h * h - 0.5 / (h * h)
    return _odd(where(size < 1, near, far), x)


def cosh(input: Tensor) -> Tensor:
    """(exp(x) + exp(-x)) / 2; from exp(x / 2), which is finite where the result is."""
    h = (floats(input).abs() * 0.5).exp()
    return 0.5 * h * h + 0.5 / (h * h)


def asinh(input: Tensor) -> Tensor:
    """log(x + sqrt(1 + x^2)), as log1p(|x| + x^2 / (1 + sqrt(1 + x^2))) with the sign of x."""
    x = floats(input)
    size = x.abs()
    square = size * size
    near = log1p(size + square / ((square + 1).sqrt() + 1))
    return _odd(where(size > LARGE, size.log() + LN_2, near), x)


def acosh(input: Tensor) -> Tensor:
    """log(x + sqrt(x^2 - 1)), as log1p(t + sqrt(t (t + 2))) with t = x - 1; NaN below 1."""
    x = floats(input)
    t = x - 1
    out = where(x > LARGE, x.log() + LN_2, log1p(t + (t * (t + 2)).sqrt()))
    return where(x < 1, math.nan, out)


def atanh(input: Tensor) -> Tensor:
    """log((1 + |x|) / (1 - |x|)) / 2 with the sign of x."""
    x = floats(input)
    size = x.abs()
    return _odd(0.5 * log1p(2 * size / (1 - size)), x)


def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x); 1 at 0."""
    x = floats(input)
    size = x.abs()
    wave = (size % 2 * math.pi).sin()  # the angle stays small
    return where(x == 0, 1.0, wave / (size * math.pi))


def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(x^2 + y^2) without overflow; infinite if one operand is."""
    x, y = common("hypot", input, other)
    x, y = x.abs(), y.abs()
    low, high = x.minimum(y), x.maximum(y)
    ratio = low / high
    out = where(high == 0, 0.0, high * (ratio * ratio + 1).sqrt())
    return where((x == math.inf) | (y == math.inf), math.inf, out)


def deg2rad(input: Tensor) -> Tensor:
    """x pi / 180."""
    return floats(input) * (math.pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """x 180 / pi."""
    return floats(input) * (180 / math.pi)


def erfc(input: Tensor) -> Tensor:
    """1 - erf(x), accurate where that is small: within 1e-5."""
    x = floats(input)
    return x.of(elementary.erfc(x.edge))


# --- arithmetic of several operands ---------------------------------------------------------------


def sub(input: Tensor, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """x - alpha y."""
    return input - _scaled("sub", input, other, alpha)


def add(input: Tensor, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """x + alpha y."""
    return input + _scaled("add", input, other, alpha)


def _scaled(op: str, input: Value, other: Value, alpha: Scalar) -> Value:
    """alpha y in the dtype that the result has."""
    if isinstance(alpha, int | float) and alpha == 1:
        return other
    dtype = dtype_of(op, input, other)
    if isinstance(alpha, float) and not dtype.is_float:
        expected = f"an integer, as the result is {dtype}"
        raise fail(BadArgument, op=op, name="alpha", value=alpha, expected=expected)
    factor = primitive.fill(op, raw(alpha), dtype)
    return first_tensor(op, input, other).of(
        primitive.mul(primitive.tensor(raw(other), dtype), factor)
    )


def rsub(input: Tensor, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """y - alpha x."""
    return input.of(elementary.sub(raw(other), raw(_scaled("rsub", other, input, alpha))))


def mul(input: Tensor, other: Value) -> Tensor:
    """x y."""
    return input * other


def div(input: Tensor, other: Value, *, rounding_mode: str | None = None) -> Tensor:
    """x / y; rounded `floor` or `trunc` (towards 0) where that is asked for, of integers exactly."""
    choice("div", "rounding_mode", rounding_mode, None, "floor", "trunc")
    if rounding_mode is None:
        return input / other
    low = input // other
    if rounding_mode == "floor":
        return low
    if low.dtype.is_float:
        return trunc(input / other)
    rest, negative = input % other, (input < 0) ^ (zeros_like(input) > other)
    return where(negative & (rest != 0), low + 1, low)


def fmod(input: Tensor, other: Value) -> Tensor:
    """The remainder with the sign of x."""
    x, y = common("fmod", input, other)
    if not x.dtype.is_float:
        rest = x % y
        return where((rest != 0) & ((rest < 0) ^ (x < 0)), rest - y, rest)
    return copysign(x.abs() % y.abs(), x)


def lerp(input: Tensor, end: Tensor, weight: Value) -> Tensor:
    """x + weight (end - x), taken from the nearer end."""
    way = end - input
    if is_tensor(weight):
        return where(weight < 0.5, input + way * weight, end - way * (1 - weight))
    assert isinstance(weight, int | float)
    return input + way * weight if weight < 0.5 else end - way * (1 - weight)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """x + value a b."""
    x, a, b = common("addcmul", input, tensor1, tensor2)
    return x + a * b * x.of(primitive.fill("addcmul", raw(value), x.dtype))


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """x + value a / b."""
    x, a, b = common_floats("addcdiv", input, tensor1, tensor2)
    return x + a / b * value


def clamp_min(input: Tensor, min: Value) -> Tensor:
    """max(x, `min`)."""
    return input.clamp(min=min)


def clamp_max(input: Tensor, max: Value) -> Tensor:
    """min(x, `max`)."""
    return input.clamp(max=max)


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The greater of two elements, or the one that is no NaN."""
    x, y = common("fmax", input, other)
    return where(x.isnan(), y, where(y.isnan(), x, x.maximum(y)))


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The lesser of two elements, or the one that is no NaN."""
    x, y = common("fmin", input, other)
    return where(x.isnan(), y, where(y.isnan(), x, x.minimum(y)))


def pow(input: Value, exponent: Value) -> Tensor:
    """x ** y: exact products for integers, also as exponents; else exp2(y log2(|x|)) with the sign of x."""
    if not is_tensor(input):
        return rpow(first_tensor("pow", input, exponent), cast("Scalar", input))
    if not is_tensor(exponent) and not (
        isinstance(exponent, float) and not math.isfinite(exponent)
    ):
        return _scalar_power(input, cast("Scalar", exponent))
    x, y = common("pow", input, exponent)
    if not x.dtype.is_float:
        return whole_power(*((x.long(), y.long()) if x.dtype.is_bool else (x, y)))
    size = x.abs()
    magnitude = where(size == 1, 1.0, (y * size.log2()).exp2())
    out = where(signbit(x) & (y % 2 == 1), -magnitude, magnitude)
    root = (x < 0) & (y.floor() != y) & (size != math.inf)
    return where(y == 0, 1.0, where(root, math.nan, out))


def _scalar_power(input: Tensor, exponent: Scalar) -> Tensor:
    dtype = dtype_of("pow", input, exponent)
    if dtype.is_bool:
        return input if exponent else ones_like(input)
    return input.of(elementary.power(primitive.cast(input.edge, dtype), exponent))


def rpow(input: Tensor, base: Scalar) -> Tensor:
    """base ** x of a number."""
    of_any_sign = isinstance(base, int | float) and (not base > 0 or base == math.inf)
    if of_any_sign or (isinstance(base, int) and not input.dtype.is_float):
        exponent, bases = common("pow", input, base)
        return pow(bases, exponent)
    return input.of(elementary.exponential(base, input.edge))


def float_power(input: Value, exponent: Value) -> Tensor:
    """x ** y in f64."""
    return pow(*(v.to(f64) if is_tensor(v) else v for v in (input, exponent)))


# --- truth ----------------------------------------------------------------------------------------


def isposinf(input: Tensor) -> Tensor:
    """Where an element is inf, as bool."""
    return input == math.inf if input.dtype.is_float else zeros_like(input, dtype=boolean)


def isneginf(input: Tensor) -> Tensor:
    """Where an element is -inf, as bool."""
    return input == -math.inf if input.dtype.is_float else zeros_like(input, dtype=boolean)


def isreal(input: Tensor) -> Tensor:
    """True: there are no complex dtypes."""
    return full_like(input, True, dtype=boolean)


def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """|x - y| <= atol + rtol |y|, or x == y, as bool; NaN equals NaN if `equal_nan`."""
    x, y = common("isclose", input, other)
    if x.dtype.is_float:
        near = ((x - y).abs() <= atol + rtol * y.abs()) & x.isfinite() & y.isfinite()
    else:
        wide = x.to(f64), y.to(f64)
        near = (wide[0] - wide[1]).abs() <= atol + rtol * wide[1].abs()
    out = (x == y) | near
    return out | (x.isnan() & y.isnan()) if equal_nan else out


def equal(input: Tensor, other: Tensor) -> Tensor:
    """Whether both have one shape and equal elements: a 0-d bool, since no value is known while tracing."""
    if input.extents != other.extents:
        return input.of(elementary.constant(value=False, dtype=boolean))
    return (input == other).all()


def allclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether all elements are close: a 0-d bool."""
    return isclose(input, other, rtol, atol, equal_nan).all()
