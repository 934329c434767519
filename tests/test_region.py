"""Region expressions: one spelling of each idea; their interpreter, printer and verifier."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from exprs import (
    INF,
    add,
    at_most,
    axis,
    div,
    exp,
    largest,
    load,
    maximum,
    mul,
    negated,
    num,
    scaled,
    shuffled,
    sub,
    total,
    where,
)
from hypothesis import given

from lumigen.condition import Cmp, less
from lumigen.described import LONGEST
from lumigen.dtype import bf16, boolean, f16, f32, i8, i32, i64, u8
from lumigen.errors import VerifyFailed
from lumigen.index import Axis, Dim, Ix, ix, lookup
from lumigen.interp.region import elements, evaluate, value
from lumigen.lower.algebra import greatest
from lumigen.lower.separate import separate
from lumigen.ops import Op
from lumigen.plan import LoopFold
from lumigen.printer.region import show, show_fold
from lumigen.printer.tile import LONG
from lumigen.printer.tile import show_expr as in_one_line
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Monoid,
    Prim,
    Read,
    Reduce,
    Region,
    Role,
    Store,
    as_index,
    carried,
    choose,
    const,
    holds,
    index,
    local,
    negation,
    prim,
    read,
    reduce,
    scan,
    substitute,
    walk,
)
from lumigen.verify.region import implied, inside, reached, verify, verify_fold

i, j, k = axis("i", 6), axis("j", 5), axis("k", 4)


def buffer(
    name: str, *extents: int | Dim, role: Role = Role.INPUT, dtype=f32, range=None
) -> Buffer:
    return Buffer(name, role, tuple(ix(e) for e in extents), dtype, range)


def equal(a: Axis | Ix, b: Axis | Ix) -> Expr:
    return mul(at_most(a, b), at_most(b, a))


# ---- selects ----


def test_where_is_one_choice() -> None:
    a, b = load("A", i), load("B", i)
    c = at_most(i, 3)
    assert where(c, a, b) is choose(c, a, b)
    assert add(mul(negated(c), b), mul(c, a)) is choose(negation(c), b, a)
    wanted = prim(Op.LESS_THAN, (a, b), boolean)
    assert where(wanted, a, b) is choose(wanted, a, b)
    assert where(negated(wanted), a, b).condition in (wanted, negated(wanted))


def test_a_choice_inside_one_of_the_same_condition_is_made() -> None:
    a, b, other = load("A", i), load("B", i), load("C", i)
    c = at_most(i, 3)
    assert choose(c, choose(c, a, other), b) is choose(c, a, b)
    assert choose(c, choose(c, a, b), b) is choose(c, a, b)


def test_a_select_stands_alone_without_its_mirror() -> None:
    a, b = load("A", i), load("B", i)
    out = add(mul(at_most(i, 3), a), mul(at_most(i, 2), b))
    assert isinstance(out, Prim)
    assert out.op is Op.ADD


def test_a_mask_has_one_spelling() -> None:
    x = load("X", i, j)
    kept = where(at_most(j, i), x, num(-INF))
    assert where(at_most(ix(i) + 1, j), num(-INF), x) is kept
    assert where(negated(at_most(j, i)), num(-INF), x) is kept
    assert largest(where(at_most(ix(i) + 1, j), num(-INF), x), j) is largest(kept, j)


def test_negations_cancel() -> None:
    c = at_most(i, j)
    assert negation(negation(c)) is c
    other = prim(Op.LESS_THAN, (load("A", i), num(0)), boolean)
    assert negated(negated(other)) is other


def test_comparisons_that_types_decide() -> None:
    """A compiler warns of them."""
    byte = prim(Op.CONTIGUOUS, (load("x", axis("i", 5)),), u8)
    wide = prim(Op.CONTIGUOUS, (byte,), i64)
    bit = prim(
        Op.CONTIGUOUS, (prim(Op.LESS_THAN, (load("x", axis("i", 5)), num(0)), boolean),), i32
    )

    def below(a: Expr, b: Expr) -> bool | None:
        found = prim(Op.LESS_THAN, (a, b), boolean)
        return bool(found.value) if isinstance(found, Const) else None

    for e, least, most in ((byte, 0, 255), (wide, 0, 255), (bit, 0, 1)):
        assert below(e, const(least, e.dtype)) is False
        assert below(const(most, e.dtype), e) is False
        assert below(e, const(least + 1, e.dtype)) is None
        assert below(const(most - 1, e.dtype), e) is None
    assert below(wide, const(256, i64)) is True
    assert below(const(-1, i64), wide) is True
    narrow = prim(Op.CONTIGUOUS, (wide,), i8)  # wraps around
    assert below(narrow, const(0, i8)) is None


def test_only_minus_zero_is_an_identity_of_add() -> None:
    a = load("A", i)
    assert add(a, num(-0.0)) is a
    assert add(a, num(0.0)) is not a


# ---- guards ----


def test_guards_move_into_the_reduction() -> None:
    x = load("X", i, j)
    for body, r in (
        (mul(at_most(j, i), x), total),
        (where(at_most(j, i), x, num(0)), total),
        (where(at_most(j, i), x, num(-INF)), largest),
    ):
        out = r(body, j)
        assert isinstance(out, Reduce)
        assert out.body is x
        assert out.where == at_most(j, i).conditions
    kept = largest(where(at_most(j, i), x, num(0)), j)
    assert isinstance(kept, Reduce)
    assert isinstance(kept.body, Choose)


def test_what_a_conjunction_or_a_count_asks_of_axes_moves_into_the_reduction() -> None:
    x, bounds = load("X", i, j), at_most(j, i)
    other = prim(Op.LESS_THAN, (load("Y", j), num(0)), boolean)
    both = mul(bounds, other)
    for body, rest, r in (
        (where(both, x, num(0)), where(other, x, num(0)), total),
        (where(both, x, num(-INF)), where(other, x, num(-INF)), largest),
    ):
        out = r(body, j)
        assert isinstance(out, Reduce)
        assert (out.where, out.body) == (bounds.conditions, rest)
    for body, rest in ((bounds, const(1, i64)), (both, prim(Op.CONTIGUOUS, (other,), i64))):
        count = reduce(Monoid.SUM, (j,), prim(Op.CONTIGUOUS, (body,), i64), i64)
        assert isinstance(count, Reduce)
        assert (count.where, count.body) == (bounds.conditions, rest)
    any_of = reduce(Monoid.MAX, (j,), bounds, boolean)
    assert isinstance(any_of, Reduce)
    assert (any_of.where, any_of.body) == (bounds.conditions, const(True, boolean))


# ---- sifting ----


def numbers(name: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(name)).normal(size=shape)


def test_a_sum_over_an_indicator_reads_one_element() -> None:
    ids = buffer("IDS", 6, dtype=i32, range=(0, 4))
    found = lookup(ids, (ix(i),), 0, 4)
    out = total(mul(equal(j, found), load("X", j, k)), j)
    assert isinstance(out, Read)
    assert out.at[0] is found


def test_so_does_one_over_a_product_with_an_indicator() -> None:
    """Of a matrix in 16 bits that is one where two positions are equal, scaled, times another one."""
    one = prim(Op.CONTIGUOUS, (equal(j, i),), bf16)
    scaled_one = prim(Op.CONTIGUOUS, (prim(Op.CONTIGUOUS, (mul(one, load("D", j)),), bf16),), f32)
    out = total(mul(scaled_one, load("X", j, k)), j)
    assert not any(isinstance(x, Reduce) for x in walk([out]))
    x, d = numbers("X", 5, 4).astype(np.float32), np.array([1, 2, 4, -1, 0], np.float32)
    got = value(out, (i, k), {"X": x, "D": d}, {})
    np.testing.assert_array_equal(got, [*(x * d[:, None]), [0] * 4])


def test_out_of_range_contributes_nothing() -> None:
    ids = buffer("IDS", 6, dtype=i32)
    out = total(mul(equal(j, lookup(ids, (ix(i),))), load("X", j)), j)
    assert not any(isinstance(x, Reduce) for x in walk([out]))
    x = numbers("X", 5)
    at = np.array([0, -1, 4, 5, 2**31 - 1, -(2**31)], np.int32)
    got = value(out, (i,), {"X": x, "IDS": at}, {})
    np.testing.assert_array_equal(got, [x[0], 0, x[4], 0, 0, 0])


def test_an_index_that_counts_from_the_end_reads_one_element() -> None:
    at = np.array([0, -1, 4, -5, 5, -6], np.int64)
    x, expected = numbers("X", 5), [0, -1, 4, -5, None, None]
    for bounds in (None, (-5, 4)):  # the latter needs no condition
        ids = buffer("IDS", 6, dtype=i64, range=bounds)
        found = read(ids, (ix(i),))
        negative = prim(Op.LESS_THAN, (found, const(0, i64)), boolean)
        wrapped = choose(negative, prim(Op.ADD, (found, const(5, i64)), i64), found)
        place = index(ix(j), i64)
        above, below = (
            prim(Op.LESS_THAN, pair, boolean) for pair in ((place, wrapped), (wrapped, place))
        )
        out = total(mul(mul(negated(above), negated(below)), load("X", j)), j)
        assert not any(isinstance(e, Reduce) for e in walk([out]))
        assert isinstance(out, Choose if bounds is None else Read)
        given = at if bounds is None else np.array([0, -1, 4, -5, 3, 2], np.int64)
        wanted = [0 if n is None else x[n] for n in expected] if bounds is None else x[given]
        np.testing.assert_array_equal(value(out, (i,), {"X": x, "IDS": given}, {}), wanted)


def test_clamped_integers_are_indices() -> None:
    found = read(buffer("IDS", 6, dtype=i64), (ix(i),))
    at = np.array([0, -1, 4, -5, 5, 100], np.int64)

    def below(a: Expr, b: Expr) -> Expr:
        return prim(Op.LESS_THAN, (a, b), boolean)

    zero, four = const(0, i64), const(4, i64)
    low = choose(below(found, zero), zero, found)
    both = choose(below(four, low), four, low)
    mirrored = choose(negation(below(low, four)), four, low)
    for e in (both, mirrored):
        inside = as_index(e)
        assert inside is not None
        assert inside.bounds() == (0, 4)
        np.testing.assert_array_equal(value(e, (i,), {"IDS": at}, {}), at.clip(0, 4))
        again = prim(Op.ADD, (e, const(1, i64)), i64)
        assert isinstance(again, Index)
        np.testing.assert_array_equal(value(again, (i,), {"IDS": at}, {}), at.clip(0, 4) + 1)
    other = read(buffer("OTHER", 6, dtype=i64), (ix(i),))
    assert as_index(choose(below(found, zero), other, found)) is None


@given(st.integers(-3, 3), st.integers(-8, 8), st.booleans(), st.integers(-4, 9))
def test_sifting_equals_the_sum(slope: int, shift: int, guarded: bool, limit: int) -> None:
    target = ix(i) * slope + shift
    conditions = [less(-1, target - j), less(-1, ix(j) - target)]
    if guarded:
        conditions.append(less(j, ix(limit)))
    out = total(load("X", j, k), j, where=tuple(conditions))
    assert not any(isinstance(x, Reduce) for x in walk([out]))
    x = numbers("X", 5, 4)
    expected = np.zeros((6, 4))
    for at_i in range(6):
        at = slope * at_i + shift
        if 0 <= at < 5 and not (guarded and at >= limit):
            expected[at_i] = x[at]
    np.testing.assert_array_equal(value(out, (i, k), {"X": x}, {}), expected)


def test_sifting_one_of_two_axes() -> None:
    out = total(mul(equal(j, ix(k)), load("X", i, j, k)), j, k)
    assert isinstance(out, Reduce)
    assert out.axes == (k,)
    x = numbers("X", 6, 5, 4)
    np.testing.assert_allclose(
        value(out, (i,), {"X": x}, {}), np.einsum("ijj->i", x[:, :4, :]), 1e-12
    )


# ---- substitution ----


def test_bound_axes_are_not_replaced() -> None:
    inner = total(load("X", i, j), j)
    assert substitute(inner, {j: ix(0)}) is inner
    both = add(inner, load("Y", j))
    got = substitute(both, {j: ix(i)})
    assert got is add(inner, read(buffer("Y", 5), (ix(i),)))
    moved = substitute(inner, {i: ix(k), j: ix(2)})
    assert moved is total(read(buffer("X", 6, 5), (ix(k), ix(j))), j)


def test_bound_axes_do_not_capture() -> None:
    """sum_j X[i, j] at i = j must not become a trace."""
    inner = total(load("X", i, j), j)
    moved = substitute(inner, {i: ix(j)})
    x = numbers("X", 6, 5)
    np.testing.assert_allclose(value(moved, (j,), {"X": x}, {}), x.sum(1)[:5], 1e-12)


def test_sifting_does_not_capture() -> None:
    """sum_i [i = j] (sum_j X[i, j]): the index put in names the axis that is bound inside."""
    body = total(load("X", i, j), j)
    out = total(mul(equal(i, ix(j)), body), i)
    x = numbers("X", 6, 5)
    np.testing.assert_allclose(value(out, (j,), {"X": x}, {}), x.sum(1)[:5], 1e-12)


# ---- the interpreter ----


def padded_convolution() -> Expr:
    """Y[o, i] = sum_{c, r} W[o, c, r] X[c, 2 i + r - 1], absent outside."""
    c, r = axis("c", 3), axis("r", 3)
    at = ix(i) * 2 + r - 1
    inside = holds((less(-1, at), less(at, ix(11))))
    x = choose(inside, read(buffer("X", 3, 11), (ix(c), at)), num(-0.0))
    return total(mul(load("W", j, c, r), x), c, r)


def test_a_convolution_with_padding() -> None:
    out = padded_convolution()
    x, w = numbers("X", 3, 11), numbers("W", 5, 3, 3)
    wide = np.pad(x, ((0, 0), (1, 2)))
    windows = np.stack([wide[:, 2 * n : 2 * n + 3] for n in range(6)])
    expected = np.einsum("ocr,ncr->no", w, windows)
    np.testing.assert_allclose(value(out, (i, j), {"X": x, "W": w}, {}), expected, 1e-12)


EXPRESSIONS: tuple[tuple[Expr, tuple[Axis, ...]], ...] = (
    (padded_convolution(), (i, j)),
    (total(mul(load("A", i, k), load("B", k, j)), k), (i, j)),
    (total(mul(load("A", i, k), load("B", k, j)), k, where=(less(k, i),)), (j, i)),
    (total(mul(load("A", i, k), load("B", k, j)), k, j), (i,)),
    (total(mul(num(2), load("C", i)), k), (i,)),
    (total(load("A", i, k), k, where=(less(i, ix(2)),)), (i,)),
    (total(index(ix(i) * 3 + j, i64), i, j), ()),
    (largest(load("A", i, k), k, where=(less(k, i),)), (i,)),
    (total(mul(load("A", i, k), total(mul(load("A", i, k), load("C", i)), i)), k), (i,)),
)


@pytest.mark.parametrize("case", range(len(EXPRESSIONS)))
@pytest.mark.parametrize("seed", range(3))
def test_shortcuts_equal_brute_force(case: int, seed: int) -> None:
    expr, axes = EXPRESSIONS[case]
    buffers = {
        x.source.name: numbers(x.source.name, *(int(d.const) for d in x.source.dims))
        for x in walk([expr])
        if isinstance(x, Read)
    }
    brute = value(expr, axes, buffers, {}, brute=True)
    (again,) = shuffled((expr,), seed)
    np.testing.assert_allclose(value(again, axes, buffers, {}), brute, 1e-12, 1e-12)


def test_what_is_excluded_does_not_leak() -> None:
    a, b = np.ones((6, 4)), np.ones((4, 5))
    b[2:] = np.nan
    out = total(mul(load("A", i, k), load("B", k, j)), k, where=(less(k, ix(2)),))
    np.testing.assert_array_equal(value(out, (i, j), {"A": a, "B": b}, {}), np.full((6, 5), 2.0))


def test_casts_and_stores_round() -> None:
    x = load("X", i)
    narrow = prim(Op.CONTIGUOUS, (prim(Op.CONTIGUOUS, (x,), bf16),), f32)
    data = np.array([1.00390625, 1e39, 3, -0.1, 0, 7])
    got = value(narrow, (i,), {"X": data}, {})
    np.testing.assert_array_equal(got, [1, np.inf, 3, -0.10009765625, 0, 7])
    out = buffer("OUT", 6, role=Role.OUTPUT, dtype=f16)
    stored = evaluate(
        Region(
            (
                Store(
                    out,
                    (i,),
                    (ix(i),),
                    scaled(x, 1),
                ),
            )
        ),
        {"X": data},
        {},
    )
    assert stored["OUT"].dtype == np.float16
    assert stored["OUT"][3] == np.float16(-0.1)


def test_stores_in_part_collide_and_fall_outside() -> None:
    state = buffer("S", 6, role=Role.STATE)
    ids = buffer("IDS", 5, dtype=i32)
    at = lookup(ids, (ix(j),))
    region = Region(
        (
            Store(state, (j,), (ix(j) + 1,), num(7)),
            Store(state, (j,), (at,), load("X", j)),
        )
    )
    given = {"S": np.arange(6.0), "X": np.arange(5.0), "IDS": np.array([0, 0, 9, -1, 5], np.int32)}
    np.testing.assert_array_equal(evaluate(region, given, {})["S"], [1, 7, 7, 7, 7, 4])
    some = elements(region, state, np.array([5, 0, 0, 2]), given, {})
    np.testing.assert_array_equal(some, [4, 1, 1, 7])


class Watched:
    """An array that knows how many of its elements were read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.count = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, at: tuple[np.ndarray, ...]) -> np.ndarray:
        found = self.array[at]
        self.count += np.size(found)
        return found


