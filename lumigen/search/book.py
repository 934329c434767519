"""book: a choice for each region, as a text that goes with a project, and as what the compiler picks from.

A region is known by its text over canonical buffers, with its dims: the same computation in another model, or in
another layer, is the same region. A choice that a later version of the space does not have is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import inf
from typing import Any

from lumigen.algebra.numerics import Numerics
from lumigen.errors import BadArgument
from lumigen.lower.devices import Device
from lumigen.lower.flips import Flips
from lumigen.lower.plan_region import Candidate
from lumigen.printer.plan import show as show_plan
from lumigen.printer.region import show
from lumigen.region import Region
from lumigen.resources import lumigen_version
from lumigen.schedule import Schedule
from lumigen.search.choice import Choice, candidate_of, dims_of
from lumigen.search.story import Story

FORMAT = 1
Flip = tuple[str, str]  # a field of Flips, and the key of the region that it is of
KINDS = tuple(f.name for f in fields(Flips))  # of flips, as a file calls them
NO_CHOICE = (  # of what says none
    ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError,
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A choice, and what one run of its region takes with it and with the heuristic's, in seconds."""

    choice: Choice
    seconds: float
    before: float
    plan: str = ""  # `plan_key` of what it stood for; empty where nobody has said

    @property
    def gain(self) -> float:
        """How many times as fast as the heuristic's."""
        return self.before / self.seconds


@dataclass(frozen=True)
class Book:
    """What regions run as, by `key_of`; others run as the heuristic says. `story` is of the search that found it.

    What is `shipped` came with lumigen: it is asked after the book's own, and is no part of its text.

    `algebra` says by which numerics the model was rewritten before; empty: it was not. `flipped` are the keys of
    canonical regions of which a decision is not the heuristic's, by the fields of Flips.
    """

    found: Mapping[str, Found]
    story: Story | None = field(default=None, compare=False, repr=False)
    shipped: Book | None = None
    algebra: str = ""
    flipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def flips(self) -> Flips:
        """The decisions about whole graphs that are not the heuristic's."""
        both = by_kind(self.every_flip())
        return Flips(**{kind: partial(_has, frozenset(keys)) for kind, keys in both.items()})

    def every_flip(self) -> list[Flip]:
        """With those that came with lumigen."""
        own = [(kind, key) for kind, keys in self.flipped.items() for key in keys]
        return own if self.shipped is None else [*own, *self.shipped.every_flip()]

    @property
    def without_flips(self) -> Book:
        """The choices of regions alone."""
        shipped = None if self.shipped is None else self.shipped.without_flips
        return replace(self, flipped={}, shipped=shipped)

    def choice(self, device: Device, canonical: Region) -> Choice | None:
        """What a region runs as; None where nothing is said, or it stands for another plan by now."""
        found = self.found.get(key_of(canonical))
        if found is None:
            return None if self.shipped is None else self.shipped.choice(device, canonical)
        return found.choice if _is_still(found, canonical, device) else None

    def pick(self, device: Device, canonical: Region, named: Region) -> Candidate | None:
        """The candidate that a region runs as; None where the book has none that is legal."""
        choice = self.choice(device, canonical)
        return None if choice is None else candidate_of(choice, named, device)

    def matches(self, regions: Iterable[Region | None]) -> bool:
        """Whether it says anything of one of these canonical regions."""
        return any(r is not None and key_of(r) in self.found for r in regions)

    @property
    def is_empty(self) -> bool:
        """Whether a model compiles as without it."""
        return not self.found and not self.algebra and not self.flipped

    @property
    def digest(self) -> str:
        """Of all that it says."""
        return hashlib.sha256(text_of(self).encode()).hexdigest()


NOTHING = Book({})


def by_kind(flips: Iterable[Flip]) -> Mapping[str, tuple[str, ...]]:
    """The keys of regions, as a book has them."""
    out: dict[str, tuple[str, ...]] = {}
    for kind, key in flips:
        out[kind] = (*out.get(kind, ()), key)
    return out


def _has(keys: frozenset[str], canonical: Region) -> bool:
    return key_of(canonical) in keys


def plan_key(found: Candidate) -> str:
    """What tells the plan of a candidate from all others: a number in a space may be another plan's later."""
    each = (found, *(other for _, other in found.bounded))
    texts = [show_plan(kernel) for one in each for kernel in one.plan.kernels]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _is_still(found: Found, canonical: Region, device: Device) -> bool:
    """Whether a choice stands for the plan that it stood for when it was measured."""
    if not found.plan:
        return True
    candidate = candidate_of(found.choice, canonical, device)
    return candidate is not None and plan_key(candidate) == found.plan


def key_of(region: Region) -> str:
    """What tells a canonical region from all others."""
    facts = [f"{d.name} {d.lo} {d.hi} {d.multiple_of} {d.estimate}" for d in dims_of(region)]
    return hashlib.sha256("\n".join([show(region), *facts]).encode()).hexdigest()[:32]


