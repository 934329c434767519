"""Scattering to many places: elements in groups, one for each place, and what that costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_order import lowered
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.dtype import DTYPES, DType
from lumigen.frontend import native, scattering
from lumigen.index import ix
from lumigen.interp.graph import evaluate
from lumigen.lower.runs import terms_of
from lumigen.ops import NATIVE
from lumigen.printer import tile as tile_text
from lumigen.region import Reduce, walk
from lumigen.target import TARGETS
from lumigen.tile import GroupRows
from lumigen.verify.tile import verify

PLACES, COUNT = 70, 90  # more comparisons than are made for each place
EDGES = lg.Dim("edges", 1, 400)
NODES = lg.Dim("nodes", 1, 100)

Function = Callable[..., Any]


def reduced(how: str, *, include_self: bool) -> Function:
    return lambda x, i, s: x.scatter_reduce(0, i, s, how, include_self=include_self)


FUNCTIONS: dict[str, Function] = {
    "scatter_add": lambda x, i, s: x.scatter_add(0, i, s),
    **{
        f"{how}{'' if own else '_alone'}": reduced(how, include_self=own)
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    },
    "index_add": lambda x, i, s: x.index_add(0, i[:, 0], s),
    "index_reduce": lambda x, i, s: x.index_reduce(0, i[:, 0], s, "amax"),
    "columns": lambda x, i, s: x.mT.index_add(1, i[:, 0], s.mT),
    "accumulated": lambda x, i, s: x.index_put((i[:, 0],), s, accumulate=True),
}
LAST: dict[str, Function] = {  # of several PyTorch leaves open which one stays
    "scatter": lambda x, i, s: x.scatter(0, i, s),
    "index_copy": lambda x, i, s: x.index_copy(0, i[:, 0], s),
    "index_put": lambda x, i, s: x.index_put((i[:, 0],), s),
}


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Of which few products leave the range of a type, and most sums are exact."""
    if dtype.is_bool:
        return rng.random(shape) < 0.5
    low = 0 if dtype.name == "u8" else -2
    return rng.integers(low, 3, shape).astype(dtype.numpy)


def indices(rng: np.random.Generator, which: str, count: int, places: int) -> np.ndarray:
    """(count, 3), some of them as often as they please."""
    made = {
        "any": rng.integers(0, places, (count, 3)),
        "one": np.full((count, 3), places - 1),
        "few": rng.integers(3, 6, (count, 3)),
    }
    return made[which]


def inputs(dtype: DType, which: str = "any", count: int = COUNT) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        "x": numbers(rng, (PLACES, 3), dtype),
        "i": indices(rng, which, count, PLACES),
        "s": numbers(rng, (count, 3), dtype),
    }


def specs(dtype: DType) -> dict[str, Any]:
    x, s = lg.spec(PLACES, 3, dtype=dtype), lg.spec(COUNT, 3, dtype=dtype)
    return {"x": x, "i": lg.spec(COUNT, 3, dtype=lg.i64), "s": s}


