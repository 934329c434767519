"""strips: the builder of folds over windows whose neighbours along an image share what they read, on a GPU.

Before: a plan of vector loops, with one fold over windows in its loop over lanes.  After: a thread folds a strip of
neighbouring points together, with an accumulator for each. The loop along the window is written out: an element of the
image that several points of the strip read is read once, and so is a weight.

    for strip of columns: for lanes in a stretch: for k of the window's rows
      x0 = x[k, first], x1 = x[k, first + 1], ..
      sum0 += x0 * w[k, 0], sum0 += x1 * w[k, 1], sum1 += x1 * w[k, 0], ..

Where the last strip goes on behind the image, what is read there is 0, and nothing is stored.

Sites: `threads` of a block, of which a `team` has the lanes of a strip, `width` of each thread; `points` of a strip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lumigen.condition import Cmp
from lumigen.index import Axis, Ix, Lookup, ceildiv, extent_of, ix, minimum
from lumigen.lower.built import Built, check
from lumigen.lower.named import named
from lumigen.lower.scope import Names, Scope, bounds_of, count_uses, guarded, is_safe
from lumigen.lower.simt import Loops, check_lanes, check_threads, check_width, dims_of, least_idle
from lumigen.lower.sliding import Along
from lumigen.lower.widths import width_of
from lumigen.machine import Gpu
from lumigen.plan import Carry, KernelPlan, Loop, NotRealised
from lumigen.region import (
    Carried,
    Choose,
    Expr,
    Holds,
    Local,
    Read,
    Reduce,
    carried,
    children,
    choose,
    const,
    free_axes,
    holds,
    local,
    map_expr,
    rebuild,
    substitute,
    walk,
)
from lumigen.schedule import Schedule, schedule
from lumigen.tile import Accumulate, Accumulator, For, StoreTile, TileProgram

SITES = ("threads", "team", "width", "points")


def strips(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a plan with one fold over windows; NotRealised for another, or where a strip is too long."""
    check(sizes, SITES)
    check_threads(sizes["threads"], machine.teams)
    check_width(sizes, machine.teams)
    found, team, teams = Overlapping.of(plan), sizes["team"], machine.teams
    check_lanes(found.loops, sizes["threads"], machine.vectors)
    if not 1 <= team <= teams.warp or team & (team - 1) or sizes["threads"] % team:
        raise NotRealised(f"{team} of {sizes['threads']} threads along the lanes")
    most = found.along.point.extent.bounds()[1]
    if sizes["points"] < 2 or (most is not None and sizes["points"] > most):
        raise NotRealised(f"strips of {sizes['points']} points of {most}")
    return Built(_program(plan, found, sizes), plan.region)


