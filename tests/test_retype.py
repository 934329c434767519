"""A model of f32 held in f16 or bf16: what is rounded, in which skeletons it runs, what it computes.

Two oracles. The interpreter rounds where memory does, so kernels agree with it to an ulp or two of what they
store. PyTorch in float64, from the rounded inputs and weights, knows nothing of temporaries: each of them adds an
error of half an ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.dtype import DType, bf16, f16, f32, i64
from lumigen.fast_lane import FastLane
from lumigen.frontend import Traced
from lumigen.frontend.nn import Parameter
from lumigen.frontend.spec import Spec, spec
from lumigen.graph import Graph, tensor_of
from lumigen.index import Dim
from lumigen.interp.graph import step
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.lower.retype import retype
from lumigen.ops import Op
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.targets.cpu.device import CPU
from lumigen.tile import Mma
from lumigen.verify.graph import verify
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify as verify_tile
from lumigen.weights import rounded

HALVES = pytest.mark.parametrize("dtype", [f16, bf16], ids=str)

# Of the result's scale: of kernels against the interpreter, and against exact arithmetic. An ulp of f16 is 2^-10 of
# a number, one of bf16 2^-7; some programs store three temporaries on the way.
TO_INTERPRETER = {f16: 2e-3, bf16: 1.6e-2}
TO_EXACT = {f16: 4e-3, bf16: 3.2e-2}

ULP = 2.0**-7  # of bf16, where a sum lies between two and its order decides
NATIVE = Path(__file__).parent / "native"
EMULATED = {"LUMIGEN_AMX": NATIVE / "emulated_tiles.h", "LUMIGEN_DOT": NATIVE / "emulated_dot.h"}

N = Dim("n", 1, 70, typical=64)
M = Dim("m", 1, 600, typical=512)  # so many rows that what is between two products is not stored
IN, WIDE, HEADS = 48, 96, 3


def weight(*shape: int) -> Parameter:
    return Parameter(*shape, name="w" + "x".join(map(str, shape)))


UP, DOWN, BIAS, TABLE = weight(WIDE, IN), weight(IN, WIDE), weight(WIDE), weight(300, IN)
KERNEL = weight(8, 4, 3, 3)
DEEP = weight(40, 2100)  # more than a share of the sum, and no multiple of what a matrix unit takes
LARGE = weight(600, 900)  # more than stays in a cache


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q.matmul(k.transpose(-1, -2)) * (1 / math.sqrt(32))
    return scores.softmax(-1).matmul(v)


def grouped(q: Any, k: Any, v: Any) -> Any:
    """Three heads share keys and values, of odd sizes, up to their own position."""
    scores = q.matmul(k.transpose(-1, -2)[:, None]) * (1 / math.sqrt(21))
    before = lg.arange(N)[:, None] >= lg.arange(N)
    return scores.masked_fill(~before, -math.inf).softmax(-1).matmul(v[:, None])


def grouped_in_torch(_: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        q, k[:, None].expand(-1, 3, -1, -1), v[:, None].expand(-1, 3, -1, -1), is_causal=True
    )


def normed(x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt()


def exact(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda w, *x: f(*x)


@dataclass(frozen=True)
class Row:
    """A program, its inputs, and the same in PyTorch over float64 (weights by name first)."""

    name: str
    program: Callable[..., Any]
    inputs: dict[str, Spec]
    torch: Callable[..., Any]
    skeletons: tuple[str, ...]


QKV = {name: spec(HEADS, N, 32) for name in "qkv"}
ROWS = [
    Row(
        "pointwise",
        lambda x: (x * 2 + 1).tanh() * x.sigmoid(),
        {"x": spec(N, IN)},
        exact(lambda x: (x * 2 + 1).tanh() * x.sigmoid()),
        ("simt",),
    ),
    Row(
        "spread",
        lambda x: (x.transpose(0, 1) + x.abs().max()).exp(),
        {"x": spec(N, N)},
        exact(lambda x: (x.T + x.abs().max()).exp()),
        ("simt",),
    ),
    Row(
        "softmax",
        lambda x: x.softmax(-1),
        {"x": spec(N, 67)},
        exact(lambda x: x.softmax(-1)),
        ("simt",),
    ),
    Row("norm", normed, {"x": spec(N, IN)}, exact(normed), ("simt",)),
    Row(
        "matmul",
        lambda x: x.matmul(UP.transpose(0, 1)),
        {"x": spec(N, IN)},
        lambda w, x: x @ w["w96x48"].T,
        ("panel",),
    ),
    Row(
        "deep",
        lambda x: x.matmul(DEEP.transpose(0, 1)) + 1,
        {"x": spec(N, 2100)},
        lambda w, x: x @ w["w40x2100"].T + 1,
        ("panel",),
    ),
    Row(
        "large",
        lambda x: x.matmul(LARGE.transpose(0, 1)) + 1,
        {"x": spec(N, 900)},
        lambda w, x: x @ w["w600x900"].T + 1,
        ("panel",),
    ),
    Row(
        "mlp",
        lambda x: F.gelu(x.matmul(UP.transpose(0, 1)) + BIAS).matmul(DOWN.transpose(0, 1)) + x,
        {"x": spec(N, IN)},
        lambda w, x: torch.nn.functional.gelu(x @ w["w96x48"].T + w["w96"]) @ w["w48x96"].T + x,
        ("panel", "panel"),
    ),
    Row(
        "chain",
        lambda x: F.gelu(x.matmul(UP.transpose(0, 1)) + BIAS).matmul(DOWN.transpose(0, 1)) + x,
        {"x": spec(M, IN)},
        lambda w, x: torch.nn.functional.gelu(x @ w["w96x48"].T + w["w96"]) @ w["w48x96"].T + x,
        ("panel",),
    ),
    Row(
        "inner_product",
        lambda a, b: a.matmul(b),
        {"a": spec(2, N, IN), "b": spec(2, IN, 21)},
        exact(lambda a, b: a @ b),
        ("panel",),
    ),
    Row("attention", attention, QKV, exact(attention), ("cascade",)),
    Row(
        "grouped_attention",
        grouped,
        {"q": spec(2, 3, N, 21), "k": spec(2, N, 21), "v": spec(2, N, 37)},
        grouped_in_torch,
        ("cascade",),
    ),
    Row(
        "convolution",
        lambda x: F.relu(F.conv2d(x, KERNEL, padding=1)),
        {"x": spec(2, 4, 9, 11)},
        lambda w, x: torch.relu(torch.nn.functional.conv2d(x, w["w8x4x3x3"], padding=1)),
        ("panel",),
    ),
    Row(
        "embedding",
        lambda ids: F.embedding(ids, TABLE).matmul(UP.transpose(0, 1)),
        {"ids": spec(N, dtype=i64, range=(0, 299))},
        lambda w, ids: w["w300x48"][ids] @ w["w96x48"].T,
        ("panel",),
    ),
    Row(
        "positions",
        lambda x: x + (lg.arange(300, dtype=f32) * 0.37).sin(),
        {"x": spec(300)},
        exact(lambda x: x + (torch.arange(300, dtype=torch.float64) * 0.37).sin()),
        ("simt",),
    ),
    Row(
        "pooled",
        lambda x, mask: (x * mask.to(f32)).sum(0) / mask.to(f32).sum(0),
        {"x": spec(N, IN), "mask": spec(N, 1, dtype=i64, range=(1, 1))},
        exact(lambda x, mask: (x * mask).sum(0) / mask.sum(0)),
        ("simt",),
    ),
]
BY_NAME = {r.name: r for r in ROWS}
MULTIPLIED = [  # in bf16
    "matmul",
    "chain",
    "grouped_attention",
    "attention",
    "deep",
    "large",
    "mlp",
    "embedding",
]


def graph_of(row: Row) -> Graph:
    names = {w: w.name for w in (UP, DOWN, BIAS, TABLE, KERNEL, DEEP, LARGE)}
    return traced(row.program, names, **row.inputs)


def lowered(graph: Graph, dtype: DType) -> LoweredModel:
    return together({"entry": graph}, dtype)


def together(graphs: Mapping[str, Graph], dtype: DType) -> LoweredModel:
    """One model of several programs, an entry each."""
    entries = list[tuple[str, Graph]]()
    for name, made in graphs.items():
        graph = verify(retype(made, dtype), "retype")
        for change in GRAPH_PASSES:
            graph = verify(change(graph), change.__name__)
        entries.append((name, graph))
    model = assemble(tuple(entries), CPU, dtype=dtype)
    for k in model.kernels:
        verify_region(k.region, k.name)
        verify_tile(k.program, k.name)
    return model


@cache
def lane(dtype: DType) -> FastLane:
    """All programs, whose panels are compiled once."""
    return fast_lane.load(together({r.name: graph_of(r) for r in ROWS}, dtype), "-O1")


@cache
def emulated(unit: str) -> FastLane:
    """The kernels for what multiplies bf16, emulated in plain C++, where what is undefined ends the run."""
    header = EMULATED[unit]
    over = (f"-D{unit}", "-include", str(header), f"-DEMULATED_{crc32(header.read_bytes())}")
    checked = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    model = together({name: graph_of(BY_NAME[name]) for name in MULTIPLIED}, bf16)
    return fast_lane.load(model, "-O1", (*over, *checked))


def arrays(graph: Graph, n: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(inputs, weights) in f32."""
    rng = np.random.default_rng(n)
    inputs: dict[str, np.ndarray] = {}
    for node in graph.inputs:
        tensor, shape = tensor_of(node), [int(e.evaluate({N: n, M: n})) for e in node.shape]
        if tensor.range is not None:
            lo, hi = tensor.range
            inputs[tensor.name] = rng.integers(lo, hi, shape, endpoint=True)
        else:
            inputs[tensor.name] = rng.normal(size=shape).astype(np.float32)
    weights = {
        tensor_of(w).name: (0.3 * rng.normal(size=[e.const for e in w.shape])).astype(np.float32)
        for w in graph.weights()
    }
    return inputs, weights


