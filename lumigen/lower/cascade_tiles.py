"""cascade_tiles: the kernel of a fold around products whose lanes are the columns that inner and outer results share.

Before: a plan of a fold around products (`cascade`).  After: a tile program with one loop over tiles of k. Each turn
multiplies a tile of each inner product, carries the states of the fold, and multiplies what weights each outer product
into its accumulators.

Nothing of size k by rows exists outside a tile. States are vectors over lanes, and no step needs a reduction across
lanes. All products are of bf16 where memory holds A, B and G so: the inner ones exactly; for the outer ones weights are
rounded as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lumigen.dtype import DType, f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, ix, minimum
from lumigen.lower.bounds import chosen_in_tile, loop_bounds
from lumigen.lower.built import Built, check, check_steps, check_whole
from lumigen.lower.cascade import Cascade, Outer
from lumigen.lower.contract import WIDTH, flatten, in_tiles
from lumigen.lower.contractions import multiplied_as
from lumigen.lower.operands import as_operand
from lumigen.lower.scope import Names, Scope, address
from lumigen.lower.simt import dims_of
from lumigen.machine import Processor
from lumigen.ops import Op
from lumigen.plan import KernelPlan, NotRealised, Product, corrected
from lumigen.program import PAIR, PANEL, whole_depth
from lumigen.region import (
    Buffer,
    Carried,
    Expr,
    Local,
    Read,
    Reduce,
    Role,
    Store,
    carried,
    local,
    map_expr,
    prim,
    read,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Fill,
    For,
    Mma,
    Operand,
    Pack,
    PackColumns,
    StoreTile,
    TileProgram,
    Transpose,
    When,
)

SITES = ("columns", "depth")


def cascade(plan: KernelPlan, sizes: Schedule, machine: Processor) -> Built:
    """The kernel of a plan of a fold around a product; NotRealised where it is of another form."""
    check(sizes, SITES)
    check_steps(sizes, *SITES)
    check_whole(sizes, "columns", WIDTH)
    found = Cascade.of(plan, machine)
    if not found.columns or not found.outers:
        raise NotRealised(
            "a fold without an outer product, or of one column, where lanes are columns"
        )
    return Built(_CascadeBuilder(plan, found, sizes).program(), plan.region)


@dataclass(frozen=True)
class _Inner:
    """An inner product: its value, (k, d) times (d, n), the tile of its packed columns, and that of its results."""

    value: Reduce
    rows: Operand
    columns: Operand
    d: Axis
    b_tile: Buffer
    scores: Buffer

    @property
    def depth(self) -> int:
        """Terms of a sum at most."""
        return int(self.d.extent.bounds()[1] or 0)


class _CascadeBuilder:
    """Builds the tile program of one cascade."""

    def __init__(self, plan: KernelPlan, found: Cascade, sizes: Schedule) -> None:
        self.region, self.store, self.found = plan.region, plan.stores[-1], found
        self.wide = sizes["columns"]  # lanes of a work tile
        self.deep = sizes["depth"]  # points of k in one turn
        self.e, e_map = flatten(found.rows, "e")
        at = tuple(i.substitute(e_map) for i in self.store.at)
        self.along_rows = address(self.store.dst, at).coefficient(self.e) == 1
        self.n, n_map = flatten(self.masked_first(), "n")
        self.k = found.fold.axes[0]
        self.mapping = {**n_map, **e_map}
        self.width = int(self.e.extent.bounds()[1] or 0)
        self.element = multiplied_as(*found.operands)
        self.n0, self.n1 = Axis("n_begin", self.n.extent), Axis("n_end", self.n.extent + 1)
        self.k0 = Axis("k_begin", self.k.extent)
        self.k1 = Axis("k_end", self.k.extent + 1)
        self.inners = [self.inner_of(i, p) for i, p in enumerate(found.inners)]
        rows = [(self.deep, x.depth) for x in self.inners] + [(self.width, self.deep)]
        self.a_tile = _scratch("a_tile", max(_packed_size(*r, self.element) for r in rows))
        self.states = {i: _scratch(f"state{i}", self.wide) for i in found.vectors}
        self.factors = {o.carry: _scratch(f"factor{o.carry}", self.wide) for o in found.outers}
        self.weights: dict[int, Buffer] = {}
        self.sums = {
            o.carry: _scratch(f"sum{o.carry}", self.width, self.wide) for o in found.outers
        }
        self.turned = {
            o.carry: _scratch(f"turned{o.carry}", self.wide, self.width) for o in found.outers
        }

    def inner_of(self, number: int, p: Product) -> _Inner:
        """The operands of an inner product, and where its columns and its results lie."""
        d, d_map = flatten(p.value.axes, "d")
        rows, columns = (
            as_operand(substitute(substitute(x, d_map), self.mapping), major, d)
            for x, major in ((p.rows, self.k), (p.columns, self.n))
        )
        most = int(d.extent.bounds()[1] or 0)
        held = most if self.element is f32 else whole_depth(most, PAIR)
        which = "" if len(self.found.inners) == 1 else str(number)
        packed = _scratch(f"b_tile{which}", self.wide, held)
        return _Inner(
            p.value, rows, columns, d, packed, _scratch(f"scores{which}", self.deep, self.wide)
        )

    def masked_first(self) -> tuple[Axis, ...]:
        """The columns in an order in which masks change least from one to the next, unless memory goes along them.

        As rows of several heads that share keys: those of one token side by side.
        """
        if self.found.others or not self.along_rows:
            return self.found.columns
        masked = frozenset[Axis]().union(*(c.axes for c in self.found.fold.where))
        return tuple(sorted(self.found.columns, key=lambda a: a not in masked))

    def over(self, e: Expr) -> Expr:
        """The expression over the flattened axes, with the inner products read from their tiles."""
        at = (ix(self.k) - self.k0, ix(self.n) - self.n0)
        products: dict[Expr, Expr] = {x.value: read(x.scores, at) for x in self.inners}
        return substitute(map_expr(e, products), self.mapping)

    def program(self) -> TileProgram:
        found = self.found
        tiles = ceildiv(self.n.extent, self.wide)
        task = Axis("task", extent_of(found.grid) * tiles)
        top = Scope(Names(), frozenset({task}))
        top.spread(ix(task) // tiles, found.grid)
        top.bind(self.n0, ix(task) % tiles * self.wide)
        top.bind(self.n1, minimum(ix(self.n0) + self.wide, self.n.extent))
        top.stmts += map(self.pack_columns, self.inners)
        for i, c in enumerate(found.fold.carries):
            state = self.states.get(i) or self.sums[i]
            top.stmts.append(Fill(state, float(c.identity)))
        turn = top.inner([self.k0])
        limits = loop_bounds(
            (c.substitute(self.mapping) for c in found.fold.where),
            self.k,
            {self.n: (ix(self.n0), ix(self.n1) - 1)},
        )
        turn.bind(self.k1, minimum(ix(self.k0) + self.deep, limits.hi))
        for x in self.inners:
            self.multiply_inner(turn, x)
        self.carry_states(turn)
        for outer in found.outers:
            self.multiply_outer(turn, outer)
        top.stmts.append(
            For(self.k0, limits.lo, limits.hi, False, tuple(turn.stmts), step=self.deep)
        )
        used = self.finish(top)
        args = (*self.region.reads(), *(s.dst for s in self.region.stores))
        dims, body = dims_of(self.region), tuple(top.stmts)
        return TileProgram("cascade", args, dims, task, task.extent, used, body, self.overwritten())

    def overwritten(self) -> tuple[Buffer, ...]:
        """Buffers of inner columns of which a work tile reads exactly what it writes, and reads it first."""
        found = self.found
        to = address(self.store.dst, self.store.at)
        values = [s.value for s in self.region.stores]
        out: list[Buffer] = []
        for p in found.inners:
            columns, inner = p.columns, p.value.axes
            same = [a.extent for a in inner] == [a.extent for a in found.rows]
            if not isinstance(columns, Read) or not same:
                continue
            b, renamed = columns.source, dict(zip(inner, map(ix, found.rows), strict=True))
            reads = (e for e in walk(values) if isinstance(e, Read) and e.source == b)
            alone = all(e is columns for e in reads)
            if alone and address(b, tuple(i.substitute(renamed) for i in columns.at)) == to:
                out.append(b)
        return tuple(out)

    def pack_columns(self, x: _Inner) -> PackColumns:
        span = (self.n, ix(self.n0), ix(self.n1), x.d, x.d.extent)
        return PackColumns(x.b_tile, x.columns, *span, self.element)

    def multiply_inner(self, turn: Scope, x: _Inner) -> None:
        count, cols, zero = ix(self.k1) - self.k0, ix(self.n1) - self.n0, ix(0)
        tile = (self.k, ix(self.k0), ix(self.k1), x.d, zero, x.d.extent)
        turn.stmts.append(Pack(self.a_tile, zero, x.rows, *tile, self.element))
        panels = Operand(x.b_tile, zero, x.d.extent * PANEL, ix(PANEL), None, panels=True)
        args = (x.scores, zero, ix(self.wide), self.a_tile, zero, panels, count, cols)
        turn.stmts.append(Mma(*args, x.d.extent, zero, element=self.element))

    def carry_states(self, turn: Scope) -> None:
        """One pass over the lanes, which asks for what holds in all of the tile once and not of each element."""
        ranges = {
            self.n: (ix(self.n0), ix(self.n1) - 1),
            self.k: (ix(self.k0), ix(self.k1) - 1),
        }
        found = self.found
        roots = [found.fold.carries[i].tile for i in found.vectors]
        roots += [o.weights for o in found.outers]
        chosen, conditions = chosen_in_tile(roots, self.mapping, ranges)
        each = self.pass_over_lanes(turn, {})
        if conditions:
            each = When(conditions, (self.pass_over_lanes(turn, chosen),), (each,))
        turn.stmts.append(each)

    def pass_over_lanes(self, turn: Scope, chosen: Mapping[Expr, Expr]) -> For:
        """States of one level after another, each in a loop over the tile's points."""
        found = self.found
        lane = turn.inner([self.n], self.n)
        at = (ix(self.n) - self.n0,)
        state: dict[Expr, Expr] = {}
        for i in found.vectors:
            old = carried(i, "old", f32)
            state[old] = lane.let(read(self.states[i], at), read(self.states[i], at), "old")
        outers = {o.carry: o for o in found.outers}
        waiting = list(range(len(found.fold.carries)))
        while waiting:
            ready = [i for i in waiting if self.needs(i) <= state.keys()]
            waiting = [i for i in waiting if i not in ready]
            self.place_weights([i for i in ready if i in outers], is_last=not waiting)
            self.level(lane, ready, outers, state, chosen)
        return For(self.n, ix(self.n0), ix(self.n1), True, tuple(lane.stmts))

    def needs(self, i: int) -> set[Expr]:
        """The states that carry i is computed from."""
        c = self.found.fold.carries[i]
        roots = [c.tile] + ([c.correct] if c.correct is not None else [])
        return {e for e in walk(roots) if isinstance(e, Carried)}

    def place_weights(self, carries: list[int], *, is_last: bool) -> None:
        """What is stored last of all lies where scores did, which nothing reads any more: a tile less to cache."""
        free = [x.scores for x in self.inners] if is_last else []
        for i in reversed(carries):
            beside = _scratch(f"weights{i}", self.deep, self.wide)
            self.weights[i] = free.pop() if free else beside

    def level(
        self,
        lane: Scope,
        ready: list[int],
        outers: dict[int, Outer],
        state: dict[Expr, Expr],
        chosen: Mapping[Expr, Expr],
    ) -> None:
        at = (ix(self.n) - self.n0,)
        totals: list[tuple[int, Local]] = []
        for i in ready:
            c = self.found.fold.carries[i]
            correct = None
            if c.correct is not None:
                wanted = self.over(map_expr(c.correct, state))
                found = lane.find(wanted)
                correct = (
                    found if found is not None else lane.let(wanted, lane.value(wanted), "correct")
                )
            if i in outers:
                if correct is not None:
                    lane.stmts.append(StoreTile(self.factors[i], at, correct, self.n))
                continue
            start = state[carried(i, "old", f32)]
            if correct is not None:
                start = corrected(start, correct)
            name = local(lane.names.fresh("new"), frozenset({self.n}), f32)
            assert isinstance(name, Local)
            lane.stmts.append(Accumulator(name, c.monoid, self.n, start))
            totals.append((i, name))
        points = lane.inner([self.k])
        roots = [self.found.fold.carries[i].tile for i, _ in totals]
        roots += [outers[i].weights for i in ready if i in outers]
        roots = [map_expr(r, chosen) for r in roots]
        values = points.values([self.over(map_expr(r, state)) for r in roots])
        for (i, name), value in zip(totals, values, strict=False):
            points.stmts.append(Accumulate(name, self.found.fold.carries[i].monoid, value, self.n))
        where = (ix(self.k) - self.k0, ix(self.n) - self.n0)
        for i, value in zip((i for i in ready if i in outers), values[len(totals) :], strict=True):
            rounded = prim(Op.CONTIGUOUS, (value,), self.element)
            points.stmts.append(StoreTile(self.weights[i], where, rounded, self.n))
        lane.stmts.append(For(self.k, ix(self.k0), ix(self.k1), False, tuple(points.stmts)))
        for i, name in totals:
            lane.stmts.append(StoreTile(self.states[i], at, name, self.n))
            state[carried(i, "new", f32)] = name

    def multiply_outer(self, turn: Scope, outer: Outer) -> None:
        total, zero = self.sums[outer.carry], ix(0)
        if self.found.fold.carries[outer.carry].correct is not None:
            rows = turn.inner([self.e])
            lane = rows.inner([self.n], self.n)
            at = (ix(self.e), ix(self.n) - self.n0)
            factor = read(self.factors[outer.carry], (ix(self.n) - self.n0,))
            lane.stmts.append(
                StoreTile(total, at, prim(Op.MUL, (read(total, at), factor), f32), self.n)
            )
            rows.stmts.append(For(self.n, ix(self.n0), ix(self.n1), True, tuple(lane.stmts)))
            turn.stmts.append(For(self.e, zero, self.e.extent, False, tuple(rows.stmts)))
        operand = as_operand(substitute(outer.operand, self.mapping), self.e, self.k)
        count, cols = ix(self.k1) - self.k0, ix(self.n1) - self.n0
        tile = (self.e, zero, self.e.extent, self.k, ix(self.k0), ix(self.k1))
        turn.stmts.append(Pack(self.a_tile, zero, operand, *tile, self.element))
        weights = Operand(self.weights[outer.carry], zero, ix(1), ix(self.wide), None)
        args = (total, zero, ix(self.wide), self.a_tile, zero, weights, self.e.extent, cols)
        turn.stmts.append(Mma(*args, count, ix(1), element=self.element))

    def finish(self, top: Scope) -> tuple[Buffer, ...]:
        """Store the value over the final states; returns the scratch tiles of the whole program."""
        column = ix(self.n) - self.n0
        state: dict[Expr, Expr] = {}
        for i in self.found.vectors:
            state[carried(i, "new", f32)] = read(self.states[i], (column,))
        for o in self.found.outers:
            tile, place = self.sums[o.carry], (ix(self.e), column)
            if self.along_rows:
                tile, place = self.turned[o.carry], (column, ix(self.e))
                turn = Transpose(tile, self.sums[o.carry], self.e.extent, ix(self.n1) - self.n0)
                top.stmts.append(turn)
            state[carried(o.carry, "new", f32)] = read(tile, place)
        self.store_columns(top, state)
        last = replace(self.store, value=self.found.after)
        for s in (*(s for s in self.found.others if self.found.has_rows(s)), last):
            outer, inner = (self.n, self.e) if self.along_rows else (self.e, self.n)
            rows = top.inner([outer])
            self.store_along(rows, inner, s, state)
            top.stmts.append(For(outer, *self.span(outer), False, tuple(rows.stmts)))
        corrected = [
            o.carry
            for o in self.found.outers
            if self.found.fold.carries[o.carry].correct is not None
        ]
        tiles = [
            self.a_tile,
            *(x.b_tile for x in self.inners),
            *dict.fromkeys((*(x.scores for x in self.inners), *self.weights.values())),
            *self.states.values(),
        ]
        tiles += [*self.sums.values(), *(self.factors[i] for i in corrected)]
        return (*tiles, *(self.turned.values() if self.along_rows else ()))

    def store_columns(self, top: Scope, state: Mapping[Expr, Expr]) -> None:
        """Store what has one value for each column."""
        for s in self.found.others:
            if not self.found.has_rows(s):
                self.store_along(top, self.n, s, state)

    def store_along(self, scope: Scope, axis: Axis, s: Store, state: Mapping[Expr, Expr]) -> None:
        """Store a value over the states along an axis: in vectors, where memory goes along with it."""
        at = tuple(i.substitute(self.mapping) for i in s.at)
        lanes = None if address(s.dst, at).coefficient(axis) is None else axis
        inner = scope.inner([axis], lanes)
        (out,) = inner.values([substitute(map_expr(s.value, state), self.mapping)])
        inner.stmts.append(StoreTile(s.dst, at, out, lanes))
        body = tuple(inner.stmts)
        scope.stmts.append(For(axis, *self.span(axis), lanes is not None, body))

    def span(self, axis: Axis) -> tuple[Ix, Ix]:
        return (ix(self.n0), ix(self.n1)) if axis is self.n else (ix(0), self.e.extent)


def _packed_size(majors: int, depth: int, element: DType) -> int:
    """Floats that rows or columns of this depth take when they are packed."""
    if element is f32:
        return majors * depth
    return in_tiles(ix(majors)).const * whole_depth(depth, PAIR)


def _scratch(name: str, *dims: int) -> Buffer:
    return Buffer(name, Role.SCRATCH, tuple(ix(d) for d in dims), f32)
