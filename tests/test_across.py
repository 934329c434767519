"""Folds whose points the teams of a block share out, and squares about the means of parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.across import across, across_of
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.spread import find_spread
from lumigen.lower.widths import width_of
from lumigen.plan import NotRealised
from lumigen.region import Read, walk
from lumigen.schedule import schedule
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.machines import SM_80
from lumigen.tile import For, Hold, Keep, StoreTile

N = lg.Dim("n", 1, 300, typical=100)


def over_channels(x: Any, w: Any) -> Any:
    apart = x - x.mean(1, keepdim=True)
    return apart * ((apart * apart).mean(1, keepdim=True) + 1e-6).rsqrt() * w[:, None, None]


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "channels": (over_channels, {"x": lg.spec(2, 40, 6, 6), "w": lg.spec(40)}),
    "channels_of_any_length": (over_channels, {"x": lg.spec(2, N, 5, 3), "w": lg.spec(N)}),
    "softmax": (lambda x: x.softmax(0), {"x": lg.spec(33, N)}),
    "maximum": (lambda x: x.amax(0), {"x": lg.spec(300, 37, dtype=lg.f16)}),
    "two_axes": (lambda x: x - x.sum((0, 2), keepdim=True), {"x": lg.spec(20, 3, 7, 36)}),
}


def lowered(name: str) -> tuple[Any, LoweredModel]:
    function, inputs = CASES[name]
    graph = entry = traced(function, **inputs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CUDA)


@pytest.mark.parametrize("name", CASES)
def test_teams_compute_what_is_meant(name: str) -> None:
    graph, model = lowered(name)
    (kernel,) = model.kernels
    assert kernel.schedule is not None
    assert kernel.schedule.builder == "across"
    rng = np.random.default_rng(0)
    for n in (1, 7, 300) if graph.dims() else (0,):
        inputs = {
            i: rng.normal(2, 1, [int(e.evaluate({N: n})) for e in s.shape]).astype(s.dtype.numpy)
            for i, s in CASES[name][1].items()
        }
        with np.errstate(all="ignore"):  # the variance of one
            expected = evaluate(graph, inputs, {})
        found = run_entry(model, inputs, {})
        for out, value in expected.items():
            agree(found[out], value, f"{out} at n={n}")


def test_what_is_normalised_is_read_once() -> None:
    (kernel,) = lowered("channels")[1].kernels
    statements = list(kernel.program.statements())
    reads = [s for s in statements if isinstance(s, Keep) and isinstance(s.value, Read)]
    assert [s.value.source.name for s in reads if isinstance(s.value, Read)] == ["x"]
    stored = [s.value for s in statements if isinstance(s, StoreTile)]
    assert {e.source.name for e in walk(stored) if isinstance(e, Read)} == {"w"}


@pytest.mark.parametrize("team", [1, 2, 8, 32])
@pytest.mark.parametrize("hold", [0, 1])
def test_every_site_changes_the_program(team: int, hold: int) -> None:
    (kernel,) = lowered("channels")[1].kernels
    assert kernel.plan is not None
    sizes = schedule("across", {"threads": 256, "team": team, "width": 4, "hold": hold})
    program = across(kernel.plan, sizes, SM_80).program
    assert program.team == team
    assert any(isinstance(s, Hold) for s in program.statements()) == bool(hold)
    (lanes,) = (s for s in program.statements() if isinstance(s, For) and s.lanes)
    assert program.tasks == 2 * -(-36 // (4 * team))
    assert sum(s.dealt for s in lanes.body if isinstance(s, For)) >= 3


@pytest.mark.parametrize(
    ("site", "value"), [("team", 3), ("team", 64), ("threads", 1), ("lost", 1)]
)
def test_what_no_teams_are_is_refused(site: str, value: int) -> None:
    (kernel,) = lowered("channels")[1].kernels
    assert kernel.plan is not None
    sizes = schedule("across", {"threads": 256, "team": 8, "width": 4, "hold": 1}).at(site, value)
    with pytest.raises(NotRealised):
        across(kernel.plan, sizes, SM_80)


def test_folds_along_lanes_have_rows_by_teams() -> None:
    graph = traced(lambda x: x.softmax(-1), x=lg.spec(40, 64))
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    assert across_of(kernel.region, SM_80).team == 0
    assert kernel.plan is not None
    sizes = schedule("across", {"threads": 256, "team": 8, "width": 4, "hold": 1})
    with pytest.raises(NotRealised, match="in a loop over lanes"):
        across(kernel.plan, sizes, SM_80)


def test_lines_of_memory_are_whole_unless_blocks_are_few() -> None:
    def team(*shape: int) -> int:
        graph = traced(lambda x: x.softmax(1), x=lg.spec(*shape, dtype=lg.f16))
        (kernel,) = assemble((("entry", graph),), CUDA).kernels
        return across_of(kernel.region, SM_80).team * 16

    assert team(8, 64, 65536) == 512
    assert team(64, 1000, 256) == 64
    assert team(1, 200, 512) == 32
    alone = replace(SM_80, teams=replace(SM_80.teams, stretch=0))
    graph = traced(lambda x: x.softmax(1), x=lg.spec(8, 64, 65536))
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    assert across_of(kernel.region, alone).team == 0


@pytest.mark.parametrize(("length", "width"), [(28, 4), (36, 4), (32, 8), (49, 2)])
def test_vectors_are_whole_words_of_rows(length: int, width: int) -> None:
    graph = traced(lambda x: x.softmax(1), x=lg.spec(2, 9, length, dtype=lg.f16))
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    assert width_of(kernel.region, SM_80.teams) == width


def test_squares_are_found_about_anything() -> None:
    graph = traced(lambda x: (x - 3 * x.sum(-1, keepdim=True)).square().sum(-1), x=lg.spec(3, 9))
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    total, squares = kernel_reductions([kernel.region.stores[0].value])
    assert find_spread(squares, total) is not None
    assert find_spread(total, total) is None


def test_statistics_of_a_batch_are_one_launch() -> None:
    graph = traced(lambda x: F.batch_norm(x, None, None, training=True), x=lg.spec(64, 256, 28, 28))
    for step in GRAPH_PASSES:
        graph = step(graph)
    statistics, _ = assemble((("entry", graph),), CUDA).kernels
    assert len(statistics.region.stores) == 2
    assert statistics.program.tasks.const >= 2 * SM_80.multiprocessors


@pytest.mark.parametrize("rows", [64, 8192])
def test_pooling_by_attention_stores_its_weights_and_no_more(rows: int) -> None:
    graph = traced(
        lambda x, w: ((x @ w).softmax(1) * x).sum(1),
        x=lg.spec(rows, 256, 1024, dtype=lg.f16),
        w=lg.spec(1024, 1, dtype=lg.f16),
    )
    for step in GRAPH_PASSES:
        graph = step(graph)
    *before, last = assemble((("entry", graph),), CUDA).kernels
    assert last.schedule is not None
    assert last.schedule.builder == "across"
    stored = [s.dst.dims for k in before for s in k.region.stores]
    assert stored == [(rows, 256, 1)] * 2
