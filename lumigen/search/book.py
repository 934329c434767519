"""book: a choice for each region, as a text that goes with a project, and as what the compiler picks from.

A region is known by its text over canonical buffers, with its dims: the same computation in another model, or in
another layer, is the same region. A choice that a later version of the space does not have is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lumigen.errors import BadArgument
from lumigen.index import Dim
from lumigen.lower.devices import Device
from lumigen.lower.plan_region import Candidate
from lumigen.printer.region import show
from lumigen.region import Region
from lumigen.schedule import Schedule
from lumigen.search.choice import Choice, candidate_of

FORMAT = 1
NO_CHOICE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # of what says none


@dataclass(frozen=True)
class Found:
    """A choice, and what one run of its region takes with it and with the heuristic's, in seconds."""

    choice: Choice
    seconds: float
    before: float


@dataclass(frozen=True)
class Book:
    """What regions run as, by `key_of`; others run as the heuristic says."""

    found: Mapping[str, Found]

    def pick(self, device: Device, canonical: Region, named: Region) -> Candidate | None:
        """The candidate that a region runs as; None where the book has none that is legal."""
        found = self.found.get(key_of(canonical))
        return None if found is None else candidate_of(found.choice, named, device)

    def matches(self, regions: Iterable[Region | None]) -> bool:
        """Whether it says anything of one of these canonical regions."""
        return any(r is not None and key_of(r) in self.found for r in regions)

    @property
    def digest(self) -> str:
        """Of all choices."""
        return hashlib.sha256(text_of(self).encode()).hexdigest()


NOTHING = Book({})


def key_of(region: Region) -> str:
    """What tells a canonical region from all others."""
    facts = [f"{d.name} {d.lo} {d.hi} {d.multiple_of} {d.estimate}" for d in _dims(region)]
    return hashlib.sha256("\n".join([show(region), *facts]).encode()).hexdigest()[:32]


def text_of(book: Book) -> str:
    """The book as JSON, one region a line, in order of their keys."""
    rows = [
        f"    {json.dumps(key)}: {json.dumps(object_of(book.found[key]))}"
        for key in sorted(book.found)
    ]
    body = ",\n".join(rows)
    return f'{{\n  "format": {FORMAT},\n  "regions": {{\n{body}\n  }}\n}}\n'


def book_of(text: str, where: str) -> Book:
    """The book that a text says; BadArgument, naming `where`, if it says none."""
    try:
        whole: Any = json.loads(text)
        regions = {FORMAT: whole["regions"]}[whole["format"]]
        return Book({str(key): found_of(o) for key, o in regions.items()})
    except NO_CHOICE as why:
        expected = "a file that a search has written, as schedules.json of a project"
        raise BadArgument(op="compile", name="schedules", value=where, expected=expected) from why


def object_of(found: Found) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "seconds": found.seconds,
        "before": found.before,
        **object_of_choice(found.choice),
    }


def object_of_choice(c: Choice) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "first": c.first,
        "plans": c.plans,
        "schedules": [_schedule_object(s) for s in c.schedules],
        **({"special": [_schedule_object(s) for s in c.special]} if c.special else {}),
    }


def _schedule_object(s: Schedule) -> dict[str, Any]:
    parts = {"parts": [_schedule_object(p) for p in s.parts]} if s.parts else {}
    return {"builder": s.builder, "tile": dict(s.tile), "place": dict(s.place), **parts}


def found_of(o: Any) -> Found:
    """What an object of JSON says; one of NO_CHOICE if it says nothing."""
    return Found(choice_of(o), float(o["seconds"]), float(o["before"]))


def choice_of(o: Any) -> Choice:
    """The same of a choice."""
    plans = tuple((int(kernel), int(number)) for kernel, number in o["plans"])
    schedules = tuple(_schedule(s) for s in o["schedules"])
    special = tuple(_schedule(s) for s in o.get("special", []))
    first = int(o["first"])
    if first < 0 or any(min(p) < 0 for p in plans):
        raise ValueError("a number below zero")
    return Choice(first, plans, schedules, special)


def _schedule(o: Any) -> Schedule:
    tile = tuple(sorted((str(k), int(v)) for k, v in o["tile"].items()))
    place = tuple(sorted((str(k), str(v)) for k, v in o["place"].items()))
    return Schedule(str(o["builder"]), tile, place, tuple(map(_schedule, o.get("parts", []))))


def _dims(region: Region) -> list[Dim]:
    """The dims of all that is read and stored, by name."""
    buffers = (*region.reads(), *(s.dst for s in region.stores))
    atoms = {a for b in buffers for extent in b.dims for a in extent.atoms()}
    return sorted((a for a in atoms if isinstance(a, Dim)), key=lambda d: d.name)
