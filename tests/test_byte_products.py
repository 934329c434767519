"""Products of integers of 8 bits on a GPU: which have tiles of matrix instructions, and that these are exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, lowered
from small_programs import agree
from test_activations import traced
from tiles import run_entry

import lumigen as lg
from lumigen.activations import rounded
from lumigen.dtype import DType, i8, i32, u8
from lumigen.errors import VerifyFailed
from lumigen.graph import Graph, tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower.assemble import LoweredModel
from lumigen.pipeline import lower_model
from lumigen.quantise import quantised
from lumigen.target import parse_target
from lumigen.targets.cuda.speller import spelled_tile
from lumigen.tile import Contract, WhenSummed
from lumigen.verify.tile import verify

FEW = lg.Dim("few", 1, 300, typical=128)
SOME = lg.Dim("some", 1, 300, typical=256)
PARTS = lg.Dim("parts", 1, 300, typical=8)
DEEP = lg.Dim("deep", 1, 1000, typical=512)


def spec(*shape: Any, dtype: DType = i8) -> Any:
    return lg.spec(*shape, dtype=dtype)


def whole(x: Any) -> Any:
    return x.to(lg.i32)


BYTES: dict[str, Case] = {
    "rows": (lambda x, w: whole(x) @ whole(w).T, {"x": spec(FEW, DEEP), "w": spec(SOME, DEEP)}),
    "columns": (lambda x, w: whole(x) @ whole(w), {"x": spec(FEW, DEEP), "w": spec(DEEP, SOME)}),
    "turned": (
        lambda x, w: whole(x).T @ whole(w).T,
        {"x": spec(DEEP, FEW), "w": spec(SOME, DEEP)},
    ),
    "from_zero": (
        lambda x, w: whole(x) @ whole(w).T,
        {"x": spec(FEW, 96, dtype=u8), "w": spec(SOME, 96, dtype=u8)},
    ),
    "batches": (
        lambda x, y: whole(x) @ whole(y).mT,
        {"x": spec(3, FEW, 64), "y": spec(3, SOME, 64)},
    ),
    "scaled": (
        lambda x, w, s, r: (whole(x) @ whole(w).T).to(lg.f32) * s * r,
        {
            "x": spec(FEW, DEEP),
            "w": spec(SOME, DEEP),
            "s": lg.spec(SOME),
            "r": lg.spec(FEW, 1),
        },
    ),
    "with_offsets": (
        lambda x, w, b: (whole(x) @ whole(w).T + b).to(lg.f32) * 0.25 + 1,
        {"x": spec(FEW, DEEP), "w": spec(SOME, DEEP), "b": lg.spec(SOME, dtype=i32)},
    ),
    "to_bytes": (
        lambda x, w: ((whole(x) @ whole(w).T).to(lg.f32) * 0.002).clamp(-128, 127).to(lg.i8),
        {"x": spec(FEW, 64), "w": spec(SOME, 64)},
    ),
    "to_halves": (
        lambda x, w: ((whole(x) @ whole(w).T).to(lg.f32) * 0.002).to(lg.f16),
        {"x": spec(FEW, 64), "w": spec(SOME, 64)},
    ),
    "in_parts": (
        lambda x, w: (whole(x) @ whole(w).T).to(lg.f32) * 0.01,
        {"x": spec(PARTS, 8192), "w": spec(70, 8192)},
    ),
    "wide": (lambda x, w: whole(x) @ whole(w).T, {"x": spec(1024, 256), "w": spec(4096, 256)}),
}
LOOPS: dict[str, Case] = {
    "of two types": (
        lambda x, w: whole(x) @ whole(w).T,
        {"x": spec(FEW, 96, dtype=u8), "w": spec(SOME, 96)},
    ),
    "of 32 bits": (
        lambda x, w: x @ w.T,
        {"x": lg.spec(FEW, 96, dtype=i32), "w": lg.spec(SOME, 96, dtype=i32)},
    ),
}
SIZES = ((1, 1, 1), (3, 17, 31), (65, 66, 64), (130, 70, 100))


def tiles(model: LoweredModel) -> list[str]:
    found = (k.program.tile for k in model.kernels)
    return [spelled_tile(t) for t in found if t is not None]


def numbers(graph: Graph, size: tuple[int, int, int], rng: np.random.Generator) -> dict[str, Any]:
    """All bytes for integers of 8 bits, the least and the greatest among them."""
    dims, out = dict(zip((FEW, SOME, DEEP, PARTS), (*size, size[0]), strict=True)), dict[str, Any]()
    for n in graph.inputs:
        shape = [int(e.evaluate(dims)) for e in n.shape]
        if n.dtype.is_float:
            out[tensor_of(n).name] = rng.standard_normal(shape).astype(n.dtype.numpy)
            continue
        least, most = (-128, 127) if n.dtype is i8 else (0, 255) if n.dtype is u8 else (-99, 99)
        value = rng.integers(least, most + 1, shape)
        value[rng.random(shape) < 0.3] = least
        out[tensor_of(n).name] = value.astype(n.dtype.numpy)
    return out


@pytest.mark.parametrize("name", [n for n in BYTES if n != "wide"])
def test_tiles_compute_what_the_graph_says(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(BYTES[name])
    (tile,) = tiles(model)
    assert tile.startswith("BytesTile<")
    assert len(model.kernels) == 1
    if name == "in_parts":
        assert any(isinstance(s, WhenSummed) for s in model.kernels[0].program.statements())
    for size in SIZES:
        inputs = numbers(graph, size, rng)
        expected, found = evaluate(graph, inputs, {}), run_entry(model, inputs, {})
        for out, value in found.items():
            if expected[out].dtype.kind == "f":
                agree(value, expected[out], f"{name} {size}")
            else:
                np.testing.assert_array_equal(value, expected[out], f"{name} {size}")


def test_sums_wrap_around() -> None:
    _, model = lowered(
        (lambda x, w: whole(x) @ whole(w).T, {"x": spec(2, 140000), "w": spec(17, 140000)})
    )
    assert tiles(model)
    inputs = {t: np.full(n, -128, np.int8) for t, n in (("x", (2, 140000)), ("w", (17, 140000)))}
    (found,) = run_entry(model, inputs, {}).values()
    wrapped = (140000 * 2**14 + 2**31) % 2**32 - 2**31
    assert (found == wrapped).all()


@pytest.mark.parametrize("name", LOOPS)
def test_other_integers_run_in_loops(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(LOOPS[name])
    assert not tiles(model)
    inputs = numbers(graph, SIZES[-1], rng)
    (expected,), (found,) = (
        evaluate(graph, inputs, {}).values(),
        run_entry(model, inputs, {}).values(),
    )
    np.testing.assert_array_equal(found, expected)


def test_what_no_vector_does_to_sums_is_a_launch_of_its_own(rng: np.random.Generator) -> None:
    graph, model = lowered(
        (lambda x, w: (whole(x) @ whole(w).T) % 7, {"x": spec(FEW, 64), "w": spec(SOME, 64)})
    )
    assert len(model.kernels) == 2
    assert len(tiles(model)) == 1
    inputs = numbers(graph, SIZES[-1], rng)
    (expected,), (found,) = (
        evaluate(graph, inputs, {}).values(),
        run_entry(model, inputs, {}).values(),
    )
    np.testing.assert_array_equal(found, expected)


def test_rows_that_are_rounded_to_bytes() -> None:
    model, floats = traced()
    found = quantised(model, floats, "q8-row")
    assert found.weights is not None
    weights = {name: found.weights[name] for name in found.weights}
    whole = rounded(found.traced, "i8").traced
    x = np.random.default_rng(1).standard_normal((7, 64)).astype(np.float32)
    expected = evaluate(whole.entries[0][1], {"x": x}, weights)["out"]
    lowered_to = lower_model(whole, {}, target=parse_target("cuda")).lowered
    assert [t.split("<")[0] for t in tiles(lowered_to)] == ["BytesTile"] * 2
    out = run_entry(lowered_to, {"x": x}, weights)["out"]
    # a sum that ends in a half may be rounded to either side
    assert np.linalg.norm(out - expected) < 0.01 * np.linalg.norm(expected)


def test_bytes_are_not_added_up_in_floats() -> None:
    _, model = lowered(BYTES["rows"])
    program = model.kernels[0].program
    acc = next(s.acc for s in program.statements() if isinstance(s, Contract))
    wrong = replace(acc, dtype=lg.f32)
    body = tuple(replace(s, acc=wrong) if isinstance(s, Contract) else s for s in program.body)
    with pytest.raises(VerifyFailed, match="acc is no i32 scratch"):
        verify(replace(program, scratch=(wrong,), body=body), "test")


@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_the_compiler_has_nothing_to_say(arch: str, tmp_path: Path) -> None:
    found = compiled_kernels(BYTES, BYTES, "pipeline", arch, tmp_path)
    assert len(found) == len(BYTES)
    assert all("0 bytes spill stores" in said for _, said in found)
