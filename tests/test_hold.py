"""What stays in registers while threads share a row: all loads first, stores with their values, 16 bits as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.errors import VerifyFailed
from lumigen.graph import tensor_of
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredModel, assemble
from lumigen.region import Read, walk
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body
from lumigen.tile import (
    Accumulate,
    Finish,
    For,
    Hold,
    Keep,
    StoreTile,
    TileProgram,
)
from lumigen.verify.tile import verify

ROWS = lg.Dim("rows", 1, 300, typical=40)


def residual_norm(x: Any, r: Any, w: Any) -> Any:
    total = x + r
    return {"total": total, "y": F.rms_norm(total, (x.shape[-1],), w)}


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def copied(x: Any) -> Any:
    return {"same": x * 1.5, "y": (x * 1.5).softmax(-1)}


# name: the function, its rows, its vectors, how long they are, what they are held in
MODELS: dict[str, tuple[Callable[..., Any], str, str, int, Any]] = {
    "residual_norm": (residual_norm, "xr", "w", 4096, lg.bf16),
    "short_residual_norm": (residual_norm, "xr", "w", 384, lg.f16),
    "residual_norm_of_f32": (residual_norm, "xr", "w", 384, lg.f32),
    "layer_norm": (layer_norm, "x", "wb", 4096, lg.bf16),
    "layer_norm_of_f32": (layer_norm, "x", "wb", 1001, lg.f32),
    "ends_between": (residual_norm, "xr", "w", 1001, lg.bf16),
    "copied": (copied, "x", "", 384, lg.bf16),
}


def lowered(name: str) -> tuple[Any, LoweredModel]:
    function, rows, vectors, columns, dtype = MODELS[name]
    inputs = {n: lg.spec(ROWS, columns, dtype=dtype) for n in rows}
    inputs |= {n: lg.spec(columns, dtype=dtype) for n in vectors}
    graph = traced(function, **inputs)
    entry = graph
    for step in GRAPH_PASSES:
        entry = step(entry)
    return graph, assemble((("entry", entry),), CUDA)


def program(name: str) -> TileProgram:
    (kernel,) = lowered(name)[1].kernels
    return kernel.program


def loops(made: TileProgram) -> list[For]:
    return [s for s in made.statements() if isinstance(s, For) and s.parts]


def elements(made: TileProgram) -> list[str]:
    return [str(s.element) for s in made.statements() if isinstance(s, Hold)]


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_what_the_graph_says(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(name)
    for rows in (1, 37):
        inputs = {}
        for n in graph.inputs:
            shape = [int(e.evaluate({ROWS: rows})) for e in n.shape]
            inputs[tensor_of(n).name] = rng.standard_normal(shape).astype(n.dtype.numpy)
        expected = evaluate(graph, inputs, {})
        for out, value in run_entry(model, inputs, {}).items():
            agree(value, expected[out], f"{name} at {rows} rows")


@pytest.mark.parametrize("name", MODELS)
def test_all_loads_go_out_first(name: str) -> None:
    first, *others = loops(program(name))
    assert all(isinstance(s, Keep) and isinstance(s.value, Read) for s in first.body)
    assert len(first.body) == len(MODELS[name][1]) + len(MODELS[name][2])
    for loop in others:
        for s in loop.body:
            assert not isinstance(s, For | Hold | Finish)
            assert not any(isinstance(e, Read) for e in walk([s.value]))


@pytest.mark.parametrize("name", [n for n in MODELS if "residual" in n or n == "copied"])
def test_what_is_known_before_a_reduction_is_stored_before_it(name: str) -> None:
    _, computes, *others = loops(program(name))
    assert [type(s) for s in computes.body if not isinstance(s, Keep)][-1] is StoreTile
    assert any(isinstance(s, Accumulate) for s in computes.body)
    assert sum(isinstance(s, StoreTile) for loop in others for s in loop.body) == 1


def test_registers_hold_16_bits_as_memory_does() -> None:
    assert elements(program("residual_norm")) == ["bf16", "bf16", "bf16", "f32"]
    assert elements(program("short_residual_norm")) == ["f16", "f16", "f16", "f32"]
    assert set(elements(program("residual_norm_of_f32"))) == {"f32"}


def test_a_sum_of_what_takes_half_the_registers_is_computed_again() -> None:
    assert elements(program("layer_norm")) == ["bf16"] * 3
    assert elements(program("layer_norm_of_f32")) == ["f32"] * 4


def test_rows_that_a_thread_has_no_registers_for_are_read_again() -> None:
    inputs = {n: lg.spec(ROWS, 12000, dtype=lg.bf16) for n in "xr"}
    graph = traced(residual_norm, **inputs, w=lg.spec(12000, dtype=lg.bf16))
    for step in GRAPH_PASSES:
        graph = step(graph)
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    assert elements(kernel.program) == ["bf16", "bf16", "f32"]  # 24 of 64 registers each, and 48
    last = loops(kernel.program)[-1]
    assert sum(isinstance(e, Read) for s in last.body for e in walk([s.value])) == 1


def text(name: str) -> str:
    (kernel,) = lowered(name)[1].kernels
    return device_kernel_body(kernel.name, kernel.program, kernel.parameters, "model.py:1").body


def test_reductions_of_a_block_alternate() -> None:
    shared = text("layer_norm")
    assert shared.count("int parity = 0;") == 1
    assert shared.count(", parity)") == 2
    assert "parity" not in text("short_residual_norm")  # of a warp


def test_a_row_of_four_vectors_a_thread_is_one_warp_s() -> None:
    columns = {32: (lg.f16, 1024), 256: (lg.f16, 1032)}
    for team, (dtype, count) in columns.items():
        graph = traced(lambda x: x.softmax(-1), x=lg.spec(ROWS, count, dtype=dtype))
        for step in GRAPH_PASSES:
            graph = step(graph)
        (kernel,) = assemble((("entry", graph),), CUDA).kernels
        assert kernel.program.team == team


def test_blocks_that_a_multiprocessor_has_registers_for() -> None:
    assert program("residual_norm").blocks == 6
    assert "__launch_bounds__(kThreads, 6)" in text("residual_norm")
    assert program("layer_norm").blocks == 5


def broken(made: TileProgram, change: Callable[[Any], Any]) -> TileProgram:
    """The program with each statement of its rows as `change` makes it."""

    def of(s: Any) -> Any:
        s = change(s)
        return replace(s, body=tuple(map(of, s.body))) if isinstance(s, For) else s

    return replace(made, body=tuple(map(of, made.body)))


def test_registers_of_16_bits_hold_nothing_else() -> None:
    made = program("residual_norm")
    verify(made)

    def all_in_16_bits(s: Any) -> Any:
        return replace(s, element=lg.bf16) if isinstance(s, Hold) else s

    def turned(s: Any) -> Any:
        if not (isinstance(s, Keep) and isinstance(s.value, Read) and len(s.value.at) == 2):
            return s
        return replace(s, value=replace(s.value, at=s.value.at[::-1]))

    for change in (all_in_16_bits, turned):
        with pytest.raises(VerifyFailed, match="no neighbours of bf16"):
            verify(broken(made, change))


def test_what_is_held_is_kept_before_it_is_used() -> None:
    made = program("residual_norm")

    def without_loads(s: Any) -> Any:
        if isinstance(s, For) and s.parts and isinstance(s.body[0], Keep):
            return replace(s, body=tuple(x for x in s.body if not isinstance(x.value, Read)))
        return s

    with pytest.raises(VerifyFailed, match="holds nothing yet"):
        verify(broken(made, without_loads))


def test_a_loop_through_a_row_one_by_one_is_not_held() -> None:
    """Beside the loop over its lanes: the position of a row's maximum, found element after element."""
    rows = lg.Dim("k", 1, 9, typical=5)

    def positions(x: Any) -> Any:
        total = (x.sum((0,)) - x).amax((1,), keepdim=True)
        shifted = total + total.pad((1, 0))[..., :-1]
        return shifted[shifted.argmax(2)]

    entry = traced(positions, x=lg.spec(rows, 5, 17))
    for step in GRAPH_PASSES:
        entry = step(entry)
    for kernel in assemble((("entry", entry),), CUDA).kernels:
        verify(kernel.program)


