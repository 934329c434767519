"""A number of tiles or tasks that stands in several launches has a name and stands once."""

from __future__ import annotations

from lumigen.emit.numbers import shared_numbers, wholes
from lumigen.index import Dim, ceildiv, floordiv, ix
from lumigen.program import THREADS, InputArg, Launch, ValueArg

N = Dim("n", 1, 1000)
ROWS = Dim("row_tiles", 1, 2**40)
COLUMNS = Dim("column_tiles", 1, 2**40)


def product(rows: int) -> Launch:
    """A launch whose columns follow from its rows."""
    tiles = (
        ValueArg(ceildiv(ix(N), rows), ROWS),
        ValueArg(floordiv(ix(THREADS) - 1, ix(ROWS)) + 1, COLUMNS),
    )
    return Launch("product", (InputArg("x"), *tiles), ix(ROWS) * COLUMNS)


def test_numbers_follow_from_those_before() -> None:
    rows, columns = shared_numbers([product(32), product(32)], frozenset())
    assert (rows.name.name, columns.name.name) == ("row_tiles", "column_tiles")
    assert rows.value == ceildiv(ix(N), 32)
    assert columns.value == floordiv(ix(THREADS) - 1, ix(rows.name)) + 1
    assert columns.whole == wholes(product(32))[COLUMNS]


def test_another_number_of_the_same_name_is_told_apart() -> None:
    launches = [product(32), product(48), product(32), product(48)]
    names = [x.name.name for x in shared_numbers(launches, frozenset({"column_tiles"}))]
    assert names == ["row_tiles", "column_tiles_2", "row_tiles_2", "column_tiles_3"]


def test_tasks_are_named_by_their_size() -> None:
    launches = [Launch("map", (), ceildiv(ix(N), 32))] * 2
    assert [x.name.name for x in shared_numbers(launches, frozenset())] == ["blocks_of_32"]


def test_what_stands_once_or_is_short_stays() -> None:
    assert shared_numbers([product(32)], frozenset()) == ()
    assert shared_numbers([Launch("map", (), ix(N) * 3)] * 2, frozenset()) == ()