def schedule_of_strips(plan: KernelPlan, machine: Gpu) -> Schedule | None:
    """Of windows that overlap, as long strips as leave all multiprocessors enough threads; None of another plan."""
    teams, tiles = machine.teams, machine.teams.strips
    try:
        found = Overlapping.of(plan)
    except NotRealised:
        return None
    lane, along = found.loops.lane, found.along
    if tiles is None or lane is None:
        return None
    extent, lines = along.point.extent.estimate(), found.loops.row.extent.estimate()
    if found.moves_along_lanes:  # neighbouring threads read neighbours, as one line of memory
        width, least = teams.least_lanes, tiles.threads_alone
        team = min(teams.warp, 1 << (-(-lane.extent.estimate() // width) - 1).bit_length())
    else:
        width, least = min(tiles.lanes, width_of(plan.region, teams)), tiles.threads
        team = least_idle(-(-lane.extent.estimate() // width), teams)
    busy = lines // extent * -(-lane.extent.estimate() // (team * width)) * team
    for most in tiles.points:
        number = -(-extent // most)
        points = -(-extent // number)  # strips of one length
        shown = along.step * (points - 1) + along.reach + 1
        if shown <= tiles.shown and busy * number >= least * machine.multiprocessors:
            sizes = {"threads": teams.threads, "team": team, "width": width, "points": points}
            return _realised(plan, schedule("strips", sizes), machine)
    return None


def _realised(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Schedule | None:
    try:
        strips(plan, sizes, machine)
    except NotRealised:
        return None
    return sizes


# ---- facts ----


@dataclass(frozen=True)
class Overlapping:
    """Vector loops with one fold over windows, and the axis along which those of neighbours overlap."""

    loops: Loops
    fold: Loop
    along: Along

    @staticmethod
    def of(plan: KernelPlan) -> Overlapping:
        """NotRealised where the plan has other steps, or no windows overlap."""
        loops = Loops.of(plan)
        if plan.then is not None or loops.once or loops.of_rows or loops.after or loops.where:
            raise NotRealised("strips have one fold, in the loop over lanes, and no loop after it")
        if loops.lane is None or loops.kind != "lanes" or len(loops.of_lanes) != 1:
            raise NotRealised("strips have one fold, in a loop over lanes")
        (fold,) = loops.of_lanes
        plain = all(c.correct is None and c.product is None for c in fold.carries)
        states = (e for e in walk([c.tile for c in fold.carries]) if isinstance(e, Carried))
        if fold.kind != "seq" or fold.body or not plain or any(states):
            raise NotRealised("strips have a plain fold, in order")
        found = [a for i in _places(fold) if (a := Along.of(i, loops.rows, fold.axes))]
        shared = [a for a in found if a.overlaps and a.reach % a.step < a.reach]
        if not shared:
            raise NotRealised("no windows that overlap along an axis of the rows")
        return Overlapping(loops, fold, max(shared, key=lambda a: loops.rows.index(a.point)))

    @property
    def moves_along_lanes(self) -> bool:
        """Whether a place of the window moves what neighbouring lanes read, which then are no vectors of memory."""
        lane, inside = self.loops.lane, set(self.fold.axes)
        return any(lane in i.axes and i.axes & inside for i in _places(self.fold))


def _places(fold: Loop) -> Iterator[Ix]:
    """The indices at which a fold reads."""
    for e in walk([c.tile for c in fold.carries]):
        if isinstance(e, Read):
            yield from e.at


# ---- the program ----


@dataclass(frozen=True)
class _Strip:
    """Neighbouring points from `first` on, of which the last strip may have some behind the `end` of the image."""

    found: Overlapping
    first: Axis
    points: int
    is_ragged: bool

    @staticmethod
    def of(found: Overlapping, number: Axis, points: int) -> _Strip:
        extent = found.along.point.extent
        first = Axis("begin", (number.extent - 1) * points + 1)
        return _Strip(found, first, points, extent % points != 0)

    def at(self, point: int) -> dict[Axis, Ix]:
        return {self.found.along.point: ix(self.first) + point}

    def stored(self, point: int) -> tuple[Cmp, ...]:
        """What must hold for this point to be stored."""
        end = self.found.along.point.extent
        return (Cmp(end - 1 - ix(self.first) - point),) if self.is_ragged and point else ()

    def within(self, e: Expr) -> Expr:
        """A value that may be asked for behind the image, where what it reads is 0."""
        return _within(e, self.first, frozenset()) if self.is_ragged else e


def _within(e: Expr, first: Axis, held: frozenset[Cmp]) -> Expr:
    """The value, with a condition on each read that moves with the strip, unless it stands under that one."""
    known: dict[tuple[Expr, frozenset[Cmp]], Expr] = {}

    def visit(x: Expr, held: frozenset[Cmp]) -> Expr:
        if (x, held) not in known:
            known[x, held] = made(x, held)
        return known[x, held]

    def made(x: Expr, held: frozenset[Cmp]) -> Expr:
        if isinstance(x, Read):
            asked = tuple(c for c in _inside(x, first) if c not in held)
            return choose(holds(asked), x, const(0, x.dtype)) if asked else x
        if isinstance(x, Reduce):
            return x
        if isinstance(x, Choose) and isinstance(x.condition, Holds):
            then = visit(x.then, held | frozenset(x.condition.conditions))
            return choose(x.condition, then, visit(x.otherwise, held))
        return rebuild(x, lambda y: visit(y, held), lambda i: i)

    return visit(e, held)


def _inside(e: Read, first: Axis) -> Iterator[Cmp]:
    """The conditions under which a read is within its buffer, wherever the strip begins."""
    for extent, i in zip(e.source.dims, e.at, strict=True):
        if first in i.axes:
            if any(isinstance(a, Lookup) for a in i.atoms()):
                raise NotRealised("an integer is read at a point that may lie behind the image")
            factor = i.coefficient(first)
            yield Cmp(extent - 1 - i)
            if factor is None or not factor.is_const or factor.const < 0:
                yield Cmp(i)


def _program(plan: KernelPlan, found: Overlapping, sizes: Schedule) -> TileProgram:
    loops, points, team = found.loops, sizes["points"], sizes["team"]
    lane, along = loops.lane, found.along
    assert lane is not None
    number = Axis("strip", ceildiv(along.point.extent, points))
    axes = tuple(number if a is along.point else a for a in loops.rows)
    row, teams = Axis("row", extent_of(axes)), sizes["threads"] // team
    chunk = team * sizes["width"]
    stretches = ceildiv(lane.extent, chunk)
    task = Axis("task", ceildiv(row.extent, teams) * stretches)
    first, lo = ix(task) // stretches * teams, ix(task) % stretches * chunk
    top = Scope(Names(), frozenset({task}), team=True)
    rows = top.inner([row])
    rows.spread(row, axes)
    strip = _Strip.of(found, number, points)
    rows.bind(strip.first, ix(number) * points)
    lanes = rows.inner([lane], lane)
    _store(lanes, strip, _fold(lanes, strip))
    inner = For(lane, lo, minimum(lo + chunk, lane.extent), True, tuple(lanes.stmts))
    rows.stmts.append(inner)
    end = minimum(first + teams, row.extent)
    return TileProgram(
        "simt",
        plan.region.buffers(),
        dims_of(plan.region),
        task,
        task.extent,
        (),
        (*top.stmts, For(row, first, end, False, tuple(rows.stmts), dealt=True)),
        threads=sizes["threads"],
        team=team,
        width=sizes["width"],
    )


def _fold(scope: Scope, strip: _Strip) -> list[dict[Expr, Expr]]:
    """The fold of all points of a strip; for each of these what its reductions have become."""
    fold, lane = strip.found.fold, strip.found.loops.lane
    sums: list[list[Local]] = []
    results: list[dict[Expr, Expr]] = []
    for p in range(strip.points):
        sums.append([_accumulator(scope, strip, p, c) for c in fold.carries])
        states = {carried(i, "new", acc.dtype): acc for i, acc in enumerate(sums[p])}
        made = {substitute(r, strip.at(p)): map_expr(e, states) for r, e in fold.results}
        results.append(made)
    pending, inner, nest = list(fold.where), scope, list[tuple[Scope, Axis, Ix, Ix]]()
    for axis in (a for a in fold.axes if a is not strip.found.along.inside):
        lo, hi, pending = bounds_of(axis, pending, inner.axes - {lane})
        inner = inner.inner([axis])
        nest.append((inner, axis, lo, hi))
    _write_out(inner, strip, pending, sums)
    for body, axis, lo, hi in reversed(nest):
        assert body.parent is not None
        body.parent.stmts.append(For(axis, lo, hi, False, tuple(body.stmts)))
    return results


def _accumulator(scope: Scope, strip: _Strip, point: int, carry: Carry) -> Local:
    value, lane = substitute(carry.value, strip.at(point)), strip.found.loops.lane
    assert lane is not None
    name = local(scope.names.fresh("acc"), (free_axes(value) & scope.axes) | {lane}, value.dtype)
    assert isinstance(name, Local)
    scope.stmts.append(Accumulator(name, carry.monoid, lane))
    return name


def _write_out(
    scope: Scope, strip: _Strip, pending: Sequence[Cmp], sums: Sequence[Sequence[Local]]
) -> None:
    """The terms along the window in the order of what they read; what several points read is read once."""
    fold, along, lane = strip.found.fold, strip.found.along, strip.found.loops.lane
    places = [(p, k) for p in range(strip.points) for k in range(along.inside.extent.const)]
    places.sort(key=lambda at: (along.step * at[0] + along.dilation * at[1], at))
    tiles = [guarded(c.monoid, c.tile, pending) for c in fold.carries]
    terms: list[Accumulate] = []
    for p, k in places:
        at = {**strip.at(p), along.inside: ix(k)}
        for acc, c, tile in zip(sums[p], fold.carries, tiles, strict=True):
            value = named(strip.within(substitute(tile, at)))
            terms.append(Accumulate(acc, c.monoid, value, lane))
    scope.uses = count_uses(t.value for t in terms)
    asked = Counter(x for t in terms for x in dict.fromkeys(_asked(t.value)))
    for term in terms:
        for x in _asked(term.value):
            if asked[x] > 1 and scope.find(x) is None:
                scope.let(x, scope.with_reductions(x), "v")
        scope.stmts.append(replace(term, value=scope.value(term.value)))


def _asked(e: Expr) -> Iterator[Expr]:
    """The outermost values of an expression that are read only where a condition holds."""
    stack, seen = [e], set[Expr]()
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if not isinstance(x, Choose):
            stack += reversed(list(children(x)))
        elif not is_safe(x):
            yield x


def _store(scope: Scope, strip: _Strip, results: Sequence[dict[Expr, Expr]]) -> None:
    """What is made of the sums, at each point."""
    lane, made = strip.found.loops.lane, list[StoreTile]()
    for p, sums in enumerate(results):
        for s in strip.found.loops.stores:
            value = map_expr(strip.within(substitute(s.value, strip.at(p))), sums)
            place = tuple(i.substitute(strip.at(p)) for i in s.at)
            made.append(StoreTile(s.dst, place, named(value), lane, strip.stored(p)))
    scope.uses = count_uses(s.value for s in made)
    for s in made:
        scope.stmts.append(replace(s, value=scope.value(s.value)))
