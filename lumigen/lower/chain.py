"""chain: the panel skeleton for a contraction whose rows are themselves a contraction with weights.

Before: sum_k f(sum_d x[m, d] * v[d, k]) * w[k, n] with a map behind it.  After: a tile program whose work tile is a
run of rows m. It walks k in parts: a part of the inner product, the map f on it, and the outer product of that part
into accumulators for all n. The inner product, k wide for every row, never exists as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.dtype import bf16, f32
from lumigen.index import Axis, Ix, ceildiv, ix, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.contract import (
    WIDTH,
    Columns,
    Contraction,
    Points,
    as_operand,
    flatten,
    in_tiles,
    number,
    stored,
    tiles,
    whole_depth,
)
from lumigen.lower.contractions import LONGEST, is_plain, product_factors
from lumigen.lower.scope import Names, Scope, kernel_reductions
from lumigen.lower.simt import dims_of
from lumigen.lower.sweeps import grid_loop
from lumigen.plan import Carry, KernelPlan, Loop, NotRealised, Product
from lumigen.program import THREADS
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Read,
    Reduce,
    Region,
    Role,
    Store,
    carried,
    free_axes,
    map_expr,
    read,
    substitute,
)
from lumigen.schedule import Schedule
from lumigen.tile import For, Mma, Operand, Pack, TileProgram


@dataclass(frozen=True)
class Chain:
    """Two contractions in a row. The outer one's columns are the store's last axes, both have weights as columns."""

    outer: Contraction
    inner: Contraction
    between: Expr  # the outer one's rows: a map of the inner one

    @staticmethod
    def of(plan: KernelPlan) -> tuple[Chain, Store]:
        """What a plan of a fold around one product, with one sum, says; NotRealised where it is of another form."""
        if len(plan.root) != 1 or plan.then is not None or (grid := plan.root[0]).where:
            raise NotRealised("a chain stands in one grid, at all of its points")
        loop, store = grid.body if len(grid.body) == 2 else (None, None)
        if not isinstance(loop, Loop) or not isinstance(store, Store) or len(loop.body) != 1:
            raise NotRealised("a chain is a fold around one product, and the store after it")
        (inner,), (carry, *more) = loop.body, loop.carries
        if more or carry.correct is not None or carry.product is None or loop.where:
            raise NotRealised("a chain carries one sum of products, over all points")
        outer = carry.product
        if not isinstance(inner, Product) or inner.m != outer.m or inner.n != loop.axes:
            raise NotRealised(
                "the columns of the inner product of a chain are what its loop is over"
            )
        if grid.axes != store.axes or store.axes != (*outer.m, *outer.n):
            raise NotRealised("a chain has no other axes than rows and columns")
        outer_one = _contraction(outer, loop.axes)
        return Chain(outer_one, _contraction(inner, inner.value.axes), outer.rows), store

    def plan(self, region: Region) -> KernelPlan:
        """The kernel of a region that holds this chain."""
        (store,) = region.stores
        outer, inner = (
            Product(c.reduce, c.rows, c.columns, c.m_axes, c.n_axes)
            for c in (self.outer, self.inner)
        )
        sum_ = outer.value
        carry = Carry(sum_, Monoid.SUM, sum_.body, None, outer)
        results = ((sum_, carried(0, "new", sum_.dtype)),)
        loop = Loop(sum_.axes, "seq", (inner,), (carry,), results)
        return KernelPlan(region, (grid_loop(store.axes, (loop, store)),))


def find_chain(store: Store) -> Chain | None:
    """The region's chain of two contractions, or None."""
    reductions = kernel_reductions([store.value])
    if (
        len(reductions) != 2
        or store.value.dtype is not f32
        or any(r.dtype is not f32 for r in reductions)
    ):
        return None
    first, second = reductions
    factors = product_factors(second)
    if (
        factors is None
        or product_factors(first) is None
        or free_axes(second) != frozenset(store.axes)
    ):
        return None
    inner_of = [f for f in factors if first in kernel_reductions([f])]
    if len(inner_of) != 1:
        return None
    (between,) = inner_of
    columns = factors[1] if between is factors[0] else factors[0]
    n_axes = tuple(a for a in store.axes if a in free_axes(columns))
    m_axes = tuple(a for a in store.axes if a in free_axes(between))
    if set(n_axes) & set(m_axes) or store.axes[len(m_axes) :] != n_axes or not n_axes or not m_axes:
        return None
    outer = Contraction(second, between, columns, (), m_axes, n_axes)
    inner = _inner(first, m_axes, second.axes)
    if inner is None or not is_plain(columns):
        return None
    found = Chain(outer, inner, between)
    return found if _columns(found) is not None else None


