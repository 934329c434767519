"""A point of a reduction that is of another kind than the rest: taken out, and the same value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_programs import specials
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import assemble
from lumigen.lower.peel import peel_reductions
from lumigen.region import Choose, Reduce, walk
from lumigen.targets.cpu.device import CPU

COUNT = lg.Dim("count", 1, 100)

PEELED: dict[str, Callable[..., Any]] = {
    "sum_behind": lambda x, y: F.cat([x, y], -1).sum(-1),
    "sum_ahead": lambda x, y: F.cat([y, x], -1).sum(-1),
    "greatest_behind": lambda x, y: F.cat([x, y], -1).amax(-1),
    "greatest_ahead": lambda x, y: F.cat([y, x], -1).amax(-1),
    "sum_of_both": lambda x, y: F.cat([y, x, y], -1).sum(-1),
    "of_both_axes": lambda x, y: F.cat([x, y], -1).sum(),
    "of_a_map": lambda x, y: (F.cat([x, y], -1) * 2 + 1).amax(-1),
}


@pytest.mark.parametrize("dtype", [lg.f32, lg.i64, lg.bf16], ids=str)
@pytest.mark.parametrize("name", PEELED)
def test_a_value_stays_what_it_was(name: str, dtype: Any, rng: np.random.Generator) -> None:
    specs = {"x": lg.spec(5, COUNT, dtype=dtype), "y": lg.spec(5, 1, dtype=dtype)}
    graph = traced(PEELED[name], **specs)
    model = assemble((("entry", graph),), CPU)
    for count in (1, 2, 33):
        given = {"x": specials(rng, (5, count), dtype), "y": specials(rng, (5, 1), dtype)}
        if "greatest" not in name and dtype.is_float:  # sums of special values are of any sign
            given = {n: rng.standard_normal(a.shape).astype(a.dtype) for n, a in given.items()}
        (found,), (want,) = (
            run_entry(model, given, {}).values(),
            evaluate(graph, given, {}).values(),
        )
        tolerance = 2e-2 if dtype is lg.bf16 else 1e-5
        np.testing.assert_allclose(
            found.astype(np.float64), want.astype(np.float64), tolerance, tolerance
        )


@pytest.mark.parametrize("name", PEELED)
def test_no_point_of_the_rest_asks_which_one_it_is(name: str) -> None:
    specs = {"x": lg.spec(5, COUNT), "y": lg.spec(5, 1)}
    kernels = assemble((("entry", traced(PEELED[name], **specs)),), CPU).kernels
    for k in kernels:
        reductions = [r for s in k.region.stores for r in walk([s.value]) if isinstance(r, Reduce)]
        assert reductions
        assert not any(isinstance(e, Choose) for r in reductions for e in walk([r.body]))


def test_nothing_is_taken_from_the_middle() -> None:
    x, y = lg.spec(5, 7), lg.spec(5, 2)
    (kernel,) = assemble((("entry", traced(PEELED["sum_behind"], x=x, y=y)),), CPU).kernels
    (store,) = kernel.region.stores
    assert peel_reductions(store.value) is store.value
    assert any(isinstance(e, Choose) for e in walk([store.value]))


def test_a_point_that_may_not_be_there_is_not_taken() -> None:
    """Of rows shifted twice the first two points differ, and a row may have one."""

    def twice(x: lg.Tensor) -> dict[str, lg.Tensor]:
        for _ in range(2):
            x = x + x.pad((1, 0))[..., :-1]
        return {"out": x @ x.mT}

    rng, n = np.random.default_rng(0), lg.Dim("n", 1, 9)
    graph = traced(twice, x=lg.spec(4, n))
    model = assemble((("entry", graph),), CPU)
    for count in (1, 2, 3, 9):
        given = {"x": rng.standard_normal((4, count)).astype(np.float32)}
        want, found = evaluate(graph, given, {})["out"], run_entry(model, given, {})["out"]
        np.testing.assert_allclose(found, want, 1e-5, 1e-5)
