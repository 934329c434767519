"""problems: what of a program cannot be compiled, all of it in one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lumigen.errors import NotImported, SourceLocation

MOST = 5  # lines of an error

REMEDY = "Rewrite these lines, or compute this part of the model outside of it."


@dataclass(frozen=True)
class Problem:
    """What stands in the way, and where."""

    what: str
    where: SourceLocation | None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def not_imported(model: str, problems: Sequence[Problem]) -> NotImported:
    """The error that lists them, each once."""
    lines = list(dict.fromkeys(map(str, problems)))
    shown = (
        lines if len(lines) <= MOST else [*lines[: MOST - 1], f"and {len(lines) - MOST + 1} more"]
    )
    count = "1 operation" if len(lines) == 1 else f"{len(lines)} operations"
    return NotImported(
        op="from_torch", count=count, model=model, text="\n".join(shown), remedy=REMEDY
    )
