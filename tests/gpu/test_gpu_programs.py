"""Every row of test_cpu_ops, every module and random programs on a GPU: what the interpreter says, in each dtype."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from module_programs import module_programs
from random_programs import drawn
from shipped_programs import ship
from small_programs import SmallProgram
from test_cpu_ops import ROWS

import lumigen as lg
from lumigen import functional as F
from lumigen.dtype import DType, bf16, f16, f32
from lumigen.target import parse_target

pytestmark = pytest.mark.gpu

DTYPES = {"f32": f32, "f16": f16, "bf16": bf16}
PARTS = 6  # of the rows: projects that are built side by side
RANDOM = 60
# Held in 16 bits, these look for a stored maximum among values that are computed again: equal in f32, as kernels
# compute them, but not in the interpreter's f64.
AGAIN = {"solve"}


def held(programs: list[SmallProgram], dtype: DType) -> list[SmallProgram]:
    """Those that have f32 to be held in `dtype`."""
    if dtype is f32:
        return programs
    sources = {p.name: (*p.graph.inputs, *p.graph.weights()) for p in programs}
    return [p for p in programs if any(n.dtype is f32 for n in sources[p.name])]


def check(name: str, programs: list[SmallProgram], dtype: DType, target: str, place: Path) -> None:
    shipped = ship(name, programs, parse_target(target), dtype, place / name)
    wrong = shipped.wrong()
    assert not wrong, f"{len(wrong)} of {len(programs)}:\n" + "\n".join(wrong.values())[:20000]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(part: int, dtype: str, target: str, tmp_path: Path) -> None:
    programs = held(ROWS, DTYPES[dtype])[part::PARTS]
    if dtype != "f32":
        programs = [p for p in programs if p.name not in AGAIN]
    check(f"rows_{dtype}_{part}", programs, DTYPES[dtype], target, tmp_path)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("dtype", DTYPES)
def test_modules(part: int, dtype: str, target: str, tmp_path: Path) -> None:
    programs = held(module_programs(), DTYPES[dtype])[part::2]
    check(f"modules_{dtype}_{part}", programs, DTYPES[dtype], target, tmp_path)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_programs(dtype: str, target: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("LUMIGEN_GPU_SEED", "0"))
    programs = [p.program(f"p{i}") for i, p in enumerate(drawn(RANDOM, seed))]
    check(f"random_{dtype}", held(programs, DTYPES[dtype]), DTYPES[dtype], target, tmp_path)


ROW = lg.Dim("rows", 1, 3000)
EDGES: dict[str, Callable[[lg.Tensor, lg.Tensor], lg.Tensor]] = {
    # of one row nothing is left to sum up
    "nothing": lambda x, y: x[1:].mT @ y[1:],
    "nothing_computed": lambda x, y: (x[1:].mT.exp() @ y[1:] + 1).relu(),
    "nothing_seen": lambda x, y: F.scaled_dot_product_attention(x, x[1:], y[1:], scale=0.5),
    # rows are taken from what is computed
    "taken": lambda x, y: (x @ y[:1].mT + x).relu()[y[:, 0].argsort()],
    "taken_of_softmax": lambda x, y: x.softmax(-1)[y[:, 0].argsort()],
    "scattered": lambda x, y: x.index_add(0, y[:, 0].argsort(), y.softmax(-1) * 0.5),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_and_what_is_chosen(dtype: str, target: str, tmp_path: Path) -> None:
    x, y = (lg.spec(ROW, 40, dtype=DTYPES[dtype]) for _ in range(2))
    points = tuple({ROW.name: n} for n in (1, 2, 7, 300))
    programs = [SmallProgram(k, f, (("x", x), ("y", y)), points) for k, f in EDGES.items()]
    check(f"edges_{dtype}", programs, DTYPES[dtype], target, tmp_path)
