"""pipeline: the skeleton of one contraction with a map behind it, for blocks of threads with matrix instructions.

Before: a region whose value holds one contraction over all of the store's axes.  After: a tile program in which a
block computes a tile of the product in registers, its operands coming through a ring of stages in shared memory,
and applies the rest of the expression to the elements of the tile.

Sites: `rows` and `columns` of a tile, `depth` of a stage, `stages` in the ring; `warp_rows` by `warp_columns` warps
with matrix instructions, or `thread_rows` by `thread_columns` products of a thread, in which f32 stays f32. With
`parts_of`, where tiles are few and the depth is long, blocks have a tile together, each a part of the depth: as many as
come to about so many blocks in all. The last of them adds what they have, in order, and goes on to the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from lumigen.block_tile import BlockTile, TileKind
from lumigen.dtype import DType, bf16, f16, f32, i8, i32, u8
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, maximum, minimum
from lumigen.lower.built import Built, check, check_steps
from lumigen.lower.contract import (
    Contraction,
    Products,
    find_products,
    flatten,
    is_of_integers,
    number,
)
from lumigen.lower.contractions import bytes_of
from lumigen.lower.masks import Masks, unmasked_factor
from lumigen.lower.operands import as_operand
from lumigen.lower.scope import (
    Names,
    Scope,
    address,
    adds_integers,
    floats_of,
    lanes_fit,
    loops_by_value,
    moved,
)
from lumigen.lower.simt import dims_of
from lumigen.machine import Gpu, ProductTiles
from lumigen.ops import Op
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import (
    Buffer,
    Expr,
    Local,
    Prim,
    Read,
    Region,
    Role,
    Store,
    const,
    local,
    map_expr,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import Contract, ForTile, Operand, StoreTile, TileProgram, WhenSummed

MATRIX_SITES = ("rows", "columns", "depth", "stages", "warp_rows", "warp_columns")
SCALAR_SITES = ("rows", "columns", "depth", "thread_rows", "thread_columns", "stages")
MOST = 2**31 - 2**16


def pipeline(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a plan of one product and the store after it; NotRealised where it has other steps."""
    scalar = bool(sizes.get("thread_rows", 0))
    own = SCALAR_SITES if scalar else MATRIX_SITES
    check(sizes, (*own, "parts_of"))
    check_steps(sizes, *own)
    several, store = Products.of(plan)
    one, *others = several.each
    if others:
        return _pair(plan, several, store, sizes, machine)
    found = replace(one, folds=several.folds)
    if not are_counted(found.m_axes, found.n_axes, found.reduce.axes):
        raise NotRealised("a product with more rows, columns or depth than an int counts")
    flat = Flat.of(found)
    is_scalar = multiplied_in(flat.rows, flat.columns) is f32 and not machine.multiplies_floats
    if scalar != is_scalar:
        raise NotRealised("matrix instructions for what they do not multiply, or none for others")
    if found.reduce.dtype is i32 and not machine.products.bytes:
        raise NotRealised("integers, which no instruction multiplies")
    region = plan.region
    if not sizes["parts_of"]:
        return Built(_program(region, store, found, flat, sizes, machine), region)
    tiles, dtype = _tiles(found, flat, sizes), found.reduce.dtype
    parts = Parts.of(region, tiles, flat, sizes, machine.products, dtype)
    counted = Axis("tile", parts.arrived.dims[0])
    none = Store(parts.arrived, (counted,), (ix(counted),), const(0, i32))
    meaning = Region((store, none), region.lines)
    program = _program(region, store, found, flat, sizes, machine, parts)
    return Built(program, meaning, temps=(parts.sums,))


def flat_pair(found: Products) -> tuple[Flat, Flat] | None:
    """Two products of the same rows that a block has tiles of, which matrix instructions multiply; or None."""
    flats = [Flat.of(c) for c in found.each]
    groups = (found.each[0].m_axes, found.each[0].n_axes, found.each[0].reduce.axes)
    if len(flats) != 2 or (flats[0].rows, flats[0].k) != (flats[1].rows, flats[1].k):
        return None
    first, second = flats
    elements = {multiplied_in(f.rows, f.columns) for f in flats}
    if (
        len(elements) > 1
        or not elements <= {bf16, f16}
        or not are_counted(*groups)
        or not groups[0]
    ):
        return None
    return first, second


