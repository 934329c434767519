"""Elementary functions composed of the twelve ops; each says its formula and how accurate it is.

Promises the limits at the infinities, no overflow to NaN on the way, and NaN for NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from lumigen.dtype import f32, f64, i64, u8
from lumigen.errors import BadArgument, DtypeMismatch
from lumigen.frontend.compare import INF, eq, isnan, maximum, minimum, where
from lumigen.frontend.extents import check_extent
from lumigen.frontend.primitive import (
    Edge,
    Operand,
    Scalar,
    add,
    both,
    cast,
    constant,
    exact,
    exp2,
    floating,
    is_scalar,
    less,
    log2,
    matched,
    matched_floats,
    mod,
    mul,
    numbers,
    recip,
    sin,
    size,
    sqrt,
)
from lumigen.frontend.trace import fail
from lumigen.index import Ix, Symbolic, ix
from lumigen.ops import HALF_TURN

LN_2 = math.log(2)
LOG2_E = 1 / Fraction("0.6931471805599453094172321214581765680755")  # with more digits than f64
MOST_PRODUCTS = 8  # the greatest whole power that is written as products: each rounds
BEYOND_F64 = 1100.0  # a power of two that is infinite, and whose inverse is 0


def neg(a: Edge) -> Edge:
    """a * -1."""
    return mul(numbers("neg", a), -1)


def sub(a: Operand, b: Operand) -> Edge:
    """a + b * -1."""
    left, right = matched("sub", a, b)
    return add(left, neg(right))


def div(a: Operand, b: Operand) -> Edge:
    """a * recip(b), rounded once; integers are divided as f32."""
    left, right = matched_floats("div", a, b)
    return mul(left, recip(right))


def square(a: Edge) -> Edge:
    return mul(a, a)


def absolute(a: Edge) -> Edge:
    """where(a < 0, -a, a) + 0.0, which turns -0.0 into 0.0."""
    if a.dtype.is_bool:
        return a
    return add(_magnitude(a), 0.0) if a.dtype.is_float else _magnitude(a)


def _magnitude(a: Edge) -> Edge:
    """|a|, but -0.0 stays."""
    return where(less(a, constant(0, a.dtype)), neg(a), a)


def exp(a: Edge) -> Edge:
    """exp2(a * log2(e)), within 1.2 ulp in f32 and 2 in f64."""
    return exp2_scaled(a, LOG2_E)


def exp2_scaled(a: Edge, scale: Fraction) -> Edge:
    """exp2(a * scale), where the exponent of a large result would need more digits than its type has.

    In f32 `scale` keeps those of f64, and kernels do not round the product. In f64 the exponent's whole part n goes
    apart: what n / scale leaves of `a` is exact, for n / scale is the sum of two numbers (W. J. Cody and W. Waite,
    Software Manual for the Elementary Functions, 1980).
    """
    a = floating(a)
    if a.dtype is not f64:
        return exp2(mul(a, exact(float(scale), a.dtype)))
    unit = math.ldexp(1, math.frexp(1 / scale)[1] - 32)
    # 32 bits, so that the product with a whole number of 21 bits is exact.
    upper = round(1 / scale / Fraction(unit)) * unit
    lower = float(1 / scale - Fraction(upper))
    end = BEYOND_F64 / abs(float(scale))
    a = where(less(end, a), end, where(less(a, -end), -end, a))
    exponent = mul(a, float(scale))
    n = sub(exponent, mod(exponent, 1))
    rest = sub(sub(a, mul(n, upper)), mul(n, lower))
    return mul(exp2(n), exp2(mul(rest, float(scale))))


def log(a: Edge) -> Edge:
    """log2(a) * ln(2)."""
    return mul(log2(a), LN_2)


def log10(a: Edge) -> Edge:
    return mul(log2(a), math.log10(2))


def rsqrt(a: Edge) -> Edge:
    return recip(sqrt(a))


def cos(a: Edge) -> Edge:
    """sin(a + pi/2), whose sum is not rounded: it would cost large angles their accuracy."""
    a = floating(a)
    return sin(add(a, exact(HALF_TURN, a.dtype)))


def tan(a: Edge) -> Edge:
    """sin(a) / cos(a)."""
    return mul(sin(a), recip(cos(a)))


def sigmoid(a: Edge) -> Edge:
    """recip(1 + exp(-a))."""
    return recip(add(exp2_scaled(a, -LOG2_E), 1))


def relu(a: Edge) -> Edge:
    """max(a, 0)."""
    return maximum(a, 0)


def silu(a: Edge) -> Edge:
    """a * sigmoid(a)."""
    return mul(a, sigmoid(a))


# log(1 + u) = 2 atanh(s) with s = u / (2 + u): 2 s times this in s^2, relative error 2e-9 for u <= 1.
_LOG1P = tuple(2 / (2 * k + 1) for k in range(8))


def softplus(a: Edge) -> Edge:
    """max(a, 0) + log(1 + exp(-|a|)), whose logarithm keeps its accuracy where 1 + u rounds to 1."""
    a = floating(a)
    u = exp(neg(absolute(a)))
    s = mul(u, recip(add(u, 2)))
    near = mul(s, polynomial(mul(s, s), _LOG1P))
    return add(relu(a), where(less(u, 0.1), near, log(add(u, 1))) if a.dtype is f64 else near)


def polynomial(x: Edge, coefficients: Sequence[float]) -> Edge:
    """Horner's rule; the constant term comes first."""
    out = add(mul(x, coefficients[-1]), coefficients[-2])
    for c in reversed(coefficients[:-2]):
        out = add(mul(out, x), c)
    return out


