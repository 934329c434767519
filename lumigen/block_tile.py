"""block_tile: how a block of threads divides a product, as a device's headers take it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lumigen.dtype import DType


class TileKind(Enum):
    """What multiplies the operands of a block, and how they come to it."""

    PIPELINE = "pipeline"  # matrix instructions, from a ring of stages
    BYTES = "bytes"  # the same of integers of 8 bits
    PAIR = "pair"  # as `PIPELINE`, of two products that share their rows
    FEW = "few"  # matrix instructions, of few rows with columns that threads make in registers
    FMA = "fma"  # threads, from a ring of stages
    ROLES = "roles"  # warpgroups, which other warps bring tiles
    SPLIT = "split"  # the same, blocks of a cluster sharing a tile by its depth
    CASCADE = "cascade"  # two products, the first one's result being an operand of the second
    CASCADE_ROLES = "cascade_roles"  # the same, by warpgroups which other warps bring tiles


@dataclass(frozen=True)
class BlockTile:
    """How a block of threads divides a product: named sizes, in the order in which a device takes them.

    Of operands that a copy engine brings: their `element`, and of each whether its depth is contiguous.
    """

    kind: TileKind
    sizes: tuple[tuple[str, int], ...]
    element: DType | None = None
    deep: tuple[bool, ...] = ()

    def __getitem__(self, name: str) -> int:
        return dict(self.sizes)[name]
