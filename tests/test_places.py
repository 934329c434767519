"""Places of 32 bits in kernels for GPUs: where bounds prove them, and there alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nvcc
import pytest
from test_cuda_kernels import compile_for
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.emit.places import NARROW, WIDE, counted_in, is_small
from lumigen.index import Axis, ix
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, assemble
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body

FEW, MANY = lg.Dim("few", 1, 1 << 16), lg.Dim("many", 1, 1 << 40, typical=1 << 16)
ROWS, MORE = lg.Dim("rows", 1, 1 << 11, typical=512), lg.Dim("rows", 1, 1 << 26, typical=512)


def kernels(function: Any, *architectures: str, **inputs: Any) -> tuple[LoweredKernel, ...]:
    graph = traced(function, **inputs)
    for step in GRAPH_PASSES:
        graph = step(graph)
    return assemble((("entry", graph),), CUDA, architectures=architectures).kernels


def kernel(function: Any, **inputs: Any) -> LoweredKernel:
    return kernels(function, **inputs)[-1]


def text(k: LoweredKernel) -> str:
    return device_kernel_body(k.name, k.program, k.parameters, "model.py:1").body


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((FEW, 4096), NARROW),
        ((FEW, 1 << 14), WIDE),  # 2^30 elements: twice as many might end past an int
        ((MANY,), WIDE),
        ((1 << 29,), NARROW),
        ((1 << 31,), WIDE),
    ],
)
def test_a_map_counts_in_what_its_elements_need(shape: Any, expected: str) -> None:
    made = kernel(lambda x: x + 1, x=lg.spec(*shape))
    assert counted_in(made.program) == expected
    assert ("int64_t" in text(made)) == (expected == WIDE)


def test_an_integer_that_conditions_keep_is_read_behind_them() -> None:
    """A place is computed ahead of its conditions only where what it is made of is there."""

    def twice(x: Any, i: Any, j: Any) -> Any:
        return x.index_select(0, i).index_select(0, j)

    i = {n: lg.spec(size, dtype=lg.i32) for n, size in (("i", 50), ("j", 16))}
    made = kernel(twice, x=lg.spec(33, 64), **i)
    assert "load_where(" not in text(made)
    once = kernel(lambda x, i: x.index_select(0, i), x=lg.spec(33, 64), i=i["i"])
    assert "load_where(" in text(once)


def bf16(*shape: Any) -> Any:
    return lg.spec(*shape, dtype=lg.bf16)


def attention(x: Any) -> Any:
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


# skeleton: a function of rows, and what it takes of so many
SKELETONS: dict[str, tuple[Any, Any]] = {
    "pipeline": (
        lambda x, w: F.gelu(x @ w),
        lambda rows: {"x": bf16(rows, 264), "w": bf16(264, 72)},
    ),
    "cascade": (attention, lambda rows: {"x": bf16(1, 2, rows, 64)}),
    "order": (lambda x: x.argsort(-1), lambda rows: {"x": lg.spec(3, rows)}),
    "roles": (lambda x, w: x @ w, lambda rows: {"x": bf16(rows, 264), "w": bf16(264, 72)}),
    "cascade_roles": (attention, lambda rows: {"x": bf16(1, 2, rows, 64)}),
}


@pytest.mark.parametrize("rows", [ROWS, MORE], ids=["few", "many"])
@pytest.mark.parametrize("skeleton", SKELETONS)
def test_every_skeleton_counts_by_one_rule(skeleton: str, rows: lg.Dim) -> None:
    function, inputs = SKELETONS[skeleton]
    made = kernels(function, "sm_90a", **inputs(rows))
    of_skeleton = [k for k in made if k.program.skeleton == skeleton]
    assert of_skeleton
    for k in of_skeleton:
        if skeleton == "order" and rows is MORE:
            assert counted_in(k.program) == NARROW, "3 * 2^26 elements"
            continue
        assert counted_in(k.program) == (NARROW if rows is ROWS else WIDE)
        counts = re.findall(r"int64_t\b(?!\*)", text(k))  # less the pointers to such numbers
        assert bool(counts) == (rows is MORE), text(k)


def test_an_operand_counts_as_far_as_a_tile_may_reach() -> None:
    """The last tile of 2^14 rows ends behind them, and what a thread would read there has a place too."""
    inside, outside = (
        kernel(lambda x, w: x.sum(-1, keepdim=True) + x @ w, x=bf16(FEW, n), w=bf16(n, 64))
        for n in ((1 << 14) - 128, 1 << 14)
    )
    assert {k.program.skeleton for k in (inside, outside)} == {"pipeline"}
    assert counted_in(inside.program) == NARROW
    assert counted_in(outside.program) == WIDE


@pytest.mark.slow
@nvcc.needed
@pytest.mark.parametrize("skeleton", ["pipeline", "cascade", "order"])
def test_kernels_that_count_in_64_bits_compile(skeleton: str, tmp_path: Path) -> None:
    function, inputs = SKELETONS[skeleton]
    rows = lg.Dim("rows", 1, 1 << 30, typical=512) if skeleton == "order" else MORE
    made = next(k for k in kernels(function, **inputs(rows)) if k.program.skeleton == skeleton)
    assert counted_in(made.program) == WIDE
    assert compile_for("80", made, tmp_path)


def test_what_lies_between_counts_too() -> None:
    """A result of few elements may be reached through a product that is large."""
    a = Axis("a", ix(1 << 20))
    assert is_small(ix(a) * 64)
    assert (ix(a) * 4097 // 8192).bounds()[1] < 1 << 20
    assert not is_small(ix(a) * 4097 // 8192)


@pytest.mark.slow
def test_values_are_computed_in_their_own_type() -> None:
    """Places are of 32 bits here; what is made of them, and of what memory has, may be greater."""
    made = kernel(lambda x: lg.arange(x.shape[0]) * 5_000_000_000 + x, x=lg.spec(FEW, dtype=lg.i64))
    assert counted_in(made.program) == NARROW
    assert "UINT64_C(5000000000)" in text(made)
    below = kernel(lambda x: x < 3, x=lg.spec(FEW, dtype=lg.i64))
    assert counted_in(below.program) == NARROW
    assert "x[i0] <= 2" in text(below)


def test_sums_of_any_integers_wrap() -> None:
    made = text(
        kernel(lambda x, y: x - y, x=lg.spec(FEW, dtype=lg.i64), y=lg.spec(FEW, dtype=lg.i64))
    )
    assert (
        "static_cast<int64_t>(static_cast<uint64_t>(x[i0]) - static_cast<uint64_t>(y[i0]))" in made
    )
