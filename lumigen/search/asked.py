"""asked: what a user asks of the search: so many seconds of it, or the file of an earlier one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from time import monotonic

from lumigen.algebra.egraph import is_here
from lumigen.algebra.numerics import Numerics
from lumigen.dtype import DType
from lumigen.errors import BadArgument
from lumigen.files import read_regular
from lumigen.frontend import Traced
from lumigen.passes import Entries
from lumigen.progress import Stages
from lumigen.search import cluster
from lumigen.search.book import NOTHING, Book, book_of
from lumigen.search.crew import ONE, Crew
from lumigen.search.ending import ended
from lumigen.search.equal import LACKING, Equal, chosen, proposed
from lumigen.search.flipping import flipped
from lumigen.search.lanes import measuring_of, refusal
from lumigen.search.shipped import shipped
from lumigen.search.tune import News, Terms, tune
from lumigen.target_row import Target

FLIPPED = {  # what flips are, for people
    "inlined": "values that are computed where they are read",
    "apart": "regions that are not joined",
    "in_order": "values that keep the order of their dimensions",
}
SCHEDULES = "schedules.json"  # of a project
LEAST, MOST = 1.0, 7 * 86400.0  # seconds of a search
MOST_SEED = 1 << 20


@dataclass(frozen=True)
class Asked:
    """The file's choices, and for how long to search besides, with which random numbers; None: not at all.

    `numerics` is how far rules of the algebra may go; None: nothing was said. `spent` are seconds of the search that
    are gone, `algebra` is what was chosen in them.
    """

    given: Book
    seconds: float | None
    seed: int = 0
    cold: bool = False
    crew: Crew = ONE
    numerics: Numerics | None = None
    spent: float = 0.0
    algebra: str = ""

    @property
    def options(self) -> Mapping[str, str]:
        """What decides what is emitted."""
        out = {} if self.given.is_empty else {"schedules": self.given.digest}
        out |= {} if self.numerics is None else {"numerics": self.numerics.value}
        if self.seconds is None:
            return out
        told = {"seed": str(self.seed)} if self.seed else {}
        told |= {"cold": "yes"} if self.cold else {}
        return {**out, "tune": f"{self.seconds:g}", **told}

    def program(
        self, traced: Traced, target: Target, dtype: DType, at: Stages
    ) -> tuple[Equal, Asked]:
        """The model, or one that is equal to it and faster; what is left to be asked for."""
        given, measuring = Equal(traced), measuring_of(target)
        numerics = self.numerics or Numerics.DEFAULT
        searches = self.seconds is not None and measuring is not None
        if not (searches or self.given.algebra or numerics is Numerics.FAST):
            return given, self
        if not is_here():
            at.say(LACKING)
            return given, self
        begun = monotonic()
        with at.stage("algebra"):
            if self.seconds is not None and measuring is not None:
                terms = Terms(self.seconds, os.cpu_count() or 1, self.seed, self.cold)
                equal = chosen(given, target, measuring, dtype, numerics, terms)
            else:
                kept = Numerics(self.given.algebra) if self.given.algebra else numerics
                equal = next(iter(proposed(traced, target, dtype, [kept])), given)
        if equal.rules:
            at.say(f"the algebra changed: {', '.join(starmap(_fired, equal.rules.items()))}")
        spent = monotonic() - begun
        return equal, replace(self, spent=spent, algebra=equal.algebra)

    def book(self, entries: Entries, target: Target, dtype: DType, at: Stages) -> Book:
        """The file's choices, or those that a search finds."""
        seconds, measuring = self.seconds, measuring_of(target)
        if seconds is None or measuring is None:
            has_own = self.given.found or self.given.flipped
            given = self.given if has_own else shipped(target)
            return replace(given, algebra=self.algebra)

        def tell(news: News) -> None:
            at.step("tune", int(news.seconds), int(seconds), as_text(news))

        with at.stage("tune"):
            terms = Terms(seconds, os.cpu_count() or 1, self.seed, self.cold, self.crew)
            begun = monotonic()
            flips = flipped(entries, target, measuring, dtype, terms)
            terms = replace(terms, spent=self.spent + monotonic() - begun)
            given = Book({}, flipped=flips).flips
            found = tune(entries, target, measuring, dtype, terms, tell, given)
        for note in ended(found):
            at.say(note)
        for kind, keys in flips.items():
            at.say(f"{FLIPPED[kind]}, by the search: {len(keys)}")
        return replace(found.book, story=found.story, algebra=self.algebra, flipped=flips)


