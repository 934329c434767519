"""Folds of rows around a product: no scores are stored, and each is its region in the interpreter and compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.compile import lower_model
from lumigen.graph import tensor_of
from lumigen.index import extent_of
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.region import Role
from lumigen.target import CPU

ROWS = lg.Dim("rows", 1, 300, typical=200)
KEYS = lg.Dim("keys", 1, 700, typical=400)
Array = np.ndarray[Any, Any]
DEEP, WIDE, OUT = 24, 333, 40


class Head(lg.nn.Module):
    """Weights that a function gets in front of its inputs."""

    def __init__(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.held = lg.nn.ParameterList([lg.nn.Parameter(lg.zeros(*s)) for s in shapes])

    def forward(self, *inputs: lg.Tensor) -> Any:
        raise NotImplementedError


def causal(s: lg.Tensor) -> lg.Tensor:
    i, j = lg.arange(s.shape[-2]).unsqueeze(-1), lg.arange(s.shape[-1])
    return s.masked_fill(j > i, -np.inf)


def windowed(s: lg.Tensor) -> lg.Tensor:
    i, j = lg.arange(s.shape[-2]).unsqueeze(-1), lg.arange(s.shape[-1])
    return s.masked_fill((j > i) | (i > j + 70), -np.inf)


def both(s: lg.Tensor) -> dict[str, lg.Tensor]:
    return {"greatest": s.amax(-1), "total": s.sum(-1)}


@dataclass(frozen=True)
class Case:
    """A function of weights, then of inputs; how many kernels, and whether all of them but the last are others."""

    function: Callable[..., Any]
    inputs: dict[str, lg.spec]
    weights: tuple[tuple[int, ...], ...] = ()
    kernels: int = 1
    wide: int = WIDE
    labels: tuple[int, int] = field(default=(0, WIDE))


X = lg.spec(ROWS, DEEP)
W = (WIDE, DEEP)
Y = lg.spec(ROWS, dtype=lg.i64)
Q, K = lg.spec(2, ROWS, DEEP), lg.spec(2, KEYS, DEEP)
CASES = {
    "log_sum_exp": Case(lambda w, x: (x @ w.T).logsumexp(-1), {"x": X}, (W,)),
    "commuted": Case(lambda w, x: (w @ x.T).logsumexp(0), {"x": X}, (W,)),
    "of_inputs": Case(lambda x, k: (x @ k.mT).logsumexp(-1), {"x": Q, "k": K}),
    "scaled": Case(lambda x, k: (x @ k.mT * 0.3 + 1).logsumexp(-1), {"x": Q, "k": K}),
    "bias": Case(lambda w, b, x: (x @ w.T + b).logsumexp(-1), {"x": X}, (W, (WIDE,))),
    "causal": Case(lambda x, k: causal(x @ k.mT).logsumexp(-1), {"x": Q, "k": K}),
    "window": Case(lambda x, k: windowed(x @ k.mT).logsumexp(-1), {"x": Q, "k": K}),
    "causal_weights": Case(lambda w, x: causal(x @ w.T).logsumexp(-1), {"x": X}, (W,)),
    "window_weights": Case(lambda w, x: windowed(x @ w.T).logsumexp(-1), {"x": X}, (W,)),
    "labels": Case(
        lambda w, x, y: F.cross_entropy(x @ w.T, y, reduction="none"), {"x": X, "y": Y}, (W,)
    ),
    "mean_of_labels": Case(
        lambda w, x, y: F.cross_entropy(x @ w.T, y), {"x": X, "y": Y}, (W,), kernels=2
    ),
    "labels_of_inputs": Case(
        lambda x, k, y: F.cross_entropy(x @ k.T, y, reduction="none"),
        {"x": X, "k": lg.spec(WIDE, DEEP), "y": Y},
    ),
    "greatest": Case(lambda w, x: (x @ w.T).amax(-1), {"x": X}, (W,)),
    "greatest_and_total": Case(lambda w, x: both(x @ w.T), {"x": X}, (W,)),
    "mean_of_squares": Case(lambda w, x: (x @ w.T).square().mean(-1), {"x": X}, (W,)),
    "relu": Case(lambda w, v, x: (x @ w.T).relu() @ v, {"x": X}, (W, (WIDE, OUT))),
    "gelu": Case(
        lambda w, b, v, x: F.gelu(x @ w.T + b) @ v + x[:, :1], {"x": X}, (W, (WIDE,), (WIDE, OUT))
    ),
    "silu": Case(lambda w, v, x: F.silu(x @ w.T) @ v, {"x": X}, (W, (WIDE, OUT))),
}


def model_of(case: Case) -> lg.Model:
    net = Head(case.weights)
    model = lg.Model("rows", net)

    def entry(**inputs: lg.Tensor) -> Any:
        return case.function(*net.held, *inputs.values())

    model.entry(**case.inputs)(entry)
    return model