def _inner(first: Reduce, m_axes: tuple[Axis, ...], k_axes: tuple[Axis, ...]) -> Contraction | None:
    factors = product_factors(first)
    assert factors is not None
    for rows, columns in (factors, factors[::-1]):
        splits = free_axes(rows) - set(first.axes) == frozenset(m_axes)
        if (
            splits
            and free_axes(columns) - set(first.axes) == frozenset(k_axes)
            and is_plain(rows)
            and is_plain(columns)
        ):
            return Contraction(first, rows, columns, (), m_axes, k_axes)
    return None


def _columns(found: Chain) -> tuple[Columns, Columns] | None:
    """The columns of both, if they are weights in panels: others would be packed again for each call."""
    n, n_map = flatten(found.outer.n_axes, "n")
    k, k_map = flatten(found.outer.reduce.axes, "k")
    d, d_map = flatten(found.inner.reduce.axes, "d")
    limits = [x.extent.bounds()[1] for x in (n, d)]
    if not all(x.extent.is_const for x in (n, k, d)) or any(
        x is None or x > LONGEST for x in limits
    ):
        return None
    outer = Columns(substitute(substitute(found.outer.columns, k_map), n_map), found.outer, n, k)
    inner = Columns(substitute(substitute(found.inner.columns, d_map), k_map), found.inner, k, d)
    return None if None in (outer.once, inner.once) else (outer, inner)


def _contraction(p: Product, over: tuple[Axis, ...]) -> Contraction:
    if p.value.axes != over:
        raise NotRealised("a product of a chain is over another axis than its loop")
    return Contraction(p.value, p.rows, p.columns, (), p.m, p.n)


SITES = ("rows", "least_rows", "part", "depth")


def chain(plan: KernelPlan, sizes: Schedule) -> Built:
    """The kernel of a plan of a chain; NotRealised where it is of another form."""
    check(sizes, SITES)
    found, store = Chain.of(plan)
    columns = _columns(found)
    if columns is None:
        raise NotRealised("columns of a chain that are not weights in panels, or too long")
    outer_columns, inner_columns = columns
    n, k, d = outer_columns.n, outer_columns.k, inner_columns.k
    (m, m_map), (_, n_map) = flatten(found.outer.m_axes, "m"), flatten(found.outer.n_axes, "n")
    (_, k_map), (_, d_map) = flatten(found.inner.n_axes, "k"), flatten(found.inner.reduce.axes, "d")
    w, v = outer_columns.operand, inner_columns.operand
    rows = substitute(substitute(found.inner.rows, d_map), m_map)
    axes = (m, n, k, d)
    x = as_operand(rows, m, d)
    maps = {**m_map, **n_map, **k_map}
    program = _program(plan.region, store, found, axes, maps, x, v, w, sizes)
    packed = {
        found.outer.columns: outer_columns.element(w),
        found.inner.columns: inner_columns.element(v),
    }
    meaning = Region((replace(store, value=map_expr(store.value, packed)),))
    return Built(program, meaning, (*inner_columns.packs, *outer_columns.packs))


