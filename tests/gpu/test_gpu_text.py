"""The program that continues texts, over a model on a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "text"))  # for `counting`

from counting import check_program

pytestmark = pytest.mark.gpu


def test_the_program_is_the_same(tmp_path: Path, target: str) -> None:
    check_program(tmp_path / "counting", target)
