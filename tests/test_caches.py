"""Rings and pages: what attention over them gives, what a step writes and reads, on each device and compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from small_programs import agree
from test_cuda_kernels import compile_for
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.errors import BadArgument
from lumigen.graph import Graph
from lumigen.index import Ix, Lookup, MinMax
from lumigen.interp.graph import step
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.program import SlotArg
from lumigen.target import TARGETS
from lumigen.tile import For, Stream

Array = np.ndarray

GROUPS, SHARED, WIDTH = 2, 2, 8
WINDOW, CHUNK = 9, 4
ROWS = WINDOW + CHUNK - 1
LENGTH = 40  # of a text
PAGES, SIZE, TABLE = 12, 4, 5
N = lg.Dim("n", 1, CHUNK, typical=2)
counts = pytest.mark.parametrize("n", [1, N], ids=["one row", "a chunk"])


def attend(q: lg.Tensor, keys: lg.Tensor, values: lg.Tensor, seen: lg.Tensor) -> lg.Tensor:
    scores = (q @ keys.unsqueeze(1).transpose(-1, -2)).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ values.unsqueeze(1)


def ring(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
    keys = nn.RingCache("keys", (GROUPS, ROWS, WIDTH), q.dtype, window=WINDOW)
    values = nn.RingCache("values", (GROUPS, ROWS, WIDTH), q.dtype, window=WINDOW)
    keys.write(k, pos)
    values.write(v, pos)
    return attend(q, keys, values, keys.seen(pos, q.shape[2]))


def paged(q: lg.Tensor, k: lg.Tensor, v: lg.Tensor, pos: lg.Tensor, table: lg.Tensor) -> lg.Tensor:
    keys = nn.PagedCache("keys", (PAGES, SIZE, GROUPS, WIDTH), q.dtype)
    values = nn.PagedCache("values", (PAGES, SIZE, GROUPS, WIDTH), q.dtype)
    keys.write(k.transpose(0, 1), pos, table)
    values.write(v.transpose(0, 1), pos, table)
    seen = lg.arange(TABLE * SIZE) <= lg.arange(q.shape[2]).unsqueeze(-1) + pos
    rows = (c.read(table).transpose(0, 1) for c in (keys, values))
    return attend(q, *rows, seen)


def inputs(function: Callable[..., Any], n: Any, dtype: lg.DType = lg.f32) -> dict[str, Any]:
    kv = lg.spec(GROUPS, n, WIDTH, dtype=dtype)
    length = LENGTH if function is ring else TABLE * SIZE
    out: dict[str, Any] = {
        "q": lg.spec(GROUPS, SHARED, n, WIDTH, dtype=dtype),
        "k": kv,
        "v": kv,
        "pos": lg.spec(dtype=lg.i64, range=(0, length - 1)),
    }
    if function is paged:
        out["table"] = lg.spec(TABLE, dtype=lg.i32, range=(0, PAGES - 1))
    return out


def entry(function: Callable[..., Any], n: Any, dtype: lg.DType = lg.f32) -> Graph:
    return traced(function, None, **inputs(function, n, dtype))


def lowered(graph: Graph, device: str = "cpu") -> LoweredModel:
    for change in GRAPH_PASSES:
        graph = change(graph)
    return assemble((("entry", graph),), device=TARGETS[device].device)


class Text:
    """Random queries, keys and values of a text, and attention over all of it at once in float64."""

    def __init__(self, seed: int, length: int, window: int, dtype: lg.DType) -> None:
        rng = np.random.default_rng(seed)
        shapes = ((GROUPS, SHARED, length, WIDTH), *((GROUPS, length, WIDTH),) * 2)
        self.q, self.k, self.v = (rng.standard_normal(s).astype(dtype.numpy) for s in shapes)
        q, k, v = (a.astype(np.float64) for a in (self.q, self.k, self.v))
        behind = np.arange(length)[:, None] - np.arange(length)
        scores = q @ k[:, None].swapaxes(-1, -2)
        scores = np.where((behind >= 0) & (behind < window), scores, -np.inf)
        odds = np.exp(scores - scores.max(-1, keepdims=True))
        self.expected = odds / odds.sum(-1, keepdims=True) @ v[:, None]

    def given(self, start: int, stop: int) -> dict[str, Array]:
        part = {"q": self.q[:, :, start:stop], "k": self.k[:, start:stop]}
        part |= {"v": self.v[:, start:stop], "pos": np.array(start)}
        return {name: np.array(a, order="C") for name, a in part.items()}


def chunks(length: int) -> list[tuple[int, int]]:
    """All lengths of chunks, so that each begins, ends and goes over every end of a ring or a page."""
    out = [(0, 0)]
    for size in (*range(1, CHUNK + 1), *range(CHUNK, 0, -1)) * length:
        out.append((out[-1][1], min(out[-1][1] + size, length)))
    return [(a, b) for a, b in out if b > a]


Run = Callable[[dict[str, Array], dict[str, Array]], Array]


def check_ring(run: Run, dtype: lg.DType, n: Any) -> None:
    text = Text(1, LENGTH, WINDOW, dtype)
    shape = (GROUPS, ROWS, WIDTH)
    states = {name: np.full(shape, 77.0, dtype.numpy) for name in ("keys", "values")}
    for start, stop in chunks(LENGTH) if n is N else ((i, i + 1) for i in range(LENGTH)):
        found = run(text.given(start, stop), states)
        agree(found, text.expected[:, :, start:stop].astype(dtype.numpy), f"ring, {start}:{stop}")
    for name, rows in (("keys", text.k), ("values", text.v)):
        at = np.arange(LENGTH - ROWS, LENGTH)
        np.testing.assert_array_equal(states[name][:, at % ROWS], rows[:, at])


def check_paged(run: Run, dtype: lg.DType, n: Any) -> None:
    """Two texts take turns, each with a table of its own; the pages of none stay as they were."""
    length = TABLE * SIZE
    texts = [Text(seed, length, length, dtype) for seed in (1, 2)]
    tables = [np.array(t, np.int32) for t in ([7, 2, 11, 0, 5], [1, 10, 3, 8, 4])]
    shape = (PAGES, SIZE, GROUPS, WIDTH)
    states = {name: np.full(shape, 77.0, dtype.numpy) for name in ("keys", "values")}
    for start, stop in chunks(length) if n is N else ((i, i + 1) for i in range(length)):
        for text, table in zip(texts, tables, strict=True):
            found = run(text.given(start, stop) | {"table": table}, states)
            wanted = text.expected[:, :, start:stop].astype(dtype.numpy)
            agree(found, wanted, f"pages, {start}:{stop}")
    for text, table in zip(texts, tables, strict=True):
        held = states["keys"][table].reshape(length, GROUPS, WIDTH)
        np.testing.assert_array_equal(held, text.k.swapaxes(0, 1))
    for state in states.values():
        assert (state[[6, 9]] == 77.0).all()


CHECKS = {ring: check_ring, paged: check_paged}
functions = pytest.mark.parametrize("function", CHECKS, ids=["ring", "pages"])


@functions
@counts
def test_the_graph_is_attention_over_the_text(function: Callable[..., Any], n: Any) -> None:
    graph = entry(function, n)

    def run(given: dict[str, Array], states: dict[str, Array]) -> Array:
        outputs, new = step(graph, given, {}, states)
        states |= new
        return outputs["out"]

    CHECKS[function](run, lg.f32, n)


@functions
@counts
@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        ("cpu", lg.f32),
        pytest.param("cpu", lg.bf16, marks=pytest.mark.slow),
        ("cuda", lg.f32),
        pytest.param("cuda", lg.bf16, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_kernels_are_attention_over_the_text(
    function: Callable[..., Any], n: Any, device: str, dtype: lg.DType
) -> None:
    model = lowered(entry(function, n, dtype), device)

    def run(given: dict[str, Array], states: dict[str, Array]) -> Array:
        return run_entry(model, given, {}, states=states)["out"]

    CHECKS[function](run, dtype, n)


@pytest.mark.slow
@functions
@counts
@pytest.mark.parametrize("dtype", [lg.f32, lg.bf16], ids=str)
def test_compiled_kernels_are_attention_over_the_text(
    function: Callable[..., Any], n: Any, dtype: lg.DType
) -> None:
    lane = fast_lane.load(lowered(entry(function, n, dtype)), "-O1")

    def run(given: dict[str, Array], states: dict[str, Array]) -> Array:
        return lane.run("entry", given, {}, states)["out"]

    CHECKS[function](run, dtype, n)


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_pages_have_no_rows_before_the_first_position(rows: int) -> None:
    """Of a position without a range, which may be negative."""

    def write(x: lg.Tensor, pos: lg.Tensor, table: lg.Tensor) -> lg.Tensor:
        pages = nn.PagedCache("pages", (6, 4, 3))
        pages.write(x, pos, table)
        return pages.read(table)

    table = lg.spec(4, dtype=lg.i32, range=(0, 5))
    graph = traced(write, None, x=lg.spec(rows, 3), pos=lg.spec(dtype=lg.i64), table=table)
    lane = fast_lane.load(lowered(graph), "-O1")
    x = np.arange(1, 3 * rows + 1, dtype=np.float32).reshape(rows, 3)
    for start in (-40, -16, -7, -5, -4, -3, -1, 0, 11, 13, 15, 16, 40):
        states = {"pages": np.zeros((6, 4, 3), np.float32)}
        given = {"x": x, "pos": np.array(start), "table": np.array([3, 0, 5, 1], np.int32)}
        found = lane.run("entry", given, {}, states)["out"]
        wanted = np.zeros((16, 3), np.float32)
        for row in range(max(0, -start), min(rows, 16 - start)):
            wanted[start + row] = x[row]
        np.testing.assert_array_equal(found, wanted, err_msg=str(start))
        assert np.count_nonzero(states["pages"]) == np.count_nonzero(wanted)


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_a_ring_has_no_rows_before_the_first_position(rows: int) -> None:
    """Of a position without a range, which may be negative."""

    def write(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
        ring = nn.RingCache("ring", (7, 3), window=1)
        ring.write(x, pos)
        return ring * 1

    graph = traced(write, None, x=lg.spec(rows, 3), pos=lg.spec(dtype=lg.i64))
    lane = fast_lane.load(lowered(graph), "-O1")
    x = np.arange(1, 3 * rows + 1, dtype=np.float32).reshape(rows, 3)
    for start in (-40, -8, -7, -6, -3, -1, 0, 2, 5, 40):
        states = {"ring": np.zeros((7, 3), np.float32)}
        found = lane.run("entry", {"x": x, "pos": np.array(start)}, {}, states)["out"]
        wanted = np.zeros((7, 3), np.float32)
        for row in range(max(0, -start), rows):
            wanted[(start + row) % 7] = x[row]
        np.testing.assert_array_equal(found, wanted, err_msg=str(start))
        np.testing.assert_array_equal(states["ring"], wanted, err_msg=str(start))


def test_a_ring_moves_what_is_added_at_a_position_without_a_range() -> None:
    """In rows of no power of two, so that the remainder of a wrapped position would be another."""

    def write(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
        nn.RingCache("ring", (70, 8), window=60).write(x, pos)
        return x + 1

    model = lowered(traced(write, None, x=lg.spec(3, 8), pos=lg.spec(dtype=lg.i64)))
    (program,) = model.programs
    assert [a for x in program.launches for a in x.arguments if isinstance(a, SlotArg)] == []
    store, kernels = program.launches[0], {k.name: k for k in model.kernels}
    _, read, written = kernels[store.kernel].cost.at({})
    assert (read, written) == (3 * 8 * 4 + 8, 3 * 8 * 4)


def _atoms(e: Ix) -> set[object]:
    """Also those inside the lesser or greater of two."""
    found: set[object] = set(e.atoms())
    for a in list(found):
        if isinstance(a, MinMax):
            found |= _atoms(a.left) | _atoms(a.right)
    return found


@functions
@counts
@pytest.mark.parametrize(("device", "dtype"), [("cpu", lg.f32), ("cuda", lg.bf16)], ids=str)
def test_a_step_moves_what_it_adds_and_attends_in_one_kernel(
    function: Callable[..., Any], n: Any, device: str, dtype: lg.DType
) -> None:
    """Nothing of the size of a cache is copied, and attention ends with the position."""
    model = lowered(entry(function, n, dtype), device)
    (program,) = model.programs
    assert [a for x in program.launches for a in x.arguments if isinstance(a, SlotArg)] == []
    *_, last = program.launches
    kernels = {k.name: k for k in model.kernels}
    rows = CHUNK if n is N else 1
    one = GROUPS * WIDTH * dtype.itemsize
    for launch in program.launches[:-1]:
        k = kernels[launch.kernel]
        _, read, written = k.cost.at({N: rows})
        caches = len(k.region.stores)  # keys and values, in one launch or two
        assert written == caches * rows * one
        indices = 8 + (TABLE * 4 if function is paged else 0)
        assert read <= caches * rows * one + indices
        outer = next(s for s in k.program.statements() if isinstance(s, For))
        assert outer.axis.extent.evaluate({N: rows}) in {rows, GROUPS * rows}
    loops = [s for s in kernels[last.kernel].program.statements() if isinstance(s, Stream | For)]
    assert any(isinstance(a, Lookup) for s in loops for a in _atoms(s.hi))


@pytest.mark.parametrize("axis", [0, 1, 2])
@counts
def test_a_ring_along_any_axis(axis: int, n: Any) -> None:
    """Along memory its rows are no vectors."""

    def turned(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
        s = nn.State("s", (7, 7, 7))
        ahead = (lg.arange(7) - pos) % 7
        taken = x.index_select(axis, ahead)
        here = (ahead < x.shape[axis]).reshape(*(7 if d == axis else 1 for d in range(3)))
        s[...] = lg.where(here, taken, s)
        return s.sum(0)

    shape = [n if d == axis else 7 for d in range(3)]
    graph = traced(turned, None, x=lg.spec(*shape), pos=lg.spec(dtype=lg.i64, range=(0, 99)))
    rng = np.random.default_rng(0)
    for device in TARGETS:
        model = lowered(graph, device)
        write = next(k for k in model.kernels if len(k.region.stores[0].dst.dims) == 3)
        assert write.cost.at({N: 3})[2] == 4 * 49 * (3 if n is N else 1)
        states = {"s": np.zeros((7, 7, 7), np.float32)}
        wanted = states["s"].copy()
        for pos in (0, 5, 6, 13, 20, 99):
            x = rng.standard_normal([3 if e is N else e for e in shape]).astype(np.float32)
            wanted = np.moveaxis(wanted, axis, 0)
            wanted[(pos + np.arange(x.shape[axis])) % 7] = np.moveaxis(x, axis, 0)
            wanted = np.moveaxis(wanted, 0, axis)
            run_entry(model, {"x": x, "pos": np.array(pos)}, {}, states=states)
            np.testing.assert_array_equal(states["s"], wanted)


@pytest.mark.slow
@nvcc.needed
@functions
@counts
def test_kernels_compile_for_gpus(function: Callable[..., Any], n: Any, tmp_path: Path) -> None:
    for made in lowered(entry(function, n, lg.bf16), "cuda").kernels:
        folder = tmp_path / made.name
        folder.mkdir()
        compile_for("80", made, folder)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x, pos: nn.RingCache("k", (8,)), "(.., rows, features)"),
        (lambda x, pos: nn.RingCache("k", (8, 6), window=9), "window 9"),
        (lambda x, pos: nn.RingCache("k", (8, 6)).write(x, pos), "a chunk of 4 for a window of 8"),
        (lambda x, pos: nn.RingCache("k", (8, 6), window=5).write(x, x), "the position"),
        (
            lambda x, pos: nn.RingCache("k", (3, 8, 6), window=5).write(x.expand(2, N, 6), pos),
            "[RingCache] k cannot be written from x of shape (2, n, 6). Pass (3, n, 6), n rows",
        ),
        (
            lambda x, pos: nn.RingCache("k", (8, 5), window=5).write(x, pos),
            "x of shape (n, 6). Pass (n, 5), n rows of the cache",
        ),
        (
            lambda x, pos: nn.RingCache("k", (8, 6), window=5).write(x[0], pos),
            "x of shape (6). Pass (n, 6), n rows of the cache",
        ),
        (lambda x, pos: nn.RingCache("k", (8, 6), window=5).seen(pos, 5), "a chunk of 5"),
        (lambda x, pos: nn.PagedCache("k", (8,)), "(pages, page_size, ..)"),
        (lambda x, pos: nn.PagedCache("k", (8, 4, 6)).write(x, pos, pos), "a table of i64"),
        (lambda x, pos: nn.PagedCache("k", (8, 4, 6)).read(x), "a table of f32"),
        (
            lambda x, pos: nn.PagedCache("k", (8, 4, 2, 6)).write(x, pos, lg.arange(8)),
            "[PagedCache] k cannot be written from x of shape (n, 6). Pass (n, 2, 6), n rows of a text.",
        ),
        (
            lambda x, pos: nn.PagedCache("k", (8, 4, 5)).write(x, pos, lg.arange(8)),
            "x of shape (n, 6). Pass (n, 5), n rows",
        ),
        (
            lambda x, pos: nn.PagedCache("k", (8, 4)).write(x, pos, lg.arange(8)),
            "x of shape (n, 6). Pass (n), n rows",
        ),
        (
            lambda x, pos: nn.PagedCache("k", (8, 4, 6)).write(pos, pos, lg.arange(8)),
            "x of shape (). Pass (n, 6), n rows",
        ),
    ],
)
def test_a_cache_that_does_not_fit(use: Callable[..., Any], words: str) -> None:
    def entry(x: lg.Tensor, pos: lg.Tensor) -> lg.Tensor:
        use(x, pos)
        return x + 1

    spec = lg.spec(dtype=lg.i64, range=(0, 7))
    with pytest.raises(BadArgument, match="Cache") as caught:
        traced(entry, None, x=lg.spec(N, 6), pos=spec)
    assert words in str(caught.value)
    assert "test_caches.py" in str(caught.value)