def grouped(model: Any) -> bool:
    return any(k.region.native in ("groups", "sums") for k in model.kernels)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize(
    "dtype",
    [lg.f32, *(pytest.param(d, marks=pytest.mark.slow) for d in (lg.bf16, lg.i64, lg.u8))],
    ids=str,
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_gives_what_torch_gives(name: str, dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    function = FUNCTIONS[name]
    graph = traced(function, **specs(dtype))
    for which in ("any", "one", "few"):
        given = inputs(dtype, which)
        held = torch.bfloat16 if dtype is lg.bf16 else None  # numpy's is none that PyTorch knows
        tensors = {
            k: torch.from_numpy(v.astype(np.float32)).to(held)
            if held and k != "i"
            else torch.from_numpy(v)
            for k, v in given.items()
        }
        want = function(**tensors).to(torch.float64).numpy()
        for brute in (False, True):
            (found,) = evaluate(graph, given, {}, brute=brute).values()
            tolerance = 2e-2 if dtype is lg.bf16 else 1e-6
            np.testing.assert_allclose(
                found.astype(np.float64), want, tolerance, 1e-6, err_msg=f"{which} {brute}"
            )


@pytest.mark.parametrize("name", ["scatter_add", "prod", "amax_alone", "amin"])
def test_truth_values(name: str) -> None:
    torch = pytest.importorskip("torch")
    graph, given = traced(FUNCTIONS[name], **specs(lg.boolean)), inputs(lg.boolean)
    want = FUNCTIONS[name](**{k: torch.from_numpy(v) for k, v in given.items()})
    (found,) = evaluate(graph, given, {}).values()
    np.testing.assert_array_equal(found, want.numpy())


@pytest.mark.parametrize("name", LAST)
def test_the_last_one_stays(name: str) -> None:
    for which in ("any", "one", "few"):
        given = inputs(lg.f32, which)
        want = given["x"].copy()
        for j in range(COUNT):
            for c in range(3):
                at = given["i"][j, c if name == "scatter" else 0]
                want[at, c] = given["s"][j, c]
        (found,) = evaluate(traced(LAST[name], **specs(lg.f32)), given, {}).values()
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*FUNCTIONS, *LAST])
def test_kernels_are_what_the_graph_means(name: str, device: str) -> None:
    """What is out of range goes nowhere."""
    function = (FUNCTIONS | LAST)[name]
    x, s = lg.spec(NODES, 3), lg.spec(EDGES, 3)
    names = {"x": x, "i": lg.spec(EDGES, 3, dtype=lg.i64), "s": s}
    model, graph = lowered(function, TARGETS[device].device, **names), traced(function, **names)
    assert grouped(model)
    rng = np.random.default_rng(5)
    for nodes, edges in ((1, 1), (7, 40), (100, 211)):
        given = {
            "x": rng.normal(size=(nodes, 3)).astype(np.float32),
            "i": rng.integers(
                -2 if "accum" not in name and "put" not in name else 0, nodes + 2, (edges, 3)
            ),
            "s": rng.normal(size=(edges, 3)).astype(np.float32),
        }
        (found,), (want,) = (
            run_entry(model, given, {}).values(),
            evaluate(graph, given, {}).values(),
        )
        np.testing.assert_allclose(found, want, 1e-5, 1e-5, err_msg=f"{nodes} {edges}")


@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("reduce", ["sum", "amax", "prod"])
def test_what_nothing_is_scattered_to_is_known(reduce: str, device: str) -> None:
    """Of a part that no index reaches nothing is read but what was there."""

    def function(x: lg.Tensor, i: lg.Tensor) -> lg.Tensor:
        return lg.cat([x, x]).scatter_reduce(0, i % 3, x, reduce)[3:]

    model = lowered(function, TARGETS[device].device, x=lg.spec(5), i=lg.spec(5, dtype=lg.i64))
    for k in model.kernels:
        verify(k.program, k.name)  # each of its arguments is used
    x, i = np.arange(5, dtype=np.float32), np.array([5, 4, 0, 7, 1])
    (found,) = run_entry(model, {"x": x, "i": i}, {}).values()
    np.testing.assert_array_equal(found, np.concatenate([x, x])[3:])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_int], ids=str)
def test_groups_are_what_their_meaning_says(dtype: DType) -> None:
    """Of rows whose numbers reach past both ends."""
    graph = traced(
        lambda i: i.of(native.groups(i.edge, i.extents[-1] - 12)), i=lg.spec(3, 17, dtype=dtype)
    )
    rng = np.random.default_rng(2)
    low = 0 if dtype.name == "u8" else -3
    i = rng.integers(low, 9, (3, 17)).astype(dtype.numpy)
    i[0, :2] = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    (found,), (meant,) = (
        evaluate(graph, {"i": i}, {}, brute=brute).values() for brute in (False, True)
    )
    np.testing.assert_array_equal(found, meant)
    np.testing.assert_array_equal(found, NATIVE["groups"](i, 5 + 1 + 17))
    np.testing.assert_array_equal(found[:, :6], [[(row < g).sum() for g in range(6)] for row in i])


