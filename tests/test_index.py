"""Index expressions against Python integers: nothing that is claimed is ever false."""

from __future__ import annotations

import itertools
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumigen import index as ixs
from lumigen.condition import Cmp, less
from lumigen.index import (
    Axis,
    Dim,
    Ix,
    ceildiv,
    floordiv,
    indicator,
    ix,
    lookup,
    maximum,
    minimum,
    mod,
    of_atom,
)
from lumigen.view import compose, identity, reshape

S = Dim("s", 1, 6)
T = Dim("t", 2, 9)
E = Dim("e", 4, 24, multiple_of=4)
AXES = (
    Axis("a", ix(5)),
    Axis("b", ix(12)),
    Axis("c", ix(S)),
    Axis("d", ix(T) * 3),
    Axis("u", ix(1)),
    Axis("q", ix(E)),
)
DIMS = (S, T, E)

# An expression is built twice: by lumigen, and as a tree that Python evaluates literally.
Tree = Any


def build(tree: Tree) -> Ix:
    match tree:
        case ("add", x, y):
            return build(x) + build(y)
        case ("sub", x, y):
            return build(x) - build(y)
        case ("mul", x, y):
            return build(x) * build(y)
        case ("div", x, y):
            return floordiv(build(x), build(y))
        case ("mod", x, y):
            return mod(build(x), build(y))
        case ("min", x, y):
            return minimum(build(x), build(y))
        case ("max", x, y):
            return maximum(build(x), build(y))
        case ("not less", x, y):
            return indicator(build(x) - build(y))
        case _:
            return ix(tree)


def value(tree: Tree, env: dict[Any, int]) -> int:
    match tree:
        case ("add", x, y):
            return value(x, env) + value(y, env)
        case ("sub", x, y):
            return value(x, env) - value(y, env)
        case ("mul", x, y):
            return value(x, env) * value(y, env)
        case ("div", x, y):
            return value(x, env) // value(y, env)
        case ("mod", x, y):
            return value(x, env) % value(y, env)
        case ("min", x, y):
            return min(value(x, env), value(y, env))
        case ("max", x, y):
            return max(value(x, env), value(y, env))
        case ("not less", x, y):
            return int(value(x, env) >= value(y, env))
        case int():
            return tree
        case _:
            return env[tree]


def _positives() -> st.SearchStrategy[Tree]:
    """Loop-invariant and positive, as a divisor must be."""
    one = st.one_of(st.integers(1, 13), st.sampled_from(DIMS))
    return st.one_of(
        one,
        st.tuples(st.just("mul"), one, one),
        st.tuples(st.just("add"), one, one),
    )


POSITIVES = _positives()


def _trees() -> st.SearchStrategy[Tree]:
    leaves = st.one_of(st.integers(-20, 20), st.sampled_from(AXES), st.sampled_from(DIMS))

    def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.tuples(st.sampled_from(["add", "sub", "min", "max", "not less"]), inner, inner),
            st.tuples(st.sampled_from(["mul"]), inner, st.one_of(st.integers(-6, 6), inner)),
            st.tuples(st.sampled_from(["div", "mod"]), inner, POSITIVES),
        )

    return st.recursive(leaves, grow, max_leaves=8)


TREES = _trees()  # once: a strategy that is made anew for each draw is checked anew


