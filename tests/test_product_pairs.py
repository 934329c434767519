"""Two products of the same few rows in one launch of a GPU: which are, what they compute, what nvcc says."""

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

import lumigen as lg
from lumigen import functional as F
from lumigen.block_tile import TileKind
from lumigen.lower.assemble import LoweredKernel, LoweredModel
from lumigen.printer.tile import show as show_tile
from lumigen.target import TARGETS
from lumigen.targets.cuda.device import device_of
from lumigen.targets.cuda.machines import SM_80, SM_90A
from lumigen.verify.tile import verify

FEW = lg.Dim("few", 1, 64, typical=4)
SOME = lg.Dim("some", 1, 64, typical=24)
MANY = lg.Dim("many", 1, 64, typical=64)
BATCH = lg.Dim("batch", 1, 8, typical=2)


def spec(*shape: Any, dtype: Any = lg.bf16) -> Any:
    return lg.spec(*shape, dtype=dtype)


def operands(rows: Any, columns: int = 200, depth: int = 136, dtype: Any = lg.bf16) -> Any:
    weight = spec(columns, depth, dtype=dtype)
    return {"x": spec(rows, depth, dtype=dtype), "g": weight, "u": weight}


def gated(x: Any, g: Any, u: Any) -> Any:
    return F.silu(x @ g.T) * (x @ u.T)


PAIRS: dict[str, Case] = {
    "few": (gated, operands(FEW)),
    "some": (gated, operands(SOME)),
    "many": (gated, operands(MANY)),
    "half": (gated, operands(FEW, dtype=lg.f16)),
    "ragged": (gated, operands(SOME, 33, 75)),
    "commuted": (lambda x, g, u: (x @ u.T) * F.silu(x @ g.T), operands(SOME)),
    "biased": (
        lambda x, g, u, b: F.gelu(F.linear(x, g, b)) + F.linear(x, u, b),
        {**operands(SOME), "b": spec(200)},
    ),
    "turned": (
        lambda x, g, u: F.silu(x @ g) * (x @ u.T),
        {"x": spec(SOME, 136), "g": spec(136, 200), "u": spec(200, 136)},
    ),
    "of_a_sum": (
        lambda x, y, g, u: gated(x, g, u) * y.float().sum(-1, keepdim=True),
        {"x": spec(SOME, 136), "y": spec(SOME, 70), "g": spec(200, 136), "u": spec(200, 136)},
    ),
    "batched": (
        lambda x, g, u: F.silu(x @ g.mT) * (x @ u.mT),
        {"x": spec(BATCH, SOME, 64), "g": spec(BATCH, 72, 64), "u": spec(BATCH, 72, 64)},
    ),
}
APART: dict[str, Case] = {
    "f32": (gated, operands(FEW, dtype=lg.f32)),
    "of_two_rows": (
        lambda x, y, g, u: F.silu(x @ g.T) * (y @ u.T),
        {**operands(FEW), "y": spec(FEW, 136)},
    ),
    "of_three": (
        lambda x, g, u, v: F.silu(x @ g.T) * (x @ u.T) + x @ v.T,
        {**operands(FEW), "v": spec(200, 136)},
    ),
}


PAIRED = device_of(replace(SM_80, accumulators=2), SM_90A)  # what it takes by itself has one


def paired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target for GPUs take both products in one launch."""
    row = TARGETS["cuda"]
    monkeypatch.setitem(TARGETS, "cuda", replace(row, device=PAIRED))


def pairs(model: LoweredModel) -> list[LoweredKernel]:
    tiles = ((k, k.program.tile) for k in model.kernels)
    return [k for k, tile in tiles if tile is not None and tile.kind is TileKind.PAIR]


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_compute_the_graph(name: str, rng: np.random.Generator) -> None:
    graph, model = lowered(PAIRS[name], "sm_90a", device=PAIRED)
    (kernel,) = pairs(model)
    verify(kernel.program, name)
    for rows, batch in ((1, 1), (61, 2), (17, 3)):
        dims = {FEW: rows, SOME: rows, MANY: rows, BATCH: batch}
        every_variant_agrees(graph, model, dims, rng, f"{name} at {rows}")


@pytest.mark.parametrize("name", APART)
def test_what_has_a_launch_for_each(name: str) -> None:
    _, model = lowered(APART[name], device=PAIRED)
    assert not pairs(model)
    assert sum(k.program.skeleton == "pipeline" for k in model.kernels) > 1


def test_two_launches_are_the_default() -> None:
    assert not pairs(lowered(PAIRS["few"], "sm_90a")[1])


def test_the_text_of_a_tile(golden: Callable[[str, str], None]) -> None:
    (kernel,) = pairs(lowered(PAIRS["some"], device=PAIRED)[1])
    golden("tile/pipeline_pair.txt", show_tile(kernel.program))


@nvcc.needed
@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("80", ("some",)),
        pytest.param("80", tuple(PAIRS), marks=pytest.mark.slow),
        pytest.param("90a", tuple(PAIRS), marks=pytest.mark.slow),
    ],
)
def test_kernels_compile_without_a_warning_or_a_spill(
    arch: str, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paired(monkeypatch)
    kernels = compiled_kernels(PAIRS, names, "pipeline", arch, tmp_path)
    assert kernels
    for kernel, said in kernels:
        assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, kernel + said
