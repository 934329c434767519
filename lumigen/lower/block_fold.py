"""block_fold: a fold of the rows of a product that nobody stores, for blocks of threads with matrix instructions.

Before: a region whose stores have one value for each row of a product, made of sums and maxima over its columns: a
logarithm of a sum of exponentials of scores, a maximum and where the rest goes with it.  After: a tile program in which
a block has some rows, and for one tile of columns k after the other

    scores[m, k]  = A[m, :] B[k, :]                       as `pipeline` multiplies, through a ring, whatever the depth
    scores        = map of scores                         what all carries have in common
    states[m]     = states * factors + sums of a map      as in `stream`

A warp has whole rows, so that a fold of them stays inside it. Where few rows leave a device idle, the columns are cut
into parts: a block folds a part of them, and vector loops merge the states of all parts, by the same corrections.

Sites: `rows` of a block, `step` columns of a tile, `depth` of a stage, `stages` in the ring, `warps`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from lumigen.block_tile import BlockTile, TileKind
from lumigen.condition import Cmp
from lumigen.dtype import DType, f32
from lumigen.index import Axis, extent_of, floordiv, ix
from lumigen.lower.axes import unify_axes
from lumigen.lower.built import Built, check, check_steps
from lumigen.lower.cascade import Cascade, fold_around_product, is_of_columns
from lumigen.lower.contractions import is_plain, scored_factors
from lumigen.lower.operands import as_operand
from lumigen.lower.pipeline import MATRIX_SITES
from lumigen.lower.scope import kernel_reductions
from lumigen.lower.stream import StreamBuilder
from lumigen.lower.streamable import Streamable, find_streamable
from lumigen.machine import StreamingGpu
from lumigen.memo import remembered
from lumigen.plan import Carry, KernelPlan, LoopFold, NotRealised, Product
from lumigen.region import (
    Expr,
    Monoid,
    Prim,
    Read,
    Reduce,
    Region,
    Store,
    carried,
    children,
    choose,
    const,
    free_axes,
    holds,
    map_expr,
    substitute,
    walk,
)
from lumigen.schedule import Schedule, schedule
from lumigen.tile import Contract, For, TileProgram

SITES = ("rows", "step", "depth", "stages", "warps")


def _with_picked(
    fold: LoopFold, inner: Reduce, stores: tuple[Store, ...]
) -> tuple[LoopFold, tuple[Store, ...]] | None:
    """The fold with the products of one column that an index picks, which stores read; None if one reads other sums.

    As the score of a label is: the fold meets it on its way, and adds up the products of the column picked alone.
    """
    (k,) = fold.axes
    left = kernel_reductions([s.value for s in stores])
    found: dict[Expr, Expr] = {}
    carries = list(fold.carries)
    for r in left:
        tile = _picked(r, inner, k)
        if tile is None:
            return None
        found[r] = carried(len(carries), "new", f32)
        carries.append(Carry(r, Monoid.SUM, tile, None))
    if not found:
        return fold, stores
    results = (*fold.results, *found.items())
    fold = replace(fold, carries=tuple(carries), results=results, where=())  # it may be anywhere
    return fold, tuple(replace(s, value=map_expr(s.value, found)) for s in stores)


def _picked(r: Reduce, inner: Reduce, k: Axis) -> Expr | None:
    """A reduction as what each k adds to it: the product where its body has that k, else nothing."""
    extents = [[a.extent for a in x.axes] for x in (r, inner)]
    if r.monoid is not Monoid.SUM or extents[0] != extents[1] or not isinstance(r.body, Prim):
        return None
    if any(c.axes & set(r.axes) for c in r.where):
        return None
    body = substitute(r.body, dict(zip(r.axes, map(ix, inner.axes), strict=True)))
    reads = [e for e in walk([inner.body]) if isinstance(e, Read) and ix(k) in e.at]
    for e, x in product(reads, children(body)):
        if not isinstance(x, Read) or x.source != e.source:
            continue
        at = x.at[e.at.index(ix(k))]
        if {*children(substitute(inner.body, {k: at}))} == {*children(body)}:
            conditions = (Cmp(at - k), Cmp(ix(k) - at), *r.where)
            return choose(holds(conditions), inner, const(0.0, f32))
    return None


@remembered
def find_block_fold(stores: tuple[Store, ...]) -> Cascade | None:
    """The one fold of a region's stores around one product, all of whose states are of the product's rows; or None.

    In terms of a cascade the rows are the columns of the inner product: what does not vary with the folded axis.
    """
    around = fold_around_product(stores, one_row=False, whole=False)
    if around is None:
        return None
    fold, (inner, *more), stores = around
    picked = _with_picked(fold, inner, stores)
    if picked is None or more:
        return None
    fold, (*others, store) = picked
    factors = scored_factors(inner, one_row=False)
    assert factors is not None
    (k,) = fold.axes
    columns, rows = sorted(factors, key=lambda f: k in free_axes(f))
    if k in free_axes(columns) or not (is_plain(columns) and is_plain(rows)):
        return None
    own = (free_axes(columns) - free_axes(rows)) & frozenset(store.axes)
    m_axes = tuple(a for a in store.axes if a in own)
    grid = tuple(a for a in store.axes if a not in own)
    vectors = tuple(range(len(fold.carries)))
    product_of = Product(inner, rows, columns, (k,), m_axes)
    found = Cascade(fold, (product_of,), grid, m_axes, (), vectors, (), store.value)
    apart = free_axes(inner).union(*(c.axes for c in fold.where))
    if any(a.extent != 1 and a not in apart for a in grid):
        return None  # the same products at several places
    if not m_axes or not all(is_of_columns(s, found) for s in (*others, store)):
        return None
    if any(not free_axes(c.tile) <= {*store.axes, k} for c in fold.carries):
        return None
    return replace(found, others=tuple(others))


def find_foldable(
    stores: tuple[Store, ...],
    machine: StreamingGpu,
    temporaries: DType = f32,
    *,
    deep: bool = False,
) -> Cascade | None:
    """The fold of rows of a region that blocks run by matrix instructions; temporaries of f32 held as `temporaries`.

    Of products that are no deeper than makes up for storing them, or of `deep` ones.
    """
    found = find_block_fold(stores)
    if found is None or deep != (_is_deep(found, machine) or _leaves_idle(found, machine)):
        return None
    try:
        _streamable(found, stores, machine.row_folds.one[0][0], machine, temporaries)
    except NotRealised:
        return None
    return found


def _is_deep(found: Cascade, machine: StreamingGpu) -> bool:
    """Whether an element takes so many products that those of Hopper, twice as fast, make up for storing it."""
    most = extent_of(found.inner.value.axes).bounds()[1]
    return most is None or most > machine.row_folds.deepest


def _leaves_idle(found: Cascade, machine: StreamingGpu) -> bool:
    """Whether most of a device has nothing to do while few blocks take longer than a launch to multiply.

    Or blocks gather windows, of which a tile of columns alone reads all.
    """
    rows, *_ = machine.row_folds.one[0]
    (k,) = found.fold.axes
    depth = extent_of(found.inner.value.axes).estimate()
    columns, m = k.extent.estimate(), extent_of(found.columns).estimate()
    parts = parts_of_rows(found, machine)
    blocks = extent_of(found.grid).estimate() * -(-m // rows) * parts
    idle = machine.division.idle * blocks < machine.multiprocessors
    windows = any(
        i.axes & set(found.inner.value.axes) and i.axes & set(found.columns)
        for e in walk([found.inner.value])
        if isinstance(e, Read)
        for i in e.at
    )
    return windows or (idle and rows * columns * depth // parts > machine.row_folds.most_alone)


def _streamable(
    found: Cascade,
    stores: tuple[Store, ...],
    rows: int,
    machine: StreamingGpu,
    temporaries: DType = f32,
) -> Streamable:
    fold = Streamable.of(found, stores, rows, machine, temporaries)
    if fold.outers:
        raise NotRealised("a fold of rows has no outer product")
    if fold.element is f32 and not machine.multiplies_floats:
        raise NotRealised("matrix instructions multiply operands of one 16-bit type")
    return fold


def runs_in_blocks(machine: StreamingGpu, region: Region, temporaries: DType) -> bool:
    """Whether a block of threads runs a contraction inside another reduction without storing it."""
    stores = unify_axes(region).stores
    streams = find_streamable(stores, machine, temporaries)
    if streams is not None and not _is_alone(streams, machine):
        return True
    return find_foldable(stores, machine, temporaries) is not None


def _is_alone(found: Streamable, machine: StreamingGpu) -> bool:
    """Whether so few blocks multiply so many f32 that to store what is inside takes less, on all of a device.

    Not of folds that are long enough to be split.
    """
    s, cascade = machine.streams, found.cascade
    points = extent_of(cascade.fold.axes).estimate()
    if found.element is not f32 or points >= s.steps_to_split * s.step_of_long:
        return False
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    longest = max(found.sizes)
    rows = next(t[-1].rows for most, t in s.scalar.items() if longest <= most)
    blocks, work = -(-m // rows) * batch, min(m, rows) * points * sum(found.sizes)
    return blocks * s.alone <= machine.multiprocessors and work >= s.most_alone


def schedule_of_rows(plan: KernelPlan, machine: StreamingGpu) -> Schedule:
    """How the fold of rows of a plan lies in blocks."""
    tiles, found = machine.row_folds, Cascade.of(plan, machine)
    few = extent_of(found.columns).estimate() <= tiles.one[1][0]
    each = (tiles.one[few], tiles.two[few])
    sizes = [schedule("block_fold", dict(zip(SITES, t, strict=True))) for t in each]
    built = block_fold(plan, sizes[0], machine)
    fragments = [b for b in built.program.scratch if len(b.dims) == 2]
    return sizes[len(fragments) > 1 or _reads_several(found)]


def _reads_several(found: Cascade) -> bool:
    """Whether a map reads more beside scores than one number for each: they take registers beside a tile of these."""
    scores: dict[Expr, Expr] = {p.value: const(0.0, f32) for p in found.inners}
    nodes = walk(map_expr(c.tile, scores) for c in found.fold.carries)
    return sum(isinstance(e, Read) for e in nodes) > 1


def parts_of_rows(found: Cascade, machine: StreamingGpu) -> int:
    """Into how many parts to split a fold of rows; 1 where one launch has enough blocks, or the columns are few."""
    (k,) = found.fold.axes
    folds = machine.row_folds
    rows, step, *_ = folds.one[0]
    tiles = -(-k.extent.estimate() // step)
    grid, m = extent_of(found.grid).estimate(), extent_of(found.columns).estimate()
    most = folds.blocks * machine.multiprocessors
    count = min(most // (grid * -(-m // rows)), tiles // folds.least_tiles)
    return -(-tiles // -(-tiles // count)) if count > 1 else 1


# ---- the kernel ----


def block_fold(plan: KernelPlan, sizes: Schedule, machine: StreamingGpu) -> Built:
    """The kernel of a plan of a fold of a product's rows; NotRealised where it is of another form."""
    check(sizes, SITES)
    check_steps(sizes, *SITES)
    cascade = Cascade.of(plan, machine)
    found = _streamable(cascade, plan.stores, sizes["rows"], machine)
    return Built(_BlockFoldBuilder(plan, found, sizes, machine).program(), plan.region)


