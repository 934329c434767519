"""Folds around a product in parts: what the parts and their merge come to is what the fold meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from folds import FEW, FOLDED, KEYS, POSITIONS, specs_of
from one_token import ATTENDS, KEPT, LENGTH, WIDTH, specs_of_token, token
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.graph import Graph, tensor_of
from lumigen.index import ix, product
from lumigen.interp.graph import evaluate as of_graph
from lumigen.interp.graph import step
from lumigen.interp.region import evaluate
from lumigen.lower import GRAPH_PASSES, plan_region
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.cascade import Cascade, find_cascade
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate, Scheduled, candidates_of_threads
from lumigen.lower.split_fold import SplitFold, split_fold
from lumigen.printer.tile import show as show_tile
from lumigen.region import Region, Role
from lumigen.targets.cpu.device import CPU, device_of
from lumigen.targets.cpu.machines import PLANNED
from lumigen.targets.cuda.device import CUDA
from lumigen.verify.plan import verify as verify_plan
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify as verify_tile

POINTS: dict[Any, int] = {POSITIONS: 21, KEYS: 23, FEW: 3}  # the last part is ragged


@cache
def graph_of(name: str) -> Graph:
    graph = traced(FOLDED[name][0], **specs_of(name, lg.f32))
    for change in GRAPH_PASSES:
        graph = change(graph)
    return graph


@cache
def folds_of(name: str) -> tuple[tuple[Region, Cascade], ...]:
    kernels = assemble((("entry", graph_of(name)),), CPU).kernels
    found = ((k.region, find_cascade(k.region.stores, PLANNED, one_row=True)) for k in kernels)
    return tuple((region, fold) for region, fold in found if fold is not None)


def arrays_of(region: Region, rng: np.random.Generator) -> dict[str, Any]:
    dims = {d: POINTS.get(d, 5) for d in POINTS}
    return {
        b.name: (3 * rng.standard_normal([int(e.evaluate(dims)) for e in b.dims])).astype(
            b.dtype.numpy
        )
        for b in region.reads()
    }


def meant(pieces: SplitFold, given: dict[str, Any]) -> dict[str, Any]:
    """What the parts and their merges leave."""
    buffers = given | evaluate(pieces.states, given, POINTS)
    out: dict[str, Any] = {}
    for merge in pieces.merges:
        out |= evaluate(merge, buffers, POINTS)
    return out


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("name", FOLDED)
def test_parts_and_their_merge_are_the_fold(
    name: str, count: int, rng: np.random.Generator
) -> None:
    folds = folds_of(name)
    assert folds
    for region, found in folds:
        pieces = split_fold(found.plan(region), count, step=2)
        assert pieces is not None
        verify_plan(pieces.plan(region, PLANNED))
        for r in (pieces.states, *pieces.merges):
            verify_region(r)
        assert all(b.role is Role.TEMP for b in pieces.temps)
        given = arrays_of(region, rng)
        expected = evaluate(region, given, POINTS)
        with np.errstate(all="ignore"):
            found_values = meant(pieces, given)
        for out, value in expected.items():
            np.testing.assert_allclose(found_values[out], value, rtol=2e-5, atol=2e-5)


# ---- one token past a cache, on a device of many blocks ----


def lowered(graph: Graph) -> LoweredModel:
    for change in GRAPH_PASSES:
        graph = change(graph)
    return assemble((("entry", graph),), CUDA)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.f16, lg.bf16], ids=str)
@pytest.mark.parametrize("name", ATTENDS)
def test_one_token_is_two_launches_and_stores_no_scores(
    name: str, dtype: lg.DType, rng: np.random.Generator
) -> None:
    attends, group = ATTENDS[name]
    graph = traced(token(attends, dtype), **specs_of_token(group, dtype))
    model = lowered(graph)
    *writes, fold, merge = model.kernels
    assert {k.program.skeleton for k in (*writes, merge)} == {"simt"}
    assert fold.program.skeleton == "cascade"
    assert len(fold.region.stores) == (1 if name == "no_maximum" else 3)
    assert sum(len(g.variants[-1].launches) for g in model.programs[0].groups) == 3
    verify_tile(fold.program, name)
    for pos in (0, 1, 64, 511, LENGTH - 1):
        given = {n: rng.standard_normal((KEPT, 1, WIDTH)).astype(dtype.numpy) for n in ("k", "v")}
        given["q"] = rng.standard_normal((KEPT, group, WIDTH)).astype(dtype.numpy)
        given["pos"] = np.array(pos)
        caches = {
            n: rng.standard_normal((KEPT, LENGTH, WIDTH)).astype(dtype.numpy)
            for n in ("keys", "values")
        }
        expected, _ = step(graph, given, {}, caches)
        for kept in caches.values():
            kept[:, pos + 1 :] = np.nan  # what is behind the position does not matter
        found = run_entry(model, given, {}, states=caches)
        near = 2e-5 if dtype is lg.f32 else 2e-2
        np.testing.assert_allclose(
            found["out"].astype(np.float32),
            expected["out"].astype(np.float32),
            rtol=near,
            atol=near,
        )


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def test_a_merge_has_a_warp_for_each_row() -> None:
    """A thread has few lanes, and no row waits for another one."""
    q, k = (lg.spec(2, 8, n, 128, dtype=lg.bf16) for n in (1, 4096))
    merge = lowered(traced(attention, q=q, k=k, v=k)).kernels[-1].program
    assert (merge.threads, merge.team, merge.tasks) == (32, 32, ix(2 * 8))


def test_what_is_short_or_has_many_rows_stays_whole() -> None:
    def of(queries: int, keys: int) -> list[str]:
        q, k = (lg.spec(2, n, 64, dtype=lg.bf16) for n in (queries, keys))
        graph = traced(attention, q=q, k=k, v=k)
        return [k.program.skeleton for k in lowered(graph).kernels]

    assert of(1, 256) == ["cascade"]
    assert of(1, 4096) == ["cascade", "simt"]
    assert of(64, 4096) == ["cascade", "simt"]
    assert of(2048, 4096) == ["cascade", "simt"]  # which leave half of the device idle
    assert of(16384, 4096) == ["cascade"]


def scaled(x: Any, w: Any, keys: Any) -> Any:
    q = x.reshape(KEPT, x.shape[0], WIDTH) / 5
    return attention(q, keys, keys)


def projected(x: Any, w: Any, keys: Any) -> Any:
    return attention((x @ w).reshape(x.shape[0], KEPT, WIDTH).transpose(0, 1), keys, keys)


@pytest.mark.parametrize("keys", [300, 4096])
@pytest.mark.parametrize(("attends", "rows"), [(scaled, 4), (projected, 1), (projected, 4)])
def test_a_computed_query_is_stored_and_no_scores_are(attends: Any, rows: int, keys: int) -> None:
    """Whatever makes it, with weights that are inputs too, and however many keys there are."""
    wide = KEPT * WIDTH
    sizes = {"x": (rows, wide), "w": (wide, wide), "keys": (KEPT, keys, WIDTH)}
    specs: dict[str, Any] = {n: lg.spec(*s, dtype=lg.bf16) for n, s in sizes.items()}
    graph = traced(attends, **specs)
    stores = (s.dst for k in lowered(graph).kernels for s in k.region.stores)
    query, *others = (product(b.dims).estimate() for b in stores if b.dtype is lg.bf16)
    assert others == [query] == [rows * wide]  # the result


def test_parts_share_what_a_position_leaves() -> None:
    """However short the text is in its cache, no part has more steps than another needs."""
    graph = traced(token(ATTENDS["group"][0], lg.f32), **specs_of_token(4, lg.f32))
    fold = lowered(graph).kernels[-2].program
    assert fold.tasks == KEPT * 15
    each = 32 * 15  # a step for each part: pos // each steps, and one more
    text = show_tile(fold)
    assert f"(pos[])//{each}" in text, text


def test_parts_do_what_the_fold_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point of the axis is counted in the part that has it alone."""
    q, k = (lg.spec(2, n, 64, dtype=lg.bf16) for n in (1, 4096))
    graph = traced(attention, q=q, k=k, v=k)
    parts, _ = lowered(graph).kernels

    def one(*_: object) -> int:
        return 1

    monkeypatch.setattr(plan_region, "parts_of_blocks", one)
    (whole,) = lowered(graph).kernels
    (work, read, _), (of_parts, read_by_parts, _) = whole.cost.at({}), parts.cost.at({})
    assert read_by_parts == read
    assert abs(of_parts - work) < 0.01 * work


