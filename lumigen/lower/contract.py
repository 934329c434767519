"""contract: the panel skeleton for one contraction with a map behind it.

Before: a region whose value holds one contraction over all of the store's axes.  After: a tile program that packs
rows of A, multiplies them with packed columns of B and applies the rest of the expression to tiles of the product.

Rows, columns and depth follow from index sets: columns are the store's last axes that only B has, rows the axes
that only A has, what both have is a batch. Several axes flatten into one wherever addresses stay affine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from lumigen.condition import less
from lumigen.dtype import DType, bf16, f32
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, maximum, minimum, unravel
from lumigen.lower.built import Built, check
from lumigen.lower.contractions import product_factors
from lumigen.lower.scope import (
    Names,
    Scope,
    address,
    kernel_reductions,
    lanes_fit,
    loops_by_value,
    moved,
)
from lumigen.lower.simt import dims_of
from lumigen.lower.sweeps import Around, grid_loop
from lumigen.names import fresh
from lumigen.plan import KernelPlan, Loop, NotRealised, Product
from lumigen.program import PAIRED_DEPTH, THREADS, Panels
from lumigen.region import (
    Buffer,
    Expr,
    Read,
    Reduce,
    Region,
    Role,
    Store,
    choose,
    const,
    free_axes,
    holds,
    map_expr,
    read,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import For, Mma, Operand, Pack, Stmt, StoreTile, TileProgram

WIDTH = 16  # columns of a panel
PAIRED_ROWS = 16  # of a tile of a matrix unit


@dataclass(frozen=True)
class Contraction:
    """A region's contraction by index sets. `rows` and `columns` name factors of the reduction's body.

    `folds` are the loops of the other reductions of what is stored.
    """

    reduce: Reduce
    rows: Expr
    columns: Expr
    grid: tuple[Axis, ...]
    m_axes: tuple[Axis, ...]
    n_axes: tuple[Axis, ...]
    folds: tuple[Loop, ...] = ()

    @staticmethod
    def of(plan: KernelPlan) -> tuple[Contraction, Store]:
        """What a plan of one product and the store after it says; NotRealised where it has other steps."""
        if len(plan.root) != 1 or plan.then is not None or (grid := plan.root[0]).where:
            raise NotRealised("a product stands in one grid, at all of its points")
        product, *folds, store = grid.body if len(grid.body) > 1 else (None, None)
        if not isinstance(product, Product) or not isinstance(store, Store):
            raise NotRealised("a product and the store after it are in one grid")
        loops = tuple(s for s in folds if isinstance(s, Loop) and s.carries)
        if len(loops) < len(folds):
            raise NotRealised("a step other than a fold between a product and the store")
        if set(grid.axes) != set(store.axes) or not {*product.m, *product.n} <= set(grid.axes):
            raise NotRealised("the axes of a product and of the grid around it differ")
        grid_axes = tuple(a for a in grid.axes if a not in (*product.m, *product.n))
        at = (product.rows, product.columns, grid_axes, product.m, product.n)
        return Contraction(product.value, *at, loops), store

    def plan(self, region: Region, *, alone: bool) -> KernelPlan:
        """The kernel of a region that holds this one; what follows it runs `alone` in each thread, or over lanes."""
        (store,) = region.stores
        lanes = frozenset((*self.m_axes, *self.n_axes) if alone else self.n_axes)
        others = [r for r in kernel_reductions([store.value]) if r is not self.reduce]
        own = [r for r in others if free_axes(r) <= frozenset(store.axes)]
        folds = (Around(lanes=bool(free_axes(r) & lanes)).fold((r,)) for r in own)
        product = Product(self.reduce, self.rows, self.columns, self.m_axes, self.n_axes)
        return KernelPlan(region, (grid_loop(store.axes, (product, *folds, store)),))


def find_contraction(store: Store, *, one_row: bool = False) -> Contraction | None:
    """The one contraction that a skeleton for products can run, or None; with `one_row` it may have a row only."""
    found = [r for r in kernel_reductions([store.value]) if product_factors(r, one_row=one_row)]
    if (
        len(found) != 1
        or found[0].dtype is not f32
        or store.value.dtype is not f32
        or not store.axes
    ):
        return None
    r = found[0]
    if any(isinstance(x, Reduce) and r in walk([x.body]) for x in walk([store.value])):
        return None
    factors = product_factors(r, one_row=one_row)
    assert factors is not None
    if any(f.dtype is not f32 for f in factors) or not free_axes(r) <= frozenset(store.axes):
        return None
    if any(a.extent != 1 for a in store.axes if a not in free_axes(r)):
        return None  # the same products at several places
    if kernel_reductions(factors):
        return None  # a point of an operand that is packed needs one value, not a loop
    last = next((a for a in reversed(store.axes) if a.extent != 1), store.axes[-1])
    for rows, columns in (factors, factors[::-1]):
        only_b = free_axes(columns) - free_axes(rows)
        if last in only_b:
            n_axes = _column_axes(store, only_b, last)
            only_a = free_axes(rows) - free_axes(columns)
            m_axes = tuple(a for a in store.axes if a in only_a)
            grid = tuple(a for a in store.axes if a not in (*m_axes, *n_axes))
            contraction = Contraction(r, rows, columns, grid, m_axes, n_axes)
            if not m_axes and Columns.of(contraction).once is None:
                return None  # it would take longer to pack the columns than to multiply them
            return contraction if _rest_fits(store, contraction) else None
    return None


def _rest_fits(store: Store, found: Contraction) -> bool:
    """Whether vectors along a row of the product can compute what is behind it."""
    n, n_map = flatten(found.n_axes, "n")
    rest = map_expr(store.value, {found.reduce: const(0.0, f32)})
    return lanes_fit([substitute(rest, n_map)], n)


def _column_axes(store: Store, candidates: frozenset[Axis], last: Axis) -> tuple[Axis, ...]:
    """As many of the store's last axes as lie side by side in the destination."""
    at = address(store.dst, store.at)
    out = [last]
    for axis in reversed(store.axes[: store.axes.index(last)]):
        width = extent_of(out)
        if axis not in candidates or at.coefficient(axis) != width:
            break
        out.insert(0, axis)
    return tuple(out)


