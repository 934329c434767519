"""How the tasks of a launch follow from the threads that share them: what is stored does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import nn
from lumigen.interp.graph import bind_dims
from lumigen.lower.assemble import LoweredModel
from lumigen.make_project import compile_project
from lumigen.pipeline import lower_model
from lumigen.program import THREADS
from lumigen.tile import Mma

THREAD_COUNTS = (1, 2, 3, 5, 16, 64)
ROWS = lg.Dim("rows", 1, 400)
BATCH = lg.Dim("threads", 1, 4)  # a name that users may want


@dataclass(frozen=True)
class Case:
    """A model of one input, how it is called, and the most tasks that its products are worth dividing into."""

    shape: tuple[Any, ...]
    called: tuple[int, ...]
    most: int
    net: Callable[[], nn.Module]
    dtype: lg.DType = lg.f32


class Scores(nn.Module):
    """A product for each point of a grid."""

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return x @ x.transpose(-1, -2)


def linear(k: int, n: int) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(k, n, bias=False)


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))


CASES = {
    "many_rows": Case((ROWS, 64), (391, 64), 39, linear(64, 96)),
    "few_rows": Case((ROWS, 64), (3, 64), 20, linear(64, 640)),
    "one_row": Case((1, 64), (1, 64), 20, linear(64, 640)),
    "bf16": Case((ROWS, 64), (130, 64), 15, linear(64, 96), lg.bf16),
    "bf16_from_memory": Case((40, 1024), (40, 1024), 17, linear(1024, 544), lg.bf16),
    "deep": Case((33, 1500), (33, 1500), 4, linear(1500, 48)),
    "window": Case((BATCH, 8, 30, 30), (2, 8, 30, 30), 14, lambda: nn.Conv2d(8, 20, 3)),
    "grid": Case((BATCH, 300, 24), (3, 300, 24), 27, Scores),
    "chain": Case((ROWS, 64), (100, 64), 13, chain),
}


@cache
def lowered(name: str) -> LoweredModel:
    case = CASES[name]
    net = case.net()
    model = lg.Model("net", net)

    @model.entry(x=lg.spec(*case.shape))
    def run(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    return lower_model(model.trace(), {}, dtype=case.dtype).lowered


def given(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and weights."""
    rng, (program,) = np.random.default_rng(7), lowered(name).programs
    (x,) = program.inputs
    weights = {
        s.weight.name: rng.standard_normal(s.weight.shape, np.float32)
        for s in lowered(name).weights
    }
    return {"x": rng.standard_normal(CASES[name].called).astype(x.dtype.numpy)}, weights


def tasks_of_products(name: str, threads: int) -> list[int]:
    """Of the launches that multiply tiles, those that run where nothing is asked of the machine."""
    model = lowered(name)
    (program,) = model.programs
    kernels = {k.name: k.program for k in model.kernels}
    dims = {**bind_dims(program.inputs, given(name)[0]), THREADS: threads}
    launches = [
        x
        for x in program.chosen(dims)
        if any(isinstance(s, Mma) for s in kernels[x.kernel].statements())
    ]
    return [int(x.tasks.evaluate(x.numbers(dims))) for x in launches]


@pytest.mark.parametrize("name", CASES)
def test_every_thread_has_a_task_of_a_product(name: str):
    for threads in THREAD_COUNTS:
        found = tasks_of_products(name, threads)
        assert found
        assert all(tasks >= min(threads, CASES[name].most) for tasks in found), (threads, found)
        assert all(tasks <= CASES[name].most for tasks in found), (threads, found)


def test_threads_have_as_many_tasks_as_each_other():
    """391 rows are five tiles of at most 96, and six for two threads."""
    assert [tasks_of_products("many_rows", n) for n in (1, 2, 3, 4)] == [[5], [6], [6], [8]]


@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_the_number_of_threads(name: str):
    inputs, weights = given(name)
    results = [run_entry(lowered(name), inputs, weights, threads=n) for n in (1, 3, 64)]
    for r in results[1:]:
        for output, value in results[0].items():
            np.testing.assert_array_equal(r[output], value)


TAILS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (linear(64, 96), (64,)),
    "window": (lambda: nn.Conv2d(8, 20, 3), (8, 12, 12)),
    "grid": (Scores, (70, 24)),
    "chain": (chain, (64,)),
}


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", TAILS)
def test_rows_that_are_none_when_a_model_runs_are_divided_too(name: str, dtype: lg.DType):
    made, inner = TAILS[name]
    net = made()
    model = lg.Model("net", net)

    @model.entry(x=lg.spec(ROWS, *inner))
    def run(x: lg.Tensor) -> lg.Tensor:
        return net(x[1:]).tanh()

    lowered = lower_model(model.trace(), {}, dtype=dtype).lowered
    weights = {s.weight.name: np.ones(s.weight.shape, np.float32) for s in lowered.weights}
    for rows in (1, 3):
        x = np.ones((rows, *inner), dtype.numpy)
        for threads in (1, 3):
            (out,) = run_entry(lowered, {"x": x}, weights, threads=threads).values()
            assert len(out) == rows - 1
            assert np.isfinite(out.astype(np.float32)).all()


def test_a_launch_asks_its_context_for_the_threads(tmp_path: Path):
    """A dim that is called as they are is another number."""
    case = CASES["grid"]
    model = lg.Model("net", Scores())

    @model.entry(x=lg.spec(*case.shape))
    def run(x: lg.Tensor) -> lg.Tensor:
        return x @ x.transpose(-1, -2)

    compile_project(model.trace(), directory=tmp_path / "net", build=False)
    text = (tmp_path / "net" / "src" / "run.cpp").read_text()
    assert "call.threads()" in text
    assert "dims.threads" in text
