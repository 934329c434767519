"""kept_rows: what several loops over a row compute stays in a row of scratch, where it takes longer than to read it.

Before: a program of one thread's tasks, in which loops over the lanes of a row follow one another, each with its own
axis.  After: they run over one axis. The first that computes a value with a root or a transcendental function in it
stores the value in scratch, and the others read it there. Rows of unknown length, and longer ones than asked for, are
computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lumigen.dtype import DType, f32, f64
from lumigen.index import ix
from lumigen.lower.contractions import COSTLY
from lumigen.lower.hold import (
    HeldLoops,
    Over,
    is_row,
    is_row_over,
    most_of,
    over_axis,
    shared_by,
)
from lumigen.region import (
    Buffer,
    Expr,
    Intrinsic,
    Local,
    Prim,
    Role,
    free_axes,
    local,
    map_expr,
    read,
    walk,
)
from lumigen.tile import Accumulate, For, Keep, Let, Stmt, StoreTile, TileProgram


def keep_rows(program: TileProgram, most: int, dtypes: frozenset[DType]) -> TileProgram:
    """Of rows of at most so many elements; vectors have these dtypes."""
    kept = _KeptRows(most, dtypes)
    body = tuple(kept.within(s) if isinstance(s, For) and not s.lanes else s for s in program.body)
    return replace(program, body=body, scratch=(*program.scratch, *kept.scratch))


@dataclass
class _KeptRows:
    most: int
    dtypes: frozenset[DType]
    scratch: list[Buffer] = field(default_factory=list[Buffer])

    def within(self, rows: For) -> For:
        """The body of a row with what its loops share in scratch."""
        loops = [s for s in rows.body if isinstance(s, For) and is_row(s, None)]
        extent = most_of(loops[0].hi - loops[0].lo) if loops else None
        if extent is None or extent > self.most or len({(s.lo, s.hi) for s in loops}) > 1:
            return rows
        axis = loops[0].axis
        others = frozenset(s.axis for s in loops) - {axis}
        body = [over_axis(s, others, axis) for s in rows.body]
        of = Over(axis, axis, 1, self.dtypes)
        loops = [s for s in body if is_row_over(s, of)]
        shared = shared_by(loops, of, lambda e: e.dtype in (f32, f64) and _has_function(e, of))
        if not shared:
            return rows
        names: dict[Expr, Local] = {}
        places: dict[Expr, Buffer] = {}
        for e in shared:
            name = local(f"kept{len(self.scratch)}", free_axes(e), e.dtype)
            assert isinstance(name, Local)
            row = Buffer(f"row{len(self.scratch)}", Role.SCRATCH, (ix(extent),), e.dtype)
            names[e], places[name] = name, row
            self.scratch.append(row)
        kept = HeldLoops(of, names, set())
        out = (
            replace(s, body=_stored(kept.body(s), places, s)) if is_row_over(s, of) else s
            for s in body
        )
        return replace(rows, body=tuple(out))


def _stored(body: tuple[Stmt, ...], places: dict[Expr, Buffer], loop: For) -> tuple[Stmt, ...]:
    """The body of a loop with what it keeps stored, and what was kept before read."""
    at = (ix(loop.axis) - loop.lo,)
    names = {x.name for x in body if isinstance(x, Keep)}
    there = {n: read(row, at) for n, row in places.items() if n not in names}
    out: list[Stmt] = []
    for x in body:
        assert isinstance(x, Let | Accumulate | StoreTile | Keep)
        value = map_expr(x.value, there)
        if isinstance(x, Keep):
            out.append(Let(x.name, value, x.lanes))
            out.append(StoreTile(places[x.name], at, x.name, x.lanes))
        else:
            out.append(replace(x, value=value))
    return tuple(out)


def _has_function(e: Expr, of: Over) -> bool:
    inside = (x for x in walk([e]) if of.vary(x))
    return any(isinstance(x, Intrinsic) or (isinstance(x, Prim) and x.op in COSTLY) for x in inside)
