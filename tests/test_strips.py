"""Folds over windows whose neighbours share what they read: which kernels these are, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.strips import schedule_of_strips, strips
from lumigen.plan import NotRealised
from lumigen.schedule import schedule
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.machines import SM_80
from lumigen.tile import Accumulator, StoreTile

Function = Callable[..., Any]


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


def lowered(name: str, *, dynamic: bool = False) -> tuple[Any, LoweredModel]:
    function, shape, weight = CASES[name]
    if dynamic:
        at = slice(1, 3) if function.__qualname__.startswith("last") else slice(2, 4)
        found = list(shape)
        found[at] = [lg.Dim(n, 7, 400, typical=64) for n in "hw"]
        shape = tuple(found)
    specs = {n: lg.spec(*s) for n, s in {"x": shape, "w": weight}.items() if s is not None}
    graph = entry = traced(function, **specs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CUDA)


def inputs_of(name: str, rng: np.random.Generator) -> dict[str, Any]:
    _, shape, weight = CASES[name]
    shapes = {"x": shape, "w": weight}
    return {
        n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items() if s is not None
    }