def _fired(rule: str, blocks: int) -> str:
    return f"{rule} in {blocks} {'block' if blocks == 1 else 'blocks'}"


def as_text(news: News) -> str:
    """One line: of all regions, then of the one that takes longest."""
    reached, tried = sum(r.tried > 0 for r in news.regions), sum(r.tried for r in news.regions)
    known = [r.least for r in news.regions if r.least is not None]
    least = sum(known) if len(known) == len(news.regions) else None
    said = f"{reached} of {len(news.regions)} regions, {tried} candidates, "
    said += _times(news.before, news.best, least)
    for r in sorted(news.regions, key=lambda r: -r.best)[:1]:
        said += f"; longest {r.name}, {r.tried} candidates, {_times(r.before, r.best, r.least)}"
    return said


def _times(before: float, best: float, least: float | None) -> str:
    limit = "" if least is None else f", limit {least * 1e6:.4g} us"
    return f"{before * 1e6:.4g} us, now {best * 1e6:.4g} us{limit}"


def asked_for(
    target: Target,
    seconds: float | None,
    file: str | Path | None,
    seed: int | None = None,
    *,
    cold: bool = False,
    crew: Crew | None = None,
    numerics: str | None = None,
    op: str = "compile",
) -> Asked:
    """What was asked of `op`, or BadArgument."""
    time = "time" if op == "tune" else "tune"  # as the command calls it

    def refused(name: str, value: str, expected: str) -> BadArgument:
        return BadArgument(op=op, name=name, value=value, expected=expected)

    if seconds is not None and file is not None:
        raise refused("tune", "given with schedules", "one of the two: a search, or what one found")
    if seed is not None and seconds is None:
        raise refused("seed", f"{seed} without tune", "it with a search, which it is for")
    for name, is_given in (("cold", cold), ("workers", crew is not None)):
        if is_given and seconds is None:
            raise refused(name, "given without tune", "it with a search, which it is for")
    crew = crew or ONE
    if seed is not None and not 0 <= seed <= MOST_SEED:
        raise refused("seed", str(seed), f"a number, 0 to {MOST_SEED}")
    if seconds is not None:
        if not LEAST <= seconds <= MOST:
            raise refused(time, f"{seconds:g}", f"seconds, {LEAST:g} to {MOST:g}")
        if lacking := refusal(target):
            raise refused(f"{time} for {target.text}", "measured here", lacking)
    measuring = measuring_of(target)
    if measuring is not None and crew.count > 1 and crew.count > measuring.workers():
        most = f"no more than measure here: {measuring.workers()}"
        raise refused("workers", str(crew.count), most)
    if crew.address and not cluster.is_here():
        lacking = "it with Ray: pip install 'lumigen[ray]'"
        raise refused("workers", crew.address, lacking)
    named = [n.value for n in Numerics]
    if numerics is not None and numerics not in named:
        raise refused("numerics", numerics, f"one of {', '.join(named)}")
    given = NOTHING if file is None else _read(Path(file))
    allowed = None if numerics is None else Numerics(numerics)
    return Asked(given, seconds, seed or 0, cold, crew, allowed)


def _read(path: Path) -> Book:
    found = read_regular(path)
    if found is None:
        expected = f"a file that a search has written, as {SCHEDULES} of a project"
        value = f"{path}, which is no file"
        raise BadArgument(op="compile", name="schedules", value=value, expected=expected)
    return book_of(found.decode("utf-8", "replace"), str(path))
