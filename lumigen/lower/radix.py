"""radix: kernels in which many blocks order or group long rows together, by passes over the digits of their keys.

Before: a plan of a native kernel alone in its grid, of rows whose places and groups an int counts.  After: one tile
program of which each task is a block that takes a share of the chunks of all rows. What the blocks leave each other has
the size of a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lumigen.dtype import DType, bf16, boolean, f16, f32, i8, i32, i64, u8
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, maximum, minimum, unravel
from lumigen.lower.built import Built
from lumigen.lower.contract import number
from lumigen.lower.simt import dims_of
from lumigen.machine import Gpu, RadixTiles
from lumigen.plan import Native, NotRealised, rows_of
from lumigen.region import Buffer, Expr, Region, Role, Store, buffers_of, const, read
from lumigen.schedule import Schedule
from lumigen.tile import GroupRows, OrderRows, TileProgram

COUNTERS = 96  # of the headers' Drawn
GROUPING = ("groups", "starts", "sums")
# bits of a key that tell values from each other: of floats those of their 32 that the type has
BITS: Mapping[DType, int] = {f32: 32, f16: 19, bf16: 16, i32: 32, i8: 8, u8: 8, boolean: 1}


def blocks_of(step: Native, source: Buffer, machine: Gpu) -> int:
    """How many blocks are to share rows; 0 if each row is one block's.

    They share long rows, or, if rows are few, those that a block does not order at once; of sums all.
    """
    radix, length = machine.radix, source.dims[-1].estimate()
    if radix is None or _refused(step, source, radix) is not None:
        return 0
    if step.kernel == "sums":
        return machine.multiprocessors * radix.placing
    if length <= machine.ordered:
        return 0
    few = extent_of(step.store.axes[:-1]).estimate() <= machine.multiprocessors
    return machine.multiprocessors * _resident(step, radix) * (few or length >= radix.long)


def _resident(step: Native, radix: RadixTiles) -> int:
    """Blocks of a multiprocessor at one time."""
    return radix.counting if step.kernel == "starts" else radix.placing


def _refused(step: Native, source: Buffer, radix: RadixTiles) -> str | None:
    """Why many blocks cannot run a native kernel together; None if they can."""
    store = step.store
    counted = (source.dims[-1], store.dst.dims[-1], extent_of(store.axes[:-1]))
    most = [i.bounds()[1] for i in counted]
    if any(n is None or n >= radix.longest for n in most):
        return f"{counted} places are more than an int counts"
    if step.kernel in GROUPING:
        return None
    if step.elements or step.count != step.place.extent or step.shown != ix(step.place):
        return "a part of a row, or what lies at places"
    if source.dtype not in BITS:
        return f"{source.dtype} has more bits than a key"
    return None if store.dst.dims[-1] == source.dims[-1] else "some of a row's places alone"


@dataclass(frozen=True)
class _SharedRows:
    """The rows of a native kernel, and how many chunks of each blocks share: a number of the launch, or known."""

    row: Axis
    place: Axis
    chunks: Ix
    wanted: Ix

    def counts(self, radix: RadixTiles) -> Buffer:
        """Of each digit in each chunk, and in all."""
        digits = ix(1 << radix.digit)
        return _left("counts", (self.row.extent, digits, self.wanted + 1), i32)

    def pairs(self, between: Ix) -> Buffer:
        """Keys with places, which a pass leaves the next one: two lots, if any pass has one before and one behind."""
        return _left("pairs", (between, self.row.extent, self.place.extent), i64)


def _left(name: str, dims: tuple[Ix, ...], dtype: DType) -> Buffer:
    return Buffer(name, Role.WORKSPACE, dims, dtype)


def rows_together(region: Region, step: Native, sizes: Schedule, radix: RadixTiles | None) -> Built:
    """The kernel; NotRealised where blocks cannot share its rows."""
    store = step.store
    source, *values = rows_of(region)
    if radix is None:
        raise NotRealised("blocks share rows where a machine has a kernel for it")
    if why := _refused(step, source, radix):
        raise NotRealised(why)
    axes = store.axes[:-1]
    row, place = Axis("row", extent_of(axes)), Axis("place", source.dims[-1])
    share = maximum(1, sizes["blocks"] // maximum(1, row.extent))
    is_grouping = step.kernel in GROUPING
    most = maximum(place.extent, groups_of(step, place.extent)) if is_grouping else place.extent
    wanted = maximum(1, minimum(share, ceildiv(most, radix.tile)))
    chunks = wanted if wanted.is_const else ix(number("chunks", wanted, dims_of(region)))
    at = unravel(row, axes)
    value, *summed = (read(b, (*(at[a] for a in axes), ix(place))) for b in (source, *values))
    rows = _SharedRows(row, place, chunks, wanted)
    made = _grouped if is_grouping else _ordered
    of = made(step, rows, radix, value, *summed)
    task, counter = Axis("task", row.extent * chunks), Axis("counter", ix(COUNTERS))
    none = Store(of.drawn, (counter,), (ix(counter),), const(0, i32))
    program = TileProgram(
        "groups" if is_grouping else "order",
        (*region.buffers(), *of.shared),
        dims_of(region),
        task,
        task.extent,
        (),
        (of,),
        numbers=tuple((a, wanted) for a in chunks.atoms() if isinstance(a, Dim)),
        threads=sizes["threads"],
        width=4,
        blocks=_resident(step, radix),
    )
    meaning = Region((store, none), region.lines, region.native)
    return Built(program, meaning, temps=of.shared[:-1])


def _drawn() -> Buffer:
    return Buffer("drawn", Role.COUNTER, (ix(COUNTERS),), i32, (0, 0))


def _ordered(step: Native, rows: _SharedRows, radix: RadixTiles, value: Expr) -> OrderRows:
    (source,) = buffers_of(value)
    bits = BITS[source.dtype]
    between = ix(min(2, -(-bits // radix.digit) - 1))
    shared = (rows.pairs(between), rows.counts(radix), _drawn())
    descending = step.kernel == "order_descending"
    return OrderRows(
        step.store.dst, rows.row, rows.place, value, descending, bits, rows.chunks, shared
    )


def groups_of(step: Native, places: Ix) -> Ix:
    """How many groups there are, of rows of so many places."""
    results = step.store.axes[-1].extent
    if step.kernel == "sums":
        return results
    return results - 1 - places if step.kernel == "groups" else results - 1


def _grouped(
    step: Native, rows: _SharedRows, radix: RadixTiles, value: Expr, summed: Expr | None = None
) -> GroupRows:
    groups, placed = groups_of(step, rows.place.extent), step.kernel == "groups"
    count, places = rows.row.extent, rows.place.extent
    if summed is not None:
        tiles, shares = (ceildiv(places, n) for n in (radix.piece, radix.share))
        left = (
            _left("elements", (count, places), i32),
            _left("values", (count, places), f32),
            _left("segments", (count, radix.parts * tiles), i32),
            _left("sizes", (count, ix(radix.parts)), i32),
            _left("partial", (count * shares, ix(radix.wide)), f32),
        )
    elif placed:
        between = _between(groups, radix.digit)
        keys = _left("keys", (minimum(1, between), count, rows.place.extent), i32)
        left = (keys, rows.pairs(between), rows.counts(radix))
    else:
        left = (_left("sizes", (count, groups + 1), i32), _left("sums", (count, rows.wanted), i32))
    shared = (*left, _drawn())
    return GroupRows(
        step.store.dst, groups, rows.row, rows.place, value, rows.chunks, shared, placed, summed
    )


def _between(groups: Ix, digit: int) -> Ix:
    """How many lots of pairs there are: none of one pass, two of three or more. Keys are 0 .. groups + 1."""
    second, third = (minimum(1, groups // ((1 << digit * n) - 1)) for n in (1, 2))
    return second + third
