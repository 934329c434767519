"""tile_time: which tile of a product, and how many parts of its depth, take a device the least time.

Either the products decide, in rounds of all multiprocessors, or what is read. Where tiles are few and the depth is
long, blocks that have a tile together keep more multiprocessors busy; each begins and ends, and their sums are added.
The unit is a product of a multiprocessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lumigen.dtype import DType, f16, f32
from lumigen.index import Axis, extent_of
from lumigen.lower.contract import Contraction
from lumigen.machine import Gpu, ProductTile
from lumigen.region import free_axes
from lumigen.schedule import Schedule, schedule


def sizes_of(t: ProductTile, parts_of: int) -> Schedule:
    """With `parts_of` blocks that the parts of all tiles should come to; 0 where each block has a tile."""
    sites = {"rows": t.rows, "columns": t.columns, "depth": t.depth}
    pair, names = (t.each, "thread") if t.each[0] else (t.warps, "warp")
    sites |= {f"{names}_rows": pair[0], f"{names}_columns": pair[1], "parts_of": parts_of}
    return schedule("pipeline", sites | {"stages": t.stages})


def tiles_of(element: DType, machine: Gpu) -> Sequence[ProductTile]:
    """The tiles of a product whose rings fit the shared memory that a block has."""
    scalar = element is f32 and not machine.multiplies_floats
    tiles = machine.products.scalar if scalar else machine.products.matrix
    tiles = machine.products.bytes if element.is_int else tiles
    return [t for t in tiles if _ring(t, t.columns, element) <= machine.shared_bytes]


def tiles_of_pair(machine: Gpu) -> Sequence[ProductTile]:
    """The same of two products of the same rows, in 16 bits."""
    tiles = machine.products.pair
    return [t for t in tiles if _ring(t, 2 * t.columns, f16) <= machine.shared_bytes]


def _ring(t: ProductTile, columns: int, element: DType) -> int:
    """Bytes of shared memory in which operands of a block come."""
    return t.stages * (t.rows + columns) * t.depth * element.itemsize


def small_tile(found: Contraction, element: DType, machine: Gpu) -> ProductTile | None:
    """The tile of a product whose columns and depth are one tile's, where so many keep the device busy; or None.

    Each block waits for its operands once, so that as many as possible should be on a multiprocessor, or they stream
    past in rings of more than two stages.
    """
    if element is f32 or element.is_int:
        return None
    m, n, k = map(_size, (found.m_axes, found.n_axes, found.reduce.axes))
    products, batch = machine.products, _size(found.grid)
    least = min((t.rows for _, t in products.small), default=0)

    def fits(deepest: int, t: ProductTile) -> bool:
        whole = m <= t.rows or t.columns <= products.narrow or t.rows >= products.tall
        full = t.columns // 2 <= n <= t.columns and t.rows < 2 * max(m, least)
        busy = -(-m // t.rows) * batch >= machine.multiprocessors
        return whole and full and busy and k <= deepest

    tile = next((t for deepest, t in products.small if fits(deepest, t)), None)
    return None if tile is None else _shorter(tile, k)


def _shorter(t: ProductTile, k: int) -> ProductTile:
    """With a ring that is no longer than the depth, which leaves room for more blocks."""
    return t._replace(stages=min(t.stages, max(2, -(-k // t.depth))))


def fastest(found: Sequence[Contraction], element: DType, machine: Gpu) -> tuple[Schedule, ...]:
    """For each product of a launch the tile and the parts that take all the least time at the dims' typical values.

    They have the same rows, and one tile.
    """
    small = small_tile(found[0], element, machine) if len(found) == 1 else None
    if small is not None:
        return (sizes_of(small, 0),)
    (m, k), *_ = ((_size(c.m_axes), _size(c.reduce.axes)) for c in found)
    columns = [_size(c.n_axes) for c in found]
    batches = [_size(c.grid) for c in found]
    operands = dict.fromkeys((found[0].rows, *(c.columns for c in found)))
    read = sum(_size(free_axes(f)) for f in operands) * element.itemsize
    multiprocessors, times = machine.multiprocessors, machine.products

    def count(t: ProductTile, number: int) -> int:
        return -(-m // t.rows) * -(-columns[number] // t.columns) * batches[number]

    def all_tiles(t: ProductTile) -> int:
        return sum(count(t, number) for number in range(len(found)))

    def time(t: ProductTile, parts: int) -> float:
        tiles, n = all_tiles(t), max(columns)
        full, rest = divmod(-(-tiles * parts // multiprocessors), t.blocks)
        busy = full * t.blocks + (max(rest, times.alone * t.blocks) if rest else 0)
        deep = -(-k // parts // t.depth) * t.depth  # whole stages, zeros among them
        multiplied = busy * t.rows * t.columns * deep * 100 / t.rate
        lines = min(t.rows, m) + min(t.columns, n)  # the rest is outside the operands
        brought = tiles * lines * k * element.itemsize
        blocks = min(tiles * parts, multiprocessors * t.blocks)
        in_flight = blocks * t.stages * t.depth * lines * element.itemsize
        fetched = max(read * times.read, brought * times.read_again)
        fetched /= min(1.0, in_flight / times.in_flight)
        added = times.added * parts * min(t.rows, m) * t.columns if parts > 1 else 0
        return max(multiplied, fetched) + (full + (rest > 0)) * times.beginning + added

    tiles = tiles_of(element, machine)
    widest = max(*columns, min(t.columns for t in tiles) // 2 + 1)  # fewer have the narrowest
    fitting = [t for t in tiles if t.rows < 2 * m and t.columns < 2 * widest] or tiles[-1:]
    most = ((t, _most_parts(t, all_tiles(t), k, machine)) for t in fitting)
    choices = [(t, p) for t, last in most for p in range(1, last + 1)]
    tile, parts = min(choices, key=lambda choice: time(*choice))
    each = (count(tile, number) * parts if parts > 1 else 0 for number in range(len(found)))
    shorter = _shorter(tile, k // parts)
    return tuple(sizes_of(shorter, parts_of) for parts_of in each)


def _size(axes: Iterable[Axis]) -> int:
    return extent_of(axes).estimate()


def _most_parts(t: ProductTile, tiles: int, k: int, machine: Gpu) -> int:
    """One where tiles fill the device; never so many that blocks come in more than two rounds."""
    round_ = machine.multiprocessors * t.blocks
    if tiles >= round_:
        return 1
    steps = -(-k // t.depth) // machine.products.least_steps
    most = max(machine.products.most_parts, k // machine.products.long_part)
    return max(1, min(most, steps, 2 * round_ // max(1, tiles)))


def of_pair(found: Contraction, machine: Gpu) -> Schedule:
    """The tile of two products of the same rows, of which this is one: as many rows as there are."""
    m = extent_of(found.m_axes).estimate()
    tiles = tiles_of_pair(machine)
    fitting = [t for t in tiles if t.rows < 2 * m]
    return sizes_of((fitting or tiles[-1:])[0], 0)
