"""hold: what several loops over a row read stays in the registers of the threads that share it.

Before: a program of teams in which loops over the same lanes follow one another, each with its own axis.  After: they
run over one axis, in as many parts as a thread has vectors of the row, and what two of them read is loaded by the
first. Rows of unknown length, and rows that need more registers than a thread has to spare, are read again: they are
in the caches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ix
from lumigen.region import Expr, Local, Read, free_axes, local, map_expr, substitute, walk
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

REGISTERS = 64  # of a thread, for what it holds


def hold_rows(program: TileProgram) -> TileProgram:
    if program.threads == 1:
        return program
    body = tuple(_held(s, program) if isinstance(s, For) and s.dealt else s for s in program.body)
    return replace(program, body=body)


def _held(rows: For, program: TileProgram) -> For:
    loops = [s for s in rows.body if isinstance(s, For) and _is_row(s)]
    if len(loops) < 2 or len({s.hi for s in loops}) > 1 or not loops[0].hi.is_const:
        return rows
    axis, extent = loops[0].axis, loops[0].hi.const
    others = frozenset(s.axis for s in loops) - {axis}
    body = tuple(_over(s, others, axis) for s in rows.body)
    parts = -(-extent // (program.team * program.width))
    wanted = _wanted([s for s in body if isinstance(s, For)], axis)
    names: dict[Expr, Expr] = {
        read: local(f"held{i}", free_axes(read), f32)
        for i, read in enumerate(wanted[: REGISTERS // (parts * program.width)])
    }
    if not names:
        return rows
    out: list[Stmt] = [Hold(n, parts) for n in names.values() if isinstance(n, Local)]
    loaded: set[Expr] = set()
    for s in body:
        if isinstance(s, For) and s.axis == axis:
            first = [r for r in names if r in _reads(s) and r not in loaded]
            loaded.update(first)
            keeps = tuple(Keep(n, r, axis) for r in first if isinstance(n := names[r], Local))
            inner = tuple(_with_names(x, names) for x in s.body)
            out.append(replace(s, body=(*keeps, *inner), parts=parts))
        else:
            out.append(s)
    return replace(rows, body=tuple(out))


def _is_row(s: For) -> bool:
    """A loop over all lanes of a row whose statements are over those lanes."""
    plain = all(isinstance(x, Let | Accumulate | StoreTile) for x in s.body)
    return s.lanes and s.lo == 0 and plain


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


def _values(s: For) -> list[Expr]:
    return [x.value for x in s.body if isinstance(x, Let | Accumulate | StoreTile)]


def _reads(s: For) -> set[Expr]:
    return {e for e in walk(_values(s)) if isinstance(e, Read)}


def _wanted(loops: list[For], axis: Axis) -> list[Expr]:
    """What more than one of the loops reads over the lanes, in order."""
    counts = Counter(r for s in loops for r in _reads(s) if axis in free_axes(r) and r.dtype is f32)
    return [r for r, n in counts.items() if n > 1]


def _with_names(s: Stmt, names: dict[Expr, Expr]) -> Stmt:
    if isinstance(s, Let | Accumulate | StoreTile):
        return replace(s, value=map_expr(s.value, names))
    return s
