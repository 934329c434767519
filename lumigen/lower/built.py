"""built: the result of a builder for the plan of a kernel and its schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lumigen.index import product
from lumigen.plan import NotRealised
from lumigen.program import Panels
from lumigen.region import Buffer, Region
from lumigen.schedule import Schedule
from lumigen.tile import TileProgram

LARGEST = 1 << 31  # what a size of a schedule may be: places of 64 bits hold its products

Pack = tuple[Buffer, Buffer, Panels]  # (packed, the weight, how)


@dataclass(frozen=True)
class Built:
    """A tile program, what it computes over its own arguments, and the layouts of weights that it reads.

    `temps` are buffers that its tasks leave for each other.
    """

    program: TileProgram
    meaning: Region
    packs: tuple[Pack, ...] = ()
    temps: tuple[Buffer, ...] = ()


def check(
    sizes: Schedule, sites: Collection[str], places: Mapping[str, Collection[str]] | None = None
) -> None:
    """Raises NotRealised unless a schedule has just these sites, and operands at these places."""
    known = places or {}
    unknown = sizes.unknown(sites, known)
    missing = [s for s in (*sites, *known) if s not in dict((*sizes.tile, *sizes.place))]
    if unknown or missing:
        raise NotRealised(f"{sizes.builder} has sites {sorted(sites)}, not {unknown or missing}")
    for site, size in sizes.tile:
        if not 0 <= size < LARGEST:
            raise NotRealised(f"{site} of {size}")
    for operand, where in sizes.place:
        if where not in known[operand]:
            raise NotRealised(f"{sizes.builder} has no {operand} in {where}")


def check_steps(sizes: Schedule, *sites: str) -> None:
    """Raises NotRealised where one of these sites, by whose sizes loops go on, has none."""
    for site in sites:
        if sizes[site] == 0:
            raise NotRealised(f"{site} of 0")


def check_folded(sizes: Schedule, most: int) -> None:
    """Raises NotRealised where more rows are folded together than have statements of their own."""
    if sizes.get("held", 0) > most:
        raise NotRealised(f"{sizes['held']} rows are folded together, and {most} at most")


def scratch_of(program: TileProgram) -> int:
    """The bytes of a task's own tiles; of groups that take turns those of the largest."""
    groups = program.one_of or (program.scratch,)
    return max(sum(product(b.dims).const * b.dtype.itemsize for b in g) for g in groups)


def check_whole(sizes: Schedule, site: str, width: int) -> None:
    """Raises NotRealised where a site, along which an operand lies in panels of a width, ends inside of one."""
    if sizes[site] % width:
        raise NotRealised(f"{site} of {sizes[site]}: a panel has {width}, and each is whole")
