"""winners: what was found before on this machine, by region, and is kept in the database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from lumigen.measuring import Measuring
from lumigen.resources import lumigen_version
from lumigen.search.book import (
    KINDS,
    NO_CHOICE,
    Book,
    Flip,
    Found,
    by_kind,
    found_of,
    object_of,
)
from lumigen.search.database import asked


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
        machine = machine_of(measuring, threads, cold=cold)
        return Kept(frozenset(regions), machine, _digest((machine, *sorted(regions))))


@dataclass(frozen=True)
class Remembered:
    """Winners, and whether all of them were measured today."""

    book: Book
    are_of_today: bool


def machine_of(measuring: Measuring, threads: int, *, cold: bool) -> str:
    """What tells a machine, with how it is measured, from all others."""
    caches = "cold" if cold else "as they are"
    return _digest((*measuring.machine(threads), caches, lumigen_version()))


def _digest(facts: Collection[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _nothing(_: str) -> None:
    pass


def today() -> str:
    """As the database has it."""
    return date.today().isoformat()  # noqa: DTZ011  # the day of this machine


def known(place: Kept, budget: float, say: Callable[[str], None] = _nothing) -> Remembered:
    """What was found in searches of at least so many seconds."""
    query = "select region, day, found from winner where machine in (?, ?) and budget >= ?"
    values = (place.model, place.machine, budget)
    rows = [
        r
        for r in asked(lambda db: db.execute(query, values).fetchall(), say)
        if r[0] in place.regions
    ]
    book = _read(((region, text) for region, _, text in rows), say)
    return Remembered(book, all(day == today() for _, day, _ in rows))


def everything(measuring: Measuring, threads: int) -> Book:
    """What all searches on this machine have found, with the decisions about graphs that stayed."""
    query = "select region, found from winner where machine = ?"
    values = (machine_of(measuring, threads, cold=False),)
    found = _read(asked(lambda db: db.execute(query, values).fetchall())).found
    flips = {key: _flip_of(key) for key in found}
    taken = [f for key, f in flips.items() if f is not None and found[key].choice.first]
    return Book(
        {k: f for k, f in found.items() if flips[k] is None}, flipped=by_kind(sorted(taken))
    )


def _flip_of(key: str) -> Flip | None:
    """What a row is of that `flipping` has kept; None of a region's."""
    kind, _, region = key.partition(" ")
    return (kind, region) if kind in KINDS else None


def _read(rows: Iterable[tuple[str, str]], say: Callable[[str], None] = _nothing) -> Book:
    """The rows that say something: others are left out."""
    found: dict[str, Found] = {}
    for region, text in rows:
        try:
            found[region] = found_of(json.loads(text))
        except NO_CHOICE:
            say(f"what was remembered of region {region} says nothing, and is searched anew")
    return Book(found)


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
    asked(lambda db: db.executemany(query, rows).fetchall())
