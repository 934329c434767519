"""pipeline: the skeleton of one contraction with a map behind it, for blocks of threads with matrix instructions.

Before: a region whose value holds one contraction over all of the store's axes.  After: a tile program in which a
block computes a tile of the product in registers, its operands coming through a ring of stages in shared memory,
and applies the rest of the expression to the elements of the tile.

Sites: `rows` and `columns` of a tile, `depth` of a stage; `stages` in the ring and `warp_rows` by `warp_columns` warps
with matrix instructions, or `thread_rows` by `thread_columns` products of a thread, in which f32 stays f32. With
`parts_of`, where tiles are few and the depth is long, blocks have a tile together, each a part of the depth: as many as
come to about so many blocks in all. The last of them adds what they have, in order, and goes on to the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.dtype import DType, f32, i32
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, maximum, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.contract import Contraction, as_operand, flatten, number
from lumigen.lower.scope import Names, Scope, loops_by_value, moved
from lumigen.lower.simt import dims_of
from lumigen.lower.tile_time import LEAST_STEPS, MOST_PARTS
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import (
    Buffer,
    Expr,
    Local,
    Read,
    Region,
    Role,
    Store,
    const,
    local,
    map_expr,
    substitute,
)
from lumigen.schedule import Schedule
from lumigen.tile import (
    BlockTile,
    Contract,
    ForTile,
    StoreTile,
    TileKind,
    TileProgram,
    WhenSummed,
)

MATRIX_SITES = ("rows", "columns", "depth", "stages", "warp_rows", "warp_columns")
SCALAR_SITES = ("rows", "columns", "depth", "thread_rows", "thread_columns")
MOST = 2**31 - 2**16
LANES = 4  # neighbours of a row that one thread stores


def pipeline(plan: KernelPlan, sizes: Schedule) -> Built:
    """The kernel of a plan of one product and the store after it; NotRealised where it has other steps."""
    scalar = bool(sizes.get("thread_rows", 0))
    check(sizes, (*(SCALAR_SITES if scalar else MATRIX_SITES), "parts_of"))
    found, store = Contraction.of(plan)
    if not are_counted(found.m_axes, found.n_axes, found.reduce.axes):
        raise NotRealised("a product with more rows, columns or depth than an int counts")
    flat = Flat.of(found)
    if scalar != (multiplied_in(flat.rows, flat.columns) is f32):
        raise NotRealised("matrix instructions for products of f32, or none for others")
    region = plan.region
    if not sizes["parts_of"]:
        return Built(_program(region, store, found, flat, sizes, None), region)
    parts = Parts.of(region, _tiles(found, flat, sizes), flat, sizes)
    counted = Axis("tile", parts.arrived.dims[0])
    none = Store(parts.arrived, (counted,), (ix(counted),), const(0, i32))
    meaning = Region((store, none), region.lines)
    program = _program(region, store, found, flat, sizes, parts)
    return Built(program, meaning, temps=(parts.sums,))


def are_counted(*groups: tuple[Axis, ...]) -> bool:
    """Whether an int of the device's headers counts the points of each group of axes, and a tile beyond them."""
    most = (extent_of(axes).bounds()[1] for axes in groups)
    return all(n is not None and n < MOST for n in most)