def agree(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    worst = np.abs(a - b).max() / np.abs(b).max()
    assert worst <= tolerance, f"off by {worst:.2e} of the scale"


@pytest.mark.slow
@HALVES
@pytest.mark.parametrize("name", BY_NAME)
def test_kernels_compute_what_the_interpreter_and_exact_arithmetic_say(
    name: str, dtype: DType
) -> None:
    graph = graph_of(BY_NAME[name])
    for n in (1, 13, 64):
        inputs, weights = arrays(graph, n)
        inputs = {k: rounded(x, dtype) for k, x in inputs.items()}
        loaded = lane(dtype)
        found = loaded.run(name, inputs, weights)["out"]
        assert found.dtype == np.dtype(dtype.numpy)
        means = run_entry(loaded.model, inputs, weights, entry=name, by_region=True)["out"]
        does = run_entry(loaded.model, inputs, weights, entry=name)["out"]
        agree(does, means, TO_INTERPRETER[dtype])
        agree(found, means, TO_INTERPRETER[dtype])
        held = {k: rounded(w, dtype) if w.ndim > 1 else w for k, w in weights.items()}
        doubles = [
            torch.tensor(x if x.dtype.kind == "i" else x.astype("f8")) for x in inputs.values()
        ]
        wanted = BY_NAME[name].torch(
            {k: torch.tensor(w.astype("f8")) for k, w in held.items()}, *doubles
        )
        agree(found, wanted.numpy(), TO_EXACT[dtype])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n == "large" else []) for n in MULTIPLIED],
)
@pytest.mark.parametrize("unit", EMULATED)
def test_what_multiplies_bf16_computes_the_same(name: str, unit: str) -> None:
    """But for the order in which it sums: every instruction set rounds the same operands."""
    graph = graph_of(BY_NAME[name])
    source = fast_lane.source(lowered(graph, bf16))
    assert "const Multiplier multiplier;" in source
    assert ("multiply_streamed(" in source) is (name == "large")
    for n in (1, 13, 64, 69):
        inputs, weights = arrays(graph, n)
        inputs = {k: rounded(x, bf16) for k, x in inputs.items()}
        found = emulated(unit).run(name, inputs, weights)["out"]
        wanted = lane(bf16).run(name, inputs, weights)["out"]
        agree(found, wanted, ULP)


