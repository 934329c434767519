"""panels: the kernel of products whose columns lie in panels, and of what follows them.

Before: a plan of some products over the same rows and columns, and the store after them.  After: a tile program that
packs rows of A, multiplies them with packed columns of B and applies the rest of the expression to tiles of the
products. Rows that several products share are packed once. Columns that are no weight are packed by a kernel before,
or, in a `tile`, by each task, as many as it multiplies at a time: what is computed exists nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from lumigen.dtype import DType, bf16, f32, i32
from lumigen.index import Axis, Ix, ceildiv, ix, maximum, minimum
from lumigen.lower.built import Built, check, check_steps, check_whole
from lumigen.lower.contract import (
    PAIRED_ROWS,
    WIDTH,
    Columns,
    Contraction,
    Points,
    Products,
    flatten,
    is_in_runs,
    stored,
)
from lumigen.lower.contractions import bytes_of, is_plain, reductions_beside
from lumigen.lower.deep_windows import DeepWindows
from lumigen.lower.implicit import find_runs
from lumigen.lower.operands import as_operand
from lumigen.lower.panel_columns import (
    MadeInTile,
    PanelScales,
    PanelTile,
    columns_of,
    each_part,
    in_tile,
    parts_of_depth,
    scales_of,
    unit_of_columns,
)
from lumigen.lower.panel_tasks import Tasks, tasks_of
from lumigen.lower.scope import address, loops_by_value, moved
from lumigen.lower.simt import dims_of
from lumigen.machine import Processor
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Expr, Read, Region, Role, Store, map_expr, read, substitute
from lumigen.schedule import Schedule
from lumigen.tile import (
    For,
    GroupScales,
    Mma,
    Operand,
    Pack,
    Stmt,
    StoreTile,
    TileProgram,
    Transpose,
)

SITES = ("rows", "columns", "chunk", "depth", "streamed")
PLACES = {"b": ("panels", "tile")}


def contract(plan: KernelPlan, sizes: Schedule, machine: Processor) -> Built:
    """The kernel of a plan of products and the store after them; NotRealised where it has other steps."""
    check(sizes, SITES, PLACES)
    check_steps(sizes, "rows", "columns", "chunk", "depth")
    check_whole(sizes, "chunk", WIDTH)
    found, store = Products.of(plan)
    columns = _columns(found)
    program = _program(plan, store, found, columns, sizes, machine)
    packed: dict[Expr, Expr] = {}
    in_panels = [p for p in zip(found.each, columns, strict=True) if not in_tile(p[1], sizes)]
    for c, b in in_panels:
        packed[c.reduce] = map_expr(c.reduce, {c.columns: b.element(b.operand)})
    meaning = Region((replace(store, value=map_expr(store.value, packed)),))
    program = replace(program, args=(*meaning.reads(), store.dst))
    packs = dict.fromkeys(pack for b in columns for pack in b.packs)
    return Built(program, meaning, tuple(packs))


def _columns(found: Products) -> tuple[Columns, ...]:
    """B of each product. A weight of which several have other parts lies in panels of each of these parts."""
    out: list[Columns] = []
    for c in found.each:
        b = Columns.of(c)
        taken = {p.name: how for x in out for p, _, how in x.packs}
        if any(taken.get(p.name, how) != how for p, _, how in b.packs):
            b = replace(b, suffix=str(len(out)))
        out.append(b)
    return tuple(out)


@dataclass(frozen=True)
class _Sum:
    """One product in a tile: its columns, what a processor multiplies it as, and the tile of its sums.

    Column n of row m is at `base + n + (m - m0) * stride` of `acc`.
    """

    value: Expr  # over the flat axes
    b: Operand | MadeInTile
    element: DType
    acc: Buffer
    base: Ix
    stride: Ix
    scales: PanelScales | None = None


@dataclass(frozen=True)
class _Rows:
    """Rows of A, as many of k as a part has, and the products that have them in common."""

    pack: Pack
    k0: Axis
    lo: Ix
    hi: Ix
    parts: int
    each: int  # of k in a part
    sums: tuple[_Sum, ...]
    mapped: tuple[Stmt, ...] = ()  # what stores the rows that are packed
    x_tile: Buffer | None = None
    before: tuple[Stmt, ...] = ()  # of all parts

    @property
    def packed(self) -> tuple[Stmt, ...]:
        """The rows in their blocks."""
        return (*self.mapped, self.pack)

    @property
    def tiles(self) -> tuple[Buffer, ...]:
        each = (
            x
            for s in self.sums
            for x in (s.b, *((s.scales.scales, s.scales.least) if s.scales else ()))
        )
        made = (x for x in each if isinstance(x, MadeInTile))
        of_columns = (t for b in made for t in (b.x_tile, b.b_tile) if t is not None)
        rows = (self.pack.dst,) if self.x_tile is None else (self.x_tile, self.pack.dst)
        return (*rows, *of_columns)

    def multiplied(self, tile: PanelTile) -> tuple[Stmt, ...]:
        """The products of a chunk of columns."""
        out: list[Stmt] = []
        pack, chunk = self.pack, ix(tile.chunk)
        for s in self.sums:
            groups: GroupScales | None = None
            if s.scales is not None:
                made, groups = s.scales.at(tile, self.lo, self.hi)
                out += made
                b = groups.planes[0].operand
            elif isinstance(s.b, MadeInTile):
                out += s.b.stmts(tile, self.lo, self.hi)
                depth = (self.hi - self.lo) * WIDTH
                b = Operand(s.b.b_tile, ix(0), depth, ix(WIDTH), None, panels=True)
            else:
                b = replace(s.b, base=s.b.base + chunk // WIDTH * (s.b.stride or ix(0)))
                b = replace(b, base=b.base + self.lo * WIDTH)
            sizes = (pack.row_hi - pack.row_lo, tile.end - chunk, self.hi - self.lo, self.lo)
            at = (s.acc, s.base + chunk, s.stride)
            product = Mma(*at, pack.dst, ix(0), b, *sizes, element=s.element, groups=groups)
            out.append(replace(product, streamed=tile.streamed and s.element is not f32))
        return tuple(out)


def _program(
    plan: KernelPlan,
    store: Store,
    found: Products,
    columns: tuple[Columns, ...],
    sizes: Schedule,
    machine: Processor,
) -> TileProgram:
    first, n = found.each[0], columns[0].n
    m, m_map = flatten(first.m_axes, "m")
    mapping = {**m_map, **flatten(first.n_axes, "n")[1]}
    operands = [_rows_of(c, m, b.k, mapping) for c, b in zip(found.each, columns, strict=True)]
    elements = [_multiplied_as(m, a, b) for a, b in zip(operands, columns, strict=True)]
    streamed = bool(sizes["streamed"])
    if streamed and any(b.once is None for b in columns):
        raise NotRealised("columns that are no weight do not come from memory")
    whole = any(b.side > 1 for b in columns), 2 * PAIRED_ROWS if {*elements} - {f32} else 1
    least = machine.tiles.least_rows
    # what takes long to pack is packed for many columns
    wide = machine.tiles.least_columns if any(map(is_in_runs, found.each)) else 2 * WIDTH
    tasks = tasks_of(plan.region, first.grid, (m, n), whole, streamed, sizes, (least, wide))
    top, (n0, n1), chunk = tasks.scope, tasks.columns, Axis("c", n.extent)
    folds = (*found.statistics, *found.folds)
    top.loops = loops_by_value(moved(fold, mapping) for fold in folds)
    in_parts = any(parts_of_depth(b.k, sizes) > 1 for b in columns)
    end = minimum(ix(chunk) + sizes["chunk"], n1)
    of_rows = _statistics(found, m, mapping, tasks)
    vectors = machine.vectors
    unit = lcm(*(unit_of_columns(b, vectors) for b in columns))
    tile = PanelTile(m, n, mapping, tasks, chunk, end, streamed, in_parts, vectors, unit, of_rows)

    sums, epilogue = _sums(store, found, columns, elements, tile, sizes)
    rows = _rows(sums, operands, columns, tile, sizes)

    def for_chunks(*body: Stmt) -> Stmt:
        return For(chunk, ix(n0), ix(n1), False, body, step=sizes["chunk"])

    top.stmts += [s for r in rows for s in r.before]
    if in_parts:
        for r in rows:
            part = (*r.packed, for_chunks(*r.multiplied(tile)))
            k = ix(0), r.k0.extent
            top.stmts += [For(r.k0, *k, False, part, step=r.each)] if r.parts > 1 else part
        top.stmts += epilogue
    else:
        products = (s for r in rows for s in r.multiplied(tile))
        top.stmts += [*(s for r in rows for s in r.packed), for_chunks(*products, *epilogue)]
    held = [s.acc for s in sums if s.acc.role is Role.SCRATCH]
    held += [s.dst for s in epilogue if isinstance(s, Transpose)]
    numbers = [e.source for e in of_rows.values() if isinstance(e, Read)]
    scratch = (*numbers, *(b for r in rows for b in r.tiles), *held)
    body = tuple(top.stmts)
    at = dims_of(plan.region), tasks.axis, tasks.count
    return TileProgram("panel", (), *at, scratch, body, numbers=tasks.numbers)


def _statistics(
    found: Products, m: Axis, mapping: dict[Axis, Ix], tasks: Tasks
) -> dict[Expr, Expr]:
    """Where to read what the rows need of whole rows: a number for each row of the tile, computed first."""
    if not found.statistics:
        return {}
    scope, (m0, m1) = tasks.scope.inner([m]), tasks.rows
    rows = [substitute(c.rows, mapping) for c in found.each]
    read_by_rows = list(dict.fromkeys(r for e in rows for r in reductions_beside(e)))
    out: dict[Expr, Expr] = {}
    for i, (r, value) in enumerate(zip(read_by_rows, scope.values(read_by_rows), strict=True)):
        tile = Buffer(f"row_{i}", Role.SCRATCH, (ix(tasks.most_rows),), f32)
        scope.stmts.append(StoreTile(tile, (ix(m) - m0,), value, None))
        out[r] = read(tile, (ix(m) - m0,))
    tasks.scope.stmts.append(For(m, ix(m0), ix(m1), False, tuple(scope.stmts)))
    return out


def _rows_of(found: Contraction, m: Axis, k: Axis, mapping: dict[Axis, Ix]) -> Operand:
    """A over the flat axes; of integers in groups these."""
    _, k_map = flatten(found.reduce.axes, "k")
    groups = Columns.of(found).groups
    rows = substitute(found.rows, k_map) if groups is None else groups.rows.integers
    return as_operand(substitute(rows, mapping), m, k)


def _multiplied_as(m: Axis, a: Operand, b: Columns) -> DType:
    """What a processor takes the factors as.

    One row waits for memory, which gives vectors more than tiles of a matrix unit, and floats hold what bf16 does.
    """
    if b.found.reduce.dtype is i32 or b.groups is not None:
        if a.source is not None:
            return a.source.dtype
        narrow = bytes_of(a.value) if a.value is not None and b.groups is None else None
        if narrow is None:
            raise NotRealised("rows of integers that memory does not have as they are")
        return narrow.dtype
    held = a.source.dtype is bf16 if a.source is not None else _is_computed(a)
    is_row = m.extent == ix(1) and held
    return bf16 if b.pairs and not is_row else f32


def _is_computed(a: Operand) -> bool:
    """Whether rows are computed, by vectors, and not only gathered."""
    return a.value is not None and a.source is None and not is_plain(a.value)


def _sums(
    store: Store,
    found: Products,
    columns: tuple[Columns, ...],
    elements: list[DType],
    tile: PanelTile,
    sizes: Schedule,
) -> tuple[list[_Sum], list[Stmt]]:
    """The products with the tiles of their sums, and what follows them."""
    tasks, m, n = tile.tasks, tile.m, tile.n
    (m0, m1), (n0, n1) = tasks.rows, tasks.columns
    value = substitute(store.value, tile.mapping)
    reduced = [substitute(c.reduce, tile.mapping) for c in found.each]
    at = tuple(i.substitute(tile.mapping) for i in store.at)
    made = [columns_of(i, b, tile, sizes) for i, b in enumerate(columns)]
    scales = [scales_of(i, b, tile, sizes) for i, b in enumerate(columns)]
    given = list(zip(reduced, made, elements, strict=True))
    direct = _direct(store.dst, at, m, n) if value is reduced[0] else None
    if direct is not None:
        base, stride = direct
        return [_Sum(*given[0], store.dst, base + stride * m0, stride, scales[0])], []
    # products of a part of k wait for those of the other parts, those of all k for the epilogue of their chunk; rows
    # that are a power of two apart would share few sets of a cache
    held, end, wide = tile.chunk, tile.end, sizes["chunk"]
    if tile.in_parts:
        held, end, wide = n0, ix(n1), sizes["columns"] + WIDTH
    names = ["c_tile"] if len(given) == 1 else [f"c_tile{i}" for i in range(len(given))]
    dims = ix(tasks.most_rows), ix(wide)
    accs = [Buffer(n, Role.SCRATCH, dims, v.dtype) for n, v in zip(names, reduced, strict=True)]
    placed = [(*s, acc, -ix(held), ix(wide)) for s, acc in zip(given, accs, strict=True)]
    sums = [_Sum(*s, of) for s, of in zip(placed, scales, strict=True)]
    of_rows, of_columns = Points(m, ix(m0), ix(m1)), Points(n, ix(held), end)
    done = {s.value: read(s.acc, (ix(m) - m0, ix(n) - held)) for s in sums} | tile.statistics
    if not _is_across(store.dst, at, tile, found):
        value = map_expr(value, done)
        return sums, [stored(tasks.scope, store.dst, at, value, of_rows, of_columns)]
    (s,), turned = sums, _turned(accs[0])
    done[s.value] = read(turned, (ix(n) - held, ix(m) - m0))
    value = map_expr(value, done)
    return sums, [
        Transpose(turned, s.acc, ix(m1) - m0, end - held),
        stored(tasks.scope, store.dst, at, value, of_columns, of_rows),
    ]


def _is_across(dst: Buffer, at: tuple[Ix, ...], tile: PanelTile, found: Products) -> bool:
    """Whether memory has rows side by side where a product is stored, so that vectors run along these."""
    flat = address(dst, at)
    folds = (*found.statistics, *found.folds)
    one = len(found.each) == 1 and found.each[0].reduce.dtype is i32 and not folds
    return one and flat.coefficient(tile.m) == 1 and flat.coefficient(tile.n) != 1


def _turned(acc: Buffer) -> Buffer:
    """A tile with the columns of another as rows, which are no power of two apart."""
    rows, columns = acc.dims
    return Buffer(
        "turned", Role.SCRATCH, (columns, ceildiv(rows, WIDTH) * WIDTH + WIDTH), acc.dtype
    )


def _rows(
    sums: list[_Sum],
    operands: list[Operand],
    columns: tuple[Columns, ...],
    tile: PanelTile,
    sizes: Schedule,
) -> list[_Rows]:
    """The products by their rows: what several have in common is packed once for them."""
    groups: dict[tuple[Operand, Axis, DType, int], list[int]] = {}
    for i, (s, a, b) in enumerate(zip(sums, operands, columns, strict=True)):
        size = 0 if s.scales is None else s.scales.groups.size
        groups.setdefault((a, b.k, s.element, size), []).append(i)
    out: list[_Rows] = []
    m0, m1 = tile.tasks.rows
    for (a, k, element, size), members in groups.items():
        number = str(len(out)) if len(groups) > 1 else ""
        parts = parts_of_depth(k, sizes)
        side = max(columns[i].side for i in members)
        each = each_part(k, sizes, lcm(tile.unit, PAIRED_ROWS * side if side > 1 else 1))
        held = element if element.is_int else f32
        most = tile.tasks.most_rows
        most += -(-i32.itemsize * most // size) if size else 0  # after them the sums of groups
        a_tile = Buffer(f"a_tile{number}", Role.SCRATCH, (ix(most), ix(each)), held)
        k0 = Axis(f"k{number or 0}", maximum(k.extent, ix(1)))  # the sum of nothing is 0
        lo, hi = (ix(k0), minimum(ix(k0) + each, k.extent)) if parts > 1 else (ix(0), k.extent)
        own = k0, lo, hi, parts, each, tuple(sums[i] for i in members)
        if element.is_int and a.source is None:
            out.append(_in_runs(columns[members[0]], a_tile, tile, own))
            continue
        pack = Pack(a_tile, ix(0), a, tile.m, ix(m0), ix(m1), k, lo, hi, element, size)
        if not _is_computed(a):
            out.append(_Rows(pack, *own))
            continue
        x_tile = replace(a_tile, name=f"x_tile{number}")
        x = Operand(x_tile, ix(0), ix(each), ix(1), None)
        zero, rows = ix(0), ix(m1) - m0
        pack = Pack(a_tile, zero, x, tile.m, zero, rows, k, zero, hi - lo, element, size)
        out.append(_Rows(pack, *own, (_mapped(a, x_tile, tile, Points(k, lo, hi)),), x_tile))
    return out


def _in_runs(
    of: Columns,
    a_tile: Buffer,
    tile: PanelTile,
    own: tuple[Axis, Ix, Ix, int, int, tuple[_Sum, ...]],
) -> _Rows:
    """Rows of bytes that are read in runs, as windows: of each k the rows of a tile side by side, then packed.

    Windows whose depth may lie innermost are packed from a tile in which it does.
    """
    deep = DeepWindows.of(of.found)
    if deep is not None:
        return _from_deep(deep, of, a_tile, tile, own)
    narrow, found = bytes_of(of.found.rows), of.found
    assert narrow is not None
    flat = substitute(narrow, flatten(found.reduce.axes, "k")[1])
    runs = find_runs(flat, found.m_axes, tile.m, substitute(flat, tile.mapping))
    if runs is None:
        raise NotRealised("rows of integers whose neighbours do not lie in runs")
    _, lo, hi, *_ = own
    (m0, m1), k = tile.tasks.rows, of.k
    wide = ix(-(-tile.tasks.most_rows // WIDTH) * WIDTH + WIDTH)
    x_tile = Buffer(
        a_tile.name.replace("a_", "x_"), Role.SCRATCH, (a_tile.dims[1], wide), a_tile.dtype
    )
    row = runs.row(x_tile, (ix(k) - lo) * wide, ix(m0), ix(m1))
    x = Operand(x_tile, ix(0), ix(1), wide, None)
    pack = Pack(a_tile, ix(0), x, tile.m, ix(0), ix(m1) - m0, k, ix(0), hi - lo, a_tile.dtype)
    return _Rows(pack, *own, (For(k, lo, hi, False, (row,)),), x_tile)


def _from_deep(
    deep: DeepWindows,
    of: Columns,
    a_tile: Buffer,
    tile: PanelTile,
    own: tuple[Axis, Ix, Ix, int, int, tuple[_Sum, ...]],
) -> _Rows:
    """Rows of windows that are packed from a tile of the image."""
    _, lo, hi, *_ = own
    m0, m1 = map(ix, tile.tasks.rows)
    x_tile = deep.tile(a_tile.name.replace("a_", "x_"), tile.tasks.most_rows)
    turned, first = deep.turned(x_tile, tile.tasks.scope, m0, m1)
    x, run = deep.operand(x_tile, first, tile.m)
    pack = Pack(a_tile, ix(0), x, tile.m, m0, m1, of.k, lo, hi, a_tile.dtype, run=run)
    return _Rows(pack, *own, (), x_tile, (turned,))


def _mapped(a: Operand, x_tile: Buffer, tile: PanelTile, ks: Points) -> Stmt:
    """What stores rows that are computed: vectors compute them, and to pack them takes numbers as they lie."""
    assert a.value is not None
    (m0, m1), m = tile.tasks.rows, tile.m
    value = map_expr(a.value, tile.statistics)
    at = (ix(m) - m0, ix(ks.axis) - ks.lo)
    return stored(tile.tasks.scope, x_tile, at, value, Points(m, ix(m0), ix(m1)), ks)


def _direct(dst: Buffer, at: tuple[Ix, ...], m: Axis, n: Axis) -> tuple[Ix, Ix] | None:
    """(base, row stride) of a destination that can hold the products themselves."""
    flat = address(dst, at)
    by_m, by_n = flat.coefficient(m), flat.coefficient(n)
    if dst.dtype not in (f32, i32):
        return None  # they are wider until they are stored
    if by_m is None or by_n != 1 or m in by_m.axes or n in by_m.axes:
        return None
    return flat - by_m * m - n, by_m
