"""Long rows on a GPU: reductions of a row that depend on each other share one loop, and few rows are in parts."""

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
from lumigen.targets.cuda.device import CUDA
from lumigen.tile import Advance

Case = Callable[..., Any]


def distillation(x: Any, y: Any) -> Any:
    return F.kl_div((x / 2).log_softmax(-1), (y / 2).softmax(-1), reduction="batchmean")


def both(x: Any) -> Any:
    return {"most": x.amax(-1), "place": x.argmax(-1)}


def smoothed(x: Any) -> Any:
    return F.cross_entropy(x, (x[:, 0] > 0).to(lg.i64), label_smoothing=0.1)


# by name: a function, (rows, length) of its inputs, launches
CASES: dict[str, tuple[Case, tuple[int, int], int]] = {
    "log of a sum of powers": (lambda x: x.logsumexp(-1), (600, 17000), 1),
    "place of the greatest": (lambda x: x.argmax(-1), (600, 17000), 1),
    "greatest and its place": (both, (600, 17000), 1),
    "softmax": (lambda x: x.softmax(-1), (600, 17000), 1),
    "few rows": (lambda x: x.argmin(-1), (3, 70000), 2),
    "softmax of few rows": (lambda x: x.softmax(-1), (2, 70001), 2),
    "one row": (lambda x: x.logsumexp(-1), (1, 70000), 2),
    "distillation": (distillation, (600, 17000), 2),
    "label smoothing": (smoothed, (600, 17000), 3),
}


def lowered(function: Case, shape: tuple[int, int]) -> tuple[Any, LoweredModel]:
    inputs = dict.fromkeys(function.__code__.co_varnames[: function.__code__.co_argcount])
    graph = traced(function, **{n: lg.spec(*shape) for n in inputs})
    for step in GRAPH_PASSES:
        graph = step(graph)
    return graph, assemble((("entry", graph),), CUDA)


@pytest.mark.parametrize("name", CASES)
def test_launches(name: str) -> None:
    function, shape, launches = CASES[name]
    _, model = lowered(function, shape)
    assert len(model.kernels) == launches
    each = [s for k in model.kernels for s in k.program.statements()]
    assert any(isinstance(s, Advance) for s in each)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("special", ["numbers", "infinities", "nan"])
def test_programs_compute_the_graph(name: str, special: str) -> None:
    function, (rows, length), _ = CASES[name]
    rows = min(rows, 3)
    graph, model = lowered(function, (rows, length))
    rng = np.random.default_rng(5)
    given = {n: rng.standard_normal((rows, length)).astype(np.float32) * 4 for n in "xy"}
    if special == "infinities":
        given["x"][0] = -np.inf
        given["x"][-1, 30:900] = -np.inf
    if special == "nan":
        given["x"][-1, 9000:] = np.nan
    given = {n: v for n, v in given.items() if n in {i.attr.name for i in graph.inputs}}
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, given, {})
        found = run_entry(model, given, {})
    for out, value in found.items():
        np.testing.assert_allclose(value, wanted[out], 2e-5, 1e-6, err_msg=out)
