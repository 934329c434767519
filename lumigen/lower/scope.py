"""scope: turn expressions into statements, each in the outermost loop in which it can be computed.

The one place that decides what a kernel computes once, per row or per element: a subexpression goes to the
outermost scope that has all its axes, gets a name there if it leaves its scope or is used twice, and reductions
become loops. All builders make their bodies with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lumigen.condition import Cmp
from lumigen.dtype import FLOATS, DType
from lumigen.index import (
    Axis,
    Ix,
    IxLike,
    ceildiv,
    floordiv,
    ix,
    maximum,
    minimum,
    unravel,
)
from lumigen.lower.named import named
from lumigen.lower.safe import is_safe, is_safe_index
from lumigen.lower.vector_forms import (
    address,
    adds_integers,
    floats_of,
    guarded,
    integers_read,
    is_per_lane,
    lanes_fit,
)
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.plan import Loop, NotRealised
from lumigen.region import (
    Carried,
    Choose,
    Const,
    Expr,
    Index,
    Local,
    Prim,
    Read,
    Reduce,
    Role,
    carried,
    children,
    free_axes,
    local,
    map_expr,
    rebuild,
    substitute,
    walk,
)
from lumigen.tile import Accumulate, Accumulator, Bind, Finish, For, Let, Stmt


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
    dtypes: frozenset[DType] = FLOATS  # of the numbers that lanes have
    alone: bool = False  # a thread runs this by itself: no lanes may be shared out in it
    team: bool = False  # threads of a team run this alike, and can share out a loop
    across: bool = False  # the teams of a block share out a fold that stands here
    stmts: list[Stmt] = field(default_factory=list[Stmt])
    known: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    uses: dict[Expr, int] = field(default_factory=dict[Expr, int])
    loops: Mapping[Expr, Loop] = field(
        default_factory=dict[Expr, Loop]
    )  # of the plan, that may stand here

    def inner(self, axes: Iterable[Axis], lanes: Axis | None = None) -> Scope:
        known = self.axes | frozenset(axes)
        lanes, shared = lanes or self.lanes, (self.dtypes, self.alone, self.team)
        return Scope(self.names, known, self, lanes, *shared, loops=self.loops)

    def values(self, roots: Iterable[Expr]) -> list[Expr]:
        """Each root as `value` gives it; what they use together is computed once."""
        wanted = list(map(named, roots))
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

    def home_of(self, exprs: Iterable[Expr]) -> Scope:
        """The outermost scope in which all of them can be computed."""
        homes = [self.home(e) for e in exprs]
        return max(homes, key=lambda s: len(s.axes))

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
            loop = self.loops.get(e)
            if loop is None:
                raise NotRealised(f"no loop of the plan computes a {e.monoid.value} over {e.axes}")
            home.fold(loop)
            return home.known[e]
        if isinstance(e, Choose) and not is_safe(e):
            return self.with_reductions(
                e
            )  # evaluated lazily: the other branch may lie outside its buffer
        if home is self and self.lanes is not None and is_per_lane(e, self.lanes, self.dtypes):
            return self.with_reductions(e)
        out = rebuild(e, lambda child: home.operand(e, child, uses), lambda i: i)
        if home is self and (uses.get(e, 1) < 2 or isinstance(e, Index)):
            return out
        if is_negation(out):
            return out
        return home.let(e, out, "v")

    def operand(self, e: Expr, child: Expr, uses: Mapping[Expr, int]) -> Expr:
        """The value of one of an expression's operands; a divisor stays beside what it divides."""
        if _divides(e, child):
            return rebuild(child, lambda divisor: self.value(divisor, uses), lambda i: i)
        return self.value(child, uses)

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

    # ---- folds ----

    def fold(self, loop: Loop) -> None:
        """The loop of a plan in this scope, with one accumulator for each of its carries."""
        _check_fold(loop)
        self._compute_before(loop)
        last = loop.axes[-1] if loop.kind != "seq" else None
        lane_axis = last if loop.kind == "lanes" else None
        shared = last if loop.kind == "threads" else None
        self._check_lanes(loop)
        values = [c.value for c in loop.carries]
        vector = self.lanes is not None and any(self.lanes in free_axes(v) for v in values)
        lanes = self.lanes if vector else lane_axis
        if self.across and vector:
            shared = max(loop.axes, key=lambda a: a.extent.estimate())
        extra = frozenset({lanes} if lanes is not None else ())
        accumulators: list[Local] = []
        for c in loop.carries:
            axes = (free_axes(c.value) | extra) & (self.axes | extra)
            name = local(self.names.fresh("acc"), axes, c.value.dtype)
            assert isinstance(name, Local)
            accumulators.append(name)
            self.stmts.append(Accumulator(name, c.monoid, lanes, dealt=shared is not None))
        self._loops(loop, accumulators, lanes, shared)
        states: dict[Expr, Expr] = {}
        for i, (c, acc) in enumerate(zip(loop.carries, accumulators, strict=True)):
            total = acc
            if last is not None or shared is not None:
                name = local(self.names.fresh("r"), free_axes(c.value), c.value.dtype)
                assert isinstance(name, Local)
                self.stmts.append(Finish(name, acc, c.monoid))
                total = name
            states[carried(i, "new", c.value.dtype)] = total
        for original, result in loop.results:
            self.known[original] = map_expr(result, states)

    def _compute_before(self, loop: Loop) -> None:
        """What the loop reads of folds that do not vary with it."""
        for c in loop.carries:
            for inner in _reductions_in((c.tile,)):
                if inner in self.loops and free_axes(inner) <= self.axes:
                    self.value(inner)

    def _check_lanes(self, loop: Loop) -> None:
        if loop.kind == "seq":
            return
        if self.lanes is not None or self.alone:
            raise NotRealised(f"a fold over {loop.kind} inside a loop over lanes or threads")
        if loop.kind == "threads" and not self.team:
            raise NotRealised("a fold over threads in a task of one thread")
        if loop.kind != "lanes":
            return
        if any(c.value.dtype not in self.dtypes for c in loop.carries):
            raise NotRealised("a fold over lanes of a type that vectors do not have")
        if not lanes_fit([c.tile for c in loop.carries], loop.axes[-1], self.dtypes):
            raise NotRealised(f"vectors along {loop.axes[-1]} do not compute the fold")

    def _loops(
        self, loop: Loop, accumulators: list[Local], lanes: Axis | None, shared: Axis | None
    ) -> None:
        pending = list(loop.where)
        scopes: list[tuple[Scope, Axis, Ix, Ix]] = []
        scope = self
        last, axes = loop.axes[-1], loop.axes
        # what a thread reads in the turns inside goes out together
        if self.team and loop.kind == "lanes" and not pending:
            axes = (last, *axes[:-1])
        for axis in axes:
            same_in_all_lanes = scope.axes - {scope.lanes}
            lo, hi, pending = bounds_of(axis, pending, same_in_all_lanes)
            is_lanes = axis == last and loop.kind == "lanes"
            scope = scope.inner([axis], axis if is_lanes else None)
            scope.alone = scope.alone or (axis == last and loop.kind == "threads")
            scopes.append((scope, axis, lo, hi))
        scope.loops = {**scope.loops, **loops_by_value(loop.body)}
        bodies = scope.values([guarded(c.monoid, c.tile, pending) for c in loop.carries])
        for c, acc, body in zip(loop.carries, accumulators, bodies, strict=True):
            scope.stmts.append(Accumulate(acc, c.monoid, body, lanes))
        for inner, axis, lo, hi in reversed(scopes):
            assert inner.parent is not None
            is_last = axis == last
            statement = For(
                axis,
                lo,
                hi,
                is_last and loop.kind == "lanes",
                tuple(inner.stmts),
                dealt=axis == shared,
            )
            inner.parent.stmts.append(statement)