def _pair(plan: KernelPlan, found: Products, store: Store, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a plan of two products of the same rows, with an accumulator for each."""
    check(sizes, (*MATRIX_SITES, "parts_of"))
    flats = flat_pair(found)
    if flats is None or found.statistics or sizes["parts_of"]:
        raise NotRealised(
            "several products but two of the same rows, in 16 bits, a tile to a block"
        )
    region, (first, _) = plan.region, found.each
    first = replace(first, folds=found.folds)
    pair = (found, flats)
    return Built(_program(region, store, first, flats[0], sizes, machine, pair=pair), region)


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
    def of(
        region: Region,
        tiles: Ix,
        flat: Flat,
        sizes: Schedule,
        products: ProductTiles,
        dtype: DType,
    ) -> Parts:
        blocks, steps = sizes["parts_of"], ceildiv(flat.k.extent, sizes["depth"])
        most = maximum(1, minimum(products.most_parts, steps // products.least_steps))
        wanted = minimum(most, maximum(1, blocks // maximum(1, tiles)))
        count = wanted if wanted.is_const else ix(number("parts", wanted, dims_of(region)))
        several = minimum(1, wanted - 1)
        rows = minimum(flat.m.extent, sizes["rows"])
        dims = (tiles * several, wanted, rows, ix(sizes["columns"]))
        sums = Buffer("sums", Role.WORKSPACE, dims, dtype)
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
    machine: Gpu,
    parts: Parts | None = None,
    pair: tuple[Products, tuple[Flat, Flat]] | None = None,
) -> TileProgram:
    m, n, k = flat.m, flat.n, flat.k
    m_tiles, n_tiles = ceildiv(m.extent, sizes["rows"]), ceildiv(n.extent, sizes["columns"])
    tiles = _tiles(found, flat, sizes)
    task = Axis("task", tiles if parts is None else tiles * parts.count)

    top = Scope(Names(), frozenset({task}))
    tile, part = ix(task), ix(0)
    if parts is not None:
        axes = Axis("tile", tiles), Axis("part", parts.count)
        top.spread(ix(task), axes)
        tile, part = map(ix, axes)
    m0, n0 = Axis("m0", m.extent), Axis("n0", n.extent)
    batch = extent_of(found.grid)
    among, own = tile // m_tiles // n_tiles, tile
    if shares_lines(store, found, n, machine.products.line):
        among, own = tile % batch, tile // batch
    top.bind(m0, own % m_tiles * sizes["rows"])  # blocks side by side share columns
    top.bind(n0, own // m_tiles % n_tiles * sizes["columns"])
    top.spread(among, found.grid)
    each = (flat,) if pair is None else pair[1]
    lo, hi = _reach(each, (m0, n0), sizes)
    if parts is not None:
        own_lo, own_hi = parts.share(part, k, sizes["depth"])
        lo, hi = maximum(lo, own_lo), minimum(hi, own_hi)

    dims = ix(sizes["rows"]), ix(sizes["columns"])
    acc = Buffer("acc", Role.SCRATCH, dims, found.reduce.dtype)
    a, b = as_operand(flat.rows, m, k), as_operand(flat.columns, n, k)
    element = multiplied_in(flat.rows, flat.columns)
    more: tuple[tuple[Contraction, Buffer], ...] = ()
    columns: tuple[tuple[Buffer, Operand], ...] = ()
    if pair is not None:
        more = ((pair[0].each[1], replace(acc, name="acc1")),)
        columns = ((more[0][1], as_operand(pair[1][1].columns, n, k)),)
    top.stmts.append(Contract(acc, a, b, m, n, k, ix(m0), ix(n0), lo, hi, element, columns))
    then = Scope(top.names, top.axes)
    then.stmts.append(for_tile(then, store, found, flat, acc, (m0, n0), more))
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
        (acc, *(b for b, _ in columns)),
        tuple(top.stmts),
        numbers=parts.numbers if parts else (),
        threads=_threads(sizes, machine.teams.warp),
        width=machine.products.stored,
        tile=_tile(sizes, TileKind.PAIR if pair else _kind(element)),
    )


def shares_lines(store: Store, found: Contraction, n: Axis, line: int) -> bool:
    """Whether a line of memory has columns of several batches, as of groups of channels: neighbours write it."""
    if not found.grid or not n.extent.is_const or n.extent.const * store.dst.dtype.itemsize >= line:
        return False
    return address(store.dst, store.at).coefficient(found.grid[-1]) == n.extent


def _reach(flats: Sequence[Flat], start: tuple[Axis, Axis], sizes: Schedule) -> tuple[Ix, Ix]:
    """The points of the depth at which a tile has something to add, of any of its products."""
    m0, n0 = map(ix, start)
    size = sizes["rows"], sizes["columns"], sizes["depth"]
    ends = [f.masks.reach(m0, n0, *size) for f in flats]
    return reduce(minimum, (lo for lo, _ in ends)), reduce(maximum, (hi for _, hi in ends))


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

    @property
    def masks(self) -> Masks:
        """Where its factors are zero."""
        return Masks.of(self.rows, self.columns, self.m, self.n, self.k)

    def turned(self) -> Flat:
        """The same product with rows and columns exchanged."""
        return Flat(self.n, self.m, self.k, self.mapping, self.columns, self.rows)


def for_tile(
    top: Scope,
    store: Store,
    found: Contraction,
    flat: Flat,
    acc: Buffer,
    start: tuple[Axis, Axis],
    more: tuple[tuple[Contraction, Buffer], ...] = (),
) -> ForTile:
    """The rest of the expression over the elements of a tile of the product that begins at `start`.

    `more` are other products, in tiles at the same place.
    """
    m, n = flat.m, flat.n
    inner = top.inner([m, n], n)
    inner.alone = True
    inner.loops = loops_by_value(moved(fold, flat.mapping) for fold in found.folds)
    each = ((found, acc), *more)
    totals = [
        local(f"total{i or ''}", frozenset({m, n}), tile.dtype) for i, (_, tile) in enumerate(each)
    ]
    products = [substitute(c.reduce, flat.mapping) for c, _ in each]
    named = [(x, tile) for x, (_, tile) in zip(totals, each, strict=True) if isinstance(x, Local)]
    at = tuple(i.substitute(flat.mapping) for i in store.at)
    value = substitute(store.value, flat.mapping)
    (out,) = inner.values([map_expr(value, dict(zip(products, totals, strict=True)))])
    inner.stmts.append(StoreTile(store.dst, at, out, n))
    m0, n0 = start
    (total, _), *others = named
    ends = (ix(m0), ix(n0), m.extent, n.extent)
    return ForTile(acc, m, n, *ends, total, tuple(inner.stmts), more=tuple(others))


def _kind(element: DType) -> TileKind:
    return TileKind.BYTES if element.is_int else TileKind.PIPELINE


def _tile(sizes: Schedule, matrix: TileKind) -> BlockTile:
    is_scalar = sizes.get("thread_rows", 0) > 0
    each = SCALAR_SITES if is_scalar else MATRIX_SITES
    return BlockTile(TileKind.FMA if is_scalar else matrix, tuple((s, sizes[s]) for s in each))


def _threads(sizes: Schedule, warp: int) -> int:
    if each := sizes.get("thread_rows", 0) * sizes.get("thread_columns", 0):
        return sizes["rows"] * sizes["columns"] // each
    return warp * sizes["warp_rows"] * sizes["warp_columns"]


def multiplied_in(rows: Expr, columns: Expr) -> DType:
    """The type that a matrix instruction takes: 16 bits that memory has of an operand, or it is rounded to; else f32.

    f32 too where memory has the other in the other 16 bits or in f32: it would lose range, or digits.
    Zeros where conditions fail are of any type. Integers of 8 bits are taken as they are, where both are of one type.
    """
    whole = {e.dtype for e in map(bytes_of, (rows, columns)) if e is not None}
    if rows.dtype is i32 and len(whole) == 1:
        return whole.pop()
    factors = [unmasked_factor(e)[0] for e in (rows, columns)]
    sources = [e.source for e in factors if isinstance(e, Read)]
    rounded = (rounded_to(e) for e in factors)
    halves = {b.dtype for b in sources if b.dtype.bits == 16} | {d for d in rounded if d}
    exact = any(b.dtype is f32 for b in sources)
    return halves.pop() if len(halves) == 1 and not exact else f32


def find_bytes(store: Store, machine: Gpu) -> Products | None:
    """The product of integers of 8 bits that a store holds, if blocks have tiles of it; None of others."""
    found = find_products(store, integers=True, packed=False) if machine.products.bytes else None
    one, *others = found.each if found is not None else (None,)
    if found is None or one is None or others or not is_of_integers(one.reduce):
        return None
    counted = are_counted(one.m_axes, one.n_axes, one.reduce.axes)
    is_alike = multiplied_in(one.rows, one.columns) in (i8, u8)
    return found if counted and is_alike and _is_of_sums(store, one) else None


def _is_of_sums(store: Store, one: Contraction) -> bool:
    """Whether vectors of integers and floats make what is stored of the sums of a product."""
    n, n_map = flatten(one.n_axes, "n")
    total = local("total", frozenset({n}), i32)
    rest = substitute(map_expr(store.value, {one.reduce: total}), n_map)
    if rest.dtype is i32 and store.dst.dtype is i32 and adds_integers(rest, n):
        return True
    floats = floats_of(rest, store.dst.dtype, integers=True)
    if floats is None:
        return False
    casts = [e for e in walk([floats]) if isinstance(e, Prim) and e.op is Op.CONTIGUOUS]
    sums = [e for e in casts if e.dtype is f32 and adds_integers(e.args[0], n)]
    known: dict[Expr, Expr] = {e: const(0.0, f32) for e in sums if total in walk([e])}
    left = map_expr(floats, known)
    return total not in walk([left]) and lanes_fit([left], n)


def rounded_to(e: Expr) -> DType | None:
    """The 16 bits that a computed value is rounded to last."""
    while isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype is f32:
        (e,) = e.args
    is_rounded = isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype.is_float
    return e.dtype if is_rounded and e.dtype.bits == 16 else None