def environment(rng: random.Random) -> dict[Any, int]:
    """Values for all dims and axes, each in its range; the ends of the ranges are likely."""

    def pick(lo: int, hi: int) -> int:
        return rng.choice((lo, hi, rng.randint(lo, hi)))

    env: dict[Any, int] = {
        d: pick(d.lo // d.multiple_of, d.hi // d.multiple_of) * d.multiple_of for d in DIMS
    }
    for axis in AXES:
        env[axis] = pick(0, int(axis.extent.evaluate(env)) - 1)
    return env


@st.composite
def cases(draw: Any) -> tuple[Tree, list[dict[Any, int]]]:
    """A tree and three environments; from one seed, as thirty numbers take hypothesis long to draw."""
    tree, rng = draw(TREES), random.Random(draw(st.integers(0, 2**32 - 1)))
    return tree, [environment(rng) for _ in range(3)]


EXAMPLES = settings(max_examples=120)


@EXAMPLES
@given(cases())
def test_value_is_python_s(case: tuple[Tree, list[dict[Any, int]]]) -> None:
    tree, envs = case
    built = build(tree)
    for env in envs:
        assert built.evaluate(env) == value(tree, env), str(built)


@EXAMPLES
@given(cases())
def test_bounds_hold(case: tuple[Tree, list[dict[Any, int]]]) -> None:
    tree, envs = case
    built = build(tree)
    lo, hi = built.bounds()
    for env in envs:
        exact = value(tree, env)
        assert lo is None or lo <= exact, f"{built} is {exact}, claimed at least {lo}"
        assert hi is None or exact <= hi, f"{built} is {exact}, claimed at most {hi}"
        low, high = ixs.lower(built).evaluate(env), ixs.upper(built).evaluate(env)
        assert low <= exact <= high, f"{built} is {exact}, claimed {low} to {high}"
        if ixs.is_nonnegative(built):
            assert exact >= 0
        if (known := Cmp(built).known()) is not None:
            assert known == (exact >= 0)


@EXAMPLES
@given(cases(), TREES)
def test_comparison_holds(case: tuple[Tree, list[dict[Any, int]]], other: Tree) -> None:
    tree, envs = case
    a, b = build(tree), build(other)
    for env in envs:
        if ixs.is_less(a, b):
            assert value(tree, env) < value(other, env)
        if (known := less(a, b).known()) is not None:
            assert known == (value(tree, env) < value(other, env))


@pytest.mark.slow
@EXAMPLES
@given(cases(), TREES, TREES, st.integers(1, 9))
def test_substitution_is_evaluation_of_what_is_put_in(
    case: tuple[Tree, list[dict[Any, int]]], first: Tree, second: Tree, size: int
) -> None:
    """Axes become expressions kept inside the axis's range, and a dim becomes a number."""
    tree, envs = case
    a, b = AXES[0], AXES[1]
    inside = {a: mod(build(first), ix(5)), b: mod(build(second), ix(12))}
    for env in envs:
        put = {a: value(first, env) % 5, b: value(second, env) % 12}
        assert build(tree).substitute(inside).evaluate(env) == value(tree, {**env, **put})
        fixed = build(tree).substitute({d: ix(env[d]) for d in DIMS})
        assert fixed.evaluate(env) == value(tree, env)
    del size


@EXAMPLES
@given(TREES, TREES)
def test_equal_polynomials_are_one_object(first: Tree, second: Tree) -> None:
    a, b = build(first), build(second)
    assert a + b is b + a
    assert a * b is b * a
    assert (a + b) - b is a
    assert (a + b) * 3 is a * 3 + b * 3
    assert pickle.loads(pickle.dumps(a)) is a


@EXAMPLES
@given(cases(), POSITIVES)
def test_split_and_merge_is_the_identity(case: tuple[Tree, list[dict[Any, int]]], by: Tree) -> None:
    tree, _ = case
    e, d = build(tree), build(by)
    assert floordiv(e, d) * d + mod(e, d) is e, f"({e}) // {d} and % {d}"


@EXAMPLES
@given(cases(), POSITIVES)
def test_ceildiv_is_python_s(case: tuple[Tree, list[dict[Any, int]]], by: Tree) -> None:
    tree, envs = case
    for env in envs:
        assert ceildiv(build(tree), build(by)).evaluate(env) == -(
            -value(tree, env) // value(by, env)
        )


@given(cases())
def test_arrays_evaluate_like_numbers(case: tuple[Tree, list[dict[Any, int]]]) -> None:
    tree, envs = case
    together = {k: np.array([env[k] for env in envs]) for k in envs[0]}
    built = np.broadcast_to(build(tree).evaluate(together), len(envs))
    assert built.tolist() == [value(tree, env) for env in envs]


@given(cases())
def test_coefficient_is_the_slope(case: tuple[Tree, list[dict[Any, int]]]) -> None:
    tree, envs = case
    built = build(tree)
    for axis, env in itertools.product(AXES[:4], envs):
        factor = built.coefficient(axis)
        if factor is not None:
            assert axis not in factor.axes
            rest = (built - factor * axis).substitute({axis: ix(10**6)})
            assert rest.evaluate(env) + factor.evaluate(env) * env[axis] == value(tree, env)


PADDED, UP = (
    ix(S) + 2,
    ix(S) // 2 * 4 + 2,
)  # sums: as padding leaves them, and a transposed convolution
FACTORS = st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=4)


