"""Activations as modules: functions of each element, or along one dimension."""

# ruff: noqa: FBT002  # signatures are PyTorch's
# `inplace` changes nothing: what is traced has no places

from __future__ import annotations

from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument
from lumigen.frontend import functional as fn
from lumigen.frontend.nn.module import Module, Parameter
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail


class _Elementwise(Module):
    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class ReLU(_Elementwise):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.relu(input)


class ReLU6(_Elementwise):
    """min(max(x, 0), 6)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.relu6(input)


class SELU(_Elementwise):
    """scale * elu(x, alpha), with the two numbers that keep mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.selu(input)


class SiLU(_Elementwise):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.silu(input)


class Mish(_Elementwise):
    """x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.mish(input)


class Hardsigmoid(_Elementwise):
    """min(max(x + 3, 0), 6) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.hardsigmoid(input)


class Hardswish(_Elementwise):
    """x * hardsigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.hardswish(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.tanhshrink(input)


class GELU(Module):
    """x times the normal distribution function of x; `tanh` is its approximation."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return fn.gelu(input, self.approximate)


class LeakyReLU(Module):
    """`x` where it is positive, else x * negative_slope."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return fn.leaky_relu(input, self.negative_slope)


class RReLU(Module):
    """`x` where it is positive, else x times the mean of `lower` and `upper`: what inference has of it."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return fn.rrelu(input, self.lower, self.upper)


class PReLU(Module):
    """`x` where it is positive, else x * weight; one weight, or one for each of (batch, channel, ..)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: DType = f32) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(num_parameters, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        return fn.prelu(input, self.weight)


class ELU(Module):
    """`x` where it is positive, else alpha * (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return fn.elu(input, self.alpha)


class CELU(Module):
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return fn.celu(input, self.alpha)


class Hardtanh(Module):
    """min(max(x, min_val), max_val)."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return fn.hardtanh(input, self.min_val, self.max_val)


class Threshold(Module):
    """`x` where it is above `threshold`, else `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return fn.threshold(input, self.threshold, self.value)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, and `x` where beta * x is above `threshold`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return fn.softplus(input, self.beta, self.threshold)


class Softshrink(Module):
    """x - lambd above it, x + lambd below its negative, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return fn.softshrink(input, self.lambd)


class Hardshrink(Module):
    """`x` where |x| is above lambd, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return fn.hardshrink(input, self.lambd)


class GLU(Module):
    """The first half along `dim`, times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return fn.glu(input, self.dim)


class _Along(Module):
    def __init__(self, dim: int | None = None) -> None:
        self.dim = dim

    def along(self) -> int:
        """The dimension; PyTorch's guess where it is left out is deprecated, and not made here."""
        if self.dim is None:
            name = type(self).__name__
            raise fail(BadArgument, op=name, name="dim", value=None, expected="a dimension")
        return self.dim


class Softmax(_Along):
    """exp(x - max) / sum(exp(x - max)) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.softmax(input, self.along())


class Softmin(_Along):
    """The softmax of -x along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.softmin(input, self.along())


class LogSoftmax(_Along):
    """(x - max) - log(sum(exp(x - max))) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.log_softmax(input, self.along())


class Softmax2d(Module):
    """The softmax over the channels of (.., channel, height, width)."""

    def forward(self, input: Tensor) -> Tensor:
        return fn.softmax(input, -3)
