"""Schedules: how a plan sits on the machine. Tile sizes, where operands are placed, which skeleton arranges them.

A schedule is data beside a plan and changes nothing in what is computed: the order of each reduction is the plan's.
Sites name what a skeleton lets a schedule choose; a skeleton's module says which sites it has.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The order of an operand's elements in its place: (dimension, block) pairs, outermost first; 0 is the rest.

    A dimension may come twice: panels of 16 columns are (("n", 0), ("k", 0), ("n", 16)).
    """

    order: tuple[tuple[str, int], ...]
    swizzle: int = 0
    pad: int = 0


@dataclass(frozen=True)
class Place:
    """Where an operand is read from while a tile is computed, and how it gets there."""

    where: str  # "reg" | "smem" | "tile" | "cache" | "global"
    layout: Layout | None = None
    via: str = "plain"  # "plain" | "async" | "tma"
    stages: int = 1


@dataclass(frozen=True)
class Schedule:
    """How one kernel of a plan is laid out. `tile` and `place` are sorted by site."""

    skeleton: str  # "simt" | "panel"; later "pipeline" | "roles"
    tile: tuple[tuple[str, int], ...]
    place: tuple[tuple[str, Place], ...] = ()

    def __getitem__(self, site: str) -> int:
        return dict(self.tile)[site]

    def get(self, site: str, default: int) -> int:
        """The size of a site, or `default` where the schedule says nothing of it."""
        return dict(self.tile).get(site, default)


def schedule(
    skeleton: str, tile: dict[str, int], place: dict[str, Place] | None = None
) -> Schedule:
    """A schedule from named tile sizes and places."""
    return Schedule(skeleton, tuple(sorted(tile.items())), tuple(sorted((place or {}).items())))
