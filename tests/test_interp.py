"""The interpreter of graphs against numpy, and its fast ways against its plain one."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumigen.dtype import DTYPES, DType, boolean, f16, f32, f64, i8, i32, i64, u8
from lumigen.errors import BadInput
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    RandomStream,
    ScanLoop,
    binary,
    const,
    contiguous,
    edge,
    iota,
    node,
    reduce,
    scan,
    shape,
    source,
    unary,
)
from lumigen.index import Dim, Ix, ix
from lumigen.interp import evaluate
from lumigen.interp.graph import cast, step
from lumigen.interp.random import bits
from lumigen.interp.sums import term_of
from lumigen.ops import Op
from lumigen.view import Shape, View, coordinates, expand, pad, permute, reshape, windows

B = Dim("batch", 1, 8)


def at(n: Node, to: Shape, *axes: int) -> Edge:
    """A node whose dimensions are those axes of a larger shape."""
    where = coordinates(to)
    return Edge(n, View(to, tuple(where[a] for a in axes)))


def everywhere(value: float, dtype: DType, to: Shape) -> Edge:
    return Edge(const(value, dtype), expand((), to))


def negated(e: Edge) -> Edge:
    return edge(binary(Op.LESS_THAN, e, everywhere(True, boolean, e.shape)))


def both(a: Edge, b: Edge) -> Edge:
    return edge(binary(Op.MUL, a, b))


def less(a: Edge, b: Edge) -> Edge:
    return edge(binary(Op.LESS_THAN, a, b))


def equal(a: Edge, b: Edge) -> Edge:
    return both(negated(less(a, b)), negated(less(b, a)))


def total(e: Edge, *axes: int) -> Node:
    return reduce(Op.SUM_REDUCE, e, axes)


def run(n: Node | Edge, brute: bool = False, **arrays: np.ndarray) -> np.ndarray:
    e = n if isinstance(n, Edge) else edge(n)
    found = Graph((), (("out", e),)).nodes()
    inputs = tuple(m for m in found if m.op is Op.INPUT)
    return evaluate(Graph(inputs, (("out", e),)), arrays, {}, brute=brute)["out"]


def proven(n: Node, wanted: np.ndarray, **arrays: np.ndarray) -> None:
    """The fast way, the plain way and numpy agree."""
    for brute in (False, True):
        found = run(n, brute, **arrays)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def floats(*extents: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=extents).astype(np.float32)


def given_as(name: str, dtype: DType, *extents: int | Dim | Ix) -> Node:
    return source(Op.INPUT, name, shape(*extents), dtype)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "meaning"),
    [
        (Op.LOG2, np.log2),
        (Op.EXP2, np.exp2),
        (Op.SIN, np.sin),
        (Op.SQRT, np.sqrt),
        (Op.RECIP, np.reciprocal),
    ],
)
def test_unary(op: Op, meaning: np.ufunc) -> None:
    x = np.array([0.5, 2, -1, 0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        wanted = meaning(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(run(unary(op, edge(given_as("x", f32, 8))), x=x), wanted)


def test_floats_are_rounded_at_casts_and_outputs_only() -> None:
    x = np.array([1 / 3], np.float32)
    third = edge(given_as("x", f32, 1))
    tiny = edge(binary(Op.ADD, third, everywhere(1e-12, f32, shape(1))))
    lost = binary(Op.ADD, tiny, everywhere(-float(x[0]), f32, shape(1)))
    assert run(lost, x=x) == pytest.approx(1e-12, rel=1e-3)
    cut = edge(contiguous(edge(contiguous(tiny, f16)), f32))
    assert run(cut, x=x) == np.float32(np.float16(x[0]))
    assert run(contiguous(tiny, f64), x=x).dtype == np.float64


def test_integers_wrap_around() -> None:
    x = given_as("x", i8, 3)
    values = np.array([127, -128, 5], np.int8)
    double = binary(Op.ADD, edge(x), edge(x))
    np.testing.assert_array_equal(run(double, x=values), values + values)
    np.testing.assert_array_equal(run(total(edge(x), 0), x=values), np.int8(4))
    ten = total(both(edge(x), edge(x)), 0)
    proven(ten, np.sum(values * values, dtype=np.int8), x=values)


def test_mod_has_the_sign_of_the_divisor() -> None:
    a, b = np.array([5, -5, 5, -5], np.int32), np.array([3, 3, -3, -3], np.int32)
    n = binary(Op.MOD, edge(given_as("a", i32, 4)), edge(given_as("b", i32, 4)))
    assert run(n, a=a, b=b).tolist() == [2, 1, -1, -2]


def test_a_select_lets_nothing_through() -> None:
    x = np.array([1, np.nan, np.inf, 2], np.float32)
    m = np.array([True, False, False, False])
    out = run(both(edge(given_as("m", boolean, 4)), edge(given_as("x", f32, 4))), x=x, m=m)
    np.testing.assert_array_equal(out, [1, 0, 0, 0])
    assert np.signbit(out).tolist() == [False, True, True, True]


def test_maximum_lets_nan_win() -> None:
    x = np.array([[1, np.nan], [-np.inf, -np.inf]], np.float32)
    out = run(reduce(Op.MAX_REDUCE, edge(given_as("x", f32, 2, 2)), (1,)), x=x)
    np.testing.assert_array_equal(out, np.array([np.nan, -np.inf], np.float32))


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_casts(of: DType, to: DType) -> None:
    values = np.array([0, 1, 2, 100]).astype(of.numpy)
    out = run(contiguous(edge(given_as("x", of, 4)), to), x=values)
    np.testing.assert_array_equal(out, values.astype(to.numpy))


def test_casts_to_integers_saturate() -> None:
    x = np.array([1.9, -1.9, 300, -300, np.inf, -np.inf, np.nan, 1e30])
    assert cast(x, i8).tolist() == [1, -1, 127, -128, 127, -128, 0, 127]
    assert cast(x, u8).tolist() == [1, 0, 255, 0, 255, 0, 0, 255]
    assert cast(x, i64).tolist()[-1] == 2**63 - 1


def test_views_fill_and_repeat() -> None:
    x = floats(2, 3)
    n = given_as("x", f32, 2, 3)
    view = pad(n.shape, (0, 1), (1, 0), -5.0)
    np.testing.assert_array_equal(
        run(Edge(n, view), x=x), np.pad(x, ((0, 1), (1, 0)), constant_values=-5)
    )
    flat = reshape(n.shape, shape(6))
    np.testing.assert_array_equal(run(unary(Op.SQRT, Edge(n, flat)), x=x * x), abs(x).reshape(6))


# --- the contract of inputs -----------------------------------------------------------------------


def test_dims_are_bound_by_shapes() -> None:
    n = unary(Op.SIN, edge(given_as("x", f32, B, ix(B) * 2 + 1)))
    assert run(n, x=floats(3, 7)).shape == (3, 7)
    even = Dim("even", 4, 24, multiple_of=4)
    half = unary(Op.SIN, edge(given_as("x", f32, ix(even) // 2)))
    assert run(half, x=floats(6)).shape == (6,)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "missing"),
        ({"x": np.zeros((3, 7))}, r"f64\[3, 7\], must be f32\[batch, 2\*batch \+ 1\]"),
        ({"x": floats(3)}, r"f32\[3\]"),
        ({"x": floats(3, 8)}, "batch = 3"),
        ({"x": floats(9, 19)}, "from 1 to 8"),
    ],
)
def test_inputs_break_their_contract(arrays: dict, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run(unary(Op.SIN, edge(given_as("x", f32, B, ix(B) * 2 + 1))), **arrays)


def test_values_out_of_range_are_refused() -> None:
    ids = source(Op.INPUT, "ids", shape(2), i32, (0, 9))
    assert run(ids, ids=np.array([0, 9], np.int32)).tolist() == [0, 9]
    with pytest.raises(BadInput, match="0 to 10"):
        run(ids, ids=np.array([0, 10], np.int32))


def test_weights_and_states() -> None:
    w, s = (
        source(Op.WEIGHT, "w", shape(2), f32),
        source(Op.STATE, "s", shape(2), DTYPES[2]),
    )
    both_of = binary(Op.ADD, edge(w), edge(contiguous(edge(s), f32)))
    g = Graph((), (("out", edge(both_of)),), ((s, edge(contiguous(edge(both_of), s.dtype))),))
    first, states = step(g, {}, {"w": np.array([1, 2], np.float32)})
    assert first["out"].tolist() == [1, 2]
    assert states["s"].dtype == ml_dtypes.bfloat16
    second, _ = step(g, {}, {"w": np.array([1, 2], np.float32)}, states)
    assert second["out"].tolist() == [2, 4]
    with pytest.raises(BadInput, match=r"w is missing, must be f32\[2\]"):
        evaluate(g, {}, {})


# --- sums without their products ------------------------------------------------------------------


def test_matmul() -> None:
    x, w = floats(3, 5), floats(5, 4, seed=1)
    to = shape(3, 4, 5)
    n = total(
        both(at(given_as("x", f32, 3, 5), to, 0, 2), at(given_as("w", f32, 5, 4), to, 2, 1)), 2
    )
    proven(n, x @ w, x=x, w=w)


def test_infinities_reach_a_matmul() -> None:
    x, w = floats(3, 5), floats(5, 4, seed=1)
    x[0, 0], w[1, 1] = np.inf, np.nan
    to = shape(3, 4, 5)
    n = total(
        both(at(given_as("x", f32, 3, 5), to, 0, 2), at(given_as("w", f32, 5, 4), to, 2, 1)), 2
    )
    with np.errstate(invalid="ignore"):
        proven(n, x @ w, x=x, w=w)


def test_convolution() -> None:
    x, w = floats(2, 3, 6), floats(4, 3, 3, seed=1)
    n = given_as("x", f32, 2, 3, 6)
    padded = contiguous(Edge(n, pad(n.shape, (0, 0, 1), (0, 0, 1), 0.0)))
    shown = windows(padded.shape, 2, 3, 2)  # (batch, channel, out, tap)
    to = shape(2, 4, 3, 3, 3)  # (batch, filter, out, channel, tap)
    where = coordinates(to)
    index, _ = shown.at((where[0], where[3], where[2], where[4]))
    weight = at(given_as("w", f32, 4, 3, 3), to, 1, 3, 4)
    out = total(both(Edge(padded, View(to, index)), weight), 3, 4)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    wanted = np.stack([np.einsum("bck,fck->bf", wide[:, :, o : o + 3], w) for o in (0, 2, 4)], 2)
    proven(out, wanted, x=x, w=w)


def test_a_product_is_never_made() -> None:
    """The product alone would take 2**42 numbers."""
    side = 2**14
    to = shape(side, side, side)
    x = given_as("x", f32, side)
    out = total(both(at(x, to, 0), both(at(x, to, 1), at(x, to, 2))), 0, 1, 2)
    ones = np.ones(side, np.float32)
    assert run(out, x=ones) == np.float32(float(side) ** 3)


@pytest.mark.parametrize("dtype", [i32, i64, u8])
def test_a_gather_is_an_index(dtype: DType) -> None:
    rows, width = 40, 6
    ids = np.array([[0, 39, 7], [7, 12, 39]]).astype(dtype.numpy)
    x = floats(rows, width)
    x[8] = np.nan  # never read
    to = shape(2, 3, rows, width)
    hit = equal(at(iota(ix(rows), dtype), to, 2), at(given_as("ids", dtype, 2, 3), to, 0, 1))
    n = total(both(hit, at(given_as("x", f32, rows, width), to, 2, 3)), 2)
    proven(n, x[ids], ids=ids, x=x)
    assert all(m.op is not Op.LESS_THAN for m in term_of(n).operands())


def test_integers_wrap_around_before_they_are_compared() -> None:
    ids = np.array([0, 3, 5, 255], np.uint8)
    x = floats(6)
    given = edge(given_as("ids", u8, 4))
    index = binary(Op.ADD, given, everywhere(254, u8, given.shape))
    to = shape(4, 6)
    hit = equal(at(iota(ix(6), u8), to, 1), at(index, to, 0))
    n = total(both(hit, at(given_as("x", f32, 6), to, 1)), 1)
    proven(n, np.array([0, x[1], x[3], 0], np.float32), ids=ids, x=x)


def test_a_large_gather_runs_by_indexing() -> None:
    rows = 2**21
    to = shape(512, rows, 8)
    ids = np.arange(512, dtype=np.int32) * 4000
    table = np.arange(rows, dtype=np.float32)
    hit = equal(at(given_as("ids", i32, 512), to, 0), at(iota(ix(rows), i32), to, 1))
    n = total(both(hit, at(given_as("x", f32, rows), to, 1)), 1)
    np.testing.assert_array_equal(run(n, ids=ids, x=table)[:, 3], table[ids])


def test_out_of_range_contributes_nothing() -> None:
    ids = np.array([-1, 2, 5, 1000], np.int32)
    to = shape(4, 5)
    hit = equal(at(iota(ix(5), i32), to, 1), at(given_as("ids", i32, 4), to, 0))
    n = total(both(hit, at(given_as("x", f32, 5), to, 1)), 1)
    x = floats(5)
    proven(n, np.array([0, x[2], 0, 0], np.float32), ids=ids, x=x)


def test_spellings_of_equality() -> None:
    """not (a < b or b < a); not (a + 1 < b + 1) and b < a + 1; with casts and multiples between."""
    ids = np.array([3, 0, 4], np.int32)
    x = floats(5)
    to = shape(3, 5)
    i, f = at(iota(ix(5), i32), to, 1), at(given_as("ids", i32, 3), to, 0)
    one, two = everywhere(1, i32, to), everywhere(2, i32, to)
    either = negated(both(negated(less(i, f)), negated(less(f, i))))
    later, twice = edge(binary(Op.ADD, i, one)), edge(binary(Op.MUL, i, two))
    wide = [edge(contiguous(e, i64)) for e in (i, f)]
    spellings = [
        negated(either),
        both(negated(less(i, f)), less(i, edge(binary(Op.ADD, f, one)))),
        both(
            negated(less(later, edge(binary(Op.ADD, f, one)))),
            less(i, edge(binary(Op.ADD, f, one))),
        ),
        equal(twice, edge(binary(Op.MUL, f, two))),
        equal(*wide),
        both(equal(i, f), equal(f, i)),
    ]
    for hit in spellings:
        n = total(both(hit, at(given_as("x", f32, 5), to, 1)), 1)
        assert not term_of(n).masks, "every comparison is understood"
        proven(n, x[ids], ids=ids, x=x)


def test_a_shifted_index() -> None:
    """State update: position p of the new value lands at row start + p."""
    start = np.array(3, np.int32)
    new = floats(2, 4)
    to = shape(8, 2, 4)
    where = edge(
        binary(Op.ADD, at(iota(ix(2), i32), to, 1), Edge(given_as("start", i32), expand((), to)))
    )
    hit = equal(at(iota(ix(8), i32), to, 0), where)
    n = total(both(hit, at(given_as("x", f32, 2, 4), to, 1, 2)), 1)
    wanted = np.zeros((8, 4), np.float32)
    wanted[3:5] = new
    proven(n, wanted, start=start, x=new)


def test_colliding_scatter_adds() -> None:
    ids = np.array([1, 1, 3, 9], np.int32)
    x = floats(4, 3)
    to = shape(5, 4, 3)
    hit = equal(at(iota(ix(5), i32), to, 0), at(given_as("ids", i32, 4), to, 1))
    n = total(both(hit, at(given_as("x", f32, 4, 3), to, 1, 2)), 1)
    wanted = np.zeros((5, 3), np.float32)
    np.add.at(wanted, ids[:3], x[:3])
    proven(n, wanted, ids=ids, x=x)


def test_masks_keep_infinities_out_of_sums() -> None:
    """Causal: sum over k <= q of x[k], where x[k] of a later k may be anything."""
    x = np.array([1, 2, np.inf, np.nan], np.float32)
    to = shape(4, 4)
    later = less(at(iota(ix(4), i32), to, 0), at(iota(ix(4), i32), to, 1))
    n = total(both(negated(later), at(given_as("x", f32, 4), to, 1)), 1)
    proven(n, np.array([1, 3, np.inf, np.nan], np.float32), x=x)
    finite = floats(4)
    proven(n, np.cumsum(finite), x=finite)


def test_masks_of_data() -> None:
    m, x = np.array([True, False, True]), floats(3)
    mask = edge(given_as("m", boolean, 3))
    value = edge(given_as("x", f32, 3))
    proven(total(both(mask, value), 0), np.float32(x[0] + x[2]), m=m, x=x)
    proven(total(both(negated(mask), value), 0), x[1], m=m, x=x)
    x[1] = np.inf
    proven(total(both(mask, value), 0), np.float32(x[0] + x[2]), m=m, x=x)


def test_a_select_inside_a_product_is_not_distributed() -> None:
    """(m ? x : -0) * y is NaN where m is false and y infinite."""
    m, x = np.array([False, True]), np.array([1, 2], np.float32)
    y = np.array([np.inf, 3], np.float32)
    inner = both(edge(given_as("m", boolean, 2)), edge(given_as("x", f32, 2)))
    proven(total(both(inner, edge(given_as("y", f32, 2))), 0), np.float32(np.nan), m=m, x=x, y=y)


def test_a_sum_over_what_does_not_vary_counts() -> None:
    x = floats(3)
    to = shape(3, 7)
    n = given_as("x", f32, 3)
    proven(total(at(n, to, 0), 1), x * 7, x=x)
    proven(total(both(at(n, to, 0), everywhere(2.0, f32, to)), 0, 1), (x * 14).sum(), x=x)


def test_shared_products_do_not_explode() -> None:
    n = given_as("x", f32, 3)
    for _ in range(40):
        n = binary(Op.MUL, edge(n), edge(n))
    x = np.array([1, -1, 0.5], np.float32)
    proven(total(edge(n), 0), np.float32(2), x=x)


AXES = "abcd"


@st.composite
def contractions(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, ...]], tuple[int, ...], bool]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = st.integers(0, len(sizes) - 1)
    axes = st.lists(axis, unique=True).map(tuple)
    factors = draw(st.lists(axes, min_size=1, max_size=4))
    gone = draw(st.lists(axis, unique=True, min_size=1))
    return sizes, factors, tuple(gone), draw(st.booleans())


@pytest.mark.slow
@settings(max_examples=200)
@given(contractions(), st.integers(0, 99))
def test_contractions_are_einsum(case: tuple, seed: int) -> None:
    sizes, factors, gone, is_int = case
    rng = np.random.default_rng(seed)
    to = shape(*sizes)
    dtype = i32 if is_int else f64
    arrays, edges = {}, []
    for i, axes in enumerate(factors):
        extents = [sizes[a] for a in axes]
        arrays[f"x{i}"] = rng.integers(-3, 4, extents).astype(dtype.numpy)
        edges.append(at(given_as(f"x{i}", dtype, *extents), to, *axes))
    product = edges[0]
    for e in edges[1:]:
        product = both(product, e)
    left = "".join(AXES[a] for a in range(len(sizes)) if a not in gone)
    names = ["".join(AXES[a] for a in axes) for axes in factors]
    every = AXES[: len(sizes)]
    wanted = np.einsum(
        f"{','.join([*names, every])}->{left}", *arrays.values(), np.ones(sizes, dtype.numpy)
    )
    proven(total(product, *gone), np.asarray(wanted), **arrays)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_conditions_on_positions(data: st.DataObject) -> None:
    """Sums under random conjunctions of comparisons of positions, offsets and data."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    to = shape(*sizes)
    rank = len(sizes)
    axis = st.integers(0, rank - 1)
    arrays = {"x": floats(*sizes)}

    def integer() -> Edge:
        kind = data.draw(st.sampled_from(("iota", "const", "add", "mul", "data")))
        if kind == "iota":
            d = data.draw(axis)
            return at(iota(ix(sizes[d]), i32), to, d)
        if kind == "add":
            return edge(binary(Op.ADD, integer(), integer()))
        if kind == "mul":
            factor = everywhere(data.draw(st.integers(-2, 2)), i32, to)
            return edge(binary(Op.MUL, integer(), factor))
        if kind == "data":
            d, name = data.draw(axis), f"f{len(arrays)}"
            values = data.draw(st.lists(st.integers(-2, 5), min_size=sizes[d], max_size=sizes[d]))
            arrays[name] = np.array(values, np.int32)
            return at(given_as(name, i32, sizes[d]), to, d)
        return everywhere(data.draw(st.integers(-2, 5)), i32, to)

    def condition() -> Edge:
        kind = data.draw(st.sampled_from(("less", "less", "equal", "not", "both")))
        if kind == "not":
            return negated(condition())
        if kind == "both":
            return both(condition(), condition())
        return (less if kind == "less" else equal)(integer(), integer())

    value = at(given_as("x", f32, *sizes), to, *range(rank))
    if data.draw(st.booleans()):
        arrays["x"].flat[0] = np.inf
    for _ in range(data.draw(st.integers(1, 3))):
        value = both(condition(), value)
    gone = data.draw(st.lists(axis, min_size=1, max_size=rank, unique=True))
    n = total(value, *gone)
    np.testing.assert_allclose(run(n, **arrays), run(n, brute=True, **arrays), rtol=1e-6)


