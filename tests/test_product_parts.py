"""Products whose depth blocks share: what they come to, in whatever order blocks run, and what they leave."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels
from random_programs import drawn
from small_programs import agree
from tiles import run_entry, traced

import lumigen as lg
from lumigen import functional as F
from lumigen.errors import UserError, VerifyFailed
from lumigen.graph import Graph, tensor_of
from lumigen.index import ix
from lumigen.interp import tile as interp_tile
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.plan import KernelPlan
from lumigen.printer.program import show as show_program
from lumigen.printer.tile import show as show_tile
from lumigen.region import Role
from lumigen.schedule import Schedule, schedule
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import spelled_tile
from lumigen.tile import Contract, WhenSummed
from lumigen.verify.region import verify as verify_region
from lumigen.verify.tile import verify

FEW = lg.Dim("few", 1, 300, typical=5)
DEPTH = lg.Dim("depth", 1, 3000, typical=2000)
PARTS = lg.Dim("parts", 1, 300, typical=8)  # as the kernel would call a number of its own


def always_in_parts(plan: KernelPlan) -> Schedule:
    """As the device has it, with blocks for several parts wherever the depth is long enough."""
    sizes = CUDA.schedule(plan)
    if sizes.builder != "pipeline":
        return sizes
    return schedule("pipeline", {**dict(sizes.tile), "parts_of": 40, "depth": 16})


EAGER = replace(CUDA, schedule=always_in_parts)


def spec(*shape: Any, dtype: Any = lg.bf16) -> Any:
    return lg.spec(*shape, dtype=dtype)


CASES: dict[str, Case] = {
    "weights": (lambda x, w: x @ w.T, {"x": spec(FEW, 2048), "w": spec(70, 2048)}),
    "columns": (
        lambda x, w: x @ w,
        {"x": spec(FEW, 2048, dtype=lg.f16), "w": spec(2048, 70, dtype=lg.f16)},
    ),
    "f32": (lambda x, w: x @ w, {"x": lg.spec(FEW, 1000), "w": lg.spec(1000, 33)}),
    "epilogue": (
        lambda x, w, b, r: F.gelu(x @ w.T + b) * r,
        {"x": spec(FEW, 1500), "w": spec(70, 1500), "b": lg.spec(70), "r": spec(FEW, 70)},
    ),
    "prologue": (
        lambda x, w: (x * 2 + 1).relu() @ w,
        {"x": lg.spec(FEW, 1000), "w": lg.spec(1000, 33)},
    ),
    "by_row_sums": (
        lambda x, y, z: (x @ y) / (z.square().sum(1, keepdim=True) + 1),
        {"x": lg.spec(FEW, 999), "y": lg.spec(999, 65), "z": lg.spec(FEW, 7)},
    ),
    "batched": (
        lambda x, y: x.transpose(1, 2) @ y,
        {"x": spec(3, 1024, FEW), "y": spec(3, 1024, 17)},
    ),
    "a_depth_of_a_dim": (lambda x, y: x @ y.T, {"x": spec(9, DEPTH), "y": spec(17, DEPTH)}),
    "rows_called_parts": (lambda x, y: x @ y.T, {"x": spec(PARTS, 1024), "y": spec(17, 1024)}),
    "two_outputs": (
        lambda x, w: {"y": x @ w.T, "z": (x @ w.T).amax(-1)},
        {"x": spec(FEW, 2048), "w": spec(40, 2048)},
    ),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": lg.spec(1, 128, 5, 6), "w": lg.spec(5, 128, 3, 3)},
    ),
}


def lowered(graph: Graph, device: Any = CUDA, *architectures: str) -> LoweredModel:
    for step in GRAPH_PASSES:
        graph = step(graph)
    model = assemble((("entry", graph),), device, architectures=architectures)
    for k in model.kernels:
        verify_region(k.region)
        verify(k.program)
    return model


def in_parts(model: LoweredModel) -> list[LoweredKernel]:
    return [k for k in model.kernels if any(isinstance(s, WhenSummed) for s in k.program.body)]


def inputs_of(graph: Graph, count: int, rng: np.random.Generator) -> dict[str, Any]:
    dims = dict.fromkeys(graph.dims(), count)
    return {
        tensor_of(n).name: rng.standard_normal([int(e.evaluate(dims)) for e in n.shape]).astype(
            n.dtype.numpy
        )
        for n in graph.inputs
    }


@pytest.mark.slow
@pytest.mark.parametrize("device", [CUDA, EAGER], ids=["cuda", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_the_parts_are_the_product(name: str, device: Any, rng: np.random.Generator) -> None:
    function, inputs = CASES[name]
    graph = traced(function, **inputs)
    model = lowered(graph, device)
    assert in_parts(model)
    for count in (1, 5, 37, 131):
        given = inputs_of(graph, count, rng)
        expected = evaluate(graph, given, {})
        found = run_entry(model, given, {}, lambda tasks: rng.permutation(tasks))
        meant = run_entry(model, given, {}, by_region=True)
        for out, value in expected.items():
            agree(found[out], value, f"{name} at {count}")
            agree(meant[out], value, f"what {name} means at {count}")


@pytest.mark.slow
def test_counters_are_0_again_and_order_changes_nothing(rng: np.random.Generator) -> None:
    """Every number is the same to the last bit, whichever block comes last."""
    function, inputs = CASES["weights"]
    graph = traced(function, **inputs)
    (kernel,) = in_parts(lowered(graph))
    (dim,) = kernel.program.dims
    x, w, *_ = kernel.program.args
    for rows in (1, 5, 300):
        given = inputs_of(graph, rows, rng)
        buffers = {x.name: given["x"], w.name: given["w"]}
        orders: tuple[Callable[[int], Any], ...] = (
            range,
            rng.permutation,
            lambda n: range(n)[::-1],
        )
        runs = [interp_tile.run(kernel.program, buffers, {dim: rows}, order=o) for o in orders]
        for found in runs:
            assert not found["arrived"].any()
            np.testing.assert_array_equal(found["out"], runs[0]["out"])


def test_the_number_of_parts_follows_from_the_dims() -> None:
    """Never more blocks than asked for but where tiles are more, and no workspace where a tile is one block's."""
    function, inputs = CASES["weights"]
    (kernel,) = in_parts(lowered(traced(function, **inputs)))
    program = kernel.program
    ((number, wanted),) = program.numbers
    (dim,) = program.dims
    (sums,) = (b for b in program.args if b.role is Role.WORKSPACE)
    (arrived,) = (b for b in program.args if b.role is Role.COUNTER)
    asked = kernel.schedule["parts_of"] if kernel.schedule else 0
    counts: set[int] = set()
    for rows in range(1, 301):
        parts = int(wanted.evaluate({dim: rows}))
        counts.add(parts)
        tasks = int(program.tasks.evaluate({dim: rows, number: parts}))
        room = [int(d.evaluate({dim: rows})) for d in sums.dims]
        assert tasks <= max(asked, tasks // parts)
        assert parts == 1 or (
            tasks // parts <= arrived.dims[0].const and np.prod(room[:2]) == tasks
        )
        assert parts > 1 or room[0] == 0
    assert 1 in counts
    assert max(counts) == asked // 2, "two tiles of columns"


def test_tiles_by_typical_dims() -> None:
    """Few rows and a long depth are divided; what fills the device is not."""

    def chosen(m: int, n: int, k: int) -> tuple[str, int]:
        rows = lg.Dim("rows", 1, 16384, typical=m)
        graph = traced(lambda x, w: x @ w.T, x=spec(rows, k), w=spec(n, k))
        (kernel,) = lowered(graph).kernels
        (contract,) = (s for s in kernel.program.body if isinstance(s, Contract))
        parts = [value.evaluate({rows: m}) for _, value in kernel.program.numbers]
        assert bool(parts) == (contract.k_lo != 0) == bool(in_parts(lowered(graph)))
        assert kernel.program.tile is not None
        return spelled_tile(kernel.program.tile), int(parts[0]) if parts else 1

    assert chosen(1, 4096, 14336) == ("PipelineTile<16, 64, 128, 4, 1, 4>", 3)
    assert chosen(8, 14336, 4096) == ("PipelineTile<16, 64, 128, 4, 1, 4>", 1)
    assert chosen(64, 4096, 14336) == ("PipelineTile<64, 64, 64, 4, 2, 2>", 6)
    assert chosen(512, 4096, 14336)[1] == 2
    assert chosen(2048, 4096, 14336) == ("PipelineTile<128, 256, 64, 2, 2, 4>", 1)
    assert chosen(4096, 4096, 4096) == ("PipelineTile<128, 256, 64, 2, 2, 4>", 1)


def test_the_text_of_a_product_in_parts(golden: Callable[[str, str], None]) -> None:
    function, inputs = CASES["epilogue"]
    model = lowered(traced(function, **inputs), CUDA, "sm_80")
    (kernel,) = in_parts(model)
    text = re.sub(r"  # .*", "", show_program(model.programs[0]))
    golden("tile/parts.txt", text + show_tile(kernel.program))


def test_the_kernel_of_hopper_is_asked_first_and_counts_nothing() -> None:
    function, inputs = CASES["weights"]
    model = lowered(traced(function, **inputs), CUDA, "sm_90a")
    general, *special = model.kernels
    assert [general] == in_parts(model)
    assert {k.program.skeleton for k in special} == {"roles"}
    assert all(b.role is not Role.COUNTER for k in special for b in k.program.args)


def test_parts_that_have_no_place_are_refused() -> None:
    function, inputs = CASES["weights"]
    (kernel,) = in_parts(lowered(traced(function, **inputs)))
    program = kernel.program
    *before, last = program.body
    assert isinstance(last, WhenSummed)
    out = next(b for b in program.args if b.role is Role.OUTPUT)
    short = replace(last.sums, dims=(*last.sums.dims[:3], ix(8)))
    args = tuple(short if b == last.sums else b for b in program.args)
    nested = replace(last, body=(last,))
    for wrong, said in (
        (replace(program, body=(*before, replace(last, sums=out))), "is no workspace of 4 axes"),
        (replace(program, body=(*before, replace(last, arrived=out))), "is no counter of 1 axes"),
        (replace(program, args=args, body=(*before, replace(last, sums=short))), "in .*8"),
        (replace(program, body=(*before, nested)), "not every task comes to"),
    ):
        with pytest.raises(VerifyFailed, match=said):
            verify(wrong)


@pytest.mark.parametrize(("seed", "count"), [(0, 8), pytest.param(300, 60, marks=pytest.mark.slow)])
def test_random_programs_with_products_in_parts(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    for p in drawn(count, seed):
        program = p.program("p")
        try:
            model = lowered(program.graph, EAGER)
        except UserError:
            continue  # refused without parts too
        for point in program.points:
            inputs, weights = program.arrays(point)
            expected = evaluate(program.graph, inputs, weights)
            found = run_entry(model, inputs, weights, lambda tasks: rng.permutation(tasks))
            for out, value in expected.items():
                agree(found[out], value, f"{out} at {dict(point)} of\n{p}")


# ---- as text for a compiler ----


@pytest.mark.slow
@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a", "120"])
def test_kernels_compile_without_a_warning_or_a_spill(arch: str, tmp_path: Path) -> None:
    names = ("weights", "columns", "f32", "epilogue", "batched", "a_depth_of_a_dim")
    for kernel, said in compiled_kernels(CASES, names, "pipeline", arch, tmp_path):
        assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, kernel + said
