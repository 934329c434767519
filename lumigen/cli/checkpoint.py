"""What `lumigen compile --explain` says of a checkpoint and of an exported program: what is in it, and all problems."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from lumigen.cli.options import Dims, Settings
from lumigen.cli.terminal import result, result_json, table
from lumigen.errors import ProblemsInModel, printable
from lumigen.importers import hugging_face, torch
from lumigen.importers.listing import Listing


def say_of_checkpoint(directory: str, settings: Settings, dims: Dims, *, as_json: bool) -> None:
    """The way that a checkpoint takes, and what it has."""
    _say(directory, hugging_face.explained(directory, dict(settings), dict(dims)), as_json=as_json)


def say_of_program(file: str, dims: Dims, *, trust: bool, as_json: bool) -> None:
    """What an archive of torch.export has."""
    _say(file, torch.explained(Path(file), dict(dims), trust=trust), as_json=as_json)


def _say(path: str, found: Listing, *, as_json: bool) -> None:
    """The entries and the operators; ProblemsInModel where something cannot be compiled."""
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
        raise ProblemsInModel(file=path, count=len(found.problems))
