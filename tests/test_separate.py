"""Reductions that share a loop: which programs of naive ops do, and that their loops are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from exprs import (
    INF,
    add,
    at_most,
    axis,
    below,
    div,
    exp,
    exp2,
    largest,
    load,
    log,
    maximum,
    mul,
    negated,
    num,
    position,
    recip,
    relu,
    scaled,
    shuffled,
    sqrt,
    sub,
    total,
    where,
)

from lumigen.dtype import DType, bf16, f16, f32, i32, i64
from lumigen.index import Axis, ix
from lumigen.interp.plan import run_fold, run_folds
from lumigen.interp.region import Evaluator, value
from lumigen.lower.separate import NotSeparable, separate, sweeps
from lumigen.ops import Op
from lumigen.plan import LoopFold
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Prim,
    Read,
    Reduce,
    Role,
    const,
    index,
    prim,
    read,
    walk,
)

POINTS = 300  # not a multiple of any tile
TILES = (1, 16, 37, 64)

h, q, k, d, e = axis("h", 4), axis("q", 24), axis("k", POINTS), axis("d", 16), axis("e", 12)
n = axis("n", 10)


@dataclass(frozen=True)
class Case:
    """Outputs over axes, and how many states (where refused: loops) compute them."""

    outputs: tuple[Expr, ...]
    axes: tuple[tuple[Axis, ...], ...]
    states: int


def scores(scale: float = 0.25) -> Expr:
    return scaled(total(mul(load("Q", q, d), load("K", k, d)), d), scale)


def softmax(s: Expr, over: Axis = k) -> Expr:
    p = exp(sub(s, largest(s, over)))
    return div(p, total(p, over))


def attend(s: Expr) -> Expr:
    return total(mul(softmax(s), load("V", k, e)), k)


def tanh(a: Expr) -> Expr:
    return add(num(1), scaled(recip(add(exp2(scaled(a, 2 * math.log2(math.e))), num(1))), -2))


def mean(a: Expr, over: Axis) -> Expr:
    return scaled(total(a, over), 1 / POINTS)


def plain_attention() -> Case:
    return Case((attend(scores()),), ((q, e),), 3)


def additive_mask() -> Case:
    return Case((attend(add(scores(), load("MASK", q, k))),), ((q, e),), 3)


def masked(s: Expr, condition: Expr) -> Expr:
    return where(condition, s, num(-INF))


def causal() -> Case:
    return Case((attend(masked(scores(), at_most(k, ix(q) + 100))),), ((q, e),), 3)


def mirrored_causal() -> Case:
    """What is excluded comes first."""
    s = where(at_most(ix(q) + 101, k), num(-INF), scores())
    return Case((attend(s),), ((q, e),), 3)


def added_causal() -> Case:
    mask = where(at_most(k, ix(q) + 100), num(0), num(-INF))
    return Case((attend(add(scores(), mask)),), ((q, e),), 3)


def window() -> Case:
    near = mul(at_most(k, ix(q) + 100), at_most(ix(q) + 60, k))
    return Case((attend(masked(scores(), near)),), ((q, e),), 3)


def alibi() -> Case:
    slope = load("SLOPE", q)
    distance = position(ix(k) - ix(q))
    return Case((attend(add(scores(), mul(slope, distance))),), ((q, e),), 3)


def softcap() -> Case:
    return Case((attend(scaled(tanh(scaled(scores(), 1 / 50)), 50)),), ((q, e),), 3)


def sink() -> Case:
    s = scores()
    m = maximum(largest(s, k), load("SINK", q))
    p = exp(sub(s, m))
    whole = add(total(p, k), exp(sub(load("SINK", q), m)))
    return Case((total(mul(div(p, whole), load("V", k, e)), k),), ((q, e),), 3)


def with_log_sum_exp() -> Case:
    s = scores()
    m = largest(s, k)
    lse = add(m, log(total(exp(sub(s, m)), k)))
    return Case((attend(s), lse), ((q, e), (q,)), 3)


def grouped() -> Case:
    """Grouped queries: head = kv * group."""
    kv, g = axis("kv", 2), axis("g", 2)
    head = ix(kv) * 2 + g
    query = read_at("GQ", (4, 24, 16), head, q, d)
    key = read_at("GK", (2, POINTS, 16), kv, k, d)
    s = scaled(total(mul(query, key), d), 0.25)
    out = total(mul(softmax(s), read_at("GV", (2, POINTS, 12), kv, k, e)), k)
    return Case((out,), ((kv, g, q, e),), 3)


def read_at(name: str, shape: tuple[int, ...], *at: Axis | object) -> Expr:
    dims = tuple(ix(s) for s in shape)
    return read(Buffer(name, Role.INPUT, dims, f32), tuple(ix(a) for a in at))  # type: ignore[arg-type]


def positive() -> Case:
    """Attention with relu in place of the exponential, normalised by its sum."""
    p = relu(scores())
    out = total(mul(div(p, add(total(p, k), num(1e-3))), load("V", k, e)), k)
    return Case((out,), ((q, e),), 2)


def cross_entropy() -> Case:
    x = load("X", q, k)
    m = largest(x, k)
    lse = add(m, log(total(exp(sub(x, m)), k)))
    return Case((sub(lse, total(mul(load("TARGET", q, k), x), k)),), ((q,),), 3)


def log_sum_exp() -> Case:
    x = load("X", q, k)
    m = largest(x, k)
    return Case((add(m, log(total(exp(sub(x, m)), k))),), ((q,),), 2)


def guarded_log_sum_exp() -> Case:
    """The source replaces an infinite maximum itself."""
    x = add(load("X", q, k), load("MASK", q, k))
    m = largest(x, k)
    size = add(where(below(m, num(0)), scaled(m, -1), m), num(0.0))
    unequal = mul(negated(below(size, num(INF))), negated(below(num(INF), size)))
    m = where(mul(unequal, below(num(-1), mul(size, size))), num(0), m)
    return Case((add(m, log(total(exp(sub(x, m)), k))),), ((q,),), 2)


def finite(m: Expr) -> Expr:
    """Whether m is neither infinite nor NaN, as the frontend asks."""
    return below(where(below(m, num(0)), scaled(m, -1), m), num(INF))


def normalised(s: Expr, *, as_the_frontend: bool = True) -> Expr:
    """What the powers of scores less their log-sum-exp weight."""
    m = largest(s, k)
    logs = log(total(exp(sub(s, m)), k))
    whole = where(finite(m), add(logs, m), m) if as_the_frontend else add(m, logs)
    return total(mul(exp(sub(s, whole)), load("V", k, e)), k)


def by_log_sum_exp() -> Case:
    return Case((normalised(scores()),), ((q, e),), 3)


def by_masked_log_sum_exp() -> Case:
    return Case((normalised(add(scores(), load("MASK", q, k))),), ((q, e),), 3)


def by_plain_log_sum_exp() -> Case:
    s = masked(scores(), at_most(k, ix(q) + 100))
    return Case((normalised(s, as_the_frontend=False),), ((q, e),), 3)


def by_late_log_sum_exp() -> Case:
    """The first twelve rows may see no key at all."""
    s = masked(scores(), at_most(k, ix(q) - 12))
    return Case((normalised(s), normalised(s, as_the_frontend=False)), ((q, e),) * 2, 3)


def whole_softmax() -> Case:
    return Case((softmax(load("X", q, k)),), ((q, k),), 2)


def weighted_log_probabilities() -> Case:
    """A sum whose exponent holds the logarithm of another sum."""
    x = load("X", q, k)
    m = largest(x, k)
    p = exp(sub(sub(x, m), log(total(exp(sub(x, m)), k))))
    return Case((total(mul(p, load("V", k, e)), k),), ((q, e),), 3)


def rms_norm_matmul() -> Case:
    x = load("X", q, k)
    r = recip(sqrt(add(mean(mul(x, x), k), num(1e-5))))
    return Case((total(mul(mul(mul(x, r), load("G", k)), load("W", k, n)), k),), ((q, n),), 2)


def masked_probabilities() -> Case:
    """Probabilities dropped after they were normalised."""
    p = where(at_most(k, ix(q) + 100), softmax(load("X", q, k)), num(0))
    return Case((total(mul(p, load("V", k, e)), k),), ((q, e),), 3)


def shifted_maximum() -> Case:
    x = load("X", q, k)
    return Case((largest(sub(x, mean(x, k)), k),), ((q,),), 2)


def ordered(a: Expr) -> Expr:
    return below(num(-1), mul(a, a))


def is_most(x: Expr, m: Expr) -> Expr:
    """Whether x is the maximum, NaN where that is NaN, as the frontend spells it."""
    return mul(negated(below(x, m)), negated(mul(ordered(x), negated(ordered(m)))))


def equals(x: Expr, m: Expr) -> Expr:
    return mul(mul(negated(below(x, m)), negated(below(m, x))), mul(ordered(x), ordered(m)))


def place_of(s: Expr) -> Expr:
    far = where(is_most(s, largest(s, k)), index(POINTS - ix(k), i64), const(0, i64))
    return largest(far, k)


def place_of_most() -> Case:
    s = scores()
    return Case((place_of(s), largest(s, k)), ((q,), (q,)), 2)


def place_of_masked() -> Case:
    return Case((place_of(add(scores(), load("MASK", q, k))),), ((q,),), 2)


def last_of_least() -> Case:
    x = load("X", q, k)
    at = where(equals(x, scaled(largest(scaled(x, -1), k), -1)), index(ix(k), i64), const(-1, i64))
    return Case((largest(at, k),), ((q,),), 2)


def ties_within_a_mask() -> Case:
    x = load("X", q, k)
    found = mul(at_most(k, ix(q) + 100), equals(x, largest(x, k)))
    return Case((total(where(found, num(1), num(0)), k),), ((q,),), 2)


def values_at_most() -> Case:
    """Of either sign in a sum, and at least the 0 of all other points in a maximum."""
    x, v = load("X", q, k), load("V", k, e)
    hit = is_most(x, largest(x, k))
    sums = total(where(hit, v, num(0)), k)
    return Case((sums, largest(where(hit, mul(v, v), num(0)), k)), ((q, e), (q, e)), 3)


ONE_LOOP: tuple[Callable[[], Case], ...] = (
    plain_attention,
    additive_mask,
    causal,
    mirrored_causal,
    added_causal,
    window,
    alibi,
    softcap,
    sink,
    with_log_sum_exp,
    grouped,
    positive,
    cross_entropy,
    log_sum_exp,
    guarded_log_sum_exp,
    by_log_sum_exp,
    by_masked_log_sum_exp,
    by_plain_log_sum_exp,
    whole_softmax,
    weighted_log_probabilities,
    rms_norm_matmul,
    masked_probabilities,
    shifted_maximum,
    place_of_most,
    place_of_masked,
    last_of_least,
    ties_within_a_mask,
    values_at_most,
)


def variance() -> Case:
    x = load("X", q, k)
    c = sub(x, mean(x, k))
    return Case((mean(mul(c, c), k),), ((q,),), 2)


def layer_norm() -> Case:
    x = load("X", q, k)
    c = sub(x, mean(x, k))
    r = recip(sqrt(add(mean(mul(c, c), k), num(1e-5))))
    return Case((add(mul(mul(c, r), load("G", k)), load("B", k)),), ((q, k),), 2)


def layer_norm_matmul() -> Case:
    (normed,) = layer_norm().outputs
    return Case((total(mul(normed, load("W", k, n)), k),), ((q, n),), 3)


def entropy() -> Case:
    """The expected surprise, each term from its own logarithm of a probability."""
    x = load("X", q, k)
    m = largest(x, k)
    p = exp(sub(x, m))
    whole = total(p, k)
    surprise = sub(log(whole), sub(x, m))
    return Case((total(mul(div(p, whole), surprise), k),), ((q,),), 2)


def third_moment() -> Case:
    x = load("X", q, k)
    c = sub(x, mean(x, k))
    return Case((mean(mul(c, mul(c, c)), k),), ((q,),), 2)


CANCELLING = (variance, layer_norm, layer_norm_matmul, entropy, third_moment)


def sine() -> Case:
    x = load("X", q, k)
    return Case((total(prim(Op.SIN, (sub(x, largest(x, k)),), f32), k),), ((q,),), 2)


def softplus() -> Case:
    x = load("X", q, k)
    inner = add(exp2(sub(x, largest(x, k))), num(1))
    return Case((total(prim(Op.LOG2, (inner,), f32), k),), ((q,),), 2)


def another_maximum() -> Case:
    """Exponents that the maximum of something else does not bound."""
    x = load("X", q, k)
    return Case((total(exp(sub(x, largest(load("Y", q, k), k))), k),), ((q,),), 2)


def unbounded_by_a_mask() -> Case:
    """The maximum of the allowed points does not bound the others."""
    x = load("X", q, k)
    m = largest(masked(x, at_most(k, ix(q) + 100)), k)
    return Case((total(exp(sub(x, m)), k),), ((q,),), 2)


def divided_exponent() -> Case:
    x = load("X", q, k)
    return Case((total(exp(mul(x, recip(total(x, k)))), k),), ((q,),), 2)


def chosen_by_a_maximum() -> Case:
    """All points, beside a NaN: nothing is below it."""
    x = load("X", q, k)
    return Case((total(where(below(x, largest(x, k)), num(0), num(1)), k),), ((q,),), 2)


def near_a_maximum() -> Case:
    """What is near a maximum need not be near a later one that is near it."""
    x = load("X", q, k)
    near = equals(add(x, num(1)), largest(x, k))
    return Case((total(where(near, num(1), num(0)), k),), ((q,),), 2)


def less_than_others() -> Case:
    """The greatest of values of which some are below what points beside the maximum have."""
    x = load("X", q, k)
    hit = is_most(x, largest(x, k))
    return Case((largest(where(hit, load("Y", q, k), num(0)), k),), ((q,),), 2)


def rounded() -> Case:
    x = load("X", q, k)
    p = prim(Op.CONTIGUOUS, (softmax(x),), bf16)
    return Case((total(prim(Op.CONTIGUOUS, (p,), f32), k),), ((q,),), 3)


def rounded_weights(dtype: DType, s: Expr) -> Expr:
    """The weights of an attention, rounded as it writes them down."""
    p = prim(Op.CONTIGUOUS, (prim(Op.CONTIGUOUS, (softmax(s),), dtype),), f32)
    return total(mul(p, load("V", k, e, dtype=dtype)), k)


def rounded_beside_f32() -> Case:
    p = prim(Op.CONTIGUOUS, (prim(Op.CONTIGUOUS, (softmax(scores()),), bf16),), f32)
    return Case((total(mul(p, load("V", k, e)), k),), ((q, e),), 3)


def rounded_to_whole_numbers() -> Case:
    p = prim(Op.CONTIGUOUS, (prim(Op.CONTIGUOUS, (softmax(scores()),), i32),), f32)
    return Case((total(mul(p, load("V", k, e)), k),), ((q, e),), 3)


def rounded_out_of_range() -> Case:
    """What is divided by a sum may be larger than f16 can be, and the quotient not."""
    s = mul(scores(), scores())
    p = prim(Op.CONTIGUOUS, (div(s, total(s, k)),), f16)
    return Case(
        (total(mul(prim(Op.CONTIGUOUS, (p,), f32), load("V", k, e, dtype=f16)), k),), ((q, e),), 2
    )


def selected_by_log_sum_exp() -> Case:
    """A row of which nothing is selected is 0, however small its log-sum-exp."""
    s = scores()
    whole = add(largest(s, k), log(total(exp(sub(s, largest(s, k))), k)))
    p = where(at_most(k, ix(q) + 100), exp(sub(s, whole)), num(0))
    return Case((total(mul(p, load("V", k, e)), k),), ((q, e),), 3)


REFUSED = (
    selected_by_log_sum_exp,
    rounded_beside_f32,
    rounded_to_whole_numbers,
    rounded_out_of_range,
    sine,
    softplus,
    another_maximum,
    unbounded_by_a_mask,
    divided_exponent,
    chosen_by_a_maximum,
    near_a_maximum,
    less_than_others,
    rounded,
)


def inputs(exprs: tuple[Expr, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
    out = {}
    for x in walk(exprs):
        if isinstance(x, Read):
            shape = [int(i.const) for i in x.source.dims]
            out.setdefault(x.source.name, rng.normal(size=shape))
    return out


def one_loop(exprs: tuple[Expr, ...], over: Axis = k) -> LoopFold:
    fold = separate(exprs, (over,))
    assert isinstance(fold, LoopFold), fold
    return fold


def agree(folds, case: Case, exprs, buffers, rtol=1e-9, atol=1e-12, tiles=TILES) -> None:
    for expr, axes in zip(exprs, case.axes, strict=True):
        expected = value(expr, axes, buffers, {})
        for tile in tiles:
            (actual,) = run_folds(folds, (expr,), axes, buffers, {}, tile=tile)
            np.testing.assert_allclose(actual, expected, rtol, atol, err_msg=f"tile {tile}")


names = {"ids": lambda f: f.__name__}


@pytest.mark.slow
@pytest.mark.parametrize("make", ONE_LOOP, **names)
@pytest.mark.parametrize("seed", range(6))
def test_one_loop(make: Callable[[], Case], seed: int) -> None:
    case = make()
    exprs = shuffled(case.outputs, seed) if seed else case.outputs
    fold = one_loop(exprs)
    assert not fold.cancelling
    assert len(fold.carries) == case.states
    buffers = inputs(exprs, np.random.default_rng(seed))
    agree((fold,), case, exprs, buffers, tiles=(37, 64) if seed else TILES)


@pytest.mark.parametrize("make", CANCELLING, **names)
@pytest.mark.parametrize("seed", range(3))
def test_cancelling_is_flagged_and_runs_as_sweeps(make: Callable[[], Case], seed: int) -> None:
    case = make()
    exprs = shuffled(case.outputs, seed) if seed else case.outputs
    buffers = inputs(exprs, np.random.default_rng(seed))
    fold = one_loop(exprs)
    assert fold.cancelling
    agree((fold,), case, exprs, buffers, rtol=1e-6, atol=1e-9, tiles=(16, 37))
    folds = sweeps(exprs, (k,))
    assert len(folds) == case.states
    assert not any(f.cancelling for f in folds)
    agree(folds, case, exprs, buffers)


@pytest.mark.slow
@pytest.mark.parametrize("make", REFUSED, **names)
@pytest.mark.parametrize("seed", range(3))
def test_refused(make: Callable[[], Case], seed: int) -> None:
    case = make()
    exprs = shuffled(case.outputs, seed) if seed else case.outputs
    assert isinstance(separate(exprs, (k,)), NotSeparable)
    agree(sweeps(exprs, (k,)), case, exprs, inputs(exprs, np.random.default_rng(seed)))


@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
@pytest.mark.parametrize("allowed", [INF, 100, -12])
def test_weights_are_rounded_before_they_are_divided(dtype: DType, allowed: float) -> None:
    """To as many digits; a row in which nothing is allowed is NaN as the ops have it."""
    s = scores() if allowed == INF else masked(scores(), at_most(k, ix(q) + int(allowed)))
    out = rounded_weights(dtype, s)
    fold = one_loop((out,))
    assert len(fold.carries) == 3
    kinds = [x.dtype for c in fold.carries for x in walk([c.tile]) if isinstance(x, Prim)]
    assert dtype in kinds
    buffers = inputs((out,), np.random.default_rng(7))
    exact = value(attend(s), (q, e), buffers, {})
    expected = value(out, (q, e), buffers, {})
    for tile in TILES:
        (actual,) = run_folds((fold,), (out,), (q, e), buffers, {}, tile=tile)
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
        digits = 2.0 ** (-8 if dtype is bf16 else -11)
        weighted = np.nanmax(np.abs(buffers["V"]))
        assert np.nanmax(np.abs(actual - exact)) < digits * weighted
        assert np.nanmax(np.abs(expected - exact)) < digits * weighted
        assert np.nanmax(np.abs(actual - exact)) > 0


# ---- extremes ----


def late_causal() -> Case:
    """The first twelve rows may see no key at all."""
    s = masked(scores(), at_most(k, ix(q) - 12))
    m = largest(s, k)
    lse = add(m, log(total(exp(sub(s, m)), k)))
    return Case((attend(s), lse), ((q, e), (q,)), 3)


def late_window() -> Case:
    """The first keys are excluded for every row, most others too."""
    near = mul(at_most(k, ix(q) + 100), at_most(ix(q) + 60, k))
    s = masked(scores(), near)
    return Case((attend(s), total(softmax(s), k)), ((q, e), (q,)), 3)


def masked_log_sum_exp() -> Case:
    s = add(scores(), load("MASK", q, k))
    m = largest(s, k)
    return Case((add(m, log(total(exp(sub(s, m)), k))), attend(s)), ((q,), (q, e)), 3)


def masked_sink() -> Case:
    s = add(scores(), load("MASK", q, k))
    m = maximum(largest(s, k), load("SINK", q))
    p = exp(sub(s, m))
    whole = add(total(p, k), exp(sub(load("SINK", q), m)))
    return Case((total(mul(div(p, whole), load("V", k, e)), k),), ((q, e),), 3)


def shares_that_are_numbers() -> Case:
    """Where a row has no number at all, nothing is summed up."""
    p = softmax(add(scores(), load("MASK", q, k)))
    kept = where(ordered(p), p, num(0))
    return Case((total(mul(kept, load("V", k, e)), k),), ((q, e),), 3)


MASKABLE = (
    additive_mask,
    shares_that_are_numbers,
    masked_log_sum_exp,
    masked_sink,
    guarded_log_sum_exp,
    by_masked_log_sum_exp,
    place_of_masked,
)


def mask_of(rows: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    mask = np.zeros((rows, POINTS))
    match kind:
        case "prefix":
            mask[:, :150] = -INF
        case "suffix":
            mask[:, 5:] = -INF
        case "one":
            mask[:] = -INF
            mask[np.arange(rows), rng.integers(0, POINTS, rows)] = 0
        case "rows":
            mask[::3] = -INF
        case "random":
            mask[rng.random(mask.shape) < 0.9] = -INF
        case _:
            mask[rng.random(mask.shape) < 0.5] = -1e9
    return mask


@pytest.mark.parametrize("kind", ["prefix", "suffix", "one", "rows", "random", "finite"])
@pytest.mark.parametrize("make", MASKABLE, **names)
@pytest.mark.parametrize("offset", [0.0, -900.0, 900.0])
def test_masks_of_infinity(make: Callable[[], Case], kind: str, offset: float) -> None:
    """Scores far from zero, so that a state of only -inf overflows if counted as 0."""
    case = make()
    rng = np.random.default_rng(1)
    buffers = inputs(case.outputs, rng)
    if "Q" in buffers:
        buffers["Q"] = buffers["Q"] * 0.1
    buffers["MASK"] = mask_of(24, kind, rng) + offset
    agree((one_loop(case.outputs),), case, case.outputs, buffers, tiles=(16, 37))


@pytest.mark.parametrize("make", [late_causal, late_window, by_late_log_sum_exp], **names)
@pytest.mark.parametrize("offset", [0.0, 900.0, -900.0])
def test_rows_and_prefixes_masked_by_comparisons(make: Callable[[], Case], offset: float) -> None:
    case = make()
    buffers = inputs(case.outputs, np.random.default_rng(2))
    buffers["Q"][:, 0] = offset
    buffers["K"][:, 0] = 1 / 0.25
    agree((one_loop(case.outputs),), case, case.outputs, buffers, tiles=(16, 37))


@pytest.mark.parametrize(
    "make", [plain_attention, causal, with_log_sum_exp, sink, log_sum_exp, by_log_sum_exp]
)
@pytest.mark.parametrize("size", [30, 300, 4000])
def test_large_scores(make: Callable[[], Case], size: float) -> None:
    case = make()
    buffers = inputs(case.outputs, np.random.default_rng(3))
    for name, factor in {"Q": size / 4, "X": size, "SINK": size}.items():
        if name in buffers:
            buffers[name] = buffers[name] * factor
    agree((one_loop(case.outputs),), case, case.outputs, buffers, tiles=(16, 37))


@pytest.mark.parametrize("make", [place_of_most, last_of_least, ties_within_a_mask, values_at_most])
@pytest.mark.parametrize("bad", [0.0, math.nan, -INF])
def test_ties(make: Callable[[], Case], bad: float) -> None:
    case = make()
    buffers = inputs(case.outputs, np.random.default_rng(9))
    buffers = {n: np.rint(b) for n, b in buffers.items()}
    buffers["X" if "X" in buffers else "Q"][5] = bad
    agree((one_loop(case.outputs),), case, case.outputs, buffers)


@pytest.mark.parametrize(
    "make",
    [
        plain_attention,
        causal,
        with_log_sum_exp,
        guarded_log_sum_exp,
        shares_that_are_numbers,
        by_log_sum_exp,
        place_of_most,
        last_of_least,
        values_at_most,
    ],
)
@pytest.mark.parametrize("bad", [math.nan, INF])
def test_what_is_no_number_shows_where_the_ops_show_it(
    make: Callable[[], Case], bad: float
) -> None:
    case = make()
    buffers = inputs(case.outputs, np.random.default_rng(4))
    name = "X" if "X" in buffers else "K"
    at = (0, 7) if name == "X" else (7, 0)
    buffers[name][at] = bad
    agree((one_loop(case.outputs),), case, case.outputs, buffers, tiles=(16, 37))


def off_by(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("size", [1, 300, 4000])
@pytest.mark.parametrize("spread", ["wide", "narrow"])
@pytest.mark.parametrize(
    "make",
    [plain_attention, causal, sink, log_sum_exp, cross_entropy, whole_softmax, by_log_sum_exp],
    **names,
)
def test_single_precision_is_as_good_as_that_of_the_ops(make, size: float, spread: str) -> None:
    """The loop in f32 is off by hardly more than the ops are; scores up to a size, or near it."""
    case = make()
    buffers = inputs(case.outputs, np.random.default_rng(5))
    if spread == "wide":
        for name, factor in {"Q": size / 4, "X": size, "SINK": size}.items():
            if name in buffers:
                buffers[name] = buffers[name] * factor
    elif "Q" in buffers:
        buffers["Q"][:, 0], buffers["K"][:, 0] = size, 4
    else:
        buffers["X"] = buffers["X"] + size
    buffers = {name: b.astype(np.float32) for name, b in buffers.items()}
    fold = one_loop(case.outputs)
    for expr, axes in zip(case.outputs, case.axes, strict=True):
        expected = value(expr, axes, buffers, {})
        ops = Evaluator(buffers, {}, brute=True, real=np.float32).grid(expr, axes)
        for tile in (16, 37):
            (loop,) = run_folds((fold,), (expr,), axes, buffers, {}, tile=tile, real=np.float32)
            assert loop.dtype == np.float32
            assert off_by(loop, expected) <= 2 * off_by(ops, expected) + 1e-6


def test_sweeps_keep_the_digits_that_one_loop_loses() -> None:
    """A variance around a mean a thousand times larger than the deviation, in f32."""
    case = variance()
    buffers = {"X": (np.random.default_rng(6).normal(size=(24, POINTS)) + 1000).astype(np.float32)}
    expected = value(case.outputs[0], (q,), buffers, {})

    def error(folds: tuple[LoopFold, ...]) -> float:
        (got,) = run_folds(folds, case.outputs, (q,), buffers, {}, tile=16, real=np.float32)
        return float(np.abs(got / expected - 1).max())

    assert error((one_loop(case.outputs),)) > 1e-2
    assert error(sweeps(case.outputs, (k,))) < 1e-5


# ---- the shape of what comes out ----


def test_tiles_share_the_contraction_and_the_exponential() -> None:
    """The scores are the node of the source in every tile, and the exponential is one node."""
    s = scores()
    fold = one_loop((attend(s),))
    inner = [x for c in fold.carries for x in walk([c.tile]) if isinstance(x, Reduce)]
    assert set(inner) == {x for x in walk([s]) if isinstance(x, Reduce)}
    assert fold.carries[0].tile is s
    powers = {
        x for c in fold.carries for x in walk([c.tile]) if isinstance(x, Prim) and x.op is Op.EXP2
    }
    assert powers == {fold.carries[1].tile}
    assert fold.carries[1].correct is fold.carries[2].correct
    assert [c.monoid for c in fold.carries] == [Monoid.MAX, Monoid.SUM, Monoid.SUM]


def test_a_cascade_needs_no_more_loops_without_fusing() -> None:
    case = plain_attention()
    folds = sweeps(case.outputs, (k,), fuse=False)
    assert [len(f.carries) for f in folds] == [1, 1, 1]
    agree(folds, case, case.outputs, inputs(case.outputs, np.random.default_rng(0)))
    assert len(sweeps(case.outputs, (k,))) == 1


def test_several_axes_fold_as_one() -> None:
    i, j = axis("i", 15), axis("j", 20)
    x, v = load("X", q, i, j), load("V", i, j, e)
    p = exp(sub(x, largest(x, i, j)))
    out = total(mul(div(p, total(p, j, i)), v), i, j)
    fold = separate((out,), (i, j))
    assert isinstance(fold, LoopFold)
    assert len(fold.carries) == 3
    buffers = inputs((out,), np.random.default_rng(0))
    agree((fold,), Case((out,), ((q, e),), 3), (out,), buffers)


def test_what_every_carry_is_guarded_by_bounds_the_loop() -> None:
    for make in (causal, mirrored_causal, added_causal):
        (condition,) = one_loop(make().outputs).where
        assert str(condition) == "q - k + 100 >= 0"
    assert len(one_loop(window().outputs).where) == 2
    assert not one_loop(plain_attention().outputs).where
    guarded = masked(scores(), at_most(k, q))
    both = (attend(guarded), total(load("V", k, e), k))
    assert not one_loop(both).where


def test_skipped_points_change_nothing() -> None:
    """Where the guards of all carries fail for every row, the loop need not go."""
    case = window()
    fold = one_loop(case.outputs)
    buffers = inputs(case.outputs, np.random.default_rng(0))
    env = Evaluator(buffers, {})
    env.known.update(run_fold(fold, env.fork(), tile=16, lo=60, hi=124))
    np.testing.assert_allclose(
        env.grid(case.outputs[0], (q, e)), value(case.outputs[0], (q, e), buffers, {}), 1e-9
    )


def test_reductions_over_other_axes_are_left_alone() -> None:
    fold = one_loop((mul(total(load("V", k, e), k), total(load("A", d), d)),))
    assert len(fold.carries) == 1
    assert separate((total(load("A", d), d),), (k,)) == LoopFold((k,), (), ())


def test_the_reason_is_told() -> None:
    no = separate(sine().outputs, (k,))
    assert isinstance(no, NotSeparable)
    assert no.reason == "sin of what depends on a reduction over the same axis"