# --- tanh -----------------------------------------------------------------------------------------

# S. L. Moshier, Cephes: tanhf for |x| < 0.625 is x + x y P(y), y = x^2, relative error 2e-8.
_TANH = (
    -3.33332819422e-1,
    1.33314422036e-1,
    -5.37397155531e-2,
    2.06390887954e-2,
    -5.70498872745e-3,
)
# Pade [7/6] of tanh(x) / x in y = x^2; relative error 2e-16 on |x| < 0.55.
_TANH_OVER = (135135.0, 17325.0, 378.0, 1.0)
_TANH_UNDER = (135135.0, 62370.0, 3150.0, 28.0)


def tanh(a: Edge) -> Edge:
    """1 - 2 / (exp(2a) + 1), which cancels near 0 and gives way there to an odd function."""
    a = floating(a)
    y = mul(a, a)
    far = add(mul(recip(add(exp2_scaled(a, 2 * LOG2_E), 1)), -2), 1)
    if a.dtype is f64:
        near = mul(a, mul(polynomial(y, _TANH_OVER), recip(polynomial(y, _TANH_UNDER))))
        return where(less(y, 0.3), near, far)
    near = mul(a, add(mul(y, polynomial(y, _TANH)), 1))
    return where(less(y, 0.39), near, far)


# --- erf and gelu ---------------------------------------------------------------------------------

# The rational approximation of Eigen and XLA (fast erf): x P(x^2) / Q(x^2) for |x| < 3.8325, where
# erf rounds to 1 in f32; relative error 4e-8, in f32 4e-7.
_ERF_END = 3.832506856900711
_ERF_OVER = (
    1.128379143519084,
    0.18520832239976145,
    0.050955695062380861,
    0.0034082910107109506,
    0.00022905065861350646,
)
_ERF_UNDER = (
    1.0,
    0.49746925110067538,
    0.11098505178285362,
    0.014070470171167667,
    0.0010179625278914885,
    0.000023547966471313185,
    -1.1791602954361697e-7,
)
# Taylor's series of erf(x) / x in x^2; relative error 1e-17 for |x| < 0.5.
_ERF_NEAR = tuple(
    2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13)
)
# Chebyshev coefficients of (1 + 2x) exp(x^2) erfc(x) in (x - 3.75) / (x + 3.75): M. M. Shepherd
# and J. G. Laframboise, Math. Comp. 36 (1981); relative error 1.5e-15 for 0 <= x < 26.
_ERFC = (
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.74038306619849e-07,
    -2.1886401049234397e-07,
    1.076499946567091e-08,
    4.521959811218287e-09,
    -7.754400208831351e-10,
    -6.318088340886684e-11,
    2.86879501093067e-11,
    1.9455868545777347e-13,
    -9.65469674843344e-13,
    3.25254814814874e-14,
    3.3478119482868056e-14,
    -1.864562880419313e-15,
    -1.2507950530688648e-15,
    7.418235256624044e-17,
    5.068148904796111e-17,
)
# log2 of the normal distribution's upper tail, log2(erfc(t / sqrt(2)) / 2), for 0 <= t <= 6, fitted
# for the least greatest error of the tail: 7e-8 in f32.
_TAIL_END = 6.0
_TAIL_SLOPE = 9.0
_TAIL = (
    -0.999999907,
    -1.15110888,
    -0.459183421,
    -0.0525547215,
    0.00711921583,
    -0.00014927655,
    -0.000200866404,
    5.04997322e-05,
    -5.73362804e-06,
    2.66505467e-07,
)


