"""Chebyshev's polynomials of a degree that may be data, by their closed forms.

With x = cos t for |x| <= 1 and |x| = cosh t beyond. A degree is cut to a whole number; below 0 they are 0.
"""

# signatures are PyTorch's

from __future__ import annotations

from typing import TYPE_CHECKING

from lumigen.frontend.operand import Value, common_floats, floats, is_tensor, where

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


def _operands(op: str, input: Value, n: Value) -> tuple[Tensor, Tensor]:
    """x and n as floats; of two numbers none is a tensor."""
    x, degree = common_floats(op, input, n)
    return x, degree.trunc()


def _alternating(x: Tensor, n: Tensor) -> Tensor:
    """The sign of an odd polynomial below 0: (-1)^n there, else 1."""
    return where((x < 0) & (n % 2 == 1), -1, x.new_ones(()))


def chebyshev_polynomial_t(input: Value, n: Value) -> Tensor:
    """T_n(cos t) = cos n t."""
    x, n = _operands("chebyshev_polynomial_t", input, n)
    size = x.abs()
    near, far = (n * x.clamp(-1, 1).acos()).cos(), (n * size.maximum(1).acosh()).cosh()
    out = where(size > 1, far * _alternating(x, n), near)
    out = where(size == 1, _alternating(x, n), out)
    return where(n < 0, 0, out)


def _of_second_kind(x: Tensor, n: Tensor) -> Tensor:
    """U_n(cos t) = sin (n + 1) t / sin t; n + 1 at the ends but for the sign."""
    size, m = x.abs(), n + 1
    t, far = x.clamp(-1, 1).acos(), size.maximum(1).acosh()
    out = where(
        size > 1, (m * far).sinh() / far.sinh() * _alternating(x, n), (m * t).sin() / t.sin()
    )
    return where(size == 1, m * _alternating(x, n), out)


def chebyshev_polynomial_u(input: Value, n: Value) -> Tensor:
    """U_n(cos t) = sin (n + 1) t / sin t."""
    x, n = _operands("chebyshev_polynomial_u", input, n)
    return where(n < 0, 0, _of_second_kind(x, n))


def chebyshev_polynomial_v(input: Value, n: Value) -> Tensor:
    """V_n(cos t) = cos (n + 1/2) t / cos t/2: U_n - U_(n - 1)."""
    x, n = _operands("chebyshev_polynomial_v", input, n)
    return _halved(x, n, -1)


def chebyshev_polynomial_w(input: Value, n: Value) -> Tensor:
    """W_n(cos t) = sin (n + 1/2) t / sin t/2: U_n + U_(n - 1)."""
    x, n = _operands("chebyshev_polynomial_w", input, n)
    return _halved(x, n, 1)


def _halved(x: Tensor, n: Tensor, sign: int) -> Tensor:
    """W_n(x), or V_n(x) = (-1)^n W_n(-x)."""
    y = x if sign > 0 else -x
    half = n + 0.5
    t, far = y.clamp(-1, 1).acos() / 2, y.abs().maximum(1).acosh() / 2
    near = (half * 2 * t).sin() / t.sin()
    above = (half * 2 * far).sinh() / far.sinh()
    below = (half * 2 * far).cosh() / far.cosh() * _alternating(y, n)
    out = where(y > 1, above, where(y < -1, below, near))
    out = where(y == 1, half * 2, where(y == -1, _alternating(y, n), out))
    if sign < 0:
        out = where(n % 2 == 1, -out, out)
    return where(n < 0, 0, out)


def shifted_chebyshev_polynomial_t(input: Value, n: Value) -> Tensor:
    """T_n(2 x - 1), which is for x between 0 and 1."""
    return chebyshev_polynomial_t(_shifted(input), n)


def shifted_chebyshev_polynomial_u(input: Value, n: Value) -> Tensor:
    """U_n(2 x - 1), which is for x between 0 and 1."""
    return chebyshev_polynomial_u(_shifted(input), n)


def shifted_chebyshev_polynomial_v(input: Value, n: Value) -> Tensor:
    """V_n(2 x - 1), which is for x between 0 and 1."""
    return chebyshev_polynomial_v(_shifted(input), n)


def shifted_chebyshev_polynomial_w(input: Value, n: Value) -> Tensor:
    """W_n(2 x - 1), which is for x between 0 and 1."""
    return chebyshev_polynomial_w(_shifted(input), n)


def _shifted(x: Value) -> Value:
    return floats(x) * 2 - 1 if is_tensor(x) else 2 * x - 1  # type: ignore[operator]
