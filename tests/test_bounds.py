"""Loop bounds: no wanted point is outside, and none inside fails a condition that was dropped."""

from __future__ import annotations

from itertools import product

import hypothesis.strategies as st
from exprs import INF, add, at_most, axis, exp, largest, load, mul, num, scaled, sub, where
from hypothesis import given

from lumigen.condition import Cmp, less
from lumigen.dtype import i32, i64
from lumigen.index import Axis, Dim, Ix, ix, lookup, minimum
from lumigen.lower.bounds import absent_unless, chosen_in_tile, extreme, loop_bounds
from lumigen.region import Buffer, Monoid, Role, choose, holds

k = Axis("k", ix(64))
q = Axis("q", ix(40))
tile = Axis("t", ix(5))


def le(a: Ix | Axis | int, b: Ix | Axis | int) -> Cmp:
    return less(ix(a), ix(b) + 1)


def test_causal_by_row() -> None:
    b = loop_bounds((le(k, q),), k)
    assert (str(b.lo), str(b.hi), b.residual) == ("0", "q + 1", ())


def test_causal_by_tile_keeps_the_test_for_the_diagonal() -> None:
    """Rows of a tile need the keys of its last row."""
    first = ix(tile) * 8
    b = loop_bounds((le(k, q),), k, {q: (first, first + 7)})
    assert str(b.hi) == "8*t + 8"
    assert b.residual == (le(k, q),)


def test_window_by_tile() -> None:
    first = ix(tile) * 8
    conditions = (le(k, q), le(ix(q) - 10, k))
    b = loop_bounds(conditions, k, {q: (first, first + 7)})
    assert str(b.lo) == "max(0, 8*t - 10)"
    assert str(b.hi) == "8*t + 8"
    assert b.residual == conditions


def test_cache_length_and_position() -> None:
    """A step at a position: keys up to the position that a scalar input holds."""
    position = lookup(Buffer("pos", Role.INPUT, (), i32, (0, 63)), (), 0, 63)
    b = loop_bounds((le(k, position + q),), k, {q: (ix(0), ix(3))})
    assert str(b.hi) == "min(64, pos[] + 4)"


def test_symbolic_length() -> None:
    length = Dim("length", 1, 64)
    b = loop_bounds((less(k, length),), k)
    assert str(b.hi) == "length"
    assert b.residual == ()


def test_conditions_on_other_axes_remain() -> None:
    c = le(q, 7)
    assert loop_bounds((c,), k).residual == (c,)


