"""intrinsics: what several primitives say and every target has a word for, with its meaning in numpy.

A comparison with NaN or infinity, a maximum, a power and the like are spelled in primitives, and named again when a
kernel is made (`lower/named.py`), so that its text says `is_nan(x)` and `a == b`. What has a name is computed as one:
two powers of one base do not share a rounded logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Function:
    """Its meaning on numpy arrays, the operator of C++ that a scalar is written with, and its name for a scalar of f64.

    The last two are there if it has an operator, and another name.
    """

    meaning: Callable[..., Any]
    operator: str = ""
    of_double: str = ""


def _max_ordered(a: Array, b: Array) -> Array:
    out: Array = np.where(a < b, b, a)
    return out


def _min_ordered(a: Array, b: Array) -> Array:
    out: Array = np.where(b < a, b, a)
    return out


def _whole_quotient(a: Array, size: Array) -> Array:
    """Of a whole number by a power of two."""
    out: Array = np.floor(a / size)
    return out


def _whole_remainder(a: Array, size: Array) -> Array:
    out: Array = a - size * np.floor(a / size)
    return out


def _saturated_i8(a: Array) -> Array:
    out: Array = np.trunc(np.clip(np.where(np.isnan(a), 0, a), -128, 127))
    return out


def _saturated_u8(a: Array) -> Array:
    out: Array = np.trunc(np.clip(np.where(np.isnan(a), 0, a), 0, 255))
    return out


def _power(a: Array, b: Array) -> Array:
    out: Array = np.exp2(np.log2(a) * b)
    return out


def _exp2_split(a: Array, scale: Array, upper: Array, lower: Array) -> Array:
    """2^(a scale) with 1 / scale = upper + lower: the whole part of the exponent goes apart."""
    exponent = a * scale
    n = exponent - np.mod(exponent, 1)
    out: Array = np.exp2(n) * np.exp2((a - n * upper - n * lower) * scale)
    return out


# The name is that of the function in the headers of every target, for scalars and for lanes.
INTRINSICS: dict[str, Function] = {
    "eq": Function(np.equal, "=="),
    "ne": Function(np.not_equal, "!="),
    "le": Function(np.less_equal, "<="),
    "mask_or": Function(np.logical_or, "||"),
    "is_nan": Function(np.isnan),
    "is_inf": Function(np.isinf),
    "is_finite": Function(np.isfinite),
    "max_ordered": Function(_max_ordered),
    "min_ordered": Function(_min_ordered),
    "max_nan": Function(np.maximum),
    "min_nan": Function(np.minimum),
    "abs": Function(np.abs),
    "floor": Function(np.floor),
    "round_even": Function(np.rint),
    "saturated_i8": Function(_saturated_i8),
    "saturated_u8": Function(_saturated_u8),
    "whole_quotient": Function(_whole_quotient),
    "whole_remainder": Function(_whole_remainder),
    "power": Function(_power, of_double="double_power"),
    "exp2_split": Function(_exp2_split),
    "near_quotient": Function(np.divide),
    "near_recip": Function(np.reciprocal),
    "near_exp2": Function(np.exp2),
}
