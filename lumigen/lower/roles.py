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
of a product would leave mostly empty.
"""

from __future__ import annotations

from lumigen.condition import Cmp
from lumigen.dtype import bf16, f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, ix
from lumigen.lower.built import Built, check
from lumigen.lower.contract import Contraction, as_operand
from lumigen.lower.mapped import Mapped
from lumigen.lower.pipeline import Flat, are_counted, for_tile
from lumigen.lower.scope import Names, Scope, address
from lumigen.lower.simt import dims_of
from lumigen.machine import ClusterTile, Copies, Gpu
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Region, Role, Store
from lumigen.schedule import Schedule, schedule
from lumigen.tile import BlockTile, Contract, TensorMap, TileKind, TileProgram

SITES = ("rows", "columns", "stages", "cluster", "split", "blocks", "turned")


def sizes_of(t: ClusterTile) -> Schedule:
    """The schedule of a tile."""
    return schedule("roles", {site: int(getattr(t, site)) for site in SITES})


def schedules(plan: KernelPlan, machine: Gpu) -> tuple[tuple[tuple[Cmp, ...], Schedule], ...]:
    """How a product lies on Hopper, for few rows and for many: schedules, each where conditions hold.

    None where the plan has other steps, or operands that a tensor copy engine does not fetch.
    """
    copies = machine.copies
    if copies is None:
        return ()
    try:
        found, store, flat, mapped = _fetched(plan)
    except NotRealised:
        return ()
    can_turn = _can_turn(store, flat)
    out: list[tuple[tuple[Cmp, ...], Schedule]] = []
    for most, rows in _numbers_of_rows(flat.m.extent, copies):
        sizes = _schedule(found, flat, mapped, rows, machine, can_turn=can_turn)
        if out and out[-1][1] == sizes:
            out.pop()  # the same for more rows
        conditions = () if most is None else (Cmp(most - flat.m.extent),)
        out.append((conditions, sizes))
    return tuple(out)


def _can_turn(store: Store, flat: Flat) -> bool:
    """Whether rows can be the lanes: neighbours of a column are stored together then."""
    place = address(store.dst, tuple(i.substitute(flat.mapping) for i in store.at))
    return place.coefficient(flat.m) is not None


def _fetched(plan: KernelPlan) -> tuple[Contraction, Store, Flat, tuple[Mapped, Mapped]]:
    """The product of a plan, and its operands as a tensor copy engine fetches them."""
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
    return found, store, flat, (a, b)


def roles(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a plan of one product of operands that are fetched; NotRealised where it is of another form."""
    check(sizes, SITES)
    found, store, flat, mapped = _fetched(plan)
    copies = machine.copies
    tile = next((t for t in tiles_of(machine) if sizes_of(t) == sizes), None)
    if copies is None or tile is None:
        raise NotRealised("a tile that the device's headers do not have")
    if not _fits(tile, mapped, copies) or (tile.turned and not _can_turn(store, flat)):
        raise NotRealised("a tile that copies of an operand do not divide")
    if sizes["turned"]:
        flat, mapped = flat.turned(), (mapped[1], mapped[0])
    program = _program(plan.region, store, found, flat, mapped, sizes, machine)
    return Built(program, plan.region)


def tiles_of(machine: Gpu) -> list[ClusterTile]:
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


def _schedule(
    found: Contraction,
    flat: Flat,
    mapped: tuple[Mapped, Mapped],
    m: int,
    machine: Gpu,
    *,
    can_turn: bool,
) -> Schedule:
    """The tile that takes the least time for m rows, else at the dims' typical values, in products of a multiprocessor.

    Either the products decide, in rounds of all multiprocessors, or what is read, each element once.
    """
    copies, count = machine.copies, machine.multiprocessors
    assert copies is not None, "asked before"
    n, k = flat.n.extent.estimate(), flat.k.extent.estimate()
    a, b = (x.source_elements() for x in mapped)
    a = a * m // flat.m.extent.estimate()
    batch = extent_of(found.grid).estimate()

    def time(t: ClusterTile) -> float:
        down, across = (n, m) if t.turned else (m, n)
        tiles = -(-down // (t.rows * t.cluster)) * -(-across // t.columns) * batch
        together = t.cluster * max(1, t.split)  # blocks of a cluster
        rounds = -(-tiles // (count * t.blocks // together))
        depth = k // t.split + copies.exchange if t.split > 1 else k
        shared = min(t.blocks, -(-tiles * together // count))  # blocks of a multiprocessor
        multiplied = rounds * shared * t.rows * t.columns * (depth * 100 / t.rate + copies.leaving)
        held = min(t.rows, down) + min(t.columns, across)  # the rest is outside the operands
        in_flight = min(tiles * together, count * t.blocks) * t.stages * copies.box * held
        busy = min(1.0, (in_flight / copies.in_flight) ** 0.5)
        busy *= copies.narrow if t.rows == copies.warpgroup_rows else 1.0
        busy *= min(1.0, copies.alone * tiles * together / count) ** 0.5
        empty = 1 + copies.empty * (1 - held / (t.rows + t.columns))
        again = -(-across // t.columns), -(-down // t.rows)  # how often rows are read, and columns
        operands = (b, a) if t.turned else (a, b)
        elements = sum(
            x * (1 + copies.again * (times - 1)) for x, times in zip(operands, again, strict=True)
        )
        fetched = elements * copies.element / count / busy * empty
        return max(multiplied, fetched) + (rounds if t.split else 1) * copies.beginning

    turning = (t for t in tiles_of(machine) if not t.turned or (can_turn and m <= t.columns))
    fitting = (t for t in turning if _fits(t, mapped, copies))
    return sizes_of(min(fitting, key=time))


def _fits(t: ClusterTile, mapped: tuple[Mapped, Mapped], copies: Copies) -> bool:
    """Along the majors boxes are whole: the blocks of a cluster and the consumers have whole ones."""
    b = mapped[0 if t.turned else 1]
    consumers = 2 if t.rows == copies.warpgroup_rows else 1
    box = copies.box
    return b.is_deep or (t.columns % (box * consumers) == 0 and t.columns % (2 * box) == 0)


def _program(
    region: Region,
    store: Store,
    found: Contraction,
    flat: Flat,
    mapped: tuple[Mapped, Mapped],
    sizes: Schedule,
    machine: Gpu,
) -> TileProgram:
    copies = machine.copies
    assert copies is not None, "asked before"
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

    a, b = mapped
    acc = Buffer("acc", Role.SCRATCH, (ix(rows * cluster), ix(columns)), f32)
    factors = as_operand(flat.rows, m, k), as_operand(flat.columns, n, k)
    whole = ix(0), k.extent
    top.stmts.append(Contract(acc, *factors, m, n, k, ix(m0), ix(n0), *whole, a.source.dtype))
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
        tile=BlockTile(kind, each, a.source.dtype, tuple(x.is_deep for x in mapped)),
        maps=(
            _map("map_a", a, rows, copies.box),
            _map("map_b", b, columns // cluster, copies.box),
        ),
    )


def _width(sizes: Schedule, machine: Gpu) -> int:
    """Neighbours that a thread has at a time: two where no two threads can exchange theirs."""
    alone = sizes["columns"] % (machine.teams.warp * max(1, sizes["split"])) != 0
    return 2 if sizes["turned"] or alone else machine.products.stored


def _map(name: str, operand: Mapped, lines: int, box: int) -> TensorMap:
    shared = operand.shared()
    assert shared is not None, "asked before"
    batches, share = shared
    return operand.boxes(name, lines, box, (batches,), share)
