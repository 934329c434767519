"""Reductions against PyTorch: any dims, keepdim, NaN, infinities, ties, symbolic extents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from through_graph import as_torch, check, interpret

import lumigen as lg

SHAPE = (3, 5, 7)
DIMS = [None, 0, -1, (0, 2), (-2, -1), (0, 1, 2)]
FLOAT = ["sum", "mean", "var", "std", "amax", "amin", "logsumexp"]


def _numbers(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", FLOAT)
def test_floats(name: str, dim: Any, keepdim: bool, rng: np.random.Generator) -> None:
    x = _numbers(rng)

    def f(t: Any) -> Any:
        return getattr(t, name)(dim=(0, 1, 2) if dim is None else dim, keepdim=keepdim)

    check(interpret(f, x), f(as_torch(x)), 1e-5, 1e-6)


SPECIAL = np.array(
    [
        [1.0, math.nan, 2.0, -math.inf],
        [1.0, math.inf, 2.0, 3.0],
        [-math.inf] * 4,
        [0.0, -0.0, -1.0, -2.0],
        [math.inf, -math.inf, 0.0, 1.0],
    ],
    np.float32,
)


@pytest.mark.parametrize(
    "name", ["sum", "amax", "amin", "logsumexp", "argmax", "argmin", "softmax"]
)
def test_special_values(name: str) -> None:
    def f(t: Any) -> Any:
        return getattr(t, name)(-1)

    check(interpret(f, SPECIAL), f(as_torch(SPECIAL)))


@pytest.mark.parametrize("name", ["amax", "amin", "sum", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_integers(name: str, dtype: type) -> None:
    ends = np.iinfo(dtype)
    x = np.array([[ends.min, ends.max, 3, 3], [5, 5, 1, 2], [7, 1, 1, 7]], dtype)
    if name == "sum":
        x[0, 0] = 0

    def f(t: Any) -> Any:
        return getattr(t, name)(1)

    check(interpret(f, x), f(as_torch(x)))


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("name", ["any", "all"])
def test_truths(name: str, dim: int | None) -> None:
    x = np.array([[True, False, True], [True, True, True], [True, False, False]])

    def f(t: Any) -> Any:
        return getattr(t, name)() if dim is None else getattr(t, name)(dim)

    check(interpret(f, x), f(as_torch(x)))
    y = np.array([[0.0, -0.0, math.nan], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], np.float32)
    check(interpret(f, y), f(as_torch(y)))


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str, dim: int | None, keepdim: bool, rng: np.random.Generator) -> None:
    x = rng.integers(0, 4, SHAPE).astype(np.float32)  # ties: the first wins

    def f(t: Any) -> Any:
        return getattr(t, name)(dim, keepdim=keepdim)

    check(interpret(f, x), f(as_torch(x)))


def test_sum_has_a_dtype(rng: np.random.Generator) -> None:
    x = rng.integers(0, 2, (4, 5)).astype(np.bool_)
    check(interpret(lambda t: t.sum(1), x), as_torch(x).sum(1))
    check(interpret(lambda t: t.sum(dtype=lg.f64), x), as_torch(x).sum(dtype=torch.float64))
    check(interpret(lambda t: t.sum(dtype=lg.bool), x), as_torch(x).sum(dtype=torch.bool))
    check(interpret(lambda t: t.sum(1, dtype=lg.bool), x), as_torch(x).sum(1, dtype=torch.bool))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_prod_has_a_dtype(dtype: str) -> None:
    x = np.array([[2, 3, 100], [7, 1, 5]], np.uint8)
    ours = {"uint8": lg.u8, "int32": lg.i32, "float32": lg.f32}[dtype]
    theirs = getattr(torch, dtype)
    check(interpret(lambda t: t.prod(dtype=ours), x), as_torch(x).prod(dtype=theirs))
    check(interpret(lambda t: t.prod(1, dtype=ours), x), as_torch(x).prod(1, dtype=theirs))


def test_variance_of_one_is_nan() -> None:
    x = np.ones((3, 1), np.float32)
    assert np.isnan(interpret(lambda t: t.var(1), x)).all()


@pytest.mark.parametrize("p", [1, 2, 3, math.inf])
def test_norm(p: float, rng: np.random.Generator) -> None:
    x = _numbers(rng)
    expected = torch.linalg.vector_norm(as_torch(x), p, dim=1)
    check(interpret(lambda t: t.norm(p, 1), x), expected, 1e-5)


SYMBOLIC: list[tuple[str, Callable[[Any], Any]]] = [
    ("mean", lambda t: t.mean((0, 1))),
    ("var", lambda t: t.var(1)),
    ("argmax", lambda t: t.argmax(1)),
    ("softmax", lambda t: t.softmax(1)),
    ("prod", lambda t: t.prod(1, keepdim=True)),
    ("prod of all", lambda t: t.prod()),
    ("prod of what may be nothing", lambda t: t[:, 1:].prod(1)),
    ("count", lambda t: t * t.shape[1]),
]


@pytest.mark.parametrize(("name", "f"), SYMBOLIC, ids=[n for n, _ in SYMBOLIC])
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (4, 4), (9, 9)])
def test_symbolic_extents(
    name: str, f: Callable[[Any], Any], size: tuple[int, int], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((*size, 3)).astype(np.float32)
    declared = {"x0": lg.spec(lg.Dim("a", 1, 9), lg.Dim("b", 1, 9), 3)}
    if name == "var" and size[1] == 1:  # PyTorch warns
        assert np.isnan(interpret(f, x, specs=declared)).all()
        return
    expected = f(as_torch(x).double()).float() if name != "argmax" else f(as_torch(x))
    check(interpret(f, x, specs=declared), expected, 1e-5, 1e-6)
