"""cascade: a fold around products whose rows the fold is over, by index sets, and its plan.

Before: stores with reductions over one axis k of something that holds contractions varying with k.  After: the fold
that computes all of them in one loop (`separate` derives its states and their corrections):

    scores[k, n] = sum_d A[k, d] * B[d, n]        each of the inner ones: rows k, columns n
    states[n]                                     carried, corrected when a maximum grows
    out[e, n]    = sum_k G[e, k] * weights[k, n]  each of the outer ones: rows e, columns n
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.dtype import f32
from lumigen.index import Axis, Quotient, extent_of
from lumigen.lower.contractions import is_brought_in, scored_factors
from lumigen.lower.float_states import in_floats
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.separate import NotSeparable, separate
from lumigen.lower.sweeps import grid_loop
from lumigen.machine import Machine
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.plan import Carry, KernelPlan, Loop, LoopFold, NotRealised, Product
from lumigen.region import (
    Carried,
    Choose,
    Expr,
    Monoid,
    Prim,
    Read,
    Reduce,
    Region,
    Store,
    choose,
    free_axes,
    is_zero,
    map_expr,
    prim,
    walk,
)


@dataclass(frozen=True)
class Outer:
    """A carried sum with an axis of its own: `weights` (k, columns) times `operand` (rows, k)."""

    carry: int
    weights: Expr
    operand: Expr
    rows: tuple[Axis, ...]


@dataclass(frozen=True)
class Cascade:
    """A fold whose tiles hold contractions, by index sets: their rows are k, and all have the same columns."""

    fold: LoopFold
    inners: tuple[Product, ...]
    grid: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    vectors: tuple[int, ...]  # carries with one value for each column
    outers: tuple[Outer, ...]
    after: Expr  # the last store's value over the final states
    others: tuple[
        Store, ...
    ] = ()  # of the values of a column or of the same rows, over the final states

    @property
    def inner(self) -> Product:
        """The inner product of a fold that has one."""
        if len(self.inners) != 1:
            raise NotRealised("a fold around several products")
        (found,) = self.inners
        return found

    @property
    def operands(self) -> tuple[Expr, ...]:
        """All that products multiply as it is."""
        inner = (x for p in self.inners for x in (p.rows, p.columns))
        return (*inner, *(o.operand for o in self.outers))

    def has_rows(self, store: Store) -> bool:
        """Whether one of the stores is of the rows of outer products."""
        return bool({*self.rows} & {*store.axes})

    @staticmethod
    def of(plan: KernelPlan, machine: Machine) -> Cascade:
        """What a plan of a fold around products says; NotRealised where it is of another form."""
        if len(plan.root) != 1 or plan.then is not None or (grid := plan.root[0]).where:
            raise NotRealised("a fold around a product stands in one grid, at all of its points")
        loop, *others = grid.body
        stores = tuple(s for s in others if isinstance(s, Store))
        if not isinstance(loop, Loop) or len(loop.axes) != 1 or loop.kind != "seq":
            raise NotRealised("a fold around a product is a loop over one axis")
        if not stores or len(stores) < len(others):
            raise NotRealised("a step other than a store after a fold around a product")
        inners = tuple(s for s in loop.body if isinstance(s, Product))
        if not inners or len(inners) < len(loop.body):
            raise NotRealised("a fold has nothing but products inside")
        if any(p.m != loop.axes for p in inners) or grid.axes != stores[-1].axes:
            raise NotRealised("the rows of a product in a fold are what its loop is over")
        columns = inners[0].n
        if any(p.n != columns for p in inners):
            raise NotRealised("the products in a fold have the same columns")
        over = dict(loop.results)
        *first, last = (replace(s, value=map_expr(s.value, over)) for s in stores)
        outers = tuple(
            Outer(i, p.columns, p.rows, p.m)
            for i, c in enumerate(loop.carries)
            if (p := c.product) is not None
        )
        rows = outers[0].rows if outers else ()
        vectors = tuple(i for i, c in enumerate(loop.carries) if c.product is None)
        found = Cascade(
            loop.fold,
            inners,
            tuple(a for a in grid.axes if a not in (*columns, *rows)),
            columns,
            rows,
            vectors,
            outers,
            last.value,
            tuple(first),
        )
        _check(found, machine.storing.row_of_fold)
        return found

    def plan(self, region: Region) -> KernelPlan:
        """The kernel of a region that this is the fold of."""
        products = {
            o.carry: Product(
                _sum_of(self.fold.carries[o.carry]), o.operand, o.weights, o.rows, self.columns
            )
            for o in self.outers
        }
        carries = tuple(
            replace(c, product=products.get(i)) for i, c in enumerate(self.fold.carries)
        )
        fold = self.fold
        loop = Loop(fold.axes, "seq", self.inners, carries, fold.results, fold.where)
        return KernelPlan(region, (grid_loop(region.stores[-1].axes, (loop, *region.stores)),))


def _sum_of(c: Carry) -> Reduce:
    assert isinstance(c.value, Reduce)
    return c.value


def _check(found: Cascade, longest: int) -> None:
    """Whether tiles of inner and of outer products, if there are some, compute a fold."""
    if len({o.rows for o in found.outers}) > 1:
        raise NotRealised("the outer products of a fold around a product have the same rows")
    if any(free_axes(found.fold.carries[i].tile) & {*found.rows} for i in found.vectors):
        raise NotRealised("a state with rows of its own that no product adds up")
    if any(_keeps_or_drops(found.fold.carries[o.carry]) for o in found.outers):
        raise NotRealised("an outer product whose sums are kept or dropped")
    if not all(map(is_brought_in, found.operands)):
        raise NotRealised("an operand of a fold around a product that is computed")
    deep = (p.value.axes for p in found.inners)
    lengths = [extent_of(axes).bounds()[1] for axes in (*deep, found.rows)]
    if found.outers and any(n is None or n > longest for n in lengths):
        raise NotRealised(f"rows longer than {longest} in a fold around a product")
    tiles = [e for c in found.fold.carries for e in (c.tile, c.correct) if e is not None]
    if {*kernel_reductions(tiles)} != {p.value for p in found.inners}:
        raise NotRealised("a tile of a fold that reads other sums than the products in it")
    stores = [s.value for s in found.others] + [found.after]
    if kernel_reductions(stores):
        raise NotRealised("a store after a fold that reads a sum which no loop computes")


@remembered
def find_cascade(
    stores: tuple[Store, ...], machine: Machine, *, one_row: bool = False
) -> Cascade | None:
    """The one fold of a region's stores around contractions, or None.

    The last store has rows; others have the same rows, or one value for each column. With `one_row` there may be a
    single column here.
    """
    found = fold_around_product(stores, one_row=one_row)
    if found is None or any(s.value.dtype is not f32 for s in stores):
        return None
    fold, inner, (*others, store) = found
    found = _by_index_sets(store, fold, inner, machine.storing.row_of_fold)
    if found is None or not all(_has_place(s, found) for s in others):
        return None
    found = replace(found, others=tuple(others))
    if found.columns:
        return found
    return found if one_row and _has_own_rows(found) else None


def fold_around_product(
    stores: tuple[Store, ...], *, one_row: bool, whole: bool = True
) -> tuple[LoopFold, tuple[Reduce, ...], tuple[Store, ...]] | None:
    """The one fold that computes sums of the stores, the products in its tiles, and stores of the final states.

    If it is to be the `whole`, these read no other sum.
    """
    values = tuple(s.value for s in stores)
    reductions = kernel_reductions(values)
    inner, axes = inner_contractions(reductions, one_row=one_row)
    if len(axes) != 1:
        return None
    fold = separate(values, axes)
    if isinstance(fold, NotSeparable) or fold.cancelling:
        return None
    fold = in_floats(fold)
    if any(c.dtype is not f32 for c in fold.carries):
        return None
    after = tuple(replace(s, value=map_expr(s.value, dict(fold.results))) for s in stores)
    tiles = [e for c in fold.carries for e in (c.tile, c.correct) if e is not None]
    left = kernel_reductions([s.value for s in after])
    if (whole and left) or {*kernel_reductions(tiles)} != {*inner}:
        return None  # a reduction that the fold does not compute
    return fold, inner, after


def is_of_columns(store: Store, found: Cascade) -> bool:
    """Whether it stores one value for each column, made of states that have one."""
    states = {e.carry for e in walk([store.value]) if isinstance(e, Carried)}
    points = {a for a in (*found.grid, *found.columns) if a.extent != 1}
    return {a for a in store.axes if a.extent != 1} == points and states <= {*found.vectors}


def _has_place(store: Store, found: Cascade) -> bool:
    """Whether it stores one value for each column, or for each of the rows of all columns."""
    if not found.has_rows(store):
        return is_of_columns(store, found)
    points = {a for a in (*found.grid, *found.columns, *found.rows) if a.extent != 1}
    return {a for a in store.axes if a.extent != 1} == points


def _has_own_rows(found: Cascade) -> bool:
    """Whether each point of the grid has rows of its own: where several share some, they should be columns."""
    at = (i for e in walk(p.rows for p in found.inners) if isinstance(e, Read) for i in e.at)
    return not any(isinstance(a, Quotient) for i in at for a in i.atoms())


def inner_contractions(
    reductions: tuple[Reduce, ...], *, one_row: bool
) -> tuple[tuple[Reduce, ...], tuple[Axis, ...]]:
    """The contractions inside other reductions, and the axes that all of those run over; nothing where these differ."""
    inner: dict[Reduce, None] = {}
    axes: set[tuple[Axis, ...]] = set()
    for outer in reductions:
        for r in walk([outer.body]):
            if isinstance(r, Reduce) and free_axes(r) & set(outer.axes):
                if scored_factors(r, one_row=one_row) is None:
                    return (), ()
                inner[r] = None
                axes.add(outer.axes)
    return (tuple(inner), axes.pop()) if len(axes) == 1 else ((), ())


def _by_index_sets(
    store: Store, fold: LoopFold, inner: tuple[Reduce, ...], longest: int
) -> Cascade | None:
    """The cascade of a store whose value is over the final states."""
    (k,) = fold.axes
    products = [_inner_product(r, store, k) for r in inner]
    inners = tuple(p for p in products if p is not None)
    if len(inners) < len(inner) or len({p.n for p in inners}) != 1:
        return None
    columns = inners[0].n
    rows = frozenset(store.axes).difference(*map(free_axes, inner))
    vectors: list[int] = []
    outers: list[Outer] = []
    for i, c in enumerate(fold.carries):
        own = free_axes(c.tile) & rows
        if not own:
            vectors.append(i)
            continue
        parts = weights_and_operand(c.tile, rows)
        if parts is None or c.monoid is not Monoid.SUM or _keeps_or_drops(c):
            return None
        weights, operand = parts
        if (
            free_axes(operand) & {*columns}
            or k not in free_axes(operand)
            or not is_brought_in(operand)
        ):
            return None
        outers.append(Outer(i, weights, operand, tuple(a for a in store.axes if a in own)))
    if not outers or len({o.rows for o in outers}) != 1:
        return None
    out_rows = outers[0].rows
    grid = tuple(a for a in store.axes if a not in (*columns, *out_rows))
    lengths = [extent_of(axes).bounds()[1] for axes in (*(r.axes for r in inner), out_rows)]
    if any(n is None or n > longest for n in lengths):
        return None
    return Cascade(
        fold, inners, grid, columns, out_rows, tuple(vectors), tuple(outers), store.value
    )


def _inner_product(r: Reduce, store: Store, k: Axis) -> Product | None:
    """A contraction as a product whose rows are k and whose columns are axes of the store."""
    factors = scored_factors(r, one_row=True)
    assert factors is not None
    columns, rows = sorted(factors, key=lambda f: k in free_axes(f))
    if k in free_axes(columns) or not (is_brought_in(columns) and is_brought_in(rows)):
        return None
    own = free_axes(columns) - free_axes(rows)
    return Product(r, rows, columns, (k,), tuple(a for a in store.axes if a in own))


def _keeps_or_drops(c: Carry) -> bool:
    """Whether its correction is a truth value, which is no factor of a row of sums."""
    return c.correct is not None and c.correct.dtype.is_bool


def weights_and_operand(tile: Expr, rows: frozenset[Axis]) -> tuple[Expr, Expr] | None:
    """The tile as a product of what does not and what does vary with `rows`."""
    if (
        isinstance(tile, Choose)
        and is_zero(tile.otherwise)
        and not free_axes(tile.condition) & rows
    ):
        parts = weights_and_operand(tile.then, rows)
        return (
            None if parts is None else (choose(tile.condition, parts[0], tile.otherwise), parts[1])
        )
    if not isinstance(tile, Prim) or tile.op is not Op.MUL:
        return None
    a, b = tile.args
    for x, y in ((a, b), (b, a)):
        if free_axes(x) & rows:
            continue
        if is_brought_in(y):
            return x, y
        parts = weights_and_operand(y, rows)
        if parts is not None:
            return prim(Op.MUL, (x, parts[0]), f32), parts[1]
    return None
