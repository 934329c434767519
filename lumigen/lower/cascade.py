"""cascade: a fold around a product whose rows the fold is over, by index sets, and its plan.

Before: stores with reductions over one axis k of something that holds a contraction varying with k.  After: the fold
that computes all of them in one loop (`separate` derives its states and their corrections):

    scores[k, n] = sum_d A[k, d] * B[d, n]        inner: rows k, columns n
    states[n]                                     carried, corrected when a maximum grows
    out[e, n]    = sum_k G[e, k] * weights[k, n]  outer: rows e, columns n
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.dtype import f32
from lumigen.index import Axis, Quotient, extent_of
from lumigen.lower.contractions import is_plain, scored_factors
from lumigen.lower.float_states import in_floats
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.separate import NotSeparable, separate
from lumigen.lower.sweeps import grid_loop
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.plan import Carry, Fold, KernelPlan, Loop, NotRealised, Product
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

LONGEST = 512  # the most elements of a row of an inner operand or of accumulators


@dataclass(frozen=True)
class Outer:
    """A carried sum with an axis of its own: `weights` (k, columns) times `operand` (rows, k)."""

    carry: int
    weights: Expr
    operand: Expr
    rows: tuple[Axis, ...]


@dataclass(frozen=True)
class Cascade:
    """A fold whose tiles hold one contraction, by index sets."""

    fold: Fold
    inner: Reduce
    inner_rows: Expr  # over k and depth
    inner_columns: Expr  # over columns and depth
    grid: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    vectors: tuple[int, ...]  # carries with one value for each column
    outers: tuple[Outer, ...]
    after: Expr  # the last store's value over the final states
    others: tuple[Store, ...] = ()  # of the values of a column, over the final states

    @staticmethod
    def of(plan: KernelPlan) -> Cascade:
        """What a plan of a fold around one product says; NotRealised where it is of another form."""
        if len(plan.root) != 1 or plan.then is not None or (grid := plan.root[0]).where:
            raise NotRealised("a fold around a product stands in one grid, at all of its points")
        loop, *others = grid.body
        stores = tuple(s for s in others if isinstance(s, Store))
        if not isinstance(loop, Loop) or len(loop.axes) != 1 or loop.kind != "seq":
            raise NotRealised("a fold around a product is a loop over one axis")
        if not stores or len(stores) < len(others):
            raise NotRealised("a step other than a store after a fold around a product")
        if len(loop.body) != 1 or not isinstance(inner := loop.body[0], Product):
            raise NotRealised("a fold has one product inside")
        if inner.m != loop.axes or grid.axes != stores[-1].axes:
            raise NotRealised("the rows of the product in a fold are what its loop is over")
        over = dict(loop.results)
        *first, last = (replace(s, value=map_expr(s.value, over)) for s in stores)
        outers = tuple(
            Outer(i, p.columns, p.rows, p.m)
            for i, c in enumerate(loop.carries)
            if (p := c.product) is not None
        )
        rows = outers[0].rows if outers else ()
        vectors = tuple(i for i, c in enumerate(loop.carries) if c.product is None)
        apart = (*inner.n, *rows)
        found = Cascade(
            loop.fold,
            inner.value,
            inner.rows,
            inner.columns,
            tuple(a for a in grid.axes if a not in apart),
            inner.n,
            rows,
            vectors,
            outers,
            last.value,
            tuple(first),
        )
        _check(found)
        return found

    def plan(self, region: Region) -> KernelPlan:
        """The kernel of a region that this is the fold of."""
        k = self.fold.axes
        inner = Product(self.inner, self.inner_rows, self.inner_columns, k, self.columns)
        products = {
            o.carry: Product(
                _sum_of(self.fold.carries[o.carry]), o.operand, o.weights, o.rows, self.columns
            )
            for o in self.outers
        }
        carries = tuple(
            replace(c, product=products.get(i)) for i, c in enumerate(self.fold.carries)
        )
        loop = Loop(k, "seq", (inner,), carries, self.fold.results, self.fold.where)
        return KernelPlan(region, (grid_loop(region.stores[-1].axes, (loop, *region.stores)),))


def _sum_of(c: Carry) -> Reduce:
    assert isinstance(c.value, Reduce)
    return c.value


def _check(found: Cascade) -> None:
    """Whether tiles of one inner and of outer products, if there are some, compute a fold."""
    if len({o.rows for o in found.outers}) > 1:
        raise NotRealised("the outer products of a fold around a product have the same rows")
    if any(_keeps_or_drops(found.fold.carries[o.carry]) for o in found.outers):
        raise NotRealised("an outer product whose sums are kept or dropped")
    operands = (found.inner_rows, found.inner_columns, *(o.operand for o in found.outers))
    if not all(map(is_plain, operands)):
        raise NotRealised("an operand of a fold around a product that is computed")
    lengths = [extent_of(axes).bounds()[1] for axes in (found.inner.axes, found.rows)]
    if found.outers and any(n is None or n > LONGEST for n in lengths):
        raise NotRealised(f"rows longer than {LONGEST} in a fold around a product")
    tiles = [e for c in found.fold.carries for e in (c.tile, c.correct) if e is not None]
    if kernel_reductions(tiles) != (found.inner,):
        raise NotRealised("a tile of a fold that reads another sum than the product in it")
    stores = [s.value for s in found.others] + [found.after]
    if kernel_reductions(stores):
        raise NotRealised("a store after a fold that reads a sum which no loop computes")


@remembered
def find_cascade(stores: tuple[Store, ...], *, one_row: bool = False) -> Cascade | None:
    """The one fold of a region's stores around one contraction, or None.

    The last store has rows; what the others store is one value for each column. With `one_row` there may be a single
    column here.
    """
    found = fold_around_product(stores, one_row=one_row)
    if found is None or any(s.value.dtype is not f32 for s in stores):
        return None
    fold, inner, (*others, store) = found
    found = _by_index_sets(store, fold, inner, fold.axes[0])
    if found is None or not all(is_of_columns(s, found) for s in others):
        return None
    found = replace(found, others=tuple(others))
    if found.columns:
        return found
    return found if one_row and _has_own_rows(found) else None


def fold_around_product(
    stores: tuple[Store, ...], *, one_row: bool, whole: bool = True
) -> tuple[Fold, Reduce, tuple[Store, ...]] | None:
    """The one fold that computes sums of the stores, the product in its tiles, and stores of the final states.

    If it is to be the `whole`, these read no other sum.
    """
    values = tuple(s.value for s in stores)
    reductions = kernel_reductions(values)
    inner, axes = inner_contraction(reductions, one_row=one_row)
    if inner is None or len(axes) != 1:
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
    if (whole and left) or kernel_reductions(tiles) != (inner,):
        return None  # a reduction that the fold does not compute
    return fold, inner, after


def is_of_columns(store: Store, found: Cascade) -> bool:
    """Whether it stores one value for each column, made of states that have one."""
    states = {e.carry for e in walk([store.value]) if isinstance(e, Carried)}
    points = {a for a in (*found.grid, *found.columns) if a.extent != 1}
    return {a for a in store.axes if a.extent != 1} == points and states <= {*found.vectors}


def _has_own_rows(found: Cascade) -> bool:
    """Whether each point of the grid has rows of its own: where several share some, they should be columns."""
    at = (i for e in walk([found.inner_rows]) if isinstance(e, Read) for i in e.at)
    return not any(isinstance(a, Quotient) for i in at for a in i.atoms())


def inner_contraction(
    reductions: tuple[Reduce, ...], *, one_row: bool
) -> tuple[Reduce | None, tuple[Axis, ...]]:
    """The one contraction inside other reductions, and the axes that those run over."""
    inner: set[Reduce] = set()
    axes: set[tuple[Axis, ...]] = set()
    for outer in reductions:
        for r in walk([outer.body]):
            if isinstance(r, Reduce) and free_axes(r) & set(outer.axes):
                if scored_factors(r, one_row=one_row) is None:
                    return None, ()
                inner.add(r)
                axes.add(outer.axes)
    if len(inner) != 1 or len(axes) != 1:
        return None, ()
    return inner.pop(), axes.pop()


def _by_index_sets(store: Store, fold: Fold, inner: Reduce, k: Axis) -> Cascade | None:
    """The cascade of a store whose value is over the final states."""
    factors = scored_factors(inner, one_row=True)
    assert factors is not None
    inner_columns, inner_rows = sorted(factors, key=lambda f: k in free_axes(f))
    if k in free_axes(inner_columns) or not (is_plain(inner_columns) and is_plain(inner_rows)):
        return None
    outside = frozenset(store.axes)
    columns = (free_axes(inner_columns) - free_axes(inner_rows)) & outside
    rows = outside - free_axes(inner)
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
        if free_axes(operand) & columns or k not in free_axes(operand) or not is_plain(operand):
            return None
        outers.append(Outer(i, weights, operand, tuple(a for a in store.axes if a in own)))
    if not outers or len({o.rows for o in outers}) != 1:
        return None
    ordered = tuple(a for a in store.axes if a in columns)
    out_rows = outers[0].rows
    grid = tuple(a for a in store.axes if a not in (*ordered, *out_rows))
    lengths = [extent_of(axes) for axes in (inner.axes, out_rows)]
    if any(n.bounds()[1] is None or n.bounds()[1] > LONGEST for n in lengths):  # type: ignore[operator]
        return None
    return Cascade(
        fold,
        inner,
        inner_rows,
        inner_columns,
        grid,
        ordered,
        out_rows,
        tuple(vectors),
        tuple(outers),
        store.value,
    )


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
        if is_plain(y):
            return x, y
        parts = weights_and_operand(y, rows)
        if parts is not None:
            return prim(Op.MUL, (x, parts[0]), f32), parts[1]
    return None