@pytest.mark.parametrize("unit", [None, *EMULATED])
def test_what_is_not_finite_stays_in_its_row(unit: str | None) -> None:
    """Of a query; zeros stand behind the keys of a tile and behind their features, whatever was there before."""
    graph = graph_of(BY_NAME["attention"])
    inputs, weights = arrays(graph, 69)
    inputs = {k: rounded(x, bf16) for k, x in inputs.items()}
    loaded = emulated(unit) if unit else lane(bf16)
    clean = loaded.run("attention", inputs, weights)["out"]
    inputs["q"][1, 66, 31], inputs["q"][2, 0, 5] = np.nan, np.inf
    found = loaded.run("attention", inputs, weights)["out"]
    changed = np.zeros((HEADS, 69), bool)
    changed[1, 66] = changed[2, 0] = True
    assert np.all(np.isnan(found[changed].astype(np.float32)))
    assert found[~changed].tobytes() == clean[~changed].tobytes()


def test_products_of_attention_are_of_what_memory_holds() -> None:
    """Of bf16, where that is what queries, keys and values are all read from."""

    def elements(**held: DType) -> list[DType]:
        inputs = {name: spec(HEADS, N, 32, dtype=held[name]) for name in "qkv"}
        graph = traced(lambda q, k, v: attention(q.to(f32), k.to(f32), v.to(f32)), **inputs)
        (kernel,) = lowered(graph, f32).kernels
        return [s.element for s in kernel.program.statements() if isinstance(s, Mma)]

    assert elements(q=bf16, k=bf16, v=bf16) == [bf16, bf16]
    assert elements(q=f32, k=bf16, v=bf16) == [f32, f32]
    assert elements(q=bf16, k=bf16, v=f32) == [f32, f32]
    assert elements(q=f16, k=f16, v=f16) == [f32, f32]


