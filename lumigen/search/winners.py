"""winners: what was found before on this machine, by region, in a database of the cache's directory.

Several processes may use it at once. One that cannot be read is set aside and begun anew.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from lumigen import debug
from lumigen.fast_lane import FLAGS
from lumigen.resources import lumigen_version
from lumigen.search.book import Book, Found, found_of, object_of
from lumigen.toolchain import cxx, output, processor

TABLE = """
create table if not exists winner (
  machine text, region text, budget real, found text, primary key (machine, region)
)"""
SECONDS = 30.0  # that another process may keep the database to itself


def machine(threads: int) -> str:
    """What a measurement is of: the processor, the compiler with its flags, the threads, and lumigen's version."""
    compiler = cxx() or ""
    tool = output([compiler, "--version"])
    facts = (processor(), platform.system(), tool, *FLAGS, str(threads), lumigen_version())
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def known(regions: list[str], where: str, budget: float) -> Book:
    """The winners of these regions on a machine, found in searches of at least so many seconds."""
    if not database().exists():
        return Book({})
    query = "select region, found from winner where machine = ? and budget >= ?"
    with _opened() as opened:
        rows: list[tuple[str, str]] = opened.execute(query, (where, budget)).fetchall()
    wanted = set(regions)
    return Book({region: found_of(json.loads(text)) for region, text in rows if region in wanted})


def keep(found: Mapping[str, Found], where: str, budget: float) -> None:
    """Remember winners; those of longer searches stay."""
    query = """
      insert into winner values (?, ?, ?, ?) on conflict (machine, region) do update
      set budget = excluded.budget, found = excluded.found where excluded.budget >= winner.budget"""
    rows = [(where, key, budget, json.dumps(object_of(f))) for key, f in found.items()]
    with _opened() as opened, opened:
        opened.executemany(query, rows)


def database() -> Path:
    """Where it lies."""
    return debug.cache_dir() / "search.db"


@contextmanager
def _opened() -> Generator[sqlite3.Connection]:
    place = database()
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        opened = _connected(place)
    except sqlite3.DatabaseError:
        place.replace(place.with_suffix(".unreadable"))
        opened = _connected(place)
    with closing(opened):
        yield opened


def _connected(place: Path) -> sqlite3.Connection:
    opened = sqlite3.connect(place, timeout=SECONDS)
    try:
        opened.execute("pragma journal_mode = wal")
        opened.execute(TABLE)
        opened.execute("select machine, region, budget, found from winner limit 1")
    except sqlite3.DatabaseError:
        opened.close()
        raise
    return opened
