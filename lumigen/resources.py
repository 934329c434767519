"""Where the files are that emit copies and renders: the templates and the runtime.

Promises directories of the file system, both in a checkout and in an installed wheel.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def templates_dir() -> Path:
    """One folder for each target; see its README for what a template may do."""
    return _find("templates")


def runtime_dir() -> Path:
    """The C++ runtime that every emitted project carries a copy of."""
    return _find("runtime")


def _find(name: str) -> Path:
    """The wheel holds them inside the package, as pyproject.toml says; a checkout beside it."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
