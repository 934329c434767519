"""Long reductions in parts: what parts and rest come to is what the region meant, in whatever order tasks run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_programs import drawn
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.errors import UserError
from lumigen.graph import Graph, tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.split import split
from lumigen.machine import Grain
from lumigen.region import Reduce, walk
from lumigen.targets.cpu import device as cpu
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cpu.machines import PLANNED
from lumigen.targets.cuda import device as cuda
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.machines import SM_80, SM_90A
from lumigen.targets.cuda.speller import device_kernel_body
from lumigen.tile import WhenLast
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify as verify_tile

N = lg.Dim("n", 1, 4000, typical=300)
# Parts of three terms and more, so that a few dozen make several, in several levels.
EAGER = replace(PLANNED.division, lanes=64, row=Grain(4, 3, 4), column=Grain(1, 3, 64), again=64)
DEVICES = {
    "cpu": cpu.device_of(replace(PLANNED, division=EAGER)),
    "cuda": cuda.device_of(replace(SM_80, division=EAGER), SM_90A),
}

CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "all": (lambda x: x.sum(), lg.spec(N)),
    "all_of_two_axes": (lambda x: x.square().sum(), lg.spec(3, N)),
    "rows": (lambda x: x.sum(-1), lg.spec(3, N)),
    "columns": (lambda x: x.sum(0), lg.spec(N, 5)),
    "normal_columns": (lambda x: (x - x.mean(0)) / (x.var(0) + 1).sqrt(), lg.spec(N, 5)),
    "centred_columns": (lambda x: (x - x.mean(0)).abs().amax(0), lg.spec(N, 2, 5)),
    "groups": (lambda x: F.group_norm(x.reshape(2, 6, -1), 3), lg.spec(2, 3, 2, N)),
    "channels": (lambda x: x.softmax(1), lg.spec(2, 5, N)),
    "two_axes": (lambda x: x.amax((0, 1)) - x.sum((1, 2)).amax(), lg.spec(7, N, 5)),
    "between": (lambda x: x.amax(1), lg.spec(2, N, 5)),
    "softmax": (lambda x: x.softmax(-1), lg.spec(2, N)),
    "centred": (lambda x: (x - x.mean()) / x.var().sqrt(), lg.spec(N)),
    "where_it_is_greatest": (lambda x: x.argmax(-1), lg.spec(2, N)),
    "integers": (lambda x: x.sum(), lg.spec(N, dtype=lg.i32)),
    "any": (lambda x: (x > 3).any(), lg.spec(N)),
    "of_none": (lambda x: x[1:].sum(), lg.spec(N)),
    "a_triangle": (lambda x: lg.tril(x).sum(1), lg.spec(3, N)),
    "backwards": (lambda x: (x.flip(0) * x).sum(), lg.spec(N)),
    "a_sum_beside_the_spread": (lambda x: {"s": x.sum(0), "v": x.var(0)}, lg.spec(N, 5)),
    "a_mean_beside_the_spread": (lambda x: {"m": x.mean(-1), "v": x.var(-1)}, lg.spec(2, N)),
    "a_sum_of_sums": (lambda x: x.softmax(1).sum(), lg.spec(3, N)),
}


def lowered(graph: Graph, device: Device) -> LoweredModel:
    for step in GRAPH_PASSES:
        graph = step(graph)
    model = assemble((("entry", graph),), device)
    for k in model.kernels:
        verify_region(k.region)
        verify_tile(k.program)
    return model


def inputs_of(graph: Graph, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    shapes = {
        tensor_of(x).name: (
            [int(e.evaluate(dict.fromkeys(graph.dims(), n))) for e in x.shape],
            x.dtype,
        )
        for x in graph.inputs
    }
    return {
        name: (rng.normal(size=shape) * 3).astype(dtype.numpy)
        for name, (shape, dtype) in shapes.items()
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_parts_and_rest_are_the_whole(name: str, device: str) -> None:
    function, x = CASES[name]
    graph = traced(function, x=x)
    model = lowered(graph, DEVICES[device])
    if device == "cuda":
        for k in model.kernels:
            assert device_kernel_body(k.name, k.program, k.parameters, "model.py:1").body
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 100, 301):
        inputs = inputs_of(graph, n)
        with np.errstate(all="ignore"):  # the variance of one
            expected = evaluate(graph, inputs, {})
        found = run_entry(model, inputs, {}, lambda tasks: rng.permutation(tasks))
        meant = run_entry(model, inputs, {}, by_region=True)
        for out, value in expected.items():
            agree(found[out], value, f"{out} at n={n}")
            agree(meant[out], value, f"what {out} means at n={n}")


@pytest.mark.parametrize("name", ["all", "columns", "centred"])
def test_the_last_block_does_what_is_little(name: str) -> None:
    function, x = CASES[name]
    model = lowered(traced(function, x=x), DEVICES["cuda"])
    counted = [k for k in model.kernels if any(isinstance(s, WhenLast) for s in k.program.body)]
    assert model.counters == len(counted) == (0 if name == "centred" else 1)
    assert lowered(traced(function, x=x), DEVICES["cpu"]).counters == 0


def test_parts_of_two_products_of_a_row_are_one_launch() -> None:
    """A row of gates times one of others."""
    inputs = {"x": lg.spec(1, 1000), "g": lg.spec(1000, 1200), "u": lg.spec(1000, 1200)}
    graph = traced(lambda x, g, u: (x @ g).sigmoid() * (x @ u), **inputs)
    model = lowered(graph, CUDA)
    assert [len(k.region.stores) for k in model.kernels] == [2, 1]
    values = inputs_of(graph, 1)
    (expected,) = evaluate(graph, values, {}).values()
    (found,) = run_entry(model, values, {}).values()
    agree(found, expected, "both products")


def test_what_rows_share_is_computed_once() -> None:
    """The maximum over channels, not once more for each of them.

    A loop behind it has all of the channels. Where the columns do not keep a GPU busy, blocks share the channels: there
    it is stored.
    """
    graph = traced(lambda x: x.softmax(1), x=lg.spec(2, 4096, 16, 16))
    *stored, last = (k.region for k in lowered(graph, CUDA).kernels)
    assert len(stored) >= 2
    assert not any(isinstance(e, Reduce) for e in walk(s.value for s in last.stores))
    graph = traced(lambda x: x.softmax(1), x=lg.spec(2, 4096, 64, 64))
    assert len(lowered(graph, CUDA).kernels) == 1
    (kernel,) = lowered(graph, CPU).kernels
    assert split(kernel.region, PLANNED).parts == ()


def test_columns_are_merged_once_for_all_rows() -> None:
    """Of a mean and a variance each row takes the two numbers of a column, not all of their parts."""
    graph = traced(lambda x: (x - x.mean(0)) / x.var(0).sqrt(), x=lg.spec(100_000, 64))
    *_, last = (k.region for k in lowered(graph, CUDA).kernels)
    assert not any(isinstance(e, Reduce) for e in walk(s.value for s in last.stores))
    graph = traced(lambda x: x - x.mean(0), x=lg.spec(20, 64))
    (kernel,) = (k.region for k in lowered(graph, CUDA).kernels)
    assert any(isinstance(e, Reduce) for e in walk(s.value for s in kernel.stores))


def test_where_there_may_be_no_part_no_block_is_the_last() -> None:
    function, x = CASES["of_none"]
    model = lowered(traced(function, x=x), DEVICES["cuda"])
    assert model.counters == 0
    assert len(model.kernels) > 1


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
def test_what_fills_the_device_stays_whole(device: Device) -> None:
    rows = traced(lambda x: x.sum(-1), x=lg.spec(100_000, 4096))
    short = traced(lambda x: x.sum(), x=lg.spec(4096))
    for graph in (rows, short):
        (kernel,) = lowered(graph, device).kernels
        assert split(kernel.region, device.machine).parts == ()


def test_the_parts_depend_on_dims_alone() -> None:
    """No part is longer than what the typical dims make it, and the merge reads each once."""
    graph = traced(lambda x: x.sum(), x=lg.spec(lg.Dim("n", 1, 1 << 30, typical=1 << 24)))
    (kernel,) = lowered(graph, CUDA).kernels
    parts = kernel.region.stores[0]
    (r,) = (e for e in walk([parts.value]) if isinstance(e, Reduce))
    (n,) = graph.dims()
    assert r.axes[0].extent.is_const
    for at in (1, 1000, 1 << 20, 1 << 30):
        count, length = parts.dst.dims[0].evaluate({n: at}), r.axes[0].extent.const
        assert (count - 1) * length < at <= count * length
    assert kernel.program.tasks == parts.dst.dims[0]


@pytest.mark.parametrize(("seed", "count"), [(0, 2), pytest.param(300, 60, marks=pytest.mark.slow)])
def test_random_programs_in_parts(seed: int, count: int) -> None:
    for p in drawn(count, seed):
        program = p.program("p")
        for device in DEVICES.values():
            try:
                model = lowered(program.graph, device)
            except UserError:
                continue  # refused without parts too
            for point in program.points:
                inputs, weights = program.arrays(point)
                expected = evaluate(program.graph, inputs, weights)
                found = run_entry(model, inputs, weights)
                for out, value in expected.items():
                    agree(found[out], value, f"{out} at {dict(point)} of\n{p}")


@pytest.mark.parametrize("most", [1 << 22, 1 << 28, 1 << 34])
def test_no_lane_adds_up_many_terms_however_large_a_dim_may_be(most: int) -> None:
    """What one adds up after the other loses digits, and is one block's work where the dim is small."""
    for shape, axis, lanes in (((64,), 0, 1), ((), 0, 1024)):
        graph = traced(lambda x, d=axis: x.sum(d), x=lg.spec(lg.Dim("n", 1, most), *shape))
        model = lowered(graph, CUDA)
        lengths = [
            a.extent.const
            for k in model.kernels
            for e in walk([s.value for s in k.region.stores])
            if isinstance(e, Reduce)
            for a in e.axes
            if a.extent.is_const
        ]
        assert lengths
        assert max(lengths) <= 1024 * lanes


def test_a_split_of_nothing_is_the_region() -> None:
    (kernel,) = lowered(traced(lambda x: x + 1, x=lg.spec(N)), CPU).kernels
    pieces = split(kernel.region, DEVICES["cpu"].machine)
    assert pieces.parts == ()
    assert pieces.rest == kernel.region
