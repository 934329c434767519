"""Sizes as users meet them: arithmetic, what Python may decide on them, and what it may not."""

# a case is a lambda, so that its line is in this file

from __future__ import annotations

import itertools
import math
import operator
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from through_graph import interpret

import lumigen as lg
from lumigen import errors, nn
from lumigen.frontend.model import Entry, trace_entry
from lumigen.index import ix
from lumigen.interp.graph import evaluate

B = lg.Dim("batch", 1, 8)
S = lg.Dim("sequence", 2, 9)
E = lg.Dim("eights", 1, 70, multiple_of=8)  # 8, 16, ..., 64
ONE = lg.Dim("one", 5, 11, multiple_of=8)  # 8 alone


def seen(f: Callable[[Any], Any]) -> Any:
    """What the function finds of a tensor while it is traced."""
    found: list[Any] = []

    def entry(x: Any) -> Any:
        found.append(f(x))
        return x

    trace_entry(Entry("entry", entry, (("x", lg.spec(B, S, E, ONE, 64)),)))
    return found[0]


# --- arithmetic -----------------------------------------------------------------------------------

VALUES = [(b, s, e) for b in range(1, 9) for s in range(2, 10) for e in range(8, 65, 8)]
FORMULAS: list[Callable[[Any, Any, Any], Any]] = [
    lambda b, s, e: b + 3,
    lambda b, s, e: 3 + b * s,
    lambda b, s, e: 3 - b,
    lambda b, s, e: b - s - e,
    lambda b, s, e: -b,
    lambda b, s, e: +b * np.int64(2),
    lambda b, s, e: np.int64(2) * b,
    lambda b, s, e: (b + s) // 3,
    lambda b, s, e: 100 // b,
    lambda b, s, e: e // b,
    lambda b, s, e: b // -3,
    lambda b, s, e: (b * s) % 5,
    lambda b, s, e: 100 % s,
    lambda b, s, e: e % -5,
    lambda b, s, e: e // 8,
]


@pytest.mark.parametrize("f", FORMULAS)
@pytest.mark.parametrize("dims", [True, False], ids=["dims", "sizes"])
def test_arithmetic_is_pythons(f: Callable[[Any, Any, Any], Any], dims: bool) -> None:
    got = f(B, S, E) if dims else seen(lambda x: f(x.shape[0], x.size(1), x.shape[-3]))
    for b, s, e in VALUES:
        assert ix(got).evaluate({B: b, S: s, E: e}) == f(b, s, e)


def test_what_is_constant_is_an_int() -> None:
    assert type(seen(lambda x: x.shape[0] - B + 2)) is int
    assert type(seen(lambda x: x.shape[2] % 8)) is int
    assert type(seen(lambda x: x.shape[4])) is int
    assert type(seen(lambda x: 0 * x.numel())) is int
    assert type(B - B) is int


def test_sizes_of_two_tensors_are_the_same() -> None:
    assert seen(lambda x: x.shape == x.exp().shape)
    assert seen(lambda x: x.shape == (B, S, E, ONE, 64))
    assert seen(lambda x: operator.eq(x.shape[0], B) and operator.eq(B, x.shape[0]))
    assert not seen(lambda x: x.shape[0] != B)
    assert seen(lambda x: {x.shape[0]: 7, x.shape[0] + 1: 8}[B]) == 7
    assert seen(lambda x: hash(x.shape[0] + 1) == hash(B + 1))


def test_sizes_print_as_expressions_and_survive_pickling() -> None:
    assert seen(lambda x: f"{x.shape} {x.shape[0] * 2 + 1}").startswith("(batch, sequence, ")
    assert str(B + 1) == repr(B + 1) == "batch + 1"
    assert repr(B) == "Dim(name='batch', lo=1, hi=8, multiple_of=1, typical=None)"
    again = pickle.loads(pickle.dumps((B, B + 1)))
    assert again == (B, B + 1)


