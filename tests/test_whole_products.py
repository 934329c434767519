"""Products of integers of 8 bits: exact, in tiles, with offsets that leave them; floats that are stored as integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen.dtype import DType
from lumigen.frontend import functional
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import lower_model
from lumigen.target import parse_target
from lumigen.tile import Mma, StoreTile

Array = np.ndarray[Any, Any]


class Product(nn.Module):
    """Rows times a weight in i32, each with an offset, and what becomes of the sums."""

    def __init__(self, n: int, k: int, offsets: tuple[int, int], becomes: str) -> None:
        self.weight = nn.Parameter(n, k, dtype=lg.i8)
        self.offsets, self.becomes = offsets, becomes

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        of_x, of_weight = self.offsets
        sums = (x.to(lg.i32) - of_x) @ (self.weight.to(lg.i32) + of_weight).T
        if self.becomes == "u8":
            return ((sums.to(lg.f32) * 1e-4).round() + 7).clamp(0, 255).to(lg.u8)
        return sums.to(lg.f32) * 0.5 if self.becomes == "f32" else sums


def lowered(
    net: nn.Module, rows: int | lg.Dim, k: int, dtype: DType
) -> tuple[lg.Traced, LoweredModel]:
    model = lg.Model("whole", net)

    @model.entry(x=lg.spec(rows, k, dtype=dtype))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    traced = model.trace()
    return traced, lower_model(traced, {}, target=parse_target("cpu")).lowered


def numbers(dtype: DType, *shape: int) -> Array:
    """All that there are, the least first: two of it, times two, overflow 16 bits."""
    info = np.iinfo(dtype.numpy)
    found = np.random.default_rng(0).integers(info.min, info.max + 1, shape)
    found.reshape(-1)[:4] = info.min
    return found.astype(dtype.numpy)


CASES = [
    (lg.Dim("n", 1, 40), 70, 75, lg.u8, (0, 0), "i32"),
    (1, 130, 64, lg.i8, (0, 0), "f32"),
    (37, 96, 2100, lg.i8, (0, 0), "i32"),
    (5, 33, 70, lg.u8, (7, 0), "i32"),
    (20, 64, 70, lg.u8, (121, 3), "f32"),
    (9, 50, 300, lg.u8, (121, 0), "u8"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "n", "k", "dtype", "offsets", "becomes"), CASES)
def test_products_are_exact_in_tiles(
    rows: int | lg.Dim, n: int, k: int, dtype: DType, offsets: tuple[int, int], becomes: str
) -> None:
    traced, found = lowered(Product(n, k, offsets, becomes), rows, k, dtype)
    ((_, graph),) = traced.entries
    inputs = {"x": numbers(dtype, rows if isinstance(rows, int) else 37, k)}
    weights = {w.name: numbers(w.dtype, *w.shape) for w in traced.weights}
    expected = evaluate(graph, inputs, weights)["out"]
    elements = [
        s.element
        for kernel in found.kernels
        for s in kernel.program.statements()
        if isinstance(s, Mma)
    ]
    assert elements == [dtype]
    np.testing.assert_array_equal(run_entry(found, inputs, weights)["out"], expected)
    kernels = fast_lane.load(found, "-O1")
    np.testing.assert_array_equal(kernels.run("forward", inputs, weights)["out"], expected)


class Windows(nn.Module):
    """Sums of windows of an image that is padded with its zero point, times a weight."""

    def __init__(self, shape: tuple[int, ...], step: int, dilation: int, groups: int) -> None:
        self.weight = nn.Parameter(*shape, dtype=lg.i8)
        self.sizes = step, dilation, groups

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        step, dilation, groups = self.sizes
        wide, weight = x.pad([1, 2, 0, 1], 77).to(lg.i32) - 77, self.weight.to(lg.i32)
        sums = functional.conv2d(wide, weight, None, step, 0, dilation, groups)
        return ((sums.to(lg.f32) * 3e-4).round() + 7).clamp(-128, 127).to(lg.i8)


# shapes of image and weight, distance of windows and of their points, groups, and whether products have tiles
WINDOWS = [
    ((1, 5, 9, 11), (18, 5, 3, 3), 1, 1, 1, lg.u8, True),
    ((2, 4, 12, 21), (33, 4, 3, 2), 2, 1, 1, lg.i8, True),
    ((1, 35, 6, 7), (20, 35, 3, 3), 1, 2, 1, lg.u8, True),
    ((2, 40, 7, 7), (24, 40, 1, 1), 1, 1, 1, lg.u8, True),
    ((1, 8, 6, 6), (8, 4, 3, 3), 1, 1, 2, lg.i8, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "shape", "step", "dilation", "groups", "dtype", "tiled"), WINDOWS
)
def test_windows_of_integers_are_rows_of_products(
    image: tuple[int, ...],
    shape: tuple[int, ...],
    step: int,
    dilation: int,
    groups: int,
    dtype: DType,
    tiled: bool,
) -> None:
    net = Windows(shape, step, dilation, groups)
    model = lg.Model("windows", net)

    @model.entry(x=lg.spec(*image, dtype=dtype))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    traced = model.trace()
    found = lower_model(traced, {}, target=parse_target("cpu")).lowered
    products = [s for k in found.kernels for s in k.program.statements() if isinstance(s, Mma)]
    assert [s.element for s in products] == ([dtype] if tiled else [])
    ((_, graph),) = traced.entries
    inputs = {"x": numbers(dtype, *image)}
    weights = {w.name: numbers(w.dtype, *w.shape) for w in traced.weights}
    expected = evaluate(graph, inputs, weights)["out"]
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(run_entry(found, inputs, weights)["out"], expected)
    kernels = fast_lane.load(found, "-O1")
    np.testing.assert_array_equal(kernels.run("forward", inputs, weights)["out"], expected)


@pytest.mark.parametrize("dtype", [lg.i8, lg.u8, lg.i32])
def test_vectors_store_floats_as_integers(dtype: DType) -> None:
    class Rounded(nn.Module):
        def forward(self, x: lg.Tensor) -> lg.Tensor:
            return (x * 3).to(dtype)

    traced, found = lowered(Rounded(), lg.Dim("n", 1, 9), 37, lg.f32)
    (kernel,) = found.kernels
    assert all(s.lanes is not None for s in kernel.program.statements() if isinstance(s, StoreTile))
    ((_, graph),) = traced.entries
    x = np.random.default_rng(0).standard_normal((7, 37)).astype(np.float32) * 30
    x.reshape(-1)[:6] = [np.nan, np.inf, -np.inf, 3e9, -3e9, 715827882.6]
    out = fast_lane.load(found, "-O1").run("forward", {"x": x}, {})["out"]
    np.testing.assert_array_equal(out, evaluate(graph, {"x": x}, {})["out"])
