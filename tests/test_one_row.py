"""Products of one row: a vector times weights, from the panels that products of many rows read."""

from __future__ import annotations

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.interp.graph import step
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.pipeline import lower_model
from lumigen.printer.tile import show
from lumigen.program import Program, WeightArg
from lumigen.target import parse_target
from lumigen.targets.cpu.device import CPU as DEVICE
from lumigen.targets.cpu.row import CPU
from lumigen.tile import Mma, Pack, PackColumns

K, INNER, OUT = 37, 50, 21
ROWS = lg.Dim("rows", 1, 9)


class Block(lg.nn.Module):
    """A norm, two products side by side, one behind them, and a value that sees a product at several places."""

    def __init__(self) -> None:
        self.norm = lg.nn.RMSNorm(K, eps=1e-5)
        self.gate = lg.nn.Linear(K, INNER, bias=False)
        self.up = lg.nn.Linear(K, INNER)
        self.down = lg.nn.Linear(INNER, OUT + 1, bias=False)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        x = self.norm(x)
        y = self.down(self.gate(x).sigmoid() * self.up(x))
        first, second = y.chunk(2, -1)
        return lg.cat([first - second, first * second], -1)


def block() -> lg.Model:
    net = Block()
    model = lg.Model("block", net)

    @model.entry(x=lg.spec(ROWS, K))
    def many(x):
        return net(x)

    @model.entry(x=lg.spec(1, K))
    def one(x):
        return net(x)

    return model


def lowered(model: lg.Model, dtype: lg.DType = lg.f32, target: str = "cpu") -> LoweredModel:
    row = CPU if target == "cpu" else parse_target(target)
    return lower_model(model.trace(), {}, target=row, dtype=dtype).lowered


def read_by(program: Program) -> set[str]:
    """The weights of matrices, in their layouts, that an entry reads."""
    launches = program.launches
    found = {a.stored for x in launches for a in x.arguments if isinstance(a, WeightArg)}
    return {name for name in found if "norm" not in name and "bias" not in name}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16])
def test_one_row_and_many_share_the_packed_weights(dtype: lg.DType):
    model = lowered(block(), dtype)
    many, one = model.programs
    assert read_by(one) == read_by(many)
    assert all(name.endswith("_panels") for name in read_by(one))
    assert len(model.weights) == len({s.weight.name for s in model.weights})  # each stored once


def test_one_row_of_bf16_is_multiplied_by_vectors_and_many_by_a_matrix_unit():
    """Of the same weights in pairs; floats hold the row as it is."""
    model = lowered(block(), lg.bf16)
    kernels = {k.name: k.program for k in model.kernels}
    many, one = (
        [s for x in p.launches for s in kernels[x.kernel].statements() if isinstance(s, Mma)]
        for p in model.programs
    )
    assert all(s.b.side == 2 for s in (*many, *one))
    assert {s.element for s in one} == {lg.f32}
    assert {s.element for s in many} == {lg.bf16}
    source = fast_lane.source(model)
    assert source.count("multiply_one(") == 3


def test_what_is_done_to_the_row_is_done_once():
    """Each weight is read by one launch: gate and up by the same one, which has the norm too."""
    model = lowered(block())
    skeletons = {k.name: k.program.skeleton for k in model.kernels}
    launches = next(p for p in model.programs if p.entry == "one").launches
    reading = [x for x in launches if any("_panels" in str(a) for a in x.arguments)]
    assert [skeletons[x.kernel] for x in reading] == ["panel"] * 2
    assert {skeletons[x.kernel] for x in launches if x not in reading} == {"simt"}


def test_devices_without_such_a_skeleton_keep_vector_loops():
    model = lowered(block(), target="cuda:sm_90")
    (one,) = (p for p in model.programs if p.entry == "one")
    skeletons = {k.name: k.program.skeleton for k in model.kernels}
    assert {skeletons[x.kernel] for x in one.launches} == {"simt"}


def test_what_would_have_to_be_packed_in_each_run_keeps_vector_loops():
    model = lg.Model("two_inputs", lg.nn.Identity())

    @model.entry(x=lg.spec(K), w=lg.spec(OUT, K))
    def product(x, w):
        return w @ x

    assert [k.program.skeleton for k in lowered(model).kernels] == ["simt"]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(lg.f32, 1e-5), (lg.bf16, 3e-2)])
