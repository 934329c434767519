"""database: what searches on this machine keep, in the cache's directory.

Several processes may use it at once. One that cannot be read is set aside and begun anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lumigen import debug

TABLES = (
    """
create table if not exists winner (
  machine text, region text, budget real, day text, found text, primary key (machine, region)
)""",
    """
create table if not exists measured (
  machine text, region text, choice text, day text, seconds text, features text,
  primary key (machine, region, choice)
)""",
)
SENSELESS = (
    "SQLITE_NOTADB",
    "SQLITE_CORRUPT",
    "SQLITE_ERROR",
)  # the last one: it has other columns
SECONDS = 30.0  # that another process may keep the database to itself


def _nothing(_: str) -> None:
    pass


def database() -> Path:
    """Where it lies."""
    return debug.cache_dir() / "search.db"


def asked(
    question: Callable[[sqlite3.Connection], list[Any]], say: Callable[[str], None] = _nothing
) -> list[Any]:
    """The answer; none where the database cannot be had, as it is a cache. One that makes no sense is set aside."""
    place = database()
    for _ in range(2):
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(place, timeout=SECONDS)) as db, db:
                for table in TABLES:
                    db.execute(table)
                return question(db)
        except sqlite3.Error as why:
            # what has no name was said by Python, of text that is no text
            if getattr(why, "sqlite_errorname", SENSELESS[0]) not in SENSELESS:
                return []
            aside = place.with_suffix(".unreadable")
            with suppress(OSError):  # another process has done so
                place.replace(aside)
                say(f"what searches had found was unreadable, and lies in {aside} now")
    return []
