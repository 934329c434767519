"""Tile programs: what they compute, in words, and the rules they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import nn
from lumigen.dtype import bf16, f32, i32, i64
from lumigen.errors import VerifyFailed
from lumigen.frontend import functional
from lumigen.frontend.spec import spec
from lumigen.graph import Graph
from lumigen.index import Axis, Dim, Ix, ix, lookup
from lumigen.interp import tile
from lumigen.interp.graph import evaluate
from lumigen.interp.region import evaluate as evaluate_region
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.ops import Op
from lumigen.printer.tile import show
from lumigen.program import Port, Stored
from lumigen.region import Buffer, Expr, Local, Monoid, Role, const, local, prim, read, reduce
from lumigen.targets.cpu.device import CPU
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Bind,
    Finish,
    For,
    Let,
    Mma,
    Operand,
    Pack,
    Stmt,
    StoreTile,
    TileProgram,
    When,
)
from lumigen.verify.tile import verify

B = Dim("batch", 1, 5)
T = Dim("length", 1, 37)
EVEN = Dim("even", 2, 40, multiple_of=2)
LONG = Dim("long", 3, 400)


class Mlp(nn.Module):
    """Two weights, with nothing but a map between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 70)
        self.second = nn.Linear(70, 24)

    def forward(self, x: Any) -> Any:
        return self.second(functional.gelu(self.first(x))) + x


def of_module(net: Any, x: Any) -> Graph:
    model = lg.Model("net", net, version="1")

    @model.entry(x=x)
    def run(x: Any) -> Any:
        return net(x)

    return model.trace().entries[0][1]


PROGRAMS: dict[str, Callable[[], Graph]] = {
    "softmax": lambda: traced(lambda x: functional.softmax(x, -1), x=spec(B, T)),
    "softmax_over_columns": lambda: traced(lambda x: functional.softmax(x, 1), x=spec(B, 9, T)),
    "softmax_over_rows": lambda: traced(lambda x: functional.softmax(x, 0), x=spec(LONG, 21)),
    "group_norm": lambda: traced(
        lambda x, w, b: functional.group_norm(x, 2, w, b),
        x=spec(B, 6, 3, T), w=spec(6), b=spec(6),
    ),
    "reduced_for_a_map": lambda: traced(
        lambda x, w: x * functional.softmax(w, 0).unsqueeze(-1), x=spec(B, 7, LONG), w=spec(7)
    ),
    "grouped_conv2d": lambda: traced(
        lambda x, w: functional.conv2d(x, w, padding=1, groups=2),
        x=spec(B, 6, 5, 7), w=spec(8, 3, 3, 3),
    ),
    "layer_norm": lambda: traced(
        lambda x, w, b: functional.layer_norm(x, (33,), w, b),
        x=spec(B, T, 33), w=spec(33), b=spec(33),
    ),
    "linear": lambda: traced(
        lambda x, w, b, r: functional.relu(functional.linear(x, w, b)) + r,
        x=spec(B, T, 20), w=spec(70, 20), b=spec(70), r=spec(B, T, 70),
    ),
    "deep": lambda: of_module(nn.Linear(450, 530), spec(T, 450)),
    "deep_of_any_length": lambda: traced(
        lambda x, y: (x.permute(0, 2, 1) @ y) * 2, x=spec(B, LONG, 5), y=spec(B, LONG, 18)
    ),
    "batched": lambda: traced(lambda x, y: x @ y, x=spec(B, T, 8), y=spec(B, 8, EVEN)),
    "transposed": lambda: traced(
        lambda x, y: (x.permute(2, 0, 1) @ y.permute(1, 0)) * 0.5, x=spec(T, 9, B), y=spec(17, 9)
    ),
    "gather": lambda: traced(
        functional.embedding, input=spec(B, T, dtype=i64, range=(0, 9)), weight=spec(10, 6)
    ),
    "conv2d": lambda: traced(
        lambda x, w, b: functional.relu(functional.conv2d(x, w, b, stride=2, padding=1)),
        x=spec(B, 3, 9, 7), w=spec(4, 3, 3, 3), b=spec(4),
    ),
    "max_pool": lambda: traced(
        lambda x: functional.max_pool2d(x, 3, stride=2, padding=1), x=spec(B, 2, 7, 9)
    ),
    "integers": lambda: traced(
        lambda x: x.sum(1).to(f32) * 0.5, x=spec(B, T, 21, dtype=i32, range=(-9, 9))
    ),
    "attention": lambda: traced(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        q=spec(B, 2, T, 8), k=spec(B, 2, T, 8), v=spec(B, 2, T, 8),
    ),
    "masked_attention": lambda: traced(
        lambda q, k, v, m: functional.scaled_dot_product_attention(q, k, v, attn_mask=m),
        q=spec(B, 4, T, 16), k=spec(B, 4, EVEN, 16), v=spec(B, 4, EVEN, 16), m=spec(T, EVEN),
    ),
    "mlp": lambda: of_module(Mlp(), spec(B, T, 24)),
}  # fmt: skip

