"""scope: turn expressions into statements, each in the outermost loop where it can stand.

The one place that decides what a kernel computes once, per row or per element: a subexpression goes to the
outermost scope that has all its axes, gets a name there if it leaves its scope or is used twice, and reductions
become loops. Both skeletons build their bodies with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lumigen.condition import Cmp
from lumigen.dtype import boolean, computed, f32
from lumigen.index import (
    Axis,
    Ix,
    IxLike,
    Lookup,
    is_less,
    is_nonnegative,
    ix,
    maximum,
    minimum,
    unravel,
)
from lumigen.lower.phases import in_phases
from lumigen.lower.runs import visited
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.plan import Loop
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Local,
    Monoid,
    Prim,
    Random,
    Read,
    Reduce,
    Role,
    children,
    choose,
    const,
    free_axes,
    holds,
    indices_of,
    local,
    rebuild,
    walk,
)
from lumigen.tile import Accumulate, Accumulator, Bind, Finish, For, Let, Stmt

SHARED = 32  # points of a loop that are enough for the threads of a warp


def address(source: Buffer, at: tuple[Ix, ...]) -> Ix:
    """The element's position in the buffer's row-major memory."""
    flat = ix(0)
    for extent, i in zip(source.dims, at, strict=True):
        flat = flat * extent + i
    return flat


def is_safe(e: Expr, *, inside: bool = False) -> bool:
    """Whether every read is within its buffer wherever the expression is evaluated.

    A reduction can run anywhere (`guard`), so its reads count only if they are asked for (`inside`).
    """
    stack = [e]
    seen: set[Expr] = set()
    while stack:
        x = stack.pop()
        if x in seen or (isinstance(x, Reduce) and not inside):
            continue
        seen.add(x)
        if isinstance(x, Read) and not _is_within(x.source, x.at):
            return False
        if not all(is_safe_index(i) for i in indices_of(x)):
            return False
        stack.extend(children(x))
    return True


def is_safe_index(i: Ix) -> bool:
    """Whether the integers that an index reads are within their buffers."""
    lookups = [a for a in i.atoms() if isinstance(a, Lookup)]
    return all(_is_within(a.source, a.at) for a in lookups if isinstance(a.source, Buffer))


def _is_within(source: Buffer, at: tuple[Ix, ...]) -> bool:
    if source.role is Role.SCRATCH:
        return True  # a tile is read only where the program has just written it
    return all(
        is_nonnegative(i) and is_less(i, extent) for extent, i in zip(source.dims, at, strict=True)
    )


def is_per_lane(e: Expr, lanes: Axis) -> bool:
    """Whether the value must be computed lane by lane: no vector form exists for it."""
    if lanes not in free_axes(e):
        return False
    if isinstance(e, Read):
        at = address(e.source, e.at)
        if at.coefficient(lanes) is None:
            return e.source.dtype is not f32 or in_phases(at, lanes) is None
        return e.dtype is not f32
    if isinstance(e, Holds):
        affine = (c.of_numerator(lanes).slack.coefficient(lanes) for c in e.conditions)
        return any(factor is None for factor in affine) or not is_safe(e)
    if isinstance(e, Choose):
        return e.dtype is not f32 or not is_safe(e)
    if isinstance(e, Prim):
        operands = {computed(a.dtype) for a in e.args}
        numeric = operands <= {f32} or operands <= {boolean, f32}
        return not (numeric and computed(e.dtype) in (f32, boolean))
    return isinstance(e, Index | Random)


def lanes_fit(roots: Iterable[Expr], lanes: Axis) -> bool:
    """Whether a loop over lanes can compute the values: what is held for all lanes at once has a vector form."""
    for e in walk(roots):
        if isinstance(e, Reduce) and lanes in free_axes(e) and e.dtype is not f32:
            return False
        value = guarded(e, _within_loops(e, lanes)) if isinstance(e, Reduce) else e
        if is_per_lane(value, lanes) and any(
            isinstance(x, Reduce | Local) and lanes in free_axes(x) for x in walk([value])
        ):
            return False
    return True


def _within_loops(r: Reduce, lanes: Axis) -> list[Cmp]:
    """The conditions of a reduction that cannot bound its loops."""

    def bounds(c: Cmp) -> bool:
        return any(c.slack.coefficient(a) in (ix(1), ix(-1)) for a in r.axes)

    return [c for c in r.where if lanes in c.slack.axes or not bounds(c)]


@dataclass
class Names:
    """Fresh names for the locals of one kernel."""

    used: dict[str, int] = field(default_factory=dict[str, int])

    def fresh(self, stem: str) -> str:
        n = self.used.get(stem, 0)
        self.used[stem] = n + 1
        return f"{stem}{n}"


@dataclass
class Scope:
    """A loop body under construction. `axes` are all axes with a value in it; `lanes` the one of a lanes loop."""

    names: Names
    axes: frozenset[Axis]
    parent: Scope | None = None
    lanes: Axis | None = None
    alone: bool = False  # a thread runs this by itself: no lanes may be shared out in it
    team: bool = False  # threads of a team run this alike, and can share out a loop
    stmts: list[Stmt] = field(default_factory=list[Stmt])
    known: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    uses: dict[Expr, int] = field(default_factory=dict[Expr, int])

    def inner(self, axes: Iterable[Axis], lanes: Axis | None = None) -> Scope:
        known = self.axes | frozenset(axes)
        return Scope(self.names, known, self, lanes or self.lanes, self.alone, self.team)

    def values(self, roots: Iterable[Expr]) -> list[Expr]:
        """Each root as `value` gives it; what they use together is computed once."""
        wanted = list(roots)
        self.uses = count_uses(wanted)
        return [self.value(e) for e in wanted]

    def bind(self, axis: Axis, value: Ix) -> None:
        self.stmts.append(Bind(axis, value))
        self.axes |= {axis}

    def spread(self, place: IxLike, axes: Sequence[Axis]) -> None:
        """Bind each of the axes to its coordinate of a place in row-major order over them."""
        for axis, value in unravel(place, axes).items():
            self.bind(axis, value)

    def find(self, e: Expr) -> Expr | None:
        scope: Scope | None = self
        while scope is not None:
            if e in scope.known:
                return scope.known[e]
            scope = scope.parent
        return None

    def home(self, e: Expr) -> Scope:
        """The outermost scope in which the expression can be computed."""
        scope = self
        needed = free_axes(e)
        while scope.parent is not None and needed <= scope.parent.axes:
            scope = scope.parent
        return scope

    def value(self, e: Expr, uses: Mapping[Expr, int] | None = None) -> Expr:
        """The expression over locals of this scope and its parents, with the statements it needs in place.

        `uses` are those of the scope that asks, if a parent is asked for what belongs there: what is not named
        where it is used twice is written out twice, and what is in it four times.
        """
        uses = self.uses if uses is None else uses
        if isinstance(e, Const | Local):
            return e
        found = self.find(e)
        if found is not None:
            return found
        home = self.home(e)
        if isinstance(e, Reduce):
            home.reduce([e])
            return home.known[e]
        if isinstance(e, Choose) and not is_safe(e):
            return self.with_reductions(
                e
            )  # evaluated lazily: the other branch may lie outside its buffer
        if home is self and self.lanes is not None and is_per_lane(e, self.lanes):
            return self.with_reductions(e)
        out = rebuild(e, lambda child: home.value(child, uses), lambda i: i)
        if home is self and (uses.get(e, 1) < 2 or isinstance(e, Index)):
            return out
        if is_negation(out) or _is_constant_divisor(out):
            return out
        return home.let(e, out, "v")

    def with_reductions(self, e: Expr) -> Expr:
        """The expression as it is, but for the reductions in it, which are computed ahead of it."""
        memo: dict[Expr, Expr] = {}

        def visit(x: Expr) -> Expr:
            if isinstance(x, Reduce):
                return self.value(x)
            if x not in memo:
                memo[x] = rebuild(x, visit, lambda i: i)
            return memo[x]

        return visit(e)

    def let(self, e: Expr, value: Expr, stem: str) -> Expr:
        lanes = self.lanes if self.lanes in free_axes(e) else None
        name = local(self.names.fresh(stem), free_axes(e) & self.axes, e.dtype)
        assert isinstance(name, Local)
        self.stmts.append(Let(name, value, lanes))
        self.known[e] = name
        return name

    # ---- reductions ----

    def fold(self, loop: Loop) -> None:
        """The loop of a plan, in the outermost scope that all its reductions can run in."""
        group = [r for r, _ in loop.results if isinstance(r, Reduce)]
        needed = frozenset[Axis]().union(*map(free_axes, group))
        home = self
        while home.parent is not None and needed <= home.parent.axes:
            home = home.parent
        home.reduce(group)

    def reduce(self, group: list[Reduce]) -> None:
        """Loops that compute reductions over the same axes, with one accumulator for each."""
        for r in group:
            for inner in _inner_reductions(r):
                if inner not in group and free_axes(inner) <= self.axes:
                    self.value(inner)
        first = group[0]
        vector = self.lanes is not None and any(self.lanes in free_axes(r) for r in group)
        numbers = all(r.dtype is f32 for r in group)
        accumulators: list[Local] = []
        has_lanes = self.alone or self.lanes is not None  # lanes hold no others
        lane_axis = None if has_lanes or not numbers else _lane_axis(first)
        if lane_axis is not None and not lanes_fit([r.body for r in group], lane_axis):
            lane_axis = None
        lanes = self.lanes if vector else lane_axis
        shares = self.team and self.lanes is None and not self.alone
        dealt = _dealt_axis(first) if shares and lane_axis is None else None
        for r in group:
            extra = frozenset({lanes} if lanes is not None else ())
            name = local(
                self.names.fresh("acc"), (free_axes(r) | extra) & (self.axes | extra), r.dtype
            )
            assert isinstance(name, Local)
            accumulators.append(name)
            self.stmts.append(Accumulator(name, r.monoid, lanes, dealt=dealt is not None))
        last = lane_axis or dealt
        order = [a for a in first.axes if a != last] + ([last] if last else [])
        self._loops(order, lane_axis, group, accumulators, lanes, dealt)
        for r, acc in zip(group, accumulators, strict=True):
            if last is None:
                self.known[r] = acc
                continue
            name = local(self.names.fresh("r"), free_axes(r), r.dtype)
            assert isinstance(name, Local)
            self.stmts.append(Finish(name, acc, r.monoid))
            self.known[r] = name

    def _loops(
        self,
        order: list[Axis],
        lane_axis: Axis | None,
        group: list[Reduce],
        accumulators: list[Local],
        lanes: Axis | None,
        dealt: Axis | None,
    ) -> None:
        pending = list(group[0].where)
        scopes: list[tuple[Scope, Axis, Ix, Ix]] = []
        scope = self
        for axis in order:
            same_in_all_lanes = scope.axes - {scope.lanes}
            lo, hi, pending = _bounds(axis, pending, same_in_all_lanes)
            scope = scope.inner([axis], axis if axis == lane_axis else None)
            scope.alone = scope.alone or axis == dealt
            scopes.append((scope, axis, lo, hi))
        bodies = scope.values([guarded(r, pending) for r in group])
        for r, acc, body in zip(group, accumulators, bodies, strict=True):
            scope.stmts.append(Accumulate(acc, r.monoid, body, lanes))
        for inner, axis, lo, hi in reversed(scopes):
            assert inner.parent is not None
            is_dealt = axis == dealt
            loop = For(axis, lo, hi, axis == lane_axis, tuple(inner.stmts), dealt=is_dealt)
            inner.parent.stmts.append(loop)


def guarded(r: Reduce, conditions: list[Cmp]) -> Expr:
    """The reduction's body, neutral where a condition fails."""
    if not conditions:
        return r.body
    lowest = r.dtype.lowest if r.monoid is Monoid.MAX else (0.0 if r.dtype.is_float else 0)
    return choose(holds(conditions), r.body, const(lowest, r.dtype))


