"""Products whose columns and depth are one tile's: which tile they get, and that it computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_cases import Case, every_variant_agrees, lowered

import lumigen as lg
from lumigen.targets.cuda.speller import spelled_tile


def spec(*shape: Any) -> Any:
    return lg.spec(*shape, dtype=lg.bf16)


SMALL: dict[str, tuple[Case, str]] = {
    "batches of 16": (
        (lambda a, b: a @ b, {"a": spec(140, 13, 16), "b": spec(140, 16, 15)}),
        "16, 16, 16, 2, 1, 1",
    ),
    "batches of 40": (
        (lambda a, b: (a @ b).relu(), {"a": spec(140, 40, 72), "b": spec(140, 72, 24)}),
        "32, 32, 64, 2, 2, 1",
    ),
    "batches of 64": (
        (lambda a, b: a @ b.mT, {"a": spec(140, 64, 64), "b": spec(140, 64, 64)}),
        "64, 64, 64, 2, 2, 2",
    ),
    "tall": (
        (lambda x, w: x @ w + 1, {"x": spec(34001, 37), "w": spec(37, 9)}),
        "256, 16, 32, 2, 8, 1",
    ),
    "tall and deep": (
        (lambda x, w: x @ w.mT, {"x": spec(17000, 200), "w": spec(30, 200)}),
        "128, 32, 32, 4, 4, 1",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_blocks_hold_what_they_need(name: str, rng: np.random.Generator) -> None:
    case, tile = SMALL[name]
    graph, model = lowered(case, "sm_90a")
    (kernel,) = model.kernels
    assert kernel.program.tile is not None
    assert spelled_tile(kernel.program.tile) == f"PipelineTile<{tile}>"
    every_variant_agrees(graph, model, {}, rng, name)


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param(((512, 64), (64, 16)), id="too few tiles"),
        pytest.param(((40000, 1024), (1024, 16)), id="too deep"),
        pytest.param(((140, 256, 128), (140, 128, 64)), id="no batch of small ones"),
    ],
)
def test_others_have_blocks_that_stay(shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (spec(*shape) for shape in shapes)
    _, model = lowered((lambda a, b: a @ b, {"a": a, "b": b}), "sm_90a")
    assert [k.program.skeleton for k in model.kernels] == ["pipeline", "roles"]
