"""roles: the skeleton of one contraction of 16-bit operands for Hopper, whose blocks stay and take tile after tile.

Before: a region whose value holds one contraction over all of the store's axes, of two operands that a tensor copy
engine can fetch: read as memory holds them, contiguous along the depth or along the rows or columns, their lines and
batches whole multiples of 16 bytes apart.  After: a tile program in which a cluster of blocks computes a tile of the
product, a producer bringing boxes of the operands into shared memory and consumers multiplying them, and applies the
rest of the expression to the elements of the tile.

Sites: `rows` and `columns` of a block's tile, `stages` in the ring, and `cluster` blocks, one below the other, that
share columns. A task is the tile of a cluster; that blocks stay for several is the device header's business. With
`split`, where tiles are few and the depth is long, so many blocks have one tile together, each a part of the depth.
"""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.index import Axis, ceildiv, ix, product
from lumigen.lower.contract import Contraction, find_contraction
from lumigen.lower.mapped import Mapped
from lumigen.lower.pipeline import LANES, Flat, for_tile, operand
from lumigen.lower.scope import Names, Scope
from lumigen.lower.simt import dims_of
from lumigen.region import Buffer, Region, Role
from lumigen.schedule import Schedule, schedule
from lumigen.tile import Contract, TensorMap, TileProgram

SITES = ("rows", "columns", "stages", "cluster", "split")
# And how much of the instruction's rate a block of this tile reaches, in 100: larger tiles read less for a product.
TILES = (
    ((128, 256, 4, 2, 1), 100),
    ((128, 192, 4, 2, 1), 95),
    ((128, 128, 6, 2, 1), 88),
    ((128, 128, 6, 1, 1), 84),
    ((64, 256, 4, 1, 1), 72),
    ((64, 128, 6, 1, 1), 60),
    ((64, 64, 12, 1, 1), 45),
    ((128, 256, 4, 1, 2), 100),
    ((64, 64, 12, 1, 2), 45),
)
EXCHANGE = 512  # of depth, that could be multiplied while the parts of a tile are added
MULTIPROCESSORS = 132
THREADS = 384  # a warpgroup that produces, two that consume


def roles(region: Region) -> tuple[Schedule, TileProgram] | None:
    """How a region's contraction lies on Hopper, and its program; None if it has another form."""
    (store,) = region.stores
    found = find_contraction(store)
    if found is None:
        return None
    flat = Flat.of(found)
    a = Mapped.of(flat.rows, flat.m, flat.k, found.grid)
    b = Mapped.of(flat.columns, flat.n, flat.k, found.grid)
    if a is None or b is None or a.source.dtype is not b.source.dtype:
        return None
    if a.shared() is None or b.shared() is None:
        return None
    sizes = _schedule(found, flat, b)
    return sizes, _program(region, found, flat, (a, b), sizes)


def _schedule(found: Contraction, flat: Flat, b: Mapped) -> Schedule:
    """The tile that takes the least time at the dims' typical values, counted in rounds of all multiprocessors."""
    m, n, k = (x.extent.estimate() for x in (flat.m, flat.n, flat.k))
    batch = product(tuple(x.extent for x in found.grid)).estimate()

    def time(tile: tuple[tuple[int, int, int, int, int], int]) -> float:
        (rows, columns, _, cluster, split), rate = tile
        tiles = -(-m // (rows * cluster)) * -(-n // columns) * batch
        rounds = -(-tiles // (MULTIPROCESSORS // (cluster * split)))
        depth = k if split == 1 else k // split + EXCHANGE
        return rounds * rows * columns * depth / rate

    # along the columns, boxes are 64 of them: a consumer's share and a block's are whole ones
    fitting = [t for t in TILES if b.is_deep or (t[0][1] % 128 == 0 and t[0][1] != 192)]
    sizes, _ = min(fitting, key=time)
    return schedule("roles", dict(zip(SITES, sizes, strict=True)))


def _program(
    region: Region, found: Contraction, flat: Flat, mapped: tuple[Mapped, Mapped], sizes: Schedule
) -> TileProgram:
    (store,) = region.stores
    m, n, k = flat.m, flat.n, flat.k
    rows, columns, cluster = sizes["rows"], sizes["columns"], sizes["cluster"]
    m_tiles, n_tiles = ceildiv(m.extent, rows * cluster), ceildiv(n.extent, columns)
    batch = Axis("batch", product(tuple(x.extent for x in found.grid)))
    task = Axis("task", batch.extent * m_tiles * n_tiles)

    top = Scope(Names(), frozenset({task}))  # its place first: the device's header knows it
    m0, n0 = Axis("m0", m.extent), Axis("n0", n.extent)
    top.bind(m0, ix(task) % m_tiles * (rows * cluster))
    top.bind(n0, ix(task) // m_tiles % n_tiles * columns)
    top.bind(batch, ix(task) // m_tiles // n_tiles)
    rest = ix(batch)
    for axis in reversed(found.grid):
        top.bind(axis, rest % axis.extent if axis is not found.grid[0] else rest)
        rest = rest // axis.extent

    a, b = mapped
    acc = Buffer("acc", Role.SCRATCH, (ix(rows * cluster), ix(columns)), f32)
    factors = operand(flat.rows, m, k), operand(flat.columns, n, k)
    top.stmts.append(Contract(acc, *factors, m, n, k, ix(m0), ix(n0), a.source.dtype))
    top.stmts.append(for_tile(top, store, found, flat, acc, (m0, n0)))
    along = ("Along::kDepth" if x.is_deep else "Along::kMajor" for x in mapped)
    each = (a.source.dtype.name, rows, columns, sizes["stages"])
    split = sizes["split"]
    name, more = ("RolesTile", (cluster,)) if split == 1 else ("SplitTile", (split, 1))
    tile = ", ".join(map(str, (*each, *more, *along)))
    return TileProgram(
        "roles",
        (*region.reads(), store.dst),
        dims_of(region),
        task,
        task.extent,
        (acc,),
        tuple(top.stmts),
        threads=THREADS,
        width=LANES,
        tile=f"{name}<{tile}>",
        maps=(_map("map_a", a, rows), _map("map_b", b, columns // cluster)),
    )


def _map(name: str, operand: Mapped, lines: int) -> TensorMap:
    shared = operand.shared()
    assert shared is not None, "asked before"
    batches, share = shared
    return operand.boxes(name, lines, (batches,), share)
