"""Scans of long rows in parts: sums, maxima, products, and recurrences that are affine in what they carry."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, lowered
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen.graph import Graph, tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower import plan_region
from lumigen.lower.assemble import LoweredModel
from lumigen.lower.devices import Device
from lumigen.machine import Machine
from lumigen.region import Region, Scan
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body

LENGTH = lg.Dim("length", 1, 1 << 20, typical=1 << 18)
PART = 64
DEVICES = {"cpu": CPU, "cuda": CUDA}


def decayed(a: Any, b: Any) -> Any:
    """h = a h + b, the operands of both in another order than the usual."""

    def step(h: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        rate, more = given
        h = more + h * rate
        return h, h

    return lg.scan(step, b[0] * 2, (a, b))[1]


def leaky(x: Any) -> Any:
    """A constant rate, and what is added computed from the element."""

    def step(h: Any, e: Any) -> tuple[Any, Any]:
        h = (h - e) * 0.75 + e.square()
        return h, h

    return lg.scan(step, x[0], x)[1]


def squared(x: Any) -> Any:
    """Not affine: no two parts can be put together."""

    def step(h: Any, e: Any) -> tuple[Any, Any]:
        h = h * h * 0.1 + e.tanh() * 0.5
        return h, h

    return lg.scan(step, x[0] * 0, x)[1]


def doubled(x: Any) -> Any:
    return (x * 2).cumsum(-1)


def total(x: Any) -> Any:
    return x.cumsum(-1)


def down(x: Any) -> Any:
    return x.cumsum(0)


def permuted(x: Any) -> Any:
    return x.mT.cumsum(0).mT + 1


def product(x: Any) -> Any:
    return (1 + x * 0.01).cumprod(-1)


def logarithm(x: Any) -> Any:
    return x.logcumsumexp(-1)


def row(rows: int = 2, dtype: Any = lg.f32) -> dict[str, Any]:
    return {"x": lg.spec(rows, LENGTH, dtype=dtype)}


def columns(count: int, *names: str) -> dict[str, Any]:
    return {n: lg.spec(LENGTH, count) for n in names or ("x",)}


# the function, and how many kernels its parts take
SCANS: dict[str, tuple[Case, int]] = {
    "sum": ((doubled, row()), 3),
    "sum_of_halves": ((total, row(3, lg.bf16)), 3),
    "sum_of_integers": ((total, row(1, lg.i64)), 3),
    "sum_of_columns": ((down, columns(20)), 3),
    "sum_of_a_column": ((down, columns(1)), 3),
    "permuted": ((permuted, row()), 3),
    "product": ((product, row()), 3),
    "logarithm": ((logarithm, row(1)), 3),
    "decayed": ((decayed, columns(3, "a", "b")), 4),
    "decayed_row": ((decayed, columns(1, "a", "b")), 4),
    "leaky": ((leaky, columns(5)), 4),
    "squared": ((squared, columns(2)), 1),
}


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(_: Region, _machine: Machine) -> tuple[int, bool]:
        return PART, True

    monkeypatch.setattr(plan_region, "length_of_parts", parts)


def inputs_of(graph: Graph, length: int, rng: np.random.Generator) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for n in graph.inputs:
        shape = [int(e.evaluate({LENGTH: length})) for e in n.shape]
        drawn = rng.integers(-9, 9, shape) if n.dtype.is_int else rng.standard_normal(shape)
        name = tensor_of(n).name
        out[name] = (np.tanh(drawn) if name == "a" else drawn).astype(n.dtype.numpy)
    return out


def agree(found: Any, wanted: Any) -> None:
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    halves = found.dtype.itemsize == 2
    np.testing.assert_allclose(a, b, rtol=1e-2 if halves else 1e-4, atol=1e-4 * np.abs(b).max())


def scans_in_parts(model: LoweredModel) -> int:
    values = (s.value for k in model.kernels for s in k.region.stores)
    return sum(isinstance(v, Scan) and v.part == PART for v in values)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SCANS)
def test_parts_come_to_the_scan(name: str, device: str, rng: np.random.Generator) -> None:
    case, count = SCANS[name]
    graph, model = lowered(case, device=DEVICES[device])
    extra = len(model.kernels) - count  # ahead of the scan, or after it
    assert extra >= 0
    assert bool(scans_in_parts(model)) == (count > 1)
    for length in (1, PART, 3 * PART + 5):
        inputs = inputs_of(graph, length, rng)
        wanted = evaluate(graph, inputs, {})
        for by_region in (False, True):
            found = run_entry(model, inputs, {}, by_region=by_region)
            for out, value in found.items():
                agree(value, wanted[out])


@pytest.mark.slow
@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("name", SCANS)
def test_a_processor_does_as_numpy(name: str, rng: np.random.Generator) -> None:
    case, _ = SCANS[name]
    graph, model = lowered(case, device=CPU)
    library = fast_lane.load(model, "-O1", ("-Wall", "-Wextra", "-Werror"))
    for length in (1, 10 * PART, 1000):
        inputs = inputs_of(graph, length, rng)
        wanted = evaluate(graph, inputs, {})
        for out, value in library.run("entry", inputs, {}).items():
            agree(value, wanted[out])


@pytest.mark.usefixtures("in_parts")
@nvcc.needed
def test_the_compiler_takes_parts(tmp_path: Path) -> None:
    cases = {name: case for name, (case, _) in SCANS.items()}
    said = compiled_kernels(cases, ("sum", "sum_of_columns", "decayed"), "simt", "80", tmp_path)
    assert len(said) >= 9


def kernels(function: Callable[..., Any], device: Device, **inputs: Any) -> int:
    return len(lowered((function, inputs), device=device)[1].kernels)


def test_the_default_is_parts_where_rows_leave_a_device_idle() -> None:
    assert kernels(total, CPU, x=lg.spec(1, 1 << 20)) == 3
    assert kernels(total, CPU, x=lg.spec(2, 1 << 20)) == 1
    assert kernels(total, CPU, x=lg.spec(1, 1 << 12)) == 1
    assert kernels(product, CPU, x=lg.spec(1, 1 << 20)) == 1
    assert kernels(product, CUDA, x=lg.spec(8, 1 << 20)) == 3
    assert kernels(total, CUDA, x=lg.spec(8, 1 << 20)) == 3
    doubled = {name: lg.spec(1 << 20, 3) for name in ("a", "b")}
    assert kernels(decayed, CUDA, **doubled) == 1, "its products may overflow where it does not"
    assert kernels(total, CUDA, x=lg.spec(500, 1 << 20)) == 1
    assert kernels(total, CUDA, x=lg.spec(1, 1 << 12)) == 1


def test_no_name_of_a_loop_hides_that_of_a_part() -> None:
    _, model = lowered((down, {"x": lg.spec(4096, 4096)}), device=CUDA)
    first, *_ = model.kernels
    assert len(model.kernels) == 3, "blocks of columns are few"
    text = device_kernel_body(first.name, first.program, first.parameters, "model.py:1").body
    outside = set(re.findall(r"const int (\w+) =", text))
    inside = set(re.findall(r"int (\w+)[,)]", text))
    assert "part" in inside
    assert not outside & inside
