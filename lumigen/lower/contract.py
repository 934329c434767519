"""contract: which products of matrices a value contains, and the layout of their operands.

Before: a region whose value contains contractions over all of the store's axes.  After: their plan, one grid with a
product for each of them and the store after them.

Rows, columns and depth follow from index sets: columns are the store's last axes that only B has, rows the axes
that only A has, what both have is a batch. Several axes flatten into one wherever addresses stay affine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from lumigen.condition import less
from lumigen.dtype import bf16, f32, i32
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, ix, lookup, maximum, minimum, unravel
from lumigen.lower.contractions import bytes_of, product_factors, scored_factors
from lumigen.lower.groups import Groups, find_groups
from lumigen.lower.operands import affine, packed_once
from lumigen.lower.scope import (
    Scope,
    address,
    adds_integers,
    floats_of,
    kernel_reductions,
    lanes_fit,
)
from lumigen.lower.sweeps import Around, grid_loop, sweeps_in_order
from lumigen.machine import Machine
from lumigen.memo import remembered
from lumigen.names import fresh
from lumigen.plan import KernelPlan, Loop, NotRealised, Product
from lumigen.program import PAIR, PAIRED_ROWS, QUAD, THREADS, Panels
from lumigen.program import PANEL as WIDTH
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
    index,
    map_expr,
    read,
    substitute,
    walk,
)
from lumigen.tile import For, Operand, Stmt, StoreTile


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
        found, store = Products.of(plan)
        one, *others = found.each
        if others:
            raise NotRealised("a tile of one product, not of several")
        return replace(one, folds=found.folds), store

    def plan(self, region: Region, machine: Machine, *, alone: bool) -> KernelPlan:
        """The kernel of a region that holds this one; what follows it runs `alone` in each thread, or over lanes."""
        return Products((self,)).plan(region, machine, alone=alone)

    @property
    def place(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes of its batch, rows and columns."""
        return self.grid, self.m_axes, self.n_axes


@dataclass(frozen=True)
class Products:
    """Contractions over the same batch, rows and columns that one value is made of, with an accumulator for each.

    `statistics` are the loops of what their rows read of a whole row, as a norm does; `folds` those of the other
    reductions of what is stored.
    """

    each: tuple[Contraction, ...]
    folds: tuple[Loop, ...] = ()
    statistics: tuple[Loop, ...] = ()

    @staticmethod
    def of(plan: KernelPlan) -> tuple[Products, Store]:
        """What a plan of products and the store after them says; NotRealised where it has other steps."""
        if len(plan.root) != 1 or plan.then is not None or (grid := plan.root[0]).where:
            raise NotRealised("products stand in one grid, at all of its points")
        *steps, store = grid.body
        products = tuple(s for s in steps if isinstance(s, Product))
        if not products or not isinstance(store, Store):
            raise NotRealised("products and the store after them are in one grid")
        begin = steps.index(products[0])
        folds = steps[:begin], steps[begin + len(products) :]
        before, loops = (
            tuple(s for s in some if isinstance(s, Loop) and s.carries) for some in folds
        )
        if len(before) + len(products) + len(loops) < len(steps):
            raise NotRealised(
                "a step other than a fold before products, or between them and the store"
            )
        first = products[0]
        if any((p.m, p.n) != (first.m, first.n) for p in products):
            raise NotRealised("products of other rows or columns in one tile")
        if set(grid.axes) != set(store.axes) or not {*first.m, *first.n} <= set(grid.axes):
            raise NotRealised("the axes of a product and of the grid around it differ")
        batch = tuple(a for a in grid.axes if a not in (*first.m, *first.n))
        each = (Contraction(p.value, p.rows, p.columns, batch, p.m, p.n) for p in products)
        return Products(tuple(each), loops, before), store

    def plan(self, region: Region, machine: Machine, *, alone: bool) -> KernelPlan:
        """The kernel of a region that holds these; what follows them runs `alone` in each thread, or over lanes."""
        (store,), (first, *_) = region.stores, self.each
        lanes = frozenset((*first.m_axes, *first.n_axes) if alone else first.n_axes)
        of_rows = kernel_reductions(c.rows for c in self.each)
        before = (Around(machine.vectors).fold(group) for group in sweeps_in_order(of_rows))
        made = {*of_rows, *(c.reduce for c in self.each)}
        others = [r for r in kernel_reductions([store.value]) if r not in made]
        own = [r for r in others if free_axes(r) <= frozenset(store.axes)]
        at = (Around(machine.vectors, lanes=bool(free_axes(r) & lanes)) for r in own)
        folds = (a.fold((r,)) for a, r in zip(at, own, strict=True))
        products = (Product(c.reduce, c.rows, c.columns, c.m_axes, c.n_axes) for c in self.each)
        steps = (*before, *products, *folds, store)
        return KernelPlan(region, (grid_loop(store.axes, steps),))