@pytest.mark.parametrize("case", range(len(EXPRESSIONS)))
def test_some_elements_are_those_of_the_whole(case: int) -> None:
    expr, axes = EXPRESSIONS[case]
    out = Buffer("OUT", Role.OUTPUT, tuple(a.extent for a in axes), expr.dtype)
    region = Region((Store(out, axes, tuple(ix(a) for a in axes), expr),))
    given = {b.name: numbers(b.name, *(int(d.const) for d in b.dims)) for b in region.reads()}
    whole = evaluate(region, given, {})["OUT"].reshape(-1)
    given["OUT"] = np.zeros([int(a.extent.const) for a in axes])
    for wanted in ([0], [whole.size - 1, 0, 0, whole.size // 2], [*range(whole.size)], []):
        at = np.array(wanted, np.int64)
        np.testing.assert_allclose(elements(region, out, at, given, {}), whole[at], 1e-6)


def test_some_elements_read_only_what_they_depend_on() -> None:
    a, b = load("A", i, k), load("B", k, j)
    out = buffer("OUT", 6, 5, role=Role.OUTPUT)
    region = Region((Store(out, (i, j), (ix(i), ix(j)), total(mul(a, b), k)),))
    given = {n: Watched(numbers(n, *s)) for n, s in {"A": (6, 4), "B": (4, 5)}.items()}
    given["OUT"] = Watched(np.zeros((6, 5)))
    elements(region, out, np.array([7, 29]), given, {})
    assert {name: w.count for name, w in given.items()} == {"A": 8, "B": 8, "OUT": 2}


def test_an_empty_buffer_has_no_elements() -> None:
    n = Dim("n", 0, 4)
    t = Axis("t", ix(n))
    out = buffer("OUT", n, 3, role=Role.OUTPUT)
    region = Region((Store(out, (t, k), (ix(t), ix(k)), load("X", t)),))
    given = {"OUT": np.zeros((0, 3)), "X": np.zeros(0)}
    assert elements(region, out, np.arange(0), given, {n: 0}).size == 0


def test_dynamic_dims() -> None:
    length = Dim("length", 1, 9)
    t = Axis("t", ix(length))
    out = total(read(buffer("X", length), (ix(t),)), t)
    assert value(out, (), {"X": np.arange(7.0)}, {length: 7}) == 21


def test_a_scan_has_the_state_of_each_place() -> None:
    step = add(scaled(carried(0, "old", f32), 0.5), load("X", i, j))
    out = scan(i, num(1), step)
    x = numbers("X", 6, 5)
    expected = [np.ones(5)]
    for row in x:
        expected.append(expected[-1] * 0.5 + row)
    np.testing.assert_allclose(value(out, (i, j), {"X": x}, {}), expected[1:], 1e-12)


# ---- printer and verifier ----


def normalised() -> Region:
    x = load("X", i, j)
    p = exp(sub(x, largest(x, j)))
    out = buffer("OUT", 6, 5, role=Role.OUTPUT)
    return Region((Store(out, (i, j), (ix(i), ix(j)), div(p, total(p, j))),))


def test_text_of_a_region() -> None:
    assert show(normalised()) == (
        "%0 = max over (j) of X[i, j]: f32\n"
        "%1 = mul %0, -1: f32\n"
        "%2 = add X[i, j], %1: f32\n"
        "%3 = mul %2, 1.44269504: f32\n"
        "%4 = exp2 %3: f32\n"
        "%5 = sum over (j) of %4: f32\n"
        "%6 = recip %5: f32\n"
        "%7 = mul %4, %6: f32\n"
        "store OUT[i, j] over (i, j) = %7\n"
    )


def test_text_of_a_fold() -> None:
    fold = separate((normalised().stores[0].value,), (j,))
    assert isinstance(fold, LoopFold)
    assert show_fold(verify_fold(fold)) == (
        "fold over (j)\n"
        "  #0 = max(#0.old, X[i, j])\n"
        "  %0 = less_than #0.new, -3.40282347e+38: bool\n"
        "  %1 = 0 if %0 else #0.new\n"
        "  %2 = mul %1, -1: f32\n"
        "  %3 = add X[i, j], %2: f32\n"
        "  %4 = mul %3, 1.44269504: f32\n"
        "  %5 = exp2 %4: f32\n"
        "  %6 = add #0.old, %2: f32\n"
        "  %7 = mul %6, 1.44269504: f32\n"
        "  %8 = exp2 %7: f32\n"
        "  #1 = sum(#1.old * %8, %5)\n"
        "%9 = nan if %0 else #1.new\n"
        "%10 = max over (j) of X[i, j]: f32\n"
        "%10 is #0.new\n"
        "%11 = mul %10, -1: f32\n"
        "%12 = add X[i, j], %11: f32\n"
        "%13 = mul %12, 1.44269504: f32\n"
        "%14 = exp2 %13: f32\n"
        "%15 = sum over (j) of %14: f32\n"
        "%15 is %9\n"
    )


def stored(e: Expr, *axes: Axis, dtype=f32) -> Region:
    out = Buffer("OUT", Role.OUTPUT, tuple(a.extent for a in axes), dtype)
    return Region((Store(out, axes, tuple(ix(a) for a in axes), e),))


def unproven_reads(region: Region) -> tuple[Read, ...]:
    """The reads that no proof keeps inside their buffers: lookups of unknown range, as a rule."""
    found: dict[Read, None] = {}
    for store in region.stores:
        for e, known in reached([store.value]):
            if any(not implied(c, known) for c in inside(e)):
                found[e] = None
    return tuple(found)


def test_what_is_right_verifies() -> None:
    region = normalised()
    assert verify(region) is region
    assert not unproven_reads(region)
    assert not unproven_reads(verify(stored(padded_convolution(), i, j)))
    ids = buffer("IDS", 6, dtype=i32)
    gathered = total(mul(equal(j, lookup(ids, (ix(i),))), load("X", j)), j)
    assert not unproven_reads(verify(stored(gathered, i)))
    step = add(carried(0, "old", f32), load("X", i))
    verify(stored(scan(i, num(0), step), i))


def test_a_lookup_of_unknown_range_is_unproven() -> None:
    at = lookup(buffer("IDS", 6, dtype=i32), (ix(i),))
    region = stored(read(buffer("X", 5), (at,)), i)
    assert [str(r.source) for r in unproven_reads(verify(region))] == ["X"]


def raw(op: Op, *args: Expr, dtype=f32) -> Expr:
    return Prim(op, args, dtype)


@pytest.mark.parametrize(
    ("region", "what"),
    [
        (stored(load("X", i, j), i), "nothing binds j"),
        (stored(carried(0, "old", f32)), "a state outside any fold"),
        (stored(read(buffer("X", 5), (ix(j) + 5,)), j), "is outside"),
        (stored(read(buffer("X", 5), (ix(j) - 5,)), j), "is outside"),
        (stored(raw(Op.ADD, load("X", i), const(1, i32)), i), "add of f32, i32"),
        (stored(raw(Op.EXP2, const(1, i32), dtype=i32), dtype=i32), "exp2 of i32"),
        (stored(load("X", i), i, dtype=i32), "a value of f32 in a buffer of i32"),
        (stored(Choose(num(1), num(2), num(3), f32)), "a choice by f32"),
        (stored(Reduce(Monoid.SUM, (), (), num(1), f32, f32)), "over no axis"),
        (stored(raw(Op.SCAN, num(1))), "no elementwise primitive"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_wrong_does_not_verify(region: Region, what: str) -> None:
    with pytest.raises(VerifyFailed, match=what):
        verify(region)


def test_greatest_is_seen_as_the_frontend_spells_it() -> None:
    a, b = load("A", i), load("B", i)
    assert set(greatest(maximum(a, b)) or ()) == {a, b}
    smaller = prim(Op.LESS_THAN, (a, b), boolean)
    assert set(greatest(choose(smaller, b, a)) or ()) == {a, b}
    assert greatest(choose(smaller, a, b)) is None
    assert greatest(choose(smaller, a, num(0))) is None


def test_holds_keeps_what_is_not_known() -> None:
    assert holds((less(i, ix(6)),)) is const(True, boolean)
    assert holds((less(i, ix(0)),)) is const(False, boolean)
    assert isinstance(holds((less(i, ix(3)), less(-1, ix(i)))), Holds)
    assert reduce(Monoid.SUM, (i,), load("X", i), f32, (Cmp(ix(i)),)) is total(load("X", i), i)


def doubled(times: int) -> Expr:
    """x + sin(x), of that again, and so on: written out it has `2**times` reads."""
    e = load("X", i)
    for _ in range(times):
        e = add(e, prim(Op.SIN, (e,), f32))
    return e


def test_the_repr_of_a_short_expression_has_all_of_its_fields() -> None:
    e = reduce(Monoid.SUM, (i,), load("X", i), f32)
    a = "Axis(name='i', extent=Ix(6))"
    source = "Buffer(name='X', role=<Role.INPUT: 'input'>, dims=(Ix(6),), dtype=lg.f32, range=None)"
    body = f"Read(source={source}, at=(Ix(i),), dtype=lg.f32)"
    start = f"Reduce(monoid=<Monoid.SUM: 'sum'>, axes=({a},), where=(), body={body}"
    assert repr(e) == f"{start}, acc=lg.f32, dtype=lg.f32)"
    assert repr(local("t", frozenset({i, Axis("a", ix(2))}), f32)) == (
        f"Local(name='t', axes={{Axis(name='a', extent=Ix(2)), {a}}}, dtype=lg.f32)"
    )


def test_what_is_shared_many_times_is_written_within_a_bound() -> None:
    e = doubled(200)
    out = Buffer("out", Role.OUTPUT, (ix(6),), f32)
    region = Region((Store(out, (i,), (ix(i),), e),))
    assert repr(e) == repr(doubled(200))
    assert len(repr(e)) == LONGEST + len("...")
    assert len(repr(region)) < LONGEST + 500
    assert len(show(region).splitlines()) == 401
    line = in_one_line(e)
    assert len(line) < 400 * LONG
    assert line.startswith("(%")
    assert " with %0 = " in line
    assert in_one_line(doubled(2)) == "((X[i] + sin(X[i])) + sin((X[i] + sin(X[i]))))"
