"""transposed: tiles of a block that are computed along their columns and used along their rows."""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.emit.expression import Renderer
from lumigen.emit.lines import Lines, joined
from lumigen.emit.places import NARROW
from lumigen.emit.statements import WIDENED, Statements
from lumigen.index import Ix
from lumigen.tile import TileProgram, Transposed


@dataclass(frozen=True)
class _Side:
    """The part of an axis that a tile has, and its names in the text."""

    axis: str
    lo: Ix
    hi: Ix

    @property
    def first(self) -> str:
        return f"{self.axis}_lo" if self.lo.axes else ""

    @property
    def end(self) -> str:
        return f"{self.axis}_end" if self.lo.axes else ""

    def names(self, r: Renderer) -> tuple[str, ...]:
        if not self.first:
            return ()
        first = f"const {r.place} {self.first} = {r.index(self.lo)};"
        over = r.index(self.hi - self.lo)
        return first, f"const {r.place} {self.end} = {self.first} + {over};"

    def inside(self, r: Renderer) -> str:
        """The place in the tile."""
        at = f"{self.axis} - {self.first}" if self.first else self.axis
        return at if r.place == NARROW else f"static_cast<int>({at})"


def tiles_of(program: TileProgram) -> Lines:
    """The declarations of a program's tiles."""
    kinds = ((WIDENED.get(b.dtype, "Float32"), b) for b in program.scratch)
    return Lines(tuple(f"__shared__ TransposedTile<{kind}> {b};" for kind, b in kinds))


def transposed_lines(s: Transposed, of: Statements, r: Renderer) -> Lines:
    """Two loops over a tile, with a barrier between them."""
    row = _Side(s.row.name, s.row_lo, s.row_hi)
    column = _Side(s.column.name, s.column_lo, s.column_hi)
    assert of.packets is not None
    of.packets.starts |= {s.row: s.row_lo, s.column: s.column_lo}
    lanes, at = of.renderer(s.column), f"{row.inside(r)}, {column.inside(r)}"
    puts = (lanes.lines(f"{b}.put({at}, {lanes.vector(value).code});") for b, _, value in s.tiles)
    takes = Lines(tuple(f"const Vec {name.name} = {b}.take({at});" for b, name, _ in s.tiles))
    first = joined([of.lines(s.before, s.column), *puts])
    then = joined([takes, of.lines(s.body, s.row)])
    loops = _loop(row, column, first, r), "__syncthreads();", _loop(column, row, then, r)
    return r.lines(*row.names(r), *column.names(r), *loops)


def _loop(outer: _Side, inner: _Side, body: Lines, r: Renderer) -> Lines:
    """The vectors of a tile, those along `inner` dealt to the threads of a team."""
    axis, lane = outer.axis, inner.axis
    start = f"{outer.first} + team_number()" if outer.first else "team_number()"
    each = (
        f"{r.place} {axis} = {start}; {axis} < {outer.end or r.index(outer.hi)}; {axis} += kTeams"
    )
    over = f"{inner.end} - {inner.first}" if inner.first else r.index(inner.hi)
    over = f"{r.use('packed')}, {over}"
    at = f"{lane}_offset" if inner.first else lane
    vectors = f"for_lanes({over}, [&]({r.place} {at}, auto lanes) {{"
    place = [f"  const {r.place} {lane} = {inner.first} + {at};"] if inner.first else []
    inside = Lines((vectors, *place, *body.indented().text, "});"), body.names, body.headers)
    return r.lines(f"for ({each}) {{", inside.indented(), "}")
