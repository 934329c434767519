"""Columns on a GPU: reductions of a column that depend on each other read it once, in floats of the lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.across import across
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.plan import NotRealised
from lumigen.region import Read, walk
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.machines import SM_80
from lumigen.tile import Advance, Keep, Stmt

IMAGES = lg.Dim("images", 1, 600, typical=600)
LENGTH = lg.Dim("length", 1, 4000, typical=3000)
WIDTH = lg.Dim("width", 1, 300, typical=20)
DIMS = ({IMAGES: 1, LENGTH: 1, WIDTH: 1}, {IMAGES: 2, LENGTH: 700, WIDTH: 13})


def with_its_place(x: Any) -> Any:
    """The greatest and the number of those that are."""
    most = x.amax(0, keepdim=True)
    return {"place": x.argmax(0), "count": (x == most).sum(0)}


def both(x: Any) -> Any:
    return {"most": x.amax(1), "place": x.argmax(1)}


# by name: a function, its input, launches, whether columns are read in turns
CASES: dict[str, tuple[Callable[..., Any], Any, int, bool]] = {
    "held": (lambda x: x.argmax(1), lg.spec(IMAGES, 40, 12), 1, False),
    "held, of any width": (lambda x: x.argmin(1), lg.spec(IMAGES, 40, WIDTH), 1, False),
    "long": (lambda x: x.argmax(1), lg.spec(IMAGES, 2500, 12), 1, True),
    "narrow type": (lambda x: x.argmax(1).to(lg.i32), lg.spec(IMAGES, 2500, 12), 1, True),
    "half": (lambda x: x.argmin(1), lg.spec(IMAGES, 2500, 16, dtype=lg.f16), 1, True),
    "parts": (lambda x: x.argmax(0), lg.spec(1100, 24), 2, True),
    "few columns": (lambda x: x.argmin(0), lg.spec(1100, 3), 2, True),
    "parts of any length": (lambda x: x.argmax(0), lg.spec(LENGTH, WIDTH), 2, True),
    "parts of halves": (lambda x: x.argmax(0), lg.spec(LENGTH, 24, dtype=lg.f16), 2, True),
    "powers": (lambda x: x.logsumexp(1), lg.spec(IMAGES, 2500, 12), 1, True),
    "powers in parts": (lambda x: x.logsumexp(0), lg.spec(1100, 24), 2, True),
    "softmax": (lambda x: x.softmax(1), lg.spec(IMAGES, 2500, 12), 1, True),
    "value and place": (both, lg.spec(IMAGES, 40, 12), 1, False),
    "value and place in turns": (both, lg.spec(IMAGES, 2500, 12), 1, True),
    "value and place in parts": (
        lambda x: {"least": x.amin(0), "place": x.argmin(0)},
        lg.spec(1100, 24),
        2,
        True,
    ),
    "value and place of integers": (both, lg.spec(IMAGES, 40, 12, dtype=lg.i32), 2, False),
    "place and count": (with_its_place, lg.spec(1100, 24), 2, True),
    "one row": (lambda x: x.argmax(1), lg.spec(IMAGES, 1, 12), 1, False),
    "doubles": (lambda x: x.argmax(1), lg.spec(IMAGES, 40, 12, dtype=lg.f64), 1, False),
    "integers": (lambda x: x.argmax(1), lg.spec(IMAGES, 40, 12, dtype=lg.i32), 1, False),
    "bytes": (lambda x: x.argmin(1), lg.spec(IMAGES, 40, 12, dtype=lg.i8), 1, False),
}


def lowered(function: Callable[..., Any], x: Any) -> tuple[Any, LoweredModel]:
    graph = entry = traced(function, x=x)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CUDA)


def statements(model: LoweredModel) -> list[Stmt]:
    return [s for k in model.kernels for s in k.program.statements()]


def given(name: str, x: Any, dims: dict[Any, int]) -> np.ndarray:
    """An input in which columns have ties, infinities, NaN or zeros of both signs."""
    rng = np.random.default_rng(3)
    out = rng.standard_normal([int(e.evaluate(dims)) for e in x.shape]) * 4
    if name == "ties":
        out = np.floor(out)
    if name == "infinities":
        out[..., 0] = -np.inf
        out[-1:, ..., -1] = np.inf
    if name == "nan":
        out = np.where(rng.random(out.shape) < 0.01, np.nan, out)
    if name == "zeros":
        out = np.where(rng.random(out.shape) < 0.5, 0.0, -0.0)
    if x.dtype.is_int:
        out = np.clip(np.nan_to_num(out), -100, 100)
    return out.astype(x.dtype.numpy)


@pytest.mark.parametrize("name", CASES)
def test_launches(name: str) -> None:
    function, x, launches, in_turns = CASES[name]
    _, model = lowered(function, x)
    assert len(model.kernels) == launches
    assert any(isinstance(s, Advance) for s in statements(model)) == in_turns


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("special", ["numbers", "ties", "infinities", "nan", "zeros"])
def test_programs_compute_the_graph(name: str, special: str) -> None:
    function, x, *_ = CASES[name]
    graph, model = lowered(function, x)
    for dims in DIMS if graph.dims() else ({},):
        inputs = {"x": given(special, x, dims)}
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, inputs, {})
            found = run_entry(model, inputs, {})
        for out, value in wanted.items():
            np.testing.assert_allclose(found[out], value, 2e-5, 1e-6, err_msg=f"{out} at {dims}")


@pytest.mark.parametrize("name", ["held", "long", "parts", "softmax"])
def test_what_is_reduced_is_read_once(name: str) -> None:
    function, x, *_ = CASES[name]
    _, model = lowered(function, x)
    reads = [
        s
        for s in statements(model)
        if isinstance(s, Keep) and isinstance(s.value, Read) and s.value.source.name == "x"
    ]
    assert len(reads) == 1
    values = [getattr(s, "value", None) for s in statements(model) if not isinstance(s, Keep)]
    rest = [
        e for v in values if v is not None and hasattr(v, "dtype") for e in walk([v])
        if isinstance(e, Read) and e.source.name == "x"
    ]  # fmt: skip
    assert bool(rest) == (name == "softmax")  # a map of a column that is not held reads it again


def test_places_past_what_floats_hold_stay_integers() -> None:
    _, model = lowered(lambda x: x.argmax(0), lg.spec((1 << 23) + 8, 12))
    assert not any(isinstance(s, Advance) for s in statements(model))
    _, model = lowered(lambda x: x.argmax(0), lg.spec(1 << 23, 12))
    assert any(isinstance(s, Advance) for s in statements(model))


@pytest.mark.parametrize("turn", [4, 16])
@pytest.mark.parametrize("hold", [0, 1])
def test_each_turn_takes_in_other_points(turn: int, hold: int) -> None:
    function, x, *_ = CASES["long"]
    _, model = lowered(function, x)
    (kernel,) = model.kernels
    assert kernel.plan is not None
    assert kernel.schedule is not None
    sizes = kernel.schedule.at("turn", turn).at("hold", hold)
    program = across(kernel.plan, sizes, SM_80).program
    assert program != kernel.program
    assert any(isinstance(s, Keep) for s in program.statements()) == bool(hold)


@pytest.mark.parametrize("turn", [0, -1])
def test_turns_of_no_points_are_refused(turn: int) -> None:
    function, x, *_ = CASES["long"]
    (kernel,) = lowered(function, x)[1].kernels
    assert kernel.plan is not None
    assert kernel.schedule is not None
    with pytest.raises(NotRealised):
        across(kernel.plan, kernel.schedule.at("turn", turn), SM_80)