# --- the other nodes ------------------------------------------------------------------------------


def test_scan_stacks_the_carries() -> None:
    carry, element = given_as("carry", f32, 2), given_as("element", f32, 2)
    total_so_far = binary(Op.ADD, edge(carry), edge(element))
    body = Graph((carry, element), (("out", edge(total_so_far)),))
    x, start = given_as("x", f32, 2, 5), given_as("start", f32, 2)
    n = scan(ScanLoop(1, body, "sum", ix(5)), (edge(start), edge(x)))
    values, first = floats(2, 5), floats(2, seed=1)
    np.testing.assert_allclose(
        run(n, x=values, start=first), first[:, None] + np.cumsum(values, 1), rtol=1e-5
    )


def test_random_bits_are_philox() -> None:
    """Known answers of the authors' Random123 for Philox 4x32-10, and independence of shape."""
    assert bits(0, 0, (1,), np.int64).view(np.uint64)[0] == 0xE169C58D_6627E8D5
    assert bits(7, 1, (4, 6), np.int32).ravel().tolist() == bits(7, 1, (24,), np.int32).tolist()
    key = given_as("key", i64)
    draws = [node(Op.RANDOM, (edge(key),), RandomStream(s), shape(1000), i32) for s in (1, 2)]
    a, b = (run(n, key=np.array(5)) for n in draws)
    assert a.dtype == np.int32
    assert (a != b).mean() > 0.99
    assert abs(a.astype(np.float64).mean()) < 2**31 * 0.1