@dataclass(frozen=True)
class Parts:
    """How blocks have tiles together: `count` of them each, which the launch works out of `wanted`.

    `sums` is where they keep what they have, none where a tile is one block's; `arrived` counts them, tile by tile.
    """

    count: Ix
    wanted: Ix
    sums: Buffer
    arrived: Buffer

    @staticmethod
    def of(region: Region, tiles: Ix, flat: Flat, sizes: Schedule) -> Parts:
        blocks, steps = sizes["parts_of"], ceildiv(flat.k.extent, sizes["depth"])
        most = maximum(1, minimum(MOST_PARTS, steps // LEAST_STEPS))
        wanted = minimum(most, maximum(1, blocks // maximum(1, tiles)))
        count = wanted if wanted.is_const else ix(number("parts", wanted, dims_of(region)))
        several = minimum(1, wanted - 1)
        rows = minimum(flat.m.extent, sizes["rows"])
        dims = (tiles * several, wanted, rows, ix(sizes["columns"]))
        sums = Buffer("sums", Role.WORKSPACE, dims, f32)
        arrived = Buffer("arrived", Role.COUNTER, (ix(blocks // 2),), i32, (0, 0))
        return Parts(count, wanted, sums, arrived)

    @property
    def numbers(self) -> tuple[tuple[Dim, Ix], ...]:
        return tuple((a, self.wanted) for a in self.count.atoms() if isinstance(a, Dim))

    def share(self, part: Ix, k: Axis, depth: int) -> tuple[Ix, Ix]:
        """From where to where a part goes: whole stages, as many as its neighbours, or one more."""
        steps = ceildiv(k.extent, depth)
        lo, hi = (steps * p // self.count * depth for p in (part, part + 1))
        return lo, minimum(hi, k.extent)


def _tiles(found: Contraction, flat: Flat, sizes: Schedule) -> Ix:
    m_tiles, n_tiles = (
        ceildiv(axis.extent, sizes[site]) for axis, site in ((flat.m, "rows"), (flat.n, "columns"))
    )
    return extent_of(found.grid) * m_tiles * n_tiles


def _program(
    region: Region,
    store: Store,
    found: Contraction,
    flat: Flat,
    sizes: Schedule,
    parts: Parts | None,
) -> TileProgram:
    m, n, k = flat.m, flat.n, flat.k
    m_tiles, n_tiles = ceildiv(m.extent, sizes["rows"]), ceildiv(n.extent, sizes["columns"])
    tiles = _tiles(found, flat, sizes)
    task = Axis("task", tiles if parts is None else tiles * parts.count)

    top = Scope(Names(), frozenset({task}))
    tile, part, lo, hi = ix(task), ix(0), ix(0), k.extent
    if parts is not None:
        axes = Axis("tile", tiles), Axis("part", parts.count)
        top.spread(ix(task), axes)
        tile, part = map(ix, axes)
        lo, hi = parts.share(part, k, sizes["depth"])
    m0, n0 = Axis("m0", m.extent), Axis("n0", n.extent)
    top.bind(m0, tile % m_tiles * sizes["rows"])  # blocks side by side share columns
    top.bind(n0, tile // m_tiles % n_tiles * sizes["columns"])
    top.spread(tile // m_tiles // n_tiles, found.grid)

    acc = Buffer("acc", Role.SCRATCH, (ix(sizes["rows"]), ix(sizes["columns"])), f32)
    a, b = as_operand(flat.rows, m, k), as_operand(flat.columns, n, k)
    element = multiplied_in(flat.rows, flat.columns)
    top.stmts.append(Contract(acc, a, b, m, n, k, ix(m0), ix(n0), lo, hi, element))
    then = Scope(top.names, top.axes)
    then.stmts.append(for_tile(then, store, found, flat, acc, (m0, n0)))
    if parts is None:
        top.stmts.extend(then.stmts)
    else:
        shared = (parts.sums, parts.arrived)
        top.stmts.append(WhenSummed(acc, *shared, tile, part, parts.count, tuple(then.stmts)))
    return TileProgram(
        "pipeline",
        (*region.reads(), store.dst, *((parts.sums, parts.arrived) if parts else ())),
        dims_of(region),
        task,
        task.extent,
        (acc,),
        tuple(top.stmts),
        numbers=parts.numbers if parts else (),
        threads=_threads(sizes),
        width=LANES,
        tile=_tile(sizes),
    )


@dataclass(frozen=True)
class Flat:
    """A contraction over one axis each of rows, columns and depth; `mapping` has the axes that these replace."""

    m: Axis
    n: Axis
    k: Axis
    mapping: dict[Axis, Ix]
    rows: Expr
    columns: Expr

    @staticmethod
    def of(found: Contraction) -> Flat:
        m, m_map = flatten(found.m_axes, "m")
        n, n_map = flatten(found.n_axes, "n")
        k, k_map = flatten(found.reduce.axes, "k")
        mapping = {**m_map, **n_map}
        factors = (found.rows, found.columns)
        rows, columns = (substitute(substitute(e, k_map), mapping) for e in factors)
        return Flat(m, n, k, mapping, rows, columns)

    def turned(self) -> Flat:
        """The same product with rows and columns exchanged."""
        return Flat(self.n, self.m, self.k, self.mapping, self.columns, self.rows)


def for_tile(
    top: Scope, store: Store, found: Contraction, flat: Flat, acc: Buffer, start: tuple[Axis, Axis]
) -> ForTile:
    """The rest of the expression over the elements of a tile of the product that begins at `start`."""
    m, n = flat.m, flat.n
    inner = top.inner([m, n], n)
    inner.alone = True
    inner.loops = loops_by_value(moved(fold, flat.mapping) for fold in found.folds)
    total = local("total", frozenset({m, n}), f32)
    assert isinstance(total, Local)
    product_of = substitute(found.reduce, flat.mapping)
    at = tuple(i.substitute(flat.mapping) for i in store.at)
    value = substitute(store.value, flat.mapping)
    (out,) = inner.values([map_expr(value, {product_of: total})])
    inner.stmts.append(StoreTile(store.dst, at, out, n))
    m0, n0 = start
    return ForTile(acc, m, n, ix(m0), ix(n0), m.extent, n.extent, total, tuple(inner.stmts))


def _tile(sizes: Schedule) -> BlockTile:
    is_scalar = sizes.get("thread_rows", 0) > 0
    each = SCALAR_SITES if is_scalar else MATRIX_SITES
    kind = TileKind.FMA if is_scalar else TileKind.PIPELINE
    return BlockTile(kind, tuple((s, sizes[s]) for s in each))


def _threads(sizes: Schedule) -> int:
    if each := sizes.get("thread_rows", 0) * sizes.get("thread_columns", 0):
        return sizes["rows"] * sizes["columns"] // each
    return 32 * sizes["warp_rows"] * sizes["warp_columns"]


def multiplied_in(rows: Expr, columns: Expr) -> DType:
    """The type that a matrix instruction takes: the 16 bits in which memory holds an operand, else f32.

    f32 too where the other is in the other 16 bits, or a weight that stayed in f32: it would lose range, or digits.
    """
    sources = [e.source for e in (rows, columns) if isinstance(e, Read)]
    halves = {b.dtype for b in sources if b.dtype.bits == 16}
    exact = any(b.dtype is f32 and b.role is Role.WEIGHT for b in sources)
    return halves.pop() if len(halves) == 1 and not exact else f32