class _BlockFoldBuilder(StreamBuilder):
    def program(self) -> TileProgram:
        top = self.begun()
        step = self.sizes["step"]
        limits = self.limits()
        turn = top.inner([self.k0])
        ((_, rows, _, d),), ((_, columns, _, _),), _ = self.operands
        a, b = (as_operand(self.over(e), x, d) for e, x in ((rows, self.m), (columns, self.k)))
        start, depth = (ix(self.m0), ix(self.k0)), (ix(0), d.extent)
        axes = (self.m, self.k, d)
        turn.stmts.append(Contract(self.scores, a, b, *axes, *start, *depth, self.found.element))
        self.carry(turn)
        lo = floordiv(limits.lo, ix(step)) * step  # where vectors of the columns begin
        top.stmts.append(For(self.k0, lo, limits.hi, False, tuple(turn.stmts), step=step))
        cascade = self.found.cascade
        stores = (*cascade.others, replace(self.store, value=cascade.after))
        top.stmts.append(self.store_rows(top, self.states(), stores))
        return self.placed(self.with_body("block_fold", top, (self.scores,)))

    def placed(self, program: TileProgram) -> TileProgram:
        rows, step, depth, stages, warps = (self.sizes[s] for s in SITES)
        each = zip(MATRIX_SITES, (rows, step, depth, stages, warps, 1), strict=True)
        threads = self.machine.teams.warp * warps
        return replace(program, threads=threads, tile=BlockTile(TileKind.PIPELINE, tuple(each)))
