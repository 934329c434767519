"""Positions in sorted rows: found by halving, on rows of any length, NaN after all numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiles import run_entry, traced

import lumigen as lg
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.region import Reduce, walk
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

N, M = lg.Dim("numbers", 1, 1000), lg.Dim("values", 1, 300)
DEVICES = pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])


def lowered(function: Callable[..., Any], device: Device = CPU, **inputs: Any) -> LoweredModel:
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), device)


def both_sides(row: Any, x: Any) -> dict[str, Any]:
    return {side: lg.searchsorted(row, x, side=side) for side in ("left", "right")}


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """With ties, infinities and NaN."""
    x = rng.integers(-9, 9, shape).astype(np.float32)
    x[rng.random(shape) < 0.1] = np.nan
    x[rng.random(shape) < 0.1] = np.inf
    return x


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize(("n", "m"), [(1000, 300), (63, 65), (64, 1), (1, 300)])
def test_positions_are_those_of_numpy(device: Device, n: int, m: int) -> None:
    rng = np.random.default_rng(n + m)
    row, x = np.sort(numbers(rng, n)), numbers(rng, m)
    model = lowered(both_sides, device, row=lg.spec(N), x=lg.spec(M))
    found = run_entry(model, {"row": row, "x": x}, {})
    for side in ("left", "right"):
        np.testing.assert_array_equal(found[side], np.searchsorted(row, x, side))


@pytest.mark.parametrize("dtype", [lg.i64, lg.i32, lg.f64, lg.f16])
def test_each_row_has_values_of_its_own(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    rows = rng.integers(-50, 50, (3, 2, 70)).astype(dtype.numpy)
    x = rng.integers(-60, 60, (3, 2, 90)).astype(dtype.numpy)
    order = np.argsort(rows, -1)

    def function(rows: Any, order: Any, x: Any) -> Any:
        return lg.searchsorted(rows, x, sorter=order, right=True)

    sizes = {"rows": lg.spec(3, 2, 70, dtype=dtype), "order": lg.spec(3, 2, 70, dtype=lg.i64)}
    graph = traced(function, **sizes, x=lg.spec(3, 2, 90, dtype=dtype))
    found = evaluate(graph, {"rows": rows, "order": order, "x": x}, {})["out"]
    each = (torch.from_numpy(a) for a in (rows, x))
    want = torch.searchsorted(*each, sorter=torch.from_numpy(order), right=True)
    np.testing.assert_array_equal(found, want)


@DEVICES
def test_a_search_has_as_many_steps_as_the_length_of_a_row_has_digits(device: Device) -> None:
    """No loop goes over the row; each of 21 halvings is a launch, for the numbers in it and for the values."""

    def function(row: Any, x: Any) -> Any:
        return lg.searchsorted(row, x)

    model = lowered(function, device, row=lg.spec(1 << 20), x=lg.spec(16))
    values = [s.value for k in model.kernels for s in k.region.stores]
    assert not [e for e in walk(values) if isinstance(e, Reduce)]
    assert len(model.programs[0].chosen({})) <= 2 * 21 + 6


@pytest.mark.slow
@DEVICES
def test_membership_is_looked_up_in_the_sorted_others(device: Device) -> None:
    rng = np.random.default_rng(3)
    x, others = (numbers(rng, n) + np.float32(0.5) * (rng.random(n) < 0.5) for n in (200, 60))
    model = lowered(lambda x, others: lg.isin(x, others), device, x=lg.spec(M), others=lg.spec(N))
    found = run_entry(model, {"x": x, "others": others}, {})["out"]
    np.testing.assert_array_equal(found, torch.isin(*map(torch.from_numpy, (x, others))))
    assert "order" in {k.program.skeleton for k in model.kernels}


@DEVICES
def test_few_elements_are_compared_with_all_others(device: Device) -> None:
    """That takes less than to sort a million of them."""

    def function(x: Any, others: Any) -> Any:
        return lg.isin(x, others)

    model = lowered(function, device, x=lg.spec(3), others=lg.spec(1 << 20))
    assert "order" not in {k.program.skeleton for k in model.kernels}


@DEVICES
def test_the_mode_is_the_longest_run_of_sorted_rows(device: Device) -> None:
    x = np.random.default_rng(5).integers(0, 9, (4, 300))
    model = lowered(lambda x: x.mode()._asdict(), device, x=lg.spec(4, 300, dtype=lg.i64))
    found = run_entry(model, {"x": x}, {})
    np.testing.assert_array_equal(found["values"], torch.from_numpy(x).mode().values)
    last = [np.flatnonzero(row == value)[-1] for row, value in zip(x, found["values"], strict=True)]
    np.testing.assert_array_equal(found["indices"], last)
