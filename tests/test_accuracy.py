"""How far functions are from the truth, in units of the last place, over all of their range.

Interpreted, and as emitted code for this CPU; the oracle is PyTorch in f64, itself within a unit of f64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import lumigen as lg
from lumigen import functional as F

Array = np.ndarray[Any, Any]
Function = Callable[[Any], Any]


def method(name: str) -> tuple[Function, Function]:
    return (lambda x: getattr(x, name)(),) * 2


# How many units f32 and f64 may be off. Polynomials and chains of several functions add up the roundings of each step.
BOUNDS = {
    "exp": (1.2, 2),
    "exp2": (1.2, 1),
    "expm1": (3, 9),
    "log": (2, 2),
    "log2": (1.2, 1),
    "log10": (2.5, 2),
    "log1p": (3, 4),
    "sin": (2.2, 1),
    "cos": (2.2, 2),
    "tan": (4, 4),
    "asin": (6, 8),
    "acos": (5, 6),
    "atan": (5, 6),
    "sinh": (4, 9),
    "cosh": (4, 6),
    "asinh": (4, 6),
    "acosh": (4, 6),
    "atanh": (4, 6),
    "tanh": (4, 9),
    "sigmoid": (3, 4),
    "erf": (6, 4),
    "erfc": (6, 9),
    "sqrt": (0.5, 1),
    "reciprocal": (0.5, 0.5),
}
ROWS: dict[str, tuple[Function, Function, tuple[float, float]]] = {
    name: (*method(name), bounds) for name, bounds in BOUNDS.items()
}
ROWS |= {
    "softplus": (F.softplus, lambda x: torch.logaddexp(x, torch.zeros_like(x)), (4, 10)),
    "x / 24000": (lambda x: x / 24000, lambda x: x / 24000, (0.5, 0.5)),
    "exp(x / 4)": (lambda x: (x * 0.25).exp(), lambda x: (x * 0.25).exp(), (1.2, 2)),
    **{
        f"x ** {e}": (lambda x, e=e: x**e, lambda x, e=e: x**e, (1.5, 2))
        for e in (1.75, -1.75, 0.125, 30.5)
    },
    **{
        f"x ** {e}": (lambda x, e=e: x**e, lambda x, e=e: x**e, (5, 5))
        for e in (7, 8, 10, 31, -31, 127, 1000)
    },
    "x ** 20.5 + x ** 19.5": (lambda x: x**20.5 + x**19.5, lambda x: x**20.5 + x**19.5, (2.5, 3)),
    **{f"{b} ** x": (lambda x, b=b: b**x, lambda x, b=b: b**x, (1.2, 2)) for b in (10, 2.5, 1.001)},
}


def points(dtype: lg.DType) -> Array:
    """Numbers of every magnitude, and more of those where functions neither vanish nor overflow."""
    if dtype.bits == 16:
        every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
        return every[np.isfinite(every.astype(np.float32))]
    rng = np.random.default_rng(0)
    info = np.finfo(dtype.numpy)
    exponents = rng.uniform(np.log2(float(info.tiny)), np.log2(float(info.max)) - 1, 6000)
    some = [
        2.0**exponents * rng.choice([-1, 1], exponents.size),
        rng.uniform(-1, 1, 6000) * np.log(float(info.max)),
        rng.uniform(-5, 5, 6000),
        1 + rng.normal(size=2000) * 1e-3,
        np.arange(-40, 41) * np.pi / 4,
    ]
    return np.concatenate(some).astype(dtype.numpy)


@functools.cache
def results(dtype: lg.DType, *, compiled: bool) -> dict[str, Array]:
    x = points(dtype)
    cx = lg.Graph()
    given = cx.tensor(x.shape, dtype).set(x)
    found = {name: ours(given).retrieve() for name, (ours, _, _) in ROWS.items()}
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    with np.errstate(all="ignore"):
        cx.execute()
    return {name: y.numpy() for name, y in found.items()}


def units_off(found: Array, right: Array, dtype: lg.DType) -> Array:
    """Of normal results, of f64 as a whole number; beside overflow half a unit."""
    info = ml_dtypes.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        nearest = right.astype(dtype.numpy)
        near, got = nearest.astype(np.float64), found.astype(np.float64)
        digits = np.exp2(np.floor(np.log2(np.abs(near))) - info.nmant)
        off = np.abs(got - right) / digits
    same = (near == got) | (np.isnan(near) & np.isnan(got))
    off = np.where(same, np.minimum(np.nan_to_num(off), 0.5), np.nan_to_num(off, nan=np.inf))
    return np.where(np.abs(near) < float(info.tiny), 0, off)


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["interpreted", "cpu"]
)
@pytest.mark.parametrize("dtype", [lg.f32, lg.f64, lg.f16, lg.bf16], ids=str)
def test_functions_are_as_accurate_as_they_say(dtype: lg.DType, compiled: bool) -> None:
    x = points(dtype)
    wrong: list[str] = []
    for name, found in results(dtype, compiled=compiled).items():
        _, oracle, bounds = ROWS[name]
        right = oracle(torch.from_numpy(x.astype(np.float64))).numpy()
        off = units_off(found, right, dtype)
        bound = {lg.f32: bounds[0], lg.f64: bounds[1]}.get(dtype, 0.52)
        if dtype is lg.f64 and not compiled and name.startswith("x **"):
            bound = 1000  # the logarithm, and its product up to 1024, are rounded, where kernels keep more digits
        i = int(np.argmax(off))
        if off[i] > bound:
            wrong.append(f"{name}({x[i]}) is {found[i]}, not {right[i]}: {off[i]:.3g} units off")
    assert not wrong, "\n".join(wrong)
