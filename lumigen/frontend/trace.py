"""What is being traced: the names of parameters and the user's lines of the nodes made so far.

Promises that every node made while a scope is open knows all user's lines that asked for it, equal nodes
from different lines included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lumigen.errors import LumigenError, SourceLocation, user_location
from lumigen.graph import Edge, Node, edge


@dataclass
class Scope:
    """One trace: `names` of the parameters in it, `lines` of its nodes in order of appearance."""

    names: Mapping[object, str] = field(default_factory=dict[object, str])
    lines: dict[Node, dict[SourceLocation, None]] = field(
        default_factory=dict[Node, dict[SourceLocation, None]]
    )

    def name_of(self, parameter: object) -> str | None:
        return self.names.get(parameter)

    def record(self, n: Node) -> None:
        where = user_location()
        if where is not None:
            self.lines.setdefault(n, {})[where] = None

    def frozen_lines(self) -> dict[Node, tuple[SourceLocation, ...]]:
        return {n: tuple(places) for n, places in self.lines.items()}


_STACK: list[Scope] = []


@contextmanager
def tracing(scope: Scope) -> Iterator[Scope]:
    """Nodes made inside belong to `scope`."""
    _STACK.append(scope)
    try:
        yield scope
    finally:
        _STACK.pop()


def current() -> Scope | None:
    """The innermost open scope."""
    return _STACK[-1] if _STACK else None


def emit(n: Node) -> Edge:
    """The node as it is, with the user's line noted."""
    scope = current()
    if scope is not None:
        scope.record(n)
    return edge(n)


def fail(error: type[LumigenError], **facts: object) -> LumigenError:
    """The error with the user's line in front, to be raised."""
    return error(where=user_location(), **facts)
