"""Which slow cases a run of all tests takes."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import pytest
from commit import commit

SHARE = 9  # a whole run takes one in SHARE slow cases of a test that has several
ALONE = 8  # and one in ALONE of a file's tests that are one slow case each


def draw_slow_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects slow cases: the commit draws which stay."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    alone: dict[str, list[pytest.Item]] = defaultdict(list)
    left: list[pytest.Item] = []
    for test, cases in tests.items():
        if len(cases) == 1:
            alone[test.partition("::")[0]] += cases
        else:
            left += _all_but(len(cases) / SHARE, cases, test)
    for file, cases in alone.items():
        left += _all_but(len(cases) / ALONE, cases, file)
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def _all_but(kept: float, cases: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """All but so many, rounded up."""
    return random.Random(commit() + seed).sample(cases, len(cases) - math.ceil(kept))
