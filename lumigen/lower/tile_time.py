"""tile_time: which tile of a product, and how many parts of its depth, take a device the least time.

Either the products decide, in rounds of all multiprocessors, or what is read. Where tiles are few and the depth is
long, blocks that have a tile together keep more multiprocessors busy; each begins and ends, and their sums are added.
The unit is a product of a multiprocessor. The constants were fitted to times on an H200 of each tile with 1 to 16
parts, over 1 to 4096 rows of matrices of a Llama of 8 billion weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lumigen.dtype import DType, f32
from lumigen.index import Axis, extent_of
from lumigen.lower.contract import Contraction
from lumigen.region import free_axes
from lumigen.schedule import Schedule, schedule


class Tile(NamedTuple):
    """How a block divides a product: `warps` of rows and columns, or `each` products of a thread that has its own.

    So many `blocks` are on a multiprocessor at one time, and reach so much of the greatest `rate`, in 100.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    blocks: int
    rate: float
    warps: tuple[int, int] = (0, 0)
    each: tuple[int, int] = (0, 0)

    def sizes(self, parts_of: int) -> Schedule:
        """With `parts_of` blocks that the parts of all tiles should come to; 0 where each block has a tile."""
        sites = {"rows": self.rows, "columns": self.columns, "depth": self.depth}
        pair, names = (self.each, "thread") if self.each[0] else (self.warps, "warp")
        sites |= {f"{names}_rows": pair[0], f"{names}_columns": pair[1], "parts_of": parts_of}
        return schedule("pipeline", sites | ({} if self.each[0] else {"stages": self.stages}))


# A warp of 64 x 64 reads least for a product; no ring exceeds the 99 KiB that a block has on the smallest devices
MATRIX_TILES = (
    Tile(128, 256, 64, 2, 1, 100, warps=(2, 4)),
    Tile(128, 128, 32, 4, 2, 97, warps=(2, 2)),
    Tile(64, 128, 64, 4, 2, 89, warps=(2, 2)),
    Tile(64, 64, 64, 4, 3, 72, warps=(2, 2)),
    Tile(32, 64, 64, 4, 4, 52, warps=(1, 4)),
    Tile(16, 64, 128, 4, 2, 35, warps=(1, 4)),
)
# in f32, by threads that multiply by themselves
SCALAR_TILES = (
    Tile(128, 128, 16, 3, 2, 10, each=(8, 8)),
    Tile(64, 64, 16, 3, 3, 8, each=(4, 4)),
    Tile(32, 64, 16, 3, 6, 6.5, each=(4, 4)),
    Tile(16, 64, 32, 3, 6, 4.7, each=(4, 4)),
)
# of two products of the same rows, with so many columns of each
PAIR_TILES = (
    Tile(64, 64, 64, 4, 2, 80, warps=(2, 2)),
    Tile(32, 64, 64, 4, 2, 52, warps=(1, 4)),
    Tile(16, 64, 128, 2, 2, 35, warps=(1, 4)),
)
MULTIPROCESSORS = 132  # that should all have something to do
MOST_PARTS = 16
LEAST_STEPS = 4  # of a part: it should fill its ring
READ = 0.26  # of a byte of the operands, while all that memory gives is used
READ_AGAIN = 0.13  # of each byte that a block brings in: it comes from the cache
IN_FLIGHT = 2.7e6  # bytes that are on their way where all that memory gives is used
ALONE = 0.75  # of the time of a full round that blocks take which have more of a multiprocessor to themselves
BEGINNING = 8e6  # while a block begins and ends
ADDED = 320  # of an element that another part has, too


def fastest(found: Sequence[Contraction], element: DType) -> tuple[Schedule, ...]:
    """For each product of a launch the tile and the parts that take all the least time at the dims' typical values.

    They have the same rows, and one tile.
    """
    (m, k), *_ = ((_size(c.m_axes), _size(c.reduce.axes)) for c in found)
    columns = [_size(c.n_axes) for c in found]
    batches = [_size(c.grid) for c in found]
    operands = dict.fromkeys((found[0].rows, *(c.columns for c in found)))
    read = sum(_size(free_axes(f)) for f in operands) * element.itemsize

    def tiles_of(t: Tile, number: int) -> int:
        return -(-m // t.rows) * -(-columns[number] // t.columns) * batches[number]

    def all_tiles(t: Tile) -> int:
        return sum(tiles_of(t, number) for number in range(len(found)))

    def time(t: Tile, parts: int) -> float:
        tiles, n = all_tiles(t), max(columns)
        full, rest = divmod(-(-tiles * parts // MULTIPROCESSORS), t.blocks)
        busy = full * t.blocks + (max(rest, ALONE * t.blocks) if rest else 0)
        multiplied = busy * t.rows * t.columns * k / parts * 100 / t.rate
        lines = min(t.rows, m) + min(t.columns, n)  # the rest is outside the operands
        brought = tiles * lines * k * element.itemsize
        blocks = min(tiles * parts, MULTIPROCESSORS * t.blocks)
        in_flight = blocks * t.stages * t.depth * lines * element.itemsize
        fetched = max(read * READ, brought * READ_AGAIN) / min(1.0, in_flight / IN_FLIGHT)
        added = ADDED * parts * min(t.rows, m) * t.columns if parts > 1 else 0
        return max(multiplied, fetched) + (full + (rest > 0)) * BEGINNING + added

    tiles = SCALAR_TILES if element is f32 else MATRIX_TILES
    fitting = [t for t in tiles if t.rows < 2 * m and t.columns < 2 * max(columns)] or tiles[-1:]
    choices = [(t, p) for t in fitting for p in range(1, _most_parts(t, all_tiles(t), k) + 1)]
    tile, parts = min(choices, key=lambda choice: time(*choice))
    each = (tiles_of(tile, number) * parts if parts > 1 else 0 for number in range(len(found)))
    return tuple(map(tile.sizes, each))


def _size(axes: Iterable[Axis]) -> int:
    return extent_of(axes).estimate()


def _most_parts(t: Tile, tiles: int, k: int) -> int:
    """One where tiles fill the device; never so many that blocks come in more than two rounds."""
    round_ = MULTIPROCESSORS * t.blocks
    if tiles >= round_:
        return 1
    return max(1, min(MOST_PARTS, -(-k // t.depth) // LEAST_STEPS, 2 * round_ // max(1, tiles)))


def of_pair(found: Contraction) -> Schedule:
    """The tile of two products of the same rows, of which this is one: as many rows as there are."""
    m = extent_of(found.m_axes).estimate()
    fitting = [t for t in PAIR_TILES if t.rows < 2 * m]
    return (fitting or PAIR_TILES[-1:])[0].sizes(0)
