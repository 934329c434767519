"""columns: long lines of emitted C++, broken where a person would break them.

Promises that nothing but blanks and ends of lines changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 120
INDENT = 4  # for each bracket that a line goes on in, and for the first without any

# Strings whole; brackets, with `<` and `>` of templates, which have no blank around them; where a line may end.
TOKEN = re.compile(
    r"""
    "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    | (?P<open>[(\[{] | (?<=\w)<(?=\w))
    | (?P<close>[)\]}] | (?<=[\w*)\]>])>)
    | (?P<comma>,\ | ;\ | (?<=\))\ (?=\w+\())
    | (?P<sign>\ (?:\+|-|&&|\|\|)\ | \ (?=[?:]\ ))
    """,
    re.VERBOSE,
)


def folded(text: str) -> str:
    """The text with its lines at most `WIDTH` wide, where there is a place to break them."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line))


def _parts(line: str) -> Iterator[str]:
    blanks = len(line) - len(line.lstrip())
    if line.lstrip().startswith(("#", "//")) or line.endswith("\\"):
        yield line
        return
    depth = 0  # of brackets that are open where the line begins
    outside = False  # whether a line has ended outside of all brackets
    while len(line) > WIDTH:
        own = len(line) - len(line.lstrip())  # behind it a line is not empty
        found = _break(line, depth, max(own, blanks + 2 * INDENT))
        if found is None:
            break
        at, depth = found
        yield line[:at].rstrip()
        level = depth + outside if depth else 1
        outside = outside or depth == 0
        line = " " * (blanks + INDENT * level) + line[at:].lstrip()
    yield line


def _break(line: str, depth: int, first: int) -> tuple[int, int] | None:
    """Where to end the line, after column `first`, and how many brackets are open there.

    The last place inside the width, of those inside the fewest brackets; a comma rather than an operator.
    """
    best: tuple[int, bool] | None = None
    found: tuple[int, int] | None = None
    for token in TOKEN.finditer(line):
        if token.end() > WIDTH + 1:
            break
        kind = token.lastgroup
        depth += (kind == "open") - (kind == "close")
        if kind in ("comma", "sign") and token.end() > first:
            rank = (depth, kind == "sign")
            if best is None or rank <= best:
                best, found = rank, (token.end(), depth)
    return found