def merged(factors: list[Ix], draw: Any) -> tuple[Ix, ...]:
    """The factors with random neighbours multiplied."""
    out = [factors[0]]
    for f in factors[1:]:
        if draw(st.booleans()):
            out[-1] = out[-1] * f
        else:
            out.append(f)
    return tuple(out)


@pytest.mark.slow
@settings(max_examples=300)
@given(FACTORS, st.sampled_from([None, S, E, PADDED, UP]), st.integers(0, 3), st.data())
def test_reshape_is_a_bijection_in_row_major_order(
    factors: list[int], symbolic: Dim | Ix | None, place: int, data: st.DataObject
) -> None:
    parts = [ix(f) for f in factors]
    if symbolic is not None:
        parts.insert(min(place, len(parts)), ix(symbolic))
    before, after = merged(parts, data.draw), merged(parts, data.draw)
    view = reshape(before, after)
    env = {d: d.lo for d in DIMS}
    sizes = [int(e.evaluate(env)) for e in before]
    shown = [int(e.evaluate(env)) for e in after]
    source = np.arange(np.prod(sizes)).reshape(sizes)
    grid = dict(
        zip([Axis(f"i{i}", e) for i, e in enumerate(after)], np.indices(shown), strict=True)
    )
    index = tuple(np.broadcast_to(e.evaluate({**env, **grid}), shown) for e in view.index)
    np.testing.assert_array_equal(source[index], source.reshape(shown))
    for e, extent in zip(view.index, before, strict=True):
        assert ixs.is_nonnegative(e), f"{e} may be negative"
        assert ixs.is_less(e, extent), f"{e} may reach {extent}"
    back = compose(reshape(after, before), view)
    assert back == identity(before), f"{before} to {after} and back gives {back}"


def axis(name: str, extent: Any) -> Ix:
    return ix(Axis(name, ix(extent)))


