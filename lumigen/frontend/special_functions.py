"""Special functions: of the normal distribution, of gamma and of Bessel, in closed forms and series.

Promises 1e-5 in f32, relatively where a result is not near a zero of the function; in f64 what is said of each.
"""

# signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lumigen.dtype import f64
from lumigen.errors import BadArgument
from lumigen.frontend import elementary, elementwise
from lumigen.frontend.operand import Value, common_floats, floats, where
from lumigen.frontend.trace import fail

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor

SQRT_2, SQRT_PI = math.sqrt(2), math.sqrt(math.pi)

# Chebyshev series of exp(-x) I0(x) in x / 4 - 1 for 0 <= x <= 8, and of sqrt(x) exp(-x) I0(x) in 16 / x - 1 beyond;
# those of I1, the first one over x. Relative error 3e-16.
_I0_NEAR = (
    0.33839763720473803,
    -0.30468267234319835,
    0.1716209015222087,
    -0.09490109704804758,
    0.04930528423967066,
    -0.023737414805899512,
    0.010546460394594975,
    -0.004324309995050624,
    0.0016394756169412772,
    -0.000576375574538282,
    0.00018850288509591334,
    -5.754195010054114e-05,
    1.6448448070895128e-05,
    -4.416738358423156e-06,
    1.1173875391484733e-06,
    -2.670793851355935e-07,
    6.046995071340433e-08,
    -1.3000250168038185e-08,
    2.6598238472841373e-09,
    -5.189793594873038e-10,
    9.675815357268469e-11,
    -1.7268637908518514e-11,
    2.9547024549270162e-12,
    -4.855282842441966e-13,
    7.691763892481163e-14,
    -1.1955714196432154e-14,
    1.4953316362920077e-15,
    -3.469446951953614e-16,
    -1.942890293094024e-16,
    -3.0184188481996443e-16,
    -6.938893903907228e-18,
    1.1934897514720433e-15,
)
_I0_FAR = (
    0.4022452055070544,
    0.003369116478255739,
    6.889758346914285e-05,
    2.8913705208619134e-06,
    2.0489185893583783e-07,
    2.26666899139083e-08,
    3.3962320486295716e-09,
    4.940602649217141e-10,
    1.188912857053026e-11,
    -3.14989978544844e-11,
    -1.321579044116783e-11,
    -1.7940718355369256e-12,
    7.180618946667217e-13,
    3.8533412571872816e-13,
    1.5338424974586928e-14,
    -4.131417430386364e-14,
    -9.18709552877317e-15,
    3.622102617839573e-15,
    2.009243466050137e-15,
    -4.371503159461554e-16,
    -1.9255430583342559e-16,
    -9.367506770274758e-17,
    -1.0148132334464322e-16,
    -1.5265566588595902e-16,
    -2.7755575615628914e-17,
    -1.8041124150158794e-16,
    -1.218643241873707e-16,
    7.632783294297951e-17,
    -1.3877787807814457e-17,
    -2.1510571102112408e-16,
    -6.722053469410127e-17,
    4.3021142204224816e-16,
)
_I1_NEAR = (
    0.12629359322181682,
    -0.17641651835783403,
    0.10264365868984707,
    -0.05294598120809497,
    0.024726449030626485,
    -0.010564084894626222,
    0.004156422944312871,
    -0.0015135724506312523,
    0.0005122859561685414,
    -0.00016176081582574067,
    4.781565107550567e-05,
    -1.3273163655885128e-05,
    3.470251308222705e-06,
    -8.568720264515162e-07,
    2.0032947537287904e-07,
    -4.445059117313965e-08,
    9.381537600591794e-09,
    -1.8872497731248217e-09,
    3.6255907304161283e-10,
    -6.663478276103252e-11,
    1.1736221369740285e-11,
    -1.9841905896100798e-12,
    3.222248856626919e-13,
    -5.03520836137028e-14,
    7.712580574192884e-15,
    -1.2472661792273243e-15,
    6.418476861114186e-17,
    -9.367506770274758e-17,
    -1.1796119636642288e-16,
    -1.3010426069826053e-16,
    -3.469446951953614e-18,
    6.210310043996969e-16,
)
_I1_FAR = (
    0.38928811750914005,
    -0.009761097491361427,
    -0.0001105889387626618,
    -3.882564808849187e-06,
    -2.5122362381450186e-07,
    -2.631468845604168e-08,
    -3.835380383079845e-09,
    -5.589743667933078e-10,
    -1.897501600289786e-11,
    3.252620395244321e-11,
    1.4125815968324407e-11,
    2.0357535102100144e-12,
    -7.197957507809605e-13,
    -4.0831227288151695e-13,
    -2.1076456552249212e-14,
    4.2896242113954486e-14,
    1.0783041126671833e-14,
    -3.95516952522712e-15,
    -1.6453852169640015e-15,
    2.498001805406602e-16,
    3.95516952522712e-16,
    -1.6653345369377348e-16,
    -1.93421667571414e-16,
    -1.3877787807814457e-16,
    -4.163336342344337e-17,
    -1.6653345369377348e-16,
    -1.1275702593849246e-16,
    7.28583859910259e-17,
    -7.806255641895632e-18,
    -2.0122792321330962e-16,
    -7.24247051220317e-17,
    4.649058915617843e-16,
)


