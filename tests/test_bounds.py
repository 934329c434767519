"""Loop bounds: no wanted point is outside, and none inside fails a condition that was dropped."""

from __future__ import annotations

from itertools import product

import hypothesis.strategies as st
from exprs import INF, add, at_most, axis, exp, largest, load, mul, num, scaled, sub, where
from hypothesis import given

from lumigen.condition import Cmp, less
from lumigen.dtype import i32
from lumigen.index import Axis, Dim, Ix, ix, lookup, minimum
from lumigen.lower.bounds import absent_unless, extreme, loop_bounds
from lumigen.region import Buffer, Monoid, Role

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
