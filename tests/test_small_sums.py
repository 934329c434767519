"""Sums of small integers are added up in floats, where bounds show that nothing rounds: exact, in vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen import functional as F
from lumigen.dtype import DType, f32, i8, i32, u8
from lumigen.graph import Graph
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.pipeline import lower_model
from lumigen.region import Intrinsic, Reduce, walk
from lumigen.target import parse_target
from lumigen.targets.cpu.device import CPU

Array = np.ndarray[Any, Any]
Function = Callable[..., lg.Tensor]


class Windows(nn.Module):
    """Sums of windows of an image whose edge is a zero point, times a filter for each channel, and a bias."""

    def __init__(self, filters: tuple[int, ...], fill: int, stride: int, dilation: int) -> None:
        self.weight = nn.Parameter(*filters, dtype=i8)
        self.bias = nn.Parameter(filters[0], dtype=i32)
        self.sizes = fill, stride, dilation

    def forward(self, x: lg.Tensor) -> dict[str, lg.Tensor]:
        fill, stride, dilation = self.sizes
        wide, groups = x.pad([1, 2, 2, 1], fill).to(i32) - fill, int(self.weight.shape[0])
        sums = F.conv2d(wide, self.weight.to(i32), self.bias, stride, 0, dilation, groups)
        near = (sums.to(f32) * 2.0**-8).round() + 7
        return {"sums": sums, "u8": near.clamp(0, 255).to(u8), "i8": near.clamp(-128, 127).to(i8)}


def lowered(function: Function, **specs: Any) -> tuple[Graph, LoweredModel]:
    graph = entry = traced(lambda **given: {"out": function(**given)}, **specs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CPU)


def numbers(rng: np.random.Generator, dtype: DType, *shape: int) -> Array:
    """All that there are, and those with the largest sums."""
    found = rng.integers(dtype.lowest, dtype.greatest + 1, shape).astype(dtype.numpy)
    found[:, 0] = dtype.lowest if dtype is i8 else dtype.greatest
    return found


def are_exact(graph: Graph, model: LoweredModel, inputs: dict[str, Array]) -> None:
    """In numpy, and as C++."""
    wanted = evaluate(graph, inputs, {})["out"]
    np.testing.assert_array_equal(run_entry(model, inputs, {})["out"], wanted)
    found = fast_lane.load(model, "-O1").run("entry", inputs, {})["out"]
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


# images, filters, and zero point, distance of windows and of their points
WINDOWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], DType, tuple[int, int, int]]] = {
    "unsigned": ((1, 3, 21, 19), (3, 1, 5, 5), u8, (255, 1, 1)),
    "signed": ((2, 2, 9, 40), (2, 1, 3, 3), i8, (-128, 1, 1)),
    "two steps": ((1, 3, 17, 23), (3, 1, 3, 3), u8, (0, 2, 1)),
    "two steps of a long row": ((1, 2, 7, 90), (2, 1, 5, 5), i8, (127, 2, 1)),
    "three steps": ((1, 2, 19, 80), (2, 1, 4, 4), i8, (3, 3, 1)),
    "dilated": ((1, 2, 9, 18), (2, 1, 3, 3), u8, (121, 1, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("output", ["sums", "u8", "i8"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_bytes_slide(name: str, output: str, rng: np.random.Generator) -> None:
    image, filters, dtype, sizes = WINDOWS[name]
    net = Windows(filters, *sizes)
    model = lg.Model("windows", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 4), *image[1:], dtype=dtype))
    def forward(x: lg.Tensor) -> dict[str, lg.Tensor]:
        return {"out": net(x)[output]}

    made = model.trace()
    ((_, graph),) = made.entries
    found = lower_model(made, {}, target=parse_target("cpu")).lowered
    assert "sliding" in [k.program.skeleton for k in found.kernels]
    inputs = {"x": numbers(rng, dtype, *image)}
    bias = rng.integers(-(2**31), 2**31, filters[0]).astype(np.int32)
    bias[0] = 50_000
    weights = {"weight": numbers(rng, i8, *filters), "bias": bias}
    weights = {w.name: weights[w.name.rsplit(".")[-1]] for w in made.weights}
    wanted = evaluate(graph, inputs, weights)["out"]
    np.testing.assert_array_equal(run_entry(found, inputs, weights)["out"], wanted)
    got = fast_lane.load(found, "-O1").run("forward", inputs, weights)["out"]
    np.testing.assert_array_equal(got, wanted)


def test_a_sum_that_floats_do_not_hold_stays_one_of_integers(rng: np.random.Generator) -> None:
    """255 times -128, 514 times, is the last that f32 holds; one more is not."""
    for depth, dtype in ((514, f32), (515, i32)):
        inputs = {
            "x": np.full((2, depth, 24), 255, np.uint8),
            "w": np.full((depth, 1), -128, np.int8),
        }
        graph, model = lowered(
            lambda x, w: (x.to(i32) * w.to(i32)).sum(1, dtype=i32),
            x=lg.spec(2, depth, 24, dtype=u8),
            w=lg.spec(depth, 1, dtype=i8),
        )
        values = [s.value for k in model.kernels for s in k.region.stores]
        assert {e.dtype for e in walk(values) if isinstance(e, Reduce)} == {dtype}
        are_exact(graph, model, inputs)


TERMS: dict[str, Function] = {
    "remainders": lambda x: x % 16,
    "quotients": lambda x: x // 16,
    "casts of floats": lambda x: (x.to(f32) * 2 - 99).to(u8),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", TERMS)
def test_terms_that_are_words_of_a_target(name: str, axis: int, rng: np.random.Generator) -> None:
    """A region has primitives only, of which the reference of its kernel is written."""
    term = TERMS[name]
    graph, model = lowered(
        lambda x: term(x).to(i32).sum(axis, dtype=i32), x=lg.spec(9, 37, dtype=u8)
    )
    values = [s.value for k in model.kernels for s in k.region.stores]
    assert not any(isinstance(e, Intrinsic) for e in walk(values))
    are_exact(graph, model, {"x": numbers(rng, u8, 9, 37)})


def test_integers_that_two_values_are_made_of(rng: np.random.Generator) -> None:
    """Vectors have no name for them, which changes nothing but the time."""

    def both(x: lg.Tensor, a: lg.Tensor, b: lg.Tensor) -> lg.Tensor:
        total = x.to(i32).sum(1, dtype=i32)
        return (total + a).to(f32) * (total + b).to(f32)

    more = lg.spec(24, dtype=i32)
    graph, model = lowered(both, x=lg.spec(2, 9, 24, dtype=u8), a=more, b=more)
    inputs = {
        "x": rng.integers(0, 256, (2, 9, 24)).astype(np.uint8),
        "a": rng.integers(-99, 99, 24).astype(np.int32),
        "b": rng.integers(-99, 99, 24).astype(np.int32),
    }
    are_exact(graph, model, inputs)
