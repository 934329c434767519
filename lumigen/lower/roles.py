"""roles: the skeleton of one contraction of 16-bit operands for Hopper, whose blocks stay and take tile after tile.

Before: a region whose value holds one contraction over all of the store's axes, of two operands that a tensor copy
engine can fetch: read as memory holds them, contiguous along the depth or along the rows or columns, their lines and
batches whole multiples of 16 bytes apart.  After: a tile program in which a cluster of blocks computes a tile of the
product, a producer bringing boxes of the operands into shared memory and consumers multiplying them, and applies the
rest of the expression to the elements of the tile.

Sites: `rows` and `columns` of a block's tile, `stages` in the ring, and `cluster` blocks, one below the other, that
share columns. A task is the tile of a cluster; that blocks stay for several is the device header's business. With
`split`, where tiles are few and the depth is long, so many blocks have one tile together, each a part of the depth;
`blocks` of these share a multiprocessor. With `turned` the product's columns are the rows of the tile, which few rows
of a product would leave mostly empty. Grids of several products have one tile, and are one launch (side_by_side).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lumigen.condition import Cmp
from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, ix
from lumigen.lower.built import Built, check
from lumigen.lower.contract import Contraction, as_operand
from lumigen.lower.mapped import BOX, Mapped
from lumigen.lower.pipeline import LANES, Flat, are_counted, for_tile
from lumigen.lower.scope import Names, Scope, address
from lumigen.lower.side_by_side import grids_of
from lumigen.lower.simt import dims_of
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Region, Role, Store
from lumigen.schedule import Schedule, schedule
from lumigen.tile import BlockTile, Contract, TensorMap, TileKind, TileProgram

SITES = ("rows", "columns", "stages", "cluster", "split", "blocks", "turned")


class Tile(NamedTuple):
    """How a block divides a product, and how much of the instruction's rate it reaches, in 100.

    Larger tiles read less for a product. Where `split` is 0 the blocks stay; others end with their tile.
    """

    rows: int
    columns: int
    stages: int
    cluster: int
    split: int
    blocks: int
    turned: bool
    rate: int

    @property
    def sizes(self) -> Schedule:
        return schedule("roles", {site: int(getattr(self, site)) for site in SITES})


TILES = (
    Tile(128, 256, 4, 2, 0, 1, False, 100),
    Tile(128, 224, 4, 2, 0, 1, False, 99),
    Tile(128, 192, 4, 2, 0, 1, False, 97),
    Tile(128, 128, 6, 2, 0, 1, False, 92),
    Tile(128, 128, 6, 1, 0, 1, False, 84),
    Tile(64, 256, 4, 1, 0, 1, False, 72),
    Tile(64, 128, 6, 1, 0, 1, False, 60),
    Tile(128, 256, 4, 1, 2, 1, False, 100),
    Tile(64, 128, 4, 1, 1, 2, False, 60),
    Tile(64, 96, 10, 1, 2, 1, False, 55),
    Tile(64, 64, 12, 1, 2, 1, False, 45),
    Tile(128, 64, 4, 1, 1, 2, True, 55),
    Tile(128, 64, 8, 1, 2, 1, True, 50),
    *(
        Tile(128, columns, stages, 1, split, 2, True, 50)
        for columns, stages in ((32, 5), (16, 6), (8, 6))
        for split in (1, 2)
    ),
    *(
        Tile(64, columns, stages, 1, split, 2, True, 45)
        for columns, stages in ((32, 9), (16, 10))
        for split in (1, 2)
    ),
)
EXCHANGE = 1024  # of depth, that could be multiplied while the parts of a tile are added
MULTIPROCESSORS = 132
IN_FLIGHT = 5e6  # elements that are on their way where all that memory gives is used
ELEMENT = 233  # products that a multiprocessor could do while its share of memory gives an element
AGAIN = 0.05  # what an element costs that another tile has read, too: it comes from the cache
NARROW = 0.93  # how fast tiles of 64 rows read, beside those of 128
ALONE = (
    1.2  # how much more than its share a multiprocessor takes in while others have nothing to do
)
EMPTY = 0.5  # how much slower tiles read that hold next to nothing
LEAVING = 170  # products in the time that an element of the result takes on its way out
# Up to how many rows of a product a kernel is for, and for how many its tile is chosen if typical ones are others.
ROWS: tuple[tuple[int | None, int], ...] = ((16, 8), (256, 128), (None, 2048))
BEGINNING = 9e6  # products of a multiprocessor while a block begins and ends
THREADS = 384  # a warpgroup that produces, two that consume


@dataclass(frozen=True)
class Fetched:
    """A product whose operands a tensor copy engine fetches, as `mapped`, and the store after it."""

    found: Contraction
    store: Store
    flat: Flat
    mapped: tuple[Mapped, Mapped]

    def turned(self) -> Fetched:
        """With rows and columns exchanged."""
        a, b = self.mapped
        return replace(self, flat=self.flat.turned(), mapped=(b, a))

    @property
    def can_turn(self) -> bool:
        """Whether rows can be the lanes: neighbours of a column are stored together then."""
        at = tuple(i.substitute(self.flat.mapping) for i in self.store.at)
        return address(self.store.dst, at).coefficient(self.flat.m) is not None


def schedules(plan: KernelPlan) -> tuple[tuple[tuple[Cmp, ...], Schedule], ...]:
    """How products lie on Hopper, for few rows and for many: schedules, each where conditions hold.

    None where the plan has other steps, or operands that a tensor copy engine does not fetch.
    """
    try:
        each = tuple(map(_fetched, grids_of(plan)))
    except NotRealised:
        return ()
    rows_of = each[0].flat.m.extent
    if any(x.flat.m.extent != rows_of for x in each):
        return ()
    out: list[tuple[tuple[Cmp, ...], Schedule]] = []
    for most, rows in _numbers_of_rows(rows_of):
        sizes = _tile(each, rows).sizes
        if len(each) > 1:
            sizes = Schedule("side_by_side", (), parts=(sizes,) * len(each))
        if out and out[-1][1] == sizes:
            out.pop()  # the same for more rows
        conditions = () if most is None else (Cmp(most - rows_of),)
        out.append((conditions, sizes))
    return tuple(out)


def _fetched(plan: KernelPlan) -> Fetched:
    """The product of a plan of one; NotRealised where a tensor copy engine does not fetch its operands."""
    found, store = Contraction.of(plan)
    if not are_counted(found.m_axes, found.n_axes, found.reduce.axes):
        raise NotRealised("a product with more rows, columns or depth than an int counts")
    flat = Flat.of(found)
    a = Mapped.of(flat.rows, flat.m, flat.k, found.grid)
    b = Mapped.of(flat.columns, flat.n, flat.k, found.grid)
    if a is None or b is None or a.source.dtype is not b.source.dtype:
        raise NotRealised("an operand that a tensor copy engine does not fetch")
    if a.shared() is None or b.shared() is None:
        raise NotRealised("an operand whose batches no quotient numbers")
    return Fetched(found, store, flat, (a, b))


def roles(plan: KernelPlan, sizes: Schedule) -> Built:
    """The kernel of a plan of one product of operands that are fetched; NotRealised where it is of another form."""
    check(sizes, SITES)
    fetched = _fetched(plan)
    tile = next((t for t in TILES if t.sizes == sizes), None)
    if tile is None:
        raise NotRealised("a tile that the device's headers do not have")
    if not _fits(tile, fetched) or (tile.turned and not fetched.can_turn):
        raise NotRealised("a tile that copies of an operand do not divide")
    own = fetched.turned() if tile.turned else fetched
    return Built(_program(plan.region, own, sizes), plan.region)


def _numbers_of_rows(extent: Ix) -> list[tuple[int | None, int]]:
    """(up to how many rows, for how many of them a tile is chosen): the typical number decides where it lies."""
    least, most = extent.bounds()
    typical = extent.estimate()
    out: list[tuple[int | None, int]] = []
    before = 0
    for last, middle in ROWS:
        if (least is None or last is None or least <= last) and (most is None or most > before):
            inside = before < typical and (last is None or typical <= last)
            out.append((last, typical if inside else min(middle, most or middle)))
        before = last or before
    return [*out[:-1], (None, out[-1][1])]


@dataclass(frozen=True)
class _Sizes:
    """A product at the dims' typical values, but for m rows, and how many elements its operands have."""

    m: int
    n: int
    k: int
    batch: int
    a: int
    b: int

    @staticmethod
    def of(x: Fetched, m: int) -> _Sizes:
        n, k = x.flat.n.extent.estimate(), x.flat.k.extent.estimate()
        a, b = (operand.source_elements() for operand in x.mapped)
        a = a * m // x.flat.m.extent.estimate()
        return _Sizes(m, n, k, extent_of(x.found.grid).estimate(), a, b)

    def turned(self) -> _Sizes:
        return _Sizes(self.n, self.m, self.k, self.batch, self.b, self.a)

    def tiles(self, t: Tile) -> int:
        return -(-self.m // (t.rows * t.cluster)) * -(-self.n // t.columns) * self.batch

    def fetched(self, t: Tile) -> float:
        """Elements that are read, of which those that tiles share come from the cache but once."""
        again = (
            -(-self.n // t.columns),
            -(-self.m // t.rows),
        )  # how often rows are read, and columns
        each = zip((self.a, self.b), again, strict=True)
        return sum(x * (1 + AGAIN * (times - 1)) for x, times in each)


def _tile(each: Sequence[Fetched], m: int) -> Tile:
    """The tile that takes the least time for m rows, else at the dims' typical values, in products of a multiprocessor.

    Either the products decide, in rounds of all multiprocessors, or what is read, each element once.
    """
    plain = [_Sizes.of(x, m) for x in each]
    k = max(x.k for x in plain)

    def time(t: Tile) -> float:
        products = [x.turned() for x in plain] if t.turned else plain
        tiles = sum(x.tiles(t) for x in products)
        together = t.cluster * max(1, t.split)  # blocks of a cluster
        rounds = -(-tiles // (MULTIPROCESSORS * t.blocks // together))
        depth = k // t.split + EXCHANGE if t.split > 1 else k
        shared = min(
            t.blocks, -(-tiles * together // MULTIPROCESSORS)
        )  # blocks of a multiprocessor
        multiplied = rounds * shared * t.rows * t.columns * (depth * 100 / t.rate + LEAVING)
        down, across = max(x.m for x in products), max(x.n for x in products)
        held = min(t.rows, down) + min(t.columns, across)  # the rest is outside the operands
        in_flight = min(tiles * together, MULTIPROCESSORS * t.blocks) * t.stages * BOX * held
        busy = min(1.0, (in_flight / IN_FLIGHT) ** 0.5) * (NARROW if t.rows == 64 else 1.0)
        busy *= min(1.0, ALONE * tiles * together / MULTIPROCESSORS) ** 0.5
        empty = 1 + EMPTY * (1 - held / (t.rows + t.columns))
        elements = sum(x.fetched(t) for x in products)
        fetched = elements * ELEMENT / MULTIPROCESSORS / busy * empty
        return max(multiplied, fetched) + (rounds if t.split else 1) * BEGINNING

    can_turn = all(x.can_turn for x in each)
    turning = (t for t in TILES if not t.turned or (can_turn and m <= t.columns))
    return min((t for t in turning if all(_fits(t, x) for x in each)), key=time)


def _fits(t: Tile, x: Fetched) -> bool:
    """Along the majors boxes are 64 of them: the blocks of a cluster and the consumers have whole ones."""
    b = x.mapped[0 if t.turned else 1]
    consumers = 2 if t.rows == 64 else 1
    return b.is_deep or (t.columns % (64 * consumers) == 0 and t.columns % 128 == 0)


def _program(region: Region, of: Fetched, sizes: Schedule) -> TileProgram:
    found, store, flat = of.found, of.store, of.flat
    m, n, k = flat.m, flat.n, flat.k
    rows, columns, cluster = sizes["rows"], sizes["columns"], sizes["cluster"]
    m_tiles, n_tiles = ceildiv(m.extent, rows * cluster), ceildiv(n.extent, columns)
    batch = Axis("batch", extent_of(found.grid))
    task = Axis("task", batch.extent * m_tiles * n_tiles)

    top = Scope(Names(), frozenset({task}))  # its place first: the device's header knows it
    m0, n0 = Axis("m0", m.extent), Axis("n0", n.extent)
    top.bind(m0, ix(task) % m_tiles * (rows * cluster))
    top.bind(n0, ix(task) // m_tiles % n_tiles * columns)
    top.bind(batch, ix(task) // m_tiles // n_tiles)
    top.spread(batch, found.grid)

    a, b = of.mapped
    maps = _map("map_a", a, rows), _map("map_b", b, columns // cluster)
    acc = Buffer("acc", Role.SCRATCH, (ix(rows * cluster), ix(columns)), f32)
    factors = as_operand(flat.rows, m, k), as_operand(flat.columns, n, k)
    whole = ix(0), k.extent
    start, names = (ix(m0), ix(n0)), tuple(t.name for t in maps)
    element = a.source.dtype
    top.stmts.append(Contract(acc, *factors, m, n, k, *start, *whole, element, maps=names))
    top.stmts.append(for_tile(top, store, found, flat, acc, (m0, n0)))
    kind = TileKind.SPLIT if sizes["split"] else TileKind.ROLES
    more = ("split", "blocks") if sizes["split"] else ("cluster",)
    each = tuple((s, sizes[s]) for s in ("rows", "columns", "stages", *more))
    return TileProgram(
        "roles",
        (*region.reads(), store.dst),
        dims_of(region),
        task,
        task.extent,
        (acc,),
        tuple(top.stmts),
        threads=THREADS,
        width=_width(sizes),
        tile=BlockTile(kind, each, element, (a.is_deep, b.is_deep)),
        maps=maps,
    )


def _width(sizes: Schedule) -> int:
    """Neighbours that a thread has at a time: two where no two threads can exchange theirs."""
    return 2 if sizes["turned"] or sizes["columns"] % (32 * max(1, sizes["split"])) else LANES


def _map(name: str, operand: Mapped, lines: int) -> TensorMap:
    shared = operand.shared()
    assert shared is not None, "asked before"
    batches, share = shared
    return operand.boxes(name, lines, (batches,), share)