def flatten(axes: tuple[Axis, ...], name: str) -> tuple[Axis, dict[Axis, Ix]]:
    """One axis over the product of `axes`, and each of them as an expression of it."""
    joined = Axis(name, extent_of(axes))
    return joined, unravel(joined, axes)


def affine(e: Expr, major: Axis, k: Axis) -> tuple[Buffer, Ix, Ix, Ix] | None:
    """(buffer, base, stride of major, stride of k) of a read whose address is affine in both."""
    if not isinstance(e, Read):
        return None
    at = address(e.source, e.at)
    by_major, by_k = at.coefficient(major), at.coefficient(k)
    if by_major is None or by_k is None or {major, k} & (by_major.axes | by_k.axes):
        return None
    base = at - by_major * major - by_k * k
    return e.source, base, by_major, by_k


def as_operand(value: Expr, major: Axis, k: Axis) -> Operand:
    """A matrix operand over (major, k): as memory holds it, or computed element by element as it is packed."""
    found = affine(value, major, k)
    if found is None:
        return Operand(None, ix(0), None, None, value)
    source, base, stride, k_stride = found
    return Operand(source, base, stride, k_stride, value)


SITES = ("rows", "columns", "chunk", "depth", "streamed")
PLACES = {"b": ("panels",)}


def contract(plan: KernelPlan, sizes: Schedule) -> Built:
    """The kernel of a plan of one product and the store after it; NotRealised where it has other steps."""
    check(sizes, SITES, PLACES)
    found, store = Contraction.of(plan)
    m, m_map = flatten(found.m_axes, "m")
    n, n_map = flatten(found.n_axes, "n")
    k, k_map = flatten(found.reduce.axes, "k")
    mapping = {**m_map, **n_map}
    rows = substitute(substitute(found.rows, k_map), mapping)
    columns = Columns.of(found)
    b = columns.operand
    program = _program(plan, store, found, (m, n, k), mapping, as_operand(rows, m, k), b, sizes)
    packed = columns.element(b)
    contraction = map_expr(found.reduce, {found.columns: packed})
    meaning = Region((replace(store, value=map_expr(store.value, {found.reduce: contraction})),))
    program = replace(program, args=(*meaning.reads(), store.dst))
    return Built(program, meaning, columns.packs)


