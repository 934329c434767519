"""cascade_row: the form of `cascade` for one column at a time, where lanes along columns would be idle.

Before: a fold around contractions of few columns or none, as the query of one token has.  After: a tile program for
one of them with a loop over tiles of the folded axis k, whose vectors run along memory: along the depth d for scores,
along k for states and weights, along the rows e of the result. No matrix is packed: where memory has A and G in rows
of d and of e, they are multiplied as they lie, else lanes are loaded one by one.

    scores[k] = sum_d A[k, d] * b[d]
    states                                 numbers, corrected when a maximum grows
    out[e]    = sum_k G[e, k] * weights[k]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.dtype import f32
from lumigen.index import Axis, extent_of, ix, minimum
from lumigen.lower.bounds import assuming, loop_bounds
from lumigen.lower.built import Built, check, check_steps
from lumigen.lower.cascade import Cascade
from lumigen.lower.contract import flatten
from lumigen.lower.operands import as_operand
from lumigen.lower.scope import Names, Scope, loops_by_value
from lumigen.lower.simt import dims_of
from lumigen.lower.sweeps import Around
from lumigen.machine import Processor, Vectors
from lumigen.ops import Op
from lumigen.plan import KernelPlan, NotRealised, Product, corrected
from lumigen.region import (
    Buffer,
    Carried,
    Expr,
    Local,
    Monoid,
    Reduce,
    Role,
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
    Finish,
    For,
    Let,
    Mma,
    Operand,
    Pack,
    StoreTile,
    TileProgram,
)

SITES = ("depth",)


def cascade_row(plan: KernelPlan, sizes: Schedule, machine: Processor) -> Built:
    """The kernel of a plan of a fold around a product, for a column at a time; NotRealised where it is another."""
    check(sizes, SITES)
    check_steps(sizes, *SITES)
    found = Cascade.of(plan, machine)
    if not found.outers:
        raise NotRealised("a fold around a product with no outer product")
    return Built(
        _CascadeRowBuilder(plan, found, sizes["depth"], machine.vectors).program(), plan.region
    )


@dataclass(frozen=True)
class _InnerOfRow:
    """An inner product: (k, d) times a row of d. Without `rows` memory has the former in no rows of d."""

    value: Reduce
    rows: Operand | None
    columns: Operand
    d: Axis
    row: Buffer
    scores: Buffer


class _CascadeRowBuilder:
    """Builds the tile program of one cascade: a work tile is a point of the grid, to which columns belong here."""

    def __init__(self, plan: KernelPlan, found: Cascade, deep: int, vectors: Vectors) -> None:
        self.vectors = vectors
        self.region, self.store = plan.region, plan.stores[-1]
        self.found, self.deep = found, deep
        self.fold = found.fold
        self.grid = tuple(a for a in self.store.axes if a not in found.rows)
        self.weighted = {o.carry: o.weights for o in found.outers}
        self.operands = {o.carry: o.operand for o in found.outers}
        self.e, self.mapping = flatten(found.rows, "e")
        (self.k,) = self.fold.axes
        self.k0, self.k1 = Axis("k_begin", self.k.extent), Axis("k_end", self.k.extent + 1)
        self.limits = loop_bounds((c.substitute(self.mapping) for c in self.fold.where), self.k, {})
        self.inners = [self.inner_of(i, p) for i, p in enumerate(found.inners)]
        width = int(self.e.extent.bounds()[1] or 0)
        numbers = (i for i in range(len(self.fold.carries)) if i not in self.weighted)
        self.states = {i: _scratch(f"state{i}", 1) for i in numbers}
        self.weights = {i: _scratch(f"weights{i}", deep) for i in self.weighted}
        self.sums = {i: _scratch(f"sum{i}", width) for i in self.weighted}

    def inner_of(self, number: int, p: Product) -> _InnerOfRow:
        """The operands of an inner product, and where its results lie."""
        d, d_map = flatten(p.value.axes, "d")
        rows, columns = (
            as_operand(substitute(substitute(x, d_map), self.mapping), major, d)
            for x, major in ((p.rows, self.k), (p.columns, Axis("row", ix(1))))
        )
        which = "" if len(self.found.inners) == 1 else str(number)
        row = _scratch(f"row{which}", int(d.extent.bounds()[1] or 0))
        scores = _scratch(f"scores{which}", self.deep)
        return _InnerOfRow(p.value, rows if rows.k_stride == 1 else None, columns, d, row, scores)

    def over(self, e: Expr, state: dict[Expr, Expr]) -> Expr:
        """The expression with the inner products read from their tiles and states by their names."""
        at = (ix(self.k) - self.k0,)
        products: dict[Expr, Expr] = {x.value: read(x.scores, at) for x in self.inners}
        wanted = substitute(map_expr(map_expr(e, state), products), self.mapping)
        where = (c.substitute(self.mapping) for c in self.fold.where)
        return assuming(wanted, [c for c in where if c not in self.limits.residual])

    def program(self) -> TileProgram:
        task = Axis("task", extent_of(self.grid))
        top = Scope(Names(), frozenset({task}))
        top.spread(task, self.grid)
        for i, c in enumerate(self.fold.carries):
            top.stmts.append(Fill(self.states.get(i) or self.sums[i], float(c.identity)))
        top.stmts += (self.pack_row(x) for x in self.inners if x.rows is not None)
        lo, hi = self.limits.lo, self.limits.hi
        turn = top.inner([self.k0])
        turn.bind(self.k1, minimum(ix(self.k0) + self.deep, hi))
        for x in self.inners:
            self.score(turn, x)
        self.carry_states(turn)
        top.stmts.append(For(self.k0, lo, hi, False, tuple(turn.stmts), step=self.deep))
        self.finish(top)
        args = (*self.region.reads(), *(s.dst for s in self.region.stores))
        rows = (x.row for x in self.inners if x.rows is not None)
        scores = (x.scores for x in self.inners)
        states, weights = self.states.values(), self.weights.values()
        tiles = (*rows, *scores, *states, *weights, *self.sums.values())
        dims, body = dims_of(self.region), tuple(top.stmts)
        return TileProgram("cascade", args, dims, task, task.extent, tiles, body)

    def pack_row(self, x: _InnerOfRow) -> Pack:
        """What all rows are multiplied with, in f32."""
        one, zero = Axis("row", ix(1)), ix(0)
        return Pack(x.row, zero, x.columns, one, zero, ix(1), x.d, zero, x.d.extent)

    def score(self, turn: Scope, x: _InnerOfRow) -> None:
        """One sum along d after another; where rows are not contiguous, as any reduction along memory."""
        b = x.rows
        if b is not None and b.stride is not None:
            count, zero = ix(self.k1) - self.k0, ix(0)
            b = replace(b, base=b.base + b.stride * self.k0)
            args = (x.scores, zero, ix(self.deep), x.row, zero, b, ix(1), count)
            turn.stmts.append(Mma(*args, x.d.extent, zero))
            return
        point = turn.inner([self.k])
        inner = substitute(x.value, self.mapping)
        assert isinstance(inner, Reduce)
        point.loops = loops_by_value([Around(self.vectors).fold((inner,))])
        (value,) = point.values([inner])
        point.stmts.append(StoreTile(x.scores, (ix(self.k) - self.k0,), value, None))
        turn.stmts.append(For(self.k, ix(self.k0), ix(self.k1), False, tuple(point.stmts)))

    def carry_states(self, turn: Scope) -> None:
        """States of one level after another, each in a loop along the tile; then what they weight."""
        state: dict[Expr, Expr] = {}
        for i, b in self.states.items():
            old = state[carried(i, "old", f32)] = self.named(turn, "old")
            turn.stmts.append(Let(old, read(b, (ix(0),)), None))
        corrections: dict[int, Expr] = {}
        waiting = list(range(len(self.fold.carries)))
        while waiting:
            ready = [i for i in waiting if self.needs(i) <= state.keys()]
            self.level(turn, ready, state, corrections)
            waiting = [i for i in waiting if i not in ready]
        for i in self.weighted:
            self.multiply(turn, i, corrections.get(i))

    def needs(self, i: int) -> set[Expr]:
        """The states that carry i is computed from; what a sum with rows of its own carries stays in memory."""
        c = self.fold.carries[i]
        roots = [self.weighted.get(i, c.tile)] + ([c.correct] if c.correct is not None else [])
        return {e for e in walk(roots) if isinstance(e, Carried)}

    def level(
        self, turn: Scope, ready: list[int], state: dict[Expr, Expr], corrections: dict[int, Expr]
    ) -> None:
        carries = self.fold.carries
        for i in ready:
            correct = carries[i].correct
            if correct is not None:
                wanted = self.over(correct, state)
                found = turn.find(wanted)
                corrections[i] = found or turn.let(wanted, turn.value(wanted), "correct")
        lane = turn.inner([self.k], self.k)
        roots = [self.over(self.weighted.get(i, carries[i].tile), state) for i in ready]
        values = lane.values(roots)
        partial: dict[int, Local] = {}
        for i, value in zip(ready, values, strict=True):
            if i in self.weighted:
                at = (ix(self.k) - self.k0,)
                lane.stmts.append(StoreTile(self.weights[i], at, value, self.k))
                continue
            partial[i] = self.named(turn, "acc", self.k)
            turn.stmts.append(Accumulator(partial[i], carries[i].monoid, self.k))
            lane.stmts.append(Accumulate(partial[i], carries[i].monoid, value, self.k))
        turn.stmts.append(For(self.k, ix(self.k0), ix(self.k1), True, tuple(lane.stmts)))
        for i, acc in partial.items():
            of_tile, new = self.named(turn, "r"), self.named(turn, "new")
            start = state[carried(i, "old", f32)]
            if i in corrections:
                start = corrected(start, corrections[i])
            turn.stmts.append(Finish(of_tile, acc, carries[i].monoid))
            turn.stmts.append(Accumulator(new, carries[i].monoid, None, start))
            turn.stmts.append(Accumulate(new, carries[i].monoid, of_tile, None))
            turn.stmts.append(StoreTile(self.states[i], (ix(0),), new, None))
            state[carried(i, "new", f32)] = new

    def multiply(self, turn: Scope, i: int, correct: Expr | None) -> None:
        """sums[e] = sums[e] * correct + sum_k weights[k] * G[e, k], along e."""
        lane = turn.inner([self.e], self.e)
        start = read(self.sums[i], (ix(self.e),))
        if correct is not None:
            start = prim(Op.MUL, (start, correct), f32)
        b = as_operand(substitute(self.operands[i], self.mapping), self.e, self.k)
        if b.stride == 1 and b.k_stride is not None:
            if correct is not None:
                lane.stmts.append(StoreTile(self.sums[i], (ix(self.e),), start, self.e))
                turn.stmts.append(For(self.e, ix(0), self.e.extent, True, tuple(lane.stmts)))
            count, zero = ix(self.k1) - self.k0, ix(0)
            b = replace(b, base=b.base + b.k_stride * self.k0)
            args = (self.sums[i], zero, self.e.extent, self.weights[i], zero, b, ix(1))
            turn.stmts.append(Mma(*args, self.e.extent, count, ix(1)))
            return
        total = self.named(lane, "total", self.e)
        lane.stmts.append(Accumulator(total, Monoid.SUM, self.e, start))
        point = lane.inner([self.k])
        weight = read(self.weights[i], (ix(self.k) - self.k0,))
        term = prim(Op.MUL, (weight, substitute(self.operands[i], self.mapping)), f32)
        (value,) = point.values([term])
        point.stmts.append(Accumulate(total, Monoid.SUM, value, self.e))
        lane.stmts.append(For(self.k, ix(self.k0), ix(self.k1), False, tuple(point.stmts)))
        lane.stmts.append(StoreTile(self.sums[i], (ix(self.e),), total, self.e))
        turn.stmts.append(For(self.e, ix(0), self.e.extent, True, tuple(lane.stmts)))

    def named(self, scope: Scope, stem: str, *axes: Axis) -> Local:
        """A name for a number that each turn of the loop has anew."""
        name = local(scope.names.fresh(stem), frozenset({self.k0, *axes}), f32)
        assert isinstance(name, Local)
        return name

    def finish(self, top: Scope) -> None:
        """Store the values over the final states."""
        state: dict[Expr, Expr] = {}
        for i, b in self.states.items():
            state[carried(i, "new", f32)] = read(b, (ix(0),))
        stores = (*self.found.others, replace(self.store, value=self.found.after))
        of_rows = [s for s in stores if self.found.has_rows(s)]
        others = [s for s in stores if s not in of_rows]
        values = top.values([substitute(map_expr(s.value, state), self.mapping) for s in others])
        for s, value in zip(others, values, strict=True):
            top.stmts.append(StoreTile(s.dst, s.at, value, None))
        for i, b in self.sums.items():
            state[carried(i, "new", f32)] = read(b, (ix(self.e),))
        lane = top.inner([self.e], self.e)
        outs = lane.values([substitute(map_expr(s.value, state), self.mapping) for s in of_rows])
        for s, out in zip(of_rows, outs, strict=True):
            at = tuple(i.substitute(self.mapping) for i in s.at)
            lane.stmts.append(StoreTile(s.dst, at, out, self.e))
        top.stmts.append(For(self.e, ix(0), self.e.extent, True, tuple(lane.stmts)))


def _scratch(name: str, size: int) -> Buffer:
    return Buffer(name, Role.SCRATCH, (ix(size),), f32)