@remembered
def find_products(
    store: Store,
    *,
    one_row: bool = False,
    statistics: bool = False,
    integers: bool = False,
    packed: bool = True,
) -> Products | None:
    """The contractions of a store that have one tile together, or None; with `one_row` they may have a row only.

    With `statistics` their rows may read reductions of a row, where columns are weights. With `integers` they may be of
    integers of 8 bits, added up in 32, where columns are weights. Columns of one row need not lie in panels where none
    are `packed`.
    """
    factors = product_factors if packed else scored_factors
    found = [r for r in kernel_reductions([store.value]) if factors(r, one_row=one_row)]
    if not found or not store.axes or (store.value.dtype is not f32 and not integers):
        return None
    if any(r.dtype is not f32 for r in found) and not (
        integers and all(map(is_of_integers, found))
    ):
        return None
    reductions = [x for x in walk([store.value]) if isinstance(x, Reduce)]
    if any(r in walk([x.body]) for x in reductions for r in found):
        return None
    each = [
        _contraction(store, r, one_row=one_row, statistics=statistics, packed=packed) for r in found
    ]
    whole = tuple(c for c in each if c is not None)
    if len(whole) < len(each) or any(c.place != whole[0].place for c in whole):
        return None
    return Products(whole) if _rest_fits(store, whole) else None


def _contraction(
    store: Store, r: Reduce, *, one_row: bool, statistics: bool, packed: bool
) -> Contraction | None:
    """A reduction as a contraction by index sets, if it has tiles over the axes of the store."""
    factors = (product_factors if packed else scored_factors)(r, one_row=one_row)
    assert factors is not None
    if not free_axes(r) <= frozenset(store.axes):
        return None
    if any(a.extent != 1 for a in store.axes if a not in free_axes(r)):
        return None  # the same products at several places
    if kernel_reductions(factors) and not statistics:
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
            in_panels = packed and (not m_axes or r.dtype is i32)
            columns_are = Columns.of(contraction)
            if in_panels and columns_are.once is None and columns_are.groups is None:
                return None  # it would take longer to pack the columns than to multiply them
            return contraction if _has_statistics_alone(contraction) else None
    return None


def _has_statistics_alone(found: Contraction) -> bool:
    """Whether the reductions in factors, if there are any, are of rows as a whole, and vectors compute the rows."""
    inside = kernel_reductions((found.rows, found.columns))
    if not inside:
        return True
    own = frozenset(found.reduce.axes)
    varying = any(free_axes(r) & own or r.dtype is not f32 for r in inside)
    nested = any(
        free_axes(x) & frozenset(r.axes) for r in inside for x in kernel_reductions([r.body])
    )
    if varying or nested or kernel_reductions([found.columns]) or Columns.of(found).once is None:
        return False
    k, k_map = flatten(found.reduce.axes, "k")
    rows = map_expr(found.rows, {r: const(0.0, f32) for r in inside})
    return lanes_fit([substitute(rows, k_map)], k)


