"""What is installed with the code: templates, the runtime and the emulator for emit; the examples; the version.

Promises directories of the file system, both in a checkout and in an installed wheel.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

_PACKAGE = Path(__file__).parent


def templates_dir() -> Path:
    """One folder for each target; see its README for what a template may do."""
    return _find("templates")


def runtime_dir() -> Path:
    """The C++ runtime that every emitted project carries a copy of."""
    return _find("runtime")


def emulator_dir() -> Path:
    """What runs kernels where their device is not; a folder for each device that has one."""
    return _find("emulator")


def examples_dir() -> Path:
    """One folder for each example, with its model.py: what known checkpoints of Hugging Face are compiled as."""
    return _find("examples")


def _find(name: str) -> Path:
    """The wheel holds them inside the package, as pyproject.toml says; a checkout beside it."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def lumigen_version() -> str:
    """A checkout's own version, whatever is installed besides; else that of the installed package."""
    project = _PACKAGE.parent / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        if table.get("name") == "lumigen":
            return str(table["version"])
    try:
        return importlib.metadata.version("lumigen")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"  # the package's folder alone, copied from somewhere
