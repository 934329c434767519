"""Reductions over windows that overlap: which kernels they become, and what these do in numpy and as C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.region import Read, walk
from lumigen.targets.cpu.device import CPU
from lumigen.tile import Accumulate, For, PackRuns, Stmt

Function = Callable[..., Any]


def depthwise(**more: Any) -> Function:
    return lambda x, w: F.conv2d(x, w, groups=w.shape[0], **more)


def with_epilogue(x: Any, w: Any) -> Any:
    return F.conv2d(x, w, padding=1, groups=w.shape[0]).relu() + x


CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...] | None]] = {
    "edges": (depthwise(padding=2), (1, 3, 21, 19), (3, 1, 5, 5)),
    "no edges": (depthwise(), (1, 3, 18, 20), (3, 1, 3, 3)),
    "steps that differ": (depthwise(padding=(2, 1), stride=(2, 1)), (2, 3, 17, 23), (3, 1, 3, 5)),
    "steps without a divisor": (depthwise(padding=1, stride=3), (1, 2, 19, 80), (2, 1, 5, 5)),
    "dilated": (depthwise(padding=2, dilation=2), (1, 2, 9, 40), (2, 1, 3, 3)),
    "rows that no tiles share evenly": (depthwise(padding=1), (1, 2, 17, 20), (2, 1, 3, 3)),
    "more rows than a tile": (depthwise(padding=3), (1, 2, 45, 9), (2, 1, 7, 7)),
    "dilated in steps": (depthwise(padding=3, dilation=2, stride=2), (1, 2, 23, 21), (2, 1, 5, 5)),
    "more columns than a tile": (depthwise(padding=1), (1, 1, 5, 300), (1, 1, 3, 3)),
    "an image below its window": (depthwise(padding=3), (1, 2, 4, 5), (2, 1, 7, 7)),
    "an epilogue": (with_epilogue, (1, 3, 18, 20), (3, 1, 3, 3)),
    "maxima": (lambda x: F.max_pool2d(x, 5, 1, 2), (1, 3, 20, 20), None),
    "maxima, in steps": (lambda x: F.max_pool2d(x, 3, 2), (1, 3, 19, 20), None),
    "means": (lambda x: F.avg_pool2d(x, 3, 2, 1), (1, 3, 19, 20), None),
}


def lowered(function: Function, *shapes: tuple[Any, ...] | None) -> tuple[Any, LoweredModel]:
    specs = {n: lg.spec(*s) for n, s in zip("xw", shapes, strict=False) if s is not None}
    graph = entry = traced(function, **specs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CPU)


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_windows_slide_over_packed_rows(
    name: str, is_dynamic: bool, rng: np.random.Generator
) -> None:
    function, shape, weight = CASES[name]
    sizes = (lg.Dim("h", 4, 400, typical=shape[2]), lg.Dim("w", 4, 400, typical=shape[3]))
    declared = (*shape[:2], *sizes) if is_dynamic else shape
    if is_dynamic and weight is not None and min(shape[2:]) < weight[-1]:
        declared = shape  # windows must fit in all sizes
    graph, model = lowered(function, declared, weight)
    (kernel,) = model.kernels
    assert kernel.program.skeleton == "sliding"
    inputs = {
        n: rng.standard_normal(s).astype(np.float32)
        for n, s in {"x": shape, "w": weight}.items()
        if s is not None
    }
    wanted, found = evaluate(graph, inputs, {}), run_entry(model, inputs, {})
    for n, value in wanted.items():
        np.testing.assert_allclose(found[n], value, rtol=1e-5, atol=1e-5, err_msg=n)


def test_kernels_of_sliding_windows_compute_the_same(rng: np.random.Generator) -> None:
    """As C++: of odd sizes, with infinities and NaN in the image, whose edge is no number."""
    h, w = (lg.Dim(n, 4, 400, typical=20) for n in "hw")

    def all_of_them(x: Any, w: Any) -> dict[str, Any]:
        return {
            "convolution": depthwise(padding=2)(x, w),
            "in_steps": depthwise(padding=2, stride=2)(x, w),
            "maxima": F.max_pool2d(x, 5, 1, 2),
        }

    graph, model = lowered(all_of_them, (1, 2, h, w), (2, 1, 5, 5))
    assert [k.program.skeleton for k in model.kernels] == ["sliding"] * 3
    library = fast_lane.load(model)
    for shape in ((1, 2, 13, 17), (1, 2, 4, 259), (1, 2, 33, 16)):
        x = rng.standard_normal(shape).astype(np.float32)
        inputs = {"x": x, "w": rng.standard_normal((2, 1, 5, 5)).astype(np.float32)}
        x[0, 0, 0, 0], x[0, 1, 2, 3] = -np.inf, np.nan
        wanted, found = evaluate(graph, inputs, {}), library.run("entry", inputs, {})
        for n, value in wanted.items():
            np.testing.assert_allclose(found[n], value, rtol=1e-5, atol=1e-5, err_msg=n)


def test_rows_are_folded_together_and_ask_nothing() -> None:
    """Each task packs rows with their edges; the accumulators of its rows share what is read of a window.

    Twenty rows are two tiles of ten, of which five are folded together: none is computed for nothing.
    """
    _, model = lowered(depthwise(padding=2), (1, 3, 20, 20), (3, 1, 5, 5))
    statements = list(model.kernels[0].program.statements())
    assert sum(isinstance(s, Accumulate) for s in statements) == 5
    (packed,) = (s for s in statements if isinstance(s, PackRuns))
    assert packed.where


def test_rows_of_a_window_are_the_innermost_loop() -> None:
    """Neighbours in it show the same rows of the tile, at distances that the compiler of C++ knows."""
    _, model = lowered(depthwise(padding=2), (1, 3, 16, 20), (3, 1, 5, 7))
    (*_, inner) = [s for s in model.kernels[0].program.statements() if _folds(s)]
    assert inner.axis.extent == 5
    reads = [e for s in inner.body if isinstance(s, Accumulate) for e in walk([s.value])]
    places = {e.at[0] for e in reads if isinstance(e, Read) and e.source.name == "image"}
    assert len(places) == 8
    assert {(a - b).is_const for a in places for b in places} == {True}


def test_rows_behind_the_last_one_hold_constants() -> None:
    """Nineteen rows are no two tiles of ten: the last row of the second is in no image, and is not read."""
    _, model = lowered(depthwise(), (1, 3, 19, 20), (3, 1, 3, 3))
    (packed,) = (s for s in model.kernels[0].program.statements() if isinstance(s, PackRuns))
    assert len(packed.where) == 1


def _folds(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and any(isinstance(x, Accumulate) for x in s.body)


def test_windows_that_share_nothing_are_read_once() -> None:
    """To pack an element that one window alone shows would cost more than to read it where it is."""
    _, model = lowered(lambda x: F.max_pool2d(x, 2), (1, 3, 20, 20))
    assert [k.program.skeleton for k in model.kernels] == ["simt"]