_LOWERED: dict[str, tuple[Graph, LoweredModel]] = {}


def lowered(name: str) -> tuple[Graph, LoweredModel]:
    if name not in _LOWERED:
        graph = PROGRAMS[name]()
        _LOWERED[name] = graph, assemble(((name, graph),), CPU)
    return _LOWERED[name]


def arrays(ports: Iterable[Any], dims: dict[Dim, int], rng: np.random.Generator) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for p in ports:
        shape = [int(e.evaluate(dims)) for e in p.shape]
        lo, hi = p.range or (-7, 7)
        whole = rng.integers(lo, hi + 1, shape).astype(p.dtype.numpy)
        out[p.name] = rng.normal(size=shape).astype(p.dtype.numpy) if p.dtype.is_float else whole
    return out


def weight_port(stored: Stored) -> Port:
    return Port(stored.weight.name, tuple(map(ix, stored.weight.shape)), stored.weight.dtype)


def close(got: Any, want: Any) -> None:
    scale = np.abs(want[np.isfinite(want)]).max(initial=1e-9)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6 * scale)


POINTS = {"least": (1, 1, 2, 3), "odd": (3, 7, 14, 385), "most": (5, 37, 40, 400)}


def data(model: LoweredModel, point: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Inputs and weights of an entry."""
    dims = dict(zip((B, T, EVEN, LONG), POINTS[point], strict=True))
    weights = [weight_port(w) for w in model.weights]
    return arrays(model.programs[0].inputs, dims, rng), arrays(weights, {}, rng)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_its_regions_and_its_tile_programs_agree(
    name: str, point: str, rng: np.random.Generator
) -> None:
    graph, model = lowered(name)
    inputs, weights = data(model, point, rng)
    want = evaluate(graph, inputs, weights)
    got = run_entry(model, inputs, weights)
    for key, value in want.items():
        close(got[key], value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tasks_run_in_any_order(name: str, rng: np.random.Generator) -> None:
    """In the arena too, where a result may lie in the memory of an operand."""
    graph, model = lowered(name)
    inputs, weights = data(model, "odd", rng)
    got = run_entry(model, inputs, weights, lambda n: reversed(range(n)))
    for key, value in evaluate(graph, inputs, weights).items():
        close(got[key], value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tile_programs_do_what_their_regions_mean(name: str, rng: np.random.Generator) -> None:
    _, model = lowered(name)
    dims = {B: 2, T: 19, EVEN: 6, LONG: 390}
    for kernel in model.kernels:
        dst = kernel.region.stores[0].dst
        ports = [Port(b.name, b.dims, b.dtype, b.range) for b in kernel.program.args if b != dst]
        buffers = arrays(ports, dims, rng)
        want = evaluate_region(kernel.region, buffers, dims)
        got = tile.run(kernel.program, buffers, dims)
        close(got[dst.name], want[dst.name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_tile_programs_keep_the_rules(name: str) -> None:
    for kernel in lowered(name)[1].kernels:
        assert verify(kernel.program) is kernel.program


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_statement_has_a_line_of_text(name: str) -> None:
    for kernel in lowered(name)[1].kernels:
        text = show(kernel.program)
        declared = len(kernel.program.args + kernel.program.scratch + kernel.program.dims)
        declared += len(kernel.program.numbers) + len(kernel.program.overwrites)
        count = len(list(kernel.program.statements()))
        count += sum(isinstance(s, When) for s in kernel.program.statements())  # "otherwise"
        assert len(text.splitlines()) == 1 + declared + count


def test_the_text_of_a_softmax(golden: Callable[[str, str], None]) -> None:
    golden("tile/softmax.txt", show(lowered("softmax")[1].kernels[0].program))


def test_what_a_row_uses_twice_is_computed_once_per_row() -> None:
    """Written out wherever it is used, it would be of 2**30 terms."""

    def f(x: Any) -> Any:
        s = x.sum(1, keepdim=True)
        for _ in range(30):
            s = s.sin() * s
        return x * s

    (kernel,) = assemble((("entry", traced(f, x=spec(B, LONG))),), CPU).kernels
    text = show(kernel.program)
    assert text.count("sin") == 30
    assert len(text.splitlines()) < 100


# ---- by hand ----

X, OUT = (Buffer(n, r, (ix(6), ix(9)), f32) for n, r in (("x", Role.TEMP), ("out", Role.OUTPUT)))
ROWS = Buffer("rows", Role.OUTPUT, (ix(6),), f32)
TILE = Buffer("tile", Role.SCRATCH, (ix(6), ix(9)), f32)
TASK, I, J = Axis("task", ix(6)), Axis("i", ix(6)), Axis("j", ix(9))  # noqa: E741


def program(
    *body: Stmt, args: tuple[Buffer, ...] = (X, OUT), scratch: tuple[Buffer, ...] = ()
) -> Any:
    return TileProgram("simt", args, (), TASK, ix(6), scratch, body)


def number(value: float) -> Expr:
    return const(value, f32)


def name_of(stem: str, *axes: Axis) -> Local:
    made = local(stem, frozenset(axes), f32)
    assert isinstance(made, Local)
    return made


def add(a: Expr, b: Expr) -> Expr:
    return prim(Op.ADD, (a, b), f32)


HERE = (ix(TASK), ix(J))
V, SUM, TOTAL = name_of("v0", TASK), name_of("sum0", TASK, J), name_of("r0", TASK)
FIRST = Let(V, read(X, (ix(TASK), ix(0))), None)
COPY = StoreTile(OUT, HERE, add(read(X, HERE), V), J)
LANES = For(J, ix(0), ix(9), True, (COPY,))
ROW_SUM = (
    Accumulator(SUM, Monoid.SUM, J),
    For(J, ix(0), ix(9), True, (Accumulate(SUM, Monoid.SUM, read(X, HERE), J),)),
    Finish(TOTAL, SUM, Monoid.SUM),
    StoreTile(ROWS, (ix(TASK),), TOTAL, None),
)
PACK_X = Pack(TILE, ix(0), Operand(X, ix(0), ix(9), ix(1), None), I, ix(0), ix(6), J, ix(0), ix(9))
GRAM = Mma(
    OUT, ix(0), ix(9), TILE, ix(0), Operand(X, ix(0), ix(1), ix(9), None), *map(ix, (6, 9, 9, 0))
)
COLUMNS_APART = Operand(X, ix(0), ix(9), ix(1), None)  # each contiguous


def test_a_row_and_its_sum(rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 9)).astype(np.float32)
    out = tile.run(verify(program(FIRST, LANES)), {"x": x}, {})["out"]
    np.testing.assert_allclose(out, x + x[:, :1], rtol=1e-6)
    sums = tile.run(verify(program(*ROW_SUM, args=(X, ROWS))), {"x": x}, {})["rows"]
    np.testing.assert_allclose(sums, x.sum(1), rtol=1e-6, atol=1e-6)


def test_arguments_are_not_changed(rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 9)).astype(np.float32)
    before = x.copy()
    tile.run(program(FIRST, LANES), {"x": x, "out": x}, {})
    np.testing.assert_array_equal(x, before)


def test_arguments_may_share_their_memory(rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 9)).astype(np.float32)
    memory = x.reshape(-1).copy()
    tile.run_in(program(FIRST, LANES), {"x": memory, "out": memory}, {}, 6)
    np.testing.assert_allclose(memory.reshape(6, 9), x + x[:, :1], rtol=1e-6)


def test_an_element_outside_is_an_error() -> None:
    beside = replace(COPY, value=read(X, (ix(TASK), ix(J) + 1)))
    with pytest.raises(IndexError, match="x\\[task, j \\+ 1\\]"):
        tile.run(program(replace(LANES, body=(beside,))), {}, {})


def test_scratch_that_was_not_written_shows() -> None:
    copy = replace(COPY, value=read(TILE, HERE))
    out = tile.run(program(replace(LANES, body=(copy,)), scratch=(TILE,)), {}, {})["out"]
    assert np.isnan(out).all()


def test_a_packed_block_is_gone_once_it_is_overwritten() -> None:
    over = replace(PACK_X, at=ix(9), row_hi=ix(1))
    with pytest.raises(KeyError):
        tile.run(program(PACK_X, over, GRAM, scratch=(TILE,)), {}, {})


OTHER = Axis("other", ix(9))
STRANGER = Buffer("stranger", Role.TEMP, (ix(9),), f32)
WHOLE = Buffer("whole", Role.OUTPUT, (ix(9),), i64)
BROKEN: dict[str, tuple[Any, str]] = {
    "an axis without a value": (program(FIRST, replace(COPY, lanes=None)), "j has no value here"),
    "an axis with two values": (
        program(FIRST, For(J, ix(0), ix(9), True, (LANES,))), "For j: the axis has a value already"
    ),
    "a bound axis used above": (
        program(For(I, ix(0), ix(OTHER), False, (Bind(OTHER, ix(3)),)), FIRST, LANES),
        "other has no value here",
    ),
    "a local without a value": (program(LANES), "v0 has no value here"),
    "a local of an inner block": (
        program(For(I, ix(0), ix(6), False, (FIRST,)), LANES), "v0 has no value here"
    ),
    "a local defined twice": (program(FIRST, FIRST, LANES), "v0: defined twice"),
    "lanes of integers": (
        program(
            replace(LANES, body=(StoreTile(WHOLE, (ix(J),), const(1, i64), J),)), args=(WHOLE,)
        ),
        "lanes of i64",
    ),
    "lanes that are stored once": (
        program(FIRST, replace(LANES, body=(replace(COPY, lanes=None),))),
        "j differs between the lanes",
    ),
    "lanes that bound a loop": (
        program(FIRST, replace(LANES, body=(For(I, ix(0), ix(J), False, (COPY,)),))),
        "j differs between the lanes",
    ),
    "lanes in steps": (program(FIRST, replace(LANES, step=2)), "a step of 2"),
    "a store outside": (
        program(FIRST, replace(LANES, body=(replace(COPY, at=(ix(TASK), ix(J) + 9)),))),
        "it is outside",
    ),
    "a loop past its axis": (
        program(FIRST, replace(LANES, hi=ix(18), lo=ix(9))),
        "9 .. 17 is outside of its extent, 9",
    ),
    "a read outside": (
        program(replace(FIRST, value=read(X, (ix(TASK), ix(-1)))), LANES), "x is read outside"
    ),
    "a missing argument": (program(FIRST, LANES, args=(OUT,)), "x is no argument and no scratch"),
    "an argument for nothing": (
        program(FIRST, LANES, args=(X, STRANGER, OUT)), "stranger is declared and not used"
    ),
    "a reduction inside": (
        program(FIRST, replace(LANES, body=(
            replace(COPY, value=add(V, reduce(Monoid.SUM, (J,), read(X, HERE), f32))),
        ))),
        "Reduce is no value of one point",
    ),
    "a finished accumulator without lanes": (
        program(FIRST, Finish(TOTAL, V, Monoid.SUM), args=(X, ROWS)), "v0 has no lanes to reduce"
    ),
    "another monoid": (
        program(replace(ROW_SUM[0], monoid=Monoid.MAX), *ROW_SUM[1:], args=(X, ROWS)),
        "made for max",
    ),
    "scratch read too early": (
        program(
            FIRST,
            replace(LANES, body=(replace(COPY, value=add(V, read(TILE, HERE))),)),
            scratch=(TILE,),
        ),
        "tile is read before it is written",
    ),
    "rows that are not packed": (program(GRAM, scratch=(TILE,)), "tile is not packed yet"),
    "a row that is nowhere": (
        program(replace(GRAM, rows=ix(1)), scratch=(TILE,)),
        "tile is read before it is written",
    ),
    "columns apart for several rows": (
        program(PACK_X, replace(GRAM, b=COLUMNS_APART), scratch=(TILE,)),
        "columns 9 apart, with no panels",
    ),
    "columns apart that are added to": (
        program(
            PACK_X, replace(GRAM, b=COLUMNS_APART, rows=ix(1), accumulate=ix(1)), scratch=(TILE,)
        ),
        "columns 9 apart, with no panels",
    ),
    "rows of another type": (
        program(replace(PACK_X, element=bf16), GRAM, scratch=(TILE,)),
        "tile was packed as bf16 and is multiplied as f32",
    ),
    "pairs of another type": (
        program(PACK_X, replace(GRAM, b=replace(GRAM.b, panels=True, side=2)), scratch=(TILE,)),
        "pairs that are multiplied as f32",
    ),
    "rows that do not fit": (
        program(replace(PACK_X, at=ix(1)), GRAM, scratch=(TILE,)), "tile has 54 elements, not 55"
    ),
    "columns apart": (
        program(PACK_X, replace(GRAM, b=Operand(X, ix(0), ix(9), ix(1), None)), scratch=(TILE,)),
        "columns 9 apart",
    ),
    "a dim that is not handed in": (
        program(FIRST, replace(LANES, hi=ix(B))), "the dim batch is not handed in"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_program_is_refused(what: str) -> None:
    wrong, message = BROKEN[what]
    with pytest.raises(VerifyFailed) as failed:
        verify(wrong)
    assert message in str(failed.value)


def test_a_lookup_counts_as_a_use() -> None:
    ids = Buffer("ids", Role.INPUT, (ix(6),), i64, (0, 5))
    row: Ix = lookup(ids, (ix(TASK),), 0, 5)
    gathered = replace(COPY, value=read(X, (row, ix(J))))
    good = program(replace(LANES, body=(gathered,)), args=(ids, X, OUT))
    assert verify(good) is good
    with pytest.raises(VerifyFailed, match="ids is no argument"):
        verify(replace(good, args=(X, OUT)))
