"""Books that come with lumigen: read where nothing else is said, and only for the plans that were measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_tune import entries_of, others, regions_of

from lumigen.dtype import f32
from lumigen.frontend import Traced
from lumigen.lower.assemble import assemble
from lumigen.pipeline import lower_model
from lumigen.progress import Stages
from lumigen.region import Region
from lumigen.search import shipped
from lumigen.search.asked import asked_for
from lumigen.search.book import Book, Found, book_of, key_of, plan_key, text_of
from lumigen.search.choice import candidate_of
from lumigen.target import HOST, parse_target
from lumigen.targets.cpu.device import CPU

ENTRIES = entries_of()


def found_of(region: Region) -> Found:
    """A choice that is not the heuristic's."""
    choice = next(others(region))
    candidate = candidate_of(choice, region, CPU)
    assert candidate is not None
    return Found(choice, 1.0, 2.0, plan_key(candidate))


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    made = Book({key_of(r): found_of(r) for r in regions_of(ENTRIES)})
    (tmp_path / "cpu.json").write_text(text_of(made), encoding="utf-8")
    monkeypatch.setattr(shipped, "BOOKS", tmp_path)
    return made


def schedules_of(given: Book | None = None) -> list[object]:
    traced = Traced("m", "0", ENTRIES, ())
    said = {} if given is None else {"schedules": lambda *_: given}
    return [k.schedule for k in lower_model(traced, {}, **said).lowered.kernels]


def test_a_book_is_taken_where_nothing_else_is_said(book: Book, tmp_path: Path) -> None:
    plain = [k.schedule for k in assemble(ENTRIES, CPU).kernels]
    wanted = [s for f in book.found.values() for s in f.choice.schedules]
    assert all(s in wanted for s in schedules_of())
    assert schedules_of(Book({})) == plain
    at = asked_for(HOST, None, None).book(ENTRIES, HOST, f32, Stages())
    assert at.shipped == book
    assert at.is_empty, "a project does not keep it"
    own = Book({key: replace(f, plan="") for key, f in book.found.items()})
    (tmp_path / "own.json").write_text(text_of(own), encoding="utf-8")
    asked = asked_for(HOST, None, tmp_path / "own.json")
    assert asked.book(ENTRIES, HOST, f32, Stages()) == own, "a file comes first"
    assert shipped.shipped(parse_target("cuda:sm_80")).shipped == Book({})


def test_a_choice_that_stands_for_another_plan_now_is_not_taken(book: Book) -> None:
    stale = Book({key: replace(f, plan="another") for key, f in book.found.items()})
    assert schedules_of(Book({}, shipped=stale)) == [
        k.schedule for k in assemble(ENTRIES, CPU).kernels
    ]
    assert schedules_of(Book({}, shipped=book)) == schedules_of()


def test_each_book_that_is_shipped_says_which_plans_were_measured() -> None:
    for file in shipped.BOOKS.glob("*.json"):
        parse_target(file.stem.replace("-", ":"))
        found = book_of(file.read_text(encoding="utf-8"), str(file)).found
        assert found, file
        assert all(f.plan and f.seconds < f.before for f in found.values()), file
