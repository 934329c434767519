"""Activations: the functions of one element between the layers of networks.

`inplace` is taken as PyTorch takes it and changes nothing: the result is what is returned, as a tensor never changes.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from lumigen.dtype import DType
from lumigen.frontend import elementary, movement
from lumigen.frontend.extents import check_multiple
from lumigen.frontend.operand import choice, where
from lumigen.frontend.primitive import fill, held
from lumigen.frontend.tensor import Tensor

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); NaN stays."""
    del inplace
    return input.relu()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6); NaN stays."""
    del inplace
    return input.clamp(0, 6)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """min(max(x, min_val), max_val); NaN stays."""
    del inplace
    if input.dtype.is_int:
        low, high = (held("hardtanh", float(v), input.dtype) for v in (min_val, max_val))
        return input.clamp(low, high)
    return input.clamp(min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    del inplace
    return (input + 3).clamp(0, 6) / 6


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x min(max(x + 3, 0), 6) / 6."""
    del inplace
    return input * (input + 3).clamp(0, 6) / 6


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else x * negative_slope."""
    del inplace
    return where(input < 0, input * negative_slope, input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, else x * weight, whose elements are one or one a channel (dimension 1)."""
    if weight.ndim == 1 and input.ndim > 1:
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    elif weight.ndim == 1:
        weight = weight.reshape(()) if not input.ndim else weight
    return where(input > 0, input, input * weight)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else alpha * (exp(x) - 1)."""
    del inplace
    return where(input > 0, input, input.expm1() * alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` where it is positive, else alpha * (exp(x / alpha) - 1)."""
    del inplace
    return where(input > 0, input, (input / alpha).expm1() * alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the alpha and the scale that keep mean 0 and variance 1."""
    del inplace
    return elu(input, SELU_ALPHA) * SELU_SCALE


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second."""
    d = movement.axis("glu", input.edge, dim)
    check_multiple("glu", f"the size of axis {d}", input.extents[d], 2)
    a, b = input.chunk(2, d)
    return a * b.sigmoid()


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    del inplace
    return Tensor(elementary.silu(input.edge))


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)), which is x (e^2 + 2 e) / (e^2 + 2 e + 2) with e = exp(x)."""
    del inplace
    e = input.minimum(20.0).exp()  # beyond, the quotient is 1
    over = e * (e + 2)
    return where(input > 20, input, input * (over / (over + 2)))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; `x` where beta x is above the threshold."""
    if beta == 1:
        out = Tensor(elementary.softplus(input.edge))
        return out if threshold >= 20 else where(input > threshold, input, out)
    scaled = input * beta
    out = Tensor(elementary.softplus(scaled.edge)) / beta
    return where(scaled > threshold, input, out)


def logsigmoid(input: Tensor) -> Tensor:
    """-log(1 + exp(-x))."""
    return -Tensor(elementary.softplus((-input).edge))


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x - lambda above lambda, x + lambda below -lambda, else 0; NaN stays."""
    out = where(input > lambd, input - lambd, where(input < -lambd, input + lambd, 0.0))
    return where(input.isnan(), input, out)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`x` where |x| is above lambda, else 0; NaN stays."""
    inside = (input >= -lambd) & (input <= lambd)
    return where(inside, 0.0, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`x` where it is above the threshold, else `value`; NaN stays."""
    del inplace
    most, given = (input.of(fill("threshold", v, input.dtype)) for v in (threshold, value))
    return where(input <= most, given, input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; `tanh` is its well-known approximation.

    At -inf 0, its limit, where PyTorch has NaN; the approximation has NaN there too.
    """
    choice("gelu", "approximate", approximate, "none", "tanh")
    function = elementary.gelu if approximate == "none" else elementary.gelu_tanh
    return Tensor(function(input.edge))


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `dim`, cast to `dtype` before."""
    return input.softmax(dim, dtype)


def softmin(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """The softmax of -x, cast to `dtype` before."""
    return (-input).softmax(dim, dtype)


def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """(x - max) - log(sum(exp(x - max))) along `dim`, cast to `dtype` before."""
    return input.log_softmax(dim, dtype)
