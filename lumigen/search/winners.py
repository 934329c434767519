"""winners: what was found before on this machine, by region, in a database of the cache's directory.

Several processes may use it at once. One that cannot be read is set aside and begun anew.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from lumigen import debug
from lumigen.measuring import Measuring
from lumigen.resources import lumigen_version
from lumigen.search.book import Book, Found, found_of, object_of

TABLE = """
create table if not exists winner (
  machine text, region text, budget real, day text, found text, primary key (machine, region)
)"""
SENSELESS = (
    "SQLITE_NOTADB",
    "SQLITE_CORRUPT",
    "SQLITE_ERROR",
)  # the last one: it has other columns
SECONDS = 30.0  # that another process may keep the database to itself


@dataclass(frozen=True)
class Kept:
    """What winners are of: a machine, and in it a model for regions that take too little of that to be searched."""

    regions: frozenset[str]
    machine: str
    model: str

    @staticmethod
    def of(
        measuring: Measuring, threads: int, regions: Collection[str], *, cold: bool = False
    ) -> Kept:
        """For regions of one model."""
        machine = _machine(measuring, threads, cold=cold)
        return Kept(frozenset(regions), machine, _digest((machine, *sorted(regions))))


@dataclass(frozen=True)
class Remembered:
    """Winners, and whether all of them were measured today."""

    book: Book
    are_of_today: bool


def _machine(measuring: Measuring, threads: int, *, cold: bool) -> str:
    caches = "cold" if cold else "as they are"
    return _digest((*measuring.machine(threads), caches, lumigen_version()))


def _digest(facts: Collection[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def today() -> str:
    """As the database has it."""
    return date.today().isoformat()  # noqa: DTZ011  # the day of this machine


def known(place: Kept, budget: float) -> Remembered:
    """What was found in searches of at least so many seconds."""
    query = "select region, day, found from winner where machine in (?, ?) and budget >= ?"
    asked = (place.model, place.machine, budget)
    rows = [
        r for r in _asked(lambda db: db.execute(query, asked).fetchall()) if r[0] in place.regions
    ]
    book = Book({region: found_of(json.loads(text)) for region, _, text in rows})
    return Remembered(book, all(day == today() for _, day, _ in rows))


def everything(measuring: Measuring, threads: int) -> Book:
    """What all searches on this machine have found."""
    query, asked = (
        "select region, found from winner where machine = ?",
        (_machine(measuring, threads, cold=False),),
    )
    rows = _asked(lambda db: db.execute(query, asked).fetchall())
    return Book({region: found_of(json.loads(text)) for region, text in rows})


def keep(
    found: Mapping[str, Found], small: Mapping[str, Found], place: Kept, budget: float
) -> None:
    """Remember winners, and for this model alone the `small` ones; those of longer searches stay."""
    query = """
      insert into winner values (?, ?, ?, ?, ?) on conflict (machine, region) do update
      set budget = excluded.budget, day = excluded.day, found = excluded.found
      where excluded.budget >= winner.budget"""
    rows = [
        (where, key, budget, today(), json.dumps(object_of(f)))
        for where, some in ((place.machine, found), (place.model, small))
        for key, f in some.items()
    ]
    _asked(lambda db: db.executemany(query, rows).fetchall())


def database() -> Path:
    """Where it lies."""
    return debug.cache_dir() / "search.db"


def _asked(question: Callable[[sqlite3.Connection], list[Any]]) -> list[Any]:
    """The answer; none where the database cannot be had, as it is a cache. One that makes no sense is set aside."""
    place = database()
    for _ in range(2):
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(place, timeout=SECONDS)) as db, db:
                db.execute(TABLE)
                return question(db)
        except sqlite3.Error as why:
            if why.sqlite_errorname not in SENSELESS:
                return []
            place.replace(place.with_suffix(".unreadable"))
    return []