def text_of(book: Book) -> str:
    """The book as JSON, one region a line, in order of their keys."""
    rows = [
        f"    {json.dumps(key)}: {json.dumps(object_of(book.found[key]))}"
        for key in sorted(book.found)
    ]
    body = ",\n".join(rows)
    algebra = f'  "algebra": {json.dumps(book.algebra)},\n' if book.algebra else ""
    flipped = "".join(
        f'  "{k}": {json.dumps(book.flipped[k])},\n' for k in KINDS if book.flipped.get(k)
    )
    return f'{{\n  "format": {FORMAT},\n{algebra}{flipped}  "regions": {{\n{body}\n  }}\n}}\n'


def book_of(text: str, where: str) -> Book:
    """The book that a text says; BadArgument, naming `where`, if it says none."""
    try:
        whole: Any = json.loads(text)
        _check_format(whole["format"], where)
        found = {str(key): _found_in(o, key, where) for key, o in whole["regions"].items()}
        _check_times(found, where)
        algebra = str(whole.get("algebra", ""))
        flipped = {k: tuple(map(str, whole[k])) for k in KINDS if whole.get(k)}
        return Book(found, algebra=algebra and Numerics(algebra).value, flipped=flipped)
    except NO_CHOICE as why:
        expected = "a file that a search has written, as schedules.json of a project"
        raise BadArgument(op="compile", name="schedules", value=where, expected=expected) from why


def _found_in(o: Any, key: object, where: str) -> Found:
    """What a file says of a region; BadArgument, naming both, if that is nothing."""
    try:
        return found_of(o)
    except NO_CHOICE as why:
        what = f"it has no {why}" if isinstance(why, KeyError) else str(why)
        value = f"{where}, in which region {key} says nothing: {what}"
        expected = "a file that a search has written, or delete that region from it"
        raise BadArgument(op="compile", name="schedules", value=value, expected=expected) from why


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _check_format(number: object, where: str) -> None:
    """BadArgument of a file that another version of lumigen has written."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(number)
    if number != FORMAT:
        value = f"{where}, whose format is {number}"
        reads = f"one of format {FORMAT}, which lumigen {lumigen_version()} reads"
        expected = f"{reads}: search again with it, or compile with the lumigen that wrote the file"
        raise BadArgument(op="compile", name="schedules", value=value, expected=expected)


def _check_times(found: Mapping[str, Found], where: str) -> None:
    """BadArgument where a run takes no time, less than none, or no number of seconds."""
    for key, f in found.items():
        for name, seconds in (("seconds", f.seconds), ("before", f.before)):
            if not 0 < seconds < inf:
                value = f"{where}, in which {name} of region {key} is {seconds:g}"
                expected = "a file in which each run takes more than 0 seconds, or delete that region from it"
                raise BadArgument(op="compile", name="schedules", value=value, expected=expected)


def object_of(found: Found) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "seconds": found.seconds,
        "before": found.before,
        **({"plan": found.plan} if found.plan else {}),
        **object_of_choice(found.choice),
    }


def object_of_choice(c: Choice) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "first": c.first,
        "plans": c.plans,
        "schedules": [_schedule_object(s) for s in c.schedules],
        **({"special": [_schedule_object(s) for s in c.special]} if c.special else {}),
        **({"bounded": [_bounded_object(*b) for b in c.bounded]} if c.bounded else {}),
    }


def _bounded_object(most: Iterable[tuple[str, int]], choice: Choice) -> dict[str, Any]:
    return {"most": dict(most), **object_of_choice(choice)}


def _schedule_object(s: Schedule) -> dict[str, Any]:
    parts = {"parts": [_schedule_object(p) for p in s.parts]} if s.parts else {}
    return {"builder": s.builder, "tile": dict(s.tile), "place": dict(s.place), **parts}


def found_of(o: Any) -> Found:
    """What an object of JSON says; one of NO_CHOICE if it says nothing."""
    plan = str(o.get("plan", ""))
    return Found(choice_of(o), float(o["seconds"]), float(o["before"]), plan)


def choice_of(o: Any) -> Choice:
    """The same of a choice."""
    plans = tuple((_whole(kernel), _whole(number)) for kernel, number in o["plans"])
    schedules = tuple(_schedule(s) for s in o["schedules"])
    special = tuple(_schedule(s) for s in o.get("special", []))
    first = _whole(o["first"])
    if first < 0 or any(min(p) < 0 for p in plans):
        raise ValueError("a number below zero")
    bounded = tuple(
        (tuple((str(n), _whole(most)) for n, most in b["most"].items()), choice_of(b))
        for b in o.get("bounded", [])
    )
    return Choice(first, plans, schedules, special, bounded)


def _schedule(o: Any) -> Schedule:
    tile = tuple(sorted((str(k), _whole(v)) for k, v in o["tile"].items()))
    place = tuple(sorted((str(k), str(v)) for k, v in o["place"].items()))
    return Schedule(str(o["builder"]), tile, place, tuple(map(_schedule, o.get("parts", []))))
