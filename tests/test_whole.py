"""Packed numbers: which integers become floats over lanes, with the graph's numbers for every byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiles import run_entry, traced

import lumigen as lg
from lumigen import fast_lane
from lumigen.graph import Graph
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import assemble
from lumigen.lower.devices import Device
from lumigen.targets.cpu.device import CPU
from lumigen.targets.cuda.device import CUDA

u8, i8, i32, f32 = lg.u8, lg.i8, lg.i32, lg.f32

# A function of bytes, their dtype, and whether lanes compute it as floats.
CASES: dict[str, tuple[Callable[[Any], Any], Any, bool]] = {
    "bytes": (lambda q: q.to(f32) * 0.5, u8, True),
    "signed": (lambda q: q.to(f32) * 0.5, i8, True),
    "words": (lambda q: q.to(f32) * 0.5, i32, True),
    "lower halves": (lambda q: (q & 15).to(f32) - 8, u8, True),
    "upper halves": (lambda q: (q >> 4).to(f32) - 8, u8, True),
    "two bits": (lambda q: (q >> 2 & 3).to(f32) * 3, u8, True),
    "one bit": (lambda q: (q >> 7).to(f32), u8, True),
    "a remainder by 3": (lambda q: (q % 3).to(f32) * 2, u8, False),
    "that of signed ones": (lambda q: (q % 16).to(f32) * 2, i8, True),
    "wrapped around": (lambda q: (q * 2).to(f32) - 1, u8, False),
    "in more bits": (lambda q: (q.to(i32) * 2 + 1).to(f32) - 1, u8, True),
    "in 16 bits": (lambda q: q.to(lg.bf16) * 2, i8, True),
}


def graph_of(name: str) -> Graph:
    function, dtype, _ = CASES[name]
    graph = traced(function, None, q=lg.spec(256, dtype=dtype))
    for change in GRAPH_PASSES:
        graph = change(graph)
    return graph


@pytest.fixture(scope="module")
def compiled() -> fast_lane.FastLane:
    return fast_lane.load(
        assemble(tuple((n.replace(" ", "_"), graph_of(n)) for n in CASES), CPU), "-O1"
    )


@pytest.mark.parametrize("name", CASES)
def test_bytes_become_floats_with_the_graphs_numbers(
    name: str, compiled: fast_lane.FastLane
) -> None:
    _, dtype, is_vector = CASES[name]
    graph = graph_of(name)
    model = assemble((("entry", graph),), CPU)
    assert ("build_lanes" not in fast_lane.source(model)) is is_vector
    q = np.arange(256).astype(np.uint8).view(dtype.numpy if dtype.bits == 8 else np.uint8)
    inputs = {"q": q.astype(dtype.numpy)}
    expected = evaluate(graph, inputs, {})["out"]
    np.testing.assert_array_equal(run_entry(model, inputs, {})["out"], expected)
    found = compiled.run(name.replace(" ", "_"), inputs, {})["out"]
    np.testing.assert_array_equal(found, expected)


def halves(x: Any, q: Any, scale: Any) -> Any:
    """Blocks of 32 in 16 bytes, of which the lower halves come first."""
    of_block = lg.stack([q & 15, q >> 4], -2).to(f32) - 8
    return x @ (of_block * scale[..., None, None].to(f32)).reshape(48, 128).mT


def bytes_of_blocks(x: Any, q: Any, scale: Any) -> Any:
    return x @ (q.to(f32) * scale[..., None].to(f32)).reshape(48, 128).mT


BLOCKS = {"halves": (halves, (48, 4, 16), u8), "bytes": (bytes_of_blocks, (48, 4, 32), i8)}


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("name", BLOCKS)
def test_products_of_blocks_have_the_graphs_numbers(
    name: str, rows: int, device: Device, rng: np.random.Generator
) -> None:
    function, shape, dtype = BLOCKS[name]
    specs = {"x": lg.spec(rows, 128), "q": lg.spec(*shape, dtype=dtype)}
    graph = traced(function, None, **specs, scale=lg.spec(48, 4, dtype=lg.f16))
    for change in GRAPH_PASSES:
        graph = change(graph)
    model = assemble((("entry", graph),), device)
    # what it costs to take halves apart, a product of many rows does once, in a launch before it
    assert len(model.programs[0].launches) == (2 if name == "halves" and rows > 1 else 1)
    inputs = {
        "x": rng.standard_normal((rows, 128)).astype(np.float32),
        "q": rng.integers(0, 256, shape).astype(np.uint8).view(dtype.numpy),
        "scale": rng.standard_normal((48, 4)).astype(np.float16),
    }
    expected = evaluate(graph, inputs, {})["out"]
    found = [run_entry(model, inputs, {})["out"]]
    if device is CPU and rows == 1:
        found.append(fast_lane.load(model, "-O1").run("entry", inputs, {})["out"])
        text = fast_lane.source(model)
        assert "build_lanes" not in text
        assert "/ 32" not in text
    for each in found:
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