# --- comparison -----------------------------------------------------------------------------------

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
RANGES = [(B, range(1, 9)), (E, range(8, 65, 8)), (ONE, [8])]
OTHERS = [*range(-1, 12), 16, 60, 64, 65, 2.5, 8.0, -math.inf, math.inf, math.nan]


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize(("dim", "values"), RANGES, ids=[d.name for d, _ in RANGES])
@pytest.mark.parametrize("factor", [1, 3])
def test_comparisons_hold_for_all_declared_values_or_are_refused(
    compare: Callable[[Any, Any], bool], dim: lg.Dim, values: Any, factor: int
) -> None:
    for other in OTHERS:
        for left in (True, False):
            ask = compare if left else lambda a, b: compare(b, a)
            wanted = {ask(factor * v, other) for v in values}
            if len(wanted) == 1:
                assert ask(factor * dim, other) is wanted.pop()
            else:
                with pytest.raises(errors.DimSpecialised):
                    ask(factor * dim, other)


def test_the_greater_and_the_lesser_of_sizes() -> None:
    assert (lg.sym_max(3, 4), lg.sym_min(3, 4)) == (4, 3)
    assert lg.sym_max(B, 1) is not None
    x = np.arange(12, dtype=np.float32).reshape(6, 2)

    def f(t):
        return [t[: lg.sym_min(t.shape[0], 4)], t.pad((0, 0, 0, lg.sym_max(8 - t.shape[0], 0)))]

    first, padded = interpret(f, x, specs={"x0": lg.spec(lg.Dim("n", 1, 20), 2)})
    np.testing.assert_array_equal(first, x[:4])
    np.testing.assert_array_equal(padded, np.pad(x, ((0, 2), (0, 0))))


@pytest.mark.parametrize(
    "missing", [lambda n: -n % 4, lambda n: (4 - n % 4) % 4, lambda n: 3 * n % 4]
)
def test_what_is_padded_to_a_multiple_is_split_by_it(missing: Callable[[Any], Any]) -> None:
    def f(t):
        padded = lg.functional.pad(t, (0, missing(t.shape[1])))
        groups = padded.reshape(2, padded.shape[1] // 4, 4)
        return [groups.sum(1), groups.transpose(1, 2).reshape(2, -1)[:, : t.shape[1]]]

    for n in (1, 4, 6, 11):
        x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
        groups = np.pad(x, ((0, 0), (0, -n % 4))).reshape(2, -1, 4)
        sums, back = interpret(f, x, specs={"x0": lg.spec(2, lg.Dim("n", 1, 20))})
        np.testing.assert_array_equal(sums, groups.sum(1))
        np.testing.assert_array_equal(back, groups.transpose(0, 2, 1).reshape(2, -1)[:, :n])


def test_dims_that_are_sums_are_merged_and_split() -> None:
    def f(t: Any) -> list[Any]:
        padded = lg.functional.pad(t, (1, 1))
        rows = padded.reshape(2, -1, 3 * padded.shape[2]).sum(1)
        return [padded.reshape(-1), padded.flatten().reshape(-1, padded.shape[2]).sum(0), rows]

    for n in (1, 4, 11):
        x = np.arange(12 * n, dtype=np.float32).reshape(2, 6, n)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
        flat, columns, rows = interpret(f, x, specs={"x0": lg.spec(2, 6, lg.Dim("n", 1, 20))})
        np.testing.assert_array_equal(flat, padded.reshape(-1))
        np.testing.assert_array_equal(columns, padded.sum((0, 1)))
        np.testing.assert_array_equal(rows, padded.reshape(2, 2, -1).sum(1))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("place", [0, 1, 4])
def test_enlarged_infinities_are_where_pytorch_has_them(place: int, dynamic: bool) -> None:
    """Before the first element its neighbour counts with weight 0: NaN where that is infinite."""
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    x[0, 0, place] = np.inf

    def f(t: Any) -> Any:
        size = 2 * t.shape[2] + 1 if dynamic else 11
        return lg.functional.interpolate(t, size=size, mode="linear")

    extent = lg.Dim("n", 1, 9) if dynamic else 5
    got = interpret(f, x, specs={"x0": lg.spec(1, 1, extent)})
    wanted = torch.nn.functional.interpolate(torch.from_numpy(x), size=11, mode="linear")
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)


