"""Folds over windows whose channels are lanes: in the middle of an image no tap asks whether it is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_sliding import Function, lowered
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.interp.graph import evaluate
from lumigen.region import Choose, walk
from lumigen.tile import Accumulate, For, When


def channels_last(**more: Any) -> Function:
    def function(x: Any, w: Any) -> Any:
        return F.conv2d(x.permute(0, 3, 1, 2), w, groups=w.shape[0], **more).permute(0, 2, 3, 1)

    return function


CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    "edges": (channels_last(padding=3), (1, 12, 16, 24), (24, 1, 7, 7)),
    "groups that end in the next row": (channels_last(padding=1), (1, 9, 14, 24), (24, 1, 3, 3)),
    "in steps": (channels_last(padding=2, stride=2), (2, 13, 17, 20), (20, 1, 5, 5)),
    "dilated": (channels_last(padding=2, dilation=2), (1, 11, 12, 20), (20, 1, 3, 3)),
    "an image below its window": (channels_last(padding=3), (1, 4, 5, 17), (17, 1, 7, 7)),
}


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_both_versions_compute_the_same(
    name: str, is_dynamic: bool, rng: np.random.Generator
) -> None:
    """In numpy and as C++; an infinite weight times the zero of an edge is NaN in both."""
    function, shape, weight = CASES[name]
    sizes = (lg.Dim("h", 4, 400, typical=shape[1]), lg.Dim("w", 4, 400, typical=shape[2]))
    declared = (shape[0], *sizes, shape[3]) if is_dynamic else shape
    if is_dynamic and min(shape[1:3]) < weight[-1]:
        declared = shape  # windows must fit in all sizes
    graph, model = lowered(function, declared, weight)
    inputs = {
        n: rng.standard_normal(s).astype(np.float32)
        for n, s in zip("xw", (shape, weight), strict=True)
    }
    inputs["w"][1, 0, 0, 0] = np.inf
    wanted = evaluate(graph, inputs, {})
    for found in (
        run_entry(model, inputs, {}),
        fast_lane.load(model).run("entry", inputs, {}),
    ):
        for n, value in wanted.items():
            np.testing.assert_allclose(found[n], value, rtol=1e-5, atol=1e-5, err_msg=n)


def test_a_loop_in_the_middle_asks_nothing() -> None:
    function, *shapes = CASES["edges"]
    _, model = lowered(function, *shapes)
    (when,) = (s for s in model.kernels[0].program.statements() if isinstance(s, When))
    assert [_asks(s) for s in (*when.body, *when.otherwise)] == [False, True]
    # the first and the last of the columns of a group imply what holds for the others
    assert len(when.conditions) == 4


def test_windows_without_edges_have_one_version() -> None:
    _, model = lowered(channels_last(), (1, 12, 18, 24), (24, 1, 3, 3))
    assert not any(isinstance(s, When) for s in model.kernels[0].program.statements())


def _asks(s: Any) -> bool:
    assert isinstance(s, For)
    values = [x.value for x in s.body if isinstance(x, Accumulate)]
    return any(isinstance(e, Choose) for e in walk(values))
