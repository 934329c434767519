"""Primitives that say an intrinsic are named so in a kernel, and the name means the same of every number."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.dtype import DType, f32, f64, i8, u8
from lumigen.interp import evaluate
from lumigen.intrinsics import INTRINSICS
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.region import Expr, Intrinsic, walk
from lumigen.targets.cpu.device import CPU

VALUES = (
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.49999997,
    -0.49999997,
    0.50000006,
    8388609.0,
    1e-40,
    -1e-40,
    3e38,
    np.inf,
    -np.inf,
    np.nan,
)
CASES: dict[str, tuple[Callable[..., lg.Tensor], set[str]]] = {
    "eq": (lambda x, y: x == y, {"eq"}),
    "ne": (lambda x, y: x != y, {"ne"}),
    "le": (lambda x, y: x <= y, {"le"}),
    "ge": (lambda x, y: x >= y, {"le"}),
    "equal to infinity": (lambda x, y: x == float("-inf"), {"eq"}),
    "at most a number": (lambda x, y: x <= 1, {"le"}),
    "isnan": (lambda x, y: x.isnan(), {"is_nan"}),
    "isinf": (lambda x, y: x.isinf(), {"is_inf"}),
    "isfinite": (lambda x, y: x.isfinite(), {"is_finite"}),
    "relu": (lambda x, y: x.relu(), {"max_ordered"}),
    "clamp": (lambda x, y: x.clamp(-1, 2), {"max_ordered", "min_ordered"}),
    "maximum": (lambda x, y: lg.maximum(x, y), {"max_nan"}),
    "minimum": (lambda x, y: lg.minimum(x, y), {"min_nan"}),
    "clamp by tensors": (lambda x, y: x.clamp(y, y + 1), {"max_nan", "min_nan"}),
    "abs": (lambda x, y: x.abs(), {"abs"}),
    "floor": (lambda x, y: x.floor(), {"floor"}),
    "ceil": (lambda x, y: x.ceil(), {"floor"}),
    "round": (lambda x, y: x.round(), {"round_even"}),
    "round to tenths": (lambda x, y: x.round(decimals=1), {"round_even"}),
    "or": (lambda x, y: (x < y) | (x < -1) | y.isnan(), {"mask_or", "is_nan"}),
    "and": (lambda x, y: (x <= y) & (y <= 1) & ~(x == y), {"le", "ne"}),
    "not at most": (lambda x, y: ~(x <= y), {"le"}),
    "power": (lambda x, y: (x.log2() * y).exp2(), {"power"}),
    "powers of one base": (lambda x, y: (x.log2() * y).exp2() + (x.log2() * 3).exp2(), {"power"}),
    "a maximum's sum": (lambda x, y: lg.maximum(x, y).sum(0), {"max_nan"}),
}  # fmt: skip


def values_of(model: LoweredModel) -> list[Expr]:
    statements = [s for k in model.kernels for s in k.program.statements()]
    return walk(v for s in statements for v in vars(s).values() if isinstance(v, Expr))


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_an_intrinsic_means_what_its_primitives_do(name: str, dtype: DType) -> None:
    function, wanted = CASES[name]
    pairs = np.array(list(product(VALUES, VALUES)), dtype.numpy)
    inputs = {"x": pairs[:, 0].copy(), "y": pairs[:, 1].copy()}
    spec = lg.spec(len(pairs), dtype=dtype)
    graph = traced(lambda **tensors: {"out": function(**tensors)}, x=spec, y=spec)
    lowered = assemble([("entry", graph)], CPU)
    assert {e.name for e in values_of(lowered) if isinstance(e, Intrinsic)} == wanted
    with np.errstate(all="ignore"):
        right = evaluate(graph, inputs, {})["out"]
    np.testing.assert_array_equal(run_entry(lowered, inputs, {})["out"], right)


BITS = {"whole_quotient", "whole_remainder"}
ESTIMATES = {"near_quotient", "near_recip", "near_exp2"}  # of test_estimates
SATURATED = {"saturated_i8", "saturated_u8"}


def test_the_exponent_of_a_double_is_split_in_a_whole_number_and_the_rest() -> None:
    x = np.array([*VALUES, 1000.7, -1100.2, 5e-324, 0.3, -0.3, 1 - 2**-53])
    graph = traced(lambda x: {"out": x.exp()}, x=lg.spec(len(x), dtype=f64))
    lowered = assemble([("entry", graph)], CPU)
    assert "exp2_split" in {e.name for e in values_of(lowered) if isinstance(e, Intrinsic)}
    with np.errstate(all="ignore"):
        right = evaluate(graph, {"x": x}, {})["out"]
    np.testing.assert_array_equal(run_entry(lowered, {"x": x}, {})["out"], right)


@pytest.mark.parametrize(
    ("end", "upper", "is_said"),
    [(700.0, 0.6931471806019545, True), (700.0, 0.75, False), (None, 0.6931471806019545, False)],
)
def test_a_split_that_is_no_power_of_its_number_stays_as_it_is(
    end: float | None, upper: float, is_said: bool
) -> None:
    """Vectors split off another whole number than the primitives do, and have no power of one that is far off."""

    def power(x: lg.Tensor) -> dict[str, lg.Tensor]:
        scale, lower = 1.4426950408889634, -4.2009150726810846e-11
        x = x if end is None else lg.where(x > end, end, lg.where(x < -end, -end, x))
        n = x * scale - x * scale % 1
        return {"out": n.exp2() * ((x - n * upper - n * lower) * scale).exp2()}

    graph = traced(power, x=lg.spec(8, dtype=f64))
    found = {
        e.name for e in values_of(assemble([("entry", graph)], CPU)) if isinstance(e, Intrinsic)
    }
    assert ("exp2_split" in found) == is_said


def test_bits_of_bytes_are_found_in_floats() -> None:
    spec, q = lg.spec(256, dtype=u8), np.arange(256, dtype=np.uint8)
    graph = traced(lambda q: {"out": (q & 15).to(f32) + (q >> 5).to(f32) * 16}, q=spec)
    graph = reduce(lambda g, step: step(g), GRAPH_PASSES, graph)
    lowered = assemble([("entry", graph)], CPU)
    assert {e.name for e in values_of(lowered) if isinstance(e, Intrinsic)} == BITS
    found = run_entry(lowered, {"q": q}, {})["out"]
    np.testing.assert_array_equal(found, (q & 15) + (q >> 5) * np.float32(16))


@pytest.mark.parametrize("dtype", [i8, u8], ids=str)
@pytest.mark.parametrize("ends", [(None, None), (-128, 127), (0, 255), (-3, 300)])
def test_casts_to_bytes_saturate_by_themselves(
    dtype: DType, ends: tuple[int | None, int | None]
) -> None:
    """To a byte that is stored, and to one that floats are made of; whatever ends are asked of them before."""

    def cast(x: lg.Tensor) -> dict[str, lg.Tensor]:
        low, high = ends
        near = (x if low is None else x.clamp(low, high)).to(dtype)
        return {"stored": near, "out": near.to(f32) * 3 + 1}

    x = np.array([*VALUES, 127.6, 128, 254.9, 255.5, 300, -127.9, -128.5, -200, -3.5], np.float32)
    graph = traced(cast, x=lg.spec(len(x)))
    lowered = assemble([("entry", graph)], CPU)
    names = {e.name for e in values_of(lowered) if isinstance(e, Intrinsic)}
    assert SATURATED & names == {f"saturated_{dtype}"}
    with np.errstate(all="ignore"):
        right = evaluate(graph, {"x": x}, {})
    found = fast_lane.load(lowered, "-O1").run("entry", {"x": x}, {})
    for name, wanted in right.items():
        np.testing.assert_array_equal(run_entry(lowered, {"x": x}, {})[name], wanted)
        np.testing.assert_array_equal(found[name], wanted)


def test_each_intrinsic_is_said_by_some_case() -> None:
    of_cases = (wanted for _, wanted in CASES.values())
    assert set().union(BITS, SATURATED, {"exp2_split"}, ESTIMATES, *of_cases) == set(INTRINSICS)
