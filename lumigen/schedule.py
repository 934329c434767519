"""Schedules: how a plan sits on the machine. Which builder arranges its kernel, tile sizes, where operands are placed.

A schedule is data that goes with a plan and changes nothing in what is computed: the order of each reduction is the
plan's. A builder's module says which sites a schedule has for it, and refuses any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Schedule:
    """How one kernel of a plan is laid out. `tile` and `place` are sorted by site.

    `parts` are those of its grids, where it has several that run side by side.
    """

    builder: str
    tile: tuple[tuple[str, int], ...]
    place: tuple[tuple[str, str], ...] = ()
    parts: tuple[Schedule, ...] = ()

    def __getitem__(self, site: str) -> int:
        return dict(self.tile)[site]

    def get(self, site: str, default: int) -> int:
        """The size of a site, or `default` where the schedule says nothing of it."""
        return dict(self.tile).get(site, default)

    def where(self, operand: str) -> str:
        """Where an operand is placed."""
        return dict(self.place)[operand]

    def at(self, site: str, size: int) -> Schedule:
        """The same with another size of a site."""
        return replace(self, tile=tuple(sorted({**dict(self.tile), site: size}.items())))

    def placed(self, operand: str, where: str) -> Schedule:
        """The same with an operand at another place."""
        return replace(self, place=tuple(sorted({**dict(self.place), operand: where}.items())))

    def unknown(self, sites: Collection[str], operands: Collection[str] = ()) -> list[str]:
        """The sites and operands that a builder does not have."""
        named = [site for site, _ in self.tile if site not in sites]
        return named + [operand for operand, _ in self.place if operand not in operands]


def schedule(
    builder: str, tile: Mapping[str, int], place: Mapping[str, str] | None = None
) -> Schedule:
    """A schedule from named tile sizes and places."""
    return Schedule(builder, tuple(sorted(tile.items())), tuple(sorted((place or {}).items())))