def flat(x: Any, y: Any) -> Any:
    """(n - 1) * m elements."""
    return (x[1:, None] * y).flatten()


@pytest.mark.parametrize(
    "function",
    [
        lambda T, F, x, y: F.adaptive_avg_pool1d(x[None, 1:].exp(), 3),
        lambda T, F, x, y: F.adaptive_max_pool1d(T.cat([x, x])[None, 1:].exp(), 3),
        lambda T, F, x, y: F.interpolate(x[None, None, 1:].exp(), size=4, mode="area"),
        lambda T, F, x, y: F.adaptive_avg_pool1d(flat(x, y)[None], 3),
        lambda T, F, x, y: flat(x, y)[1:],
        lambda T, F, x, y: flat(x, y)[:, None] * x,
        lambda T, F, x, y: T.cat([flat(x, y), x])[(x.shape[0] - 1) * y.shape[0] :],
        lambda T, F, x, y: T.arange((x.shape[0] - 1) * y.shape[0]) * flat(x, y),
        lambda T, F, x, y: F.max_pool1d(flat(x, y)[None], 1, 1),
        lambda T, F, x, y: flat(x, x[1:])[-1],
        lambda T, F, x, y: flat(x, x[1:]).roll(1),
        lambda T, F, x, y: T.kron(T.cat([x, x])[1:], x)[:2],
        lambda T, F, x, y: T.kron(F.pad(x[1:], (0, x.shape[0])), x)[:1],
    ],
)
def test_extents_that_are_products_of_differences(function: Callable[..., Any]) -> None:
    """(n - 1) * m is n*m - m, which is positive although n*m may be less than the greatest m."""
    specs = {"x0": lg.spec(lg.Dim("n", 2, 9)), "x1": lg.spec(lg.Dim("m", 1, 7))}
    for n, m in ((2, 1), (2, 7), (5, 4), (9, 1), (9, 7)):
        x, y = (np.linspace(-1, 1, size, dtype=np.float32) for size in (n, m))
        got = interpret(lambda x, y: function(lg, lg.functional, x, y), x, y, specs=specs)
        wanted = function(torch, torch.nn.functional, *map(torch.from_numpy, (x, y)))
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)


def test_comparisons_between_sizes() -> None:
    assert B < B + 1
    assert B <= 4 * S
    assert not E < B
    assert lg.Dim("far", 10, 20) != B
    assert 2 * B != 2 * S + 1
    assert bool(B)
    for f in (lambda: B == S, lambda: B < S, lambda: bool(B - 1), lambda: B * S == 4):
        with pytest.raises(errors.DimSpecialised):
            f()


def test_what_is_no_number_is_not_equal() -> None:
    assert B != "batch"
    assert B != None  # noqa: E711
    assert (B, 3) != None  # noqa: E711
    with pytest.raises(TypeError):
        _ = B < "batch"


# --- refusals -------------------------------------------------------------------------------------