@HALVES
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_every_skeleton_that_runs_f32_runs_16_bits(row: Row, dtype: DType) -> None:
    """And nothing in a loop over lanes goes lane by lane that did not before."""
    wide, narrow = lowered(graph_of(row), f32), lowered(graph_of(row), dtype)
    assert tuple(k.program.skeleton for k in wide.kernels) == row.skeletons
    assert tuple(k.program.skeleton for k in narrow.kernels) == row.skeletons
    texts = [fast_lane.source(m) for m in (wide, narrow)]
    for word in ("build_lanes", "pack_a_from", "pack_b_from"):
        assert texts[0].count(word) == texts[1].count(word), word


@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_a_mask_is_asked_of_tiles_and_then_of_vectors(dtype: DType) -> None:
    """Not of each score, also where several heads share keys."""
    text = fast_lane.source(lowered(graph_of(BY_NAME["grouped_attention"]), dtype))
    whole, rest = text.split("} else {")
    assert "mask_" not in whole[whole.index("if (k_end") :]
    assert "mask_affine" in rest
    assert "mask_lanes" not in rest


@HALVES
def test_memory_is_narrow_and_values_are_not(dtype: DType) -> None:
    model = lowered(graph_of(BY_NAME["mlp"]), dtype)
    (program,) = model.programs
    assert [p.dtype for p in (*program.inputs, *program.outputs)] == [dtype, dtype]
    assert {s.weight.name: s.weight.dtype for s in model.weights} == {
        "w96x48": dtype,
        "w96": f32,
        "w48x96": dtype,
    }
    assert [k.region.stores[0].dst.dtype for k in model.kernels] == [dtype, dtype]
    assert all(k.region.stores[0].value.dtype is f32 for k in model.kernels)


