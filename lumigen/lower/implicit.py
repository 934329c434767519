"""implicit: a contraction whose columns are packed as the kernel reads them, one tile at a time.

Before: a region's contraction by index sets.  After: a tile program without a buffer of all columns, which for
a convolution would be as many times the image as its window has points (implicit GEMM).

A tile is some columns by some of k, in rows of k: for each k, runs of columns that are neighbours in memory are
copied, zeros where a guard fails. Columns run along the last of their axes, or along all of them where addresses
stay affine. Of k, whole points of the outermost axis make a part. Rows are weights in panels of 16 rows, packed
once or by a kernel before, or else, where they lie in strides, packed by the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.dtype import f32
from lumigen.index import Axis, Dim, Ix, Lookup, ceildiv, extent_of, ix, maximum, minimum, unravel
from lumigen.lower.built import Built, check, check_steps, check_whole
from lumigen.lower.contract import (
    WIDTH,
    Contraction,
    Points,
    flatten,
    in_panels,
    joined,
    number,
    packing,
    panels_of,
    stored,
    threads_of,
    tiles,
    with_factor,
)
from lumigen.lower.operands import affine, packed_once, read_where, rows_packed_once
from lumigen.lower.phases import in_phases
from lumigen.lower.scope import Names, Scope, address, loops_by_value, moved
from lumigen.lower.simt import dims_of
from lumigen.machine import Processor
from lumigen.plan import KernelPlan, NotRealised
from lumigen.program import Panels
from lumigen.region import (
    Buffer,
    Expr,
    Region,
    Role,
    free_axes,
    map_expr,
    read,
    substitute,
)
from lumigen.schedule import Schedule
from lumigen.tile import For, Mma, Operand, Pack, PackRuns, Stmt, TileProgram, Transpose


@dataclass(frozen=True)
class Runs:
    """Columns over (outer, run): `source` at (base + stride * run) // repeat where the conditions hold, else `fill`."""

    source: Buffer
    base: Ix
    stride: int
    repeat: int
    where: tuple[Cmp, ...]
    outer: Axis
    run: Axis
    fill: float = 0.0

    def row(self, dst: Buffer, at: Ix, lo: Ix, hi: Ix) -> PackRuns:
        """A row of a tile: columns from `lo` to `hi`."""
        return PackRuns(
            dst,
            at,
            self.source,
            self.base,
            self.stride,
            self.where,
            self.outer,
            self.run,
            lo,
            hi,
            self.fill,
            self.repeat,
        )


@dataclass(frozen=True)
class Rows:
    """A, an operand over m and k: in panels, where `packs` says how a weight comes there, or in strides.

    `meaning` is what the kernel computes then.
    """

    operand: Operand
    meaning: Region
    packs: tuple[tuple[Buffer, Buffer, Panels], ...] = ()


def find_runs(value: Expr, axes: tuple[Axis, ...], flat: Axis, whole: Expr) -> Runs | None:
    """How columns over `axes` lie in runs; `whole` is the same value with the one axis `flat` for them."""
    none = Axis("outer", ix(1))
    found = _runs_along(whole, flat, none)
    if found is not None or len(axes) == 1:
        return found
    *others, run = axes
    outer = Axis("outer", extent_of(others))
    return _runs_along(substitute(value, unravel(outer, others)), run, outer)


def _runs_along(value: Expr, run: Axis, outer: Axis) -> Runs | None:
    found = read_where(value)
    if found is None:
        return None
    element, where, fill = found
    at, repeat = address(element.source, element.at), 1
    repeated = in_phases(at, run) if element.source.dtype is f32 else None
    if repeated is not None and repeated.between == 0:
        repeat = repeated.count  # as of an image made larger by repeating its pixels
        at = repeated.base * repeat + repeated.start
    slacks = [c.slack for c in where]
    if any(isinstance(a, Lookup) for i in slacks for a in i.atoms()):
        return None  # an integer that is read may be read where it is, and no earlier
    factors = [i.coefficient(run) for i in (at, *slacks)]
    if any(f is None or not f.is_const for f in factors):
        return None
    stride = factors[0]
    assert stride is not None
    base = at - stride * run
    return Runs(element.source, base, stride.const, repeat, where, outer, run, fill)