UNDECIDED: list[tuple[Callable[[Any], Any], list[str]]] = [
    (
        lambda x: x if x.shape[0] == 4 else -x,
        ["[==]", "dim batch is declared as 1..8", "batch == 4", "lg.full((), batch, lg.i64) == 4"],
    ),
    (lambda x: x if x.size(0) > 4 else -x, ["[>]", "batch > 4", "write a separate entry"]),
    (lambda x: x[: max(x.shape[0], 2)], ["batch < 2"]),
    (lambda x: x if 2 * x.shape[0] < 9 else -x, ["2*batch < 9", "2*batch is in 2..16"]),
    (lambda x: x if x.shape[0] - 1 else -x, ["batch - 1 != 0"]),
    (lambda x: x if x.shape == (4, 3) else -x, ["batch == 4"]),
    (lambda x: x if x.shape[0] in (4, 5) else -x, ["batch == 4"]),
    (lambda x: x if B == 4 else -x, ["batch == 4"]),
    (lambda x: x if E == 16 else -x, ["1..70, a multiple of 8", "eights == 16"]),
    (lambda x: x[: 8 // (x.shape[0] - 1)], ["[//]", "at least 2", "the divisor is batch - 1"]),
    (lambda x: x[: 8 % (x.shape[0] - 1)], ["[%]", "at least 2"]),
]


@pytest.mark.parametrize(("f", "texts"), UNDECIDED, ids=[t[-1] for _, t in UNDECIDED])
def test_what_would_specialise_a_dim_names_the_line(f: Callable[[Any], Any], texts: Any) -> None:
    with pytest.raises(errors.DimSpecialised) as caught:
        trace_entry(Entry("entry", f, (("x", lg.spec(B, 3)),)))
    for text in texts:
        assert text in str(caught.value)
    where = caught.value.where
    assert where is not None
    assert Path(where.file) == Path(__file__)
    assert where.line == f.__code__.co_firstlineno


NUMBERS: list[Callable[[Any], Any]] = [
    int,
    float,
    range,
    math.sqrt,
    operator.index,
    lambda n: n**0.5,
    lambda n: 2**n,
    lambda n: n / 2,
    lambda n: 1 / n,
    lambda n: n * 0.5,
    lambda n: 0.5 + n,
    lambda n: n // 2.0,
    lambda n: [0] * n,
]


@pytest.mark.parametrize("f", NUMBERS)
def test_what_needs_a_number_says_so(f: Callable[[Any], Any]) -> None:
    for size in (seen(lambda x: x.shape[0]), B):
        with pytest.raises(
            lg.errors.BadSize, match=r"\[size\] batch is known only when the model runs"
        ) as caught:
            f(size)
        assert isinstance(caught.value, TypeError)
        assert caught.value.where is not None
        assert caught.value.where.file == __file__


@pytest.mark.parametrize(
    "f", [lambda n: lg.zeros(n), lambda n: lg.full((3, n), 1.0), lambda n: lg.eye(n)]
)
def test_what_is_no_integer_is_no_size(f: Callable[[Any], Any]) -> None:
    """With the user's line, in an entry and outside of one."""
    for n in (2.5, 2.0, "2"):
        with pytest.raises(errors.UserError) as caught:
            f(n)
        assert caught.value.where is not None
        assert caught.value.where.line == f.__code__.co_firstlineno
        with pytest.raises(errors.BadArgument, match=re.escape(repr(n))) as caught:
            seen(lambda x: f(n))  # noqa: B023
        assert caught.value.where is not None
        assert caught.value.where.line == f.__code__.co_firstlineno


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lg.zeros(x.shape[0] / 2),
        lambda x: lg.zeros(6 / 2),
        lambda x: lg.zeros((6 / 2, 3)),
        lambda x: x.reshape(6 / 2, -1),
        lambda x: x[: 6 / 2],
        lambda x: x[:, 2 / 2],
        lambda x: x.split(6 / 2, 1),
        lambda x: lg.functional.pad(x, (0, 6 / 2)),
        lambda x: lg.nn.Linear(3, 6 / 2)(x),
    ],
)
def test_a_fraction_for_a_size_is_told_with_the_operator_for_integers(
    f: Callable[[Any], Any],
) -> None:
    with pytest.raises(errors.UserError, match="//"):
        seen(f)


def test_a_divisor_is_not_zero() -> None:
    with pytest.raises(errors.BadArgument, match="the divisor is 0"):
        _ = B // 0


