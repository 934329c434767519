"""shipped: what searches on other machines have found of the examples, which comes with lumigen.

`books/` has a file for each target that was searched, named after it: `cuda-sm_90a.json`. A choice that does not stand
for the same plan any more is not taken. What was measured on this machine, or is in a file of schedules, comes first.
"""

from __future__ import annotations

from pathlib import Path

from lumigen.memo import remembered
from lumigen.search.book import NOTHING, Book, book_of
from lumigen.target_row import Target

BOOKS = Path(__file__).parent / "books"


def shipped(target: Target) -> Book:
    """A book in which nothing but shipped choices are; none of a target that was not searched."""
    return Book({}, shipped=_read(BOOKS / f"{target.text.replace(':', '-')}.json"))


@remembered
def _read(file: Path) -> Book:
    return book_of(file.read_text(encoding="utf-8"), str(file)) if file.is_file() else NOTHING