SITES = ("rows", "chunk", "deep", "held", "alike")
PLACES = {"a": ("panels", "rows"), "b": ("windows",)}


@dataclass(frozen=True)
class _WindowColumns:
    """A contraction whose columns lie in runs."""

    found: Contraction
    depth: tuple[Axis, ...]  # axes of k, the outermost one first
    inside: int  # points of k inside a point of the outermost one
    runs: Runs

    @staticmethod
    def of(found: Contraction, most: int) -> _WindowColumns:
        """NotRealised if columns are weights, do not lie in runs, or have more than so many points inside."""
        (n, n_map), (k, k_map) = flatten(found.n_axes, "n"), flatten(found.reduce.axes, "k")
        depth = tuple(a for a in found.reduce.axes if a.extent != 1) or found.reduce.axes[:1]
        inside = extent_of(depth[1:])
        if not found.m_axes or not inside.is_const or inside.const > most:
            raise NotRealised(f"windows of {inside} points do not stay in a cache")
        flat = substitute(substitute(found.columns, k_map), n_map)
        if packed_once(flat, n, k) is not None:
            raise NotRealised("columns that are weights are no windows")
        points = {a: ix(0) for a in found.reduce.axes if a not in depth}
        columns = substitute(found.columns, points)
        runs = find_runs(columns, found.n_axes, n, substitute(columns, n_map))
        if runs is None:
            raise NotRealised("columns whose neighbours do not lie in runs")
        return _WindowColumns(found, depth, inside.const, runs)


def rows_alike(found: Contraction, sizes: Schedule, machine: Processor) -> int:
    """How many rows of a tile have the same runs: those of the outermost axis of k, or one."""
    windows = _WindowColumns.of(found, machine.tiles.window_points)
    tile, columns = Buffer("b_tile", Role.SCRATCH, (ix(1), ix(WIDTH)), f32), (ix(0), ix(WIDTH))
    parts = DepthParts.of(windows.depth, windows.inside, sizes["deep"])
    if _turned(windows.runs, parts, sizes) is not None:
        return 1
    rows = _rows_of_runs(windows.runs, parts, (ix(0), ix(1)), tile, columns)
    return 1 if rows.steps(parts.axes[0]) is None else parts.step


def has_windows(found: Contraction, machine: Processor) -> bool:
    """Whether the columns of a product can be packed in the kernel, in runs."""
    try:
        _WindowColumns.of(found, machine.tiles.window_points)
    except NotRealised:
        return False
    return True


def rows_place(found: Contraction) -> str:
    """Where the rows of a product are: in panels, or in strides, from which the kernel packs them."""
    (m, m_map), (k, k_map) = flatten(found.m_axes, "m"), flatten(found.reduce.axes, "k")
    value = substitute(substitute(found.rows, k_map), m_map)
    in_strides = affine(value, m, k) is not None and rows_packed_once(value, m, k) is None
    return "rows" if in_strides else "panels"


def rows_packed_before(
    found: Contraction, region: Region
) -> tuple[Buffer, Region, Contraction, Region] | None:
    """(panels, what stores them, the product that reads them, what it computes) of rows.

    None where they are a weight that is packed once, or lie in strides, so that the kernel packs them.
    """
    (m, m_map), (k, k_map) = flatten(found.m_axes, "m"), flatten(found.reduce.axes, "k")
    value = substitute(substitute(found.rows, k_map), m_map)
    if affine(value, m, k) is not None:
        return None
    batch = tuple(a for a in found.grid if a in free_axes(value))
    buffer, before = packing(value, m, k, batch)
    element = in_panels(
        buffer, tuple(map(ix, batch)), joined(found.m_axes), joined(found.reduce.axes)
    )
    return buffer, before, *with_factor(found, region, found.rows, element)


