"""stream: the form of `cascade` for blocks of threads with matrix instructions.

Before: a region whose plan is one fold around contractions (`find_cascade`).  After: a tile program in which a block
has some of the inner contraction's columns, here rows m of the result, in registers; tiles of the other operands
stream by, and each turn of the loop over tiles of the folded axis k is

    scores[m, k]  = A[m, :] B[k, :]                       a fragment
    scores        = map of scores                         what all carries have in common
    states[m]     = max or sum over the fragment's rows   those that depend on no other
    factors[m]    = the corrections
    scores        = weights, rounded to the operands' type
    sums[m, e]    = sums * factors + scores C[e, :]

so that nothing of size m by k leaves the registers, or in f32 a warp's own rows of shared memory. Each of two inner
products has a fragment of scores; those of the second make place for weights of a second outer product, if these differ
from the first one's.

Matrix instructions take operands that memory holds in one 16-bit type. All others are multiplied as f32, exactly: those
of f32, those of several types, and weights that no maximum bounds, which f16 may not hold. (Three products of tf32 hold
22 bits, but the instruction cuts its own sums off instead of rounding them: a sum of 128 positive terms is off by
1.5e-6, one of 1024 by 1e-5, one of 4096 by 4e-5.)

Sites: `rows` of a block, `columns` and `depth` that hold the result's row and the inner contraction's, `step` points
of k in a turn, `warps`, and `slots`: how many tiles of these points have a place. With one the tiles of an inner
product come while an outer one is computed. `raster`: 0 where blocks that begin together have one batch, whose points
they share in the cache; 1 where they have the same rows of all batches, so that the longest loops come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from lumigen.block_tile import BlockTile, TileKind
from lumigen.condition import Cmp
from lumigen.dtype import DType, f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, floordiv, ix, minimum
from lumigen.lower.bounds import Bounds, chosen_in_tile, loop_bounds
from lumigen.lower.built import Built, check
from lumigen.lower.cascade import Cascade
from lumigen.lower.contract import flatten
from lumigen.lower.operands import as_operand
from lumigen.lower.scaling import linear, straightened
from lumigen.lower.scope import Names, Scope
from lumigen.lower.simt import dims_of
from lumigen.lower.state_parts import common_part, parts_of_rows
from lumigen.lower.streamable import Streamable, in_steps, states_of
from lumigen.machine import StreamingGpu
from lumigen.ops import Op
from lumigen.plan import KernelPlan, NotRealised, corrected
from lumigen.region import (
    Buffer,
    Carried,
    Expr,
    Local,
    Prim,
    Role,
    Store,
    carried,
    local,
    map_expr,
    prim,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import (
    Fill,
    FoldRows,
    ForRows,
    ForTile,
    MapRows,
    MapTile,
    Multiply,
    ScaleRows,
    Stmt,
    StoreTile,
    Stream,
    Streamed,
    TileProgram,
    When,
    reads_memory,
)

TILE = ("rows", "columns", "depth", "step", "warps", "slots")  # as the device's headers take it
SITES = (*TILE, "raster")


_Operand = tuple[Buffer, Expr, Axis, Axis]


def stream(plan: KernelPlan, sizes: Schedule, machine: StreamingGpu) -> Built:
    """The kernel of a plan of a fold around a product; NotRealised where it is of another form."""
    check(sizes, SITES)
    cascade = Cascade.of(plan, machine)
    found = Streamable.of(cascade, plan.stores, sizes["rows"], machine)
    if not found.outers:
        raise NotRealised("a fold around a product with no outer product")
    if (sizes["columns"], sizes["depth"]) != found.sizes:
        tiles = f"tiles of {sizes['columns']} and {sizes['depth']}"
        raise NotRealised(f"{tiles} for rows of {found.sizes}")
    _check(found, sizes, machine)
    return Built(StreamBuilder(plan, found, sizes, machine).program(), plan.region)


def _check(found: Streamable, sizes: Schedule, machine: StreamingGpu) -> None:
    """Whether a block has what its tiles need: rows for each warp, shared memory, registers."""
    rows, columns, depth, step, warps, slots = (sizes[s] for s in TILE)
    inner, outer = len(found.cascade.inners), len(found.outers)
    block = machine.streams.narrowest
    if not warps or rows % (block * warps) or not step or step % block:
        these = f"{rows} rows, {step} points at a time"
        raise NotRealised(f"{these} for {warps} warps of blocks of {block}")
    if not slots or (inner > 1 and slots != machine.streams.slots):
        raise NotRealised(f"{slots} slots for the points of {inner} inner products")
    # as CascadeTile of the device's headers
    elements = inner * rows * depth + slots * step * (inner * depth + outer * columns)
    shared = elements * found.element.itemsize
    if shared > machine.shared_bytes:
        has = machine.shared_bytes
        raise NotRealised(f"{shared} bytes of shared memory, {has} of which a block has")
    registers = rows // warps * (inner * step + outer * columns) // machine.teams.warp
    if registers > machine.streams.registers:
        has = machine.streams.registers
        raise NotRealised(f"fragments of {registers} registers, {has} of which a thread has")


class StreamBuilder:
    """Builds the tile program of one cascade."""

    def __init__(
        self, plan: KernelPlan, found: Streamable, sizes: Schedule, machine: StreamingGpu
    ) -> None:
        self.machine = machine
        self.region, self.store = plan.region, plan.stores[-1]
        self.found, self.sizes = in_steps(found, sizes["step"]), sizes
        cascade = found.cascade
        self.m, m_map = flatten(found.m_axes, "m")
        self.e, e_map = flatten(cascade.rows, "e")
        (self.k,) = cascade.fold.axes
        self.mapping = {**m_map, **e_map}
        rows, step = sizes["rows"], sizes["step"]
        columns, depth = sizes.get("columns", 0), sizes["depth"]  # none without an outer product
        self.m0, self.m1 = Axis("m0", self.m.extent), Axis("m1", self.m.extent + 1)
        self.k0 = Axis("k_begin", self.k.extent)
        inner, outer = range(len(cascade.inners)), range(len(found.outers))
        self.a_tiles = [_scratch("a_tile", i, found.element, rows, depth) for i in inner]
        self.b_tiles = [_scratch("b_tile", i, found.element, step, depth) for i in inner]
        self.c_tiles = [_scratch("c_tile", i, found.element, columns, step) for i in outer]
        self.each_scores = [_scratch("scores", i, f32, rows, step) for i in inner]
        self.scores = self.each_scores[0]
        sums = [_scratch("sums", i, f32, rows, columns) for i in outer]
        self.sums = {o.carry: b for o, b in zip(found.outers, sums, strict=True)}
        self.weights: dict[int, Buffer] = {}  # what is multiplied into them
        self.task = Axis("task", extent_of(found.grid) * ceildiv(self.m.extent, rows))
        self.scratch: dict[str, Buffer] = {}  # further tiles, in the order in which they come up
        self.names = Names()
        corrections = [c.correct for c in found.carries if c.correct is not None]
        numbers = (c for c in dict.fromkeys(corrections) if not c.dtype.is_bool)
        self.factors = {c: self.numbers(f"factor{i}") for i, c in enumerate(numbers)}

    def numbers(self, name: str) -> Buffer:
        """A tile of one number for each row."""
        return self.tile(name, self.sizes["rows"])

    def tile(self, name: str, *dims: int) -> Buffer:
        return self.scratch.setdefault(name, Buffer(name, Role.SCRATCH, _dims(*dims), f32))

    def state(self, i: int) -> Buffer:
        return self.sums[i] if i in self.sums else self.numbers(f"state{i}")

    def program(self) -> TileProgram:
        top = self.begun()
        top.stmts.append(self.loop(top))
        self.finish(top)
        tiles = (*self.a_tiles, *self.b_tiles, *self.c_tiles)
        scratch = (*tiles, *self.each_scores, *self.sums.values())
        return self.placed(self.with_body("cascade", top, scratch))

    def begun(self) -> Scope:
        """The place of a block, and the states before the first tile."""
        found, rows = self.found, self.sizes["rows"]
        m_tiles, task = ceildiv(self.m.extent, rows), self.task
        top = Scope(self.names, frozenset({task}))
        place, batch = ix(task) % m_tiles, ix(task) // m_tiles
        if self.sizes.get("raster", 0):
            every = extent_of(found.grid)
            place, batch = ix(task) // every, ix(task) % every
        if self.limits().hi.axes & {self.m0, self.m1}:
            place = m_tiles - 1 - place  # the longest loops first, so that none is left for the end
        top.bind(self.m0, place * rows)
        top.bind(self.m1, minimum(ix(self.m0) + rows, self.m.extent))
        top.spread(batch, found.grid)
        for i, c in enumerate(found.carries):
            top.stmts.append(Fill(self.state(i), float(c.identity)))
        return top

    def with_body(self, skeleton: str, top: Scope, scratch: tuple[Buffer, ...]) -> TileProgram:
        """The program of what `top` holds; further tiles and numbers of rows come after `scratch`."""
        return TileProgram(
            skeleton,
            (*self.region.reads(), *(s.dst for s in self.region.stores)),
            dims_of(self.region),
            self.task,
            self.task.extent,
            (*scratch, *self.scratch.values()),
            tuple(top.stmts),
            width=self.machine.streams.neighbours,
        )

    def placed(self, program: TileProgram) -> TileProgram:
        """The program as the device's headers divide it."""
        several = (("inner", len(self.a_tiles)), ("outer", len(self.c_tiles)))
        each = tuple((s, self.sizes[s]) for s in TILE)
        tile = BlockTile(TileKind.CASCADE, each + (several if len(self.a_tiles) > 1 else ()))
        return replace(program, threads=self.machine.teams.warp * self.sizes["warps"], tile=tile)

    def limits(self) -> Bounds:
        """Between which points of k the rows m0 .. m1 - 1 have anything to fold."""
        conditions = [c.substitute(self.mapping) for c in self.found.cascade.fold.where]
        return loop_bounds(conditions, self.k, {self.m: (ix(self.m0), ix(self.m1) - 1)})

    def over(self, e: Expr) -> Expr:
        """The expression over the flattened axes."""
        return substitute(e, self.mapping)

    def streamed(self, tile: Buffer, e: Expr, major: Axis, depth: Axis) -> Streamed:
        at = {self.m: ix(self.m0), self.k: ix(self.k0)}
        o = as_operand(self.over(e), major, depth)
        return Streamed(tile, o, major, at.get(major, ix(0)), depth, at.get(depth, ix(0)))

    @property
    def operands(self) -> tuple[list[_Operand], list[_Operand], list[_Operand]]:
        """Of the rows, the inner and the outer tiles: (tile, its operand, majors, depth)."""
        rows: list[_Operand] = []
        inner: list[_Operand] = []
        tiles = zip(self.found.cascade.inners, self.a_tiles, self.b_tiles, strict=True)
        for i, (p, a, b) in enumerate(tiles):
            d, d_map = flatten(p.value.axes, f"d{i or ''}")
            rows.append((a, substitute(p.columns, d_map), self.m, d))
            inner.append((b, substitute(p.rows, d_map), self.k, d))
        outer = [
            (c, o.operand, self.e, self.k)
            for c, o in zip(self.c_tiles, self.found.outers, strict=True)
        ]
        return rows, inner, outer

    def loop(self, top: Scope) -> Stream:
        step = self.sizes["step"]
        limits = self.limits()
        rows, inner, outer = (tuple(self.streamed(*x) for x in each) for each in self.operands)
        turn = top.inner([self.k0])
        for scores, a, b in zip(self.each_scores, self.a_tiles, self.b_tiles, strict=True):
            turn.stmts.append(Multiply(scores, a, b, add=False))
        self.carry(turn)
        for (i, sums), c in zip(self.sums.items(), self.c_tiles, strict=True):
            turn.stmts.append(Multiply(sums, self.weights[i], c, add=True))
        return Stream(
            self.k0,
            floordiv(limits.lo, ix(step)) * step,  # where vectors of every operand begin
            limits.hi,
            step,
            rows,
            inner,
            outer,
            tuple(turn.stmts),
        )

    def carry(self, turn: Scope) -> None:
        """From the scores to states with this tile in them, corrected sums and weights in the scores' place.

        Without an outer product these are what the last of the states adds up.
        """
        found = self.found
        tiles = {i: found.carries[i].tile for i in (*found.first, *found.second)}
        every = [o.weights for o in found.outers]
        if not every and found.second:
            every = [tiles[found.second[-1]]]
        held: Expr = found.cascade.inners[0].value
        common = common_part([*tiles.values(), *every], held)
        weights = (common if common in every else every[-1]) if every else None
        whole = next((i for i in found.first if tiles[i] == common), None)
        filled = 0.0 if whole is None else float(found.carries[whole].identity)
        is_mapped = common is not held or whole is not None
        if is_mapped:
            turn.stmts.append(self.mapped_where_needed(turn, held, common, filled))
            held = common
        before = sorted(
            {
                x.carry
                for c in found.carries
                if c.correct is not None
                for x in walk([c.correct])
                if isinstance(x, Carried) and x.which == "old"
            }
        )
        old = {i: self.numbers(f"before{i}") for i in before}
        for i in before:
            state = carried(i, "old", f32)
            turn.stmts.append(self.map_rows(turn, {state: self.state(i)}, {old[i]: state}))
        apart = [
            i
            for i in found.first
            if not (is_mapped and tiles[i] == held and found.carries[i].identity == filled)
        ]
        for i in found.first if weights is not None else _last(found.first, apart):
            if i not in apart:
                turn.stmts.append(FoldRows(self.state(i), self.scores, found.carries[i].monoid))
            else:  # nothing asks for the scores behind the very last of all
                self.fold(turn, i, held, in_place=weights is None and i == apart[-1])
        if weights is None:
            return
        known: dict[Expr, Buffer] = {carried(i, "old", f32): b for i, b in old.items()}
        known |= {carried(i, "new", f32): self.state(i) for i in found.first}
        if self.factors:
            turn.stmts.append(self.map_rows(turn, known, {b: c for c, b in self.factors.items()}))
        last = [i for i in found.second if tiles[i] == weights]
        for i in found.second:
            self.scale(turn, i, known)
            if i not in last:
                self.fold(turn, i, held)
        self.weigh(turn, held, weights)
        if not (is_mapped and weights == held and filled == 0):
            turn.stmts.append(self.weighted(turn, held, weights, filled))
        for i in last:
            turn.stmts.append(FoldRows(self.state(i), self.scores, found.carries[i].monoid))
        for o in found.outers:
            self.scale(turn, o.carry, known)

    def weigh(self, turn: Scope, held: Expr, weights: Expr) -> None:
        """Weights other than those that take the place of the first scores: in that of the second, if it is free."""
        rows, step = self.sizes["rows"], self.sizes["step"]
        left = walk([map_expr(weights, {held: local("held", frozenset(), f32)})])
        for o in self.found.outers:
            self.weights[o.carry] = self.scores
            if o.weights != weights:
                free = self.found.cascade.inners[1].value not in left
                dst = self.each_scores[1] if free else self.tile("weights", rows, step)
                self.weights[o.carry] = dst
                turn.stmts.append(self.mapped(turn, dst, held, o.weights, 0.0))

    def fold(self, turn: Scope, i: int, held: Expr, *, in_place: bool = False) -> None:
        """A state with a map of the scores in it, which stands in their place or beside them."""
        c, tile = self.found.carries[i], self.scores
        if not in_place:
            tile = self.tile("mapped", self.sizes["rows"], self.sizes["step"])
        turn.stmts.append(self.mapped(turn, tile, held, c.tile, float(c.identity)))
        turn.stmts.append(FoldRows(self.state(i), tile, c.monoid))

    def scale(self, turn: Scope, i: int, known: Mapping[Expr, Buffer]) -> None:
        """A state times its correction, which is over the `known` states."""
        correct = self.found.carries[i].correct
        if correct is None:
            return
        if correct.dtype.is_bool:
            old = local("state", frozenset({self.m}), f32)
            kept = corrected(old, correct)
            turn.stmts.append(
                self.map_rows(turn, {**known, old: self.state(i)}, {self.state(i): kept})
            )
            return
        factor = self.factors[correct]
        if i in self.sums:
            turn.stmts.append(ScaleRows(self.sums[i], factor))
            return
        old = carried(i, "old", f32)
        name = local(f"of_{factor}", frozenset(), f32)
        product_of = prim(Op.MUL, (old, name), f32)
        turn.stmts.append(
            self.map_rows(turn, {old: self.state(i), name: factor}, {self.state(i): product_of})
        )

    def weighted(self, turn: Scope, held: Expr, weights: Expr, filled: float) -> MapTile:
        """The weights in the scores' place; zero outside, as powers of a score that is -inf there are anyway."""
        there = self.mapped(turn, self.scores, held, weights, 0.0)
        parts = None
        if isinstance(there.result, Prim) and there.result.op is Op.EXP2:
            parts = linear(there.result.args[0], there.value)
        vanishes = filled == -inf and parts is not None and parts[0] > 0
        if vanishes and not reads_memory((*there.body, there.result)):
            return replace(there, otherwise=None)
        return there

    def mapped_where_needed(self, turn: Scope, held: Expr, e: Expr, otherwise: float) -> Stmt:
        """The scores become `e`; where its conditions hold in all of a tile, without asking each element."""
        whole, conditions = self.in_whole_tile(e)
        there = self.mapped(turn, self.scores, held, e, otherwise)
        if whole == held:
            conditions = (*conditions, Cmp(self.k.extent - self.k0 - self.sizes["step"]))
            never = any(c.known() is False for c in conditions)
            return there if never else When(conditions, (), (there,))
        if not conditions:
            return there
        return When(conditions, (self.mapped(turn, self.scores, held, whole, otherwise),), (there,))

    def in_whole_tile(self, e: Expr) -> tuple[Expr, tuple[Cmp, ...]]:
        """(the value where the conditions hold, what makes those in it hold for every element of a tile)."""
        k = ix(self.k0)
        ranges = {
            self.m: (ix(self.m0), ix(self.m1) - 1),
            self.k: (k, k + self.sizes["step"] - 1),
        }
        simpler, conditions = chosen_in_tile([e], self.mapping, ranges)
        return map_expr(e, simpler), conditions

    def mapped(self, turn: Scope, dst: Buffer, held: Expr, e: Expr, otherwise: float) -> MapTile:
        """`dst` from the scores, the first of which are `held`: the value `e` at each element."""
        inner = turn.inner([self.m, self.k], self.k)
        inner.alone = True
        value = self.local("score", frozenset({self.m, self.k}))
        e = map_expr(e, {held: value})
        states = [x for x in walk([e]) if isinstance(x, Carried)]
        rows = {x: self.local("row", frozenset({self.m})) for x in dict.fromkeys(states)}
        products = [p.value for p in self.found.cascade.inners]
        scores = dict(zip(products, self.each_scores, strict=True))
        others = {
            x: self.local("score", frozenset({self.m, self.k})) for x in products if x in walk([e])
        }
        names: dict[Expr, Expr] = {**rows, **others}
        e = straightened(map_expr(e, names), value)
        (out,) = inner.values([self.over(e)])
        named = tuple((name, self.state(x.carry)) for x, name in rows.items())
        more = tuple((name, scores[x]) for x, name in others.items())
        ends = (ix(self.m0), ix(self.k0), self.m.extent, self.k.extent)
        body, axes = tuple(inner.stmts), (self.m, self.k)
        return MapTile(dst, self.scores, *axes, *ends, value, named, body, out, otherwise, more)

    def map_rows(
        self, turn: Scope, known: dict[Expr, Buffer], results: dict[Buffer, Expr]
    ) -> MapRows:
        """`results` over the numbers of `known`, as far as they are used."""
        used = [x for x in dict.fromkeys(walk(results.values())) if x in known]
        # Names vary with the rows, so that nothing computed from them stands outside.
        names = {x: self.local("row", frozenset({self.m})) for x in used}
        inner = turn.inner([self.m])
        inner.alone = True
        values = [self.over(map_expr(e, dict(names))) for e in results.values()]
        out = inner.values(values)
        rows = tuple((names[x], known[x]) for x in used)
        return MapRows(rows, tuple(inner.stmts), tuple(zip(results, out, strict=True)))

    def local(self, stem: str, axes: frozenset[Axis]) -> Local:
        name = local(self.names.fresh(stem), axes, f32)
        assert isinstance(name, Local)
        return name

    def states(self) -> dict[Expr, Buffer]:
        """Where the final states of rows are."""
        vectors = (*self.found.first, *self.found.second)
        return {carried(i, "new", f32): self.state(i) for i in vectors}

    def finish(self, top: Scope) -> None:
        """Store the values over the final states; what is the same in a whole row is computed once in it."""
        cascade, states = self.found.cascade, self.states()
        others = tuple(s for s in cascade.others if not cascade.has_rows(s))
        if others:
            top.stmts.append(self.store_rows(top, states, others))
        last = replace(self.store, value=cascade.after)
        for s in (*(s for s in cascade.others if cascade.has_rows(s)), last):
            self.store_tile(top, states, s)

    def store_tile(self, top: Scope, states: dict[Expr, Buffer], s: Store) -> None:
        """Store a value of each of the rows of an outer product."""
        wanted = parts_of_rows(s.value, frozenset(states))
        number = sum(b.name.startswith("result") for b in self.scratch.values())
        results = {self.numbers(f"result{number + n}"): e for n, e in enumerate(wanted)}
        if results:
            top.stmts.append(self.map_rows(top, states, results))
        names = {e: self.local("row", frozenset({self.m})) for e in results.values()}
        inner = top.inner([self.m, self.e], self.e)
        inner.alone = True
        total = self.local("total", frozenset({self.m, self.e}))
        used = next((i for i in self.sums if i in states_of(s.value)), next(iter(self.sums)))
        sums = carried(used, "new", f32)
        value = map_expr(map_expr(s.value, dict(names)), {sums: total})
        (out,) = inner.values([self.over(value)])
        at = tuple(i.substitute(self.mapping) for i in s.at)
        inner.stmts.append(StoreTile(s.dst, at, out, self.e))
        ends = (ix(self.m0), ix(0), self.m.extent, self.e.extent)
        rows = tuple((names[e], b) for b, e in results.items())
        body, tile = tuple(inner.stmts), self.sums[used]
        top.stmts.append(ForTile(tile, self.m, self.e, *ends, total, body, rows))

    def store_rows(
        self, top: Scope, states: dict[Expr, Buffer], others: tuple[Store, ...]
    ) -> ForRows:
        """Store what has one value for each row."""
        asked = dict.fromkeys(walk(s.value for s in others))
        names = {x: self.local("row", frozenset({self.m})) for x in asked if x in states}
        inner = top.inner([self.m])
        inner.alone = True
        values = [self.over(map_expr(s.value, dict(names))) for s in others]
        for s, value in zip(others, inner.values(values), strict=True):
            at = tuple(i.substitute(self.mapping) for i in s.at)
            inner.stmts.append(StoreTile(s.dst, at, value, None))
        rows = tuple((name, states[x]) for x, name in names.items())
        return ForRows(self.m, ix(self.m0), self.m.extent, rows, tuple(inner.stmts))


def _last(all_of: tuple[int, ...], those: list[int]) -> tuple[int, ...]:
    """The same numbers, those at the end."""
    return (*(i for i in all_of if i not in those), *those)


def _scratch(stem: str, number: int, dtype: DType, *dims: int) -> Buffer:
    """A tile, and a number in its name where it is not the first of its kind."""
    return Buffer(f"{stem}{number or ''}", Role.SCRATCH, _dims(*dims), dtype)


def _dims(*dims: int) -> tuple[Ix, ...]:
    return tuple(ix(d) for d in dims)
