"""radix: the kernel in which many blocks group long rows together, by passes over the digits of their groups.

Before: a plan of the native kernel `groups` alone in its grid, of rows whose places and groups an int counts.  After:
one tile program of which each task is a block that takes a share of the chunks of all rows, whatever it is. What the
blocks leave each other has the size of a few rows.
"""

from __future__ import annotations

from lumigen.dtype import i32, i64
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, maximum, minimum, unravel
from lumigen.lower.built import Built
from lumigen.lower.contract import number
from lumigen.lower.simt import dims_of
from lumigen.machine import RadixTiles
from lumigen.plan import Native, NotRealised
from lumigen.region import Buffer, Region, Role, Store, const, read
from lumigen.schedule import Schedule
from lumigen.tile import GroupRows, TileProgram

COUNTERS = 3  # of the headers' Drawn
GROUPING = ("groups", "starts")


def is_long(step: Native, source: Buffer, radix: RadixTiles, ordered: int) -> bool:
    """Whether blocks are to share rows: of more elements than one orders at a time, which an int counts."""
    long = source.dims[-1].estimate() > ordered
    return long and step.kernel in GROUPING and _are_counted(step.store, source, radix)


def _are_counted(store: Store, source: Buffer, radix: RadixTiles) -> bool:
    most = (
        i.bounds()[1] for i in (source.dims[-1], store.dst.dims[-1], extent_of(store.axes[:-1]))
    )
    return all(n is not None and n < radix.longest for n in most)


def _passes_but_one(groups: Ix, digit: int) -> Ix:
    """How many passes there are after the first: keys are 0 .. groups + 1."""
    several = (groups // ((1 << digit * n) - 1) for n in range(1, -(-31 // digit)))
    out = ix(0)
    for more in several:
        out = out + minimum(1, more)
    return out


def group_rows(region: Region, step: Native, sizes: Schedule, radix: RadixTiles) -> Built:
    """The kernel; NotRealised where an int does not count the rows or the kernel is another one."""
    store = step.store
    (source,) = region.reads()
    if step.kernel not in GROUPING or not _are_counted(store, source, radix):
        raise NotRealised(f"{step.kernel} of {source} by many blocks")
    rows = store.axes[:-1]
    row, place = Axis("row", extent_of(rows)), Axis("place", source.dims[-1])
    groups = groups_of(step, place.extent)
    share = maximum(1, sizes["blocks"] // maximum(1, row.extent))
    wanted = maximum(1, minimum(share, ceildiv(place.extent, radix.tile)))
    chunks = wanted if wanted.is_const else ix(number("chunks", wanted, dims_of(region)))
    drawn = Buffer("drawn", Role.COUNTER, (ix(COUNTERS),), i32, (0, 0))
    placed = step.kernel == "groups"
    left = _of_places if placed else _of_counts
    shared = (*left(row.extent, place.extent, groups, wanted, radix), drawn)
    at = unravel(row, rows)
    value = read(source, (*(at[a] for a in rows), ix(place)))
    task, counter = Axis("task", row.extent * chunks), Axis("counter", ix(COUNTERS))
    none = Store(drawn, (counter,), (ix(counter),), const(0, i32))
    program = TileProgram(
        "groups",
        (*region.buffers(), *shared),
        dims_of(region),
        task,
        task.extent,
        (),
        (GroupRows(store.dst, groups, row, place, value, chunks, shared, placed),),
        numbers=tuple((a, wanted) for a in chunks.atoms() if isinstance(a, Dim)),
        threads=sizes["threads"],
        width=4,
        blocks=radix.resident,
    )
    meaning = Region((store, none), region.lines, region.native)
    return Built(program, meaning, temps=shared[:-1])


def groups_of(step: Native, places: Ix) -> Ix:
    """How many groups there are, of rows of so many places."""
    results = step.store.axes[-1].extent - 1
    return results - places if step.kernel == "groups" else results


def _of_places(
    rows: Ix, places: Ix, groups: Ix, chunks: Ix, radix: RadixTiles
) -> tuple[Buffer, ...]:
    """Keys in order, keys with places between passes, counts of digits."""
    return (
        Buffer("keys", Role.WORKSPACE, (rows, places), i32),
        Buffer("pairs", Role.WORKSPACE, (_passes_but_one(groups, radix.digit), rows, places), i64),
        Buffer("counts", Role.WORKSPACE, (rows, ix(1 << radix.digit), chunks + 1), i32),
    )


def _of_counts(rows: Ix, _: Ix, groups: Ix, chunks: Ix, __: RadixTiles) -> tuple[Buffer, ...]:
    """Elements of each group, and of the groups of each chunk."""
    return (
        Buffer("sizes", Role.WORKSPACE, (rows, groups + 1), i32),
        Buffer("sums", Role.WORKSPACE, (rows, chunks), i32),
    )
