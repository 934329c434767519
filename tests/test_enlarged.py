"""Images that are enlarged, then read through windows: a copy of them as large as windows see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.targets.cuda.device import CUDA

HEIGHT = lg.Dim("height", 2, 9, typical=5)
Case = tuple[Callable[..., Any], tuple[Any, ...], bool]


def spec(*shape: Any) -> Any:
    return lg.spec(*shape, dtype=lg.f16)


def enlarged(x: Any, w: Any) -> Any:
    return F.conv2d(F.interpolate(x, scale_factor=2.0), w, padding=1)


# (function, image and weights, whether a copy is stored)
CASES: dict[str, Case] = {
    "twice as large": (enlarged, (spec(2, 8, 5, 4), spec(16, 8, 3, 3)), True),
    "of any height": (enlarged, (spec(1, 32, HEIGHT, 4), spec(16, 32, 3, 3)), True),
    "few columns": (enlarged, (spec(2, 8, 5, 4), spec(4, 8, 3, 3)), False),
    "no window": (
        lambda x, w: F.conv2d(F.interpolate(x, scale_factor=2.0), w),
        (spec(2, 8, 5, 4), spec(16, 8, 1, 1)),
        False,
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        (spec(2, 16, 5, 4), spec(16, 16, 4, 4)),
        False,
    ),
}


def lowered(function: Callable[..., Any], *inputs: Any) -> tuple[Any, LoweredModel]:
    graph = traced(function, x=inputs[0], w=inputs[1])
    for step in GRAPH_PASSES:
        graph = step(graph)
    return graph, assemble((("entry", graph),), CUDA, architectures=("sm_90a",))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_windows_read_the_enlarged_image(name: str, rng: np.random.Generator) -> None:
    function, inputs, stored = CASES[name]
    graph, model = lowered(function, *inputs)
    n, c, h, w = (e.estimate() for e in inputs[0].shape)
    dims = {tuple(d.estimate() for d in s.dst.dims) for k in model.kernels for s in k.region.stores}
    assert ((n, 2 * h, 2 * w, c) in dims) is stored, "channels lie innermost"
    given = {
        name: rng.standard_normal([e.estimate() for e in i.shape]).astype(np.float16)
        for name, i in zip("xw", inputs, strict=True)
    }
    expected = evaluate(graph, given, {})
    found = run_entry(model, given, {}, rng.permutation)
    for out, value in expected.items():
        agree(found[out], value, name)
