"""table: the rows of all operators, by domain and name."""

from __future__ import annotations

from collections.abc import Mapping

from lumigen.importers.onnx.node import Operator
from lumigen.importers.onnx.operators import ROWS


def _by_name() -> Mapping[tuple[str, str], tuple[Operator, ...]]:
    """The rows of each operator, the newest first."""
    found: dict[tuple[str, str], list[Operator]] = {}
    for row in ROWS:
        found.setdefault((row.domain, row.name), []).append(row)
    return {key: tuple(sorted(rows, key=lambda r: -r.since)) for key, rows in found.items()}


OPERATORS = _by_name()


def row_of(domain: str, op: str, version: int) -> Operator | None:
    """The row that holds in a version of the domain's operator set."""
    rows = OPERATORS.get((domain, op), ())
    return next((r for r in rows if r.since <= version), None)