def erf(a: Edge) -> Edge:
    """The error function; within 4e-7 in f32 relatively, within 1e-15 in f64."""
    a = floating(a)
    if a.dtype is f64:
        y = mul(a, a)
        tail = _erfc_positive(absolute(a))
        far = where(less(a, 0.0), add(tail, -1), add(mul(tail, -1), 1))
        return where(less(y, 0.25), mul(a, polynomial(y, _ERF_NEAR)), far)
    y = mul(a, a)
    near = mul(a, mul(polynomial(y, _ERF_OVER), recip(polynomial(y, _ERF_UNDER))))
    return where(less(_ERF_END, a), 1.0, where(less(a, -_ERF_END), -1.0, near))


def _erfc_positive(x: Edge) -> Edge:
    """erfc for x >= 0: erfcx(x) exp(-u^2) exp((u - x) (u + x)) with the first digits u of x, whose square is exact."""
    x = minimum(x, 30.0)  # beyond, erfc is 0 in f64, and infinity would meet 0 * inf
    digits = 2.0**16 if x.dtype is f64 else 2.0**6
    u = mul(floor(mul(x, digits)), 1 / digits)
    rest = mul(sub(u, x), add(u, x))
    return mul(mul(erfcx(x), exp(rest)), exp(neg(mul(u, u))))


def erfcx(x: Edge) -> Edge:
    """exp(x^2) erfc(x) for x >= 0, by Clenshaw's recurrence."""
    t = mul(add(x, -3.75), recip(add(x, 3.75)))
    ahead, last = constant(_ERFC[-1], x.dtype), constant(0, x.dtype)
    for c in reversed(_ERFC[1:-1]):
        ahead, last = sub(add(mul(mul(t, 2), ahead), c), last), ahead
    series = sub(add(mul(t, ahead), _ERFC[0]), last)
    return mul(series, recip(add(mul(x, 2), 1)))


def gelu(a: Edge) -> Edge:
    """a times the normal distribution function of a.

    Written max(a, 0) - t * tail(t) with t = min(|a|, 6) and the tail as exp2 of a polynomial: one
    exp2, no quotient, and no cancellation for negative `a`, where a * (1 + erf(..)) has one.
    Beyond 6 the exponent goes on with the slope that it has there. Within 1e-7 in f32, absolutely; at -inf it is 0.
    """
    a = floating(a)
    if a.dtype is f64:
        t = minimum(_magnitude(a), 40.0)
        tail = mul(_erfc_positive(mul(t, math.sqrt(0.5))), 0.5)
    else:
        magnitude = _magnitude(a)
        t = minimum(magnitude, _TAIL_END)
        tail = exp2(add(polynomial(t, _TAIL), mul(sub(t, magnitude), _TAIL_SLOPE)))
    return sub(relu(a), mul(t, tail))


def gelu_tanh(a: Edge) -> Edge:
    """a (1 + tanh(u)) / 2 with u = sqrt(2/pi) (a + 0.044715 a^3), which is a * sigmoid(2u)."""
    a = floating(a)
    scale = -2 * float(LOG2_E) * math.sqrt(2 / math.pi)
    bent = mul(a, add(mul(mul(a, a), 0.044715 * scale), scale))
    return mul(a, recip(add(exp2(bent), 1)))


# --- powers and rounding --------------------------------------------------------------------------


def power(a: Edge, exponent: Scalar) -> Edge:
    """a ** exponent: products for integers, sqrt for halves, else exp2(exponent * log2(a))."""
    if isinstance(exponent, Symbolic | Ix):
        return _extent_power(a, ix(exponent))
    whole = exponent == int(exponent) if math.isfinite(exponent) else False
    if not whole:
        return _real_power(floating(a), exponent)
    n = int(exponent)
    if n < 0 and not a.dtype.is_float:
        raise fail(
            BadArgument, op="pow", name="the exponent", value=n, expected="at least 0 for integers"
        )
    if isinstance(exponent, float):
        a = floating(a)
    out = _whole_power(numbers("pow", a), abs(n))
    return recip(out) if n < 0 else out


def _whole_power(a: Edge, n: int) -> Edge:
    """Square and multiply, 1 for n = 0, also of NaN; a power of |a| where so many products would round too often."""
    if n > MOST_PRODUCTS and a.dtype.is_float:
        even = exp2(mul(log2(absolute(a)), float(n - n % 2)))
        return mul(a, even) if n % 2 else even
    out: Edge | None = None
    while n:
        if n % 2:
            out = a if out is None else mul(out, a)
        n //= 2
        a = mul(a, a) if n else a
    return matched("pow", constant(1, a.dtype), a)[0] if out is None else out