def _check_fold(loop: Loop) -> None:
    """Whether accumulators that no other one corrects compute the fold."""
    for c in loop.carries:
        if c.correct is not None:
            raise NotRealised("vector loops carry no corrections")
        if c.product is not None:
            raise NotRealised("vector loops have no products of matrices")
        if any(isinstance(e, Carried) for e in walk([c.tile])):
            raise NotRealised("a state of vector loops that another one depends on")
    if any(not isinstance(s, Loop) or not s.carries for s in loop.body):
        raise NotRealised("a fold of vector loops with other steps than folds inside")


def loops_by_value(steps: Iterable[object]) -> dict[Expr, Loop]:
    """The folds among some steps by the reductions that they compute."""
    folds = (s for s in steps if isinstance(s, Loop))
    return {original: loop for loop in folds for original, _ in loop.results}


def moved(loop: Loop, places: Mapping[Axis, Ix]) -> Loop:
    """The fold with axes around it replaced by index expressions."""
    if not places:
        return loop
    carries = tuple(
        replace(c, value=substitute(c.value, places), tile=substitute(c.tile, places))
        for c in loop.carries
    )
    results = tuple((substitute(r, places), substitute(e, places)) for r, e in loop.results)
    where = tuple(c.substitute(places) for c in loop.where)
    body = tuple(moved(s, places) if isinstance(s, Loop) else s for s in loop.body)
    return replace(loop, carries=carries, results=results, where=where, body=body)


def bounds_of(
    axis: Axis, conditions: list[Cmp], known: frozenset[Axis]
) -> tuple[Ix, Ix, list[Cmp]]:
    """Loop bounds that the conditions on `axis` imply, and the conditions that are left."""
    lo, hi = ix(0), axis.extent
    left: list[Cmp] = []
    for c in conditions:
        factor = c.slack.coefficient(axis)
        if factor is None or not factor.is_const or factor == 0:
            left.append(c)
            continue
        rest = c.slack - ix(axis) * factor
        if not is_safe_index(rest):
            left.append(c)
        elif rest.axes <= known:
            if factor.const > 0:
                lo = maximum(lo, ceildiv(-rest, factor))
            else:
                hi = minimum(hi, floordiv(rest, -factor) + 1)
        else:
            left.append(c)
    return lo, hi, left


def is_negation(e: Expr) -> bool:
    """x * -1: it costs nothing where it is added."""
    return (
        isinstance(e, Prim)
        and e.op is Op.MUL
        and any(isinstance(a, Const) and a.value == -1 for a in e.args)
    )


def _divides(e: Expr, child: Expr) -> bool:
    """Whether a product is a quotient that is rounded once: its divisor has no reciprocal of its own.

    A root that divides has one, and so has a reduction: computed once for all of a row, as of a softmax or a norm.
    """
    if not isinstance(e, Prim) or e.op is not Op.MUL:
        return False
    if not isinstance(child, Prim) or child.op is not Op.RECIP:
        return False
    (divisor,) = child.args
    is_root = isinstance(divisor, Prim) and divisor.op is Op.SQRT
    return not is_root and not any(map(_is_reduced, walk([divisor])))


def _is_reduced(e: Expr) -> bool:
    """Whether it is a reduction, or what a kernel has kept of one."""
    is_kept = isinstance(e, Read) and e.source.role is Role.SCRATCH
    return is_kept or isinstance(e, Reduce | Carried)


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
    "adds_integers",
    "bounds_of",
    "count_uses",
    "floats_of",
    "guarded",
    "integers_read",
    "is_per_lane",
    "is_safe",
    "is_safe_index",
    "kernel_reductions",
    "lanes_fit",
]