def test_quotients_and_steps() -> None:
    first = ix(tile) * 8
    blocked = le(k, ix(q) // 4 * 4 + 3)
    assert str(loop_bounds((blocked,), k, {q: (first, first + 7)}).hi) == "8*t + 8"
    strided = le(ix(k) * 3, q)
    b = loop_bounds((strided,), k)
    assert str(b.hi) == "((q)//3) + 1"
    assert b.residual == ()


coefficient = st.integers(-3, 3)


@given(
    st.lists(st.tuples(coefficient, coefficient, st.integers(-20, 60)), min_size=1, max_size=3),
    st.integers(0, 39),
    st.integers(0, 12),
)
def test_bounds_are_a_hull(rows: list[tuple[int, int, int]], first: int, length: int) -> None:
    conditions = tuple(Cmp(ix(k) * a + ix(q) * b + c) for a, b, c in rows)
    last = min(39, first + length)
    b = loop_bounds(conditions, k, {q: (ix(first), ix(last))})
    lo, hi = b.lo.evaluate({}), b.hi.evaluate({})
    for at_k, at_q in product(range(64), range(first, last + 1)):
        env = {k: at_k, q: at_q}
        wanted = all(c.slack.evaluate(env) >= 0 for c in conditions)
        kept = lo <= at_k < hi and all(c.slack.evaluate(env) >= 0 for c in b.residual)
        assert wanted == kept


def test_extreme_of_a_minimum_is_unknown() -> None:
    assert extreme(minimum(q, ix(k) + 3), {q: (ix(0), ix(7))}, highest=True) is None


# ---- conditions of tiles and of lanes ----


@given(
    st.lists(st.tuples(coefficient, coefficient, st.integers(-60, 60)), min_size=1, max_size=2),
    st.integers(0, 39),
    st.integers(0, 12),
    st.integers(0, 63),
    st.integers(0, 9),
)
def test_a_choice_is_made_once_for_a_tile_only_where_every_point_makes_it(
    rows: list[tuple[int, int, int]], first: int, length: int, first_k: int, length_k: int
) -> None:
    conditions = tuple(Cmp(ix(k) * a + ix(q) * b + c) for a, b, c in rows)
    last, last_k = min(39, first + length), min(63, first_k + length_k)
    masked = choose(holds(conditions), load("S", q, k), num(-INF))
    ranges = {q: (ix(first), ix(last)), k: (ix(first_k), ix(last_k))}
    chosen, asked = chosen_in_tile([masked], {}, ranges)
    if not chosen:
        return
    assert chosen == {masked: load("S", q, k)}
    points = product(range(first, last + 1), range(first_k, last_k + 1))
    everywhere = all(
        c.slack.evaluate({q: at_q, k: at_k}) >= 0 for at_q, at_k in points for c in conditions
    )
    assert all(c.slack.evaluate({}) >= 0 for c in asked) == everywhere


def test_a_causal_tile_is_asked_for_its_last_key() -> None:
    """Where several rows share keys as well: row q is of token q // 4."""
    t0, k0 = Axis("t0", ix(40)), Axis("k0", ix(64))
    s = load("S", q, k)
    masked = choose(holds((le(k, ix(q) // 4),)), s, num(-INF))
    ranges = {q: (ix(t0), ix(t0) + 7), k: (ix(k0), ix(k0) + 3)}
    chosen, asked = chosen_in_tile([masked], {}, ranges)
    assert chosen == {masked: s}
    assert asked == (le(ix(k0) + 3, ix(t0) // 4),)


@given(
    st.integers(1, 9),
    st.sampled_from([1, -1, 2, -2]),
    st.tuples(coefficient, coefficient, st.integers(-20, 60)),
)
def test_a_quotient_is_multiplied_out(by: int, factor: int, rest: tuple[int, int, int]) -> None:
    a, b, c = rest
    asked = Cmp((ix(q) * b + c) // by * factor + ix(k) * a)
    found = asked.of_numerator(q)
    if abs(factor) == 1:
        assert found.slack.coefficient(q) is not None
    for at_q, at_k in product(range(40), range(64)):
        env = {q: at_q, k: at_k}
        assert (found.slack.evaluate(env) >= 0) == (asked.slack.evaluate(env) >= 0)


def test_a_quotient_stays_where_the_product_might_not_fit() -> None:
    anywhere = lookup(Buffer("pos", Role.INPUT, (), i64), (), None, None)
    asked = le(k, ix(q) // 8 + anywhere)
    assert asked.of_numerator(q) is asked
    far = lookup(Buffer("far", Role.INPUT, (), i64, (2**60, 2**60 + 9)), (), 2**60, 2**60 + 9)
    asked = le(k, ix(q) // 8 + far - 2**60)  # less than 10, but eight times its parts
    assert asked.of_numerator(q) is asked


# ---- conditions that bodies hide ----


def test_conditions_are_found_through_masks() -> None:
    i, j = axis("i", 10), axis("j", 20)
    s = load("S", i, j)
    (condition,) = at_most(j, i).conditions
    masked = where(at_most(j, i), s, num(-INF))
    assert absent_unless(Monoid.MAX, masked) == (condition,)
    assert absent_unless(Monoid.MAX, scaled(masked, 2)) == (condition,)
    assert absent_unless(Monoid.MAX, scaled(masked, -2)) == ()
    p = exp(sub(masked, largest(masked, j)))
    assert absent_unless(Monoid.SUM, p) == (condition,)
    assert absent_unless(Monoid.SUM, mul(load("V", j), p)) == (condition,)
    assert absent_unless(Monoid.SUM, add(p, load("V", j))) == ()
    assert absent_unless(Monoid.SUM, s) == ()
    added = add(s, where(at_most(j, i), num(0), num(-INF)))
    assert absent_unless(Monoid.SUM, exp(added)) == (condition,)
