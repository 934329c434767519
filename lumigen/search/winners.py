"""winners: what was found before on this machine, by region, in a database of the cache's directory.

Several processes may use it at once. One that cannot be read is set aside and begun anew.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lumigen import debug
from lumigen.fast_lane import FLAGS
from lumigen.resources import lumigen_version
from lumigen.search.book import Book, Found, found_of, object_of
from lumigen.toolchain import cxx, output, processor

TABLE = """
create table if not exists winner (
  machine text, region text, budget real, found text, primary key (machine, region)
)"""
SENSELESS = (
    "SQLITE_NOTADB",
    "SQLITE_CORRUPT",
    "SQLITE_ERROR",
)  # the last one: it has other columns
SECONDS = 30.0  # that another process may keep the database to itself


def machine(threads: int) -> str:
    """What a measurement is of: the processor, the compiler with its flags, the threads, and lumigen's version."""
    compiler = cxx() or ""
    tool = output([compiler, "--version"])
    facts = (processor(), platform.system(), tool, *FLAGS, str(threads), lumigen_version())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def known(regions: list[str], where: str, budget: float) -> Book:
    """The winners of these regions on a machine, found in searches of at least so many seconds."""
    query = "select region, found from winner where machine = ? and budget >= ?"
    wanted = set(regions)
    rows = _asked(lambda db: db.execute(query, (where, budget)).fetchall())
    return Book({region: found_of(json.loads(text)) for region, text in rows if region in wanted})


def keep(found: Mapping[str, Found], where: str, budget: float) -> None:
    """Remember winners; those of longer searches stay."""
    query = """
      insert into winner values (?, ?, ?, ?) on conflict (machine, region) do update
      set budget = excluded.budget, found = excluded.found where excluded.budget >= winner.budget"""
    rows = [(where, key, budget, json.dumps(object_of(f))) for key, f in found.items()]
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