def _program(
    region: Region,
    store: Store,
    found: Chain,
    axes: tuple[Axis, Axis, Axis, Axis],
    mapping: dict[Axis, Ix],
    x: Operand,
    v: Operand,
    w: Operand,
    sizes: Schedule,
) -> TileProgram:
    m, n, k, d = axes
    wanted = tiles(m.extent, sizes["rows"], sizes["least_rows"], ix(THREADS))
    task = Axis("task", wanted)
    top = Scope(Names(), frozenset({task}))
    row_tiles = number("row_tiles", wanted, dims_of(region))
    m0, m1 = Axis("m0", m.extent), Axis("m1", m.extent + 1)
    rows_each = ceildiv(m.extent, row_tiles)
    each = Axis("rows_each", m.extent + 1)
    top.bind(each, rows_each)
    top.bind(m0, minimum(ix(task) * each, m.extent))
    top.bind(m1, minimum(ix(m0) + each, m.extent))
    rows, width, depth = ix(m1) - m0, n.extent.const, d.extent.const
    x_rows = in_tiles(rows) if v.pairs else rows
    x_depth = whole_depth(depth) if v.pairs else depth
    inner_dtype, outer_dtype = (bf16 if b.pairs else f32 for b in (v, w))
    most, wide = ix(sizes["rows"]), ix(sizes["part"])
    x_tile = Buffer("x_tile", Role.SCRATCH, (most, ix(x_depth)), f32)
    part = Buffer("part", Role.SCRATCH, (most, wide), f32)
    a_tile = Buffer("a_tile", Role.SCRATCH, (most, wide), f32)
    sums = Buffer("sums", Role.SCRATCH, (most, ix(width)), f32)
    zero = ix(0)
    m_points = Points(m, ix(m0), ix(m1))

    spans = [(d0, min(d0 + sizes["depth"], depth)) for d0 in range(0, depth, sizes["depth"])]
    for d0, d1 in spans:
        depths = Points(d, ix(d0), ix(d1))
        top.stmts.append(Pack(x_tile, d0 * x_rows, x, *m_points, *depths, inner_dtype))
    k0, k1 = Axis("k0", k.extent), Axis("k1", k.extent + 1)
    turn = top.inner([k0])
    turn.bind(k1, minimum(ix(k0) + sizes["part"], k.extent))
    count = ix(k1) - k0
    for d0, d1 in spans:
        b = replace(v, base=v.base + ix(k0) // WIDTH * (v.stride or zero) + d0 * WIDTH)
        sizes_of = (rows, count, ix(d1 - d0), ix(d0))
        turn.stmts.append(
            Mma(part, zero, wide, x_tile, d0 * x_rows, b, *sizes_of, element=inner_dtype)
        )
    at = (ix(m) - m0, ix(k) - k0)
    between = substitute(map_expr(found.between, {found.inner.reduce: read(part, at)}), mapping)
    turn.stmts.append(stored(turn, part, at, between, m_points, Points(k, ix(k0), ix(k1))))
    mapped = Operand(part, zero, wide, ix(1), None)
    turn.stmts.append(Pack(a_tile, zero, mapped, m, zero, rows, k, zero, count, outer_dtype))
    b = replace(w, base=w.base + ix(k0) * WIDTH)
    sizes_of = (rows, n.extent, count, ix(k0))
    turn.stmts.append(Mma(sums, zero, ix(width), a_tile, zero, b, *sizes_of, element=outer_dtype))
    top.stmts.append(For(k0, zero, k.extent, False, tuple(turn.stmts), step=sizes["part"]))

    total = read(sums, (ix(m) - m0, ix(n)))
    out = substitute(map_expr(store.value, {found.outer.reduce: total}), mapping)
    where = tuple(i.substitute(mapping) for i in store.at)
    top.stmts.append(stored(top, store.dst, where, out, m_points, Points(n, zero, n.extent)))

    sources = {b for b in (v.source, w.source) if b is not None}
    columns = (found.outer.columns, found.inner.columns)
    originals = {c.source for c in columns if isinstance(c, Read)}
    reads = [b for b in region.reads() if b not in originals]
    args = (*reads, *sorted(sources, key=lambda b: b.name), store.dst)
    scratch = (x_tile, part, a_tile, sums)
    body = tuple(top.stmts)
    numbers = ((row_tiles, wanted),)
    return TileProgram(
        "panel", args, dims_of(region), task, ix(row_tiles), scratch, body, (), numbers
    )