def _rest_fits(store: Store, found: tuple[Contraction, ...]) -> bool:
    """Whether vectors along a row of the products can compute the epilogue."""
    n, n_map = flatten(found[0].n_axes, "n")
    rest = map_expr(store.value, {c.reduce: const(0, c.reduce.dtype) for c in found})
    rest = substitute(rest, n_map)
    if rest.dtype is i32 and store.dst.dtype is i32 and adds_integers(rest, n):
        return True
    floats = floats_of(rest, store.dst.dtype, integers=True)
    return floats is not None and lanes_fit([floats], n)


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


def is_of_integers(r: Reduce) -> bool:
    """Whether a sum adds up products of integers of 8 bits in 32: exact, in any order."""
    factors = product_factors(r, one_row=True)
    if factors is None or r.dtype is not i32:
        return False
    return all(bytes_of(f) is not None for f in factors)


def is_in_runs(found: Contraction) -> bool:
    """Whether rows of bytes are not at equal distances, as those of windows."""
    (m, m_map), (k, k_map) = flatten(found.m_axes, "m"), flatten(found.reduce.axes, "k")
    rows = substitute(substitute(found.rows, k_map), m_map)
    return found.reduce.dtype is i32 and affine(rows, m, k) is None


def in_panels(packed: Buffer, batch: tuple[Ix, ...], major: Ix, k: Ix) -> Expr:
    """The element of an operand that lies in panels for each point of a batch."""
    return read(packed, (*batch, major // WIDTH, k, major % WIDTH))


def packing(
    value: Expr, major: Axis, k: Axis, batch: tuple[Axis, ...], name: str = "panels"
) -> tuple[Buffer, Region]:
    """Where an operand over (major, k) lies in panels for each point of a batch, and what stores it there."""
    p, j = Axis("p", ceildiv(major.extent, WIDTH)), Axis("j", ix(WIDTH))
    at = ix(p) * WIDTH + j
    inside = holds((less(at, major.extent),))
    body = choose(inside, substitute(value, {major: at}), const(0.0, f32))
    dims = (*(a.extent for a in batch), p.extent, k.extent, ix(WIDTH))
    packed = Buffer(name, Role.TEMP, dims, f32)
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
class PackedPart:
    """A weight that lies in panels, as one of those that columns are made of."""

    packed: Buffer
    source: Buffer
    panels: Panels

    @property
    def operand(self) -> Operand:
        stride = ix(self.panels.depth * WIDTH)
        return Operand(
            self.packed, ix(0), stride, ix(WIDTH), None, panels=True, side=self.panels.side
        )

    def element(self, e: Read, n: Ix) -> Expr:
        """What a read of the weight, of column n, reads of the panels."""
        p = self.panels
        k, side = address(e.source, e.at) - p.n_stride * n - p.base, p.side
        k = k // p.k_stride if p.k_stride else ix(0)
        at = n // WIDTH * (p.depth * WIDTH) + (k // side * WIDTH + n % WIDTH) * side + k % side
        return read(self.packed, (at,))


@dataclass(frozen=True)
class Columns:
    """B in panels: a weight that is packed once, or what a kernel before has packed."""

    value: Expr  # over n and k
    found: Contraction
    n: Axis
    k: Axis
    suffix: str = ""  # of the name of a weight in panels

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
        return None if found is None else (found[0], replace(found[1], side=self.side))

    @property
    def groups(self) -> Groups | None:
        """The factors as integers in groups, where they are those of a batch of one."""
        if self.batch or self.found.reduce.dtype is not f32:
            return None
        _, k_map = flatten(self.found.reduce.axes, "k")
        return find_groups(substitute(self.found.rows, k_map), self.value, self.n, self.k)

    @property
    def pairs(self) -> bool:
        """Whether the product is one of bf16: B is a weight in it, and nothing wider is read as A."""
        return self.side == PAIR

    @property
    def side(self) -> int:
        """How many k of a weight lie side by side: of bf16 if nothing wider is read as A, of integers of 8 bits."""
        if self.groups is not None:
            return QUAD
        once, rows = packed_once(self.value, self.n, self.k), self.found.rows
        if once is not None and self.found.reduce.dtype is i32:
            return QUAD
        is_wider = isinstance(rows, Read) and rows.source.dtype is not bf16
        return PAIR if once is not None and once[0].dtype is bf16 and not is_wider else 1

    @property
    def packed(self) -> Buffer | None:
        """The weight in panels."""
        if self.once is None:
            return None
        source, panels = self.once
        name = f"{source.name}_panels{self.suffix}"
        return Buffer(name, Role.WEIGHT, (ix(panels.elements),), source.dtype)

    @property
    def packs(self) -> tuple[tuple[Buffer, Buffer, Panels], ...]:
        """(packed, the weight, how) of a weight, or of each that holds something of integers in groups."""
        if self.groups is not None:
            return tuple((o.packed, o.source, o.panels) for o in self.in_groups)
        return () if self.packed is None or self.once is None else ((self.packed, *self.once),)

    @property
    def in_groups(self) -> tuple[PackedPart, ...]:
        """What weights hold of integers in groups: the planes of bits, then numbers whose products are scales."""
        assert self.groups is not None
        of = self.groups.columns
        parts = [
            (
                p.source,
                Panels(
                    self.n.extent.const,
                    self.k.extent.const * p.bits // 8,
                    p.stride,
                    1,
                    WIDTH,
                    p.base,
                    QUAD,
                ),
            )
            for p in of.planes
        ]
        depth = self.k.extent.const
        numbers = [
            (
                x.source,
                Panels(self.n.extent.const, depth // x.span, x.stride, x.step, WIDTH, x.base),
            )
            for x in of.numbers
        ]
        return tuple(
            PackedPart(
                Buffer(f"{b.name}_panels{self.suffix}", Role.WEIGHT, (ix(p.elements),), b.dtype),
                b,
                p,
            )
            for b, p in (*parts, *numbers)
        )

    @property
    def operand(self) -> Operand:
        """B as a kernel reads it; of integers in groups the lowest bits."""
        if self.groups is not None:
            return self.in_groups[0].operand
        if self.packed is None or self.once is None:
            return panels_of(self.value, self.k)
        panels = self.once[1]
        stride, side = ix(panels.depth * WIDTH), panels.side
        return Operand(self.packed, ix(0), stride, ix(WIDTH), None, panels=True, side=side)

    def element(self, operand: Operand) -> Expr:
        """What the operand has for the region's own axes."""
        if self.groups is not None:
            n, parts = joined(self.found.n_axes), {p.source: p for p in self.in_groups}
            to: dict[Expr, Expr] = {
                e: parts[e.source].element(e, n)
                for e in walk([self.found.columns])
                if isinstance(e, Read) and e.source in parts
            }
            return map_expr(self.found.columns, to)
        if self.packed is None:
            return self.found.columns
        n, k = joined(self.found.n_axes), joined(self.found.reduce.axes)
        assert operand.stride is not None
        side = operand.side
        in_panel = (k // side * WIDTH + n % WIDTH) * side + k % side
        at = (n // WIDTH * operand.stride + in_panel,)
        if self.found.reduce.dtype is i32:
            return index(lookup(self.packed, at), i32)
        return read(self.packed, at)

    def packed_before(
        self, region: Region, name: str = "panels"
    ) -> tuple[Buffer, Region, Contraction, Region]:
        """(panels, what stores them, the product that reads them, what it computes)."""
        buffer, before = packing(self.value, self.n, self.k, self.batch, name)
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


class Points(NamedTuple):
    """A loop's axis, its first point and the one after its last."""

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


def is_paired(found: Contraction) -> bool:
    """Whether the contraction is a product of bf16 with columns in pairs."""
    return Columns.of(found).pairs


def number(name: str, value: Ix, dims: tuple[Dim, ...]) -> Dim:
    """A positive number that the launch computes and passes with the dims."""
    return Dim(fresh(name, {d.name for d in dims}), 1, max(1, value.bounds()[1] or 2**31))
