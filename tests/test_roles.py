"""Contractions that have a kernel for Hopper beside the general one: which do, what it says, what it computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import nvcc
import pytest
from device_cases import Case, compiled_kernels, every_variant_agrees, lowered
from tiles import traced

import lumigen as lg
from lumigen import functional as F
from lumigen.errors import VerifyFailed
from lumigen.index import ix
from lumigen.lower import GRAPH_PASSES
from lumigen.lower.assemble import LoweredKernel, LoweredModel, assemble
from lumigen.plan import Illegal
from lumigen.printer.program import show as show_program
from lumigen.printer.tile import show as show_tile
from lumigen.targets.cuda.device import CUDA
from lumigen.targets.cuda.speller import device_kernel_body, spelled_tile
from lumigen.tile import Contract
from lumigen.verify.tile import verify

ROWS = lg.Dim("rows", 1, 600, typical=512)
MANY = lg.Dim("many", 1, 8192, typical=8192)
BATCH = lg.Dim("batch", 1, 8, typical=4)
FEW = lg.Dim("few", 1, 600, typical=8)


def spec(*shape: Any, dtype: Any = lg.bf16) -> Any:
    return lg.spec(*shape, dtype=dtype)


def of_blocks(size: int) -> Any:
    """(size, 1) numbers of blocks of 40."""
    return lg.arange(size)[:, None] // 40


MAPPED: dict[str, Case] = {
    "columns": (lambda x, w: x @ w, {"x": spec(ROWS, 72), "w": spec(72, 136)}),
    "transposed": (lambda x, w: x @ w.T, {"x": spec(ROWS, 72), "w": spec(65, 72)}),
    "along_rows": (lambda x, w: x.T @ w, {"x": spec(40, 72), "w": spec(40, 136)}),
    "large": (lambda x, w: x @ w.T, {"x": spec(MANY, 64), "w": spec(1024, 64)}),
    "large_columns": (lambda x, w: x @ w, {"x": spec(MANY, 64), "w": spec(64, 1024)}),
    "half": (
        lambda x, w: x @ w,
        {"x": spec(ROWS, 72, dtype=lg.f16), "w": spec(72, 136, dtype=lg.f16)},
    ),
    "split": (lambda x, w: F.relu(x @ w.T), {"x": spec(ROWS, 1536), "w": spec(200, 1536)}),
    "epilogue": (
        lambda x, w, bias, y: F.gelu(x @ w.T + bias) * y,
        {
            "x": spec(ROWS, 64),
            "w": spec(130, 64),
            "bias": lg.spec(130),
            "y": lg.spec(ROWS, 130),
        },
    ),
    "few": (
        lambda x, w, bias, y: F.relu(x @ w.T + bias) * y,
        {"x": spec(FEW, 264), "w": spec(1200, 264), "bias": lg.spec(1200), "y": spec(FEW, 1200)},
    ),
    "few_whose_place_is_no_line": (
        lambda x, w: (x @ w.T).unflatten(-1, (2, 8)).transpose(1, 2),
        {"x": spec(2, 3, 64), "w": spec(16, 64)},
    ),
    "few_columns": (lambda x, w: x @ w, {"x": spec(FEW, 264), "w": spec(264, 1200)}),
    "batched": (
        lambda x, y: x @ y.transpose(-1, -2),
        {"x": spec(BATCH, 3, 20, 64), "y": spec(BATCH, 3, ROWS, 64)},
    ),
    "shared": (
        lambda x, y: x.unsqueeze(1) @ y.transpose(-1, -2),
        {"x": spec(2, ROWS, 64), "y": spec(2, 3, 70, 64)},
    ),
    "side_by_side": (
        lambda x, q, k, v: {
            "y": x @ q.T,
            "relu": F.relu(x @ k.T),
            "z": (x @ v.T).unflatten(-1, (3, 8)),
        },
        {"x": spec(ROWS, 72), "q": spec(136, 72), "k": spec(40, 72), "v": spec(24, 72)},
    ),
    "few_side_by_side": (
        lambda x, q, k: {"y": x @ q.T, "relu": F.relu(x @ k.T)},
        {"x": spec(FEW, 1032), "q": spec(72, 1032), "k": spec(24, 1032)},
    ),
    "stored_before": (lambda x, w: x.relu() @ w, {"x": spec(ROWS, 72), "w": spec(72, 136)}),
    "heads": (
        lambda x, y: x.transpose(0, 1) @ y.transpose(0, 1).transpose(-1, -2),
        {"x": spec(ROWS, 4, 64), "y": spec(40, 4, 64)},
    ),
    "triangle": (lambda x, w: x.tril() @ w, {"x": spec(ROWS, 264), "w": spec(264, 136)}),
    "two_triangles": (
        lambda x, w: x.tril() @ w.tril(),
        {"x": spec(200, 264), "w": spec(264, 136)},
    ),
    "band": (
        lambda x, w: x.tril(3).triu(-37) @ w,
        {"x": spec(2, 200, 264), "w": spec(2, 264, 72)},
    ),
    "nothing_but_in_a_corner": (
        lambda x, w: w @ x.triu(100),
        {"x": spec(136, 264), "w": spec(40, 136)},
    ),
    "blocks": (
        lambda x, w: lg.where(of_blocks(136) >= of_blocks(136).T, x, 0.0) @ w,
        {"x": spec(136, 136), "w": spec(136, 72)},
    ),
    "ones_below": (
        lambda x, w: (x * lg.ones(136, 136, dtype=lg.bf16).tril()) @ w,
        {"x": spec(136, 136), "w": spec(136, 72)},
    ),
}
NOT_MAPPED: dict[str, Case] = {
    "f32": (
        lambda x, w: x @ w,
        {"x": lg.spec(ROWS, 72), "w": lg.spec(72, 136)},
    ),
    "lines_of_no_whole_16_bytes": (
        lambda x, w: x @ w,
        {"x": spec(ROWS, 70), "w": spec(70, 136)},
    ),
    "lines_as_long_as_a_dim": (
        lambda x, w: x @ w,
        {"x": spec(ROWS, 72), "w": spec(72, MANY)},
    ),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1),
        {"x": spec(2, 8, 8, 16), "w": spec(8, 8, 3, 3)},
    ),
}


def roles_of(model: LoweredModel) -> list[LoweredKernel]:
    return [k for k in model.kernels if k.program.skeleton == "roles"]


SLOW = {
    "few",
    "few_columns",
    "few_side_by_side",
    "large",
    "large_columns",
    "shared",
}  # to interpret


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in MAPPED]
)
def test_every_kernel_computes_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(MAPPED[name], "sm_80", "sm_90a")
    assert roles_of(model)
    for kernel in roles_of(model):
        verify(kernel.program, name)
    for size in (
        1,
        37,
        300 if name == "batched" else 150,
    ):  # more than a tile has, of columns or rows
        dims = {ROWS: size, MANY: size, FEW: size, BATCH: 2}
        every_variant_agrees(graph, model, dims, rng, f"{name} at {size}")


@pytest.mark.parametrize(
    ("name", "reach", "whole"),
    [
        ("triangle", "0 .. min(264, m0 + 64)", ("0", "min(264, m0 + 1)")),
        ("two_triangles", "64*((n0)//64) .. m0 + 64", ("n0 + 127", "m0 + 1")),
    ],
)
def test_a_tile_adds_up_what_masks_leave(name: str, reach: str, whole: tuple[str, str]) -> None:
    _, model = lowered(MAPPED[name], "sm_90a")
    for kernel in roles_of(model):  # of tiles of 64 rows and 128 columns
        (contract,) = (s for s in kernel.program.statements() if isinstance(s, Contract))
        assert f"{contract.k_lo} .. {contract.k_hi}" == reach
        assert tuple(map(str, contract.whole)) == whole


@pytest.mark.parametrize("name", NOT_MAPPED)
def test_what_the_copy_engine_does_not_take_has_the_general_kernel_alone(name: str) -> None:
    _, model = lowered(NOT_MAPPED[name], "sm_90a")
    assert not roles_of(model)
    assert any(k.program.skeleton == "pipeline" for k in model.kernels)


def test_more_rows_than_an_int_counts_run_in_vector_loops() -> None:
    rows, more = lg.Dim("rows", 1, 2**20, typical=64), lg.Dim("more", 1, 2**12, typical=2)
    inputs = {"x": spec(rows, more, 64), "w": spec(64, 64)}
    _, model = lowered((lambda x, w: x @ w, inputs), "sm_90a")
    assert [k.program.skeleton for k in model.kernels] == ["simt"]


def test_products_whose_operands_lie_otherwise_are_launches_of_their_own(
    rng: np.random.Generator,
) -> None:
    inputs = {"x": spec(ROWS, 72), "w": spec(136, 72), "v": spec(72, 40)}
    graph, model = lowered((lambda x, w, v: {"y": x @ w.T, "z": x @ v}, inputs), "sm_90a")
    assert len(model.programs[0].groups) == 2
    assert {k.program.skeleton for k in model.kernels} == {"pipeline", "roles"}
    every_variant_agrees(graph, model, {ROWS: 37}, rng, "lies otherwise")


@pytest.mark.parametrize("name", ["side_by_side", "few_side_by_side"])
def test_products_of_the_same_rows_are_one_launch(name: str) -> None:
    _, model = lowered(MAPPED[name], "sm_80", "sm_90a")
    (group,) = model.programs[0].groups
    assert len(group.variants) == len(model.kernels) > 1
    for kernel in model.kernels:
        assert len(kernel.region.stores) >= len(model.programs[0].outputs)
        operands = [s.maps for s in kernel.program.statements() if isinstance(s, Contract)]
        rows = {a for a, _ in operands} | {b for _, b in operands} if kernel.program.maps else set()
        assert rows == {t.name for t in kernel.program.maps}


def test_grids_side_by_side_have_one_tile() -> None:
    _, model = lowered(MAPPED["side_by_side"], "sm_90a")
    for kernel in model.kernels:
        assert kernel.plan is not None
        assert kernel.schedule is not None
        first, *others = kernel.schedule.parts
        other = next(s for s in CUDA.builders["side_by_side"].near(kernel.plan, kernel.schedule))
        assert first != other.parts[0]
        mixed = replace(kernel.schedule, parts=(other.parts[0], *others))
        refused = CUDA.build(kernel.plan, mixed)
        assert isinstance(refused, Illegal)
        assert "one form of tile" in refused.reason


def test_only_a_project_for_hopper_has_them() -> None:
    assert not roles_of(lowered(MAPPED["columns"], "sm_80", "sm_100")[1])
    assert not roles_of(lowered(MAPPED["columns"])[1])


def test_the_text_of_both_kernels(golden: Callable[[str, str], None]) -> None:
    _, model = lowered(MAPPED["shared"], "sm_90a")
    kernel = roles_of(model)[-1]
    text = re.sub(r"  # .*", "", show_program(model.programs[0]))
    golden("tile/roles.txt", text + show_tile(kernel.program))


def test_tiles_by_typical_dims() -> None:
    """For up to 16 rows, up to 256, and more; the typical number decides where it lies."""
    found = {
        name: [spelled_tile(k.program.tile) for k in roles_of(lowered(MAPPED[name], "sm_90a")[1])]
        for name in ("large", "large_columns", "columns", "half", "split", "few", "few_columns")
    }
    deep, turned = "Along::kDepth, Along::kDepth", "Along::kMajor, Along::kDepth"
    assert found["large"][-1] == f"RolesTile<bf16, 128, 256, 4, 2, {deep}>"
    assert found["large_columns"][-1].startswith("RolesTile<bf16, 128, 256, 4, 2, Along::kDepth, ")
    assert found["few"][0] == f"SplitTile<bf16, 64, 16, 10, 2, 2, {deep}>"
    assert found["few_columns"][0] == f"SplitTile<bf16, 64, 16, 10, 2, 2, {turned}>"
    assert found["split"][1] == f"SplitTile<bf16, 64, 64, 12, 4, 1, {deep}>"
    assert all(tile.startswith(("RolesTile<f16, ", "SplitTile<f16, ")) for tile in found["half"])


def test_a_kernel_for_few_rows_runs_where_rows_are_few() -> None:
    _, model = lowered(MAPPED["few"], "sm_90a")
    (group,) = model.programs[0].groups
    chosen = {
        rows: next(
            i for i, v in enumerate(group.variants) if v.when.holds({FEW: rows}, ("sm_90a",))
        )
        for rows in (1, 16, 17, 256, 257, 600)
    }
    assert list(chosen.values()) == [0, 0, 1, 1, 1, 1], "one tile is best for 17 rows and more"
    assert not group.variants[-1].when.features, "the last one runs everywhere"


def test_a_map_that_no_engine_takes_is_refused() -> None:
    kernel = roles_of(lowered(MAPPED["columns"], "sm_90a")[1])[-1]
    program, (a, b) = kernel.program, kernel.program.maps
    for wrong, said in (
        (replace(a, line_stride=ix(70)), "70 elements are not whole 16 bytes"),
        (replace(a, lines=ix(0)), "0 may be none"),
        (replace(a, base=ix(program.task) * 8), "is in the kernel"),
        (replace(a, source=program.scratch[0]), "acc is no argument"),
    ):
        with pytest.raises(VerifyFailed, match=said):
            verify(replace(program, maps=(wrong, b)))


# ---- as text for a compiler ----


@pytest.mark.slow
@nvcc.needed
@pytest.mark.parametrize("arch", ["80", "90a", "100"])
def test_kernels_compile_without_a_warning_or_a_spill(arch: str, tmp_path: Path) -> None:
    names = (
        *("large", "large_columns", "epilogue", "shared", "split", "few", "few_columns"),
        *("side_by_side", "few_side_by_side"),
    )
    kernels = compiled_kernels(MAPPED, names, "roles", arch, tmp_path)
    assert len(kernels) > len(names), "some for few rows, too"
    for kernel, said in kernels:
        assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, kernel + said
        assert "C75" not in said, kernel + said  # products that wait for each other


def test_a_dim_named_like_the_place_of_a_tile_stays_itself() -> None:
    """`batch` is what a kernel calls the matrix of its tile."""
    batch, sequence = lg.Dim("batch", 1, 64, typical=64), lg.Dim("sequence", 1, 512, typical=128)
    inputs = {
        "x": lg.spec(batch, sequence, 384, dtype=lg.bf16),
        "w": lg.spec(1536, 384, dtype=lg.bf16),
    }
    entry = traced(lambda x, w: x @ w.transpose(0, 1), **inputs)
    for step in GRAPH_PASSES:
        entry = step(entry)
    kernels = assemble((("entry", entry),), CUDA, architectures=("sm_90a",)).kernels
    *_, kernel = (k for k in kernels if k.program.skeleton == "roles")
    text = device_kernel_body(kernel.name, kernel.program, kernel.parameters, "model.py:1").body
    inside = text[text.index("contract_tiles") :]
    assert "batch_ * sequence" in inside
    assert "const int batch_ = static_cast<int>(args.batch);" in text