@HALVES
def test_statistics_stay_f32(dtype: DType) -> None:
    """Two outputs read the maximum, so it is stored; 16 bits of it would be an error of the whole row."""
    graph = traced(
        lambda x: {"a": x - x.amax(-1, keepdim=True), "b": x.amax(-1) * 2}, x=spec(N, 40)
    )
    temps = [k.region.stores[0].dst.dtype for k in lowered(graph, dtype).kernels]
    assert temps[0] is f32
    assert set(temps[1:]) == {dtype}


def places_of_least(y: Any) -> dict[str, Any]:
    least, at = y.min(0)
    return {"least": least, "at": at}


def running(y: Any) -> dict[str, Any]:
    greatest, at = y.cummax(0)
    return {"greatest": greatest, "at": at, "is_greatest": y == greatest.amax(0)}


def hits(y: Any) -> dict[str, Any]:
    greatest, least = y.amax(1, keepdim=True), y.amin(0)
    return {"greatest": greatest, "at": y == greatest, "zero": y - greatest >= 0, "low": y <= least}


@HALVES
@pytest.mark.parametrize("is_declared", [False, True], ids=["held", "declared"])
@pytest.mark.parametrize("of", [places_of_least, running, hits])
def test_what_is_computed_is_compared_with_its_extremes(
    of: Callable[..., Any], is_declared: bool, dtype: DType
) -> None:
    """As in f32: an extreme that were rounded on its way to another kernel would be none of the elements."""

    def graph(held: DType) -> Graph:
        return traced(lambda x: of(x * x * 0.37 + x / 3), x=spec(9, 40, dtype=held))

    model = lowered(graph(dtype), f32) if is_declared else lowered(graph(f32), dtype)
    x = np.round(np.random.default_rng(0).normal(size=(9, 40)) * 3, 1).astype(np.float32)
    x = rounded(x, dtype)
    found = fast_lane.load(model, "-O1").run("entry", {"x": x}, {})
    wide = fast_lane.load(lowered(graph(f32), f32), "-O1")
    wanted = wide.run("entry", {"x": x.astype(np.float32)}, {})
    for name, exact in wanted.items():
        held = rounded(exact, dtype) if exact.dtype == np.float32 else exact
        np.testing.assert_array_equal(found[name], held, err_msg=name)


