"""Random chains of movement and arithmetic against PyTorch, shapes and all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as torch_functional
from hypothesis import given, settings
from hypothesis import strategies as st
from through_graph import as_torch, check, interpret

import lumigen as lg
from lumigen import functional

MAX_ELEMENTS = 600


def factors(n: int) -> list[tuple[int, int]]:
    return [(d, n // d) for d in range(1, n + 1) if n % d == 0]


@st.composite
def steps(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[str, Any]]]:
    """A shape, and operations that fit one after the other."""
    start = shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    chain: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(KINDS))
        d = draw(st.integers(0, len(shape) - 1)) if shape else 0
        argument = _argument(draw, kind, shape, d)
        if argument is None:
            continue
        after = tuple(apply(torch, kind, argument, torch.zeros(shape)).shape)
        if 0 < math.prod(after) <= MAX_ELEMENTS and len(after) <= 5:
            chain.append((kind, argument))
            shape = after
    return start, chain


KINDS = ["permute", "split", "merge", "slice", "pad", "flip", "expand", "sum", "max", "cat", "mul"]


def _argument(draw: st.DrawFn, kind: str, shape: tuple[int, ...], d: int) -> Any:
    if kind == "permute":
        return draw(st.permutations(range(len(shape))))
    if kind == "mul":
        return draw(st.sampled_from([-1.5, 2.0]))
    if not shape:
        return None
    if kind == "split":
        return (d, draw(st.sampled_from(factors(shape[d]))))
    if kind == "slice":
        begin = draw(st.integers(0, shape[d] - 1))
        end = draw(st.integers(begin + 1, shape[d]))
        return (d, slice(begin, end, draw(st.integers(1, 3))))
    if kind == "pad":
        widths = [draw(st.integers(0, 2)) for _ in range(2 * len(shape))]
        return (widths, draw(st.sampled_from([0.0, 1.0, -math.inf])))
    return d


def apply(module: Any, kind: str, argument: Any, x: Any) -> Any:
    shape = tuple(x.shape)
    match kind:
        case "permute":
            return x.permute(*argument) if argument else x
        case "mul":
            return x * argument
        case "split":
            return x.reshape(*shape[: argument[0]], *argument[1], *shape[argument[0] + 1 :])
        case "merge":
            return x.flatten(max(0, argument - 1), argument)
        case "slice":
            return x[(slice(None),) * argument[0] + (argument[1],)]
        case "pad":
            pad = torch_functional.pad if module is torch else functional.pad
            return pad(x, argument[0], value=argument[1])
        case "flip":
            return x.flip(argument)
        case "expand":
            return x.unsqueeze(argument).expand(*shape[:argument], 3, *shape[argument:])
        case "sum":
            return x.sum(argument, keepdim=True)
        case "max":
            return x.amax(argument)
        case _:
            return module.cat([x, x.flip(argument)], argument)


@pytest.mark.slow
@settings(max_examples=200)
@given(steps())
def test_chains(program: tuple[tuple[int, ...], list[tuple[str, Any]]]) -> None:
    shape, chain = program
    x = np.random.default_rng(len(chain)).standard_normal(shape).astype(np.float32)

    def run(module: Any, t: Any) -> Any:
        for kind, argument in chain:
            t = apply(module, kind, argument, t)
        return t

    expected = run(torch, as_torch(x).double()).float()
    check(interpret(lambda t: run(lg, t) * 1, x), expected, 1e-6, 1e-6)
