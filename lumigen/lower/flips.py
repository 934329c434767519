"""flips: decisions of the heuristic about a whole graph that are taken the other way.

Each is of a canonical region, so that layers stay alike: what is not stored, which regions are not joined, and what
keeps the order of its dimensions. What is computed is the same with any of them; what is left may have no plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lumigen.region import Region

Asked = Callable[[Region], bool]


@dataclass(frozen=True)
class Flips:
    """`inlined` values are computed where they are read, by the region that would store them.

    Two regions that would be one that is `apart` are not joined. What a region that is `in_order` stores lies in memory
    in the order that the model has. None of a kind: all of these are as the heuristic says.
    """

    inlined: Asked | None = None
    apart: Asked | None = None
    in_order: Asked | None = None


HEURISTIC = Flips()