def _chebyshev(t: Tensor, coefficients: Sequence[float]) -> Tensor:
    """sum_k c[k] T_k(t), by Clenshaw's recurrence."""
    ahead, last = t * 0 + coefficients[-1], t * 0
    for c in reversed(coefficients[1:-1]):
        ahead, last = 2 * t * ahead - last + c, ahead
    return t * ahead - last + coefficients[0]


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule; the constant term comes first."""
    return x.of(elementary.polynomial(x.edge, coefficients))


# --- the normal distribution ----------------------------------------------------------------------


def ndtr(input: Tensor) -> Tensor:
    """The normal distribution function: erfc(-x / sqrt(2)) / 2."""
    return 0.5 * elementwise.erfc(floats(input) * (-1 / SQRT_2))


def log_ndtr(input: Tensor) -> Tensor:
    """log(ndtr(x)), also where that underflows."""
    x = floats(input)
    t = x * (-1 / SQRT_2)
    low = (0.5 * erfcx(t.clamp(min=0))).log() - t * t
    high = (-0.5 * elementwise.erfc(-t)).log1p()
    return where(x < -1, low, high)


def erfcx(input: Tensor) -> Tensor:
    """exp(x^2) erfc(x)."""
    x = floats(input)
    size = x.abs()
    scaled = where(size == math.inf, 0.0, x.of(elementary.erfcx(size.edge)))
    return where(x < 0, 2 * (x * x).exp() - scaled, scaled)


# M. Giles, Approximating the erfinv function (2010), single precision.
_ERFINV_NEAR = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
_ERFINV_FAR = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)


def erfinv(input: Tensor) -> Tensor:
    """The x whose erf it is; in f32 within 4e-7 of Giles' formula, in f64 after two of Newton's steps."""
    x = floats(input)
    w = -((1 - x) * (x + 1)).log()
    near = _polynomial(w - 2.5, _ERFINV_NEAR)
    far = _polynomial(w.sqrt() - 3, _ERFINV_FAR)
    out = x * where(w < 5, near, far)
    if x.dtype is f64:
        for _ in range(2):  # Newton's steps, from the side on which erfc is accurate
            size = out.abs()
            rest = elementwise.erfc(size) - (1 - x.abs())
            step = rest * (size * size).exp() * (SQRT_PI / 2)
            out = out + where(out < 0, -step, step)
    out = where(x == 1, math.inf, where(x == -1, -math.inf, out))
    return where(x.abs() > 1, math.nan, out)


# S. L. Moshier, Cephes: ndtri as a quotient of two polynomials, in (p - 1/2)^2 where the smaller tail is above exp(-2),
# else in 1 / x with x = sqrt(-2 log(tail)), below 8 and up to 64. Relative error 5e-16.
_NDTRI_NEAR = (
    (
        -1.2391658386738125,
        13.931260938727968,
        -56.67628574690703,
        98.00107541859997,
        -59.96335010141079,
    ),
    (
        -1.1833162112133,
        15.90562251262117,
        -82.03722561683334,
        200.26021238006066,
        -225.46268785411937,
        86.36024213908905,
        4.676279128988815,
        1.9544885833814176,
        1.0,
    ),
)
_NDTRI_FAR = (
    (
        -0.0008574567851546854,
        -0.03504246268278482,
        -0.1402560791713545,
        2.1866330685079025,
        14.684956192885803,
        44.08050738932008,
        57.16281922464213,
        31.525109459989388,
        4.0554489230596245,
    ),
    (
        -0.0009332594808954574,
        -0.03808064076915783,
        -0.14218292285478779,
        2.504649462083094,
        15.04253856929075,
        41.3172038254672,
        45.39076351288792,
        15.779988325646675,
        1.0,
    ),
)
_NDTRI_FARTHEST = (
    (
        6.239745391849833e-09,
        2.6580697468673755e-06,
        0.00030158155350823543,
        0.012371663481782003,
        0.20148538954917908,
        1.3330346081580755,
        3.9388102529247444,
        6.915228890689842,
        3.2377489177694603,
    ),
    (
        6.790194080099813e-09,
        2.8924786474538068e-06,
        0.00032801446468212774,
        0.013420400608854318,
        0.21623699359449663,
        1.3770209948908132,
        3.6798356385616087,
        6.02427039364742,
        1.0,
    ),
)


def _quotient(x: Tensor, coefficients: tuple[Sequence[float], Sequence[float]]) -> Tensor:
    above, below = coefficients
    return _polynomial(x, above) / _polynomial(x, below)


def ndtri(input: Tensor) -> Tensor:
    """The x whose normal distribution function it is; NaN outside [0, 1]."""
    p = floats(input)
    middle = p - 0.5
    square = middle * middle
    near = math.sqrt(2 * math.pi) * (middle + middle * square * _quotient(square, _NDTRI_NEAR))
    tail = p.minimum(1 - p)  # both are exact where they are the smaller one
    x = (-2 * tail.log()).sqrt()
    z = 1 / x
    rest = z * where(x < 8, _quotient(z, _NDTRI_FAR), _quotient(z, _NDTRI_FARTHEST))
    far = where(tail == 0, math.inf, x - x.log() * z - rest)
    return where(tail > math.exp(-2), near, where(middle < 0, -far, far))


# --- entropy and logarithms -----------------------------------------------------------------------


def entr(input: Tensor) -> Tensor:
    """-x log(x); 0 at 0, -inf below."""
    x = floats(input)
    return where(x < 0, -math.inf, where(x == 0, 0.0, -x * x.log()))


def xlog1py(input: Value, other: Value) -> Tensor:
    """x log(1 + y), 0 where x is 0; NaN where y is."""
    x, y = common_floats("xlog1py", input, other)
    return where(y.isnan(), y, where(x == 0, 0.0, x * y.log1p()))


# --- gamma ----------------------------------------------------------------------------------------

# From where on Stirling's series is accurate in f64, and in what is computed in f32: as low as may be, since what is
# added and taken away again costs digits.
SHIFT, SHORT_SHIFT = 10, 3
LONG_SHIFT = 30  # for negative numbers, of which there is no reflection
# Bernoulli's numbers B_2k
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def lgamma(input: Tensor) -> Tensor:
    """log(|gamma(x)|): Stirling's series from 10 on, below by recurrence and reflection; absolutely within 1e-5."""
    x = floats(input)
    mirrored = x < 0.5
    y = where(mirrored, 1 - x, x)
    shift = SHIFT if x.dtype is f64 else SHORT_SHIFT
    low = y < shift
    shifted = where(low, y + shift, y)
    product = y
    for k in range(1, shift):
        product = product * (y + k)
    inverse = 1 / shifted
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    series = inverse * _polynomial(inverse * inverse, terms)
    out = (shifted - 0.5) * shifted.log() - shifted + 0.5 * math.log(2 * math.pi) + series
    out = where(y == math.inf, math.inf, where(low, out - product.log(), out))
    out = where((y == 1) | (y == 2), 0.0, out)
    wave = ((x - x.round()) * math.pi).sin().abs()
    reflected = math.log(math.pi) - wave.log() - out
    out = where(mirrored, reflected, out)
    pole = (x <= 0) & (x.floor() == x)
    return where(pole | (x == -math.inf), math.inf, out)