def _extent_power(a: Edge, exponent: Ix) -> Edge:
    """a ** n for an extent n: powers of |a|, negative where a is and n is odd."""
    if not a.dtype.is_float:
        raise fail(
            DtypeMismatch,
            op="pow",
            name="the base of a symbolic exponent",
            got=a.dtype,
            expected="a float type",
            remedy="Cast with .to(lg.f64).",
        )
    check_extent("pow", f"the exponent is {exponent}", exponent, least=1)
    magnitude = exp2(mul(log2(absolute(a)), exponent))
    is_odd = less(0, mod(size(exponent), 2))
    return where(both(less(a, 0), is_odd), neg(magnitude), magnitude)


def _real_power(a: Edge, exponent: float) -> Edge:
    if exponent in (0.5, -0.5):
        return sqrt(a) if exponent > 0 else rsqrt(a)
    a = where(eq(a, -INF), INF, a)  # whose power is that of inf; other negatives give NaN
    return exp2(mul(log2(a), exponent))


def exponential(base: Operand, exponent: Edge) -> Edge:
    """base ** exponent for a positive number or extent as base: exp2(exponent * log2(base)), within 2 ulp."""
    if isinstance(base, Symbolic | Ix):
        check_extent("pow", f"the base is {base}", ix(base), least=1)
        exponent = floating(exponent)
        return exp2(mul(exponent, log2(size(base, exponent.dtype))))
    if not isinstance(base, int | float) or not is_scalar(base) or not 0 < base < INF:
        raise fail(
            BadArgument,
            op="pow",
            name="the base of a tensor exponent",
            value=base,
            expected="a positive number",
        )
    if base == 1:
        return matched("pow", constant(1, floating(exponent).dtype), exponent)[0]
    with localcontext(prec=40):
        return exp2_scaled(exponent, Fraction(Decimal(base).ln()) * LOG2_E)


def floor(a: Edge) -> Edge:
    """a - a mod 1; what has no such rest stays: whole numbers, -0.0, infinities and NaN."""
    if not a.dtype.is_float:
        return a
    rest = mod(a, 1)
    return where(less(0, rest), sub(a, rest), a)


def ceil(a: Edge) -> Edge:
    return neg(floor(neg(a))) if a.dtype.is_float else a


def floor_divide(a: Operand, b: Operand) -> Edge:
    """The greatest whole number that is not above a / b, of floats, as NumPy finds it.

    floor(a / b) would take the next one where the quotient rounds to it (1 / 0.1 is 10, but 0.1 fits
    9 times into 1), and 0 for -1 / inf. The remainder says on which side of a whole number a / b is.
    """
    left, right = matched("floor_divide", a, b)
    if not left.dtype.is_float:
        return _whole_quotient(left, right)
    quotient, rest = div(left, right), mod(left, right)
    is_above = less(_magnitude(rest), _magnitude(sub(right, rest)))  # not of inf, for -1 / inf
    whole = floor(add(quotient, where(is_above, constant(0.25, left.dtype), -0.25)))
    return where(eq(right, 0), quotient, where(isnan(rest), rest, whole))


def _whole_quotient(a: Edge, b: Edge) -> Edge:
    """floor(a / b) of integers, exactly, and 0 where b is: quotients in f32 of a - a mod b and of what each left over.

    What is left, (a - a mod b) - q b, is a multiple of b, and 0 unless q has more digits than f32, of which each
    quotient finds 21. Where something is left, b is so small that this fits, although each part may wrap around. Of u8
    nothing is left: its quotients are far from whole numbers, once half is added.
    """
    over = where(eq(b, 0), 0.0, recip(cast(b, f32)))

    def near(x: Edge) -> Edge:
        return cast(floor(add(mul(x, over), 0.5)), a.dtype)

    if a.dtype is u8:
        return cast(floor(mul(add(cast(a, f32), 0.5), over)), u8)
    rest = mod(a, b)
    whole = sub(a, rest)
    found = near(sub(cast(a, f32), cast(rest, f32)))
    for _ in range(2 if a.dtype is i64 else 1):
        found = add(found, near(cast(sub(whole, mul(found, b)), f32)))
    return found


def erfc(a: Edge) -> Edge:
    """1 - erf(a), by the series for positive numbers, of 25 terms."""
    a = floating(a)
    tail = _erfc_positive(_magnitude(a))
    return where(less(a, 0.0), sub(2.0, tail), tail)
