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
from lumigen.region import Gather, Reduce, walk
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import For

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
def test_a_search_is_one_kernel_with_as_many_steps_as_the_length_of_a_row_has_digits(
    device: Device,
) -> None:
    """No loop goes over the row, and no step stores where it has come to."""

    def function(row: Any, x: Any) -> Any:
        return lg.searchsorted(row, x)

    model = lowered(function, device, row=lg.spec(1 << 20), x=lg.spec(4000))
    (kernel,) = model.kernels
    values = walk(s.value for s in kernel.region.stores)
    assert not [e for e in values if isinstance(e, Reduce)]
    # for the numbers in the row and for the values; the first element that is read is the same for all
    assert len([e for e in values if isinstance(e, Gather)]) == 2 * 20
    assert len(model.programs[0].chosen({})) == 1


def test_vectors_search_for_as_many_values_as_they_have_lanes() -> None:
    model = lowered(both_sides, row=lg.spec(N), x=lg.spec(M))
    loops = [s for k in model.kernels for s in k.program.statements() if isinstance(s, For)]
    assert [s.axis for s in loops if s.lanes]


@pytest.mark.parametrize("dtype", [lg.f64, lg.i64])
def test_what_no_vector_gathers_is_looked_for_one_by_one(dtype: Any) -> None:
    model = lowered(both_sides, row=lg.spec(N, dtype=dtype), x=lg.spec(M, dtype=dtype))
    loops = [s for k in model.kernels for s in k.program.statements() if isinstance(s, For)]
    assert not [s.axis for s in loops if s.lanes]


@DEVICES
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_nan_alone_have_no_numbers(device: Device, side: str) -> None:
    row = np.full(20, np.nan, np.float32)
    x = np.array([np.nan, 0, np.inf, -np.inf] * 60, np.float32)
    model = lowered(
        lambda row, x: lg.searchsorted(row, x, side=side), device, row=lg.spec(N), x=lg.spec(M)
    )
    found = run_entry(model, {"row": row, "x": x}, {})["out"]
    np.testing.assert_array_equal(found, np.searchsorted(row, x, side))


@DEVICES
def test_positions_choose_what_is_made_of_the_row(device: Device) -> None:
    """An interpolation reads both neighbours of each value where its search ends."""

    def function(x: Any, xs: Any, ys: Any) -> Any:
        right = lg.searchsorted(xs, x).clamp(1, 63)
        x0, y0, x1, y1 = (a[i] for i in (right - 1, right) for a in (xs, ys))
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

    rng = np.random.default_rng(2)
    given = {"x": rng.uniform(0, 1, 200), "xs": np.linspace(0, 1, 64), "ys": rng.random(64)}
    arrays = {k: v.astype(np.float32) for k, v in given.items()}
    model = lowered(function, device, x=lg.spec(M), xs=lg.spec(64), ys=lg.spec(64))
    found = run_entry(model, arrays, {})["out"]
    want = np.interp(arrays["x"], arrays["xs"], arrays["ys"])
    np.testing.assert_allclose(found, want, rtol=1e-4)


@DEVICES
@pytest.mark.parametrize("steps", [3, 40])
def test_a_chain_of_reads_stays_in_registers(device: Device, steps: int) -> None:
    """Each place is an integer that the one before holds, which may be none of the table; a long chain has parts."""

    def function(table: Any, x: Any) -> Any:
        for _ in range(steps):
            x = table.gather(0, x + (x < 0))
        return x

    rng = np.random.default_rng(steps)
    table = rng.integers(-5, 310, 300).astype(np.int32)
    x = rng.integers(0, 300, 200).astype(np.int32)
    sizes = {"table": lg.spec(N, dtype=lg.i32), "x": lg.spec(M, dtype=lg.i32)}
    model = lowered(function, device, **sizes)
    assert len(model.kernels) == (1 if steps == 3 else 3)
    found = run_entry(model, {"table": table, "x": x}, {})["out"]
    for _ in range(steps):
        at = x + (x < 0)
        x = np.where((at >= 0) & (at < 300), table[at.clip(0, 299)], 0)
    np.testing.assert_array_equal(found, x)


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
