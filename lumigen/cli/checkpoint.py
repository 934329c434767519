"""What `lumigen compile --explain` says of a checkpoint: which way it is compiled, and what is in it."""

from __future__ import annotations

from dataclasses import asdict

from lumigen.cli.options import Dims, Settings
from lumigen.cli.terminal import result, result_json, table
from lumigen.errors import ProblemsInModel, printable
from lumigen.importers.hugging_face import explained


def say_of_checkpoint(directory: str, settings: Settings, dims: Dims, *, as_json: bool) -> None:
    """The way, the entries and the operators; ProblemsInModel where something cannot be compiled."""
    found = explained(directory, dict(settings), dict(dims))
    if as_json:
        result_json(asdict(found))
    else:
        rows = [("operator", "count"), *((op, str(n)) for op, n in found.operators.items())]
        lines = [
            found.line,
            *found.entries,
            "",
            table(rows, frozenset({1})) if found.operators else "",
            "",
            *(printable(text) for text in found.problems),
        ]
        result("\n".join(lines).rstrip())
    if found.problems:
        raise ProblemsInModel(file=directory, count=len(found.problems))
