"""Weights of fewer bytes than floats: one row reads them in vectors, many rows unpack them in their tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.frontend.functions import cat
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import lower_model
from lumigen.quantise import quantised
from lumigen.target import parse_target
from lumigen.tile import Ahead, For, StoreTile

Array = np.ndarray[Any, Any]


class SubBlocks(nn.Module):
    """Blocks of 128: numbers of 4 bits, a scale and an offset for each, and small ones for 32 of them."""

    def __init__(self, n: int, k: int) -> None:
        self.quants = nn.Parameter(n, k // 128, 2, 1, 32, dtype=lg.u8)
        self.scales = nn.Parameter(n, k // 128, 1, 1, 1, dtype=lg.f16)
        self.offsets = nn.Parameter(n, k // 128, 1, 1, 1, dtype=lg.f16)
        self.small = nn.Parameter(n, k // 128, 2, 2, 1, dtype=lg.u8)
        self.shape = n, k

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        low, high = self.quants & 15, self.quants >> 4
        numbers = cat([low, high], 3).to(lg.f32)
        scaled = numbers * (self.scales.to(lg.f32) * self.small.to(lg.f32))
        return x @ (scaled - self.offsets.to(lg.f32)).reshape(*self.shape).T


def lowered(
    rows: int | lg.Dim, net: nn.Module, k: int, form: str = ""
) -> tuple[lg.Traced, LoweredModel]:
    """A model of one product, for a CPU, its weight in blocks of a format."""
    model = lg.Model("unpacked", net)

    @model.entry(x=lg.spec(rows, k))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    traced = model.trace()
    traced = quantised(traced, None, form).traced if form else traced
    return traced, lower_model(traced, {}, target=parse_target("cpu")).lowered


def numbers(traced: lg.Traced) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        w.name: rng.integers(0, 100, w.shape).astype(w.dtype.numpy)
        if w.dtype.is_int
        else rng.standard_normal(w.shape).astype(w.dtype.numpy)
        for w in traced.weights
    }


def agree(traced: lg.Traced, found: LoweredModel, rows: int, k: int) -> None:
    """Whether the tile programs, and the kernels, compute what the graph does."""
    x = np.random.default_rng(1).standard_normal((rows, k)).astype(np.float32)
    weights = numbers(traced)
    ((_, graph),) = traced.entries
    expected = evaluate(graph, {"x": x}, weights)["out"]
    kernels = fast_lane.load(found, "-O1")
    for run in (run_entry(found, {"x": x}, weights), kernels.run("forward", {"x": x}, weights)):
        apart = np.abs(run["out"] - expected).max()
        assert apart <= 5e-6 * np.abs(expected).max()


@pytest.mark.parametrize("form", ["q8", "q4"])
def test_a_row_reads_blocks_in_vectors_several_columns_at_a_time(form: str) -> None:
    """Columns fill no whole number of those that are folded in one loop, and what lies in a byte is not asked for."""
    traced, found = lowered(1, nn.Linear(96, 11), 96, form)
    (kernel,) = found.kernels
    main, left = (s for s in kernel.program.body if isinstance(s, For))
    assert len([s for s in main.body if isinstance(s, StoreTile)]) == 4
    assert len([s for s in left.body if isinstance(s, StoreTile)]) == 1
    agree(traced, found, 1, 96)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["q8", "q4"])
def test_many_rows_unpack_blocks_in_their_tiles(form: str) -> None:
    """Several parts of the depth, of whole blocks; no matrix of floats is stored."""
    traced, found = lowered(lg.Dim("rows", 1, 300, typical=40), nn.Linear(800, 37), 800, form)
    (kernel,) = found.kernels
    assert kernel.program.skeleton == "panel"
    assert "w_tile" in {b.name for b in kernel.program.scratch}
    agree(traced, found, 3, 800)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 5])
def test_scales_of_scales_are_computed_once_for_a_block(rows: int) -> None:
    traced, found = lowered(rows, SubBlocks(7, 640), 640)
    element_by_element = ("build_lanes", "mask_lanes")
    assert not any(word in fast_lane.source(found) for word in element_by_element)
    agree(traced, found, rows, 640)


def test_long_rows_of_floats_are_asked_for_lane_by_lane() -> None:
    """A matrix that is no weight: lines of memory are asked for as vectors read them."""
    model = lg.Model("inputs", nn.Identity())

    @model.entry(x=lg.spec(70), w=lg.spec(9, 70))
    def forward(x: lg.Tensor, w: lg.Tensor) -> lg.Tensor:
        return w @ x

    found = lower_model(model.trace(), {}, target=parse_target("cpu")).lowered
    (kernel,) = found.kernels
    assert any(isinstance(s, Ahead) for s in kernel.program.statements())
    rng = np.random.default_rng(1)
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", 70), ("w", (9, 70)))}
    expected = inputs["w"].astype(np.float64) @ inputs["x"]
    kernels = fast_lane.load(found, "-O1")
    for run in (run_entry(found, inputs, {}), kernels.run("forward", inputs, {})):
        np.testing.assert_allclose(run["out"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [128, 256])
def test_a_remainder_that_no_byte_holds_is_one_of_floats(size: int) -> None:
    """Of -1 by 256, it is 255; a word of bytes has their signs alone."""
    model = lg.Model("remainders", nn.Identity())

    @model.entry(q=lg.spec(4, 64, dtype=lg.i8), s=lg.spec(4, 64))
    def forward(q: lg.Tensor, s: lg.Tensor) -> lg.Tensor:
        return (q.to(lg.f32) % float(size)) * s

    target = parse_target("cuda:sm_90a")
    (kernel,) = lower_model(model.trace(), {}, target=target).model.kernels
    assert ("whole_remainder(Vec(load_widened(" in kernel.body) == (size == 256)
