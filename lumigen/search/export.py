"""export: what searches have found on this machine, as a book that `--schedules` reads."""

from __future__ import annotations

import os

from lumigen.errors import BadArgument
from lumigen.search import winners
from lumigen.search.book import Book
from lumigen.search.lanes import measuring_of, refusal
from lumigen.search.tune import faster
from lumigen.target import parse_target


def exported(target: str) -> Book:
    """All that is faster than the heuristic's choices here; BadArgument where nothing was found."""
    row = parse_target(target)
    measuring, lacking = measuring_of(row), refusal(row)
    if measuring is None or lacking:
        name = f"export for {row.text}"
        raise BadArgument(op="tune", name=name, value="made here", expected=lacking)
    book = faster(winners.everything(measuring, os.cpu_count() or 1))
    if book.is_empty:
        value = "written, as no search on this machine has found a faster kernel"
        expected = "it after one that has: lumigen compile MODEL.py --tune 2m"
        raise BadArgument(op="tune", name="export", value=value, expected=expected)
    return book
