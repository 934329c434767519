"""Which slow cases a run of all tests takes: a part of each test and of each file, drawn by the commit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import slow_cases
from slow_cases import ALONE, SHARE, draw_slow_cases


class Case:
    """What draw_slow_cases reads of an item."""

    def __init__(self, test: str, number: int, slow: bool) -> None:
        self.nodeid = f"tests/test_a.py::{test}[{number}]"
        self.slow = slow

    def get_closest_marker(self, name: str) -> object:
        return (name == "slow" and self.slow) or None


class Config:
    """What draw_slow_cases tells of what it leaves out."""

    def __init__(self) -> None:
        self.hook = self
        self.gone: list[Case] = []

    def pytest_deselected(self, items: list[Case]) -> None:
        self.gone += items


def drawn(items: list[Case]) -> tuple[list[Case], list[Case]]:
    """What stays and what is deselected of some items."""
    config: Any = Config()
    left: Any = list(items)
    draw_slow_cases(config, left)
    return left, config.gone


@pytest.fixture
def items() -> list[Case]:
    alone = {f"alone {number}": 1 for number in range(2 * ALONE + 1)}
    counts = {"many": 10 * SHARE, "more": SHARE + 1, "two": 2} | alone
    slow = [Case(test, number, True) for test, count in counts.items() for number in range(count)]
    return [Case("quick", number, False) for number in range(20)] + slow


def test_a_part_of_each_test_stays(items: list[Case]) -> None:
    left, gone = drawn(items)
    assert [item for item in items if item in left] == left  # the order stays
    assert len(left) + len(gone) == len(items)
    stay = Counter(item.nodeid.partition("[")[0].partition("::")[2].split()[0] for item in left)
    assert stay == {"quick": 20, "many": 10, "more": 2, "two": 1, "alone": 3}


def test_each_case_comes_with_some_commit(
    items: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drawn(items) == drawn(items)
    seen: set[str] = set()
    for number in range(60):
        monkeypatch.setattr(slow_cases, "commit", lambda number=number: f"{number:040x}")
        seen |= {item.nodeid for item in drawn(items)[0]}
    assert seen == {item.nodeid for item in items}
