"""Folds over windows whose neighbours share what they read: which kernels these are, and what they compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.emit.variables import variables
from lumigen.interp.graph import evaluate
from lumigen.kernel_words import is_said
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.lower.devices import Device
from lumigen.lower.strips import strips
from lumigen.machine import Strips
from lumigen.pipeline import lower_model
from lumigen.plan import NotRealised
from lumigen.region import Read, walk
from lumigen.schedule import schedule
from lumigen.target import parse_target
from lumigen.targets.cuda.device import CUDA, device_of
from lumigen.targets.cuda.machines import SM_80, SM_90A
from lumigen.tile import Accumulate, Accumulator, Let

Function = Callable[..., Any]
# an image of any size is not added to what is made of it, nor as large as all windows
FIXED = ("an epilogue", "an image below its window", "steps", "edges", "steps that differ")


def last(function: Function) -> Function:
    """Of images whose channels come last."""
    return lambda x, **w: function(x.permute(0, 3, 1, 2), **w).permute(0, 2, 3, 1)


def depthwise(**more: Any) -> Function:
    return lambda x, w: F.conv2d(x, w, groups=w.shape[0], **more)


def with_epilogue(x: Any, w: Any) -> Any:
    return F.conv2d(x, w, padding=1, groups=w.shape[0]).relu() + x


CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...] | None]] = {
    "edges": (depthwise(padding=2), (1, 3, 11, 9), (3, 1, 5, 5)),
    "channels last": (last(depthwise(padding=1)), (2, 9, 7, 10), (10, 1, 3, 3)),
    "no edges": (last(depthwise()), (1, 9, 11, 5), (5, 1, 3, 3)),
    "steps that differ": (depthwise(padding=(2, 1), stride=(2, 1)), (2, 2, 13, 9), (2, 1, 5, 3)),
    "steps": (last(depthwise(padding=3, stride=2)), (1, 13, 14, 3), (3, 1, 7, 7)),
    "dilated": (last(depthwise(padding=2, dilation=2)), (1, 6, 9, 4), (4, 1, 3, 3)),
    "an image below its window": (depthwise(padding=3), (1, 2, 4, 5), (2, 1, 7, 7)),
    "an epilogue": (with_epilogue, (1, 3, 9, 10), (3, 1, 3, 3)),
    "maxima": (last(lambda x: F.max_pool2d(x, 5, 1, 2)), (1, 9, 10, 3), None),
    "maxima, in steps": (lambda x: F.max_pool2d(x, 3, 2), (1, 3, 12, 10), None),
    "means": (last(lambda x: F.avg_pool2d(x, 3, 2, 1)), (1, 11, 12, 5), None),
}


def device(points: int) -> Device:
    """One that has strips of any image, of so many points."""
    every = Strips(points=(points,), shown=64, lanes=4, threads=0, threads_alone=0)
    teams = replace(SM_80.teams, strips=every)
    return device_of(replace(SM_80, teams=teams), SM_90A)


def lowered(name: str, points: int, *, dynamic: bool = False) -> tuple[Any, LoweredModel]:
    function, shape, weight = CASES[name]
    if dynamic:
        first = 1 if function.__qualname__.startswith("last") else 2
        sizes = (lg.Dim(n, 4, 400, typical=64) for n in "hw")
        shape = (*shape[:first], *sizes, *shape[first + 2 :])
    specs = {n: lg.spec(*s) for n, s in {"x": shape, "w": weight}.items() if s is not None}
    graph = entry = traced(function, **specs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), device(points))


def kernel_of(model: LoweredModel) -> LoweredKernel:
    (kernel,) = (k for k in model.kernels if k.schedule and k.schedule.builder == "strips")
    return kernel


@pytest.mark.parametrize("points", [2, 8])
@pytest.mark.parametrize("name", CASES)
def test_a_strip_has_the_values_of_its_points(
    name: str, points: int, rng: np.random.Generator
) -> None:
    _, shape, weight = CASES[name]
    for dynamic in (False, True) if name not in FIXED else (False,):
        graph, model = lowered(name, points, dynamic=dynamic)
        assert kernel_of(model).program.skeleton == "simt"
        inputs = {
            n: rng.standard_normal(s).astype(np.float32)
            for n, s in {"x": shape, "w": weight}.items()
            if s is not None
        }
        wanted, found = evaluate(graph, inputs, {}), run_entry(model, inputs, {})
        for n, value in wanted.items():
            np.testing.assert_allclose(found[n], value, rtol=1e-5, atol=1e-5, err_msg=n)


def test_neighbours_share_what_they_read() -> None:
    """Four points of a window of three read six columns of a row, and each weight once."""
    kernel = kernel_of(lowered("channels last", 8)[1])
    assert kernel.plan is not None
    sizes = schedule("strips", {"threads": 256, "team": 2, "width": 4, "points": 4})
    statements = list(strips(kernel.plan, sizes, SM_80).program.statements())
    asked = [s.value for s in statements if isinstance(s, Let | Accumulate)]
    reads = Counter(e.source.name for e in walk(asked) if isinstance(e, Read))
    assert sum(isinstance(s, Accumulator) for s in statements) == 4
    assert sorted(reads.values()) == [3, 6]


@pytest.mark.parametrize(
    ("site", "value"),
    [("points", 1), ("points", 11), ("team", 3), ("team", 64), ("threads", 1), ("lost", 1)],
)
def test_what_no_strips_are_is_refused(site: str, value: int) -> None:
    kernel = kernel_of(lowered("channels last", 8)[1])
    assert kernel.plan is not None
    sizes = {"threads": 256, "team": 2, "width": 4, "points": 4}
    assert strips(kernel.plan, schedule("strips", sizes), SM_80).program.team == 2
    with pytest.raises(NotRealised):
        strips(kernel.plan, schedule("strips", {**sizes, site: value}), SM_80)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1),
        lambda x: x * 2,
        lambda x: x.softmax(-1),
        lambda x: F.max_pool2d(x, 2),
    ],
    ids=["a row", "a map", "two folds", "windows that share nothing"],
)
def test_other_loops_have_no_strips(function: Function) -> None:
    graph = traced(function, x=lg.spec(2, 3, 8, 64))
    for kernel in assemble((("entry", graph),), device(8)).kernels:
        assert kernel.schedule is not None
        assert kernel.schedule.builder != "strips"


@pytest.mark.parametrize(("each", "builder"), [(4, "strips"), (8, "pipeline")])
def test_groups_of_few_columns_are_no_tiles(each: int, builder: str) -> None:
    """Most of a tile would have none; of eight columns and more it has a matrix instruction's."""

    def convolve(x: Any, w: Any) -> Any:
        return last(F.conv2d)(x, weight=w.permute(0, 3, 1, 2), padding=1, groups=32)

    channels = 32 * each
    specs = {
        "x": lg.spec(8, 56, 56, channels, dtype=lg.f16),
        "w": lg.spec(channels, 3, 3, each, dtype=lg.f16),
    }
    model = lg.Model("groups")
    model.entry(**specs)(convolve)
    (kernel,) = lower_model(model.trace(), {}, target=parse_target("cuda:sm_90a")).lowered.kernels
    assert kernel.schedule is not None
    assert kernel.schedule.builder == builder


def test_few_points_are_left_to_more_threads() -> None:
    """A device that is not full gains nothing from longer strips."""
    graph = traced(CASES["channels last"][0], x=lg.spec(1, 14, 14, 64), w=lg.spec(64, 1, 3, 3))
    builders = {
        k.schedule.builder for k in assemble((("entry", graph),), CUDA).kernels if k.schedule
    }
    assert "strips" not in builders
    graph = traced(CASES["channels last"][0], x=lg.spec(64, 56, 56, 64), w=lg.spec(64, 1, 3, 3))
    builders = {
        k.schedule.builder for k in assemble((("entry", graph),), CUDA).kernels if k.schedule
    }
    assert "strips" in builders


def test_no_operand_is_called_like_a_strip() -> None:
    kernel = kernel_of(lowered("channels last", 2)[1])
    assert {"strip", "begin"} <= variables(kernel.program)
    assert is_said("strip")
    assert is_said("begin")


def test_factors_that_share_factors_are_looked_at_once() -> None:
    def function(x: lg.Tensor) -> lg.Tensor:
        for _ in range(60):
            x = x * x
        return x.sum(-1)

    graph = traced(function, x=lg.spec(9, 64))
    assert assemble((("entry", graph),), CUDA).kernels
