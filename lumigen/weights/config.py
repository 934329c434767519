"""The configuration of a checkpoint, checked against what a model computes.

Promises that a value that the model does not compute, and a key that it reads and the file lacks, are a
BadWeightsFile that names both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from lumigen.errors import BadWeightsFile, user_location

Supported = Mapping[str, Collection[Any]]


class Config(dict[str, Any]):
    """The keys of a configuration, or of a table in it; reading one that it lacks is a BadWeightsFile."""

    def __init__(
        self, said: Mapping[str, Any], file: Path, model_types: Collection[str], table: str = ""
    ) -> None:
        super().__init__(said)
        self.file = file
        self.model_types = model_types
        self.table = table
        for key, value in said.items():
            if isinstance(value, dict):
                inner = cast("dict[str, Any]", value)
                self[key] = Config(inner, file, model_types, f"{table}{key}.")

    def __missing__(self, key: str) -> Any:
        why = "there is no such file"
        remedy = f"Pass a checkpoint whose model_type is {_listed(self.model_types)}."
        if self.file.is_file():
            why = f"it has no {self.table}{key}, which this model reads"
        if self.table:
            remedy = f"Complete its {self.table.rstrip('.')}, or pass another checkpoint."
        raise _refused(self.file, why, remedy)


def checked(
    said: Mapping[str, Any], file: Path, model_types: Collection[str], supported: Supported
) -> Config:
    """The configuration in `file`; BadWeightsFile where it says what is not supported."""
    for table in (key.partition(".")[0] for key in supported if "." in key):
        value = said.get(table)
        if value is not None and not isinstance(value, dict):
            why = f"its {table} is {str(value)[:80]}, where this model reads an object"
            remedy = "Write it as an object of keys and values, or pass another checkpoint."
            raise _refused(file, why, remedy)
    for key, values in {"model_type": model_types, **supported}.items():
        value = _value(said, key)
        if value is not None and value not in values:
            wanted = f"where it is {_listed(values)}" if values else "that leaves it out"
            why = f"its {key} is {str(value)[:80]}, which this model does not compute"
            raise _refused(file, why, f"Pass a checkpoint {wanted}, or extend the model.")
    return Config(said, file, model_types)


def _value(said: Mapping[str, Any], key: str) -> Any:
    """What is said of a key, of `table.key` in that table; None where nothing is."""
    table, dot, inner = key.partition(".")
    found = said.get(table)
    if not dot:
        return found
    return cast("dict[str, Any]", found).get(inner) if isinstance(found, dict) else None


def _listed(values: Collection[Any]) -> str:
    return " or ".join(map(str, values))


def _refused(file: Path, why: str, remedy: str) -> BadWeightsFile:
    return BadWeightsFile(where=user_location(), file=str(file), why=why, remedy=remedy)