def _inner_reductions(r: Reduce) -> list[Reduce]:
    return [x for x in walk([r]) if isinstance(x, Reduce)]


def _bounds(axis: Axis, conditions: list[Cmp], known: frozenset[Axis]) -> tuple[Ix, Ix, list[Cmp]]:
    """Loop bounds that the conditions on `axis` imply, and the conditions that are left."""
    lo, hi = ix(0), axis.extent
    left: list[Cmp] = []
    for c in conditions:
        factor = c.slack.coefficient(axis)
        rest = c.slack - ix(axis) * factor if factor is not None else None
        if rest is not None and not is_safe_index(rest):
            left.append(c)
        elif rest is not None and rest.axes <= known and factor == 1:
            lo = maximum(lo, -rest)
        elif rest is not None and rest.axes <= known and factor == -1:
            hi = minimum(hi, rest + 1)
        else:
            left.append(c)
    return lo, hi, left


def _lane_axis(r: Reduce) -> Axis | None:
    """The reduced axis along which most reads are consecutive in memory; none if it is too short to pay."""

    def score(axis: Axis) -> int:
        return sum(
            address(e.source, e.at).coefficient(axis) == 1
            for e in walk([r.body])
            if isinstance(e, Read)
        )

    best = max(reversed(r.axes), key=score)
    return best if visited(r, best) >= 4 else None


