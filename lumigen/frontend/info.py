"""finfo and iinfo: what numbers a dtype has, under PyTorch's names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lumigen.dtype import DType, f32
from lumigen.errors import BadArgument
from lumigen.frontend.trace import fail

LEAST_EXPONENTS = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a float dtype: `eps` is the step after 1, `tiny` the least number of full precision."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float


@dataclass(frozen=True)
class IntInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int


def finfo(dtype: DType = f32) -> FloatInfo:
    """The limits of a float dtype: bits, eps, max, min, tiny."""
    if not dtype.is_float:
        raise fail(BadArgument, op="finfo", name="dtype", value=dtype, expected="a float type")
    one = np.ones((), dtype.numpy)
    eps = float(np.nextafter(one, one + one)) - 1
    most = float(dtype.greatest)
    return FloatInfo(dtype.bits, eps, most, -most, 2.0 ** LEAST_EXPONENTS[dtype.name])


def iinfo(dtype: DType) -> IntInfo:
    """The limits of an integer dtype: bits, max, min."""
    if not dtype.is_int:
        raise fail(BadArgument, op="iinfo", name="dtype", value=dtype, expected="an integer type")
    return IntInfo(dtype.bits, int(dtype.greatest), int(dtype.lowest))
