"""asked: what a user asks of the search: so many seconds of it, or the file of an earlier one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lumigen.dtype import DType
from lumigen.errors import BadArgument
from lumigen.files import read_regular
from lumigen.lower.devices import Device
from lumigen.passes import Entries
from lumigen.progress import Stages
from lumigen.search.book import NOTHING, Book, book_of
from lumigen.search.tune import News, tune
from lumigen.target import HOST
from lumigen.target_row import Target

SCHEDULES = "schedules.json"  # of a project
LEAST, MOST = 1.0, 7 * 86400.0  # seconds of a search


@dataclass(frozen=True)
class Asked:
    """The file's choices, and for how long to search besides; None: not at all."""

    given: Book
    seconds: float | None

    @property
    def options(self) -> Mapping[str, str]:
        """What decides what is emitted."""
        out = {"schedules": self.given.digest} if self.given.found else {}
        return out if self.seconds is None else {**out, "tune": f"{self.seconds:g}"}

    def book(self, entries: Entries, device: Device, dtype: DType, at: Stages) -> Book:
        """The file's choices, or those that a search finds."""
        seconds = self.seconds
        if seconds is None:
            return self.given

        def tell(news: News) -> None:
            what = f"{news.trials} trials, {news.before * 1e3:.3g} ms, now {news.best * 1e3:.3g} ms"
            at.step("tune", int(news.seconds), int(seconds), what)

        with at.stage("tune"):
            return tune(entries, device, dtype, seconds, os.cpu_count() or 1, tell)


def asked_for(target: Target, seconds: float | None, file: str | Path | None) -> Asked:
    """What was asked, or BadArgument."""
    if seconds is not None and file is not None:
        expected = "one of the two: a search, or what one found"
        raise BadArgument(
            op="compile", name="tune", value="given with schedules", expected=expected
        )
    if seconds is not None and not LEAST <= seconds <= MOST:
        expected = f"seconds, {LEAST:g} to {MOST:g}"
        raise BadArgument(op="compile", name="tune", value=f"{seconds:g}", expected=expected)
    if seconds is not None and target.has_device:
        expected = f"{HOST.name}: kernels of other targets are not measured yet"
        raise BadArgument(
            op="compile", name="target with tune", value=target.text, expected=expected
        )
    return Asked(NOTHING if file is None else _read(Path(file)), seconds)


def _read(path: Path) -> Book:
    found = read_regular(path)
    if found is None:
        expected = f"a file that a search has written, as {SCHEDULES} of a project"
        raise BadArgument(op="compile", name="schedules", value=str(path), expected=expected)
    return book_of(found.decode("utf-8", "replace"), str(path))