# ---- every fold in parts, by the kernels of each device ----


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Devices offer three parts first, whatever pays."""

    def three(*_: object) -> int:
        return 3

    monkeypatch.setattr(plan_region, "parts_of_blocks", three)
    monkeypatch.setattr(plan_region, "parts_of_threads", three)
    machine = replace(PLANNED, tiles=replace(PLANNED.tiles, step_of_parts=8))

    def last_first(region: Region, schedule: Scheduled) -> Iterator[Candidate]:
        return reversed(list(candidates_of_threads(region, schedule, machine)))

    return replace(device_of(machine), products=last_first)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", FOLDED)
def test_kernels_of_parts_compute_the_graph(
    name: str, device: str, in_parts: Device, rng: np.random.Generator
) -> None:
    dims: dict[Any, int] = {POSITIONS: 70, KEYS: 75, FEW: 5}
    graph = graph_of(name)
    model = assemble((("entry", graph),), in_parts if device == "cpu" else CUDA)
    folds = [k for k in model.kernels if k.program.skeleton == "cascade"]
    assert folds
    for k in folds:
        assert {s.dst.role for s in k.results} == {Role.TEMP}
        verify_tile(k.program, name)
    given: dict[str, Any] = {}
    for n in graph.inputs:
        shape = [int(e.evaluate(dims)) for e in n.shape]
        given[tensor_of(n).name] = rng.standard_normal(shape).astype(n.dtype.numpy)
    expected = of_graph(graph, given, {})
    found = run_entry(model, given, {}, lambda tasks: rng.permutation(tasks))
    for out, value in expected.items():
        np.testing.assert_allclose(found[out], value, rtol=3e-5, atol=3e-5)


@pytest.mark.slow
def test_threads_share_one_token(in_parts: Device, rng: np.random.Generator) -> None:
    """Each entry as the interpreter runs it, and compiled."""
    entries: list[tuple[str, Graph]] = []
    for name, (attends, group) in ATTENDS.items():
        graph = traced(token(attends, lg.f32), **specs_of_token(group, lg.f32))
        for change in GRAPH_PASSES:
            graph = change(graph)
        entries.append((name, graph))
    model = assemble(tuple(entries), in_parts)
    split = [k for k in model.kernels if len(k.results) == 3]
    assert len(split) >= 4
    compiled = fast_lane.load(model, "-O1")
    for name, graph in entries:
        group = ATTENDS[name][1]
        for pos in (0, 1, 64, LENGTH - 1):
            shapes = {"q": group, "k": 1, "v": 1}
            given: dict[str, Any] = {
                n: rng.standard_normal((KEPT, rows, WIDTH)).astype(np.float32)
                for n, rows in shapes.items()
            }
            given["pos"] = np.array(pos)
            caches = {
                n: rng.standard_normal((KEPT, LENGTH, WIDTH)).astype(np.float32)
                for n in ("keys", "values")
            }
            expected, _ = step(graph, given, {}, {n: c.copy() for n, c in caches.items()})
            for found in (
                run_entry(
                    model, given, {}, states={n: c.copy() for n, c in caches.items()}, entry=name
                ),
                compiled.run(name, given, {}, {n: c.copy() for n, c in caches.items()}),
            ):
                np.testing.assert_allclose(
                    found["out"], expected["out"], rtol=2e-5, atol=2e-5, err_msg=f"{name} at {pos}"
                )
