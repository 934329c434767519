"""elementwise: arithmetic, comparisons, activations and casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from lumigen.dtype import boolean, f64
from lumigen.frontend import Tensor, functional, functions
from lumigen.importers.onnx import kinds, parts
from lumigen.importers.onnx.node import OnnxNode, Operator
from lumigen.importers.onnx.reading import numpy_type
from lumigen.importers.onnx.values import Array

Unary = Callable[[Tensor], Tensor]
Binary = Callable[[Any, Any], Any]


def unary(name: str, f: Unary, known: Callable[[Any], Any] | None = None) -> Operator:
    """An operator of one operand; `known` is numpy's function."""

    def of_known(n: OnnxNode, a: Array) -> Any:
        assert known is not None
        return kept(known(a), a)

    return Operator(name, lambda n: f(n.tensor(0)), known=None if known is None else of_known)


def binary(name: str, f: Binary, known: Binary | None = None) -> Operator:
    """An operator of two operands, which broadcast."""

    def of_known(n: OnnxNode, a: Array, b: Array) -> Any:
        assert known is not None
        return known(a, b) if n.attr("axis", None) is None else None

    def function(n: OnnxNode) -> Tensor:
        return f(n.tensor(0), placed(n, n.tensor(0), n.tensor(1)))

    return Operator(name, function, known=None if known is None else of_known)


