"""What a developer sees of every stage: lines on stderr and numbered files, as `debug` switches on.

Promises to do nothing, and to ask for no text, where nothing is switched on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from lumigen import debug


class Trail:
    """The stages of one compilation, in order."""

    def __init__(self) -> None:
        self._level = debug.level()
        self._folder = debug.dump_dir()
        self._number = 0
        self._last: dict[str, str] = {}

    @property
    def is_on(self) -> bool:
        """Whether anybody asked to see the stages."""
        return bool(self._level) or self._folder is not None

    def record(
        self,
        name: str,
        text: Callable[[], str],
        seconds: float,
        *,
        form: str = "graph",
        level: int = 3,
    ) -> None:
        """A stage that has ended; its text is printed from `level` on, if it differs."""
        if not self.is_on:
            return
        shown = text()
        before = self._last.get(form)
        self._last[form] = shown
        self.keep(name, lambda: shown)
        if self._level:
            count, was = _count(shown), "" if before is None else f"{_count(before)} -> "
            note = " (unchanged)" if shown == before else ""
            tell(f"{name:<14}{seconds * 1e3:9.1f} ms  {was}{count} lines{note}")
            if self._level >= level and shown != before:
                tell(shown.rstrip("\n"))

    def keep(self, name: str, text: Callable[[], str]) -> None:
        """A form that no pass of its own has made: the next file, and no line."""
        if self._folder is not None:
            _write(self._folder / f"{self._number:02d}-{name}.txt", text())
            self._number += 1

    def shows(self, level: int) -> bool:
        return self._level >= level

    def note(self, level: int, text: Callable[[], str]) -> None:
        """Something to say at a level that is not the text of a stage."""
        if self.shows(level):
            tell(text())


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _count(text: str) -> int:
    return len(text.splitlines())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