def implicit(plan: KernelPlan, sizes: Schedule, machine: Processor) -> Built:
    """The kernel of a plan of one product and the store after it; NotRealised where its columns are no windows."""
    check(sizes, SITES, PLACES)
    check_steps(sizes, "rows", "chunk")
    check_whole(sizes, "held", WIDTH)
    if sizes["alike"] not in (0, 1):
        raise NotRealised("rows are packed together, 1, or one by one, 0")
    found, store = Contraction.of(plan)
    windows = _WindowColumns.of(found, machine.tiles.window_points)
    m, m_map = flatten(found.m_axes, "m")
    n, n_map = flatten(found.n_axes, "n")
    k, k_map = flatten(found.reduce.axes, "k")
    value = substitute(substitute(found.rows, k_map), m_map)
    rows = _rows(Region((store,)), found, value, (m, k), sizes.where("a"))
    parts = DepthParts.of(windows.depth, windows.inside, sizes["deep"])
    mapping = {**m_map, **n_map}
    program = _program(plan, found, (m, n, k), mapping, rows, windows.runs, parts, sizes)
    program = replace(program, args=(*rows.meaning.reads(), store.dst))
    return Built(program, rows.meaning, rows.packs)


def _rows(
    region: Region, found: Contraction, value: Expr, axes: tuple[Axis, Axis], place: str
) -> Rows:
    """A at its place, and what the kernel then computes."""
    m, k = axes
    once, strided = rows_packed_once(value, m, k), affine(value, m, k)
    if place == "panels" and once is not None:
        row, at = joined(found.m_axes), joined(found.reduce.axes)
        source, panels = once.source, once.panels
        packed = Buffer(f"{source.name}_panels", Role.WEIGHT, (ix(panels.elements),), source.dtype)
        base = once.before * k.extent  # whole panels
        operand = Operand(packed, base, k.extent * WIDTH, ix(WIDTH), None, panels=True)
        in_panel = row // WIDTH * (k.extent * WIDTH) + at * WIDTH + row % WIDTH
        meaning = with_factor(found, region, found.rows, read(packed, (base + in_panel,)))[1]
        return Rows(operand, meaning, ((packed, source, panels),))
    if place == "panels":
        return Rows(panels_of(value, k), region)
    if strided is None or once is not None:
        raise NotRealised("rows that lie in no strides, or in a weight that is packed once")
    source, base, stride, k_stride = strided
    return Rows(Operand(source, base, stride, k_stride, value), region)