@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("n", [17, 5000])
def test_sums_are_what_their_meaning_says(device: str, n: int) -> None:
    """What reaches past both ends is left out; a group of none has 0."""

    def function(i: lg.Tensor, v: lg.Tensor) -> lg.Tensor:
        return i.of(native.sums(i.edge, v.edge, ix(9)))

    specs = {"i": lg.spec(2, n, dtype=lg.i64), "v": lg.spec(2, n)}
    rng = np.random.default_rng(2)
    i, v = rng.integers(-3, 8, (2, n)), rng.normal(size=(2, n)).astype(np.float32)
    model, graph = lowered(function, TARGETS[device].device, **specs), traced(function, **specs)
    want = [[v[r][i[r] == g].astype(np.float64).sum() for g in range(9)] for r in range(2)]
    for brute in (False, True):
        (found,) = evaluate(graph, {"i": i, "v": v}, {}, brute=brute).values()
        np.testing.assert_allclose(found, want, 1e-4, 1e-4)
    (found,) = run_entry(model, {"i": i, "v": v}, {}).values()
    np.testing.assert_allclose(found, want, 1e-4, 1e-4)
    together = [s for k in model.kernels for s in k.program.body if isinstance(s, GroupRows)]
    assert len(together) == (device == "cuda")


@pytest.mark.parametrize("device", TARGETS)
def test_counts_are_what_their_meaning_says(device: str) -> None:
    """Of rows by one task each, and on GPUs of long ones by all tasks; indices reach past both ends."""

    def function(i: lg.Tensor) -> lg.Tensor:
        return i.of(native.starts(i.edge, ix(9)))

    rng = np.random.default_rng(2)
    for n in (17, 5000):
        i = rng.integers(-3, 12, (2, n))
        model = lowered(function, TARGETS[device].device, i=lg.spec(2, n, dtype=lg.i64))
        (found,) = run_entry(model, {"i": i}, {}).values()
        np.testing.assert_array_equal(found, [[(r < g).sum() for g in range(10)] for r in i])
    graph = traced(function, i=lg.spec(2, 17, dtype=lg.i64))
    small, both = i[:, :17], []
    for brute in (False, True):
        both += evaluate(graph, {"i": small}, {}, brute=brute).values()
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("device", TARGETS)
def test_what_is_the_same_for_all_is_counted(device: str) -> None:
    """Nothing is read of what is added, and no place is kept."""

    def function(x: lg.Tensor, i: lg.Tensor) -> lg.Tensor:
        return x.scatter_add(0, i, lg.full((COUNT,), 1.5))

    given = {"x": lg.spec(PLACES), "i": lg.spec(COUNT, dtype=lg.i64)}
    model = lowered(function, TARGETS[device].device, **given)
    assert [k.region.native for k in model.kernels] == ["starts", None]
    i = np.random.default_rng(3).integers(-2, PLACES + 2, COUNT)
    (found,) = run_entry(model, {"x": np.zeros(PLACES, np.float32), "i": i}, {}).values()
    np.testing.assert_array_equal(found, [1.5 * (i == g).sum() for g in range(PLACES)])


