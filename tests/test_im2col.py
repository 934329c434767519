"""Products of operands that are read through windows: what a copy engine is told, and what kernels compute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, every_variant_agrees, lowered

import lumigen as lg
from lumigen import functional as F
from lumigen.index import ix
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.lower.gathered import Gathered
from lumigen.tile import Contract, TensorMap, Window
from lumigen.verify.tile import verify

N = lg.Dim("n", 1, 4, typical=2)
H = lg.Dim("h", 1, 40, typical=9)
W = lg.Dim("w", 1, 40, typical=8)


def case(
    *image: Any, rows: int = 8, window: tuple[int, int] = (3, 3), first: bool = False, **how: Any
) -> Case:
    """A convolution of (n, h, w, channels) by (rows, *window, channels); `first`: its channels are, in the result."""

    def function(x: Any, w: Any) -> Any:
        y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), **how)
        return y if first else y.permute(0, 2, 3, 1)

    channels = image[3] // how.get("groups", 1)
    weights = lg.spec(rows, *window, channels, dtype=lg.f16)
    return function, {"x": lg.spec(*image, dtype=lg.f16), "w": weights}


WINDOWS: dict[str, Case] = {
    "edges": case(2, 5, 6, 64, padding=1),
    "channels_first": case(2, 5, 6, 64, padding=1, first=True, rows=24),
    "one_image": case(1, 5, 6, 40, padding=1),
    "steps": case(2, 7, 8, 64, padding=1, stride=2),
    "steps_apart": case(2, 7, 8, 64, stride=(3, 1), window=(2, 1)),
    "taps_apart": case(1, 9, 8, 64, padding=2, dilation=2, first=True),
    "across_alone": case(2, 5, 9, 72, window=(1, 5), padding=(0, 2), stride=(1, 2)),
    "a_point": case(2, 5, 6, 64, window=(1, 1), stride=2),
    "side_by_side": (
        lambda x, w, v: {
            "y": F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1).permute(
                0, 2, 3, 1
            ),
            "z": F.relu(F.conv2d(x.permute(0, 3, 1, 2), v.permute(0, 3, 1, 2), padding=1)).permute(
                0, 2, 3, 1
            ),
        },
        {
            "x": lg.spec(N, 6, 6, 64, dtype=lg.f16),
            "w": lg.spec(40, 3, 3, 64, dtype=lg.f16),
            "v": lg.spec(24, 3, 3, 64, dtype=lg.f16),
        },
    ),
    "dynamic": case(N, H, W, 32, padding=1, stride=2),
    "dynamic_channels_first": case(N, H, W, 32, padding=1, first=True),
}
GATHERED: dict[str, Case] = {
    "few_channels": case(2, 5, 6, 16, padding=1),
    "groups": case(2, 5, 6, 64, groups=4, padding=1, first=True, rows=16),
    "groups_dynamic": case(N, H, W, 32, groups=2, padding=1, stride=2, rows=16),
    "patches_apart": (
        lambda x, w: F.conv2d(x, w, stride=8),
        {"x": lg.spec(2, 3, 16, 32, dtype=lg.f16), "w": lg.spec(8, 3, 8, 8, dtype=lg.f16)},
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(
            x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=2, padding=1
        ).permute(0, 2, 3, 1),
        {"x": lg.spec(2, 4, 5, 32, dtype=lg.f16), "w": lg.spec(32, 4, 4, 8, dtype=lg.f16)},
    ),
    "enlarged": (
        lambda x, w: F.conv2d(
            x.repeat_interleave(2, 1).repeat_interleave(2, 2).permute(0, 3, 1, 2),
            w.permute(0, 3, 1, 2),
            padding=1,
        ),
        {"x": lg.spec(1, 5, 4, 32, dtype=lg.f16), "w": lg.spec(8, 3, 3, 32, dtype=lg.f16)},
    ),
}
ONE_BY_ONE: dict[str, Case] = {
    "three_channels": case(1, 6, 6, 3, padding=1),
}
COPIED: dict[str, Case] = {  # whose channels a copy puts side by side
    "channels_apart": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(1, 32, 6, 6, dtype=lg.f16), "w": lg.spec(8, 32, 3, 3, dtype=lg.f16)},
    ),
}
FLOATS: dict[str, Case] = {  # of 32 bits, which no copy is made of
    "floats_apart": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(1, 32, 6, 6), "w": lg.spec(8, 32, 3, 3)},
    ),
}
ALL = {**WINDOWS, **GATHERED, **ONE_BY_ONE, **COPIED, **FLOATS}


def windowed(model: LoweredModel) -> list[LoweredKernel]:
    return [k for k in model.kernels if any(t.windows for t in k.program.maps)]


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_computes_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(ALL[name], "sm_80", "sm_90a")
    assert bool(windowed(model)) is (name in {**WINDOWS, **COPIED})
    for kernel in model.kernels:
        verify(kernel.program, name)
    every_variant_agrees(graph, model, {N: 2, H: 5, W: 8}, rng, name)


@pytest.mark.parametrize("name", [n for n in WINDOWS if n != "side_by_side"])
def test_what_the_engine_brings_is_the_product(name: str, rng: np.random.Generator) -> None:
    """From the maps alone: the pixels of each tap, walked as the engine walks, times the lines of the tap."""
    graph, model = lowered(WINDOWS[name], "sm_90a")
    for dims in ({N: 1, H: 4, W: 5}, {N: 2, H: 7, W: 4}):
        inputs: dict[str, Any] = {}
        for port in model.programs[0].inputs:
            shape = [int(i.evaluate(dims)) for i in port.shape]
            inputs[port.name] = rng.integers(-1, 2, shape).astype(np.float16)  # sums are exact
        (expected,) = evaluate(graph, inputs, {}).values()
        if "first" in name or name == "taps_apart":
            expected = np.moveaxis(expected, 1, -1)
        for kernel in windowed(model):
            found = _product(kernel.program.maps, inputs, dims)
            np.testing.assert_array_equal(found, expected.reshape(found.shape))


def _product(
    maps: tuple[TensorMap, ...], inputs: Mapping[str, Any], dims: Mapping[lg.Dim, int]
) -> Any:
    """(windows, lines) of a product, all that is read of it by its maps."""
    (of_pixels,) = (t for t in maps if t.windows)
    (of_lines,) = (t for t in maps if not t.windows)
    pixels, lines = (_tensor(t, inputs, dims) for t in (of_pixels, of_lines))
    assert of_pixels.windows is not None
    down, across = of_pixels.windows
    begins = [
        (image, y, x)
        for image in range(len(pixels))
        for y in _begins(down, pixels.shape[1])
        for x in _begins(across, pixels.shape[2])
    ]
    points = [int(w.points.evaluate(dims)) for w in of_pixels.windows]
    assert len(begins) == len(pixels) * points[0] * points[1]
    assert lines.shape[:2] == tuple(int(w.taps.evaluate(dims)) for w in of_pixels.windows)
    out = np.zeros((len(begins), lines.shape[2]), np.float32)
    for (tap_y, tap_x), _ in np.ndenumerate(lines[:, :, 0, 0]):
        for number, (image, y, x) in enumerate(begins):
            row, column = y + tap_y * down.apart, x + tap_x * across.apart
            if 0 <= row < pixels.shape[1] and 0 <= column < pixels.shape[2]:
                out[number] += lines[tap_y, tap_x] @ pixels[image, row, column]
    return out


def _begins(w: Window, extent: int) -> range:
    return range(w.first, extent + w.last, w.step)


def _tensor(t: TensorMap, inputs: Mapping[str, Any], dims: Mapping[lg.Dim, int]) -> Any:
    """(groups, batches, lines, elements) as a map has them."""
    flat = inputs[t.source.name].ravel()[int(t.base.evaluate(dims)) :].astype(np.float32)
    shape = [int(i.evaluate(dims)) for i in (t.groups, t.batches, t.lines, t.elements)]
    strides = [int(i.evaluate(dims)) for i in (t.group_stride, t.batch_stride, t.line_stride)]
    places = np.add.outer(
        sum(np.ix_(*(np.arange(n) * s for n, s in zip(shape, strides, strict=False)))),
        np.arange(shape[3]),
    )
    return flat[places]


@pytest.mark.parametrize("name", GATHERED)
def test_what_a_major_decides_and_what_the_depth_does_is_the_place(name: str) -> None:
    _, model = lowered(GATHERED[name], "sm_90a")
    found = 0
    for kernel in model.kernels:
        for s in (s for s in kernel.program.statements() if isinstance(s, Contract)):
            for operand, axis in ((s.a, s.m), (s.b, s.n)):
                gathered = operand.value and Gathered.of(operand.value, axis, s.k, s.element)
                if operand.stride is not None or not gathered:
                    continue
                found += 1
                parts = gathered.parts(axis, s.k)
                assert (parts is None) is (name == "enlarged")
                for own, rest in zip(*parts, strict=True) if parts else ():
                    assert s.k not in own.axes
                    assert axis not in rest.axes
                wholes = (gathered.place, *gathered.slacks)
                if parts is not None:
                    sums = (a + b for a, b in zip(*parts, strict=True))
                    assert all(a == b for a, b in zip(sums, wholes, strict=True))
    assert found


def test_a_depth_is_in_the_order_of_memory() -> None:
    """Channels come last where memory has them side by side, and stay first where it does not."""
    for name, last in (("edges", 64), ("floats_apart", 3)):
        _, model = lowered(ALL[name], "sm_80")
        (kernel,) = (k for k in model.kernels if k.program.skeleton == "pipeline")
        assert kernel.plan is not None
        (step,) = (s for s in kernel.plan.steps() if hasattr(s, "rows"))
        assert step.value.axes[-1].extent == ix(last)


@pytest.mark.slow
@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_kernels_compile_without_a_warning_or_a_spill(arch: str, tmp_path: Path) -> None:
    names = (
        "edges",
        "side_by_side",
        "channels_first",
        "dynamic",
        "groups",
        "groups_dynamic",
        "enlarged",
    )
    kernels = compiled_kernels(ALL, names, "", arch, tmp_path)
    assert len(kernels) > len(names)
    for kernel, said in kernels:
        assert set(re.findall(r"(\d+) bytes spill stores", said)) <= {"0"}, kernel + said
        assert "C75" not in said, kernel + said  # products that wait for each other
