"""Folds of rows around a product: no scores are stored, and each is its region in the interpreter and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from folds import FEW, FOLDED, POSITIONS, specs_of
from folds import KEYS as FOLDED_KEYS
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen import functional as F
from lumigen.fast_lane import FastLane
from lumigen.frontend import Traced
from lumigen.graph import Graph, tensor_of
from lumigen.index import product
from lumigen.interp import tile
from lumigen.interp.graph import evaluate
from lumigen.interp.region import evaluate as meaning
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.built import Built
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate, Scheduled, candidate, candidates_of_rows
from lumigen.lower.row_fold import find_row_fold
from lumigen.pipeline import lower_model
from lumigen.plan import Illegal, RegionPlan
from lumigen.region import Buffer, Region, Role
from lumigen.target import HOST as CPU
from lumigen.targets.cpu.device import CPU as DEVICE
from lumigen.targets.cpu.device import device_of
from lumigen.targets.cpu.machines import PLANNED
from lumigen.verify.plan import verify_kernel
from lumigen.verify.tile import verify as verify_tile

ROWS = lg.Dim("rows", 1, 300, typical=200)
KEYS = lg.Dim("keys", 1, 700, typical=400)
Array = np.ndarray[Any, Any]
DEEP, WIDE, OUT = 24, 333, 40


def causal(s: lg.Tensor) -> lg.Tensor:
    i, j = lg.arange(s.shape[-2]).unsqueeze(-1), lg.arange(s.shape[-1])
    return s.masked_fill(j > i, -np.inf)


def windowed(s: lg.Tensor) -> lg.Tensor:
    i, j = lg.arange(s.shape[-2]).unsqueeze(-1), lg.arange(s.shape[-1])
    return s.masked_fill((j > i) | (i > j + 70), -np.inf)


def best(s: lg.Tensor) -> dict[str, lg.Tensor]:
    most, at = s.max(-1)
    return {"most": most, "at": at}


def ties(s: lg.Tensor) -> dict[str, lg.Tensor]:
    """How many elements are the least, and the last of them."""
    is_least = s == s.amin(-1, keepdim=True)
    at = lg.where(is_least, lg.arange(s.shape[-1]), -1)
    return {"count": is_least.sum(-1), "last": at.amax(-1)}


def both(s: lg.Tensor) -> dict[str, lg.Tensor]:
    return {"greatest": s.amax(-1), "total": s.sum(-1)}


@dataclass(frozen=True)
class Case:
    """A function of weights, then of inputs, and how many kernels it is."""

    function: Callable[..., Any]
    inputs: dict[str, Any]
    weights: tuple[tuple[int, ...], ...] = ()
    kernels: int = 1


X = lg.spec(ROWS, DEEP)
W = (WIDE, DEEP)
Y = lg.spec(ROWS, dtype=lg.i64)
Q, K = lg.spec(2, ROWS, DEEP), lg.spec(2, KEYS, DEEP)
CASES = {
    "log_sum_exp": Case(lambda w, x: (x @ w.T).logsumexp(-1), {"x": X}, (W,)),
    "commuted": Case(lambda w, x: (w @ x.T).logsumexp(0), {"x": X}, (W,)),
    "of_inputs": Case(lambda x, k: (x @ k.mT).logsumexp(-1), {"x": Q, "k": K}),
    "scaled": Case(lambda x, k: (x @ k.mT * 0.3 + 1).logsumexp(-1), {"x": Q, "k": K}),
    "bias": Case(lambda w, b, x: (x @ w.T + b).logsumexp(-1), {"x": X}, (W, (WIDE,))),
    "causal": Case(lambda x, k: causal(x @ k.mT).logsumexp(-1), {"x": Q, "k": K}),
    "window": Case(lambda x, k: windowed(x @ k.mT).logsumexp(-1), {"x": Q, "k": K}),
    "causal_weights": Case(lambda w, x: causal(x @ w.T).logsumexp(-1), {"x": X}, (W,)),
    "window_weights": Case(lambda w, x: windowed(x @ w.T).logsumexp(-1), {"x": X}, (W,)),
    "labels": Case(
        lambda w, x, y: F.cross_entropy(x @ w.T, y, reduction="none"), {"x": X, "y": Y}, (W,)
    ),
    "mean_of_labels": Case(
        lambda w, x, y: F.cross_entropy(x @ w.T, y), {"x": X, "y": Y}, (W,), kernels=2
    ),
    "labels_of_inputs": Case(
        lambda x, k, y: F.cross_entropy(x @ k.T, y, reduction="none"),
        {"x": X, "k": lg.spec(WIDE, DEEP), "y": Y},
    ),
    "two_axes": Case(
        lambda w, x: (x @ w.T).unflatten(-1, (9, 37)).logsumexp((-2, -1)), {"x": X}, (W,)
    ),
    "greatest": Case(lambda w, x: (x @ w.T).amax(-1), {"x": X}, (W,)),
    "greatest_and_total": Case(lambda w, x: both(x @ w.T), {"x": X}, (W,)),
    "place": Case(lambda w, x: (x @ w.T).argmax(-1), {"x": X}, (W,)),
    "place_commuted": Case(lambda w, x: (w @ x.T).argmax(0), {"x": X}, (W,)),
    "place_of_least": Case(lambda w, b, x: (x @ w.T + b).argmin(-1), {"x": X}, (W, (WIDE,))),
    "place_of_inputs": Case(lambda x, k: (x @ k.mT).argmax(-1), {"x": Q, "k": K}),
    "place_turned": Case(lambda x, k: (k @ x.mT).argmin(1), {"x": lg.spec(2, ROWS, DEEP), "k": K}),
    "place_causal": Case(lambda w, x: causal(x @ w.T).argmax(-1), {"x": X}, (W,)),
    "place_and_greatest": Case(lambda w, x: best(x @ w.T * 2), {"x": X}, (W,)),
    "ties": Case(lambda w, x: ties(x @ w.T), {"x": X}, (W,)),
    "mean_of_squares": Case(lambda w, x: (x @ w.T).square().mean(-1), {"x": X}, (W,)),
    "relu": Case(lambda w, v, x: (x @ w.T).relu() @ v, {"x": X}, (W, (WIDE, OUT))),
    "gelu": Case(
        lambda w, b, v, x: F.gelu(x @ w.T + b) @ v + x[:, :1], {"x": X}, (W, (WIDE,), (WIDE, OUT))
    ),
    "softmax": Case(lambda w, v, x: (x @ w.T * 0.3).softmax(-1) @ v, {"x": X}, (W, (WIDE, OUT))),
    "softmax_turned": Case(
        lambda w, v, x: v.T @ (w @ x.T * 0.3).softmax(0) + 1, {"x": X}, (W, (WIDE, OUT))
    ),
    "causal_softmax": Case(
        lambda w, v, x: causal(x @ w.T).softmax(-1) @ v, {"x": X}, (W, (WIDE, OUT))
    ),
    "silu": Case(lambda w, v, x: F.silu(x @ w.T) @ v, {"x": X}, (W, (WIDE, OUT))),
}


def graph_of(case: Case, prefix: str = "") -> Graph:
    def entry(**inputs: lg.Tensor) -> Any:
        held = (nn.Parameter(*s, name=f"{prefix}w{i}") for i, s in enumerate(case.weights))
        return case.function(*held, *inputs.values())

    return traced(entry, **case.inputs)


@cache
def lowered(name: str, dtype: lg.DType = lg.f32) -> LoweredModel:
    return lowered_case(CASES[name], dtype)


def lowered_case(case: Case, dtype: lg.DType) -> LoweredModel:
    made = Traced("rows", "0", (("entry", graph_of(case)),), ())
    return lower_model(made, {}, target=CPU, dtype=dtype).lowered


def arrays(case: Case, graph: Graph, rows: int, keys: int = 1) -> tuple[dict[str, Array], ...]:
    """(inputs, weights) for so many rows."""
    rng = np.random.default_rng(rows)

    def made(n: Any) -> Array:
        shape = [int(e.evaluate({ROWS: rows, KEYS: keys})) for e in n.shape]
        if n.dtype is lg.i64:
            return rng.choice([*range(WIDE), -100], shape).astype(np.int64)
        return rng.standard_normal(shape).astype(n.dtype.numpy)

    return tuple({tensor_of(n).name: made(n) for n in of} for of in (graph.inputs, graph.weights()))


def rounded(arrays: dict[str, Array], dtype: lg.DType) -> dict[str, Array]:
    """The floats as memory holds them."""
    return {n: a if a.dtype == np.int64 else a.astype(dtype.numpy) for n, a in arrays.items()}


SIZES = ((1, 1), (5, 700), (63, 127), (97, 129), (300, 400))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_no_scores_are_stored(name: str, dtype: lg.DType) -> None:
    case = CASES[name]
    model = lowered(name, dtype)
    (program,) = model.programs
    assert len(program.launches) == case.kernels
    assert model.kernels[0].schedule is not None
    assert model.kernels[0].schedule.builder == "row_fold"
    stored = [s.dst for k in model.kernels for s in k.region.stores]
    assert all(product(b.dims).estimate() < 200 * WIDE for b in stored)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tiles_compute_the_graph(name: str) -> None:
    case = CASES[name]
    graph, model = graph_of(case), lowered(name)
    for rows, keys in SIZES:
        inputs, weights = arrays(case, graph, rows, keys)
        expected = evaluate(graph, inputs, weights)
        for out, value in run_entry(model, inputs, weights).items():
            agree(value, expected[out], f"{name}: {out} of {rows} rows")
        for out, value in run_entry(model, inputs, weights, by_region=True).items():
            agree(value, expected[out], f"{name}: {out} of {rows} rows, as its region says")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
def test_the_compiled_kernels_do(dtype: lg.DType) -> None:
    graphs = {name: graph_of(case, f"{name}_") for name, case in CASES.items()}
    made = Traced("rows", "0", tuple(graphs.items()), ())
    lane = fast_lane.load(lower_model(made, {}, target=CPU, dtype=dtype).lowered, "-O1")
    for name, case in CASES.items():
        for rows, keys in SIZES:
            inputs, weights = arrays(case, graphs[name], rows, keys)
            inputs, weights = (rounded(a, dtype) for a in (inputs, weights))
            exact = (
                {n: a.astype(np.float32) if a.dtype != np.int64 else a for n, a in x.items()}
                for x in (inputs, weights)
            )
            expected = evaluate(graphs[name], *exact)
            for out, value in lane.run(name, inputs, weights).items():
                agree(value, expected[out].astype(value.dtype), f"{name}: {out} of {rows} rows")


FEW_ROWS = lg.Dim("few_rows", 1, 100, typical=8)
MANY_KEYS = lg.Dim("many_keys", 1, 9000, typical=6000)
VOCABULARY = 5003  # the last part is ragged, and its last panel
HEAD = (VOCABULARY, DEEP)
FEW_X = {"x": lg.spec(FEW_ROWS, DEEP)}
IN_PARTS = {
    "log_sum_exp": Case(lambda w, x: (x @ w.T).logsumexp(-1), FEW_X, (HEAD,)),
    "one_row": Case(lambda w, x: (x @ w.T).logsumexp(-1), {"x": lg.spec(DEEP)}, (HEAD,)),
    "commuted": Case(lambda w, b, x: (w @ x.T + b).logsumexp(0), FEW_X, (HEAD, (VOCABULARY, 1))),
    "labels": Case(
        lambda w, x, y: F.cross_entropy(x @ w.T, y, reduction="none"),
        {**FEW_X, "y": lg.spec(FEW_ROWS, dtype=lg.i64)},
        (HEAD,),
    ),
    "of_inputs": Case(
        lambda x, k: (x @ k.mT).logsumexp(-1),
        {"x": lg.spec(2, FEW_ROWS, DEEP), "k": lg.spec(2, MANY_KEYS, DEEP)},
    ),
    "place": Case(lambda w, x: (x @ w.T).argmax(-1), FEW_X, (HEAD,)),
    "place_and_greatest": Case(lambda w, x: best(x @ w.T), FEW_X, (HEAD,)),
    "ties": Case(lambda w, x: ties(x @ w.T), FEW_X, (HEAD,)),
    "greatest_and_total": Case(lambda w, x: both(x @ w.T), FEW_X, (HEAD,)),
}


@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
@pytest.mark.parametrize("name", IN_PARTS)
def test_few_rows_are_folded_in_parts_of_their_columns(name: str, dtype: lg.DType) -> None:
    model = lowered_case(IN_PARTS[name], dtype)
    (program,) = model.programs
    assert [k.schedule.builder for k in model.kernels if k.schedule] == ["row_fold", "simt"]
    assert len(program.launches) == 2
    assert {b.dst.role for b in model.kernels[0].results} == {Role.TEMP}
    stored = [s.dst for k in model.kernels for s in k.region.stores]
    assert all(product(b.dims).estimate() <= 2 * 8 * 64 for b in stored)


@pytest.mark.slow
def test_parts_of_columns_compute_the_graph() -> None:
    """Each entry as the interpreter runs it, and compiled; small integers have many equal products."""
    graphs = {name: graph_of(case, f"{name}_") for name, case in IN_PARTS.items()}
    made = Traced("rows", "0", tuple(graphs.items()), ())
    model = lower_model(made, {}, target=CPU, dtype=lg.f32).lowered
    lane = fast_lane.load(model, "-O1")
    rng = np.random.default_rng(2)
    for name, graph in graphs.items():
        for rows, keys in ((1, 1), (7, 9000), (63, 100)):
            dims = {FEW_ROWS: rows, MANY_KEYS: keys}

            def drawn(n: Any, dims: Any = dims) -> Array:
                shape = [int(e.evaluate(dims)) for e in n.shape]
                low, high = (-1, VOCABULARY) if n.dtype is lg.i64 else (-2, 3)
                return rng.integers(low, high, shape).astype(n.dtype.numpy)

            inputs, weights = (
                {tensor_of(n).name: drawn(n) for n in of} for of in (graph.inputs, graph.weights())
            )
            if "y" in inputs:
                inputs["y"][inputs["y"] < 0] = -100  # no label
            expected = evaluate(graph, inputs, weights)
            found = [lane.run(name, inputs, weights)]
            if rows < 63:
                found.append(run_entry(model, inputs, weights, entry=name))
            for of in found:
                for out, value in of.items():
                    agree(value, expected[out], f"{name}: {out} of {rows} rows")


PLAIN: dict[str, Callable[[lg.Tensor], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: (x * 2 + 1).log_softmax(-1),
    "log_sum_exp": lambda x: x.logsumexp(-1),
    "of_two_axes": lambda x: x.logsumexp((-2, -1)),
    "causal": lambda x: causal(x).softmax(-1),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", [16, 64, 4096])
@pytest.mark.parametrize("name", PLAIN)
def test_one_loop_over_plain_rows_carries_its_corrections(name: str, part: int) -> None:
    graph = traced(PLAIN[name], x=lg.spec(2, ROWS, 100))
    made = Traced("rows", "0", (("entry", graph),), ())
    (kernel,) = lower_model(made, {}, target=CPU, dtype=lg.f32).lowered.kernels
    assert kernel.schedule is not None
    assert kernel.schedule.builder == "simt"
    *_, last = DEVICE.space(kernel.region)
    (plan,), (sizes,) = last.plan.kernels, last.schedules
    assert any(c.correct is not None for loop in plan.loops() for c in loop.carries)
    assert sizes.builder == "row_fold"
    built = DEVICE.build(verify_kernel(plan), sizes.at("part", part))
    assert isinstance(built, Built)
    verify_tile(built.program)
    for rows in (1, 7, 90):
        x = np.random.default_rng(rows).standard_normal((2, rows, 100)).astype(np.float32)
        wanted = evaluate(graph, {"x": x}, {})["out"]
        source, dst = built.program.args
        found = tile.run(built.program, {source.name: x}, {ROWS: rows})[dst.name]
        agree(found.reshape(wanted.shape), wanted, f"{name} of {rows} rows")


def check_built(name: str, built: Built | Illegal) -> None:
    """Whether a kernel computes what it is meant to, over numbers of its own arguments."""
    assert isinstance(built, Built), built
    verify_tile(built.program)
    dims = {ROWS: 37, KEYS: 75}
    rng = np.random.default_rng(7)

    def made(b: Buffer) -> Array:
        shape = [int(e.evaluate(dims)) for e in b.dims]
        if b.dtype is lg.i64:
            return rng.integers(0, WIDE, shape)
        return rng.standard_normal(shape).astype(np.float32)

    buffers = {b.name: made(b) for b in built.meaning.reads()}
    wanted = meaning(built.meaning, buffers, dims)
    found = tile.run(built.program, buffers, dims)
    for s in built.meaning.stores:
        out = found[s.dst.name]
        agree(out, wanted[s.dst.name].astype(out.dtype), f"{name}: {s.dst}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 5, "least_rows": 1},
        {"part": 16},
        {"part": 48, "depth": 8},
        {"rows": 1, "least_rows": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", CASES)
def test_other_tiles_compute_the_same(name: str, changed: dict[str, int]) -> None:
    kernel = lowered(name).kernels[0]
    assert kernel.plan is not None
    assert kernel.schedule is not None
    sizes = kernel.schedule
    for site, size in changed.items():
        sizes = sizes.at(site, size)
    built = DEVICE.build(verify_kernel(kernel.plan), sizes)
    assert isinstance(built, Built)
    assert built.program != kernel.program
    check_built(name, built)


def assembled(graphs: Mapping[str, Graph], device: Device) -> LoweredModel:
    entries = list[tuple[str, Graph]]()
    for name, made in graphs.items():
        graph = made
        for step in GRAPH_PASSES:
            graph = step(graph)
        entries.append((name, graph))
    return assemble(tuple(entries), device)


def test_plain_rows_compiled() -> None:
    graphs = {name: traced(f, x=lg.spec(2, ROWS, 100)) for name, f in PLAIN.items()}
    model = assembled(graphs, replace(DEVICE, products=candidates_of_rows))
    assert {k.schedule.builder for k in model.kernels if k.schedule} == {"row_fold"}
    assert all(len(p.launches) == 1 for p in model.programs)
    lane = fast_lane.load(model, "-O1")
    for name, graph in graphs.items():
        x = np.random.default_rng(3).standard_normal((2, 50, 100)).astype(np.float32)
        wanted = evaluate(graph, {"x": x}, {})["out"]
        agree(lane.run(name, {"x": x}, {})["out"], wanted, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["place", "place_of_least", "place_and_greatest", "ties"])
def test_ties_and_what_is_no_number(name: str) -> None:
    """The first of equal ones, or the first NaN; rows of -inf too. Small integers have many equal products."""
    case = CASES[name]
    graph = graph_of(case)
    model, rng = lowered(name), np.random.default_rng(8)
    given = arrays(case, graph, 120)
    inputs, weights = ({n: rng.integers(-2, 3, a.shape) for n, a in x.items()} for x in given)
    inputs, weights = ({n: a.astype(np.float32) for n, a in x.items()} for x in (inputs, weights))
    weights["w0"][:, 0] = 1
    inputs["x"][3], inputs["x"][5, 0], inputs["x"][6, 0] = 0, -np.inf, np.inf
    lane = fast_lane.load(model, "-O1")
    for column in (None, 77):
        if column is not None:
            weights["w0"][column, 4] = np.nan
        wanted = evaluate(graph, inputs, weights)
        found = lane.run("entry", inputs, weights), run_entry(model, inputs, weights)
        for of in found:
            for out, value in of.items():
                np.testing.assert_array_equal(value, wanted[out])


def test_the_numbers_of_a_row_are_those_of_numpy() -> None:
    """In f64, from their definition."""
    case = CASES["labels"]
    graph, model = graph_of(case), lowered("labels")
    inputs, weights = arrays(case, graph, 300)
    scores = inputs["x"].astype(np.float64) @ weights["w0"].T.astype(np.float64)
    total = np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)) + scores.max(-1)
    there = inputs["y"] >= 0
    at = np.take_along_axis(scores, np.maximum(inputs["y"], 0)[:, None], 1)[:, 0]
    found = fast_lane.load(model, "-O1").run("entry", inputs, weights)["out"]
    np.testing.assert_allclose(found, np.where(there, total - at, 0), rtol=2e-5, atol=2e-5)


def test_one_token() -> None:
    """A region without rows of its own has one; a device that has few threads does not store its scores."""
    names = ("log_sum_exp", "bias", "greatest")
    cases = {name: replace(CASES[name], inputs={"x": lg.spec(DEEP)}) for name in names}
    graphs = {name: graph_of(case) for name, case in cases.items()}
    device = device_of(replace(PLANNED, storing=replace(PLANNED.storing, rows=1)))
    model = assembled(graphs, device)
    assert {k.schedule.builder for k in model.kernels if k.schedule} == {"row_fold"}
    assert all(len(p.launches) == 1 for p in model.programs)
    lane = fast_lane.load(model, "-O1")
    for name, case in cases.items():
        inputs, weights = arrays(case, graphs[name], 1)
        expected = evaluate(graphs[name], inputs, weights)
        interpreted = run_entry(model, inputs, weights, entry=name)
        for found in (interpreted, lane.run(name, inputs, weights)):
            agree(found["out"], expected["out"], name)


def only_rows(region: Region, schedule: Scheduled) -> Iterator[Candidate]:
    found = find_row_fold(region.stores, PLANNED)
    if found is not None:
        yield candidate(RegionPlan(region, (found.plan(region),)), schedule)


BY_ROWS = [n for n in FOLDED if n != "values_turned"]


@cache
def attention_by_rows() -> FastLane:
    graphs = {n: traced(FOLDED[n][0], **specs_of(n, lg.f32)) for n in BY_ROWS}
    return fast_lane.load(assembled(graphs, replace(DEVICE, products=only_rows)), "-O1")


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_ROWS)
def test_attention_by_rows(name: str) -> None:
    """The columns of both products are packed for each part; rows are queries, which vectors run along elsewhere."""
    graph = traced(FOLDED[name][0], **specs_of(name, lg.f32))
    model = assembled({"entry": graph}, replace(DEVICE, products=only_rows))
    assert [k.schedule.builder for k in model.kernels if k.schedule] == ["row_fold"]
    assert model.kernels[0].schedule is not None
    assert model.kernels[0].schedule.where("outer") == "tile"
    for count in (1, 65, 130):
        rng = np.random.default_rng(count)
        dims = {POSITIONS: count, FOLDED_KEYS: count + 7, FEW: count}
        inputs: dict[str, Array] = {}
        for n in graph.inputs:
            shape = [int(e.evaluate(dims)) for e in n.shape]
            inputs[tensor_of(n).name] = rng.standard_normal(shape).astype(np.float32)
        expected = evaluate(graph, inputs, {})
        for out, value in attention_by_rows().run(name, inputs, {}).items():
            agree(value, expected[out], f"{name} at {count} positions")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"part": 100}, "whole panels"),
        ({"rows": 0}, "no tile is empty"),
        ({"depth": 0}, "no tile is empty"),
        ({"inner": "none"}, "a place where there is a product"),
        ({"outer": "panels"}, "a place where there is a product"),
        ({"part": 16, "columns": 3}, "has sites"),
    ],
    ids=str,
)
def test_what_is_not_realised_is_refused(changed: dict[str, Any], why: str) -> None:
    kernel = lowered("log_sum_exp").kernels[0]
    assert kernel.plan is not None
    assert kernel.schedule is not None
    sizes = kernel.schedule
    for site, to in changed.items():
        sizes = sizes.placed(site, to) if isinstance(to, str) else sizes.at(site, to)
    illegal = DEVICE.build(kernel.plan, sizes)
    assert isinstance(illegal, Illegal)
    assert why in illegal.reason


def test_columns_of_inputs_lie_in_no_panels() -> None:
    kernel = lowered("of_inputs").kernels[0]
    assert kernel.plan is not None
    assert kernel.schedule is not None
    illegal = DEVICE.build(kernel.plan, kernel.schedule.placed("inner", "panels"))
    assert isinstance(illegal, Illegal)


@pytest.mark.parametrize("name", ["log_sum_exp", "labels", "softmax", "gelu"])
def test_weights_may_be_packed_for_each_part(name: str) -> None:
    kernel = lowered(name).kernels[0]
    assert kernel.plan is not None
    assert kernel.schedule is not None
    sizes = kernel.schedule.placed("inner", "tile")
    check_built(name, DEVICE.build(kernel.plan, sizes))
    if sizes.where("outer") == "panels":
        check_built(name, DEVICE.build(kernel.plan, sizes.placed("outer", "tile")))
