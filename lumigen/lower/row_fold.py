"""row_fold: one loop over an axis for all reductions of a row, whose terms are made of a product with that axis.

Before: reductions over axes k of something that holds a contraction whose columns are k.  After: the plan of one loop
over k, with the contraction inside and the states of the fold, as `separate` derives them:

    scores[m, k] = sum_d x[m, d] * v[k, d]
    states[m]                                    numbers of a row, corrected when a maximum grows
    sums[m, n]   = sum_k weights[m, k] * w[k, n]

The scores, k wide for every row, exist in tiles only. A row's score at a place that is read, as that of its label is,
is a state too: the sum of the scores that are at this place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.dtype import f32
from lumigen.index import Axis, Ix, extent_of, ix
from lumigen.lower.cascade import inner_contractions, weights_and_operand
from lumigen.lower.contract import Columns, Contraction, flatten
from lumigen.lower.contractions import is_plain, scored_factors
from lumigen.lower.float_states import in_floats
from lumigen.lower.scope import address, kernel_reductions, lanes_fit
from lumigen.lower.separate import NotSeparable, separate
from lumigen.lower.sweeps import Around, grid_loop
from lumigen.machine import Processor
from lumigen.memo import remembered
from lumigen.plan import Carry, KernelPlan, Loop, LoopFold, NotRealised, Product
from lumigen.region import (
    Carried,
    Expr,
    Monoid,
    Read,
    Reduce,
    Region,
    Store,
    carried,
    choose,
    const,
    free_axes,
    holds,
    map_expr,
    substitute,
    walk,
)


@dataclass(frozen=True)
class RowFold:
    """A loop over `axes` for all reductions of rows `m`. No `inner`: its terms are read as memory has them.

    A carry with a product has columns `n`. `folds` are loops over other axes, `stores` what the kernel stores.
    """

    loop: Loop
    inner: Product | None
    grid: tuple[Axis, ...]
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    folds: tuple[Loop, ...]
    stores: tuple[Store, ...]

    @staticmethod
    def of(plan: KernelPlan) -> RowFold:
        """What the plan of a fold of rows says; NotRealised where it is of another form."""
        if len(plan.root) != 1 or plan.then is not None or (grid := plan.root[0]).where:
            raise NotRealised("a fold of rows stands in one grid, at all of its points")
        loop, *others = grid.body
        if not isinstance(loop, Loop) or loop.kind != "seq" or not loop.carries:
            raise NotRealised("a fold of rows is a loop with carries")
        folds = tuple(s for s in others if isinstance(s, Loop) and s.carries)
        lanes = tuple(s for s in others if isinstance(s, Loop) and not s.carries)
        steps = [s for s in others if not isinstance(s, Loop)]
        stores = tuple(
            s for s in (*steps, *(x for w in lanes for x in w.body)) if isinstance(s, Store)
        )
        count = len(steps) + sum(len(w.body) for w in lanes)
        if not stores or len(stores) < count or any(w.kind != "lanes" for w in lanes):
            raise NotRealised("a step other than a fold or a store after a fold of rows")
        if not loop.body:
            along = {w.axes for w in lanes}
            if any(c.product for c in loop.carries) or len(along) > 1:
                raise NotRealised("a fold of rows without a product inside has numbers alone")
            n = along.pop() if along else ()
            return RowFold(loop, None, (), grid.axes, n, folds, stores)
        if lanes or len(loop.body) != 1 or not isinstance(inner := loop.body[0], Product):
            raise NotRealised("a fold of rows has one product inside at most")
        if inner.n != loop.axes:
            raise NotRealised(
                "the columns of the product in a fold of rows are what its loop is over"
            )
        columns = {c.product.n for c in loop.carries if c.product is not None}
        if len(columns) > 1 or any(c.product and c.product.m != inner.m for c in loop.carries):
            raise NotRealised("the sums of a fold of rows have the same rows and columns")
        n = columns.pop() if columns else ()
        rest = tuple(a for a in grid.axes if a not in (*inner.m, *n))
        if not {*inner.m, *n} <= set(grid.axes):
            raise NotRealised("the axes of a product and of the grid around it differ")
        return RowFold(loop, inner, rest, inner.m, n, folds, stores)

    def plan(self, region: Region) -> KernelPlan:
        """The kernel of a region that this is the fold of."""
        body = () if self.inner is None else (self.inner,)
        main = region.stores[-1]
        loop = replace(self.loop, body=body)
        if self.inner is not None:
            return KernelPlan(region, (grid_loop(main.axes, (loop, *self.folds, *region.stores)),))
        last = (Loop(self.n, "lanes", (main,)),) if self.n else (main,)
        steps = (loop, *self.folds, *region.stores[:-1], *last)
        return KernelPlan(region, (grid_loop(self.m, steps),))

    @property
    def first(self) -> Contraction | None:
        """The product inside, by index sets."""
        p = self.inner
        return None if p is None else Contraction(p.value, p.rows, p.columns, self.grid, p.m, p.n)

    @property
    def second(self) -> tuple[Contraction, ...]:
        """The products of the carries that have one."""
        return tuple(
            Contraction(p.value, p.rows, p.columns, self.grid, p.m, p.n)
            for c in self.loop.carries
            if (p := c.product) is not None
        )

    @property
    def in_panels(self) -> bool:
        """Whether the columns of all products are weights that are packed once."""
        found = [c for c in (self.first, *self.second) if c is not None]
        return all(Columns.of(c).once is not None for c in found)


@remembered
def find_row_fold(stores: tuple[Store, ...], machine: Processor) -> RowFold | None:
    """The one fold of a region's stores around a product of rows, or None.

    The last store may have columns of its own; what the others store is one value for each row.
    """
    values = tuple(s.value for s in stores)
    inner, axes = inner_contractions(kernel_reductions(values), one_row=True)
    product = _product(inner[0], axes, stores[-1]) if len(inner) == 1 else None
    if product is None:
        return None
    fold = separate(values, axes)
    if isinstance(fold, NotSeparable) or fold.cancelling:
        return None
    fold = _with_places(in_floats(fold), stores, product)
    if any(c.dtype is not f32 for c in fold.carries):
        return None
    n = _columns(fold, product, stores[-1])
    carries = _with_products(fold, product, n)
    if carries is None or not _is_short(product, n, machine.storing.row_of_weights):
        return None
    loop = _loop_of(replace(fold, carries=carries), (product,))
    after = [map_expr(v, dict(fold.results)) for v in values]
    apart = kernel_reductions(after)
    points = frozenset(stores[-1].axes) - set(n)
    if any(not free_axes(r) <= points for r in apart):
        return None
    folds = tuple(Around(machine.vectors).fold((r,)) for r in apart)
    grid = tuple(a for a in stores[-1].axes if a not in (*product.m, *n))
    found = RowFold(loop, product, grid, product.m, n, folds, stores)
    return found if _fits(found, after) else None


def find_plain_rows(stores: tuple[Store, ...]) -> RowFold | None:
    """One loop for all reductions of a row that memory has, where it takes corrections, or None.

    Loops in sequence read rows again, from a cache if they are short: they need no corrections.
    """
    values = tuple(s.value for s in stores)
    reductions = kernel_reductions(values)
    if any(s.value.dtype is not f32 for s in stores) or not reductions:
        return None
    axes = reductions[0].axes
    if any(r.axes != axes or free_axes(r) != free_axes(reductions[0]) for r in reductions):
        return None
    fold = separate(values, axes)
    if isinstance(fold, NotSeparable) or fold.cancelling:
        return None
    return _plain_rows(fold, stores) if any(c.correct for c in fold.carries) else None


def _plain_rows(fold: LoopFold, stores: tuple[Store, ...]) -> RowFold | None:
    *others, main = stores
    varying = frozenset[Axis]().union(*(free_axes(c.value) for c in fold.carries))
    m = tuple(a for a in main.axes if a in varying)
    n = main.axes[len(m) :]
    if main.axes[: len(m)] != m or any(set(s.axes) != set(m) for s in others):
        return None
    after = [map_expr(s.value, dict(fold.results)) for s in stores]
    if kernel_reductions(after) or any(c.dtype is not f32 for c in fold.carries):
        return None
    found = RowFold(_loop_of(fold, ()), None, (), m, n, (), stores)
    return found if _tiles_fit(found) and _stores_fit(found, after) else None


def _loop_of(fold: LoopFold, body: tuple[Product, ...]) -> Loop:
    return Loop(fold.axes, "seq", body, fold.carries, fold.results, fold.where)


def _product(inner: Reduce, axes: tuple[Axis, ...], store: Store) -> Product | None:
    """The product of rows of the store whose columns are `axes`."""
    factors = scored_factors(inner, one_row=True)
    assert factors is not None
    for rows, columns in (factors, factors[::-1]):
        splits = not free_axes(rows) & set(axes) and set(axes) <= free_axes(columns)
        if splits and is_plain(rows) and is_plain(columns):
            own = free_axes(rows) - free_axes(columns)
            return Product(inner, rows, columns, tuple(a for a in store.axes if a in own), axes)
    return None


def _with_places(fold: LoopFold, stores: tuple[Store, ...], product: Product) -> LoopFold:
    """The fold with a sum for each score that is read at one place alone."""
    results = dict(fold.results)
    left = kernel_reductions(map_expr(s.value, results) for s in stores)
    found = [(r, at) for r in left if (at := _place(r, product)) is not None]
    if not found:
        return fold
    carries = list(fold.carries)
    for r, at in found:
        (k,) = product.n
        here = holds((Cmp(ix(k) - at), Cmp(at - ix(k)), *r.where))
        results[r] = carried(len(carries), "new", f32)
        carries.append(Carry(r, Monoid.SUM, choose(here, product.value, const(0.0, f32)), None))
    return replace(fold, carries=tuple(carries), results=tuple(results.items()), where=())


def _place(r: Reduce, product: Product) -> Ix | None:
    """Where a sum is the product at one of its columns."""
    if len(product.n) != 1 or not isinstance(product.columns, Read):
        return None
    (k,) = product.n
    along = [d for d, i in enumerate(product.columns.at) if i == ix(k)]
    reads = (e for e in walk([r.body]) if isinstance(e, Read))
    for e in reads:
        if e.source != product.columns.source or len(along) != 1:
            continue
        at = e.at[along[0]]
        there = substitute(product.value, {k: at})
        if at.axes & set(r.axes) or not isinstance(there, Reduce):
            continue
        if there.axes == r.axes and there.body is r.body and not _asks(r, r.axes):
            return at
    return None


def _asks(r: Reduce, axes: tuple[Axis, ...]) -> bool:
    """Whether a condition of the sum is on some of the axes."""
    return any(c.axes & set(axes) for c in r.where)


def _columns(fold: LoopFold, product: Product, store: Store) -> tuple[Axis, ...]:
    """The axes of the store that a sum has and the scores have not."""
    varying = frozenset[Axis]().union(*(free_axes(c.tile) for c in fold.carries))
    own = varying - free_axes(product.value)
    return tuple(a for a in store.axes if a in own)


def _with_products(
    fold: LoopFold, product: Product, n: tuple[Axis, ...]
) -> tuple[Carry, ...] | None:
    """The carries, those with columns as products of what weights and what is weighted."""
    out: list[Carry] = []
    for c in fold.carries:
        own = free_axes(c.tile) & set(n)
        if not own:
            out.append(c)
            continue
        parts = weights_and_operand(c.tile, frozenset(n))
        if parts is None or own != frozenset(n) or c.monoid is not Monoid.SUM:
            return None
        weights, operand = parts
        free = free_axes(operand)
        if free & set(product.m) or not free & set(product.n) or not is_plain(operand):
            return None
        assert isinstance(c.value, Reduce)
        out.append(replace(c, product=Product(c.value, weights, operand, product.m, n)))
    return tuple(out)


def _is_short(product: Product, n: tuple[Axis, ...], longest: int) -> bool:
    """Whether rows of the first product and of the sums fit into scratch."""
    lengths = (extent_of(axes).bounds()[1] for axes in (product.value.axes, n))
    return all(most is not None and most <= longest for most in lengths)


def _fits(found: RowFold, after: list[Expr]) -> bool:
    """Whether tiles read no other sum than the product, and vectors compute them and what is stored."""
    p = found.inner
    assert p is not None
    roots = [e for c in found.loop.carries for e in (c.tile, c.correct) if e is not None]
    same = kernel_reductions(roots) == (p.value,)
    return same and _tiles_fit(found) and _stores_fit(found, after)


def _tiles_fit(found: RowFold) -> bool:
    """Whether vectors along k compute what is carried."""
    k, k_map = flatten(found.loop.axes, "k")
    tiles = [c.tile if c.product is None else c.product.rows for c in found.loop.carries]
    if found.inner is not None:
        tiles = [map_expr(t, {found.inner.value: const(0.0, f32)}) for t in tiles]
    return not kernel_reductions(tiles) and lanes_fit([substitute(t, k_map) for t in tiles], k)


def _stores_fit(found: RowFold, after: list[Expr]) -> bool:
    """Whether the last store is one of numbers or along the columns, in vectors, and the others are of numbers."""
    *others, main = found.stores
    points = {a for a in (*found.grid, *found.m) if a.extent != 1}
    if any(not _is_of_rows(s, v, found, points) for s, v in zip(others, after, strict=False)):
        return False
    if not found.n:
        return _is_of_rows(main, after[-1], found, points)
    n, n_map = flatten(found.n, "n")
    if main.value.dtype is not f32:
        return False
    place = address(main.dst, tuple(i.substitute(n_map) for i in main.at))
    return lanes_fit([substitute(after[-1], n_map)], n) and place.coefficient(n) is not None


def _is_of_rows(store: Store, value: Expr, found: RowFold, points: set[Axis]) -> bool:
    """Whether it stores one value for each row, made of states that have one."""
    sums = {i for i, c in enumerate(found.loop.carries) if c.product is not None}
    states = {e.carry for e in walk([value]) if isinstance(e, Carried)}
    return {a for a in store.axes if a.extent != 1} == points and not states & sums
