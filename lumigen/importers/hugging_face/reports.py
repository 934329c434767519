"""reports: what is said of a checkpoint without building it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Listing:
    """The way that is taken, the entries with their inputs and outputs, how often each operator occurs, each problem.

    An example has no operators of another program.
    """

    name: str
    way: str
    line: str
    entries: tuple[str, ...]
    operators: Mapping[str, int]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """Of one output at one set of sizes: the greatest difference, and the greatest number that was expected."""

    sizes: str
    output: str
    difference: float
    greatest: float
