"""hold: what the loops over a row share stays in the registers of the threads that share the row.

Before: a program of teams in which loops over the same lanes follow one another, each with its own axis.  After: they
run over one axis, in as many parts as a thread has vectors of the row. What one of them reads is loaded ahead of it,
all at once; what two of them compute is kept by the first. Rows of unknown length, and rows that need more registers
than a thread has to spare, are read again: they are in the caches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from lumigen.dtype import f32
from lumigen.index import Axis, Extremum, Ix, ix, of_atom
from lumigen.lower.scope import is_per_lane
from lumigen.region import (
    Expr,
    Local,
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
    Finish,
    For,
    Hold,
    Keep,
    Let,
    Stmt,
    StoreTile,
    TileProgram,
)

REGISTERS = 64  # of a thread, for what it reads, and as many for what it computes


def hold_rows(program: TileProgram) -> TileProgram:
    if program.threads == 1:
        return program
    body = tuple(_held(s, program) if isinstance(s, For) and s.dealt else s for s in program.body)
    return replace(program, body=body)


def _held(rows: For, program: TileProgram) -> For:
    loops = [s for s in rows.body if isinstance(s, For) and _is_row(s)]
    extent = _most(loops[0].hi - loops[0].lo) if loops else None
    if extent is None or len({(s.lo, s.hi) for s in loops}) > 1:
        return rows
    axis = loops[0].axis
    others = frozenset(s.axis for s in loops) - {axis}
    body = tuple(_over(s, others, axis) for s in rows.body)
    parts = -(-extent // (program.team * program.width))
    loops = [s for s in body if isinstance(s, For) and s.axis == axis]
    room = REGISTERS // (parts * program.width)
    held = (*_reads(loops, axis)[:room], *_computed(loops, axis)[:room])
    if not held:
        return rows
    names: dict[Expr, Local] = {}
    for e in held:
        name = local(f"held{len(names)}", free_axes(e), f32)
        assert isinstance(name, Local)
        names[e] = name
    kept = _Kept(axis, names)
    out: list[Stmt] = [Hold(n, parts) for n in names.values()]
    for s in body:
        if not (isinstance(s, For) and s.axis == axis):
            out.append(s)
            continue
        loads = kept.loads(s)
        if loads:
            out.append(replace(s, body=loads, parts=parts))
        out.append(replace(s, body=kept.body(s), parts=parts))
    return replace(rows, body=tuple(out))


def _is_row(s: For) -> bool:
    """A loop over all lanes of a row whose statements are over those lanes."""
    return s.lanes and all(isinstance(x, Let | Accumulate | StoreTile) for x in s.body)


def _most(span: Ix) -> int | None:
    """The most that it can be, also where it is the lesser of two; None if there is no bound."""
    found = [span.bounds()[1]]
    for monomial, factor in span.terms:
        least = monomial[0]
        if len(monomial) == 1 and factor > 0 and isinstance(least, Extremum) and least.is_min:
            rest = span - of_atom(least) * factor
            found += [_most(rest + side * factor) for side in (least.left, least.right)]
    return min((n for n in found if n is not None), default=None)


def _over(s: Stmt, others: frozenset[Axis], axis: Axis) -> Stmt:
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
            inner = tuple(_over(x, others, axis) for x in s.body)
            return replace(s, axis=lanes(s.axis) or s.axis, body=inner)
        case _:
            return s


def _parts_of(root: Expr, axis: Axis) -> list[Expr]:
    """What varies with the lanes in the value, operands first; of what has no vector form, the whole alone."""
    out: list[Expr] = []
    stack, seen = [(root, False)], set[Expr]()
    while stack:
        e, is_done = stack.pop()
        if is_done:
            out.append(e)
        elif e not in seen and axis in free_axes(e):
            seen.add(e)
            stack.append((e, True))
            if not is_per_lane(e, axis):
                stack.extend((c, False) for c in reversed(children(e)))
    return out


def _roots(s: For) -> list[Expr]:
    """What the loop adds up and stores, with what it names written out."""
    named: dict[Expr, Expr] = {}
    out: list[Expr] = []
    for x in s.body:
        assert isinstance(x, Let | Accumulate | StoreTile)
        whole = map_expr(x.value, named)
        if isinstance(x, Let):
            named[x.name] = whole
        else:
            out.append(whole)
    return out


def _reads(loops: list[For], axis: Axis) -> list[Expr]:
    """All that the loops read over the lanes, in order, but first what more than one of them reads."""
    counts: Counter[Expr] = Counter(
        e
        for s in loops
        for e in dict.fromkeys(e for r in _roots(s) for e in _parts_of(r, axis))
        if isinstance(e, Read) and e.dtype is f32
    )
    return sorted(counts, key=lambda e: counts[e] == 1)


def _computed(loops: list[For], axis: Axis) -> list[Expr]:
    """What more than one of the loops computes, in order, less what they need for nothing else."""
    counts = Counter(e for s in loops for e in {e for r in _roots(s) for e in _parts_of(r, axis)})
    wanted: dict[Expr, None] = {}
    for s in loops:
        stack, seen = list(reversed(_roots(s))), set[Expr]()
        while stack:
            e = stack.pop()
            if e in seen or axis not in free_axes(e) or isinstance(e, Read):
                continue
            seen.add(e)
            if counts[e] > 1 and e.dtype is f32:
                wanted.setdefault(e)
            elif not is_per_lane(e, axis):
                stack.extend(reversed(children(e)))
    return list(wanted)


@dataclass
class _Kept:
    """Rewrites loops over a row to what is held, and has the first that needs a value keep it."""

    axis: Axis
    names: dict[Expr, Local]  # of what is held
    known: set[Expr] = field(default_factory=set[Expr])  # what of it is there

    def loads(self, s: For) -> tuple[Stmt, ...]:
        """Those of the loop, which go out together: no store or sum stands between them."""
        inside = {e for r in _roots(s) for e in _parts_of(r, self.axis)} - self.known
        reads = {e: n for e, n in self.names.items() if isinstance(e, Read) and e in inside}
        self.known.update(reads)
        return tuple(Keep(n, e, self.axis) for e, n in reads.items())

    def body(self, s: For) -> tuple[Stmt, ...]:
        named: dict[Expr, Expr] = {}
        out: list[Stmt] = []
        for x in s.body:
            assert isinstance(x, Let | Accumulate | StoreTile)
            for e in _parts_of(x.value, self.axis):
                whole = map_expr(e, named)
                if whole in self.names and whole not in self.known:
                    out.append(Keep(self.names[whole], self.written(e, named), self.axis))
                    self.known.add(whole)
            value = self.written(x.value, named)
            if isinstance(x, Let):
                named[x.name] = map_expr(x.value, named)
            if not (isinstance(x, Let) and named[x.name] in self.known):
                out.append(replace(x, value=value))
        return _used(out)

    def written(self, e: Expr, named: dict[Expr, Expr]) -> Expr:
        """The value with what is held under its names; `named` has what the loop's own names stand for."""
        parts = _parts_of(e, self.axis)
        wholes = {x: map_expr(x, named) for x in parts}
        to: dict[Expr, Expr] = {x: self.names[w] for x, w in wholes.items() if w in self.known}
        to |= {x: x for x in parts if is_per_lane(x, self.axis) and x not in to}
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