def test_numbers_are_right(dtype: lg.DType, tolerance: float, rng: np.random.Generator):
    model = lowered(block(), dtype)
    shapes = {s.weight.name: s.weight.shape for s in model.weights}
    arrays = {n: rng.normal(size=s).astype(np.float32) / 3 for n, s in shapes.items()}
    held = {s.weight.name: s.weight.dtype.numpy for s in model.weights}
    arrays = {n: a.astype(held[n]) for n, a in arrays.items()}
    x = rng.normal(size=(1, K)).astype(dtype.numpy)
    w = {n: a.astype(np.float64) for n, a in arrays.items()}
    row = x.astype(np.float64)
    row = row / np.sqrt((row**2).mean(-1, keepdims=True) + 1e-5) * w["norm.weight"]
    gate, up = row @ w["gate.weight"].T, row @ w["up.weight"].T + w["up.bias"]
    y = (up / (1 + np.exp(-gate))) @ w["down.weight"].T
    first, second = np.split(y, 2, -1)
    expected = np.concatenate([first - second, first * second], -1)
    compiled = fast_lane.load(model, "-O1")
    for found in (
        run_entry(model, {"x": x}, arrays, entry="one")["out"],
        compiled.run("one", {"x": x}, arrays)["out"],
        compiled.run("many", {"x": x}, arrays)["out"],
    ):
        np.testing.assert_allclose(
            found.astype(np.float64), expected, rtol=tolerance, atol=tolerance
        )


HEADS, LENGTH, WIDTH = 3, 600, 24  # more than two tiles of keys, and rows that end within a vector


def attention(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, pos: lg.Tensor, back: int) -> lg.Tensor:
    """One query for each head, which has keys of its own, of which it sees the last `back`."""
    keys = lg.nn.State("keys", (HEADS, LENGTH, WIDTH), q.dtype)
    values = lg.nn.State("values", (HEADS, LENGTH, WIDTH), q.dtype)
    keys[:, pos : pos + 1] = k
    values[:, pos : pos + 1] = v
    behind = pos - lg.arange(LENGTH)
    seen = (behind >= 0) & (behind < back)
    scores = (q @ keys.transpose(-1, -2)).float() / 5
    return scores.masked_fill(~seen, float("-inf")).softmax(-1).to(q.dtype) @ values


@pytest.mark.slow
@pytest.mark.parametrize("back", [LENGTH, 270])
def test_attention_of_one_query_runs_along_memory(back: int, rng: np.random.Generator):
    """One kernel, whose loop ends with the position, so that no mask is left; no matrix is packed."""
    row = lg.spec(HEADS, 1, WIDTH)
    spec = {"q": row, "k": row, "v": row, "pos": lg.spec(dtype=lg.i64, range=(0, LENGTH - 1))}
    graph = traced(lambda q, k, v, pos: attention(q, k, v, pos, back), None, **spec)
    for change in GRAPH_PASSES:
        graph = change(graph)
    model = assemble((("entry", graph),), DEVICE)
    (fold,) = (k.program for k in model.kernels if k.program.skeleton == "cascade")
    found = list(fold.statements())
    assert [s.row_hi - s.row_lo for s in found if isinstance(s, Pack)] == [1]
    assert not [s for s in found if isinstance(s, PackColumns)]
    assert [s.rows for s in found if isinstance(s, Mma)] == [1, 1]
    assert ">= 0 else" not in show(fold)
    compiled = fast_lane.load(model, "-O1")
    for pos in (0, 5, 255, 256, 512, LENGTH - 1):
        given = {name: rng.standard_normal((HEADS, 1, WIDTH)).astype(np.float32) for name in "qkv"}
        given["pos"] = np.array(pos)
        caches = {
            name: (10 * rng.standard_normal((HEADS, LENGTH, WIDTH))).astype(np.float32)
            for name in ("keys", "values")
        }
        expected, _ = step(graph, given, {}, caches)
        for cache in caches.values():
            cache[:, pos + 1 :] = np.nan  # what is behind the position is not read
        for found in (
            run_entry(model, given, {}, states={n: c.copy() for n, c in caches.items()}),
            compiled.run("entry", given, {}, {n: c.copy() for n, c in caches.items()}),
        ):
            np.testing.assert_allclose(found["out"], expected["out"], rtol=2e-5, atol=2e-5)


class Normed(lg.nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        self.norm, self.up = lg.nn.RMSNorm(inner), lg.nn.Linear(inner, outer, bias=False)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return self.up(self.norm(x))


@pytest.mark.parametrize(("outer", "is_stored"), [(2048, True), (256, False)])
def test_many_sums_of_one_row_read_it_normalised(outer: int, is_stored: bool) -> None:
    """The launch that multiplies by the matrix reads the norm's weight where it has little to add up."""
    net = Normed(2048, outer).to(lg.bf16)
    model = lg.Model("normed", net)

    @model.entry(x=lg.spec(1, 2048, dtype=lg.bf16))
    def one(x):
        return net(x)

    (program,) = lowered(model, lg.bf16, "cuda:sm_90a").programs
    reads = [{a.stored for a in x.arguments if isinstance(a, WeightArg)} for x in program.launches]
    (product,) = (r for r in reads if "w_up_weight" in r)
    assert ("w_norm_weight" not in product) is is_stored
    assert {"w_norm_weight", "w_up_weight"} == set.union(*reads)