I8, K4, M3 = axis("i", 8), axis("k", 4), axis("m", 3)
IS, KT, KP = axis("i", S), axis("k", T), axis("k", PADDED)
ANY = ixs.Lookup("any", (), -8, 7)
PAD4, PAD_T, REST7 = -ix(S) % 4, -ix(S) % T, (7 - ix(S) % 7) % 7  # up to the next multiple
FROM_THE_END = of_atom(ANY) + indicator(-of_atom(ANY) - 1) * 8


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ((I8 * 4 + K4) // 4, I8),
        ((I8 * 4 + K4) % 4, K4),
        ((I8 * 12 + K4 * 3 + M3) // 12, I8),
        ((I8 * 12 + K4 * 3 + M3) // 3 % 4, K4),
        ((I8 // 4) * 4 + I8 % 4, I8),
        ((I8 // 4 * 4 + I8 % 4) * 3 + M3, I8 * 3 + M3),
        ((IS * T + KT) // T, IS),
        ((IS * T + KT) % T, KT),
        ((IS * T * 3 + KT * 3 + M3) // (ix(T) * 3), IS),
        ((I8 * PADDED + KP) // PADDED, I8),
        ((I8 * PADDED + KP) % PADDED, KP),
        (((I8 + 1) * PADDED * 3 + KP * 3 + M3) // (PADDED * 3), I8 + 1),
        ((I8 * PADDED * T + PADDED - 1) // (PADDED * T), I8),
        ((ix(T) * 8 + ix(T) * S * 4) // (ix(T) * 2 + ix(T) * S), ix(4)),
        (-PADDED // PADDED, ix(-1)),
        ((ix(S) * 2 + 3) // PADDED, ix(1)),
        ((IS // 2) * 2 + IS % 2, IS),
        ((I8 * 2) // 4, I8 // 2),
        ((I8 * 2 + 1) // 4, I8 // 2),
        (I8 // 2 // 2, I8 // 4),
        (((ix(S) + 1) // 2 + 1) // 2, (ix(S) + 3) // 4),
        (((ix(S) + 1) // 64 - 1) // 3, (ix(S) - 63) // 192),
        ((I8 + 8) % 8, I8),
        ((I8 - 8) // 8, ix(-1)),
        ((I8 + 16) // 8, ix(2)),
        (I8 // 8, ix(0)),
        (I8 % 8, I8),
        (minimum(I8, 7), I8),
        (minimum(I8, 8), I8),
        (maximum(I8, 0), I8),
        (minimum(I8, K4), minimum(K4, I8)),
        (ix(E) // 4 * 4, ix(E)),
        (ix(E) % 4, ix(0)),
        (ix(E) % 2, ix(0)),
        ((ix(E) - 1) // 4, ix(E) // 4 - 1),
        ((ix(E) + 3) // 4, ix(E) // 4),
        ((axis("j", ix(E) // 4) * 4 + K4) // 4, axis("j", ix(E) // 4)),
        (ix(E) // 2, ix(E) // 4 * 2),
        (ix(E) * E // 4, ix(E) // 4 * E),
        (indicator(ix(S)), ix(1)),
        (indicator(ix(S) - 7), ix(0)),
        (indicator(ix(S) - T), indicator((ix(S) * 2 - T) - S)),
        ((ix(S) + PAD4) % 4, ix(0)),
        ((ix(S) + PAD4 + 3) % 4, ix(3)),
        ((ix(S) + PAD4) // 4, -(-ix(S) // 4)),
        ((ix(S) + PAD4) * E % 16, ix(0)),
        ((ix(S) + PAD_T) % T, ix(0)),
        ((ix(S) + PAD_T) // T * T, ix(S) + PAD_T),
        ((ix(S) + REST7) % 7, ix(0)),
        ((ix(S) + REST7) // 7 * 7, ix(S) + REST7),
        (ix(T) - ix(T) % 4, ix(T) // 4 * 4),
        ((ix(S) + ix(S) % 2) % 2, ix(0)),
        ((ix(S) + ix(S) % 2 + T) // 2 * 2 + ix(T) % 2, ix(S) + ix(S) % 2 + T),
        ((ix(S) + ix(S) * 3 % 4) // 4 * 4, ix(S) + ix(S) * 3 % 4),
        ((axis("j", (ix(S) + PAD4) // 4) * 4 + K4) // 4, axis("j", (ix(S) + PAD4) // 4)),
        (FROM_THE_END.substitute({ANY: ix(-3)}), ix(5)),
        (FROM_THE_END.substitute({ANY: I8}), I8),
    ],
)
def test_simplification(found: Ix, wanted: Ix) -> None:
    assert found is wanted, f"{found}, not {wanted}"


UP = (-ix(S) // 4) * (-ix(T) // 4)  # in ceilings of both


@pytest.mark.parametrize(
    ("less_one", "greater"),
    [
        (IS * T + KT, ix(S) * T),
        (IS, ix(S)),
        (ix(S) // 2, ix(S)),
        (IS // 2, (ix(S) + 1) // 2),
        (I8 * 4 + K4, ix(32)),
        (KT % 4, ix(4)),
        (KT + KT % 2, ix(T) + 1),
        (ix(-1), KT + KT % 2),
        (ix(S) - 1, ix(S) + ix(S) % 2),
        (ix(S) + ix(S) % 2, ix(S) + 2),
        (IS * 4 + KT % 4, ix(S) * 4),
        (axis("j", ix(E) // 4) * 4 + K4, ix(E)),
        (axis("j", E) // 4, ix(E) // 4),
        (ix(axis("j", ixs.minimum(4, ix(S) * 3))), ix(S) * 3),
        (ix(axis("j", ixs.minimum(4, ix(S) * 3))), ix(4)),
        (ix(axis("j", S)), ixs.maximum(S, ix(T) * 2)),
        (floordiv(axis("f", ix(S) * T) * -1 - 1, ix(T)) + S, ix(S)),
        (ix(-1), floordiv(axis("f", ix(S) * T) * -1 - 1, ix(T)) + S),
        (ix(-1), ix(S) - 1 - floordiv(axis("f", (ix(S) * T + 2) // 3) * 3, ix(T))),
        (axis("j", minimum(4, S)), ix(S)),
        (axis("j", minimum(4, ix(S) * T)) * T, ix(S) * T * T),
        (axis("j", minimum(4, S)), ix(4)),
        (minimum(T, ix(S) + 9), maximum(ix(S) + 1, ix(T) + 1)),
        (axis("i", minimum(4, S)), ix(S)),
        (axis("i", minimum(4, S)), ix(4)),
        (ix(S) - 1, maximum(4, S)),
        (minimum(S, T) - 1, maximum(S, T)),
        (axis("j", (ix(S) + PAD4) // 4) * 4 + K4, ix(S) + PAD4),
        (axis("j", (ix(S) + PAD_T) // T) * T + KT, ix(S) + PAD_T),
        (axis("j", (ix(S) + REST7) // 7) * 7 + axis("r", 7), ix(S) + REST7),
        (FROM_THE_END, ix(8)),
        (ix(-1), FROM_THE_END),
        # what has no axis stays as it is: a remainder, and factors of which two are negative
        (axis("j", ix(S) % 3 + 1), ix(S) % 3 + 1),
        (axis("w", UP) + axis("b", 2) * UP, UP * 2),
        (ix(-1), axis("b", 2) * UP),
        (ix(-1), floordiv(axis("j", ix(S) - ix(S) // 3) * S, ix(S) - ix(S) // 3) + IS),
        (indicator(ix(S) - T), ix(2)),
    ],
)
def test_provably_less(less_one: Ix, greater: Ix) -> None:
    assert ixs.is_less(less_one, greater), f"{less_one} < {greater}"
    assert not ixs.is_less(greater, less_one)


@pytest.mark.parametrize(
    ("a", "b"),
    [(minimum(4, S), ix(4)), (minimum(S, T), ix(T)), (ix(4), maximum(4, S)), (ix(S), ix(T))],
)
def test_not_provably_less(a: Ix, b: Ix) -> None:
    """True in one case only."""
    assert not ixs.is_less(a, b)


@pytest.mark.parametrize("extents", [(), (5,), (3, 4), (2, 1, 7), (2, 3, 4, 5)])
def test_unravel_is_numpy_s(extents: tuple[int, ...]) -> None:
    axes = tuple(Axis(f"x{d}", ix(e)) for d, e in enumerate(extents))
    count = ixs.extent_of(axes)
    place = Axis("place", count)
    coordinates = ixs.unravel(place, axes)
    assert tuple(coordinates) == axes[::-1]
    for i in range(int(count)):
        found = tuple(coordinates[a].evaluate({place: i}) for a in axes)
        assert found == tuple(map(int, np.unravel_index(i, extents)))


def test_bounds_of_polynomials_are_exact() -> None:
    """An atom is at the same end in all terms: where the slope along it has one sign, or where it is in none twice."""
    s, t, i = ix(S), ix(T), axis("i", ix(S) - 1)
    s_lo, s_hi, t_lo, t_hi = S.lo, S.hi, T.lo, T.hi
    assert ((s - 1) * t).bounds() == ((s_lo - 1) * t_lo, (s_hi - 1) * t_hi)
    assert ((s - s_hi) * (s - s_hi)).bounds() == (0, (s_hi - s_lo) ** 2)
    assert ((s - 3) * (t - 2)).bounds()[0] == min(
        (a - 3) * (b - 2) for a in (s_lo, s_hi) for b in (t_lo, t_hi)
    )
    assert ixs.is_nonnegative((i * s - i) // 3)


def test_what_has_no_value_at_its_least_is_not_proven() -> None:
    none = Dim("none", 0, 5)  # as many as there are rows, when none is left
    assert not ixs.is_nonnegative(floordiv(ix(9), ix(none)) - 2)


def test_groups_of_dims_that_are_multiples() -> None:
    """Half of a dim, and of its square twelve to a group: all is counted in what the dims are multiples of."""
    h, w = (Dim(name, 16, 128, multiple_of=4) for name in "hw")
    half = ix(w) // 4 * 2
    i, y, x = (Axis(n, e) for n, e in (("i", ix(96)), ("y", ix(h) // 2), ("x", half)))
    place = (ix(i) * (ix(h) // 2) + y) * half + x
    group = 3 * ix(h) * w
    assert place // group is ix(i) // 12
    assert place % group is (ix(i) % 12 * (ix(h) // 2) + y) * half + x


def test_text_is_stable() -> None:
    assert str((IS * T + KT * 3 + 1) // 4) == "((i*t + 3*k + 1)//4)"
    assert str(less(I8, 5)) == "4 - i >= 0"
    assert str(-ix(S) - 1) == "-s - 1"
    assert str(2048 - ix(S)) == "2048 - s"
    assert str(ix(T) - S - KT + 3) == "t - k - s + 3"
    assert str(-ix(S) * 2 + T - 5) == "t - 2*s - 5"
    assert str(FROM_THE_END) == "8*(any[] < 0) + any[]"


def test_axes_of_one_name_and_two_extents_stay_apart() -> None:
    a, b = axis("i", 3), axis("i", 5)
    assert a + b is b + a
    assert a * b is b * a
    assert (a + b) - a is b


def test_threads_intern_one_object() -> None:
    def built(start: int) -> list[Ix]:
        return [axis(f"thread{n}", n) * T + S for n in range(start, start + 2000)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            first, *others = pool.map(built, [10_000] * 4)
    finally:
        sys.setswitchinterval(interval)
    assert all(a is b for other in others for a, b in zip(first, other, strict=True))


def test_lookups_are_atoms() -> None:
    read = lookup("ids", (I8,), 0, 9)
    assert ixs.is_less(read, ix(10))
    assert not ixs.is_less(read, ix(9))
    moved = (read * 2).substitute({Axis("i", ix(8)): K4})
    assert moved is lookup("ids", (K4,), 0, 9) * 2
    env = {Axis("i", ix(8)): 3}
    assert (read * 2).evaluate(env, lambda at, e: 7 + at.at[0].evaluate(e)) == 20
    with pytest.raises(KeyError):
        read.evaluate(env)
    assert lookup("ids", (), None, None).bounds() == (None, None)


def test_estimate_uses_typical_values() -> None:
    assert (ix(Dim("b", 1, 64, typical=8)) * 3 + I8).estimate() == 24
    assert ix(Dim("b", 1, 64)).estimate() == 64
    assert (ix(Dim("b", 1, 64)) // 3 + (I8 + 9) // 4).estimate() == 23
    assert (lookup("ids", (I8,), 0, 9) + 1).estimate() == 1
    assert (ix(Dim("b", 1, 64, typical=8)) - 8).estimate() == 1
