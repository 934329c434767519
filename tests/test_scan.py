"""Scans as loops: what runs in each step and what ahead of them, and what a body may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import nn
from lumigen.errors import BadArgument
from lumigen.frontend import Tensor
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.printer.program import show
from lumigen.program import PartArg, SlotArg
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import ScanLanes
from lumigen.verify.program import verify

T, B = lg.Dim("steps", 1, 50), lg.Dim("batch", 1, 8)


def lowered(function: Callable[..., Any], device: Device = CPU, **inputs: Any) -> LoweredModel:
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), device)


def test_products_with_the_input_stand_ahead_of_the_loop() -> None:
    """In each step of an LSTM there are one product and one kernel of the rest, for any number of steps."""
    net = nn.LSTM(6, 32)
    for name, p in net.named_parameters():
        p.name = name
    model = lowered(lambda x: net(x)[0], x=lg.spec(T, B, 6))
    (program,) = model.programs
    inside = [g for g in program.groups if g.repeats]
    kernels = {k.name: k.program.skeleton for k in model.kernels}
    names = [x.kernel for g in inside for x in g.variants[-1].launches]
    assert [kernels[n] for n in names] == ["panel", "simt"]
    ahead = [x.kernel for g in program.groups if not g.repeats for x in g.variants[-1].launches]
    assert [kernels[n] for n in ahead].count("panel") == 1
    ran = [x.kernel for x in program.chosen({T: 7, B: 2})]
    assert [ran.count(n) for n in names] == [7, 7]
    assert "for loop0_step below steps\n  run " in show(program)


def test_steps_read_what_the_one_before_has_stored() -> None:
    """A carry of all steps is one slot, of which a step reads one part and writes the next."""
    model = lowered(
        lambda x: lg.scan(lambda h, e: (h.sum(0) + e, None), x[0], x)[0], x=lg.spec(T, B)
    )
    (program,) = model.programs
    verify(program, {k.name: k.parameters for k in model.kernels})
    launches = program.chosen({T: 3, B: 4})
    parts = [a for x in launches for a in x.arguments if isinstance(a, PartArg)]
    carry = [a for a in parts if a.of == parts[0].of]  # beginning with the first one
    assert isinstance(parts[0].of, SlotArg)
    places = [int(a.base.evaluate({T: 3, B: 4})) for a in carry]
    assert sorted(set(places)) == [0, 4, 8, 12]
    assert places == sorted(places)


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize(("length", "in_lanes"), [(8, False), (4096, True)])
def test_long_rows_are_scanned_in_lanes(device: Device, length: int, in_lanes: bool) -> None:
    model = lowered(lambda x: x.cumsum(1), device, x=lg.spec(B, length))
    found = [s for k in model.kernels for s in k.program.statements() if isinstance(s, ScanLanes)]
    assert bool(found) is in_lanes


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_a_step_may_take_elements_of_several_tensors(device: Device) -> None:
    """Then it is still one kernel, if each element goes by itself, and not a loop around one."""

    def step(h: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        a, b = given
        h = a * h + b
        return h, h

    def function(a: Tensor, b: Tensor) -> Tensor:
        return lg.scan(step, b[0], (a, b))[1]

    graph = traced(function, a=lg.spec(T, B), b=lg.spec(T, B))
    model = lowered(function, device, a=lg.spec(T, B), b=lg.spec(T, B))
    (program,) = model.programs
    assert not any(g.repeats for g in program.groups)
    rng = np.random.default_rng(3)
    inputs = {name: rng.normal(size=(9, 4)).astype(np.float32) for name in "ab"}
    found, want = run_entry(model, inputs, {}), evaluate(graph, inputs, {})
    np.testing.assert_allclose(found["out"], want["out"], 1e-5, 1e-6)


def test_scans_of_one_tensor_along_two_axes_differ() -> None:
    graph = traced(lambda x: {"down": x.cumsum(0), "right": x.cumsum(1)}, x=lg.spec(3, 3))
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    got = evaluate(graph, {"x": x}, {})
    np.testing.assert_array_equal(got["down"], x.cumsum(0))
    np.testing.assert_array_equal(got["right"], x.cumsum(1))


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("by_region", [False, True], ids=["tiles", "regions"])
def test_a_scan_may_be_empty_at_run_time(device: Device, by_region: bool) -> None:
    model = lowered(lambda x: x.diff(dim=0).cumsum(0).cummax(0)[0], device, x=lg.spec(T, B))
    for rows in (1, 5):
        x = np.random.default_rng(4).normal(size=(rows, 4)).astype(np.float32)
        found = run_entry(model, {"x": x}, {}, by_region=by_region)["out"]
        want = np.maximum.accumulate(np.diff(x, axis=0).cumsum(0), 0)
        np.testing.assert_allclose(found, want, 1e-5, 1e-6)


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
def test_a_step_reads_a_table_at_what_it_carries(device: Device) -> None:
    """The integers are those of a step's slice, the table is none."""

    def function(table: Tensor, x: Tensor) -> Tensor:
        return lg.scan(lambda at, e: (table[(at + e) % 8], None), x[0], x)[0]

    model = lowered(function, device, table=lg.spec(8, dtype=lg.i64), x=lg.spec(T, B, dtype=lg.i64))
    rng = np.random.default_rng(8)
    table, x = rng.permutation(8), rng.integers(0, 8, (9, 4))
    at = x[0]
    for e in x:
        at = table[(at + e) % 8]
    np.testing.assert_array_equal(run_entry(model, {"table": table, "x": x}, {})["out"], at)


def keep(h: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    return h + e, h


MISTAKES: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "a carry that grows": (
        lambda x: lg.scan(lambda h, e: (lg.cat([h, e]), None), x[0], x),
        "f32.3. at first and f32.6. after a step",
    ),
    "a carry of another dtype": (
        lambda x: lg.scan(lambda h, e: (h > e, None), x[0], x),
        "f32.3. at first and bool.3. after a step",
    ),
    "a carry of another kind": (
        lambda x: lg.scan(lambda h, e: ((h, e), None), x[0], x),
        "a carry cannot be tuple.a tensor, a tensor",
    ),
    "no pair": (lambda x: lg.scan(lambda h, e: h + e, x[0], x), "the next carry, what is kept"),
    "no length": (lambda x: lg.scan(keep, x[0], None), "no xs and no length"),
    "two lengths": (lambda x: lg.scan(keep, x[0], x, length=4), "one for all"),
    "numbers": (lambda x: lg.scan(keep, 0.0, x), "init cannot be a float"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_scanned(name: str) -> None:
    function, wanted = MISTAKES[name]
    with pytest.raises(BadArgument, match=wanted):
        traced(function, x=lg.spec(5, 3))


def test_a_body_writes_to_no_state() -> None:
    state = nn.State("kept", (3,))

    def step(h: Tensor, e: Tensor) -> tuple[Tensor, None]:
        state[:] = e
        return h + e, None

    with pytest.raises(BadArgument, match="writes to a state"):
        traced(lambda x: lg.scan(step, x[0], x)[0], x=lg.spec(5, 3))
