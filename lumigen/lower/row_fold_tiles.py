"""row_fold_tiles: the kernel of a fold of rows.

Before: the plan of a loop over k for all reductions of rows m (`row_fold`).  After: a tile program whose work tile is
a run of rows. It walks k in parts. Each turn multiplies the rows with a part of the columns, then goes row by row over
the scores that came out: states of one level after another in vectors along k, corrected once for each row and part;
what weights a sum takes the place of the scores, and is multiplied with the columns n into the sums.

Columns lie in panels: weights are packed once and stream past (`panels`), others are packed for each part (`tile`).
Without a product inside a work tile reads its rows from memory, and each part stays in the first cache between levels.

Sites: `rows` of a work tile, at most, and `least_rows`, below which no more tiles are made to busy threads; points of k
in a `part`; `depth` of the inner product that is packed at a time; so many vectors `together` in a loop with folds
(0: as many as each loop is expected to gain by). Places of the columns: `inner` and `outer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.dtype import DType, bf16, computed, f32
from lumigen.index import Axis, Dim, Ix, ceildiv, extent_of, is_less, ix, minimum
from lumigen.lower.bounds import Bounds, assuming, chosen_in_tile, loop_bounds
from lumigen.lower.built import Built, check
from lumigen.lower.built import Pack as Packed
from lumigen.lower.contract import (
    WIDTH,
    Columns,
    Contraction,
    Points,
    flatten,
    in_tiles,
    is_paired,
    number,
    stored,
    threads_of,
    tiles,
)
from lumigen.lower.contractions import multiplied_as
from lumigen.lower.operands import as_operand
from lumigen.lower.row_fold import RowFold
from lumigen.lower.scope import Names, Scope, address, is_per_lane, loops_by_value, moved
from lumigen.lower.several import take_several
from lumigen.lower.simt import dims_of
from lumigen.machine import Processor
from lumigen.ops import Op
from lumigen.plan import Carry, KernelPlan, NotRealised, corrected
from lumigen.program import PAIR, PAIRED_DEPTH, whole_depth
from lumigen.region import (
    Buffer,
    Carried,
    Choose,
    Expr,
    Holds,
    Local,
    Monoid,
    Reduce,
    Role,
    Store,
    carried,
    is_zero,
    local,
    map_expr,
    prim,
    read,
    reduce,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Fill,
    Finish,
    For,
    Let,
    Mma,
    Operand,
    Pack,
    PackColumns,
    Stmt,
    StoreTile,
    TileProgram,
    When,
)

NOT_EMPTY = ("rows", "least_rows", "part", "depth")
SITES = (*NOT_EMPTY, "together")
COLUMNS = ("panels", "tile", "none")
PLACES = {"inner": COLUMNS, "outer": COLUMNS}


def row_fold(plan: KernelPlan, sizes: Schedule, machine: Processor) -> Built:
    """The kernel of a plan of a fold of rows; NotRealised where it is of another form."""
    check(sizes, SITES, PLACES)
    found, longest = RowFold.of(plan), machine.storing.row_of_weights
    for site, products in (("inner", (found.first,)), ("outer", found.second)):
        _check_columns(sizes.where(site), [c for c in products if c is not None], longest)
    if sizes["part"] % WIDTH or not all(sizes[site] for site in NOT_EMPTY):
        raise NotRealised(f"a part is of whole panels of {WIDTH} columns, and no tile is empty")
    first = found.first
    if first is not None and is_paired(first) and sizes["depth"] % PAIRED_DEPTH:
        raise NotRealised(f"pairs of bf16 are packed in a depth of whole {PAIRED_DEPTH}")
    return _RowFoldBuilder(plan, found, sizes).built()


def _check_columns(place: str, products: list[Contraction], longest: int) -> None:
    if (place == "none") != (not products):
        raise NotRealised("columns have a place where there is a product, and nowhere else")
    if place == "panels" and any(Columns.of(c).once is None for c in products):
        raise NotRealised("columns that are no weight lie in no panels")
    for c in products:
        lengths = (extent_of(axes).bounds()[1] for axes in (c.reduce.axes, c.n_axes))
        if min(n or longest + 1 for n in lengths) > longest:
            raise NotRealised(f"rows longer than {longest} in a fold of rows")


@dataclass(frozen=True)
class _Panels:
    """Columns of a product as it reads them: a weight in panels, or a tile that each turn packs."""

    operand: Operand
    element: DType
    pack: PackColumns | None = None
    weight: Columns | None = None


@dataclass(frozen=True)
class _Place:
    """The one point at which a sum has a term: `value`, if the conditions hold."""

    at: Ix
    where: tuple[Cmp, ...]
    value: Expr


class _RowFoldBuilder:
    """Builds the tile program of one fold of rows."""

    def __init__(self, plan: KernelPlan, found: RowFold, sizes: Schedule) -> None:
        self.region, self.found, self.sizes = plan.region, found, sizes
        self.m, m_map = flatten(found.m, "m")
        self.n, n_map = flatten(found.n, "n")
        self.k, self.k_map = flatten(found.loop.axes, "k")
        self.d, self.d_map = flatten(() if found.first is None else found.first.reduce.axes, "d")
        self.mapping = {**m_map, **n_map, **self.k_map}
        self.carries = found.loop.carries
        self.part = sizes["part"]
        self.most = min(sizes["rows"], self.m.extent.bounds()[1] or sizes["rows"])
        self.m0, self.m1 = Axis("m0", self.m.extent), Axis("m1", self.m.extent + 1)
        self.k0, self.k1 = Axis("k0", self.k.extent), Axis("k1", self.k.extent + 1)
        self.scratch: list[Buffer] = []
        self.inner = self.inner_columns()
        self.outer = {i: self.outer_columns(i, c) for i, c in enumerate(self.carries) if c.product}
        self.scores = self.tile("part", self.most, self.part) if self.inner else None
        numbers = (i for i in range(len(self.carries)) if i not in self.outer)
        self.states = {i: self.tile(f"state{i}", self.most) for i in numbers}
        width = int(self.n.extent.bounds()[1] or 0)
        self.sums = {i: self.tile(self.name("sums", i), self.most, width) for i in self.outer}
        self.places = {i: at for i in self.states if (at := self.place_of(i)) is not None}
        self.weights: dict[int, Buffer] = {}
        self.limits, self.known = self.bounds()

    # ---- operands ----

    def tile(self, name: str, *dims: int | Ix) -> Buffer:
        b = Buffer(name, Role.SCRATCH, tuple(map(ix, dims)), f32)
        self.scratch.append(b)
        return b

    def in_order(self) -> tuple[Buffer, ...]:
        """The tiles of the program in the order in which it comes to them."""
        stems = ("x_tile", "columns", "part", "state", "weights", "weighted", "a_tile", "sums")

        def place(b: Buffer) -> int:
            return stems.index(b.name.rstrip("0123456789"))

        return tuple(sorted(self.scratch, key=place))

    def name(self, stem: str, i: int) -> str:
        """Of a tile of carry i; without the number where no other one has such a tile."""
        return stem if sum(c.product is not None for c in self.carries) == 1 else f"{stem}{i}"

    def inner_columns(self) -> _Panels | None:
        """Columns k of the product inside."""
        first = self.found.first
        if first is None:
            return None
        value = substitute(substitute(first.columns, self.d_map), self.mapping)
        if self.sizes.where("inner") == "panels":
            columns = Columns(value, first, self.k, self.d)
            b = columns.operand
            return _Panels(b, bf16 if b.side == PAIR else f32, None, columns)
        element = multiplied_as(first.rows, first.columns)
        depth = int(self.d.extent.bounds()[1] or 0)
        held = depth if element is f32 else whole_depth(depth, PAIR)
        b = self.tile("columns", self.part, held)
        span = self.k, ix(self.k0), ix(self.k1), self.d, self.d.extent
        pack = PackColumns(b, as_operand(value, self.k, self.d), *span, element)
        panels = Operand(b, ix(0), self.d.extent * WIDTH, ix(WIDTH), None, panels=True)
        return _Panels(panels, element, pack)

    def outer_columns(self, i: int, c: Carry) -> _Panels:
        """Columns n of the sum of carry i."""
        assert c.product is not None
        p = c.product
        value = substitute(p.columns, self.mapping)
        if self.sizes.where("outer") == "panels":
            product = Contraction(p.value, p.rows, p.columns, self.found.grid, p.m, p.n)
            columns = Columns(value, product, self.n, self.k)
            b = columns.operand
            at_part = replace(b, base=b.base + ix(self.k0) * WIDTH)
            return _Panels(at_part, bf16 if b.side == PAIR else f32, None, columns)
        width = int(self.n.extent.bounds()[1] or 0)
        b = self.tile(self.name("weighted", i), -(-width // WIDTH) * WIDTH, self.part)
        point = Axis("point", ix(self.part))
        moved_to = as_operand(substitute(value, {self.k: ix(self.k0) + point}), self.n, point)
        count = ix(self.k1) - self.k0
        pack = PackColumns(b, moved_to, self.n, ix(0), self.n.extent, point, count)
        panels = Operand(b, ix(0), count * WIDTH, ix(WIDTH), None, panels=True)
        return _Panels(panels, f32, pack)

    def place_of(self, i: int) -> _Place | None:
        """Where the tile of carry i is not zero, if that is at one point of k for each row."""
        c = self.carries[i]
        if c.correct is not None or c.monoid is not Monoid.SUM or self.scores is None:
            return None
        if not isinstance(c.tile, Choose) or not isinstance(c.tile.condition, Holds):
            return None
        asked = [x.substitute(self.mapping) for x in c.tile.condition.conditions]
        for x in asked:
            at = ix(self.k) - x.slack
            same = Cmp(-x.slack)
            if is_zero(c.tile.otherwise) and self.k not in at.axes and same in asked:
                others = (o.substitute({self.k: at}) for o in asked if o not in (x, same))
                return _Place(at, tuple(others), c.tile.then)
        return None

    def bounds(self) -> tuple[Bounds, tuple[object, ...]]:
        """The loop over k, and the conditions that hold at all of its points."""
        where = tuple(c.substitute(self.mapping) for c in self.found.loop.where)
        if len(self.found.loop.axes) != 1:
            return Bounds(ix(0), self.k.extent, where), ()
        found = loop_bounds(where, self.k, {self.m: (ix(self.m0), ix(self.m1) - 1)})
        in_panels = [p for p in (self.inner, *self.outer.values()) if p is not None and p.weight]
        begin = found.lo // WIDTH * WIDTH  # a panel is read from its start
        if begin == found.lo or not in_panels:
            return found, tuple(c for c in where if c not in found.residual)
        return replace(found, lo=begin), ()

    # ---- the program ----

    def built(self) -> Built:
        packed: dict[Expr, Expr] = {}
        packs: dict[Buffer, Packed] = {}
        for p in (self.inner, *self.outer.values()):
            if p is not None and p.weight is not None:
                packed[p.weight.found.columns] = p.weight.element(p.operand)
                packs.update((x[0], x) for x in p.weight.packs)
        axes = self.found.loop.axes
        for c in self.carries:
            if isinstance(c.value, Reduce) and not set(axes) & set(c.value.axes):  # of one place
                packed[c.value] = reduce(c.monoid, axes, map_expr(c.tile, packed), c.dtype)
        stores = (replace(s, value=map_expr(s.value, packed)) for s in self.region.stores)
        meaning = replace(self.region, stores=tuple(stores))
        program = self.program()
        reads = sorted(meaning.reads(), key=lambda b: b.name if b in packs else "")
        args = (*reads, *(s.dst for s in meaning.stores))
        return Built(replace(program, args=args), meaning, tuple(packs.values()))

    def program(self) -> TileProgram:
        top, task, tasks, numbers = self.tasks()
        self.pack_rows(top)
        corrected = {i for i, c in enumerate(self.carries) if c.correct is not None}
        for i, c in enumerate(self.carries):
            state = self.states.get(i) or self.sums[i]
            if i in self.states or i in corrected or not self.starts_at_zero:
                top.stmts.append(Fill(state, float(c.identity)))
        turn = top.inner([self.k0])
        turn.bind(self.k1, minimum(ix(self.k0) + self.part, self.limits.hi))
        self.multiply_rows(turn)
        self.carry_states(turn)
        for i in self.outer:
            self.multiply_weights(turn, i, adds=i in corrected or not self.starts_at_zero)
        span = self.limits.lo, self.limits.hi, False
        top.stmts.append(For(self.k0, *span, tuple(turn.stmts), step=self.part))
        self.finish(top)
        is_map = not self.states and self.inner is not None and self.inner.weight is not None
        skeleton = "panel" if is_map and all(p.weight for p in self.outer.values()) else "cascade"
        dims, body = dims_of(self.region), tuple(top.stmts)
        own = self.in_order()
        made = TileProgram(skeleton, (), dims, task, tasks, own, body, numbers=numbers)
        return take_several(made, self.sizes["together"])

    @property
    def starts_at_zero(self) -> bool:
        """Whether the loop has a turn, and its first one is at k = 0: there a sum needs no zeros to add to."""
        return not self.found.loop.where and is_less(ix(0), self.k.extent)

    def tasks(self) -> tuple[Scope, Axis, Ix, tuple[tuple[Dim, Ix], ...]]:
        """Rows in equal shares for each point of the grid."""
        dims, grid = dims_of(self.region), extent_of(self.found.grid)
        shares, numbers = threads_of(grid, dims)
        wanted = tiles(self.m.extent, self.most, self.sizes["least_rows"], shares)
        task = Axis("task", grid * wanted)
        top = Scope(Names(), frozenset({task}))
        top.loops = loops_by_value(moved(fold, self.mapping) for fold in self.found.folds)
        row_tiles = number("row_tiles", wanted, dims)
        top.spread(ix(task) // row_tiles, self.found.grid)
        each = Axis("rows_each", self.m.extent + 1)
        top.bind(each, ceildiv(self.m.extent, row_tiles))
        row_tile = ix(task) % row_tiles if self.found.grid else ix(task)
        top.bind(self.m0, minimum(row_tile * each, self.m.extent))
        top.bind(self.m1, minimum(ix(self.m0) + each, self.m.extent))
        return top, task, grid * row_tiles, (*numbers, (row_tiles, wanted))

    @property
    def rows(self) -> Points:
        return Points(self.m, ix(self.m0), ix(self.m1))

    def spans(self) -> list[tuple[Ix, Ix]]:
        """Parts of the depth that are packed apart: of columns in panels, which are read from anywhere."""
        if self.inner is None or self.inner.weight is None:
            return [(ix(0), self.d.extent)]
        depth, step = self.depth, self.sizes["depth"]
        return [(ix(d0), ix(min(d0 + step, depth))) for d0 in range(0, depth, step)]

    def pack_rows(self, top: Scope) -> None:
        """The rows of the product inside, which stay for all of the loop."""
        if self.inner is None:
            return
        assert self.found.first is not None
        rows = substitute(substitute(self.found.first.rows, self.d_map), self.mapping)
        x, count, depth = as_operand(rows, self.m, self.d), ix(self.m1) - self.m0, self.depth
        whole, element = self.inner.element is bf16, self.inner.element
        most = in_tiles(ix(self.most)).const if whole else self.most
        self.x_tile = self.tile("x_tile", most, whole_depth(depth, PAIR) if whole else depth)
        self.x_rows = in_tiles(count) if whole else count
        for d0, d1 in self.spans():
            points = self.m, ix(self.m0), ix(self.m1), self.d, d0, d1
            top.stmts.append(Pack(self.x_tile, d0 * self.x_rows, x, *points, element))

    @property
    def depth(self) -> int:
        return int(self.d.extent.bounds()[1] or 0)

    def multiply_rows(self, turn: Scope) -> None:
        """The scores of a part."""
        if self.inner is None or self.scores is None:
            return
        b, first = self.inner.operand, ix(0)
        rows, count, wide = ix(self.m1) - self.m0, ix(self.k1) - self.k0, ix(self.part)
        if self.inner.pack is not None:
            turn.stmts.append(self.inner.pack)
        else:
            first = ix(self.k0) // WIDTH * (b.stride or ix(0))
        for d0, d1 in self.spans():
            at = replace(b, base=b.base + first + d0 * WIDTH)
            args = (self.scores, ix(0), wide, self.x_tile, d0 * self.x_rows, at, rows, count)
            turn.stmts.append(Mma(*args, d1 - d0, d0, element=self.inner.element))

    def multiply_weights(self, turn: Scope, i: int, *, adds: bool) -> None:
        """The sums of carry i and what the part adds to them."""
        p, zero, wide = self.outer[i], ix(0), ix(self.part)
        rows, count = ix(self.m1) - self.m0, ix(self.k1) - self.k0
        packed = next((b for b in self.scratch if b.name == "a_tile"), None)
        majors = in_tiles(ix(self.most)).const if p.element is bf16 else self.most
        a = packed or self.tile("a_tile", majors, self.part)
        if p.pack is not None:
            turn.stmts.append(p.pack)
        weights = Operand(self.weights[i], zero, wide, ix(1), None)
        turn.stmts.append(
            Pack(a, zero, weights, self.m, zero, rows, self.k, zero, count, p.element)
        )
        sizes = (rows, self.n.extent, count, ix(1) if adds else ix(self.k0))
        width = self.sums[i].dims[1]
        turn.stmts.append(
            Mma(self.sums[i], zero, width, a, zero, p.operand, *sizes, element=p.element)
        )

    # ---- states ----

    def over(self, e: Expr, state: Mapping[Expr, Expr]) -> Expr:
        """The expression with the product inside read from its tile and states by their names."""
        wanted = map_expr(e, state)
        if self.scores is not None and self.found.inner is not None:
            scores = read(self.scores, (ix(self.m) - self.m0, ix(self.k) - self.k0))
            wanted = map_expr(wanted, {self.found.inner.value: scores})
        return assuming(substitute(wanted, self.mapping), self.known)

    def tile_of(self, i: int) -> Expr:
        """What carry i has at one point of the loop; of a sum with columns what it weights these with."""
        c = self.carries[i]
        known = [c for c in self.found.loop.where if c.substitute(self.mapping) in self.known]
        return assuming(c.tile if c.product is None else c.product.rows, known)

    def carry_states(self, turn: Scope) -> None:
        """One pass over the rows, which asks for what holds in all of the part once and not of each element."""
        of_rows, of_part = (ix(self.m0), ix(self.m1) - 1), (ix(self.k0), ix(self.k1) - 1)
        ranges = {self.m: of_rows, self.k: of_part}
        roots = [self.tile_of(i) for i in range(len(self.carries)) if i not in self.places]
        chosen, conditions = chosen_in_tile(roots, self.mapping, ranges)
        each: Stmt = self.pass_over_rows(turn, {})
        if conditions:
            each = When(conditions, (self.pass_over_rows(turn, chosen),), (each,))
        turn.stmts.append(each)

    def pass_over_rows(self, turn: Scope, chosen: Mapping[Expr, Expr]) -> For:
        """States of one level after another, each in a loop along the part."""
        row = turn.inner([self.m])
        state: dict[Expr, Expr] = {}
        for i, b in self.states.items():
            if i in self.places:
                row.stmts.append(self.placed(i))
                continue
            old = state[carried(i, "old", f32)] = self.named(row, "old")
            row.stmts.append(Let(old, read(b, (ix(self.m) - self.m0,)), None))
        corrections: dict[int, Expr] = {}
        waiting = [i for i in range(len(self.carries)) if i not in self.places]
        while waiting:
            ready = [i for i in waiting if self.needs(i) <= state.keys()]
            waiting = [i for i in waiting if i not in ready]
            self.place_weights(ready, is_last=not waiting)
            self.level(row, ready, state, corrections, chosen)
        for i, correct in corrections.items():
            if i in self.outer:
                row.stmts.append(self.corrected(row, i, correct))
        return For(self.m, ix(self.m0), ix(self.m1), False, tuple(row.stmts))

    def placed(self, i: int) -> StoreTile:
        """What a row has at its one place, in the part that has the place."""
        place = self.places[i]
        value = substitute(self.over(place.value, {}), {self.k: place.at})
        where = (Cmp(place.at - self.k0), Cmp(ix(self.k1) - 1 - place.at), *place.where)
        return StoreTile(self.states[i], (ix(self.m) - self.m0,), value, None, where)

    def needs(self, i: int) -> set[Expr]:
        """The states that carry i is computed from."""
        correct = self.carries[i].correct
        roots = [self.tile_of(i)] + ([correct] if correct is not None else [])
        return {e for e in walk(roots) if isinstance(e, Carried)}

    def place_weights(self, ready: list[int], *, is_last: bool) -> None:
        """What is stored last of all lies where the scores did, which nothing reads any more."""
        weighted = [i for i in ready if i in self.outer and i not in self.weights]
        for i in weighted:
            in_place = is_last and i == weighted[-1] and self.scores is not None
            beside = None if in_place else self.tile(f"weights{i}", self.most, self.part)
            self.weights[i] = beside or self.scores  # type: ignore[assignment]

    def level(
        self,
        row: Scope,
        ready: list[int],
        state: dict[Expr, Expr],
        corrections: dict[int, Expr],
        chosen: Mapping[Expr, Expr],
    ) -> None:
        """The states that nothing but those before them is needed for."""
        for i in ready:
            if (correct := self.carries[i].correct) is not None:
                wanted = self.over(correct, state)
                found = row.find(wanted)
                corrections[i] = found or row.let(wanted, row.value(wanted), "correct")
        totals = {i: self.named(row, "acc", self.k) for i in ready if i in self.states}
        for i, name in totals.items():
            row.stmts.append(Accumulator(name, self.carries[i].monoid, self.k))
        row.stmts.append(self.points(row, ready, totals, state, chosen))
        for i, acc in totals.items():
            c, of_part, new = self.carries[i], self.named(row, "r"), self.named(row, "new")
            start = state[carried(i, "old", f32)]
            if i in corrections:
                start = corrected(start, corrections[i])
            row.stmts += [
                Finish(of_part, acc, c.monoid),
                Accumulator(new, c.monoid, None, start),
                Accumulate(new, c.monoid, of_part, None),
                StoreTile(self.states[i], (ix(self.m) - self.m0,), new, None),
            ]
            state[carried(i, "new", f32)] = new

    def points(
        self,
        row: Scope,
        ready: list[int],
        totals: Mapping[int, Local],
        state: Mapping[Expr, Expr],
        chosen: Mapping[Expr, Expr],
    ) -> For:
        """The points of a part along k: scores are read before weights take their place."""
        lane = row.inner([self.k], self.k)
        roots = [self.over(map_expr(self.tile_of(i), chosen), state) for i in ready]
        values = dict(zip(ready, lane.values(roots), strict=True))
        for i, name in totals.items():
            lane.stmts.append(Accumulate(name, self.carries[i].monoid, values[i], self.k))
        at = (ix(self.m) - self.m0, ix(self.k) - self.k0)
        for i in ready:
            if i in self.outer:
                lane.stmts.append(StoreTile(self.weights[i], at, values[i], self.k))
        return For(self.k, ix(self.k0), ix(self.k1), True, tuple(lane.stmts))

    def corrected(self, row: Scope, i: int, correct: Expr) -> For:
        """A row of the sums times its correction."""
        lane = row.inner([self.n], self.n)
        at = (ix(self.m) - self.m0, ix(self.n))
        value = prim(Op.MUL, (read(self.sums[i], at), correct), f32)
        lane.stmts.append(StoreTile(self.sums[i], at, value, self.n))
        return For(self.n, ix(0), self.n.extent, True, tuple(lane.stmts))

    def named(self, scope: Scope, stem: str, *axes: Axis) -> Local:
        """A name for a number that each row of each turn has anew."""
        name = local(scope.names.fresh(stem), frozenset({self.k0, self.m, *axes}), f32)
        assert isinstance(name, Local)
        return name

    # ---- what is stored ----

    def finish(self, top: Scope) -> None:
        """Store the values over the final states."""
        state = {
            carried(i, "new", f32): read(b, (ix(self.m) - self.m0,)) for i, b in self.states.items()
        }
        state |= {
            carried(i, "new", f32): read(b, (ix(self.m) - self.m0, ix(self.n)))
            for i, b in self.sums.items()
        }
        over = {r: map_expr(e, state) for r, e in self.found.loop.results}
        for s in self.found.stores:
            value = substitute(map_expr(s.value, over), self.mapping)
            at = tuple(i.substitute(self.mapping) for i in s.at)
            if self.found.n and set(self.found.n) <= set(s.axes):
                points = Points(self.n, ix(0), self.n.extent)
                top.stmts.append(stored(top, s.dst, at, value, self.rows, points))
            else:
                top.stmts.append(self.store_rows(top, s, at, value))

    def store_rows(self, top: Scope, s: Store, at: tuple[Ix, ...], value: Expr) -> For:
        """One value for each row: in vectors, where these compute it and memory goes along with the rows."""
        single = any(is_per_lane(e, self.m) for e in walk([value]))
        along = address(s.dst, at).coefficient(self.m)
        floats = value.dtype is f32 and computed(s.dst.dtype) is f32
        fits = floats and not self.found.folds and along is not None and along != 0
        lanes = self.m if fits and not single else None
        rows = top.inner([self.m], lanes)
        (out,) = rows.values([value])
        rows.stmts.append(StoreTile(s.dst, at, out, lanes))
        return For(*self.rows, lanes is not None, tuple(rows.stmts))
