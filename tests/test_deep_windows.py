"""Windows of bytes whose depth is turned to lie innermost: exact, of all sizes, for all shares of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiles import run_entry

import lumigen as lg
from lumigen import fast_lane, nn
from lumigen import functional as F
from lumigen.dtype import DType, f32, i8, i32, u8
from lumigen.emit.weights_file import pack
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import lower_model
from lumigen.program import Panels
from lumigen.target import parse_target
from lumigen.tile import Mma, Pack, PackRuns

Array = np.ndarray[Any, Any]


class Windows(nn.Module):
    """Sums of windows of an image whose edge is a zero point, times filters, less what the zero points add."""

    def __init__(
        self, filters: tuple[int, ...], pads: list[int], fill: int, stride: int, dilation: int
    ) -> None:
        self.weight = nn.Parameter(*filters, dtype=i8)
        self.sizes = pads, fill, stride, dilation

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        pads, fill, stride, dilation = self.sizes
        wide = x.pad(pads, fill).to(i32) - fill
        sums = F.conv2d(wide, self.weight.to(i32), None, stride, 0, dilation)
        return ((sums.to(f32) * 2.0**-12).round() + 7).clamp(-128, 127).to(i8)


# image, filters, paddings, zero point, distance of windows and of their points, integers
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], list[int], int, int, int, DType]] = {
    "unsigned": ((2, 16, 9, 11), (18, 16, 3, 3), [1, 2, 0, 1], 255, 1, 1, u8),
    "signed": ((1, 35, 6, 7), (20, 35, 3, 3), [1, 1, 1, 1], -128, 1, 1, i8),
    "by two": ((2, 19, 12, 37), (33, 19, 3, 3), [1, 0, 1, 0], 121, 2, 1, u8),
    "dilated": ((1, 40, 9, 9), (8, 40, 3, 3), [2, 2, 2, 2], 3, 1, 2, i8),
    "no edges": ((3, 17, 8, 20), (16, 17, 2, 3), [0, 0, 0, 0], 0, 1, 1, u8),
    "deep": ((1, 270, 7, 7), (16, 270, 3, 3), [1, 1, 1, 1], 128, 1, 1, u8),
    "many rows": ((1, 16, 40, 30), (16, 16, 5, 5), [2, 2, 2, 2], 77, 1, 1, u8),
    "an image below its window": ((1, 16, 2, 3), (16, 16, 3, 3), [1, 1, 1, 1], 9, 1, 1, i8),
}


def numbers(dtype: DType, *shape: int) -> Array:
    """All that there are, the least first."""
    info = np.iinfo(dtype.numpy)
    found = np.random.default_rng(0).integers(info.min, info.max + 1, shape)
    found.reshape(-1)[:4] = info.min
    return found.astype(dtype.numpy)


def lowered(name: str) -> tuple[lg.Traced, LoweredModel]:
    image, filters, *sizes, dtype = CASES[name]
    net = Windows(filters, *sizes)
    model = lg.Model("windows", net)

    @model.entry(x=lg.spec(lg.Dim("batch", 1, 4), *image[1:], dtype=dtype))
    def forward(x: lg.Tensor) -> lg.Tensor:
        return net(x)

    traced = model.trace()
    return traced, lower_model(traced, {}, target=parse_target("cpu")).lowered


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_windows_are_turned_once_and_exact(name: str) -> None:
    image, *_, dtype = CASES[name]
    traced, found = lowered(name)
    statements = [s for k in found.kernels for s in k.program.statements()]
    assert [s.element for s in statements if isinstance(s, Mma)] == [dtype]
    assert [s.apart for s in statements if isinstance(s, PackRuns)] == [image[1]]
    assert all(s.run for s in statements if isinstance(s, Pack))
    ((_, graph),) = traced.entries
    inputs = {"x": numbers(dtype, *image)}
    weights = {w.name: numbers(w.dtype, *w.shape) for w in traced.weights}
    expected = evaluate(graph, inputs, weights)["out"]
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(run_entry(found, inputs, weights)["out"], expected)
    got = fast_lane.load(found, "-O1").run("forward", inputs, weights)["out"]
    np.testing.assert_array_equal(got, expected)


def test_neighbours_of_the_depth_are_copied_together() -> None:
    """Of all columns of a window where these lie side by side, else of one."""
    for name, together in (("unsigned", 3 * 16), ("dilated", 40)):
        _, found = lowered(name)
        statements = [s for k in found.kernels for s in k.program.statements()]
        assert [s.run for s in statements if isinstance(s, Pack)] == [together]


def test_panels_of_a_depth_that_is_two_axes() -> None:
    weight = np.arange(5 * 6 * 4, dtype=np.int8).reshape(5, 6, 4)
    layout = Panels(5, 24, 24, 4, side=4, inner=6, outer_stride=1)
    turned = np.ascontiguousarray(weight.transpose(0, 2, 1)).reshape(5, 24)
    plain = Panels(5, 24, 24, 1, side=4)
    np.testing.assert_array_equal(pack(weight, layout), pack(turned, plain))
    assert layout.reach == (0, weight.size - 1)
