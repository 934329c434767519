"""roles: the skeleton of one contraction of 16-bit operands for Hopper, whose blocks stay and take tile after tile.

Before: a region whose value holds one contraction over all of the store's axes, of two operands that a tensor copy
engine can fetch: read as memory holds them, contiguous along the depth or along the rows or columns, their lines and
batches whole multiples of 16 bytes apart. Conditions may say where they are zero instead.  After: a tile program in
which a cluster of blocks computes a tile of the product, a producer bringing boxes of the operands into shared memory
and consumers multiplying them, and applies the rest of the expression to the elements of the tile.

Sites: `rows` and `columns` of a block's tile, `stages` in the ring, and `cluster` blocks, one below the other, that
share columns. A task is the tile of a cluster; that blocks stay for several is the device header's business. With
`split`, where tiles are few and the depth is long, so many blocks have one tile together, each a part of the depth;
`blocks` of these share a multiprocessor. With `turned` the product's columns are the rows of the tile, which few rows
of a product would leave mostly empty. Grids of several products have one tile, and are one launch (side_by_side).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lumigen.block_tile import BlockTile, TileKind
from lumigen.condition import Cmp
from lumigen.dtype import bf16, f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, ix
from lumigen.lower.built import Built, check
from lumigen.lower.contract import Contraction
from lumigen.lower.im2col import Pixels, Tapped, find_windows
from lumigen.lower.mapped import Mapped
from lumigen.lower.masks import Masks, unmasked_factor
from lumigen.lower.operands import as_operand
from lumigen.lower.pipeline import Flat, are_counted, for_tile
from lumigen.lower.scope import Names, Scope, address, is_safe
from lumigen.lower.side_by_side import grids_of
from lumigen.lower.simt import dims_of
from lumigen.lower.tile_time import fastest, small_tile
from lumigen.machine import ClusterTile, Copies, StreamingGpu
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Expr, Region, Role, Store
from lumigen.schedule import Schedule, schedule
from lumigen.tile import Contract, TileProgram

SITES = ("rows", "columns", "stages", "cluster", "split", "blocks", "turned")
Operand = Mapped | Pixels | Tapped


def sizes_of(t: ClusterTile) -> Schedule:
    """The schedule of a tile."""
    return schedule("roles", {site: int(getattr(t, site)) for site in SITES})


@dataclass(frozen=True)
class Fetched:
    """A product whose operands a tensor copy engine fetches, as `mapped`, and the store after it."""

    found: Contraction
    store: Store
    flat: Flat
    mapped: tuple[Operand, Operand]

    def turned(self) -> Fetched:
        """With rows and columns exchanged."""
        a, b = self.mapped
        return replace(self, flat=self.flat.turned(), mapped=(b, a))

    @cached_property
    def masks(self) -> Masks:
        """Where its operands are zero."""
        return self.flat.masks

    @property
    def can_turn(self) -> bool:
        """Whether rows can be the lanes: neighbours of a column are stored together then."""
        at = tuple(i.substitute(self.flat.mapping) for i in self.store.at)
        return address(self.store.dst, at).coefficient(self.flat.m) is not None


def schedules(
    plan: KernelPlan, machine: StreamingGpu
) -> tuple[tuple[tuple[Cmp, ...], Schedule], ...]:
    """How products lie on Hopper, for few rows and for many: schedules, each where conditions hold.

    None where the plan has other steps, or operands that a tensor copy engine does not fetch; nor where products are
    so small that blocks should not stay.
    """
    copies = machine.copies
    if copies is None:
        return ()
    try:
        each = tuple(_fetched(one, copies) for one in grids_of(plan))
    except NotRealised:
        return ()
    if len(each) == 1 and small_tile(each[0].found, each[0].mapped[0].source.dtype, machine):
        return ()
    rows_of = each[0].flat.m.extent
    # grids side by side have one form of tile, whose operands lie alike
    forms = {
        (x.flat.m.extent, x.mapped[0].source.dtype, *((o.is_deep, type(o)) for o in x.mapped))
        for x in each
    }
    if len(forms) > 1 or (len(each) > 1 and any(x.masks.both for x in each)):
        return ()
    out: list[tuple[tuple[Cmp, ...], Schedule]] = []
    chosen = [(most, n, _tile(each, n, machine)) for most, n in _numbers_of_rows(rows_of, copies)]
    if len(each) == 1 and all(_is_idle(tile, each[0], n, machine) for _, n, tile in chosen):
        return ()
    for most, _, tile in chosen:
        sizes = sizes_of(tile)
        if len(each) > 1:
            sizes = Schedule("side_by_side", (), parts=(sizes,) * len(each))
        if out and out[-1][1] == sizes:
            out.pop()  # the same for more rows
        conditions = () if most is None else (Cmp(most - rows_of),)
        out.append((conditions, sizes))
    return tuple(out)


def _fetched(plan: KernelPlan, copies: Copies) -> Fetched:
    """The product of a plan of one; NotRealised where a tensor copy engine does not fetch its operands."""
    found, store = Contraction.of(plan)
    if not are_counted(found.m_axes, found.n_axes, found.reduce.axes):
        raise NotRealised("a product with more rows, columns or depth than an int counts")
    flat = Flat.of(found)
    mapped = _mapped(found, flat) or find_windows(found, copies)
    if mapped is None:
        raise NotRealised("an operand that a tensor copy engine does not fetch")
    return Fetched(found, store, flat, mapped)


def _mapped(found: Contraction, flat: Flat) -> tuple[Mapped, Mapped] | None:
    """Both operands, where memory has them in lines and a quotient numbers their batches."""
    rows, columns = map(_fetchable, (flat.rows, flat.columns))
    a = Mapped.of(rows, flat.m, flat.k, found.grid)
    b = Mapped.of(columns, flat.n, flat.k, found.grid)
    if a is None or b is None or a.source.dtype is not b.source.dtype:
        return None
    return None if a.shared() is None or b.shared() is None else (a, b)


def _fetchable(value: Expr) -> Expr:
    """What memory holds of an operand, if it holds all of it: elements may be zero instead."""
    inner, conditions = unmasked_factor(value)
    return inner if conditions and is_safe(inner) else value


def roles(plan: KernelPlan, sizes: Schedule, machine: StreamingGpu) -> Built:
    """The kernel of a plan of one product of operands that are fetched; NotRealised where it is of another form."""
    check(sizes, SITES)
    copies = machine.copies
    tile = next((t for t in tiles_of(machine) if sizes_of(t) == sizes), None)
    if copies is None or tile is None:
        raise NotRealised("a tile that the device's headers do not have")
    fetched = _fetched(plan, copies)
    if not _fits(tile, fetched, copies) or (tile.turned and not fetched.can_turn):
        raise NotRealised("a tile that copies of an operand do not divide")
    own = fetched.turned() if tile.turned else fetched
    return Built(_program(plan.region, own, sizes, machine), plan.region)


def tiles_of(machine: StreamingGpu) -> list[ClusterTile]:
    """The tiles of the headers whose rings fit the shared memory that a block has."""
    copies = machine.copies
    if copies is None:
        return []
    line = copies.box * bf16.itemsize
    rings = [(t, t.stages * (t.rows + t.columns) * line) for t in copies.tiles]
    return [t for t, ring in rings if ring <= machine.shared_bytes]


def _numbers_of_rows(extent: Ix, copies: Copies) -> list[tuple[int | None, int]]:
    """(up to how many rows, for how many of them a tile is chosen): the typical number decides where it lies."""
    least, most = extent.bounds()
    typical = extent.estimate()
    out: list[tuple[int | None, int]] = []
    before = 0
    for last, middle in copies.rows:
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

    def tiles(self, t: ClusterTile) -> int:
        return -(-self.m // (t.rows * t.cluster)) * -(-self.n // t.columns) * self.batch

    def fetched(self, t: ClusterTile, again: float) -> float:
        """Elements that are read; `again` is what another read of one costs, from the cache."""
        times = (
            -(-self.n // t.columns),
            -(-self.m // t.rows),
        )  # how often rows are read, and columns
        return sum(x * (1 + again * (n - 1)) for x, n in zip((self.a, self.b), times, strict=True))


def _tile(each: Sequence[Fetched], m: int, machine: StreamingGpu) -> ClusterTile:
    """The tile that takes the least time for m rows, else at the dims' typical values, in products of a multiprocessor.

    Either the products decide, in rounds of all multiprocessors, or what is read, each element once.
    """
    copies, count = machine.copies, machine.multiprocessors
    assert copies is not None, "asked before"
    plain = [_Sizes.of(x, m) for x in each]
    walks = any(isinstance(o, Pixels) for x in each for o in x.mapped)
    k = max(x.k for x in plain)

    def share(x: Fetched, t: ClusterTile) -> float:
        own = x.turned() if t.turned else x
        return own.masks.share(t.rows * t.cluster, t.columns)

    def time(t: ClusterTile) -> float:
        products = [x.turned() for x in plain] if t.turned else plain
        tiles = sum(x.tiles(t) for x in products)
        reached = share(each[0], t)
        together = t.cluster * max(1, t.split)  # blocks of a cluster
        rounds = -(-tiles // (count * t.blocks // together))
        depth = k // t.split + copies.exchange if t.split > 1 else k * reached
        shared = min(t.blocks, -(-tiles * together // count))  # blocks of a multiprocessor
        rate = t.rate * (copies.windows.together if walks and t.cluster > 1 else 1.0)
        multiplied = rounds * shared * t.rows * t.columns * (depth * 100 / rate + copies.leaving)
        down, across = max(x.m for x in products), max(x.n for x in products)
        held = min(t.rows, down) + min(t.columns, across)  # the rest is outside the operands
        useful = min(t.cluster, -(-down // t.rows)) * max(
            1, t.split
        )  # of a cluster: that have rows
        useful *= min(tiles, count * t.blocks // together)
        in_flight = useful * t.stages * copies.box * held
        busy = min(1.0, (in_flight / copies.in_flight) ** 0.5)
        busy *= copies.narrow if t.rows == copies.warpgroup_rows else 1.0
        busy *= min(1.0, copies.alone * useful / count) ** 0.5
        empty = 1 + copies.empty * (1 - held / (t.rows + t.columns))
        elements = sum(x.fetched(t, copies.again) for x in products) * reached
        fetched = elements * copies.element / count / busy * empty
        return max(multiplied, fetched) + (rounds if t.split else 1) * copies.beginning

    can_turn = all(x.can_turn for x in each)
    turning = (t for t in tiles_of(machine) if not t.turned or (can_turn and m <= t.columns))
    return min((t for t in turning if all(_fits(t, x, copies) for x in each)), key=time)


def _is_idle(t: ClusterTile, x: Fetched, m: int, machine: StreamingGpu) -> bool:
    """Whether a tile leaves most of a device idle, which parts of a long depth keep busy in other kernels."""
    if x.flat.k.extent.estimate() < machine.products.long_part:
        return False
    sizes = _Sizes.of(x, m).turned() if t.turned else _Sizes.of(x, m)
    blocks = sizes.tiles(t) * t.cluster * max(1, t.split)
    (other,) = fastest((x.found,), x.mapped[0].source.dtype, machine)
    return machine.division.idle * blocks < min(machine.multiprocessors, other["parts_of"])


def _fits(t: ClusterTile, x: Fetched, copies: Copies) -> bool:
    """Along the majors boxes are whole: the blocks of a cluster and the consumers have whole ones."""
    b = x.mapped[0 if t.turned else 1]
    consumers = 2 if t.rows == copies.warpgroup_rows else 1
    box = copies.box
    if t.split and x.masks.both:
        return False  # blocks that share a tile have the same part of each tile's depth
    return b.is_deep or (t.columns % (box * consumers) == 0 and t.columns % (2 * box) == 0)


def _program(region: Region, of: Fetched, sizes: Schedule, machine: StreamingGpu) -> TileProgram:
    copies = machine.copies
    assert copies is not None, "asked before"
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
    maps = (
        a.map("map_a", rows, copies.box),
        b.map("map_b", columns // cluster, copies.box),
    )
    acc = Buffer("acc", Role.SCRATCH, (ix(rows * cluster), ix(columns)), f32)
    factors = as_operand(flat.rows, m, k), as_operand(flat.columns, n, k)
    start, names = (ix(m0), ix(n0)), tuple(t.name for t in maps)
    size, element = (rows * cluster, columns), a.source.dtype
    contract = Contract(
        acc,
        *factors,
        m,
        n,
        k,
        *start,
        *of.masks.reach(*start, *size, copies.box),
        element,
        maps=names,
    )
    if of.masks.both:
        masks = of.masks.rows, of.masks.columns
        contract = replace(contract, masks=masks, whole=of.masks.whole(*start, *size))
    top.stmts.append(contract)
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
        threads=3 * copies.warpgroup,  # one produces, two consume
        width=_width(sizes, machine),
        tile=BlockTile(kind, each, element, (a.is_deep, b.is_deep)),
        maps=maps,
    )


def _width(sizes: Schedule, machine: StreamingGpu) -> int:
    """Neighbours that a thread has at a time: two where no two threads can exchange theirs."""
    alone = sizes["columns"] % (machine.teams.warp * max(1, sizes["split"])) != 0
    return 2 if sizes["turned"] or alone else machine.products.stored