def packed_once(value: Expr, major: Axis, k: Axis) -> tuple[Buffer, Panels] | None:
    """The weight that an operand is, and how it lies in panels; None if each call has to pack it."""
    strided = affine(value, major, k)
    if strided is None or strided[0].role is not Role.WEIGHT:
        return None
    source, base, stride, k_stride = strided
    extents = (major.extent, k.extent, stride, k_stride)
    if not all(e.is_const for e in (*extents, base)):
        return None
    return source, Panels(*(e.const for e in extents), width=WIDTH, base=base.const)


def in_panels(packed: Buffer, batch: tuple[Ix, ...], major: Ix, k: Ix) -> Expr:
    """The element of an operand that lies in panels for each point of a batch."""
    return read(packed, (*batch, major // WIDTH, k, major % WIDTH))


def packing(value: Expr, major: Axis, k: Axis, batch: tuple[Axis, ...]) -> tuple[Buffer, Region]:
    """Where an operand over (major, k) lies in panels for each point of a batch, and what stores it there."""
    p, j = Axis("p", ceildiv(major.extent, WIDTH)), Axis("j", ix(WIDTH))
    at = ix(p) * WIDTH + j
    inside = holds((less(at, major.extent),))
    body = choose(inside, substitute(value, {major: at}), const(0.0, f32))
    dims = (*(a.extent for a in batch), p.extent, k.extent, ix(WIDTH))
    packed = Buffer("panels", Role.TEMP, dims, f32)
    axes = (*batch, p, k, j)
    return packed, Region((Store(packed, axes, tuple(ix(a) for a in axes), body),))


def panels_of(value: Expr, k: Axis) -> Operand:
    """An operand that a kernel before has put into panels; NotRealised where it does not lie so."""
    if not isinstance(value, Read) or len(value.at) < 3 or value.source.dims[-1] != WIDTH:
        raise NotRealised("an operand in panels is read from panels")
    zero = ix(0)
    base = address(value.source, (*value.at[:-3], zero, zero, zero))
    return Operand(value.source, base, k.extent * WIDTH, ix(WIDTH), None, panels=True)


@dataclass(frozen=True)
class Columns:
    """B in panels: a weight that is packed once, or what a kernel before has packed."""

    value: Expr  # over n and k
    found: Contraction
    n: Axis
    k: Axis

    @staticmethod
    def of(found: Contraction) -> Columns:
        _, m_map = flatten(found.m_axes, "m")
        n, n_map = flatten(found.n_axes, "n")
        k, k_map = flatten(found.reduce.axes, "k")
        value = substitute(substitute(found.columns, k_map), {**m_map, **n_map})
        return Columns(value, found, n, k)

    @property
    def batch(self) -> tuple[Axis, ...]:
        return tuple(a for a in self.found.grid if a in free_axes(self.value))

    @property
    def once(self) -> tuple[Buffer, Panels] | None:
        """The weight that they are, and how it lies in panels."""
        found = packed_once(self.value, self.n, self.k)
        return None if found is None else (found[0], replace(found[1], pairs=self.pairs))

    @property
    def pairs(self) -> bool:
        """Whether the product is one of bf16: B is a weight in it, and nothing wider is read as A."""
        once, rows = packed_once(self.value, self.n, self.k), self.found.rows
        is_wider = isinstance(rows, Read) and rows.source.dtype is not bf16
        return once is not None and once[0].dtype is bf16 and not is_wider

    @property
    def packed(self) -> Buffer | None:
        """The weight in panels."""
        if self.once is None:
            return None
        source, panels = self.once
        return Buffer(f"{source.name}_panels", Role.WEIGHT, (ix(panels.elements),), source.dtype)

    @property
    def packs(self) -> tuple[tuple[Buffer, Buffer, Panels], ...]:
        """(packed, the weight, how) of a weight."""
        return () if self.packed is None or self.once is None else ((self.packed, *self.once),)

    @property
    def operand(self) -> Operand:
        """B as a kernel reads it."""
        if self.packed is None or self.once is None:
            return panels_of(self.value, self.k)
        panels = self.once[1]
        stride, pairs = ix(panels.depth * WIDTH), panels.pairs
        return Operand(self.packed, ix(0), stride, ix(WIDTH), None, panels=True, pairs=pairs)

    def element(self, operand: Operand) -> Expr:
        """What the operand has for the region's own axes."""
        if self.packed is None:
            return self.found.columns
        n, k = joined(self.found.n_axes), joined(self.found.reduce.axes)
        assert operand.stride is not None
        in_panel = k * WIDTH + n % WIDTH
        if operand.pairs:
            in_panel = (k // 2 * WIDTH + n % WIDTH) * 2 + k % 2
        return read(self.packed, (n // WIDTH * operand.stride + in_panel,))

    def packed_before(self, region: Region) -> tuple[Buffer, Region, Contraction, Region]:
        """(panels, what stores them, the product that reads them, what it computes)."""
        buffer, before = packing(self.value, self.n, self.k, self.batch)
        n, k = joined(self.found.n_axes), joined(self.found.reduce.axes)
        element = in_panels(buffer, tuple(map(ix, self.batch)), n, k)
        return buffer, before, *with_factor(self.found, region, self.found.columns, element)


def with_factor(
    found: Contraction, region: Region, old: Expr, new: Expr
) -> tuple[Contraction, Region]:
    """The product with another spelling of a factor, and the region that holds it."""
    (store,) = region.stores
    contraction = map_expr(found.reduce, {old: new})
    assert isinstance(contraction, Reduce)
    rows, columns = (new if e is old else e for e in (found.rows, found.columns))
    value = map_expr(store.value, {found.reduce: contraction})
    meaning = Region((replace(store, value=value),), region.lines)
    return replace(found, reduce=contraction, rows=rows, columns=columns), meaning


def joined(axes: tuple[Axis, ...]) -> Ix:
    """The place of a point of `axes` in one axis over all of them."""
    flat = ix(0)
    for a in axes:
        flat = flat * a.extent + a
    return flat


def _program(
    plan: KernelPlan,
    store: Store,
    found: Contraction,
    axes: tuple[Axis, Axis, Axis],
    mapping: dict[Axis, Ix],
    a: Operand,
    b: Operand,
    sizes: Schedule,
) -> TileProgram:
    m, n, k = axes
    # One row waits for memory, which gives vectors more than tiles of a matrix unit, and floats hold what bf16 does.
    is_row = m.extent == ix(1) and a.source is not None and a.source.dtype is bf16
    element = bf16 if b.pairs and not is_row else f32
    streamed = bool(sizes["streamed"])
    if streamed and (b.source is None or b.source.role is not Role.WEIGHT):
        raise NotRealised("columns that are no weight do not come from memory")
    tasks = _tasks(plan.region, found, (m, n), b.pairs, element, streamed, sizes)
    top, (m0, m1) = tasks.scope, tasks.rows
    top.loops = loops_by_value(moved(fold, mapping) for fold in found.folds)
    n0, n1 = tasks.columns

    depth_hi = k.extent.bounds()[1] or sizes["depth"]
    parts = -(-depth_hi // sizes["depth"])
    each_part = -(-depth_hi // parts)  # equal shares at the greatest k
    each_part = whole_depth(each_part) if b.pairs else each_part
    a_tile = Buffer("a_tile", Role.SCRATCH, (ix(tasks.most_rows), ix(each_part)), f32)
    k0 = Axis("k0", maximum(k.extent, ix(1)))  # the sum of nothing is 0
    k_end = minimum(ix(k0) + each_part, k.extent) if parts > 1 else k.extent
    pack = Pack(a_tile, ix(0), a, m, ix(m0), ix(m1), k, ix(k0), k_end, element)

    chunk = Axis("c", n.extent)
    chunk_end = minimum(ix(chunk) + sizes["chunk"], n1)
    # products of a part of k wait for those of the other parts, those of all k for the epilogue of their chunk; rows
    # that are a power of two apart would share few sets of a cache
    held, held_end, wide = chunk, chunk_end, sizes["chunk"]
    if parts > 1:
        held, held_end, wide = n0, ix(n1), sizes["columns"] + WIDTH
    c_tile = Buffer("c_tile", Role.SCRATCH, (ix(tasks.most_rows), ix(wide)), f32)
    acc, acc_at, acc_stride = c_tile, ix(chunk) - held, ix(wide)
    epilogue: list[Stmt] = []
    value = substitute(store.value, mapping)
    contraction = substitute(found.reduce, mapping)
    at = tuple(i.substitute(mapping) for i in store.at)
    direct = _direct(store.dst, at, m, n) if value is contraction else None
    if direct is not None:
        base, stride = direct
        acc, acc_at, acc_stride = store.dst, base + stride * m0 + chunk, stride
    else:
        out = map_expr(value, {contraction: read(c_tile, (ix(m) - m0, ix(n) - held))})
        points = Points(m, ix(m0), ix(m1)), Points(n, ix(held), held_end)
        epilogue.append(stored(top, store.dst, at, out, *points))

    shifted = replace(b, base=b.base + ix(chunk) // WIDTH * (b.stride or ix(0)) + ix(k0) * WIDTH)
    sizes_of = (ix(m1) - m0, chunk_end - chunk, k_end - k0, ix(k0))
    product = Mma(acc, acc_at, acc_stride, a_tile, ix(0), shifted, *sizes_of, element=element)
    mma = replace(product, streamed=streamed and element is bf16)

    def for_chunks(*body: Stmt) -> Stmt:
        return For(chunk, ix(n0), ix(n1), False, body, step=sizes["chunk"])

    if parts > 1:
        part = (pack, for_chunks(mma))
        top.stmts += [For(k0, ix(0), k0.extent, False, part, step=each_part), *epilogue]
    else:
        top.stmts += [_at_zero(pack, k0), for_chunks(_at_zero(mma, k0), *epilogue)]

    scratch = (a_tile,) if direct is not None else (a_tile, c_tile)
    body = tuple(top.stmts)
    return TileProgram(
        "panel",
        (),
        dims_of(plan.region),
        tasks.axis,
        tasks.count,
        scratch,
        body,
        numbers=tasks.numbers,
    )


@dataclass(frozen=True)
class _Tasks:
    """What each task multiplies: its first row and column and the ones behind its last, bound in its scope."""

    axis: Axis
    count: Ix
    scope: Scope
    rows: tuple[Axis, Axis]
    columns: tuple[Axis, Axis]
    most_rows: int
    numbers: tuple[tuple[Dim, Ix], ...]


def _tasks(
    region: Region,
    found: Contraction,
    axes: tuple[Axis, Axis],
    pairs: bool,
    element: DType,
    streamed: bool,
    sizes: Schedule,
) -> _Tasks:
    """Rows in equal shares, columns in shares of whole panel pairs, for each point of the grid."""
    m, n = axes
    dims, grid_size = dims_of(region), extent_of(found.grid)
    most_rows = min(sizes["rows"], m.extent.bounds()[1] or sizes["rows"])
    whole = 2 * PAIRED_ROWS if element is bf16 else 1  # rows of a share, but of the last one
    most_rows = -(-most_rows // whole) * whole
    shares, numbers = threads_of(grid_size, dims)
    m_tiles = tiles(m.extent, most_rows, 32, ix(1) if streamed and pairs else shares)
    n_tiles = tiles(n.extent, sizes["columns"], 2 * WIDTH, ceildiv(shares, m_tiles))
    task = Axis("task", grid_size * m_tiles * n_tiles)
    top = Scope(Names(), frozenset({task}))
    row_tiles = number("row_tiles", m_tiles, dims)
    column_tiles = number("column_tiles", n_tiles, dims)

    rows_each = ceildiv(ceildiv(m.extent, row_tiles), whole) * whole
    cols_each = Axis("columns_each", n.extent + 2 * WIDTH)
    top.bind(cols_each, ceildiv(ceildiv(n.extent, column_tiles), 2 * WIDTH) * (2 * WIDTH))
    m_part, n_part = Axis("row_tile", ix(row_tiles)), Axis("column_tile", ix(column_tiles))
    # all rows meet columns that come from memory while these are in a cache
    inner, outer = (m_part, n_part) if streamed else (n_part, m_part)
    inner_tiles, outer_tiles = (row_tiles, column_tiles) if streamed else (column_tiles, row_tiles)
    top.bind(inner, ix(task) % inner_tiles)
    top.bind(outer, ix(task) // inner_tiles % outer_tiles)
    each = Axis("rows_each", m.extent + whole)
    top.bind(each, rows_each)
    top.spread(ix(task) // column_tiles // row_tiles, found.grid)
    m0, m1 = Axis("m0", m.extent), Axis("m1", m.extent + 1)
    n0, n1 = Axis("n0", n.extent), Axis("n1", n.extent + 1)
    top.bind(m0, minimum(ix(m_part) * each, m.extent))
    top.bind(m1, minimum(ix(m0) + each, m.extent))
    top.bind(n0, minimum(ix(n_part) * cols_each, n.extent))
    top.bind(n1, minimum(ix(n0) + cols_each, n.extent))
    columns = tiles(n.extent, sizes["columns"], 2 * WIDTH, ceildiv(shares, row_tiles))
    return _Tasks(
        task,
        grid_size * row_tiles * column_tiles,
        top,
        (m0, m1),
        (n0, n1),
        most_rows,
        (*numbers, (row_tiles, m_tiles), (column_tiles, columns)),
    )


class Points(NamedTuple):
    """A loop's axis, its first point and the one behind its last."""

    axis: Axis
    lo: Ix
    hi: Ix


def stored(
    scope: Scope, dst: Buffer, at: tuple[Ix, ...], value: Expr, rows: Points, columns: Points
) -> Stmt:
    """Loops over rows and, as lanes, over columns that store a value."""
    row_scope = scope.inner([*columns.lo.axes, rows.axis])
    lane_scope = row_scope.inner([columns.axis], columns.axis)
    (out,) = lane_scope.values([value])
    lane_scope.stmts.append(StoreTile(dst, at, out, columns.axis))
    row_scope.stmts.append(For(columns.axis, columns.lo, columns.hi, True, tuple(lane_scope.stmts)))
    return For(rows.axis, rows.lo, rows.hi, False, tuple(row_scope.stmts))


def threads_of(grid: Ix, dims: tuple[Dim, ...]) -> tuple[Ix, tuple[tuple[Dim, Ix], ...]]:
    """How many threads each point of a grid has, and the number that a launch works out for it, if there is one."""
    threads = ceildiv(THREADS, maximum(grid, 1))
    if grid.is_const:
        return threads, ()
    shares = number("shares", threads, dims)
    return ix(shares), ((shares, threads),)


def tiles(extent: Ix, most: int, least: int, shares: Ix) -> Ix:
    """How many tiles of at most `most` an extent has: as many for each share, unless that left less than `least`.

    An extent of 0 has one: nothing is divided by 0, and a tile without rows stores nothing.
    """
    count = maximum(1, ceildiv(extent, most))
    return maximum(count, minimum(ceildiv(extent, least), ceildiv(count, shares) * shares))


def in_tiles(rows: Ix) -> Ix:
    """As many rows as the tiles hold that they are packed in for products of bf16."""
    return ceildiv(rows, PAIRED_ROWS) * PAIRED_ROWS


def whole_depth(k: int) -> int:
    """k and the zeros behind it."""
    return -(-k // PAIRED_DEPTH) * PAIRED_DEPTH


def is_paired(found: Contraction) -> bool:
    """Whether the contraction is a product of bf16 with columns in pairs."""
    return Columns.of(found).pairs


def number(name: str, value: Ix, dims: tuple[Dim, ...]) -> Dim:
    """A positive number that the launch works out and passes in beside the dims."""
    return Dim(fresh(name, {d.name for d in dims}), 1, max(1, value.bounds()[1] or 2**31))


def _at_zero(s: Pack | Mma, k0: Axis) -> Stmt:
    """The statement for the whole depth at once: its loop variable is 0."""
    zero = {k0: ix(0)}
    if isinstance(s, Pack):
        return replace(s, k_lo=ix(0))
    b = replace(s.b, base=s.b.base.substitute(zero))
    return replace(s, b=b, k=s.k.substitute(zero), accumulate=ix(0))


def _direct(dst: Buffer, at: tuple[Ix, ...], m: Axis, n: Axis) -> tuple[Ix, Ix] | None:
    """(base, row stride) of a destination that can hold the products themselves."""
    flat = address(dst, at)
    by_m, by_n = flat.coefficient(m), flat.coefficient(n)
    if dst.dtype is not f32:
        return None  # they are f32 until they are stored
    if by_m is None or by_n != 1 or m in by_m.axes or n in by_m.axes:
        return None
    return flat - by_m * m - n, by_m
