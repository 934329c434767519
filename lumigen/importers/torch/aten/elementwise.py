# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""elementwise: the ops of ATen that compute each element by itself, and the calls of the frontend that they are."""

from __future__ import annotations

from typing import Any

from lumigen.dtype import DType
from lumigen.frontend import functional, functions, special
from lumigen.frontend.tensor import Tensor
from lumigen.importers.torch.aten.row import Row, Table, same

# As the function of this name in the namespace torch.
OF_TORCH = """
abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min copysign cos
cosh deg2rad digamma div eq erf erfc erfinv exp exp2 expm1 float_power floor floor_divide fmax fmin
fmod frac frexp gcd ge gt heaviside hypot i0 isclose isfinite isin isinf isnan isneginf isposinf lcm ldexp le
lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or
logical_xor logit lt masked_fill maximum minimum mul nan_to_num ne neg polygamma pow rad2deg reciprocal
remainder round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh sqrt square sub tan tanh
true_divide trunc where xlogy
"""
# As the function of this name in torch.nn.functional.
OF_FUNCTIONAL = """
celu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu mish prelu relu relu6 selu silu
softplus softshrink threshold
"""
# As the function of this name in torch.special.
OF_SPECIAL = """
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w entr erfcx i0e i1 i1e
modified_bessel_i0 modified_bessel_i1 ndtr ndtri log_ndtr shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w spherical_bessel_j0 xlog1py zeta
"""


def scaled(row: Row) -> Row:
    """The row of an overload whose alpha stands third."""
    return lambda input, other, alpha=1: row(input, other, alpha=alpha)


def elu(input: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    """scale * x above 0, else scale * alpha * (exp(input_scale * x) - 1)."""
    return functions.where(input > 0, input, (input * input_scale).expm1() * alpha) * scale


def to(input: Tensor, *args: Any, dtype: DType | None = None) -> Tensor:
    """The cast to the dtype among the arguments, or that of a tensor; the same elements without one."""
    given = next((a for a in args if isinstance(a, DType | Tensor)), dtype)
    return input if given is None else input.to(given)


def identity(input: Tensor) -> Tensor:
    """A copy or a view of all elements: tensors of the frontend are values."""
    return input


def filled(input: Tensor, value: Any) -> Tensor:
    """The value everywhere, a number or a tensor without axes."""
    if isinstance(value, Tensor):
        return value.to(input.dtype).expand(input.extents)
    return functions.full_like(input, value)


ELEMENTWISE: Table = {
    **same(functions, OF_TORCH),
    **same(functional, OF_FUNCTIONAL),
    **same(Tensor, "type_as"),
    "add.Scalar": scaled(functions.add),
    "sub.Scalar": scaled(functions.sub),
    "rsub.Scalar": scaled(functions.rsub),
    "elu": elu,
    "special_expit": functions.sigmoid,
    **{f"special_{name}": row for name, row in same(special, OF_SPECIAL).items()},
    "real": identity,
    "log_sigmoid": functional.logsigmoid,
    "log_sigmoid_forward": lambda x: (functional.logsigmoid(x), None),
    "__and__": functions.bitwise_and,
    "__or__": functions.bitwise_or,
    "__xor__": functions.bitwise_xor,
    "__lshift__": functions.bitwise_left_shift,
    "__rshift__": functions.bitwise_right_shift,
    "to": to,
    "_to_copy": to,
    "alias": identity,
    "alias_copy": identity,
    "clone": identity,
    "contiguous": identity,
    "detach": identity,
    "detach_copy": identity,
    "lift_fresh_copy": identity,
    "copy": lambda x, source: source.to(x.dtype).expand(x.extents),
    "fill": filled,
}
