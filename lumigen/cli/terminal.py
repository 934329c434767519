"""What reaches the terminal: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from rich.console import Console
from rich.text import Text

from lumigen.errors import printable, printable_lines
from lumigen.progress import Listener, Progress

EVERY = 10.0  # seconds


def result(text: str) -> None:
    """A result, for people."""
    sys.stdout.write(f"{printable_lines(text)}\n")


def result_json(value: Any) -> None:
    """A result, for programs."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    sys.stdout.write(
        re.sub(r"[\x7f-\x9f\ud800-\udfff]", lambda c: f"\\u{ord(c[0]):04x}", text) + "\n"
    )


def say(text: str, style: str = "") -> None:
    """A note, an error: never a result."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text(printable_lines(text), style=style))


@contextmanager
def progress(*, quiet: bool = False) -> Generator[Listener]:
    """A listener that shows where it is: live on a terminal, else a line for each stage and now and then a step.

    How long a stage took is a result, and the summary's.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if quiet:
        yield lambda _: None
        return
    if not console.is_terminal:
        yield LineProgress()
        return
    with console.status("") as status:

        def live(p: Progress) -> None:
            count = f" {p.done}/{p.total}" if p.total else ""
            status.update(Text(f"{p.stage}{count} {p.what}"[: console.width - 4]))

        yield live


@dataclass
class LineProgress:
    """Progress where lines stay: of a stage its beginning, of its steps one in `EVERY` seconds."""

    said: float = 0.0  # when the last line was

    def __call__(self, p: Progress) -> None:
        now = monotonic()
        if p.has_begun or now - self.said >= EVERY:
            say(p.stage if p.has_begun else f"{p.stage} {p.done}/{p.total} {p.what}")
            self.said = now


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Rows with their columns aligned, the first row being the head; `right` ones to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))