def placed(n: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """The second operand: before version 7 its axes are those of the first from an attribute on."""
    axis = n.attr("axis", None)
    if axis is None or not b.ndim:
        return b
    return b.reshape(*b.shape, *(1,) * (a.ndim - int(axis) % a.ndim - b.ndim))


def variadic(name: str, f: Binary, known: Binary) -> Operator:
    """An operator of any number of operands, from left to right."""

    def of_known(n: OnnxNode, *arrays: Array) -> Any:
        return reduce(known, arrays)

    return Operator(name, lambda n: reduce(f, n.tensors()), known=of_known)


def _of_parts(f: Callable[[Any], Any], known: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of known floats, or of floats of sizes."""
    return lambda a: np.asarray(np.frompyfunc(f, 1, 1)(a)) if a.dtype == object else known(a)


def kept(found: Any, a: Array) -> Any:
    """The result in the type of the operand, for functions that numpy widens."""
    return found if found is None or a.dtype == object else np.asarray(found, a.dtype)


# --- arithmetic -----------------------------------------------------------------------------------


def divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b; of integers towards 0."""
    return a / b if a.dtype.is_float else functions.div(a, b, rounding_mode="trunc")


def _quotient(a: Any, b: Any) -> Any:
    """The quotient of two known integers or sizes, towards 0; DimSpecialised where the sign of a size is not known."""
    if b < 0:
        return _quotient(-a, -b)
    if isinstance(b, int) and b == 0:
        raise ZeroDivisionError("an integer is divided by 0")
    return a // b if a >= 0 else -(-a // b)


def _known_quotients(a: Array, b: Array) -> Array:
    if a.dtype != object and a.dtype.kind not in "iu":
        return a / b
    if object in (a.dtype, b.dtype) and parts.has_parts(*a.flat, *b.flat):
        return np.true_divide(a.astype(object), b.astype(object))
    out = np.frompyfunc(_quotient, 2, 1)(a.astype(object), b.astype(object))
    kind = object if object in (a.dtype, b.dtype) else a.dtype
    return np.asarray(out, object).astype(kind)


def modulo(n: OnnxNode) -> Tensor:
    a, b = n.tensor(0), n.tensor(1)
    return functions.fmod(a, b) if n.attr("fmod", 0) else a % b


def _known_modulo(n: OnnxNode, a: Array, b: Array) -> Any:
    if n.attr("fmod", 0) or a.dtype.kind not in "iuO":
        return None
    if 0 in [e for e in b.reshape(-1).tolist() if isinstance(e, int)]:
        raise ZeroDivisionError("an integer is divided by 0")
    return a % b


def power(a: Tensor, b: Tensor) -> Tensor:
    """a ** b in the type of a."""
    if a.dtype.is_int and b.dtype.is_float:
        found = a.to(f64).pow(b.to(f64))
        near = found.round()  # whole where it is so but for rounding
        return functions.where((found - near).abs() <= near.abs() * 1e-9, near, found).to(a.dtype)
    exponent: Any = b.to(a.dtype) if b.dtype is not a.dtype else b
    return a.pow(exponent).to(a.dtype)


def power_of(n: OnnxNode) -> Tensor:
    """The exponent is a number where it is known and one; its axes count all the same."""
    a, known = n.tensor(0), n.constant(1)
    is_whole = known is not None and math.isfinite(known) and known == int(known)
    if known is None or (a.dtype.is_int and not is_whole):
        return power(a, placed(n, a, n.tensor(1)))
    base = functions.broadcast_tensors(a, placed(n, a, n.tensor(1)))[0]
    return base.pow(int(known) if is_whole else known).to(a.dtype)


def shift(n: OnnxNode) -> Tensor:
    a, b = n.tensor(0), n.tensor(1)
    left = n.attr("direction") == "LEFT"
    return a << b if left else a >> b


def mean(n: OnnxNode) -> Tensor:
    """The mean of several tensors."""
    parts = n.tensors()
    return reduce(lambda a, b: a + b, parts) / len(parts)


def clip(n: OnnxNode) -> Tensor:
    """Bounds are inputs from version 11 on, attributes before; either may be missing."""
    x = n.tensor(0)
    low, high = (n.bound(i + 1, name) for i, name in enumerate(("min", "max")))
    return x if low is None and high is None else x.clamp(low, high).to(x.dtype)


def where(n: OnnxNode) -> Tensor:
    return functions.where(n.tensor(0), n.tensor(1), n.tensor(2))


def _chosen(n: OnnxNode, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition.astype(bool), a, b)


def _known_greater(a: Array, b: Array) -> Any:
    return np.frompyfunc(functions.sym_max, 2, 1)(a, b) if has_sizes(a, b) else np.maximum(a, b)


def _known_lesser(a: Array, b: Array) -> Any:
    return np.frompyfunc(functions.sym_min, 2, 1)(a, b) if has_sizes(a, b) else np.minimum(a, b)


def has_sizes(*arrays: Array) -> bool:
    """Whether an operand holds symbolic sizes."""
    return any(a.dtype == object for a in arrays)


# --- comparisons ----------------------------------------------------------------------------------


def _compared(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: np.asarray(f(a, b)).astype(bool)


def is_infinite(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    up, down = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    if up and down:
        return x.isinf()
    if not up and not down:
        return functions.zeros(*x.shape, dtype=boolean)
    return x.isposinf() if up else x.isneginf()


# --- activations ----------------------------------------------------------------------------------


def gelu(n: OnnxNode) -> Tensor:
    return functional.gelu(n.tensor(0), approximate=n.attr("approximate", "none"))


def hard_sigmoid(x: Tensor, alpha: float, beta: float) -> Tensor:
    return (x * alpha + beta).clamp(0.0, 1.0)


def selu(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    alpha = n.attr("alpha", 1.67326319217681884765625)
    gamma = n.attr("gamma", 1.05070102214813232421875)
    return functions.where(x > 0, x, alpha * x.expm1()) * gamma


def celu(n: OnnxNode) -> Tensor:
    x, alpha = n.tensor(0), n.attr("alpha", 1.0)
    return functions.where(x > 0, x, alpha * (x / alpha).expm1())


def elu(n: OnnxNode) -> Tensor:
    x, alpha = n.tensor(0), n.attr("alpha", 1.0)
    return functions.where(x > 0, x, alpha * x.expm1())


def leaky(x: Tensor, slope: Any) -> Tensor:
    return functions.where(x < 0, x * slope, x)


def leaky_of_channels(n: OnnxNode) -> Tensor:
    """Before version 7 slopes are one, or one for each channel."""
    x = n.tensor(0)
    return leaky(x, n.tensor(1).reshape(-1, *(1,) * max(x.ndim - 2, 0)))


def shrink(n: OnnxNode) -> Tensor:
    x, bias, edge = n.tensor(0), n.attr("bias", 0.0), n.attr("lambd", 0.5)
    zero = functions.zeros_like(x)
    low = functions.where(x < -edge, (x + bias).to(x.dtype), zero)
    return functions.where(x > edge, (x - bias).to(x.dtype), low)


def softplus(x: Tensor) -> Tensor:
    """log(exp(x) + 1) without overflow."""
    return x.clamp(min=0.0) + (-x.abs()).exp().log1p()


def thresholded(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return functions.where(x > n.attr("alpha", 1.0), x, functions.zeros_like(x))


def swish(n: OnnxNode) -> Tensor:
    x = n.tensor(0)
    return x * (x * n.attr("alpha", 1.0)).sigmoid()


# --- casts ----------------------------------------------------------------------------------------


def cast(n: OnnxNode) -> Tensor:
    return kinds.cast(n, n.tensor(0), n.attr("to"))


def _known_cast(n: OnnxNode, a: Array) -> Any:
    return kinds.known_cast(a, numpy_type(n.attr("to")))


def cast_like(n: OnnxNode) -> Any:
    return kinds.cast(n, n.tensor(0), n.element_type(1))


# --- the rows -------------------------------------------------------------------------------------

_AND, _OR, _XOR = np.logical_and, np.logical_or, np.logical_xor

ROWS = (
    unary("Abs", Tensor.abs, np.abs),
    unary("Acos", Tensor.acos),
    unary("Acosh", Tensor.acosh),
    unary("Asin", Tensor.asin),
    unary("Asinh", Tensor.asinh),
    unary("Atan", Tensor.atan),
    unary("Atanh", Tensor.atanh),
    unary("Ceil", Tensor.ceil, _of_parts(parts.ceil, np.ceil)),
    unary("Cos", Tensor.cos),
    unary("Cosh", Tensor.cosh),
    unary("Erf", Tensor.erf),
    unary("Exp", Tensor.exp),
    unary("Floor", Tensor.floor, _of_parts(parts.floor, np.floor)),
    Operator("Identity", lambda n: n.inputs[0]),
    unary("Log", Tensor.log),
    unary("Neg", Tensor.neg, np.negative),
    unary("Reciprocal", Tensor.reciprocal),
    unary("Relu", Tensor.relu),
    unary("Round", Tensor.round),
    unary("Sigmoid", Tensor.sigmoid),
    unary("Sign", Tensor.sign),
    unary("Sin", Tensor.sin),
    unary("Sinh", Tensor.sinh),
    unary("Softplus", softplus),
    unary("Softsign", lambda x: x / (x.abs() + 1)),
    unary("Sqrt", Tensor.sqrt, lambda a: None if a.dtype == object else np.sqrt(a)),
    unary("Tan", Tensor.tan),
    unary("Tanh", Tensor.tanh),
    unary("Not", lambda x: x.logical_not(), np.logical_not),
    unary("IsNaN", Tensor.isnan),
    unary("HardSwish", lambda x: x * hard_sigmoid(x, 1 / 6, 0.5)),
    unary("Mish", lambda x: x * softplus(x).tanh()),
    unary("BitwiseNot", lambda x: ~x),
    binary("Add", lambda a, b: a + b, np.add),
    binary("Sub", lambda a, b: a - b, np.subtract),
    binary("Mul", lambda a, b: a * b, np.multiply),
    binary("Div", divide, _known_quotients),
    binary("And", lambda a, b: a & b, _AND),
    binary("Or", lambda a, b: a | b, _OR),
    binary("Xor", lambda a, b: a ^ b, _XOR),
    binary("BitwiseAnd", lambda a, b: a & b),
    binary("BitwiseOr", lambda a, b: a | b),
    binary("BitwiseXor", lambda a, b: a ^ b),
    binary("Equal", lambda a, b: a == b, _compared(np.equal)),
    binary("Greater", lambda a, b: a > b, _compared(np.greater)),
    binary("GreaterOrEqual", lambda a, b: a >= b, _compared(np.greater_equal)),
    binary("Less", lambda a, b: a < b, _compared(np.less)),
    binary("LessOrEqual", lambda a, b: a <= b, _compared(np.less_equal)),
    Operator("PRelu", lambda n: leaky(n.tensor(0), n.tensor(1)), since=7),
    Operator("PRelu", leaky_of_channels, since=1),
    Operator("Pow", power_of),
    Operator("Mod", modulo, known=_known_modulo),
    Operator("BitShift", shift),
    variadic("Max", Tensor.maximum, _known_greater),
    variadic("Min", Tensor.minimum, _known_lesser),
    variadic("Sum", lambda a, b: a + b, np.add),
    Operator("Mean", mean),
    Operator("Clip", clip),
    Operator("Where", where, known=_chosen),
    Operator("IsInf", is_infinite),
    Operator("Gelu", gelu),
    Operator(
        "HardSigmoid",
        lambda n: hard_sigmoid(n.tensor(0), n.attr("alpha", 0.2), n.attr("beta", 0.5)),
    ),
    Operator("Selu", selu),
    Operator("Celu", celu),
    Operator("Elu", elu),
    Operator("LeakyRelu", lambda n: leaky(n.tensor(0), n.attr("alpha", 0.01))),
    Operator("Shrink", shrink),
    Operator("ThresholdedRelu", thresholded),
    Operator("Swish", swish),
    Operator("Cast", cast, known=_known_cast),
    Operator("CastLike", cast_like),
)
