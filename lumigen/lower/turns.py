"""turns: a fold whose states correct each other, in turns of so many vectors of each thread.

Before: the loop of a plan with corrections, over lanes or inside such a loop.  After: statements in which each lane has
states of its own. In a turn the states that others depend on take in the points of the turn; then the others are
corrected, once for all of these, and take in theirs. After the last turn every lane is corrected to the states of all
lanes, or those of each team to the states of all teams. So a row or a column is read once, however long it is, and
threads meet when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lumigen.dtype import f32
from lumigen.index import Axis, ceildiv, ix, minimum
from lumigen.lower.bounds import assuming
from lumigen.lower.scope import Scope, bounds_of, lanes_fit
from lumigen.plan import Carry, Loop, NotRealised, corrected
from lumigen.region import Carried, Expr, Local, carried, local, map_expr, walk
from lumigen.tile import Accumulate, Accumulator, Advance, Finish, For, Let


def has_corrections(loop: Loop) -> bool:
    """Whether states of the fold are corrected when other ones change."""
    return any(c.correct is not None for c in loop.carries)


def fold_in_turns(scope: Scope, loop: Loop, points: int) -> None:
    """The loop of a plan in this scope, so many points at a time."""
    _check(scope, loop)
    if points < 1:
        raise NotRealised(f"a fold in turns of {points} points")
    (k,) = loop.axes
    lo, hi, left = bounds_of(k, list(loop.where), scope.axes - {scope.lanes})
    if left:
        raise NotRealised(f"a fold in turns over points of {k} that are no range")
    carries = [replace(c, tile=assuming(c.tile, loop.where)) for c in loop.carries]
    along = scope.lanes or k
    states = [_named(scope, "acc", along) for _ in carries]
    for c, state in zip(carries, states, strict=True):
        scope.stmts.append(Accumulator(state, c.monoid, along, dealt=scope.across))
    turns = ceildiv(hi - lo, points)
    turn = Axis("turn", turns if turns.is_const else ceildiv(k.extent, points))
    inner = scope.inner([turn])
    first = lo + ix(turn) * points
    over = (k, first, minimum(first + points, hi))
    now: dict[Expr, Expr] = {}
    asked = {e.carry for c in carries for e in _states(c) if e.which == "new"}
    for i in sorted({e.carry for c in carries for e in _states(c) if e.which == "old"}):
        now[carried(i, "old", f32)] = _held(inner, "old", states[i], along)
    for level in _levels(carries):
        _correct(inner, {i: carries[i] for i in level}, states, now, along)
        lane = inner.inner([k], along)
        values = lane.values([map_expr(carries[i].tile, now) for i in level])
        for i, value in zip(level, values, strict=True):
            lane.stmts.append(Accumulate(states[i], carries[i].monoid, value, along))
        is_vector = along is k
        inner.stmts.append(For(*over, is_vector, tuple(lane.stmts), dealt=not is_vector))
        for i in (i for i in level if i in asked):
            # what follows from a state alone is computed in each turn, since the name is the turn's
            now[carried(i, "new", f32)] = (
                states[i] if is_vector else _held(inner, "new", states[i], along)
            )
    scope.stmts.append(For(turn, ix(0), turns, False, tuple(inner.stmts)))
    totals = _finish(scope, carries, states, along)
    for original, result in loop.results:
        scope.known[original] = map_expr(result, totals)


def _held(scope: Scope, stem: str, state: Local, along: Axis) -> Local:
    """What a state is now, under a name of its own."""
    name = _named(scope, stem, along)
    scope.stmts.append(Let(name, state, along))
    return name


def _check(scope: Scope, loop: Loop) -> None:
    if loop.kind != ("seq" if scope.across else "lanes") or len(loop.axes) != 1 or loop.body:
        raise NotRealised(
            "a fold with corrections is over one axis, the lanes or inside their loop, with nothing inside"
        )
    if (scope.lanes is not None) != scope.across or scope.alone or not scope.team:
        raise NotRealised("a fold with corrections is a team's, or that of all teams of a block")
    if any(c.dtype is not f32 or c.product is not None for c in loop.carries):
        raise NotRealised("a fold with corrections has states of f32 and no products")
    along = scope.lanes or loop.axes[-1]
    if not lanes_fit([c.tile for c in loop.carries], along):
        raise NotRealised(f"vectors along {along} do not compute the fold")


def _named(scope: Scope, stem: str, *lanes: Axis) -> Local:
    """A name for what each lane has of its own, or all have together: it has no value outside of the scope."""
    name = local(scope.names.fresh(stem), scope.axes | {*lanes}, f32)
    assert isinstance(name, Local)
    return name


def _states(c: Carry) -> Iterable[Carried]:
    """The states that a carry is computed from."""
    roots = [c.tile] if c.correct is None else [c.tile, c.correct]
    return [e for e in walk(roots) if isinstance(e, Carried)]


def _levels(carries: list[Carry]) -> list[list[int]]:
    """The carries, each after those whose new states it needs."""
    out: list[list[int]] = []
    place: dict[int, int] = {}
    for i, c in enumerate(carries):
        place[i] = max((place[e.carry] + 1 for e in _states(c)), default=0)
        if place[i] == len(out):
            out.append([])
        out[place[i]].append(i)
    return out


def _correct(
    scope: Scope,
    carries: Mapping[int, Carry],
    states: list[Local],
    now: Mapping[Expr, Expr],
    along: Axis,
) -> None:
    """The states of some carries with their corrections, lane by lane."""
    wanted = {i: c.correct for i, c in carries.items() if c.correct is not None}
    lane = scope.inner([along], along)
    values = lane.values([map_expr(c, now) for c in wanted.values()])
    scope.stmts += lane.stmts
    for i, value in zip(wanted, values, strict=True):
        scope.stmts.append(Advance(states[i], corrected(states[i], value), along))


def _finish(
    scope: Scope, carries: list[Carry], states: list[Local], along: Axis
) -> dict[Expr, Expr]:
    """What all lanes come to, or each lane of all teams."""
    totals: dict[Expr, Expr] = {}
    old: dict[Expr, Expr] = {carried(i, "old", f32): state for i, state in enumerate(states)}
    for level in _levels(carries):
        _correct(scope, {i: carries[i] for i in level}, states, {**old, **totals}, along)
        for i in level:
            name = _named(scope, "r")
            scope.stmts.append(Finish(name, states[i], carries[i].monoid))
            totals[carried(i, "new", f32)] = name
    return totals
