"""Columns that are read once on a GPU: those of test_long_columns in each dtype, with ties, infinities and NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shipped_programs import ship
from small_programs import SmallProgram
from test_long_columns import CASES, IMAGES, LENGTH, WIDTH

import lumigen as lg
from lumigen.target import parse_target

pytestmark = pytest.mark.gpu

DTYPES = {"f32": lg.f32, "f16": lg.f16, "bf16": lg.bf16}
POINTS = tuple(
    {IMAGES.name: n, LENGTH.name: length, WIDTH.name: width}
    for n, length, width in ((1, 1, 1), (3, 700, 13), (160, 3001, 64))
)
MADE: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda x: x,
    "ties": lambda x: (2 * x).floor(),
    "extremes": lambda x: lg.where(x < -1, float("-inf"), lg.where(x > 2.5, float("nan"), x)),
    "nothing": lambda x: lg.where(x < 9, float("-inf"), x),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("made", MADE)
def test_columns_agree_with_the_interpreter(
    made: str, dtype: str, target: str, tmp_path: Path
) -> None:
    def program(name: str) -> SmallProgram:
        function, x, *_ = CASES[name]
        spec = replace(x, dtype=DTYPES[dtype]) if x.dtype in DTYPES.values() else x
        stem = name.replace(",", "").replace(" ", "_")
        return SmallProgram(f"of_{stem}", lambda x: function(MADE[made](x)), (("x", spec),), POINTS)

    floats = (n for n, (_, x, *_) in CASES.items() if x.dtype.is_float)
    programs = [program(n) for n in (CASES if made == "numbers" else floats)]
    shipped = ship(
        f"columns_{made}_{dtype}", programs, parse_target(target), DTYPES[dtype], tmp_path / "out"
    )
    wrong = shipped.wrong()
    assert not wrong, "\n".join(wrong.values())