@pytest.mark.slow
def test_values_are_dropped_after_their_last_use() -> None:
    """A long chain over 8 MB arrays stays far below the sum of its values."""
    n = given_as("x", f32, 2**20)
    for _ in range(60):
        n = unary(Op.SIN, edge(binary(Op.ADD, edge(n), everywhere(1.0, f32, n.shape))))
    x = np.zeros(2**20, np.float32)
    tracemalloc.start()
    run(n, x=x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20 * 6


def test_transposed_operands_of_sums() -> None:
    x = floats(3, 4)
    n = given_as("x", f32, 3, 4)
    turned = Edge(binary(Op.MUL, edge(n), edge(n)), permute(n.shape, (1, 0)))
    proven(total(turned, 0), (x * x).sum(1), x=x)


def test_what_does_not_vary_is_multiplied_where_it_is_infinite() -> None:
    """sum_i x[i] * y[j] is y[j] * sum_i x[i], but not beside infinities, whose products differ in sign."""
    to = shape(3, 3)
    n = total(both(at(given_as("x", f32, 3), to, 0), at(given_as("y", f32, 3), to, 1)), 0)
    x, y = np.array([1, -2, 3], np.float32), np.array([2, -np.inf, np.inf], np.float32)
    with np.errstate(invalid="ignore"):
        proven(n, (x[:, None] * y).sum(0), x=x, y=y)
