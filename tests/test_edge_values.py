"""Every elementwise function at zeros, infinities, NaN, denormal and huge numbers: torch's and NumPy's.

Interpreted, and as emitted code for this CPU; the oracle computes in f64 and rounds once.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from small_programs import wide
from tiles import traced
from torch.nn import functional as torch_functional

import lumigen as lg
from lumigen import fast_lane
from lumigen import functional as F
from lumigen.fast_lane import FastLane
from lumigen.graph import Graph
from lumigen.interp import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.target import TARGETS
from lumigen.targets.cpu.device import CPU

Array = np.ndarray[Any, Any]
Row = tuple[Callable[..., Any], Callable[..., Any]]  # ours on tensors, the oracle on f64 tensors


def both(function: Callable[..., Any]) -> Row:
    """What is written alike for lumigen and torch."""
    return function, function


def gelu_with_limits(x: torch.Tensor) -> torch.Tensor:
    """Torch's multiplies 0 by an infinity there."""
    return torch.where(x.isinf(), x.relu(), torch_functional.gelu(x))


def numpy_row(ours: Callable[..., Any], oracle: Callable[..., Any]) -> Row:
    return ours, lambda a, b: torch.from_numpy(oracle(a.numpy(), b.numpy()))


METHODS = [
    "neg",
    "abs",
    "sign",
    "square",
    "exp",
    "exp2",
    "log",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "tanh",
    "sigmoid",
    "relu",
    "erf",
    "floor",
    "ceil",
    "round",
    "trunc",
    "isnan",
    "isinf",
    "isfinite",
]
UNARY: dict[str, Row] = {
    **{name: both(lambda x, name=name: getattr(x, name)()) for name in METHODS},
    **{
        name: (getattr(F, name), getattr(torch_functional, name))
        for name in ("leaky_relu", "elu", "silu", "softplus")
    },
    "gelu": (F.gelu, gelu_with_limits),
    "gelu_tanh": (
        lambda x: F.gelu(x, "tanh"),
        lambda x: torch_functional.gelu(x, approximate="tanh"),
    ),
    **{f"pow_{e}": both(lambda x, e=e: x**e) for e in (1, 2, 3, -1, -2, 0.5, -0.5, 1.7, -1.7)},
    **{f"exponential_{b}": both(lambda x, b=b: b**x) for b in (2.5, 0.5)},
    **{
        f"exponential_{b}": (lambda x, b=b: lg.pow(b, x), lambda x, b=b: torch.pow(b, x))
        for b in (0.0, -0.0, np.inf)
    },
    "exp2_of_infinities": both(lambda x: (x * -np.inf).exp2()),
    "is_inverse_root_infinite": both(lambda x: x.rsqrt().isinf()),
    "is_inverse_root_finite": both(lambda x: x.rsqrt().isfinite()),
    "is_inverse_root_the_least": both(lambda x: x.sqrt().reciprocal() == -np.inf),
    "is_inverse_least": both(lambda x: x.relu().reciprocal() == -np.inf),
    "clamp": both(lambda x: x.clamp(-0.5, 0.75)),
}
BINARY: dict[str, Row] = {
    "add": both(lambda a, b: a + b),
    "sub": both(lambda a, b: a - b),
    "mul": both(lambda a, b: a * b),
    "div": both(lambda a, b: a / b),
    "fmod": numpy_row(lambda a, b: a.fmod(b), np.fmod),
    "mod": numpy_row(lambda a, b: a % b, np.mod),
    "floor_divide": numpy_row(lambda a, b: a // b, np.floor_divide),
    "less": both(lambda a, b: a < b),
    "at_most": both(lambda a, b: a <= b),
    "greater": both(lambda a, b: a > b),
    "at_least": both(lambda a, b: a >= b),
    "equal": both(lambda a, b: a == b),
    "unequal": both(lambda a, b: a != b),
    "maximum": both(lambda a, b: a.maximum(b) if isinstance(a, lg.Tensor) else torch.maximum(a, b)),
    "minimum": both(lambda a, b: a.minimum(b) if isinstance(a, lg.Tensor) else torch.minimum(a, b)),
    "where": (lambda a, b: lg.where(a < b, a, b), lambda a, b: torch.where(a < b, a, b)),
}
# Of two zeros either is the greater; torch's and NumPy's remainders differ in the sign of a zero;
# gelu is a difference, whose zero is positive.
EITHER_ZERO = {"maximum", "minimum", "mod", "floor_divide", "gelu"}
TOLERANCE = {"f32": 2e-6, "f64": 1e-13}  # of each result, beside what is below the normal numbers


def values(dtype: lg.DType) -> Array:
    info = np.finfo(dtype.numpy)
    some = [0.0, 1.0, np.inf, 3 * info.smallest_subnormal, info.tiny, 0.9 * info.max, 0.5, 2.5, 100]
    return np.array([*some, *(-float(x) for x in some), np.nan], dtype.numpy)


def results(dtype: lg.DType, *, compiled: bool) -> dict[str, Array]:
    """Of every row: unary ones at each value, binary ones at each pair."""
    x = values(dtype)
    a, b = (np.ascontiguousarray(side) for side in np.meshgrid(x, x, indexing="ij"))
    cx = lg.Graph()
    one = cx.tensor(x.shape, dtype).set(x)
    left, right = cx.tensor(a.shape, dtype).set(a), cx.tensor(b.shape, dtype).set(b)
    found = {name: ours(one).retrieve() for name, (ours, _) in UNARY.items()}
    found |= {name: ours(left, right).retrieve() for name, (ours, _) in BINARY.items()}
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    with np.errstate(all="ignore"):
        cx.execute()
    return {name: result.numpy() for name, result in found.items()}


def wanted(name: str, dtype: lg.DType) -> Array:
    x = torch.from_numpy(values(dtype).astype(np.float64))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        operands = (x,) if name in UNARY else torch.meshgrid(x, x, indexing="ij")
        found = {**UNARY, **BINARY}[name][1](*operands).numpy()
        return found if found.dtype == np.bool_ else found.astype(dtype.numpy)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.f32, lg.f64], ids=str)
