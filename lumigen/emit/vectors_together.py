"""vectors_together: the text of a loop over lanes that takes several vectors together, in which folds run.

    for_vectors<8>(256, [&](int64_t i0_first, auto vectors) {
      Several<8> acc0 = several<8>(0.0f);
      for (int64_t k0 = 0; k0 < 32; ++k0) {
        for_turns(vectors, i0_first, [&](int64_t i0, auto lanes, int turn) {
          acc0[turn] = fma(splat(x[k0]), load(w + 256 * k0 + i0, lanes), acc0[turn]);
        });
      }
      ...

Statements over lanes that follow one another are a run of their own, for each vector in turn. What one run computes and
another one reads is an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lumigen.emit.folds import neutral
from lumigen.emit.lines import Lines, joined
from lumigen.region import Expr, Local, walk
from lumigen.tile import Accumulate, Accumulator, For, Let, Stmt, StoreTile

if TYPE_CHECKING:
    from lumigen.emit.expression import Renderer
    from lumigen.emit.statements import Statements

Run = tuple[Let | Accumulate | StoreTile, ...]


def for_vectors(s: For, of: Statements, r: Renderer) -> Lines:
    """The loop, of as many vectors together as it says."""
    count = s.together
    named = set(_accumulators(s.body))
    arrays = frozenset(_shared([*_runs_inside(s.body)]) | named)
    body = _lines(s.body, s, count, arrays, of)
    head = (
        f"for_vectors<{count}>({r.index(s.hi - s.lo)}, [&]({of.place} {_first(s)}, auto vectors) {{"
    )
    return r.lines(head, body.indented(), "});")


def _accumulators(stmts: Iterable[Stmt]) -> Iterator[str]:
    for x in stmts:
        if isinstance(x, Accumulator):
            yield x.name.name
        elif isinstance(x, For):
            yield from _accumulators(x.body)


def _first(s: For) -> str:
    return f"{s.axis.name}_first"


def _lines(
    stmts: Iterable[Stmt], s: For, count: int, arrays: frozenset[str], of: Statements
) -> Lines:
    out: list[Lines] = []
    for x in _runs(stmts):
        r = of.renderer(None)
        match x:
            case tuple():
                out += [
                    Lines((f"Several<{count}> {name};",)) for name in _named(x) if name in arrays
                ]
                out.append(_run(x, s, arrays, of))
            case Accumulator():
                start = f"several<{count}>({neutral(x.monoid, x.name.dtype)})"
                out.append(Lines((f"Several<{count}> {x.name.name} = {start};",)))
            case For():
                axis, ends = x.axis.name, (r.index(x.lo), r.index(x.hi))
                head = f"for ({of.place} {axis} = {ends[0]}; {axis} < {ends[1]}; ++{axis}) {{"
                inner = _lines(x.body, s, count, arrays, of)
                out.append(r.lines(*unrolled(x), head, inner.indented(), "}"))
            case _:
                out.append(of.statement(x, r))
    return joined(out)


def unrolled(s: For) -> list[str]:
    """What stands before a loop of which several turns have a text of their own."""
    return [f"#pragma GCC unroll {s.unrolled}"] if s.unrolled > 1 else []


def _run(run: Run, s: For, arrays: frozenset[str], of: Statements) -> Lines:
    """The statements for each of the vectors, in turn."""
    place, axis = of.place, s.axis.name
    parts: list[Lines] = []
    with of.in_turn(arrays):
        for x in run:
            r = of.renderer(s.axis)
            if isinstance(x, Let) and x.name.name in arrays:
                parts.append(r.lines(f"{r.vector(x.name).code} = {r.vector(x.value).code};"))
            else:
                parts.append(of.statement(x, r))
    inner = joined(parts)
    r = of.renderer(None)
    if s.lo != 0 and axis in inner.names:
        inner = joined([r.lines(f"const {place} {axis} = {r.index(s.lo)} + {axis}_offset;"), inner])
        axis = f"{axis}_offset"
    else:
        axis = inner.named(axis)
    parameters = f"{place} {axis}, auto {inner.named('lanes')}, int {inner.named('turn')}"
    head = f"for_turns(vectors, {_first(s)}, [&]({parameters}) {{"
    return r.lines(head, inner.indented(), "});")


def _runs(stmts: Iterable[Stmt]) -> Iterator[Run | Stmt]:
    """The statements over lanes that follow one another, and the others."""
    run: list[Let | Accumulate | StoreTile] = []
    for x in map(_named_start, stmts):
        if isinstance(x, Accumulate | StoreTile) or (isinstance(x, Let) and x.lanes is not None):
            run.append(x)
            continue
        if run:
            yield tuple(run)
            run = []
        yield x
    if run:
        yield tuple(run)


def _named_start(x: Stmt) -> Stmt:
    """An accumulator that starts at a vector, as the value of that vector."""
    if isinstance(x, Accumulator) and x.start is not None:
        return Let(x.name, x.start, x.lanes)
    return x


def _runs_inside(stmts: Iterable[Stmt]) -> Iterator[Run]:
    for x in _runs(stmts):
        if isinstance(x, tuple):
            yield x
        elif isinstance(x, For):
            yield from _runs_inside(x.body)


def _named(run: Run) -> list[str]:
    return [x.name.name for x in run if isinstance(x, Let)]


def _shared(runs: Sequence[Run]) -> set[str]:
    """What one run names and another one reads."""
    read = [{e.name for e in walk(_values(run)) if isinstance(e, Local)} for run in runs]
    return {
        name
        for number, run in enumerate(runs)
        for name in _named(run)
        if any(name in names for other, names in enumerate(read) if other != number)
    }


def _values(run: Run) -> list[Expr]:
    return [x.value for x in run]
