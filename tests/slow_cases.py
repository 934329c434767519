"""Which slow cases of each test a run of all tests takes."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from commit import commit

SHARE, LEAST = 5, 2  # a whole run takes one in SHARE slow cases of a test, at least LEAST


def draw_slow_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects four of five slow cases of each test with many: the commit draws which stay."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    left: list[pytest.Item] = []
    for test, cases in tests.items():
        kept = min(len(cases), max(LEAST, -(-len(cases) // SHARE)))
        left += random.Random(commit() + test).sample(cases, len(cases) - kept)
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]