def test_edge_values(dtype: lg.DType, compiled: bool) -> None:
    wrong: list[str] = []
    x = values(dtype)
    for name, found in results(dtype, compiled=compiled).items():
        right = wanted(name, dtype)
        assert found.dtype == right.dtype
        if right.dtype == np.bool_:
            same = found == right
        else:
            f, r = found.astype(np.longdouble), right.astype(np.longdouble)
            bound = TOLERANCE[dtype.name] * np.abs(r) + float(np.finfo(dtype.numpy).tiny)
            with np.errstate(invalid="ignore"):
                same = (f == r) | (np.isnan(f) & np.isnan(r))
                same |= np.isfinite(f) & np.isfinite(r) & (np.abs(f - r) <= bound)
            if name not in EITHER_ZERO:
                same &= (f != 0) | (r != 0) | (np.signbit(f) == np.signbit(r))
        if dtype is lg.f64 and not compiled and name in ("div", "floor_divide"):
            # a / b is a * recip(b), and no f64 holds the reciprocal of these
            same |= np.abs(x)[None, :] < 1 / np.finfo(np.float64).max
        for at in np.argwhere(~same)[:4]:
            given = ", ".join(str(x[i]) for i in at)
            wrong.append(f"{name}({given}) is {found[tuple(at)]}, not {right[tuple(at)]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
def test_erf_ends_at_one(compiled: bool) -> None:
    cx = lg.Graph()
    x = cx.tensor((6,)).set([np.inf, -np.inf, 4.0, -4.0, 1e30, np.nan])
    found = x.erf().retrieve()
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    np.testing.assert_array_equal(found.numpy(), [1, -1, 1, -1, 1, np.nan])


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
def test_floor_division_is_numpys(compiled: bool) -> None:
    """Tenths, whose quotients round to whole numbers that they do not reach."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-60, 60, 2000).astype(np.float32) / np.float32(10) for _ in range(2))
    b[b == 0] = np.inf
    cx = lg.Graph()
    found = (cx.tensor(a.shape).set(a) // cx.tensor(b.shape).set(b)).retrieve()
    whole = (cx.tensor((3,), lg.i32).set([-1, 1, 7]) // np.inf).retrieve()
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    np.testing.assert_array_equal(found.numpy(), np.floor_divide(a, b))
    np.testing.assert_array_equal(whole.numpy(), [-1, 0, 0])


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.i8, lg.i32, lg.i64], ids=str)
def test_division_of_the_least_and_greatest_integers_is_pytorchs(
    dtype: lg.DType, compiled: bool
) -> None:
    """The least of a type is its own negative, as remainders wrap around."""
    least, greatest = -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    some = [least, least + 1, least // 2, -7, -1, 0, 1, 3, greatest // 2, greatest - 1, greatest]
    pairs = [(a, b) for a in some for b in some if b and (a, b) != (least, -1)]
    a, b = np.array(pairs, dtype.numpy).T.copy()
    cx = lg.Graph()
    x, y = cx.tensor(a.shape, dtype).set(a), cx.tensor(b.shape, dtype).set(b)
    below = (x // y).retrieve()
    towards_0 = x.div(y, rounding_mode="trunc").retrieve()
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    for found, rounding in ((below, "floor"), (towards_0, "trunc")):
        wanted = torch.tensor(a).div(torch.tensor(b), rounding_mode=rounding)
        np.testing.assert_array_equal(found.numpy(), wanted.numpy(), err_msg=rounding)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.i8, lg.u8, lg.i32, lg.i64], ids=str)
def test_quotients_of_integers_of_every_size_are_numpys(dtype: lg.DType, compiled: bool) -> None:
    """Which wraps around, and says 0 of what is divided by 0; by a constant and by a number for each row as well."""
    rng = np.random.default_rng(0)
    a, b = wide(rng, (40, 50), dtype), wide(rng, (40, 50), dtype)
    a[::2] = b[::2] * wide(rng, (20, 50), dtype) - rng.integers(0, 2, (20, 50)).astype(dtype.numpy)
    cx = lg.Graph()
    x, y = cx.tensor(a.shape, dtype).set(a), cx.tensor(b.shape, dtype).set(b)
    found = [q.retrieve() for q in (x // y, x // y[:, :1], x // 7, x // 0, 100 // y)]
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    with np.errstate(all="ignore"):
        right = (a // b, a // b[:, :1], a // 7, a * 0, 100 // b)
    for ours, numpys in zip(found, right, strict=True):
        np.testing.assert_array_equal(ours.numpy(), numpys)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("divisor", [1e-39, -1e-45, 3e38, 1e-38, 2.0])
def test_constants_divide_whatever_their_reciprocals_are(divisor: float, compiled: bool) -> None:
    """The reciprocal of a denormal overflows, and those of large numbers are denormals."""
    c = np.float32(divisor)
    a = np.array([0, c, c / 2, 1, -0.0, np.inf, np.nan, c / 3], np.float32)
    cx = lg.Graph()
    x = cx.tensor(a.shape).set(a)
    values = (x / divisor, x / divisor / divisor, x.reshape(4, 2) / divisor, x / divisor + 1)
    found = [y.retrieve() for y in values]
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    once = torch.from_numpy(a) / float(c)
    wanted = (once, once / float(c), once.reshape(4, 2), once + 1)
    for ours, torchs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), torchs.numpy(), rtol=5e-7)  # some roundings of f32


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.f32, lg.f64], ids=str)
def test_quotients_are_rounded_once(dtype: lg.DType, compiled: bool) -> None:
    """By a constant, by a number for each row, by each other, and by a count."""
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(48, 50)).astype(dtype.numpy), rng.normal(size=48).astype(dtype.numpy)
    whole = np.round(a * 1000)  # whose sums are exact
    cx = lg.Graph()
    x, y, rows = (cx.tensor(v.shape, dtype).set(v) for v in (a, w, whole))
    found = [x / 24000, x / 3 / 7, x / y[:, None], y / x.T, 7 / x, rows.mean(1), rows.mean(0) / 3]
    found = [q.retrieve() for q in found]
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    if not compiled:
        a, w, whole = (v.astype(np.float64) for v in (a, w, whole))  # rounded at the end
    right = [a / 24000, a / 3 / 7, a / w[:, None], w / a.T, 7 / a]
    right += [whole.sum(1) / 50, whole.sum(0) / 48 / 3]
    for ours, theirs in zip(found, right, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.astype(dtype.numpy))


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize(("shape", "dim"), [((12000,), 0), ((12000, 20), 0), ((3, 12000), 1)])
def test_long_cumulative_sums_lose_nothing(
    shape: tuple[int, ...], dim: int, compiled: bool
) -> None:
    """Of the steps of a phase: as PyTorch, which carries f64."""
    step = np.random.default_rng(0).uniform(0, 0.1, shape).astype(np.float32)
    step[(-1,) * len(shape)] = np.inf
    cx = lg.Graph()
    found = cx.tensor(shape).set(step).cumsum(dim).retrieve()
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    right = torch.from_numpy(step).double().cumsum(dim).numpy()
    np.testing.assert_allclose(found.numpy(), right, rtol=1.2e-7)  # a unit of f32


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.f16, lg.bf16, lg.f32, lg.f64], ids=str)
def test_ndtri_is_accurate_in_both_tails(dtype: lg.DType, compiled: bool) -> None:
    info = torch.finfo(getattr(torch, str(np.dtype(dtype.numpy).name)))
    below = np.geomspace(info.smallest_normal, 0.5, 400)
    some = [
        0,
        1,
        -0.1,
        1.1,
        np.nan,
        info.smallest_normal / 2,
        1e-7,
        1e-8,
        1e-20,
        1e-30,
        1 - info.eps,
    ]
    p = np.concatenate([below, 1 - below, some, [np.exp(-2), 1 - np.exp(-2)]]).astype(dtype.numpy)
    cx = lg.Graph()
    found = lg.special.ndtri(cx.tensor(p.shape, dtype).set(p)).retrieve()
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    with np.errstate(all="ignore"):
        cx.execute()
    want = torch.special.ndtri(torch.from_numpy(p.astype(np.float64))).numpy()
    accuracy = {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-6, "f64": 1e-14}[dtype.name]
    got = found.numpy().astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=accuracy)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.i8, lg.u8, lg.i32, lg.i64], ids=str)
def test_casts_to_integers_saturate(dtype: lg.DType, compiled: bool) -> None:
    some = [-20.5, 2.9, 70000.0, 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, np.nan]
    x = np.tile(np.array(some, np.float32), 4)  # more than a vector
    cx = lg.Graph()
    found = cx.tensor(x.shape).set(x).to(dtype).retrieve()
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    info = np.iinfo(dtype.numpy)
    held = [0 if np.isnan(v) else int(np.clip(v, -1e20, 1e20)) for v in x]
    assert found.numpy().tolist() == [min(max(v, info.min), info.max) for v in held]


FAR = np.array([2**63 - 1, -(2**63), 2**62, 1 - 2**62, -7, 0, 5, 10003], np.int64)
NEAR = np.array([0, 1, 2, 9, 12, 100, 10003, 50256], np.int64)
HASH = 6364136223846793005


WRAPPING: list[Callable[[Any, Any], Any]] = [
    lambda T, i: (i * HASH) % 10,
    lambda T, i: (i * 16777619 * 16777619 * 16777619) % 1000,
    lambda T, i: ((i * HASH + 1442695040888963407) * HASH) % 10,
    lambda T, i: (i * 31 + 7) % 1000,
    lambda T, i: (i + 5) // 3,
    lambda T, i: (T.arange(8) * 2**61) // 3 + i * 0,
    lambda T, i: T.arange(8) * 2**60 > i * 2**50,
    lambda T, i: i + (2**63 - 1) > 0,
    lambda T, i: T.maximum(i * 2**62, i),
    lambda T, i: (i * 2**62).abs(),
    lambda T, i: i * -(2**63),
    lambda T, i: (i < -(2**63)) | (i > 2**63 - 1) | (i >= -(2**63)) & (i != 2**63 - 1),
    lambda T, i: (i + 2**62) + (i + 2**62),
    lambda T, i: (i * 0 + HASH + HASH) * i,
    lambda T, i: (i * 0 + 2**62) * 3 - i,
    lambda T, i: (i * 0 + HASH).int() // 2**20 + i,
    lambda T, i: -(i * 0 + -(2**63)) // 5,
    lambda T, i: T.maximum(~i, i.flip(0)),
    # numbers and comparisons alone, which C++ would add and multiply in 32 bits
    lambda T, i: T.where(i < 9, 2000000000, 1) + 2000000000,
    lambda T, i: T.where(i < 9, 65536, 1) * T.where(i > -8, 65536, 1) % 7,
    lambda T, i: T.where(i < 9, -2000000000, 3) - T.where(i > -8, 2000000000, 5),
    lambda T, i: (T.ones_like(i) << (i % 3 + 30)) >> (i % 2 + 31),
    lambda T, i: T.where(i < 9, -7, 0) * 2147483647,
    lambda T, i: T.where(i < 9, 2, 255) - T.where(i > -8, -(2**31), 1),
    lambda T, i: T.maximum(T.where(i < 9, 65536, 1), T.where(i < 5, 3, 70000)) * 65536,
    lambda T, i: T.where(i < 9, 65536, 1) // T.where(i < 5, 3, 1) * 65536,
    lambda T, i: (1 << (i % 40)) + (2**40 >> (i % 40)),
    # of 32 bits, which an index computes in 64
    lambda T, i: (
        T.where(i.float() < 10, *(T.full((), n, dtype=T.int32) for n in (65536, 3)))
        * T.where(i < 13, i.int(), 2000000000)
        + i
    ),
    lambda T, i: T.arange(10).index_select(0, (i * HASH) % 10),
    lambda T, i: T.zeros(10, dtype=T.float32).index_add(0, (i * HASH) % 10, T.ones(8)),
]
BOUNDS = {"any": None, "ids": (0, 50256)}


def wrapping(number: int, bounds: str) -> Graph:
    return traced(
        lambda i: WRAPPING[number](lg, i), None, i=lg.spec(8, dtype=lg.i64, range=BOUNDS[bounds])
    )


def compiled(graphs: Mapping[str, Graph]) -> FastLane:
    """All of them in one library, an entry each."""
    entries = list[tuple[str, Graph]]()
    for name, made in graphs.items():
        graph = made
        for change in GRAPH_PASSES:
            graph = change(graph)
        entries.append((name, graph))
    return fast_lane.load(assemble(tuple(entries), CPU), "-O1")


@functools.cache
def wrapping_library() -> FastLane:
    rows = range(len(WRAPPING))
    return compiled({f"{name}_{n}": wrapping(n, name) for n in rows for name in BOUNDS})


@pytest.mark.parametrize("is_compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("number", range(len(WRAPPING)))
def test_integers_of_64_bits_wrap_around(number: int, bounds: str, is_compiled: bool) -> None:
    """Also where their range is known, and where an element is taken at them, as of an embedding of hashes."""
    held = NEAR if BOUNDS[bounds] else FAR
    wanted = WRAPPING[number](torch, torch.from_numpy(held)).numpy()
    if is_compiled:
        found = wrapping_library().run(f"{bounds}_{number}", {"i": held}, {})["out"]
    else:
        found = evaluate(wrapping(number, bounds), {"i": held}, {})["out"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
@pytest.mark.parametrize("dtype", [lg.i8, lg.u8, lg.i32, lg.i64], ids=str)
def test_bits_of_a_number(dtype: lg.DType, compiled: bool) -> None:
    """Masks are remainders, in every dtype: runs of ones at either end and between, and negative ones."""
    info, rng = np.iinfo(dtype.numpy), np.random.default_rng(0)
    ends = np.array([info.min, info.max, 0, 1], dtype.numpy)
    held = np.concatenate([ends, rng.integers(info.min, info.max, 28, dtype.numpy, endpoint=True)])
    masks = [1, 6, 0x55, info.max, info.max - 3, info.max // 3 * 2]
    masks += [-1, -2, -100, info.min] if info.min else [255]
    cx = lg.Graph()
    x = cx.tensor(held.shape, dtype).set(held)
    found = [[f.retrieve() for f in (x & m, x | m, m ^ x)] for m in masks]
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    for m, results in zip(masks, found, strict=True):
        for got, wanted in zip(results, (held & m, held | m, held ^ m), strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted, err_msg=str(m))


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "cpu"])
def test_the_least_of_distant_integers_and_where_it_is(compiled: bool) -> None:
    """Stored both, so that where it is comes from a comparison with what was stored."""
    cx = lg.Graph()
    least, where = (found.retrieve() for found in cx.tensor(8, dtype=lg.i64).set(FAR).min(0))
    if compiled:
        cx.compile(lg.GenericCompiler(), lg.CPUCompiler())
    cx.execute()
    assert (least.numpy().item(), where.numpy().item()) == (-(2**63), 1)


TYPICALLY = lg.Dim("many", 33, 39, typical=33), lg.Dim("few", 3, 9, typical=3)
BEHIND: dict[str, Callable[[lg.Tensor], lg.Tensor]] = {  # what is there at the dims' typical values
    "along": lambda x: x[:, 33:].softmax(1),
    "across": lambda x: x[:, 33:].mT.softmax(-1),
    "lanes": lambda x: x[:, :, 3:] - x[:, :, 3:].sum(1, keepdim=True),
    "both": lambda x: x[:, 33:, 3:] - x[:, 33:, 3:].sum((1, 2), keepdim=True),
    "product": lambda x: x[:, 33:] @ x[:, 33:].mT,
    "scan": lambda x: x[:, 33:].cumsum(2),
}


def behind(name: str) -> Graph:
    return traced(BEHIND[name], None, x=lg.spec(2, *TYPICALLY))


@functools.cache
def library_of_empty() -> FastLane:
    return compiled({name: behind(name) for name in BEHIND})


@pytest.mark.parametrize("name", BEHIND)
def test_an_axis_may_be_typically_empty(name: str) -> None:
    graph = behind(name)
    for change in GRAPH_PASSES:
        graph = change(graph)
    assert assemble((("entry", graph),), device=TARGETS["cuda"].device).kernels
    for many, few in ((33, 3), (36, 5)):
        x = np.random.default_rng(0).normal(size=(2, many, few)).astype(np.float32)
        found = library_of_empty().run(name, {"x": x}, {})["out"]
        wanted = evaluate(graph, {"x": x}, {})["out"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert (found.size == 0) == (many == 33)


NOTHING: dict[
    str, Callable[[lg.Tensor, lg.Tensor], lg.Tensor]
] = {  # of few and of many parts, packed and as it is
    "rows": lambda x, y: x[1:].mT @ y[1:],
    "computed": lambda x, y: (x[1:].mT.exp() @ y[1:] + 1).relu(),
    "columns": lambda x, y: x[1:].mT @ y[1:].relu().mT.mT,
    "attention": lambda x, y: F.scaled_dot_product_attention(x, x[1:], y[1:], scale=0.5),
}


LONGEST = (40, 3000)


def over_nothing(name: str, longest: int) -> Graph:
    rows = lg.Dim("rows", 1, longest)
    return traced(NOTHING[name], None, x=lg.spec(rows, 20), y=lg.spec(rows, 33))


@functools.cache
def library_of_nothing() -> FastLane:
    return compiled({f"{n}_{most}": over_nothing(n, most) for n in NOTHING for most in LONGEST})


@pytest.mark.parametrize("longest", LONGEST)
@pytest.mark.parametrize("name", NOTHING)
def test_a_product_over_nothing_is_zero(name: str, longest: int) -> None:
    """Whatever the memory held before."""
    graph = over_nothing(name, longest)
    for many in (1, 7):
        rng = np.random.default_rng(0)
        inputs = {
            k: rng.normal(size=(many, w)).astype(np.float32) for k, w in (("x", 20), ("y", 33))
        }
        call = library_of_nothing().prepare(f"{name}_{longest}", inputs, {})
        for memory in (call.scratch, call.memory.arena, call.outputs["out"].view(np.uint8)):
            memory.fill(255)  # NaN
        call.run()
        wanted = evaluate(graph, inputs, {})["out"]
        np.testing.assert_allclose(call.outputs["out"], wanted, rtol=1e-4, atol=1e-5)


EXTREME = np.array([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63 - 2, 1 - 2**63], np.int64)


def _compared(a: lg.Tensor, b: lg.Tensor) -> dict[str, lg.Tensor]:
    """Comparisons whose sides may wrap around, as their terms are moved from one to the other."""
    x, y, i = a.reshape(9, 1), b.reshape(1, 9), lg.arange(9)
    found = {
        "more": x < 1 + y,
        "constant": a + 1 < 5,
        "least": a - 3 < -(2**63) + 1,
        "apart": x - y < 0,
        "negative": -a < 5,
        "places": a < i - i.reshape(9, 1),
        "above": i + 3 < a,
        "last": lg.where(a < 5, a + 1, 6),
    }
    return {name: e.long() for name, e in found.items()}


def test_comparisons_of_integers_wrap_around_as_their_sides_do() -> None:
    spec = lg.spec(9, dtype=lg.i64)
    graph = traced(_compared, None, a=spec, b=spec)
    a, b = EXTREME, EXTREME[::-1].copy()
    found = compiled({"wrap": graph}).run("wrap", {"a": a, "b": b}, {})
    i = np.arange(9)
    with np.errstate(over="ignore"):
        wanted = {
            "more": a[:, None] < 1 + b,
            "constant": a + 1 < 5,
            "least": a - 3 < -(2**63) + 1,
            "apart": a[:, None] - b < 0,
            "negative": -a < 5,
            "places": a < i - i[:, None],
            "above": i + 3 < a,
            "last": np.where(a < 5, a + 1, 6),
        }
    for name, want in wanted.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)
        np.testing.assert_array_equal(evaluate(graph, {"a": a, "b": b}, {})[name], want)
