"""The only reader of the environment: what a developer switches on without touching code.

Promises to read a variable when asked, never at import, so that a test or a notebook may change it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Variable:
    """A row of the table of variables, which is complete: no other changes what lumigen does."""

    name: str
    effect: str


VARIABLES = (
    Variable(
        "LUMIGEN_DEBUG",
        "1 passes, 2 kernels, 3 text after each pass, 4 sources, 5 every rule that fires",
    ),
    Variable("LUMIGEN_DUMP", "a directory: every stage as a numbered text file"),
    Variable("LUMIGEN_CACHE", "a directory: what was compiled before; ~/.cache/lumigen if unset"),
    Variable("LUMIGEN_CXX", "the C++ compiler to build with; CMake chooses if unset"),
)

MAX_LEVEL = 5


def level() -> int:
    """How much to tell, 0 (nothing) to 5. A text that is no number, such as `yes`, counts as 1."""
    text = os.environ.get("LUMIGEN_DEBUG", "").strip()
    if not text:
        return 0
    return min(int(text), MAX_LEVEL) if text.isdecimal() else 1


def dump_dir() -> Path | None:
    """Where to write every stage, or None. The caller creates it."""
    return _path("LUMIGEN_DUMP")


def cache_dir() -> Path:
    """Where it is remembered what was compiled. The caller creates it."""
    return _path("LUMIGEN_CACHE") or Path.home() / ".cache" / "lumigen"


def cxx() -> str | None:
    """The C++ compiler that the user insists on, or None."""
    return os.environ.get("LUMIGEN_CXX", "").strip() or None


def child_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment for a tool we start: ours with `changes` on top."""
    return {**os.environ, **changes}


def _path(name: str) -> Path | None:
    text = os.environ.get(name, "").strip()
    return Path(text).expanduser() if text else None
