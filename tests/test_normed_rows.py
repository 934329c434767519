"""Products whose rows are normalised as they are packed: statistics of each row first, in the same launch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_products_together import DEEP, SHAPES, K, Net, check, compiled, gate_and_up, lowered

import lumigen as lg
from lumigen import functional as F
from lumigen.fast_lane import FastLane
from lumigen.frontend import Traced
from lumigen.plan import Illegal, Loop
from lumigen.targets.cpu.device import CPU
from lumigen.tile import Mma, Pack


class Normed(lg.nn.Module):
    """Weights of products, and both norms ahead of them."""

    def __init__(self, k: int) -> None:
        self.net = Net(k)
        self.rms = lg.nn.RMSNorm(k, eps=1e-5)
        self.layer = lg.nn.LayerNorm(k)


def rms(n: Normed, x: Any) -> Any:
    return n.net.gate(n.rms(x))


def layer(n: Normed, x: Any) -> Any:
    return F.gelu(n.net.up(n.layer(x)))


def commuted(n: Normed, x: Any) -> Any:
    """From plain ops, with factors in another order."""
    scale = (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return n.net.gate(n.rms.weight * (scale * x))


def shifted(n: Normed, x: Any) -> Any:
    """No statistics: what costs little to compute goes into the product as well."""
    return n.net.gate(n.layer.bias + n.rms.weight * x)


def accumulators(n: Normed, x: Any) -> Any:
    return gate_and_up(n.net, n.rms(x))


def grids(n: Normed, x: Any) -> Any:
    y = n.layer(x)
    return {"q": n.net.gate(y), "k": n.net.few(y), "v": n.net.up(y).relu()}


def read_after(n: Normed, x: Any) -> Any:
    """What follows the product reads a statistic of its rows too."""
    return n.net.gate(n.rms(x)) * x.square().mean(-1, keepdim=True)


ONE = {f.__name__: f for f in (rms, layer, commuted, shifted, accumulators, grids)}


def entry(
    function: Callable[[Normed, Any], Any], shape: str, k: int = K, dtype: lg.DType = lg.f32
) -> Traced:
    net = Normed(k).to(dtype)
    model = lg.Model("normed", net)

    @model.entry(x=lg.spec(*SHAPES[shape], k, dtype=dtype))
    def run(x: lg.Tensor) -> Any:
        return function(net, x)

    return model.trace()


@functools.cache
def library(dtype: lg.DType) -> FastLane:
    """All programs of all shapes, and in f32 those that store their rows."""
    made = {f"{n}_{s}": entry(f, s, dtype=dtype) for n, f in ONE.items() for s in SHAPES}
    if dtype is lg.f32:
        made |= {n: entry(f, "rows") for n, f in STORED.items()}
    return compiled(made, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ONE)
def test_a_norm_goes_into_the_product_after_it(
    name: str, shape: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    traced = entry(ONE[name], shape, dtype=dtype)
    model = lowered(traced, dtype)
    assert [k.program.skeleton for k in model.kernels] == ["panel"]
    check(traced, model, 1 if shape == "one" else 39, rng, (library(dtype), f"{name}_{shape}"))


@functools.cache
def library_of_deep(dtype: lg.DType) -> FastLane:
    made = {n: entry(ONE[n], "rows", DEEP[dtype], dtype) for n in ("rms", "accumulators")}
    return compiled(made, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DEEP, ids=str)
@pytest.mark.parametrize("name", ["rms", "accumulators"])
def test_rows_are_normalised_part_by_part(
    name: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    """Statistics are of all of a row, whatever part of it is multiplied."""
    traced = entry(ONE[name], "rows", DEEP[dtype], dtype)
    model = lowered(traced, dtype)
    assert len(model.kernels) == 1
    check(traced, model, 70, rng, (library_of_deep(dtype), name))


def test_one_row_of_bf16_is_multiplied_by_vectors() -> None:
    (kernel,) = lowered(entry(rms, "one", dtype=lg.bf16), lg.bf16).kernels
    (product,) = (s for s in kernel.program.statements() if isinstance(s, Mma))
    assert product.element is lg.f32


def test_accumulators_normalise_their_rows_once() -> None:
    (kernel,) = lowered(entry(accumulators, "rows")).kernels
    assert sum(isinstance(s, Pack) for s in kernel.program.statements()) == 1


def twice(n: Normed, x: Any) -> Any:
    """A residual reads the normalised value too, as in a model whose norms follow the sums."""
    y = n.rms(x)
    return n.net.gate(y).sum(-1, keepdim=True) + y


def wide(n: Normed, x: Any) -> Any:
    """So many columns that each row would be normalised for many tiles of them."""
    return n.rms(x) @ lg.nn.Parameter(K, 5000, name="wide")


def softmaxed(n: Normed, x: Any) -> Any:
    """An exponential of each element costs more than to read it."""
    return n.net.gate(x.softmax(-1))


STORED = {f.__name__: f for f in (twice, wide, softmaxed, read_after)}


@pytest.mark.parametrize("name", STORED)
def test_else_it_is_stored(name: str, rng: np.random.Generator) -> None:
    traced = entry(STORED[name], "rows")
    model = lowered(traced)
    assert model.kernels[0].program.skeleton == "simt"
    check(traced, model, 39, rng, (library(lg.f32), name))


@pytest.mark.slow
def test_a_chain_of_products_reads_a_norm_that_is_stored(rng: np.random.Generator) -> None:
    """Else the inner product, which never exists as a whole, would."""

    def feed_forward(n: Normed, x: Any) -> Any:
        hidden = F.gelu(n.rms(x) @ lg.nn.Parameter(12, 48, name="up"))
        return hidden @ lg.nn.Parameter(48, 12, name="down")

    traced = entry(feed_forward, "rows", 12)
    model = lowered(traced)
    assert [k.schedule.builder for k in model.kernels if k.schedule] == ["simt", "row_fold"]
    check(traced, model, 39, rng)


def test_a_plan_without_its_statistics_is_refused() -> None:
    (kernel,) = lowered(entry(layer, "rows")).kernels
    assert kernel.plan is not None
    assert kernel.schedule is not None
    (grid,) = kernel.plan.root
    first, second, *rest = grid.body
    assert isinstance(first, Loop)
    assert isinstance(second, Loop)
    for steps in ((first, *rest), rest):
        plan = replace(kernel.plan, root=(replace(grid, body=tuple(steps)),))
        assert isinstance(CPU.build(plan, kernel.schedule), Illegal)