def test_the_remedy_chooses_when_the_model_runs() -> None:
    def entry(x: Any) -> Any:
        return lg.where(lg.full((), x.shape[0], lg.i64) == 4, 2 * x, x)

    traced = trace_entry(Entry("entry", entry, (("x", lg.spec(B, 3)),)))
    for batch in (3, 4):
        x = np.ones((batch, 3), np.float32)
        assert (evaluate(traced, {"x": x}, {})["out"] == (2 if batch == 4 else 1)).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.reshape(x.shape[0] * 3),
        lambda x: x.expand(2, *x.shape),
        lambda x: x.unflatten(0, (x.shape[0], 1)),
        lambda x: x.narrow(0, x.shape[0] - 1, 1),
        lambda x: x.split([x.shape[0] - 1, 1])[0],
        lambda x: x.split(x.shape[0])[0],
        lambda x: x.pad((0, 0, x.shape[0], 1)),
        lambda x: x[x.shape[0] - 1],
        lambda x: x[x.shape[0] // 2 :],
        lambda x: lg.zeros(*x.shape) + lg.full(x.shape, x.numel()),
        lambda x: lg.arange(1, x.shape[0] + 1),
        lambda x: lg.eye(x.shape[0], x.shape[1]),
        lambda x: lg.functional.one_hot(lg.arange(2), x.shape[0]),
        lambda x: lg.functional.layer_norm(x, x.shape),
        lambda x: lg.functional.layer_norm(x.T, x.shape[0]),
        lambda x: x.masked_fill(x > x.shape[0], x.size(0)),
        lambda x: x.clamp(0, x.shape[0]) ** x.shape[0],
    ],
)
def test_functions_take_sizes(f: Callable[[Any], Any]) -> None:
    """As they take numbers: what is traced for a dim computes what the number gives."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 4
    found = [
        evaluate(trace_entry(Entry("entry", f, (("x", lg.spec(n, 3)),))), {"x": x}, {})["out"]
        for n in (B, 4)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_dim_whose_parts_are_counted_is_split() -> None:
    """Where every value of the dim makes as many parts."""
    dims = lg.Dim("some", 5, 7), lg.Dim("fours", 4, 12, multiple_of=4)
    for some, fours in itertools.product((5, 7), (4, 12)):
        x = np.arange(some * fours, dtype=np.float32).reshape(some, fours)
        parts = interpret(
            lambda t: [*t.split(4), *t.split(t.shape[1] // 2, 1)], x, specs={"x0": lg.spec(*dims)}
        )
        wanted = [*torch.from_numpy(x).split(4), *torch.from_numpy(x).split(fours // 2, 1)]
        for got, part in zip(parts, wanted, strict=True):
            np.testing.assert_array_equal(got, part)


def test_counts_may_be_sizes_that_are_never_negative() -> None:
    assert seen(lambda x: x.repeat(x.shape[0], 1, 1, 1, 1).shape[0]) == B * B
    for f in (
        lambda x: x.repeat(x.shape[0] - 2, 1, 1, 1, 1),
        lambda x: x.repeat_interleave(x.shape[0] - 2, 1),
        lambda x: lg.linspace(0, 1, x.shape[0] - 2),
    ):
        with pytest.raises(errors.DimSpecialised, match=r"at least 2, .* since .* is batch - 2"):
            seen(f)


# --- torch ----------------------------------------------------------------------------------------

TORCH: list[tuple[Callable[[Any], Any], list[str]]] = [
    (torch.relu, ["[torch.relu]", "lumigen.functional.relu or to its own method relu"]),
    (torch.nn.functional.gelu, ["lumigen.functional.gelu."]),
    (torch.abs, ["its own method abs."]),
    (lambda x: torch.add(x, 1), ["its own method add."]),
    (lambda x: torch.ones(64) * x, ["its own method mul."]),
    (lambda x: torch.cat([x, x]), ["lumigen.functional.cat."]),
    (torch.nn.Linear(64, 2), ["lumigen.functional.linear."]),
    (torch.lgamma, ["[torch.lgamma]"]),
]


@pytest.mark.parametrize(("f", "texts"), TORCH, ids=[t[0] for _, t in TORCH])
def test_torch_is_not_given_our_tensors(f: Callable[[Any], Any], texts: list[str]) -> None:
    with pytest.raises(errors.BadArgument, match="it is being traced") as caught:
        seen(lambda x: f(x))
    assert all(text in str(caught.value) for text in texts)
    assert caught.value.where is not None
    assert Path(caught.value.where.file) == Path(__file__)


def test_parameters_are_tensors_to_torch_too() -> None:
    with pytest.raises(errors.BadArgument, match=r"lumigen\.functional\.relu"):
        torch.relu(nn.Parameter(3))  # type: ignore[arg-type]


@pytest.mark.slow
def test_lumigen_does_not_import_torch() -> None:
    code = "import sys, lumigen; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