@dataclass(frozen=True)
class DepthParts:
    """How k is cut: `step` points of its outermost axis at a time, each with `inside` points of the others."""

    axes: tuple[Axis, ...]
    inside: int
    step: int
    is_one: bool

    @staticmethod
    def of(axes: tuple[Axis, ...], inside: int, deep: int) -> DepthParts:
        extent = axes[0].extent
        most = max(1, deep // inside)
        if not extent.is_const:
            return DepthParts(axes, inside, most, is_one=False)
        count = -(-extent.const // most)
        return DepthParts(axes, inside, -(-extent.const // count), is_one=count == 1)

    @property
    def deepest(self) -> int:
        return self.step * self.inside


@dataclass(frozen=True)
class _Shares:
    """What a task has: a point of the grid, and shares of rows and of columns."""

    top: Scope
    axis: Axis
    count: Ix
    rows: tuple[Axis, Axis]
    columns: tuple[Axis, Axis]
    numbers: tuple[tuple[Dim, Ix], ...]

    @staticmethod
    def of(found: Contraction, m: Axis, n: Axis, dims: tuple[Dim, ...], sizes: Schedule) -> _Shares:
        """Tiles of columns for every thread; few columns have rows shared out too, and each share packs them again."""
        chunk, held = sizes["chunk"], sizes["held"]
        grid_size = extent_of(found.grid)
        shares, numbers = threads_of(grid_size, dims)
        n_tiles = tiles(n.extent, 2 * chunk, chunk, shares)
        m_tiles = tiles(m.extent, held, held // 2, ceildiv(shares, n_tiles))
        row_tiles, column_tiles = (
            number("row_tiles", m_tiles, dims),
            number("column_tiles", n_tiles, dims),
        )
        task = Axis("task", grid_size * m_tiles * n_tiles)
        top = Scope(Names(), frozenset({task}))
        m_part, n_part = Axis("row_tile", ix(row_tiles)), Axis("column_tile", ix(column_tiles))
        top.bind(n_part, ix(task) % column_tiles)
        top.bind(m_part, ix(task) // column_tiles % row_tiles)
        top.spread(ix(task) // column_tiles // row_tiles, found.grid)
        rows = _share(top, m, m_part, row_tiles, "m", "rows_each")
        columns = _share(top, n, n_part, column_tiles, "n", "columns_each")
        numbers = (*numbers, (row_tiles, m_tiles), (column_tiles, n_tiles))
        return _Shares(top, task, grid_size * row_tiles * column_tiles, rows, columns, numbers)


def _program(
    plan: KernelPlan,
    found: Contraction,
    axes: tuple[Axis, Axis, Axis],
    mapping: dict[Axis, Ix],
    rows: Rows,
    runs: Runs,
    parts: DepthParts,
    sizes: Schedule,
) -> TileProgram:
    (store,) = plan.stores
    m, n, k = axes
    chunk, dims = sizes["chunk"], dims_of(plan.region)
    task = _Shares.of(found, m, n, dims, sizes)
    (m0, m1), (n0, n1) = task.rows, task.columns
    task.top.loops = loops_by_value(moved(fold, mapping) for fold in found.folds)
    scratch = a_tile, b_tile, c_tile = _scratch(m, parts, sizes)
    turned = _turned(runs, parts, sizes)
    c = Axis("c", n.extent)
    c_end = minimum(ix(c) + chunk, n1)
    whole = parts.axes[0].extent
    first = Axis("part", maximum(whole, ix(1)))  # the sum of nothing is 0
    begin = ix(0) if parts.is_one else ix(first)
    span = begin, whole if parts.is_one else minimum(begin + parts.step, whole)
    share = ix(m0), ix(m1)
    inner: list[Stmt] = [
        *_packed(runs, parts, span, (b_tile, turned), (ix(c), c_end), sizes["alike"] == 1),
        _multiply(rows, parts, span, (m, k), share, c_end - c, scratch),
    ]
    if not parts.is_one:
        inner = [For(first, ix(0), first.extent, False, tuple(inner), step=parts.step)]

    value = substitute(store.value, mapping)
    at = tuple(i.substitute(mapping) for i in store.at)
    contraction = substitute(found.reduce, mapping)
    out = map_expr(value, {contraction: read(c_tile, (ix(m) - m0, ix(n) - c))})
    points = Points(m, *share), Points(n, ix(c), c_end)
    inner.append(stored(task.top, store.dst, at, out, *points))
    task.top.stmts.append(For(c, ix(n0), ix(n1), False, tuple(inner), step=chunk))
    used = (b_tile, c_tile) if rows.operand.panels else (a_tile, b_tile, c_tile)
    used = used if turned is None else (*used, turned)
    body = tuple(task.top.stmts)
    return TileProgram("panel", (), dims, task.axis, task.count, used, body, numbers=task.numbers)


def _scratch(m: Axis, parts: DepthParts, sizes: Schedule) -> tuple[Buffer, Buffer, Buffer]:
    """Tiles of rows, of columns, and of their products."""
    # of a row of a tile: not a power of two, whose rows would share places in the caches
    length, held = ix(sizes["chunk"] + WIDTH), sizes["held"]
    most = ceildiv(m.extent.bounds()[1] or held, WIDTH) * WIDTH
    return (
        Buffer("a_tile", Role.SCRATCH, (ix(sizes["rows"]), ix(parts.deepest)), f32),
        Buffer("b_tile", Role.SCRATCH, (ix(parts.deepest), length), f32),
        Buffer("c_tile", Role.SCRATCH, (minimum(held, most), length), f32),
    )


def _share(
    top: Scope, axis: Axis, part: Axis, shares: Dim, name: str, each: str
) -> tuple[Axis, Axis]:
    """The first point of a share of the axis, and the one behind its last: equal shares of whole panels."""
    size = Axis(each, axis.extent + WIDTH)
    top.bind(size, ceildiv(ceildiv(axis.extent, shares), WIDTH) * WIDTH)
    lo, hi = Axis(f"{name}0", axis.extent + 1), Axis(f"{name}1", axis.extent + 1)
    top.bind(lo, minimum(ix(part) * size, axis.extent))
    top.bind(hi, minimum(ix(lo) + size, axis.extent))
    return lo, hi


def _turned(runs: Runs, parts: DepthParts, sizes: Schedule) -> Buffer | None:
    """The tile of columns of which each lies along k, which is copied as memory has it; None of others."""
    (along, *inside), strided = parts.axes, runs.stride != 1
    plain = not inside and not runs.where and runs.repeat == 1 and runs.outer.extent == 1
    if not strided or not plain or runs.base.coefficient(along) != 1:
        return None
    dims = ix(sizes["chunk"]), ceildiv(ix(parts.deepest), WIDTH) * WIDTH + WIDTH
    return Buffer("columns", Role.SCRATCH, dims, f32)


def _packed(
    runs: Runs,
    parts: DepthParts,
    span: tuple[Ix, Ix],
    into: tuple[Buffer, Buffer | None],
    columns: tuple[Ix, Ix],
    alike: bool,
) -> tuple[Stmt, ...]:
    """A tile of columns, in rows of k. Columns that lie along k are copied one by one and turned."""
    (tile, turned), (lo, hi), (begin, end) = into, columns, span
    if turned is None:
        return (_pack(runs, parts, span, tile, columns, alike),)
    if alike:
        raise NotRealised("columns that lie along k are copied one by one")
    along, none = parts.axes[0], Axis("outer", ix(1))
    at, base = (ix(runs.run) - lo) * turned.dims[1], runs.base - along + runs.stride * ix(runs.run)
    column = PackRuns(turned, at, runs.source, base, 1, (), none, along, begin, end)
    copies = For(runs.run, lo, hi, False, (column,))
    return copies, Transpose(tile, turned, hi - lo, end - begin)


def _pack(
    runs: Runs,
    parts: DepthParts,
    span: tuple[Ix, Ix],
    tile: Buffer,
    columns: tuple[Ix, Ix],
    alike: bool,
) -> Stmt:
    """Loops over a part of k, a row of the tile for each point, or for all of the outermost axis at a time."""
    first, *inside = parts.axes
    rows = _rows_of_runs(runs, parts, span, tile, columns)
    if alike and rows.steps(first) is None:
        raise NotRealised(f"rows of {first} that have no runs in common")
    stmt: Stmt = rows if alike else replace(rows, rows=None)
    for a in reversed(inside):
        stmt = For(a, ix(0), a.extent, False, (stmt,))
    return stmt if alike else For(first, *span, False, (stmt,))


def _rows_of_runs(
    runs: Runs, parts: DepthParts, span: tuple[Ix, Ix], tile: Buffer, columns: tuple[Ix, Ix]
) -> PackRuns:
    """The rows of the tile for all points of the outermost axis of k, at one point of the others."""
    k = ix(0)
    for a in parts.axes:
        k = k * a.extent + a
    at = (k - span[0] * parts.inside) * tile.dims[1]
    return replace(runs.row(tile, at, *columns), rows=(parts.axes[0], *span))


def _multiply(
    rows: Rows,
    parts: DepthParts,
    span: tuple[Ix, Ix],
    axes: tuple[Axis, Axis],
    share: tuple[Ix, Ix],
    columns: Ix,
    tiles: tuple[Buffer, Buffer, Buffer],
) -> Stmt:
    """A tile of columns times all rows of a share, some rows at a time: these stay in the second cache."""
    (m, k), (m0, m1), (begin, end) = axes, share, span
    a_tile, b_tile, c_tile = tiles
    band = a_tile.dims[0].const
    first = Axis("band", m.extent)
    last = minimum(ix(first) + band, m1)
    lo, depth = begin * parts.inside, (end - begin) * parts.inside
    length = b_tile.dims[1]
    b = Operand(b_tile, ix(0), ix(1), length, None)
    stride = rows.operand.stride
    a, a_at, before = a_tile, ix(0), ()
    if not rows.operand.panels:
        before = (Pack(a_tile, ix(0), rows.operand, m, ix(first), last, k, lo, lo + depth),)
    else:
        assert rows.operand.source is not None
        assert stride is not None
        panel = ix(first) // WIDTH * stride
        a, a_at = rows.operand.source, rows.operand.base + panel + lo * WIDTH
    mma = Mma(
        c_tile,
        (ix(first) - m0) * length,
        length,
        a,
        a_at,
        b,
        last - first,
        columns,
        depth,
        begin,
        a_stride=stride if rows.operand.panels else None,
        whole=True,
    )
    return For(first, m0, m1, False, (*before, mma), step=band)
