# pyright: reportUnknownVariableType=false
"""lines: where in its author's files a node of an exported program was written, and in which module it ran."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lumigen.errors import SourceLocation

FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]torch[/\\]")


def line_of(node: Any) -> SourceLocation | None:
    """The innermost line of the node's stack; None where no stack was kept."""
    return innermost(FRAME.findall(node.meta.get("stack_trace") or ""))


def innermost(frames: Sequence[Sequence[Any]]) -> SourceLocation | None:
    """Of frames (file, line, function, ..), the innermost of a source, of one that is not PyTorch's if there is any."""
    sources = [f for f in frames if is_source(Path(f[0]))]
    own = [f for f in sources if not LIBRARY.search(f[0])] or sources
    if not own:
        return None
    file, line, function = own[-1][:3]
    return SourceLocation(file, int(line), function)


def is_source(file: Path) -> bool:
    """Whether a file may be read for the names in it: what an archive names may be no file at all, but a device."""
    return file.suffix == ".py" and (file.is_file() or not file.exists())


def module_of(node: Any) -> str:
    """The path of the module that the node ran in; empty for the outermost."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return paths[-1] if paths else ""


def result_names(graph: Any) -> dict[Any, str]:
    """The nodes that a module ends with, by its path: what they are called in the compiled project."""
    found: dict[Any, str] = {}
    for node in graph.nodes:
        path = module_of(node)
        inside = f"{path}."
        users = [module_of(user) for user in node.users if user.op != "output"]
        if path and not any(user == path or user.startswith(inside) for user in users):
            found[node] = path
    return found