def digamma(input: Tensor) -> Tensor:
    """The derivative of lgamma; -inf at 0, NaN at negative whole numbers."""
    x = floats(input)
    mirrored = x < 0.5
    y = where(mirrored, 1 - x, x)
    shift = SHIFT if x.dtype is f64 else SHORT_SHIFT
    low = y < shift
    shifted = where(low, y + shift, y)
    back = x * 0
    for k in range(shift):
        back = back + 1 / (y + k)
    inverse = 1 / shifted
    square = inverse * inverse
    series = square * _polynomial(square, [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)])
    out = shifted.log() - 0.5 * inverse - series
    out = where(low, out - back, out)
    angle = (x - x.round()) * math.pi
    out = where(mirrored, out - math.pi / angle.tan(), out)
    out = where((x < 0) & (x.floor() == x), math.nan, out)
    pole = where(x.signbit(), math.inf, x.new_full((), -math.inf))
    return where(x == 0, pole, out)


def zeta(input: Value, other: Value) -> Tensor:
    """Hurwitz's sum_k (k + q)^-s, by Euler's and Maclaurin's formula; inf at poles, NaN for s < 1 or no real."""
    s, q = common_floats("zeta", input, other)
    total = s * 0
    for k in range(SHIFT):
        total = total + (q + k).pow(-s)
    a = q + SHIFT
    end = a.pow(-s)
    total = total + end * a / (s - 1) + 0.5 * end
    factor, term = s, end / a
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + term * factor * (b / math.factorial(2 * k))
        factor = factor * (s + (2 * k - 1)) * (s + 2 * k)
        term = term / (a * a)
    whole = q.floor() == q
    out = where((q <= 0) & whole, math.inf, total)
    out = where((q <= 0) & ~whole & (s.floor() != s), math.nan, out)
    out = where(s == 1, math.inf, where(s < 1, math.nan, out))
    return where(q.isnan() | s.isnan(), math.nan, out)


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma; above n = 1 for x > -20, where Euler's and Maclaurin's formula is accurate."""
    if n < 0:
        raise fail(BadArgument, op="polygamma", name="n", value=n, expected="at least 0")
    x = floats(input)
    if n == 0:
        return digamma(x)
    if n == 1:
        return _trigamma(x)
    total = x * 0
    for k in range(LONG_SHIFT):
        total = total + (x + k).reciprocal().pow(n + 1)
    a = (x + LONG_SHIFT).reciprocal()
    end = a.pow(n)
    total = total + end * (1 / n + a * 0.5)
    factor = float(n + 1)
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + end * a.pow(2 * k) * (factor * b / math.factorial(2 * k))
        factor *= (n + 2 * k) * (n + 2 * k + 1)
    sign = 1.0 if n % 2 else -1.0
    return where((x <= 0) & (x.floor() == x), sign * math.inf, total * (sign * math.factorial(n)))


def _trigamma(x: Tensor) -> Tensor:
    """The derivative of digamma: by reflection below 1/2, where it is (pi / sin(pi x))^2 less that of 1 - x."""
    mirrored = x < 0.5
    y = where(mirrored, 1 - x, x)
    total = x * 0
    for k in range(SHIFT):
        total = total + 1 / ((y + k) * (y + k))
    a = 1 / (y + SHIFT)
    square = a * a
    total = total + a + 0.5 * square + a * square * _polynomial(square, _BERNOULLI)
    wave = ((x - x.round()) * math.pi).sin() / math.pi
    return where(mirrored, 1 / (wave * wave) - total, total)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function: log(pi) p (p - 1) / 4 + sum_j lgamma(x - j / 2)."""
    x = floats(input)
    out = lgamma(x) + math.log(math.pi) * p * (p - 1) / 4
    for j in range(1, p):
        out = out + lgamma(x - j / 2)
    return out


