"""listing: what is said of an imported model without building it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lumigen.graph import Graph
from lumigen.interp.graph import ports


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


def entry_line(name: str, graph: Graph) -> str:
    """An entry as text: what it takes and gives."""
    given = [f"{p.name} {p.dtype}[{_extents(p.shape)}]" for p in ports(graph)]
    made = [f"{key} {e.dtype}[{_extents(e.shape)}]" for key, e in graph.outputs]
    return f"{name}: {', '.join(given)} -> {', '.join(made)}"


def _extents(shape: Sequence[object]) -> str:
    return ", ".join(map(str, shape))
