"""loops: of the steps of a program, by the loops that each is in."""

from __future__ import annotations

from collections.abc import Iterable

from lumigen.index import Axis, Dim
from lumigen.program import Repeat


def step_of(axis: Axis) -> Dim:
    """The number of a loop's step, as a program counts it."""
    most = axis.extent.bounds()[1]
    return Dim(axis.name, 0, 2**62 if most is None else most - 1)


def loops_of(paths: Iterable[tuple[Repeat, ...]]) -> list[list[int]]:
    """The first use and the number after the last one in each loop, inner loops first."""
    spans: dict[tuple[Repeat, ...], list[int]] = {}
    out: list[list[int]] = []
    before: tuple[Repeat, ...] = ()
    for i, path in enumerate([*paths, ()]):
        ended = (before[:n] for n in range(len(before), 0, -1) if path[:n] != before[:n])
        out.extend(map(spans.pop, ended))
        for depth in range(1, len(path) + 1):
            spans.setdefault(path[:depth], [2 * i, 2 * i])[1] = 2 * i + 1
        before = path
    return out