def _dealt_axis(r: Reduce) -> Axis | None:
    """The reduced axis whose points threads share: that along memory, unless a longer one busies more of them."""
    along = _lane_axis(r)
    longest = max(r.axes, key=lambda a: visited(r, a))
    if along is None or visited(r, along) < min(SHARED, visited(r, longest)):
        return longest if visited(r, longest) >= 4 else None
    return along


def is_negation(e: Expr) -> bool:
    """x * -1: it costs nothing where it is added."""
    return (
        isinstance(e, Prim)
        and e.op is Op.MUL
        and any(isinstance(a, Const) and a.value == -1 for a in e.args)
    )


def _is_constant_divisor(e: Expr) -> bool:
    """1 / c: `fold` leaves it where x / c is no product, so it stays beside what it divides."""
    return isinstance(e, Prim) and e.op is Op.RECIP and isinstance(e.args[0], Const)


def count_uses(roots: Iterable[Expr]) -> dict[Expr, int]:
    """How many places of these expressions refer to each node, not looking into reductions."""
    uses: dict[Expr, int] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        uses[e] = uses.get(e, 0) + 1
        if uses[e] == 1 and not isinstance(e, Reduce):
            stack.extend(children(e))
    return uses


def kernel_reductions(roots: Iterable[Expr]) -> tuple[Reduce, ...]:
    """Every reduction of a kernel, inner ones first."""
    return _reductions_in(tuple(roots))


@remembered
def _reductions_in(roots: tuple[Expr, ...]) -> tuple[Reduce, ...]:
    return tuple(e for e in walk(roots) if isinstance(e, Reduce))


__all__ = [
    "Names",
    "Scope",
    "address",
    "count_uses",
    "guarded",
    "is_per_lane",
    "is_safe",
    "is_safe_index",
    "kernel_reductions",
    "lanes_fit",
]
