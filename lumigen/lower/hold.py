"""hold: what the loops over a row share stays in the registers of the threads that share the row.

Before: a program of teams in which loops over the same lanes follow one another, each with its own axis.  After: they
run over one axis, in as many parts as a thread has vectors of the row. The same of loops over points that the teams of
a block share out inside a loop over lanes. What they read is loaded ahead of the first, all at once, since no load
depends on what the loops compute; it stays as memory has it, in half the registers where that is 16 bits, and each loop
widens it anew where the floats have no registers beside it. What two of them compute is kept by the first, unless what
it is made of takes fewer registers. What one of them computes and a later one would store is stored at once. Rows of
unknown length, and rows that need more registers than a thread has to spare, are read again: they are in the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeGuard

from lumigen.dtype import DType, bf16, f16, f32
from lumigen.index import Axis, Ix, MinMax, ix, of_atom
from lumigen.lower.scope import FLOATS, address, is_per_lane
from lumigen.machine import Teams
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Expr,
    Local,
    Prim,
    Read,
    children,
    free_axes,
    local,
    map_expr,
    substitute,
    walk,
)
from lumigen.tile import (
    Accumulate,
    Accumulator,
    Advance,
    Finish,
    For,
    Hold,
    Keep,
    Let,
    Stmt,
    StoreTile,
    TileProgram,
)


@dataclass(frozen=True)
class Over:
    """What loops in parts run over: `axis`, so many points `at_once`, in vectors of `lanes`, which may be the same."""

    axis: Axis
    lanes: Axis
    at_once: int
    dtypes: frozenset[DType] = FLOATS  # that vectors have

    def is_per_lane(self, e: Expr) -> bool:
        return is_per_lane(e, self.lanes, self.dtypes)

    def vary(self, e: Expr) -> bool:
        """Whether the value is another one in each vector."""
        return {self.axis, self.lanes} <= free_axes(e)


def hold_rows(program: TileProgram, teams: Teams) -> TileProgram:
    """Of loops over the lanes of a row."""
    at_once = program.team * program.width
    body = tuple(
        _held_in(s, at_once, program, teams) if isinstance(s, For) and s.dealt else s
        for s in program.body
    )
    program = replace(program, body=body)
    return replace(program, blocks=_blocks(program, teams, at_once))


def hold_points(program: TileProgram, teams: Teams) -> TileProgram:
    """Of loops over points, which teams share out, inside a loop over lanes."""
    at_once = program.threads // program.team
    body = tuple(
        _held_in(s, at_once, program, teams, s.axis) if isinstance(s, For) and s.lanes else s
        for s in program.body
    )
    program = replace(program, body=body)
    return replace(program, blocks=_blocks(program, teams, at_once))


def _blocks(program: TileProgram, teams: Teams, at_once: int) -> int:
    """As many as there are registers for, of a program that reduces rows which it holds: while one waits, others load.

    The compiler, which does not know that, would take more registers to begin more of a row's work at once.
    """
    statements = list(program.statements())
    holds = [s for s in statements if isinstance(s, Hold)]
    loops = [s for s in statements if isinstance(s, For) and s.parts]
    if not holds or not any(isinstance(s, Finish) for s in statements):
        return 0
    # states of lanes, and what they were, outlive a turn
    outlive = any(isinstance(s, Advance) for s in statements)
    if not outlive and any(
        s.lanes and any(isinstance(x, For) and not x.parts for x in s.body)
        for s in statements
        if isinstance(s, For)
    ):
        return 0  # a loop inside begins several turns at once, whose registers are not counted here
    registers = {s.name: s.parts * program.width * s.element.itemsize // 4 for s in holds}
    kept: dict[Local, int] = {}
    used: dict[Local, int] = {}
    for i, loop in enumerate(loops):
        for x in loop.body:
            assert isinstance(x, Let | Accumulate | StoreTile | Keep)
            used |= {e: i for e in walk([x.value]) if isinstance(e, Local) and e in registers}
            if isinstance(x, Keep):
                kept[x.name] = i
    between = [s for s in statements if isinstance(s, Accumulator)] if outlive else []
    most, states = 0, 2 * program.width * len(between)
    for i, loop in enumerate(loops):
        before = sum(registers[name] for name, last in used.items() if kept[name] < i <= last)
        behind = sum(registers[name] for name, last in used.items() if kept[name] <= i < last)
        totals = program.width * sum(isinstance(x, Accumulate) for x in loop.body)
        names = program.width * sum(isinstance(x, Let) for x in loop.body)
        most = max(most, before + totals + names, behind + totals)
    parts, span = loops[0].parts, loops[0].hi - loops[0].lo
    is_whole = span.is_const and span.const == parts * at_once
    needed = most + states + teams.spare + (0 if is_whole or parts == 1 else teams.between)
    needed += teams.addresses if program.team < program.threads else 0
    needed = -(-needed // teams.granted) * teams.granted
    count = teams.registers // (program.threads * needed)
    return count if 1 < count <= teams.blocks else 0


def _held_in(
    rows: For, at_once: int, program: TileProgram, teams: Teams, lanes: Axis | None = None
) -> For:
    """The rows with what their loops share held; of rows that are read in turns what those of a turn share.

    The same of the points in a loop over `lanes`.
    """
    if not any(isinstance(s, For) and not s.lanes and _has_rows(s, lanes) for s in rows.body):
        return _held(rows, lanes, at_once, program, teams)
    body, number = list[Stmt](), 0
    for s in rows.body:
        if isinstance(s, For) and _has_rows(s, lanes):
            s = _held(s, lanes, at_once, program, teams, number)  # noqa: PLW2901
            number += sum(isinstance(x, Hold) for x in s.body)
        body.append(s)
    return replace(rows, body=tuple(body))


def _has_rows(s: For, lanes: Axis | None) -> bool:
    return any(isinstance(x, For) and is_row(x, lanes) for x in s.body)


def _held(
    rows: For, lanes: Axis | None, at_once: int, program: TileProgram, teams: Teams, number: int = 0
) -> For:
    """The body of a row with what its loops share in registers; `lanes` are those of a loop around points.

    What is held has numbers from `number` on: two loops around rows may stand in one body.
    """
    loops = [s for s in rows.body if isinstance(s, For) and is_row(s, lanes)]
    if lanes is not None:  # what is stored of a fold has one point
        loops = [s for s in loops if (s.lo, s.hi) == (loops[0].lo, loops[0].hi)]
    extent = most_of(loops[0].hi - loops[0].lo) if loops else None
    if extent is None or len({(s.lo, s.hi) for s in loops}) > 1:
        return rows
    axis = loops[0].axis
    of = Over(axis, lanes or axis, at_once)
    others = frozenset(s.axis for s in loops) - {axis}
    body = _read_alike([over_axis(s, others, axis) for s in rows.body], of)
    body = _stored_at_once(body, of)
    parts = -(-extent // at_once)
    loops = [s for s in body if is_row_over(s, of)]
    size = parts * program.width
    taken = {e: size * _element(e, of).itemsize // 4 for e in _reads(loops, of)}
    reads = _fitting(taken, teams.held)
    computed = dict.fromkeys(_computed(loops, of, reads, size), size)
    held = (*reads, *_fitting(computed, teams.held))
    if not held:
        return rows
    names: dict[Expr, Local] = {}
    for e in held:
        name = local(f"held{number + len(names)}", free_axes(e), f32)
        assert isinstance(name, Local)
        names[e] = name
    kept = HeldLoops(of, names, set(reads))
    loads = tuple(Keep(names[e], e, of.lanes) for e in reads)
    packed = [e for e in held if _element(e, of) is not f32]
    anew = size * len(packed) + sum(taken[e] for e in packed) > teams.held
    out: list[Stmt] = [
        Hold(n, parts, _element(e, of), anew and e in packed) for e, n in names.items()
    ]
    for s in body:
        if not is_row_over(s, of):
            out.append(s)
            continue
        if loads:
            out.append(replace(s, body=loads, parts=parts))
            loads = ()
        inner = kept.body(s)
        if inner:
            out.append(replace(s, body=inner, parts=parts))
    return replace(rows, body=tuple(out))


def _element(e: Expr, of: Over) -> DType:
    """What registers hold it as: as memory does, if that has neighbours of 16 bits."""
    if not isinstance(e, Read) or e.source.dtype not in (f16, bf16):
        return f32
    return e.source.dtype if address(e.source, e.at).coefficient(of.lanes) == 1 else f32


def _fitting(registers: dict[Expr, int], most: int) -> dict[Expr, int]:
    """Those that a thread has registers for, the first ones first."""
    out: dict[Expr, int] = {}
    for e, count in registers.items():
        if sum(out.values()) + count <= most:
            out[e] = count
    return out


def _read_alike(body: list[Stmt], of: Over) -> list[Stmt]:
    """The statements with what loops read at one place written in one way: axes may be others, or joined."""
    first: dict[tuple[Buffer, Ix], Expr] = {}
    to: dict[Expr, Expr] = {}
    loops = [s for s in body if is_row_over(s, of)]
    for e in dict.fromkeys(e for s in loops for r in roots(s) for e in parts_of(r, of)):
        if isinstance(e, Read):
            to[e] = first.setdefault((e.source, address(e.source, e.at)), e)

    def read(x: Stmt) -> Stmt:
        assert isinstance(x, Let | Accumulate | StoreTile)
        return replace(x, value=map_expr(x.value, to))

    return [replace(s, body=tuple(map(read, s.body))) if is_row_over(s, of) else s for s in body]


def _stored_at_once(body: list[Stmt], of: Over) -> list[Stmt]:
    """The statements with each store over the row in the first loop that computes its value.

    No loop reads what another stores, and each destination has one store, so nothing depends on their order.
    """
    loops = [i for i, s in enumerate(body) if is_row_over(s, of)]
    made: list[dict[Expr, Expr]] = []  # by each loop: values, and the names that it has for them
    for i in loops:
        loop = body[i]
        assert isinstance(loop, For)
        named = _named(loop)
        parts = {e: e for r in roots(loop) for e in parts_of(r, of)}
        made.append(parts | {whole: name for name, whole in named.items()})
        kept: list[Stmt] = []
        for x in loop.body:
            whole = map_expr(x.value, named) if isinstance(x, StoreTile) else None
            first = next((n for n, m in enumerate(made[:-1]) if whole in m), None)
            if not isinstance(x, StoreTile) or whole is None or first is None:
                kept.append(x)
                continue
            earlier = body[loops[first]]
            assert isinstance(earlier, For)
            moved = replace(x, value=made[first][whole])
            body[loops[first]] = replace(earlier, body=(*earlier.body, moved))
        body[i] = replace(loop, body=tuple(kept))
    return body


def is_row(s: For, lanes: Axis | None) -> bool:
    """A loop over all lanes of a row, or over points inside one over `lanes`, with no loop inside."""
    shared = s.lanes if lanes is None else s.dealt
    return shared and all(isinstance(x, Let | Accumulate | StoreTile) for x in s.body)


def is_row_over(s: Stmt, of: Over) -> TypeGuard[For]:
    """The same over this axis; another loop over it may run through a row one element after the other."""
    lanes = None if of.lanes == of.axis else of.lanes
    return isinstance(s, For) and is_row(s, lanes) and s.axis == of.axis


def most_of(span: Ix) -> int | None:
    """The most that it can be, also where it is the lesser of two; None if there is no bound."""
    found = [span.bounds()[1]]
    for monomial, factor in span.terms:
        least = monomial[0]
        if len(monomial) == 1 and factor > 0 and isinstance(least, MinMax) and least.is_min:
            rest = span - of_atom(least) * factor
            found += [most_of(rest + side * factor) for side in (least.left, least.right)]
    return min((n for n in found if n is not None), default=None)


def over_axis(s: Stmt, others: frozenset[Axis], axis: Axis) -> Stmt:
    """The statement with one axis in place of the others, in the values that it names too."""
    to: dict[Axis, Ix] = dict.fromkeys(others, ix(axis))

    def name(n: Local) -> Local:
        axes = n.axes - others | (frozenset({axis}) if n.axes & others else frozenset[Axis]())
        renamed = local(n.name, axes, n.dtype)
        assert isinstance(renamed, Local)
        return renamed

    def value(e: Expr) -> Expr:
        locals_: dict[Expr, Expr] = {x: name(x) for x in walk([e]) if isinstance(x, Local)}
        return map_expr(substitute(e, to), locals_)

    def lanes(a: Axis | None) -> Axis | None:
        return axis if a in others else a

    match s:
        case Let():
            return Let(name(s.name), value(s.value), lanes(s.lanes))
        case Accumulator():
            return replace(s, name=name(s.name), lanes=lanes(s.lanes))
        case Accumulate():
            return replace(s, into=name(s.into), value=value(s.value), lanes=lanes(s.lanes))
        case Finish():
            return replace(s, name=name(s.name), source=name(s.source))
        case StoreTile():
            at = tuple(i.substitute(to) for i in s.at)
            return replace(s, at=at, value=value(s.value), lanes=lanes(s.lanes))
        case For():
            inner = tuple(over_axis(x, others, axis) for x in s.body)
            return replace(s, axis=lanes(s.axis) or s.axis, body=inner)
        case _:
            return s


def parts_of(root: Expr, of: Over) -> list[Expr]:
    """What varies with the lanes in the value, operands first; of what has no vector form, the whole alone."""
    out: list[Expr] = []
    stack, seen = [(root, False)], set[Expr]()
    while stack:
        e, is_done = stack.pop()
        if is_done:
            out.append(e)
        elif e not in seen and of.vary(e):
            seen.add(e)
            stack.append((e, True))
            if not of.is_per_lane(e):
                stack.extend((c, False) for c in reversed(children(e)))
    return out


def roots(s: For) -> list[Expr]:
    """What the loop adds up and stores, with what it names written out."""
    named = _named(s)
    return [map_expr(x.value, named) for x in s.body if isinstance(x, Accumulate | StoreTile)]


def _named(s: For) -> dict[Expr, Expr]:
    """What the names of the loop stand for, written out."""
    out: dict[Expr, Expr] = {}
    for x in s.body:
        if isinstance(x, Let):
            out[x.name] = map_expr(x.value, out)
    return out


def _reads(loops: list[For], of: Over) -> list[Expr]:
    """All that the loops read over the lanes, in order, but first what more than one of them reads."""
    counts: Counter[Expr] = Counter(
        e
        for s in loops
        for e in dict.fromkeys(e for r in roots(s) for e in parts_of(r, of))
        if isinstance(e, Read) and e.dtype is f32
    )
    return sorted(counts, key=lambda e: counts[e] == 1)


def _computed(loops: list[For], of: Over, reads: dict[Expr, int], size: int) -> list[Expr]:
    """What more than one of the loops computes, less what is cheap to make of `reads`.

    `reads` are held, in so many registers each; a value takes `size`.
    """
    return shared_by(loops, of, lambda e: e.dtype is f32 and not _is_cheap(e, of, reads, size))


def shared_by(loops: list[For], of: Over, is_wanted: Callable[[Expr], bool]) -> list[Expr]:
    """What is wanted of all that more than one of the loops computes, in order; of values in each other the whole."""
    counts = Counter(e for s in loops for e in {e for r in roots(s) for e in parts_of(r, of)})
    out: dict[Expr, None] = {}
    for s in loops:
        stack, seen = list(reversed(roots(s))), set[Expr]()
        while stack:
            e = stack.pop()
            if e in seen or not of.vary(e) or isinstance(e, Read):
                continue
            seen.add(e)
            if counts[e] > 1 and is_wanted(e):
                out.setdefault(e)
            elif not of.is_per_lane(e):
                stack.extend(reversed(children(e)))
    return list(out)


def _is_cheap(e: Expr, of: Over, reads: dict[Expr, int], size: int) -> bool:
    """Whether a sum or product, or two, make the value of what is held in fewer registers than it takes."""
    inside = parts_of(e, of)
    steps = [x for x in inside if x not in reads]
    few = len(steps) <= 2 and sum(reads[x] for x in inside if x in reads) < size
    return few and all(isinstance(x, Prim) and x.op in (Op.ADD, Op.MUL) for x in steps)


@dataclass
class HeldLoops:
    """Rewrites loops over a row to what is held, and has the first that computes a value keep it."""

    of: Over
    names: dict[Expr, Local]  # of what is held
    known: set[Expr]  # what of it is there

    def body(self, s: For) -> tuple[Stmt, ...]:
        named: dict[Expr, Expr] = {}
        out: list[Stmt] = []
        for x in s.body:
            assert isinstance(x, Let | Accumulate | StoreTile)
            for e in parts_of(x.value, self.of):
                whole = map_expr(e, named)
                if whole in self.names and whole not in self.known:
                    out.append(Keep(self.names[whole], self.written(e, named), self.of.lanes))
                    self.known.add(whole)
            value = self.written(x.value, named)
            if isinstance(x, Let):
                named[x.name] = map_expr(x.value, named)
            if not (isinstance(x, Let) and named[x.name] in self.known):
                out.append(replace(x, value=value))
        return _used(out)

    def written(self, e: Expr, named: dict[Expr, Expr]) -> Expr:
        """The value with what is held under its names; `named` has what the loop's own names stand for."""
        parts = parts_of(e, self.of)
        wholes = {x: map_expr(x, named) for x in parts}
        to: dict[Expr, Expr] = {x: self.names[w] for x, w in wholes.items() if w in self.known}
        to |= {x: x for x in parts if self.of.is_per_lane(x) and x not in to}
        return map_expr(e, to)


def _used(body: list[Stmt]) -> tuple[Stmt, ...]:
    """The statements without names that none of them uses."""
    out: list[Stmt] = []
    used: set[Expr] = set()
    for x in reversed(body):
        assert isinstance(x, Let | Accumulate | StoreTile | Keep)
        if not isinstance(x, Let) or x.name in used:
            used.update(walk([x.value]))
            out.append(x)
    return tuple(reversed(out))
