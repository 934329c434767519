"""Sums over windows by fewer products: the identity in fractions, programs beside those as written, when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lumigen.functional import conv1d, conv2d, conv3d, conv_transpose2d, pad
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.algebra.egraph import is_here
from lumigen.algebra.numerics import Numerics
from lumigen.algebra.windows import NAME, TAPS, N, SlidingSum, fewer_products, tables, windows_of
from lumigen.cli import run
from lumigen.dtype import bf16, f32
from lumigen.graph import Graph
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.make_project import compile_project
from lumigen.search.equal import proposed
from lumigen.target import HOST
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cpu.machines import STEPS
from lumigen.verify.graph import verify

ALWAYS = replace(STEPS, product=10**7, tile=1)  # with them fewer products are all that counts
H, W = lg.Dim("h", 3, 40, typical=17), lg.Dim("w", 3, 40, typical=16)


@pytest.mark.parametrize("taps", TAPS)
def test_the_identity_holds_in_fractions(taps: int) -> None:
    of, together = tables(taps), N + 1 - taps
    x = [Fraction(3 * i * i - 7, i + 2) for i in range(N)]
    w = [Fraction(5 - 2 * t, 3 + t) for t in range(taps)]
    values = [sum(b * v for b, v in zip(row, x, strict=True)) for row in of.b]
    made = [sum(g * v for g, v in zip(row, w, strict=True)) for row in of.g]
    for i, row in enumerate(of.a):
        found = sum(a * v * u for a, v, u in zip(row, values, made, strict=True))
        assert found == sum(x[i + t] * w[t] for t in range(taps))
    assert len(of.a) == together


@pytest.mark.parametrize("taps", TAPS)
def test_the_numbers_of_a_and_b_are_exact_in_16_bits_of_a_float(taps: int) -> None:
    of = tables(taps)
    for v in (*(v for row in of.a for v in row), *(v for row in of.b for v in row)):
        assert Fraction(float(np.float16(float(v)))) == v


def last(x, w):
    """Channels last."""
    return conv2d(x.permute((0, 3, 1, 2)), w, padding=1).permute((0, 2, 3, 1))


def both_ways(x, w):
    y = conv2d(x, w, padding=1)
    return conv2d(lg.relu(y), w, padding=1) + x


# Of each: the function, x, w, and how many of its sums have fewer products where nothing else counts.
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...], int]] = {
    "edges": (lambda x, w: conv2d(x, w, padding=1), (2, 5, 9, 11), (7, 5, 3, 3), 1),
    "no edges": (conv2d, (1, 5, 13, 11), (7, 5, 3, 3), 1),
    "two points": (conv2d, (1, 5, 11, 11), (3, 5, 2, 2), 1),
    "four points": (lambda x, w: conv2d(x, w, padding=(2, 1)), (1, 5, 13, 11), (3, 5, 4, 3), 1),
    "five points": (lambda x, w: conv2d(x, w, padding=2), (1, 4, 13, 11), (3, 4, 5, 5), 1),
    "points of rows alone": (conv2d, (1, 4, 13, 11), (3, 4, 3, 1), 1),
    "wide edges": (lambda x, w: conv2d(x, w, padding=(3, 0)), (1, 4, 6, 11), (3, 4, 3, 3), 1),
    "any size": (lambda x, w: conv2d(x, w, padding=1), (1, 4, H, W), (3, 4, 3, 3), 1),
    "groups": (lambda x, w: conv2d(x, w, padding=1, groups=2), (1, 8, 9, 11), (6, 4, 3, 3), 1),
    "channels last": (last, (1, 9, 11, 5), (7, 5, 3, 3), 1),
    "one after another": (both_ways, (1, 5, 9, 11), (5, 5, 3, 3), 2),
    "three dimensions": (lambda x, w: conv3d(x, w, padding=1), (1, 3, 6, 7, 8), (4, 3, 3, 3, 3), 1),
    "turned": (
        lambda x, w: conv_transpose2d(x, w, padding=1),
        (1, 5, 9, 11),
        (5, 7, 3, 3),
        1,
    ),
    "a part of the channels": (
        lambda x, w: conv2d(x[:, 2:6], w, padding=1),
        (1, 8, 9, 11),
        (3, 4, 3, 3),
        1,
    ),
    "steps of two in one direction": (
        lambda x, w: conv2d(x, w, stride=(1, 2), padding=1),
        (1, 5, 9, 11),
        (7, 5, 3, 3),
        1,
    ),
    "steps of two": (lambda x, w: conv2d(x, w, stride=2), (1, 5, 9, 11), (7, 5, 3, 3), 0),
    "points apart": (lambda x, w: conv2d(x, w, dilation=2), (1, 5, 9, 11), (7, 5, 3, 3), 0),
    "neighbours in memory": (conv1d, (1, 5, 30), (7, 5, 3), 0),
    "seven points": (conv2d, (1, 5, 9, 11), (7, 5, 7, 1), 0),
    "nothing else is summed up": (
        lambda x, w: (x.unfold(0, 3, 1) * w).sum(-1),
        (9, 4),
        (4, 3),
        0,
    ),
    "edges of another number": (
        lambda x, w: conv2d(pad(x, (0, 0, 1, 1), value=2.0), w),
        (1, 5, 9, 11),
        (7, 5, 3, 3),
        0,
    ),
}


def graph_of(name: str, dtype: lg.DType = lg.f32) -> Graph:
    function, x, w, _ = CASES[name]
    inputs = {"x": lg.spec(*x, dtype=dtype), "w": lg.spec(*w, dtype=dtype)}
    made = traced(lambda x, w: {"out": function(x, w)}, None, **inputs)
    return reduce(lambda g, step: step(g), GRAPH_PASSES, made)


def inputs_of(name: str, rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Any]:
    _, x, w, _ = CASES[name]
    sizes = {H: 10, W: 7}
    shapes = {"x": [sizes.get(d, d) for d in x], "w": w}
    return {k: rng.normal(size=s).astype(dtype) for k, s in shapes.items()}


@pytest.mark.parametrize("name", CASES)
def test_sums_by_fewer_products_are_the_same_in_f64(name: str) -> None:
    graph = graph_of(name, lg.f64)
    fewer = fewer_products(graph, ALWAYS)
    assert fewer.sums == CASES[name][3]
    assert (fewer.graph == graph) == (fewer.sums == 0)
    verify(fewer.graph, "windows")
    for seed in range(2):
        given = inputs_of(name, np.random.default_rng(seed), np.float64)
        found, wanted = (evaluate(g, given, {})["out"] for g in (fewer.graph, graph))
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[3]])
def test_kernels_compute_them(name: str, rng: np.random.Generator) -> None:
    graph = fewer_products(graph_of(name), ALWAYS).graph
    graph = reduce(lambda g, step: step(g), GRAPH_PASSES, graph)
    model, given = assemble((("entry", graph),), CPU), inputs_of(name, rng)
    wanted = evaluate(graph_of(name), given, {})["out"]
    compiled = fast_lane.load(model, "-O1").run("entry", given, {})["out"]
    for found in (run_entry(model, given, {})["out"], compiled):
        np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-5)


def layer(x, w):
    return lg.relu(conv2d(x, w, padding=1))


def test_errors_of_f32_are_few_times_those_of_the_sum_as_written() -> None:
    """In the norm: three times, of random data of which half is zero, as behind a relu."""
    rng, channels, size = np.random.default_rng(1), 64, 16
    shapes = {"x": (1, channels, size, size), "w": (channels, channels, 3, 3)}
    plain = traced(layer, None, **{k: lg.spec(*s) for k, s in shapes.items()})
    wide = traced(layer, None, **{k: lg.spec(*s, dtype=lg.f64) for k, s in shapes.items()})
    x, w = (rng.standard_normal(s).astype(np.float32) for s in shapes.values())
    given = {"x": np.maximum(x, 0), "w": w / np.float32(24)}
    exact = evaluate(wide, {k: v.astype(np.float64) for k, v in given.items()}, {})["out"]
    fewer = fewer_products(reduce(lambda g, step: step(g), GRAPH_PASSES, plain), ALWAYS)
    assert fewer.sums == 1
    found = [
        fast_lane.load(assemble((("entry", g),), CPU), "-O1").run("entry", given, {})["out"]
        for g in (plain, fewer.graph)
    ]
    as_written, by_fewer = (float(np.linalg.norm(y - exact)) for y in found)
    assert as_written < by_fewer < 5 * as_written
    assert by_fewer < 1e-6 * float(np.linalg.norm(exact))


# ---- when it is done ----


def model_of(channels: int, size: int | lg.Dim) -> lg.Traced:
    net = lg.nn.Conv2d(channels, channels, 3, padding=1)
    model = lg.Model("layer", net)

    @model.entry(x=lg.spec(1, channels, size, size))
    def go(x):
        return {"y": lg.relu(net(x))}

    return model.trace()


def windows_in(traced: lg.Traced) -> list[SlidingSum]:
    ((_, graph),) = traced.entries
    normal = reduce(lambda g, step: step(g), GRAPH_PASSES, graph)
    return [w for n in normal.nodes() for w in windows_of(n)]


@pytest.mark.parametrize(
    ("channels", "size", "pays"),
    [(64, 56, True), (128, 28, True), (256, 14, True), (512, 7, False), (8, 64, False)],
)
def test_it_is_done_where_products_are_most_of_the_work(
    channels: int, size: int, pays: bool
) -> None:
    """Few columns leave tiles of products empty; few channels have as much to store as to multiply."""
    (w,) = windows_in(model_of(channels, size))
    assert (w.saves(STEPS) * STEPS.worth_of_largest >= w.takes(STEPS)) == pays


def test_dims_decide_by_their_typical_sizes() -> None:
    for typical, pays in ((56, True), (4, False)):
        (w,) = windows_in(model_of(64, lg.Dim("size", 3, 128, typical=typical)))
        assert (w.saves(STEPS) * STEPS.worth_of_largest >= w.takes(STEPS)) == pays


@pytest.mark.skipif(not is_here(), reason="egglog is not installed (the extra `search`)")
def test_only_fast_numerics_do_it_and_only_in_f32() -> None:
    given = model_of(64, 56)
    rules = [
        {**(one.rules or {})}
        for numerics, dtype in (
            (Numerics.FAST, f32),
            (Numerics.DEFAULT, f32),
            (Numerics.FAST, bf16),
        )
        for one in proposed(given, HOST, dtype, [numerics])
    ]
    assert rules == [{NAME: 1}]


@pytest.mark.skipif(not is_here(), reason="egglog is not installed (the extra `search`)")
def test_what_is_left_of_the_time_counts_sums_in_the_steps_of_a_scan() -> None:
    """No block of the algebra has these: what they save is compared with what they took."""
    parts = lg.nn.ModuleList([lg.nn.Conv2d(64, 64, 3, padding=1), lg.nn.LayerNorm(8)])
    (net, beside), model = parts, lg.Model("steps", parts)

    @model.entry(x=lg.spec(1, 64, 56, 56), z=lg.spec(4, 8))
    def go(x, z):
        last, _ = lg.scan(lambda h, _: (lg.relu(net(h)), None), x, None, length=3)
        return {"y": last, "beside": beside(z)}

    (made,) = proposed(model.trace(), HOST, f32, [Numerics.FAST])
    assert (made.rules or {})[NAME] == 1
    assert 0.4 < made.gain < 0.9


@pytest.mark.slow
@pytest.mark.skipif(not is_here(), reason="egglog is not installed (the extra `search`)")
def test_a_project_of_fast_numerics_passes_its_own_tests(tmp_path: Path) -> None:
    given = model_of(64, 56)
    plain = compile_project(given, directory=tmp_path / "plain", build=False)
    fast = compile_project(given, directory=tmp_path / "fast", numerics="fast", isa="native")
    assert fast.entries[0].launches == plain.entries[0].launches + 2
    launched = sorted((tmp_path / "fast" / "kernels").glob("k0[0-2]*.cpp"))
    assert len(launched) == 3
    assert all("test_windows.py" in p.read_text(encoding="utf-8") for p in launched)
    assert run(["test", str(tmp_path / "fast")]) == 0
