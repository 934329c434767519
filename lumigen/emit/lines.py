"""lines: lines of C++ with what they use, so that nobody has to look for it in their text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

INDENT = "  "


@dataclass(frozen=True)
class Lines:
    """Lines of C++, the variables that they name and the headers that they need.

    `binds`: the place that they name, where they do nothing else and may go if nothing uses it.
    """

    text: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    binds: str = ""

    def indented(self) -> Lines:
        return replace(self, text=tuple(INDENT + line for line in self.text))

    def named(self, name: str) -> str:
        """The name of a parameter of a function with this body, in a comment if nothing uses it."""
        return name if name in self.names else f"/*{name}*/"


@dataclass
class Uses:
    """The variables and headers that one statement uses, gathered while its expressions are spelled."""

    names: set[str] = field(default_factory=set[str])
    headers: set[str] = field(default_factory=set[str])

    def lines(self, *parts: str | Lines, binds: str = "") -> Lines:
        """A statement of these parts, which uses what they do and what was gathered."""
        found = joined([Lines((p,)) if isinstance(p, str) else p for p in parts])
        return Lines(found.text, found.names | self.names, found.headers | self.headers, binds)


def joined(parts: Iterable[Lines]) -> Lines:
    parts = tuple(parts)
    return Lines(
        tuple(line for p in parts for line in p.text),
        frozenset[str]().union(*(p.names for p in parts)),
        frozenset[str]().union(*(p.headers for p in parts)),
    )


def used(parts: Sequence[Lines]) -> list[Lines]:
    """Without the places that nothing after them uses."""
    out: list[Lines] = []
    names: set[str] = set()
    for part in reversed(parts):
        if not part.binds or part.binds in names:
            out.append(part)
            names |= part.names
    return out[::-1]