def test_infinity_is_added_where_it_goes_alone() -> None:
    """Of each column its own; what is written may have more columns than there are places for."""

    def function(x: lg.Tensor, i: lg.Tensor, s: lg.Tensor) -> lg.Tensor:
        return x.scatter_add(0, i, s.expand(COUNT, 5))

    given = {"x": lg.spec(PLACES, 3), "i": lg.spec(COUNT, 2, dtype=lg.i64), "s": lg.spec(5)}
    graph = traced(function, **given)
    rng = np.random.default_rng(6)
    i, s = rng.integers(0, PLACES, (COUNT, 2)), np.array([np.inf, 2, 3, 4, 5], np.float32)
    inputs = {"x": np.ones((PLACES, 3), np.float32), "i": i, "s": s}
    (found,) = evaluate(graph, inputs, {}).values()
    want = inputs["x"].copy()
    for column in range(2):
        np.add.at(want[:, column], i[:, column], s[column])
    np.testing.assert_array_equal(found, want)


def test_counts_are_those_of_groups_that_there_are() -> None:
    """A mean as a model writes it has one kernel for its groups, and the same one as ours."""

    def mean(i: lg.Tensor, x: lg.Tensor) -> lg.Tensor:
        total = x.new_zeros(PLACES, 3).index_add(0, i, x)
        count = x.new_zeros(PLACES).scatter_add(0, i, x.new_ones(COUNT))
        return total / count.clamp(min=1).unsqueeze(1)

    model = lowered(mean, i=lg.spec(COUNT, dtype=lg.i64), x=lg.spec(COUNT, 3))
    assert [k.region.native for k in model.kernels] == ["groups", None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "count"),
    [("sum", 401), ("amax", 401), ("amin", 401), ("sum", lg.Dim("long", 1, 500))],
    ids=str,
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_long_runs_are_folded_in_parts(
    count: Any, device: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place has all elements, or most; or some have more than a part, which begin anywhere."""
    monkeypatch.setattr(scattering, "PART", 4)
    monkeypatch.setattr(scattering, "PARTS", 8)
    given = {
        "x": lg.spec(PLACES, 2),
        "i": lg.spec(count, dtype=lg.i64),
        "s": lg.spec(count, 2),
    }
    model = lowered(
        lambda x, i, s: x.index_reduce(0, i, s, how) if how != "sum" else x.index_add(0, i, s),
        TARGETS[device].device,
        **given,
    )
    rng = np.random.default_rng(4)
    n = 401
    chance = rng.random(n)
    for i in (
        np.full(n, 7),
        np.where(chance < 0.7, 5, rng.integers(-3, PLACES + 3, n)),
        np.sort((PLACES * chance**3).astype(np.int64)),
    ):
        x, s = rng.integers(-9, 9, (PLACES, 2)), rng.integers(-9, 9, (n, 2))
        inputs = {"x": x.astype(np.float32), "i": i, "s": s.astype(np.float32)}
        (found,) = run_entry(model, inputs, {}).values()
        want, named = x.copy(), (i >= 0) & (i < PLACES)
        {"sum": np.add, "amax": np.maximum, "amin": np.minimum}[how].at(want, i[named], s[named])
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("groups", [70, 5000, 1 << 18])
def test_blocks_group_long_rows_together(groups: int) -> None:
    """By passes over the digits of their groups: as many as the groups take, and memory for as many."""
    n = lg.Dim("n", 1, 1 << 20, typical=1 << 17)
    model = lowered(
        lambda i: i.of(native.groups(i.edge, ix(groups))),
        TARGETS["cuda"].device,
        i=lg.spec(2, n, dtype=lg.i64),
    )
    (kernel,) = model.kernels
    (together,) = kernel.program.body
    assert isinstance(together, GroupRows)
    pairs = next(b for b in together.shared if b.name == "pairs")
    assert pairs.dims[0] == {70: 0, 5000: 1, 1 << 18: 2}[groups]
    if groups > 5000:
        return  # as many results
    i = np.random.default_rng(5).integers(-2, groups + 2, (2, 5000))
    (found,) = run_entry(model, {"i": i}, {}).values()
    np.testing.assert_array_equal(found, NATIVE["groups"](i, groups + 1 + 5000))


# ---- what it costs ----


@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("name", ["amax", "index_add", "columns"])
def test_a_place_visits_its_own_elements_alone(name: str, device: str) -> None:
    """The loop of a reduction goes from where a place's elements begin to where they end."""
    x, s = lg.spec(5000, 3), lg.spec(12000, 3)
    given = {"x": x, "i": lg.spec(12000, 3, dtype=lg.i64), "s": s}
    model = lowered(FUNCTIONS[name], TARGETS[device].device, **given)
    texts = [tile_text.show(k.program) for k in model.kernels if k.region.native is None]
    loops = [line for t in texts for line in t.splitlines() if re.match(r"\s*for k0 in", line)]
    assert len(loops) == 1
    run = r"for k0 in (x\d)\[(.*)\] \.\. \1\[\2 \+ 1\]( dealt| over lanes)?$"
    assert re.match(r"\s*" + run, loops[0]), loops[0]


@pytest.mark.parametrize("name", LAST)
def test_what_stays_is_read_without_a_loop(name: str) -> None:
    given = {"x": lg.spec(5000, 3), "i": lg.spec(20000, 3, dtype=lg.i64), "s": lg.spec(20000, 3)}
    model = lowered(LAST[name], **given)
    assert grouped(model)
    assert not any(re.search(r"\bk\d in", tile_text.show(k.program)) for k in model.kernels)


def test_kernels_know_the_extents_of_the_integers_they_read() -> None:
    """Also where nothing else of a kernel has them, as what divides a sum by the number of its elements."""
    given = {"x": lg.spec(NODES, 3), "i": lg.spec(EDGES, dtype=lg.i64), "s": lg.spec(EDGES, 3)}
    model = lowered(
        lambda x, i, s: {"sum": x.index_add(0, i, s), "mean": x.index_reduce(0, i, s, "mean")},
        **given,
    )
    for k in model.kernels:
        extents = {a for b in k.program.args for e in b.dims for a in e.atoms()}
        assert extents <= {*k.program.dims}


@pytest.mark.slow
def test_what_is_repeated_is_grouped_once() -> None:
    """Indices that are expanded along rows, as graph networks have them."""
    given = {"x": lg.spec(5000, 8), "i": lg.spec(20000, dtype=lg.i64), "s": lg.spec(20000, 8)}
    model = lowered(
        lambda x, i, s: x.scatter_reduce(0, i.unsqueeze(-1).expand(20000, 8), s, "mean"), **given
    )
    (groups,) = (k.region for k in model.kernels if k.region.native)
    assert [b.dims for b in groups.reads()] == [(20000,)]


def test_few_comparisons_are_made_in_one_kernel() -> None:
    x, i, s = lg.spec(60, 3), lg.spec(60, dtype=lg.i64), lg.spec(60, 3)
    assert len(lowered(lambda x, i, s: x.index_add(0, i, s), x=x, i=i, s=s).kernels) == 1
    few = lowered(
        lambda x, i, s: x.index_copy(0, i, s),
        x=lg.spec(100000, 3),
        i=lg.spec(8, dtype=lg.i64),
        s=lg.spec(8, 3),
    )
    assert not grouped(few)


# ---- what else counts or ranks ----

COUNTED: dict[str, Function] = {
    "histc": lambda lib, x, s: x.histc(20, -2, 2),
    "nonzero": lambda lib, x, s: lib.nonzero_static(x > 1, size=100),
    "masked": lambda lib, x, s: x.masked_scatter(x > 0, s),
}


@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("name", COUNTED)
def test_counts_and_ranks_compare_no_pairs(name: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    given = {"x": lg.spec(700), "s": lg.spec(700)}
    model = lowered(lambda x, s: COUNTED[name](lg, x, s), TARGETS[device].device, **given)
    plain = [k.region for k in model.kernels if k.region.native is None]
    terms = [
        terms_of(e) for r in plain for e in walk(s.value for s in r.stores) if isinstance(e, Reduce)
    ]
    assert all(n <= 700 // 20 for n in terms)
    rng = np.random.default_rng(4)
    inputs = {n: rng.normal(size=700).astype(np.float32) for n in given}
    (found,) = run_entry(model, inputs, {}).values()
    want = COUNTED[name](torch, *(torch.from_numpy(v) for v in inputs.values()))
    np.testing.assert_array_equal(found, want.numpy())


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(lambda m, v, w, i: (m @ w)[i], id="rows of a product"),
        pytest.param(lambda m, v, w, i: (m @ w + v[0]).relu()[i], id="rows of a layer"),
        pytest.param(lambda m, v, w, i: m.softmax(-1)[i], id="rows of a softmax"),
        pytest.param(lambda m, v, w, i: m.sum(-1)[i], id="picks of a sum"),
        pytest.param(lambda m, v, w, i: v.index_add(0, i, m @ w), id="sums of a product"),
        pytest.param(
            lambda m, v, w, i: v.index_add(0, i, lg.functional.layer_norm(m, (8,))),
            id="sums of a norm",
        ),
    ],
)
@pytest.mark.parametrize("device", TARGETS)
def test_what_is_chosen_is_stored_once(of: Function, device: str) -> None:
    """No buffer has an element for each pair of a place and what could be chosen for it."""
    rows = 120
    m, v, w = lg.spec(rows, 8), lg.spec(rows, 8), lg.spec(8, 8)
    i = lg.spec(rows, dtype=lg.i64, range=(0, rows - 1))
    given = {"m": m, "v": v, "w": w, "i": i}
    model, graph = lowered(of, TARGETS[device].device, **given), traced(of, **given)
    stored = [s.dst for k in model.kernels for s in k.region.stores]
    assert stored
    assert max(np.prod([e.const for e in b.dims]) for b in stored) < rows * rows
    rng = np.random.default_rng(3)
    shapes = {"m": (rows, 8), "v": (rows, 8), "w": (8, 8)}
    inputs = {k: rng.normal(size=shape).astype(np.float32) for k, shape in shapes.items()}
    inputs["i"] = rng.integers(0, rows, rows)
    (found,) = run_entry(model, inputs, {}).values()
    (want,) = evaluate(graph, inputs, {}).values()
    np.testing.assert_allclose(found, want, 1e-4, 1e-5)


def test_sums_of_rows_check_no_place_and_take_vectors_together() -> None:
    """Three loops with an accumulator each: ahead of a place's parts, over them, and behind the last."""
    x, i, s = lg.spec(4096, 64), lg.spec(16384, dtype=lg.i64), lg.spec(16384, 64)
    model = lowered(lambda x, i, s: x.index_add(0, i, s), x=x, i=i, s=s)
    text = tile_text.show(model.kernels[-1].program)
    assert len(re.findall(r"^ +for k\d in ", text, re.MULTILINE)) == 3
    assert "over lanes, 4 together" in text
    assert " if " not in text


@pytest.mark.slow
@pytest.mark.parametrize("count", [4096, 4095])
def test_a_row_of_known_length_compiles_without_a_warning(
    count: int, rng: np.random.Generator
) -> None:
    """gcc warns of what a loop over the last elements would read, where whole steps leave it none."""

    def add(x: lg.Tensor, i: lg.Tensor, v: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"out": x.scatter_add(1, i, v)}

    places = lg.spec(64, count, dtype=lg.i64, range=(0, 4095))
    model = lowered(add, x=lg.spec(64, 4096), i=places, v=lg.spec(64, count))
    library = fast_lane.load(model)
    x, v = (rng.standard_normal((64, n), np.float32) for n in (4096, count))
    i = rng.integers(0, 4096, (64, count))
    wanted = x.astype(np.float64)
    np.add.at(wanted, (np.arange(64)[:, None], i), v)
    found = library.run("entry", {"x": x, "i": i, "v": v}, {})["out"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