def test_loops_around_rows_hold_what_they_read_under_names_of_their_own() -> None:
    """A batch in parts of two sizes has a loop over images for its sums, and one for their squares."""
    inputs = {"x": lg.spec(33, 512, 28, 28, dtype=lg.f16), "w": lg.spec(512), "b": lg.spec(512)}
    graph = traced(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    statistics = assemble((("entry", graph),), CUDA).kernels[0].program
    held = [s.name for s in statistics.statements() if isinstance(s, Hold)]
    assert len(held) == len(set(held)) == 2
    verify(statistics, "assemble")


@pytest.mark.parametrize(("columns", "loops_of_floats"), [(4096, 0), (32768, 2)])
def test_floats_without_registers_are_widened_anew(columns: int, loops_of_floats: int) -> None:
    graph = traced(lambda x: x.softmax(-1), x=lg.spec(64, columns, dtype=lg.bf16))
    for step in GRAPH_PASSES:
        graph = step(graph)
    (kernel,) = assemble((("entry", graph),), CUDA).kernels
    (held, *_) = [s for s in kernel.program.statements() if isinstance(s, Hold)]
    assert held.anew == bool(loops_of_floats)
    body = device_kernel_body(kernel.name, kernel.program, kernel.parameters, "model.py:1").body
    assert body.count(f"widen_anew({held.name.name}_parts);") == loops_of_floats