# --- Bessel ---------------------------------------------------------------------------------------


def i0e(input: Tensor) -> Tensor:
    """exp(-|x|) i0(x)."""
    size = floats(input).abs()
    near = _chebyshev(size / 4 - 1, _I0_NEAR)
    far = _chebyshev(16 / size - 1, _I0_FAR) / size.sqrt()
    return where(size <= 8, near, far)


def i0(input: Tensor) -> Tensor:
    """Bessel's modified function of the first kind and order 0."""
    half = (floats(input).abs() * 0.5).exp()
    return i0e(input) * half * half


def i1e(input: Tensor) -> Tensor:
    """exp(-|x|) i1(x)."""
    x = floats(input)
    size = x.abs()
    near = _chebyshev(size / 4 - 1, _I1_NEAR) * size
    far = _chebyshev(16 / size - 1, _I1_FAR) / size.sqrt()
    out = where(size <= 8, near, far)
    return where(x < 0, -out, out)


def i1(input: Tensor) -> Tensor:
    """Bessel's modified function of the first kind and order 1."""
    half = (floats(input).abs() * 0.5).exp()
    return i1e(input) * half * half


def spherical_bessel_j0(input: Tensor) -> Tensor:
    """sin(x) / x; 1 at 0, 0 at infinity."""
    x = floats(input)
    out = where(x.abs() == math.inf, 0.0, x.sin() / x)
    return where(x == 0, 1.0, out)
