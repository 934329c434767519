"""sliding: the builder of reductions over windows that overlap, as of a depthwise convolution or a pool.

Before: vector loops whose fold reads one image at `row + window row, column + window column`, constant where a
condition fails.  After: a tile program that packs some rows of the image, with their edges, one tile at a time. A tile
has constants where conditions fail, so that the fold asks none; it has the columns of a stride apart, so that vectors
are read as they lie. Several rows of results are folded together: their accumulators do not wait for each other. The
plan has the rows of a window in its innermost loop (`rows_innermost`): neighbours show the same rows of the tile, and
one that is read once, into a register, is in a window of each of these results. Where the image is folded as it is, as
in a pool, rows of windows are folded first, then columns of what that gives.

Sites: `visits` of terms in a work tile, `columns` and `rows` of results in a tile, of which rows `held` are folded
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from lumigen.condition import Cmp
from lumigen.dtype import f32, i8, u8
from lumigen.index import Axis, Ix, Lookup, ceildiv, extent_of, ix, minimum, product
from lumigen.lower.built import Built, check, check_folded
from lumigen.lower.contract import WIDTH, Points, stored
from lumigen.lower.scope import Names, Scope, address, guarded, loops_by_value
from lumigen.lower.simt import dims_of
from lumigen.lower.sweeps import Around
from lumigen.machine import Processor, Sizes
from lumigen.ops import Op
from lumigen.plan import KernelPlan, Loop, NotRealised
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Holds,
    Read,
    Reduce,
    Role,
    Store,
    carried,
    const,
    free_axes,
    map_expr,
    prim,
    read,
    reduce,
    substitute,
    walk,
)
from lumigen.schedule import Schedule, schedule
from lumigen.tile import For, PackRuns, Stmt, StoreTile, TileProgram

SITES = ("visits", "rows", "columns", "held")


@dataclass(frozen=True)
class Along:
    """Where windows are along one dimension of an image: at step * point + dilation * inside from the first."""

    point: Axis
    inside: Axis
    step: int
    dilation: int

    @staticmethod
    def of(at: Ix, points: Sequence[Axis], insides: Sequence[Axis]) -> Along | None:
        """The index of a dimension as one point and one place inside of a window; None if it is not that."""
        found = [a for a in points if a in at.axes], [a for a in insides if a in at.axes]
        if [len(axes) for axes in found] != [1, 1]:
            return None
        (point,), (inside,) = found
        step, dilation = at.coefficient(point), at.coefficient(inside)
        if step is None or dilation is None or not step.is_const or not dilation.is_const:
            return None
        if step.const < 1 or dilation.const < 1 or not inside.extent.is_const:
            return None
        return Along(point, inside, step.const, dilation.const)

    @property
    def overlaps(self) -> bool:
        """Whether neighbouring windows share elements."""
        return self.reach >= self.step

    @property
    def reach(self) -> int:
        """From the first to the last element of a window."""
        return self.dilation * (self.inside.extent.const - 1)

    def moved(self, condition: Cmp, place: Ix) -> Cmp:
        """A condition on elements, at `place` from the first one of the first window; NotRealised if on windows."""
        by_point, by_inside = (condition.slack.coefficient(a) for a in (self.point, self.inside))
        factor = by_point.const // self.step if by_point is not None and by_point.is_const else 0
        if by_point != factor * self.step or by_inside != factor * self.dilation:
            raise NotRealised("a condition on windows, not on what they show")
        rest = condition.slack.substitute({self.point: ix(0), self.inside: ix(0)})
        return Cmp(rest + factor * place)


@dataclass(frozen=True)
class Image:
    """What windows show: a read where all conditions hold, else a number. `value` is both, as the fold has it."""

    value: Expr
    read: Read
    where: tuple[Cmp, ...]
    otherwise: float

    @staticmethod
    def of(tile: Expr, lane: Axis) -> Image:
        """The one value that varies with the lanes; NotRealised if there are several."""
        nodes = walk([tile])
        varying = [e for e in nodes if isinstance(e, Read) and lane in free_axes(e)]
        if len(varying) != 1:
            raise NotRealised("windows are of one image")
        shown: Expr = varying[0]
        if shown.dtype in (i8, u8):  # a tile has them as floats
            shown = prim(Op.CONTIGUOUS, (shown,), f32)
        if shown.dtype is not f32 or shown not in nodes:
            raise NotRealised("windows are of floats, or of bytes as floats")
        found = Image(shown, varying[0], (), 0.0)
        for e in nodes:
            if isinstance(e, Choose) and e.then is found.value and isinstance(e.condition, Holds):
                if not isinstance(e.otherwise, Const):
                    raise NotRealised("an image that goes on as another value")
                if found.where and e.otherwise.value != found.otherwise:
                    raise NotRealised("an image with two edges")
                where = (*found.where, *e.condition.conditions)
                found = Image(e, found.read, where, float(e.otherwise.value))
        return found


@dataclass(frozen=True)
class Sliding:
    """A fold over windows of an image, for each point of `outer`, of rows and of columns."""

    outer: tuple[Axis, ...]
    fold: Loop
    store: Store
    image: Image
    rows: Along
    columns: Along
    base: Ix  # of the first element of the first window

    @staticmethod
    def of(plan: KernelPlan) -> Sliding:
        """NotRealised where the plan has other steps, or no windows in two dimensions."""
        match plan.root:
            case (Loop(kind="grid", axes=points, where=(), body=(Loop(kind="lanes") as lanes,)),):
                (lane,), inner = lanes.axes, lanes.body
            case _:
                raise NotRealised("windows slide in one loop over lanes")
        match inner:
            case (Loop(kind="seq", carries=(carry,)) as fold, Store() as store):
                plain = carry.correct is None and carry.product is None
                plain = plain and carry.value.dtype is f32
            case _:
                raise NotRealised("windows slide in one fold with one accumulator, and one store")
        result = (carry.value, carried(0, "new", carry.value.dtype))
        if plan.then or lanes.where or fold.body or fold.results != (result,) or not plain:
            raise NotRealised("windows slide in a plain fold")
        image = Image.of(guarded(carry.monoid, carry.tile, fold.where), lane)
        *others, at = image.read.at
        columns = Along.of(at, (lane,), fold.axes)
        each = [Along.of(i, points, fold.axes) for i in others]
        (rows, *more) = [a for a in each if a is not None] or [None]
        if rows is None or columns is None or more:
            raise NotRealised("no windows in two dimensions")
        zero = {a: ix(0) for a in (rows.point, rows.inside, lane, columns.inside)}
        base = address(image.read.source, image.read.at)
        outer = tuple(a for a in points if a != rows.point)
        found = Sliding(outer, fold, store, image, rows, columns, base.substitute(zero))
        found._check()
        return found

    def _check(self) -> None:
        """Whether nothing but the image varies with the windows, in a way that a tile can hold."""
        moving = {self.rows.point, self.columns.point}
        inside = {self.rows.inside, self.columns.inside}
        (carry,) = self.fold.carries
        tile = guarded(carry.monoid, carry.tile, self.fold.where)
        if free_axes(map_expr(tile, {self.image.value: const(0.0, f32)})) & moving:
            raise NotRealised("windows are folded with what varies with them")
        if {a for a in self.fold.axes if a.extent != 1} != inside:
            raise NotRealised("a fold over more than windows")
        places = (self.base, *(c.slack for c in self.where(ix(0), ix(0))))
        if any(i.axes - set(self.outer) for i in places):
            raise NotRealised("an image that varies with the windows")
        order = tuple(a for a in self.fold.axes if a.extent != 1)
        if self.is_alone and order != (self.rows.inside, self.columns.inside):
            raise NotRealised("rows of windows that are folded as they are come before columns")
        if any(isinstance(a, Lookup) for i in places for a in i.atoms()):
            raise NotRealised("an integer that is read may be read where it is, and no earlier")

    @property
    def is_alone(self) -> bool:
        """Whether the image is folded as it is: then rows of windows may be folded before columns."""
        (carry,) = self.fold.carries
        return guarded(carry.monoid, carry.tile, self.fold.where) is self.image.value

    @property
    def row_stride(self) -> Ix:
        """From an element of the image to the one below."""
        source, at = self.image.read.source, self.image.read.at
        below = next(d for d, i in enumerate(at) if self.rows.point in i.axes)
        return product(source.dims[below + 1 :])

    def where(self, row: Ix, column: Ix) -> tuple[Cmp, ...]:
        """The conditions on an element, counted from the first one of the first window."""
        along = (self.rows.moved(c, row) for c in self.image.where)
        return tuple(self.columns.moved(c, column) for c in along)

    @property
    def overlaps(self) -> bool:
        """Whether windows share elements along both dimensions, so that to pack these pays."""
        return self.rows.overlaps and self.columns.overlaps


def rows_innermost(plan: KernelPlan) -> KernelPlan:
    """The same with the rows of its windows in the innermost loop, where a tile has each of them once; or as it is."""
    try:
        found = Sliding.of(plan)
    except NotRealised:
        return plan
    if found.is_alone or not found.overlaps:
        return plan
    inside, (grid,) = found.rows.inside, plan.root
    axes = (*(a for a in found.fold.axes if a != inside), inside)
    (lanes,) = grid.body
    assert isinstance(lanes, Loop)
    turned = replace(lanes, body=(replace(found.fold, axes=axes), found.store))
    return replace(plan, root=(replace(grid, body=(turned,)),))


def schedule_of_sliding(plan: KernelPlan, sizes: Sizes) -> Schedule | None:
    """Of a fold over windows that overlap, which is faster with its image in tiles; None of another one.

    The sizes are those of tiles of an image: there are fewer results of it where windows are steps apart, and these
    have less in common. Tiles, and the rows that are folded together, are as even as they can be: what is behind the
    last row is computed for nothing.
    """
    try:
        found = Sliding.of(plan)
    except NotRealised:
        return None
    held = max(1, sizes["held"] // found.rows.step)
    rows = max(held, sizes["rows"] // found.rows.step)
    columns = max(WIDTH, sizes["columns"] // found.columns.step)
    extent = found.rows.point.extent
    if extent.is_const and extent % held != 0:
        rows = _even(extent.const, rows)
    tile = {**sizes, "rows": rows, "columns": columns, "held": _even(rows, held)}
    return schedule("sliding", tile) if found.overlaps else None


def _even(count: int, most: int) -> int:
    """The least size of as many parts as there are with so many points at most."""
    parts = max(1, -(-count // most))
    return max(1, -(-count // parts))


def sliding(plan: KernelPlan, sizes: Schedule, machine: Processor) -> Built:
    """The kernel of a fold over windows; NotRealised where the plan is none."""
    check(sizes, SITES)
    found = Sliding.of(plan)
    if not sizes["rows"] or not sizes["columns"] or not sizes["held"]:
        raise NotRealised("a tile without results")
    check_folded(sizes, machine.vectors.folded)
    return Built(_program(plan, found, sizes, machine), plan.region)


@dataclass(frozen=True)
class _Results:
    """Results from (y, c) on, `high` by `wide` of them, and what they are made of in scratch."""

    found: Sliding
    held: int  # rows of results that are folded together
    image: Buffer  # (rows, columns modulo their step, columns)
    lines: Buffer | None  # the same columns, of each row of results
    sums: Buffer  # (rows, columns), both up to whole blocks and vectors
    y: Ix
    c: Ix
    high: Ix
    wide: Ix

    @staticmethod
    def of(
        found: Sliding, sizes: Schedule, first: tuple[Ix, Ix], counts: tuple[Ix, Ix]
    ) -> _Results:
        """In scratch for so many results as the schedule says, or for as many as there are."""
        points = found.rows.point.extent, found.columns.point.extent
        tiles = sizes["rows"], sizes["columns"]
        high, wide = (min(n, e.bounds()[1] or n) for n, e in zip(tiles, points, strict=True))
        held = whole(ix(high), sizes["held"])
        count = found.rows.step * (held - 1) + found.rows.reach + 1
        columns = whole(ix(wide), WIDTH)
        # beside those that are shown: what is moved in vectors may end behind the last one
        length = columns + whole(ix(found.columns.reach // found.columns.step), WIDTH) + WIDTH
        image = Buffer("image", Role.SCRATCH, (count, ix(found.columns.step), length), f32)
        lines = Buffer("lines", Role.SCRATCH, (held, *image.dims[1:]), f32)
        sums = Buffer("sums", Role.SCRATCH, (held, columns), f32)
        lines = lines if found.is_alone else None
        return _Results(found, sizes["held"], image, lines, sums, *first, *counts)

    def pack(self) -> For:
        """The rows of the image, those columns side by side that neighbouring windows show at the same place.

        Rows that only windows behind the last one show have constants.
        """
        rows, columns, image = self.found.rows, self.found.columns, self.found.image
        held = whole(self.high, self.held)
        v = Axis("v", rows.step * (held - 1) + rows.reach + 1)
        last_row = rows.step * (self.high - 1) + rows.reach
        behind = () if held == self.high else (Cmp(last_row - v),)
        j, none = Axis("j", self.image.dims[2]), Axis("outer", ix(1))
        places = (
            divmod(columns.dilation * k, columns.step) for k in range(columns.inside.extent.const)
        )
        last = {phase: number for number, phase in places}
        row, body = rows.step * self.y + ix(v), list[Stmt]()
        for phase in sorted(last):
            column = columns.step * self.c + phase
            at = (ix(v) * columns.step + phase) * self.image.dims[2]
            base = self.found.base + row * self.found.row_stride + column
            where = (*self.found.where(row, column + columns.step * ix(j)), *behind)
            span = none, j, ix(0), self.wide + last[phase]
            source = image.read.source, base, columns.step
            body.append(PackRuns(self.image, at, *source, where, *span, image.otherwise))
        return For(v, ix(0), v.extent, False, tuple(body))

    def fold(self, top: Scope, machine: Processor) -> tuple[Stmt, ...]:
        """The sums. Where the image alone is folded: down the rows of windows first, then along what that gives."""
        rows, columns = self.found.rows, self.found.columns
        inside = columns.dilation * ix(columns.inside)
        phase, number = inside % columns.step, inside // columns.step
        p, r, j = Axis("p", ix(columns.step)), Axis("r", self.high), Axis("j", self.image.dims[2])
        row, wide = rows.step * ix(r) + rows.dilation * ix(rows.inside), whole(self.wide, WIDTH)
        if self.lines is None:
            both = self._reduced(self.image, (row, phase, ix(j) + number), self.found.fold.axes)
            return (self._rows(top, both, (self.sums, (ix(j),)), (r, j, wide), machine),)
        down = self._reduced(self.image, (row, ix(p), ix(j)), (rows.inside,))
        along = self._reduced(self.lines, (ix(r), phase, ix(j) + number), (columns.inside,))
        shown = whole(self.wide + columns.reach // columns.step, WIDTH)
        inner, place = top.inner([p]), (self.lines, (ix(p), ix(j)))
        first = self._rows(inner, down, place, (r, j, shown), machine)
        second = self._rows(top, along, (self.sums, (ix(j),)), (r, j, wide), machine)
        return For(p, ix(0), p.extent, False, (first,)), second

    def _rows(
        self,
        top: Scope,
        value: Reduce,
        place: tuple[Buffer, tuple[Ix, ...]],
        over: tuple[Axis, Axis, Ix],
        machine: Processor,
    ) -> For:
        """Folds of some rows at a time, of whole vectors. Behind the last row constants are folded, for nothing."""
        (dst, at), (r, j, end) = place, over
        rows = top.inner([*self.c.axes, r])
        folds = tuple(substitute(value, {r: ix(r) + number}) for number in range(self.held))
        lanes = rows.inner([j], j)
        reduces = tuple(f for f in folds if isinstance(f, Reduce))
        lanes.loops = loops_by_value((Around(machine.vectors, lanes=True).fold(reduces),))
        for number, made in enumerate(lanes.values(folds)):
            lanes.stmts.append(StoreTile(dst, (ix(r) + number, *at), made, j))
        rows.stmts.append(For(j, ix(0), end, True, tuple(lanes.stmts)))
        return For(r, ix(0), self.high, False, tuple(rows.stmts), step=self.held)

    def _reduced(self, tile: Buffer, at: tuple[Ix, ...], axes: tuple[Axis, ...]) -> Reduce:
        """The fold over some axes of a window, of what a tile holds instead of the image."""
        (carry,) = self.found.fold.carries
        value = guarded(carry.monoid, carry.tile, self.found.fold.where)
        body = map_expr(value, {self.found.image.value: read(tile, at)})
        made = reduce(carry.monoid, axes, body, f32)
        assert isinstance(made, Reduce)
        return made

    def store(self, top: Scope) -> Stmt:
        """What is made of the sums."""
        y, x, store = self.found.rows.point, self.found.columns.point, self.found.store
        (carry,) = self.found.fold.carries
        value = map_expr(
            store.value, {carry.value: read(self.sums, (ix(y) - self.y, ix(x) - self.c))}
        )
        rows, columns = Points(y, self.y, self.y + self.high), Points(x, self.c, self.c + self.wide)
        return stored(top, store.dst, store.at, value, rows, columns)


def whole(size: Ix, step: int) -> Ix:
    """The least multiple that is no smaller."""
    return ceildiv(size, step) * step


def _program(plan: KernelPlan, found: Sliding, sizes: Schedule, machine: Processor) -> TileProgram:
    """Tiles of rows and columns of results, as many in a work tile as have `visits` terms together."""
    y, x = found.rows.point, found.columns.point
    high, wide = sizes["rows"], sizes["columns"]
    terms = prod(a.extent.const for a in (found.rows.inside, found.columns.inside))
    strip = Axis("strip", ceildiv(y.extent, high))
    each = max(1, sizes["visits"] // (min(high, y.extent.estimate()) * x.extent.estimate() * terms))
    place = Axis("place", extent_of(found.outer) * strip.extent)
    task = Axis("task", ceildiv(place.extent, each))
    top = Scope(Names(), frozenset({task}))
    scope = top.inner([place])
    several = (strip,) if strip.extent != 1 else ()
    scope.spread(place, (*found.outer, *several))
    c = Axis("c", x.extent)
    # what is not known may be no column, which must read none
    is_one = x.extent.is_const and x.extent.const <= wide
    inner = scope if is_one else scope.inner([c])
    at = ix(strip) * high if several else ix(0), ix(0) if is_one else ix(c)
    rows = _at_most(scope, "high", high, y.extent - at[0])
    columns = _at_most(inner, "wide", wide, x.extent - at[1])
    tile = _Results.of(found, sizes, at, (rows, columns))
    folded = tile.fold(inner, machine)
    inner.stmts += tile.pack(), *folded, tile.store(inner)
    if not is_one:
        scope.stmts.append(For(c, ix(0), x.extent, False, tuple(inner.stmts), step=wide))
    first = ix(task) * each
    loop = For(place, first, minimum(first + each, place.extent), False, tuple(scope.stmts))
    scratch = tuple(b for b in (tile.image, tile.lines, tile.sums) if b)
    given = plan.region.buffers(), dims_of(plan.region), task, task.extent
    return TileProgram("sliding", *given, scratch, (*top.stmts, loop))


def _at_most(scope: Scope, name: str, most: int, left: Ix) -> Ix:
    """So many, or as many as are left, with a name in a scope if that is no number."""
    count = minimum(most, left)
    if count.is_const:
        return count
    axis = Axis(name, ix(most + 1))
    scope.bind(axis, count)
    return ix(axis)
