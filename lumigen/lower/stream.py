"""stream: the form of `cascade` for blocks of threads with matrix instructions.

Before: a region whose plan is one fold around a contraction (`find_cascade`).  After: a tile program in which a block
has some of the inner contraction's columns, here rows m of the result, in registers; tiles of the other operands
stream by, and each turn of the loop over tiles of the folded axis k is

    scores[m, k]  = A[m, :] B[k, :]                       a fragment
    scores        = map of scores                         what all carries have in common
    states[m]     = max or sum over the fragment's rows   those that depend on no other
    factors[m]    = the corrections
    scores        = weights, rounded to the operands' type
    sums[m, e]    = sums * factors + scores C[e, :]

so that nothing of size m by k leaves the registers, or in f32 a warp's own rows of shared memory. Matrix instructions
take operands that memory holds in one 16-bit type. All others are multiplied as f32, exactly: those of f32, those of
several types, and weights that no maximum bounds, which f16 may not hold. (Three products of tf32 hold 22 bits, but the
instruction cuts its own sums off instead of rounding them: a sum of 128 positive terms is off by 1.5e-6, one of 1024 by
1e-5, one of 4096 by 4e-5.)

Sites: `rows` of a block, `columns` and `depth` that hold the result's row and the inner contraction's, `step` points
of k in a turn, `warps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from lumigen.condition import Cmp
from lumigen.dtype import DType, f16, f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, floordiv, ix, minimum
from lumigen.lower.bounds import (
    Bounds,
    assuming,
    chosen_in_tile,
    held_in_steps,
    loop_bounds,
)
from lumigen.lower.built import Built, check
from lumigen.lower.cascade import Cascade, Outer, find_cascade
from lumigen.lower.contract import as_operand, flatten
from lumigen.lower.pipeline import are_counted
from lumigen.lower.scaling import linear, straightened, unscaled
from lumigen.lower.scope import Names, Scope, address
from lumigen.lower.simt import dims_of
from lumigen.lower.state_parts import common_part, parts_of_rows
from lumigen.ops import Op
from lumigen.plan import Carry, KernelPlan, NotRealised, corrected
from lumigen.region import (
    Buffer,
    Carried,
    Choose,
    Expr,
    Local,
    Prim,
    Read,
    Role,
    Store,
    carried,
    choose,
    free_axes,
    local,
    map_expr,
    prim,
    substitute,
    walk,
)
from lumigen.schedule import Schedule
from lumigen.tile import (
    BlockTile,
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
    TileKind,
    TileProgram,
    When,
    reads_memory,
)

SITES = ("rows", "columns", "depth", "step", "warps")
WIDEST = 256  # of what a warp has in registers for each of its rows: its depth, and its sums
LANES = 2  # neighbours of a row that one thread has
NARROWEST = 16  # the depth of a matrix instruction


_Operand = tuple[Buffer, Expr, Axis, Axis]


@dataclass(frozen=True)
class Streamable:
    """A cascade that can run so. Carries in `first` depend on no other; those in `second` on the first alone.

    Without an `outer` product all of its states are of rows.
    """

    cascade: Cascade
    element: DType
    m_axes: tuple[Axis, ...]
    grid: tuple[Axis, ...]
    outer: Outer | None
    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def carries(self) -> tuple[Carry, ...]:
        return self.cascade.fold.carries

    @staticmethod
    def of(
        found: Cascade, stores: tuple[Store, ...], rows: int, temporaries: DType = f32
    ) -> Streamable:
        """The cascade in blocks of so many rows; its temporaries of f32 are held as `temporaries`.

        NotRealised where its states depend on each other too deeply, or its rows are too long.
        """
        if len(found.outers) > 1:
            raise NotRealised("a block has one outer product at most")
        if not are_counted(found.columns, found.fold.axes):
            raise NotRealised("a product with more rows than an int counts")
        found = unscaled(found)
        outer = next(iter(found.outers), None)
        operands = (found.inner_rows, found.inner_columns, *(o.operand for o in found.outers))
        element = _held_in(operands, temporaries)
        _check(found, stores[-1])
        carries = found.fold.carries
        first = tuple(i for i in found.vectors if not _needs(carries[i]))
        second = tuple(i for i in found.vectors if i not in first)
        last = (*second, *(o.carry for o in found.outers))
        if any(n not in first for i in last for n in _needs(carries[i])):
            raise NotRealised("a state that depends on one that depends on others")
        if outer is not None:
            if element is f16 and carries[outer.carry].correct is None:
                element = f32  # weights that no maximum bounds may not fit
            outer = replace(outer, weights=_not_rounded(outer.weights, element))
        # A batch of rows shares a block only where it is short: bounds of k differ between its rows.
        short = all(a.extent.estimate() < rows for a in found.columns[-1:])
        joined = found.columns if short else found.columns[-1:]
        grid = tuple(a for a in stores[-1].axes if a not in (*joined, *found.rows))
        return Streamable(found, element, joined, grid, outer, first, second)


def _in_steps(found: Streamable, step: int) -> Streamable:
    """The same without asking for conditions where all of a tile that is met fulfils them, as those of a part are."""
    fold, outer = found.cascade.fold, found.outer
    conditions = (c for c in fold.where if not c.axes & {*found.cascade.columns})
    held = held_in_steps(conditions, fold.axes[0], step)
    carries = tuple(replace(c, tile=assuming(c.tile, held)) for c in fold.carries)
    if outer is not None:
        outer = replace(outer, weights=assuming(outer.weights, held))
    cascade = replace(found.cascade, fold=replace(fold, carries=carries))
    return replace(found, cascade=cascade, outer=outer)


def _check(found: Cascade, store: Store) -> None:
    if found.outers:
        e, e_map = flatten(found.rows, "e")
        to = address(store.dst, tuple(i.substitute(e_map) for i in store.at))
        if max(size(found.inner.axes), size(found.rows)) > WIDEST:
            raise NotRealised(f"rows longer than {WIDEST}")
        if to.coefficient(e) is None:
            raise NotRealised("a row of the result whose elements lie at no stride")
    corrections = [c.correct for c in found.fold.carries if c.correct is not None]
    if any(free_axes(c) & {*found.columns, *found.fold.axes} for c in corrections):
        raise NotRealised("a correction that varies inside a tile")


def find_streamable(
    stores: tuple[Store, ...], rows: int, temporaries: DType = f32
) -> Streamable | None:
    """The cascade of a region in blocks of so many rows, or None; its temporaries of f32 are held as `temporaries`."""
    found = find_cascade(stores, one_row=True)
    if found is None:
        return None
    try:
        return Streamable.of(found, stores, rows, temporaries)
    except NotRealised:
        return None


def size(axes: tuple[Axis, ...]) -> int:
    """The least tile that holds the product of so many points: a power of two."""
    most = extent_of(axes).bounds()[1]
    assert most is not None, "find_cascade bounds it"
    return max(NARROWEST, 1 << (most - 1).bit_length())


def _not_rounded(e: Expr, element: DType) -> Expr:
    """The weights without a cast to what they are rounded to as operands, guarded perhaps."""
    if isinstance(e, Choose):
        return choose(e.condition, _not_rounded(e.then, element), e.otherwise)
    rounded = prim(Op.CONTIGUOUS, (e,), element)
    if isinstance(e, Prim) and isinstance(rounded, Prim) and rounded in e.args:
        return rounded.args[0]  # so e widens what is rounded
    return e


def _held_in(operands: tuple[Expr, ...], temporaries: DType) -> DType:
    """The 16-bit type in which memory holds all that is read of the operands; else f32, which holds any of it."""
    sources = [e.source for e in walk(operands) if isinstance(e, Read)]
    held = {temporaries if b.role is Role.TEMP and b.dtype is f32 else b.dtype for b in sources}
    element = held.pop() if len(held) == 1 else f32
    return element if element.is_float and element.bits == 16 else f32


def _needs(c: Carry) -> set[int]:
    """The states that a carry is computed from."""
    roots = [c.tile] + ([c.correct] if c.correct is not None else [])
    return {e.carry for e in walk(roots) if isinstance(e, Carried)}


def stream(plan: KernelPlan, sizes: Schedule) -> Built:
    """The kernel of a plan of a fold around a product; NotRealised where it is of another form."""
    check(sizes, SITES)
    found = Streamable.of(Cascade.of(plan), plan.stores, sizes["rows"])
    if found.outer is None:
        raise NotRealised("a fold around a product with no outer product")
    lengths = (size(found.cascade.rows), size(found.cascade.inner.axes))
    if (sizes["columns"], sizes["depth"]) != lengths:
        raise NotRealised(f"tiles of {sizes['columns']} and {sizes['depth']} for rows of {lengths}")
    return Built(StreamBuilder(plan, found, sizes).program(), plan.region)


class StreamBuilder:
    """Builds the tile program of one cascade."""

    def __init__(self, plan: KernelPlan, found: Streamable, sizes: Schedule) -> None:
        self.region, self.store = plan.region, plan.stores[-1]
        self.found, self.sizes = _in_steps(found, sizes["step"]), sizes
        cascade = found.cascade
        self.m, m_map = flatten(found.m_axes, "m")
        self.e, e_map = flatten(cascade.rows, "e")
        self.d, self.d_map = flatten(cascade.inner.axes, "d")
        (self.k,) = cascade.fold.axes
        self.mapping = {**m_map, **e_map}
        rows, step = sizes["rows"], sizes["step"]
        self.m0, self.m1 = Axis("m0", self.m.extent), Axis("m1", self.m.extent + 1)
        self.k0 = Axis("k_begin", self.k.extent)
        self.a_tile = Buffer("a_tile", Role.SCRATCH, _dims(rows, sizes["depth"]), found.element)
        self.b_tile = Buffer("b_tile", Role.SCRATCH, _dims(step, sizes["depth"]), found.element)
        columns = sizes.get("columns", 0)  # none without an outer product
        self.c_tile = Buffer("c_tile", Role.SCRATCH, _dims(columns, step), found.element)
        self.scores = Buffer("scores", Role.SCRATCH, _dims(rows, step), f32)
        self.sums = Buffer("sums", Role.SCRATCH, _dims(rows, columns), f32)
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
        outer = self.found.outer
        return self.sums if outer and i == outer.carry else self.numbers(f"state{i}")

    def program(self) -> TileProgram:
        top = self.begun()
        top.stmts.append(self.loop(top))
        self.finish(top)
        scratch = (self.a_tile, self.b_tile, self.c_tile, self.scores, self.sums)
        return self.placed(self.with_body("cascade", top, scratch))

    def begun(self) -> Scope:
        """The place of a block, and the states before the first tile."""
        found, rows = self.found, self.sizes["rows"]
        m_tiles, task = ceildiv(self.m.extent, rows), self.task
        top = Scope(self.names, frozenset({task}))
        place = ix(task) % m_tiles  # blocks side by side share what streams by
        if self.limits().hi.axes & {self.m0, self.m1}:
            place = m_tiles - 1 - place  # the longest loops first, so that none is left for the end
        top.bind(self.m0, place * rows)
        top.bind(self.m1, minimum(ix(self.m0) + rows, self.m.extent))
        top.spread(ix(task) // m_tiles, found.grid)
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
            width=LANES,
        )

    def placed(self, program: TileProgram) -> TileProgram:
        """The program as the device's headers divide it."""
        tile = BlockTile(TileKind.CASCADE, tuple((s, self.sizes[s]) for s in SITES))
        return replace(program, threads=32 * self.sizes["warps"], tile=tile)

    def limits(self) -> Bounds:
        """Between which points of k the rows m0 .. m1 - 1 have anything to fold."""
        conditions = [c.substitute(self.mapping) for c in self.found.cascade.fold.where]
        return loop_bounds(conditions, self.k, {self.m: (ix(self.m0), ix(self.m1) - 1)})

    def over(self, e: Expr) -> Expr:
        """The expression over the flattened axes."""
        return substitute(substitute(e, self.d_map), self.mapping)

    def streamed(self, tile: Buffer, e: Expr, major: Axis, depth: Axis) -> Streamed:
        at = {self.m: ix(self.m0), self.k: ix(self.k0)}
        o = as_operand(self.over(e), major, depth)
        return Streamed(tile, o, major, at.get(major, ix(0)), depth, at.get(depth, ix(0)))

    @property
    def operands(self) -> tuple[_Operand, _Operand, _Operand]:
        """Of the rows, the inner and the outer tile: (tile, its operand, majors, depth)."""
        cascade, outer = self.found.cascade, self.found.outer
        assert outer is not None, "asked before"
        return (
            (self.a_tile, cascade.inner_columns, self.m, self.d),
            (self.b_tile, cascade.inner_rows, self.k, self.d),
            (self.c_tile, outer.operand, self.e, self.k),
        )

    def loop(self, top: Scope) -> Stream:
        step = self.sizes["step"]
        limits = self.limits()
        rows, inner, outer = self.operands
        turn = top.inner([self.k0])
        turn.stmts.append(Multiply(self.scores, self.a_tile, self.b_tile, add=False))
        self.carry(turn)
        turn.stmts.append(Multiply(self.sums, self.scores, self.c_tile, add=True))
        return Stream(
            self.k0,
            floordiv(limits.lo, ix(step)) * step,  # where vectors of every operand begin
            limits.hi,
            step,
            self.streamed(*rows),
            self.streamed(*inner),
            self.streamed(*outer),
            tuple(turn.stmts),
        )

    def carry(self, turn: Scope) -> None:
        """From the scores to states with this tile in them, corrected sums and weights in the scores' place.

        Without an outer product these are what the last of the states adds up.
        """
        found = self.found
        tiles = {i: found.carries[i].tile for i in (*found.first, *found.second)}
        weights = found.outer.weights if found.outer else None
        if weights is None and found.second:
            weights = tiles[found.second[-1]]
        held: Expr = found.cascade.inner
        common = common_part([*tiles.values(), *([] if weights is None else [weights])], held)
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
        if not (is_mapped and weights == held and filled == 0):
            turn.stmts.append(self.weighted(turn, held, weights, filled))
        for i in last:
            turn.stmts.append(FoldRows(self.state(i), self.scores, found.carries[i].monoid))
        if found.outer is not None:
            self.scale(turn, found.outer.carry, known)

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
        if self.found.outer is not None and i == self.found.outer.carry:
            turn.stmts.append(ScaleRows(self.sums, factor))
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
        """`dst` from the scores, which are `held`: the value `e` at each element."""
        inner = turn.inner([self.m, self.k], self.k)
        inner.alone = True
        value = self.local("score", frozenset({self.m, self.k}))
        e = map_expr(e, {held: value})
        states = [x for x in walk([e]) if isinstance(x, Carried)]
        rows = {x: self.local("row", frozenset({self.m})) for x in dict.fromkeys(states)}
        names: dict[Expr, Expr] = dict(rows.items())
        e = straightened(map_expr(e, names), value)
        (out,) = inner.values([self.over(e)])
        named = tuple((name, self.state(x.carry)) for x, name in rows.items())
        ends = (ix(self.m0), ix(self.k0), self.m.extent, self.k.extent)
        body = tuple(inner.stmts)
        return MapTile(dst, self.scores, self.m, self.k, *ends, value, named, body, out, otherwise)

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
        found = self.found
        assert found.outer is not None, "asked before"
        states = self.states()
        if found.cascade.others:
            top.stmts.append(self.store_rows(top, states, found.cascade.others))
        after = found.cascade.after
        wanted = parts_of_rows(after, frozenset(states))
        results = {self.numbers(f"result{n}"): e for n, e in enumerate(wanted)}
        if results:
            top.stmts.append(self.map_rows(top, states, results))
        names = {e: self.local("row", frozenset({self.m})) for e in results.values()}
        inner = top.inner([self.m, self.e], self.e)
        inner.alone = True
        total = self.local("total", frozenset({self.m, self.e}))
        sums = carried(found.outer.carry, "new", f32)
        value = map_expr(map_expr(after, dict(names)), {sums: total})
        (out,) = inner.values([self.over(value)])
        at = tuple(i.substitute(self.mapping) for i in self.store.at)
        inner.stmts.append(StoreTile(self.store.dst, at, out, self.e))
        ends = (ix(self.m0), ix(0), self.m.extent, self.e.extent)
        rows = tuple((names[e], b) for b, e in results.items())
        top.stmts.append(ForTile(self.sums, self.m, self.e, *ends, total, tuple(inner.stmts), rows))

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


def _dims(*dims: int) -> tuple[Ix, ...]:
    return tuple(ix(d) for d in dims)
