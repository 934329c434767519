"""Folds of a product's rows, and two products in one launch, on a GPU: their tables, by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import test_block_fold as folds
import test_byte_products as of_bytes
import test_computed_operands as computed
import test_product_pairs as pairs
from device_cases import Case
from shipped_programs import ship
from small_programs import SmallProgram

import lumigen as lg
from lumigen.target import parse_target

pytestmark = pytest.mark.gpu

OF_FOLDS = tuple(
    {"rows": n, "many": n, "columns": k, "wide": k, "deep": min(n, 300)}
    for n, k in ((1, 1), (3, 700), (65, 128), (130, 257), (300, 640))
)
OF_PAIRS = tuple({"few": n, "some": n, "many": n, "batch": min(n, 8)} for n in (1, 3, 17, 40, 64))
OF_BYTES = tuple(
    {"few": m, "some": n, "deep": k, "parts": m}
    for m, n, k in ((1, 1, 1), (3, 17, 31), (65, 128, 64), (130, 257, 100), (300, 300, 1000))
)
TABLES = {
    "block_folds": (folds.FOLDED, OF_FOLDS),
    "product_pairs": (pairs.PAIRS, OF_PAIRS),
    "byte_products": (of_bytes.BYTES, OF_BYTES),
    "few_rows": (computed.HALVES, ({},)),
}


@pytest.mark.parametrize("name", TABLES)
def test_kernels_agree_with_the_interpreter(
    name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs.paired(monkeypatch)
    table: Mapping[str, Case]
    points: Sequence[Mapping[str, int]]
    table, points = TABLES[name]
    programs = [
        SmallProgram(case, function, tuple(inputs.items()), tuple(points))
        for case, (function, inputs) in table.items()
    ]
    shipped = ship(name, programs, parse_target(target), lg.bf16, tmp_path / "out")
    wrong = shipped.wrong()
    assert not wrong, "\n".join(wrong.values())
