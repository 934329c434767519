"""measured: every candidate that was measured on this machine, kept in the database while a search runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from sqlite3 import Connection
from typing import Any

from lumigen.search.book import NO_CHOICE, choice_of, object_of_choice
from lumigen.search.choice import Choice
from lumigen.search.database import asked
from lumigen.search.features import ROOFLINE, Features
from lumigen.search.rank import Measured
from lumigen.search.winners import today

MOST = 100_000  # measurements that are kept: those before are forgotten
LATEST = 4000  # measurements of a machine that others are ranked by


@dataclass(frozen=True)
class MeasuredRow:
    """A candidate of a region: its seconds at each of the dims where it was measured; none if it was lost."""

    region: str  # its key
    choice: Choice
    features: Features
    seconds: tuple[float, ...]


def keep(machine: str, rows: Sequence[MeasuredRow]) -> None:
    """Remember these; what was measured of the same candidates before is forgotten."""
    insert = "insert or replace into measured values (?, ?, ?, ?, ?, ?)"
    values = [
        (
            machine,
            row.region,
            json.dumps(object_of_choice(row.choice)),
            today(),
            json.dumps(row.seconds),
            json.dumps(row.features),
        )
        for row in rows
    ]
    forget = "delete from measured where rowid <= (select max(rowid) from measured) - ?"

    def write(db: Connection) -> list[Any]:
        db.executemany(insert, values)
        return db.execute(forget, (MOST,)).fetchall()

    asked(write)


def known(machine: str) -> list[Measured]:
    """The latest that have a time, as others are ranked by them."""
    query = "select region, seconds, features from measured where machine = ? order by rowid desc limit ?"
    found: list[Measured] = []
    for region, seconds, features in asked(
        lambda db: db.execute(query, (machine, LATEST)).fetchall()
    ):
        try:
            first = [float(t) for t in json.loads(seconds)][:1]
            told = {str(name): float(value) for name, value in json.loads(features).items()}
        except NO_CHOICE:
            continue  # it says nothing
        numbers = (*first, *told.values())
        if first and first[0] > 0 and ROOFLINE in told and all(map(isfinite, numbers)):
            found.append(Measured(region, told, first[0]))
    return found[::-1]


def of_region(machine: str, region: str) -> Mapping[Choice, tuple[float, ...]]:
    """All candidates of a region that were measured, with their seconds."""
    query = "select choice, seconds from measured where machine = ? and region = ? order by rowid"
    found: dict[Choice, tuple[float, ...]] = {}
    for choice, seconds in asked(lambda db: db.execute(query, (machine, region)).fetchall()):
        try:
            found[choice_of(json.loads(choice))] = tuple(float(t) for t in json.loads(seconds))
        except NO_CHOICE:
            continue  # it says nothing
    return found