@HALVES
def test_a_cast_of_the_user_rounds_in_the_middle_of_a_kernel(dtype: DType) -> None:
    graph = traced(lambda x: (x * 3).to(dtype).to(f32) - x * 3, x=spec(N, 40))
    model = lowered(graph, f32)
    text = fast_lane.source(model)
    assert f"round_{dtype}(" in text
    assert "build_lanes" not in text
    x = np.random.default_rng(0).normal(size=(13, 40)).astype(np.float32)
    tripled = x * np.float32(3)
    wanted = tripled.astype(dtype.numpy).astype(np.float32) - tripled
    found = fast_lane.load(model, "-O1").run("entry", {"x": x}, {})["out"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@HALVES
def test_a_model_declared_in_16_bits_is_the_same_program(dtype: DType) -> None:
    declared = {name: Spec(s.shape, dtype) for name, s in QKV.items()}
    one = lowered(traced(attention, **declared), f32)
    other = lowered(graph_of(BY_NAME["attention"]), dtype)
    assert fast_lane.source(one) == fast_lane.source(other)


def test_other_types_stay_as_they_are() -> None:
    graph = traced(
        lambda ids, mask, x: {"a": lg.where(mask, ids + 1, ids), "b": x * 2},
        ids=spec(N, dtype=i64),
        mask=spec(N, dtype=lg.boolean),
        x=spec(N, dtype=lg.f64),
    )
    assert retype(graph, bf16) is graph


def test_a_state_that_is_only_written_stays_f32() -> None:
    def run(x: lg.Tensor) -> lg.Tensor:
        state = lg.nn.State("s", (3,))
        state[...] = x * 2
        return x

    narrow = retype(traced(run, x=spec(3)), bf16)
    outputs, states = step(narrow, {"x": np.ones(3, bf16.numpy)}, {})
    assert outputs["out"].dtype == bf16.numpy
    assert states["s"].dtype == np.float32
    np.testing.assert_array_equal(states["s"], [2, 2, 2])


@pytest.mark.slow
@HALVES
def test_an_output_that_is_cast_to_f32_stays_f32(dtype: DType) -> None:
    """Last of all, movement apart: what was cast on the way is f32 in any case, and its output narrow."""
    graph = traced(
        lambda x, keys: {
            "sum": x.logsumexp(-1).to(f32),
            "moved": (x * 2).float().transpose(0, 1).reshape(40, 1, -1),
            "rounded": (x * 2).to(dtype).to(f32),
            "given": keys.float(),
            "counted": (x > 0).float(),
            "narrow": x * 2,
            "after": x.float() * 3,
            "like": (x * 4).type_as(x),
            "above": (x > 1).type_as(x),
            "added": lg.addmm(x.sum(0), x, x.new_ones(40, 40)),
            "copied": (x * 5).contiguous(),
            "drawn": lg.rand(4, generator=lg.Generator(7)),
            "normal": lg.randn_like(x, generator=lg.Generator(8)),
        },
        x=spec(N, 40),
        keys=spec(N, 8),
    )
    model = lowered(graph, dtype)
    wide = {"sum", "moved", "rounded", "given", "counted"}
    (program,) = model.programs
    assert {p.name for p in program.outputs if p.dtype is f32} == wide
    assert {p.dtype for p in program.outputs if p.name not in wide} == {dtype}
    inputs = {k: rounded(v, dtype) for k, v in arrays(graph, 13)[0].items()}
    found = fast_lane.load(model, "-O1").run("entry", inputs, {})
    x = torch.tensor(inputs["x"].astype("f8"))
    agree(found["sum"], x.logsumexp(-1).numpy(), 1e-6)
    np.testing.assert_array_equal(found["moved"], (x * 2).T.reshape(40, 1, -1).numpy())


@HALVES
@pytest.mark.parametrize("target", ["cuda:sm_80", "metal"])
def test_what_memory_has_in_f32_is_multiplied_so(dtype: DType, target: str) -> None:
    """A GPU multiplies 16 bits faster, but f16 has no number above 65504."""
    graph = traced(lambda x, y: x.float() @ y, x=spec(N, 32, dtype=dtype), y=spec(32, 48))
    x = np.random.default_rng(5).normal(size=(7, 32)).astype(dtype.numpy)
    y = np.random.default_rng(6).normal(size=(32, 48)).astype("f4") * np.float32(1e6)
    whole = Traced("entry", "0", (("entry", graph),), ())
    model = lower_model(whole, {}, target=parse_target(target)).lowered
    found = run_entry(model, {"x": x, "y": y}, {})["out"]
    agree(found, x.astype("f8") @ y.astype("f8"), 1e-6)


def test_a_cast_to_the_same_type_costs_nothing() -> None:
    """Without another type no kernel knows of it, be it of what is computed, of an input or of a state."""

    def program(cast: Callable[[lg.Tensor], lg.Tensor]) -> Callable[[lg.Tensor], lg.Tensor]:
        def run(x: lg.Tensor) -> lg.Tensor:
            state = lg.nn.State("s", (64, 40))
            return cast(cast(x) @ cast(state).transpose(0, 1)) + cast(x).sum(-1, keepdim=True)

        return run

    plain = lowered(traced(program(lambda x: x), x=spec(N, 40)), f32)
    same = lowered(traced(program(lambda x: x.float()), x=spec(N, 40)), f32)
    assert fast_lane.source(same) == fast_lane.source(plain)


def test_nothing_changes_without_and_nothing_more_with_a_second_run() -> None:
    graph = graph_of(BY_NAME["mlp"])
    assert retype(graph, f32) is graph
    once = retype(graph, bf16)
    assert retype(once, bf16) is once
    assert {n.dtype for n in once.nodes() if n.op in (Op.ADD, Op.MUL, Op.SUM_REDUCE)} == {f32}
