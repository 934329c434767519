"""assigned: which variable of the user's file a value went to, by the line that computes it.

The trace knows lines, not variables: a statement `scores = q @ k.mT * 0.5` makes several nodes, of which the last one,
that no other one of the statement reads, is `scores`.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from lumigen.errors import SourceLocation
from lumigen.graph import Node

UNNAMED = frozenset({"forward", "_"})  # functions and variables whose names say nothing


def assigned(
    order: Sequence[Node], lines: Mapping[Node, tuple[SourceLocation, ...]]
) -> dict[Node, str]:
    """The names of those that a statement ends with, operands first in `order`."""
    found = {n: place for n in order if (place := _place(lines.get(n, ()))) is not None}
    inner = {
        a.node for n, place in found.items() for a in n.args if found.get(a.node) == place
    }  # that the same statement goes on with
    return {n: name for n, (_, _, name) in found.items() if n not in inner}


def _place(lines: tuple[SourceLocation, ...]) -> tuple[str, int, str] | None:
    """The file, the first line of the statement and the variable, of what one line alone computes."""
    if len(lines) != 1:
        return None
    (line,) = lines
    found = _statements(line.file, tuple(linecache.getlines(line.file))).get(line.line)
    return None if found is None else (line.file, *found)


@cache
def _statements(file: str, text: tuple[str, ...]) -> Mapping[int, tuple[int, str]]:
    """For each line of an assignment to one variable, or of a function's `return`, where it begins and the name."""
    try:
        tree = ast.parse("".join(text), file)
    except SyntaxError:
        return {}
    return {
        line: (s.lineno, name)
        for s, name in _named(tree, "")
        if name not in UNNAMED and not name.startswith("__")
        for line in range(s.lineno, (s.end_lineno or s.lineno) + 1)
    }


def _named(node: ast.AST, function: str) -> Iterator[tuple[ast.stmt, str]]:
    for inner in ast.iter_child_nodes(node):
        match inner:
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield inner, name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
                yield inner, name
            case ast.Return() if function:
                yield inner, function
            case _:
                pass
        own = inner.name if isinstance(inner, ast.FunctionDef) else function
        yield from _named(inner, own)
