"""Folds of a product's rows on a GPU: all of tests/test_row_fold.py, by the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipped_programs import ship
from small_programs import SmallProgram
from test_row_fold import COLUMNS, DEEP, FOLDED, MANY, ROWS, WIDE

import lumigen as lg
from lumigen.target import parse_target

pytestmark = pytest.mark.gpu

POINTS = tuple(
    {ROWS.name: n, MANY.name: n, COLUMNS.name: k, WIDE.name: k, DEEP.name: min(n, 300)}
    for n, k in ((1, 1), (3, 700), (65, 128), (130, 257), (300, 640))
)


def test_folds_of_rows_agree_with_the_interpreter(target: str, tmp_path: Path) -> None:
    programs = [
        SmallProgram(name, function, tuple(inputs.items()), POINTS)
        for name, (function, inputs) in FOLDED.items()
    ]
    shipped = ship("row_folds", programs, parse_target(target), lg.bf16, tmp_path / "out")
    wrong = shipped.wrong()
    assert not wrong, "\n".join(wrong.values())
