"""fragment: statements on fragments of simdgroups and on the numbers of their rows, as plain loops.

A lane visits the elements that it has: for each of its rows the row's numbers, then the elements of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lumigen.dtype import f32
from lumigen.emit.expression import Renderer, literal
from lumigen.emit.lines import Lines, joined, used
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, Ix
from lumigen.region import Buffer, Local, Monoid
from lumigen.targets.metal.product import of_stream
from lumigen.tile import (
    Contract,
    Fill,
    FoldRows,
    ForRows,
    ForTile,
    MapRows,
    MapTile,
    Multiply,
    ScaleRows,
    Stmt,
    Stream,
    TileProgram,
)

Spell = Callable[[Iterable[Stmt]], list[Lines]]
Named = tuple[tuple[Local, Buffer], ...]
BLOCKS = "for (int block = 0; block < Tile::kRowBlocks; ++block) {"
ON_FRAGMENTS = Fill | FoldRows | ForRows | ForTile | MapRows | MapTile | Multiply | ScaleRows


def declarations(program: TileProgram) -> Lines:
    """Fragments and numbers of rows; a product's own have their place where it is."""
    statements = list(program.statements())
    made = {s.acc for s in statements if isinstance(s, Contract)}
    made |= {acc for s in statements if isinstance(s, Contract) for acc, _ in s.more}
    made |= {t.dst for s in statements if isinstance(s, Stream) for t in s.tiles}
    return Lines(tuple(f"{_kind(b)} {b};" for b in program.scratch if b not in made))


def _kind(b: Buffer) -> str:
    return f"Fragment<Tile, {b.dims[1]}>" if len(b.dims) == 2 else "Numbers<Tile>"


def fragment_lines(s: ON_FRAGMENTS, program: TileProgram, spell: Spell, r: Renderer) -> Lines:
    """The text of a statement."""
    match s:
        case Fill():
            return _filled(s, r)
        case Multiply():
            return _multiply(s, program, r)
        case FoldRows():
            how = "Sum" if s.monoid is Monoid.SUM else "Greatest"
            return r.lines(f"fold_rows<{how}>({s.dst}, {s.src});")
        case ScaleRows():
            return r.lines(f"scale_rows({s.acc}, {s.by});")
        case MapRows():
            return _map_rows(s, spell, r)
        case ForRows():
            inside = f"if (own_column == 0 && {s.m.name} < {r.index(s.m_hi)}) {{"
            body = joined(used(spell(s.body)))
            head = (*_row(s.m, s.m_lo, s.rows, r), inside)
            return r.lines(BLOCKS, *_in(*head), body.indented().indented(), "  }", "}")
        case ForTile():
            return _for_tile(s, spell, r)
        case MapTile():
            return _map_tile(s, spell, r)


def _filled(s: Fill, r: Renderer) -> Lines:
    if len(s.dst.dims) == 1:
        return r.lines(f"fill_rows({s.dst}, {literal(s.value, f32)});")
    if s.value != 0:
        raise LoweringFailed(step="emit", what=f"a fragment of {s.value}")
    return r.lines(f"clear({s.dst});")


def _multiply(s: Multiply, program: TileProgram, r: Renderer) -> Lines:
    """Of two tiles, or of a fragment and a tile."""
    streams = (x for x in program.statements() if isinstance(x, Stream))
    deep = {b.name: str(b.is_deep).lower() for x in streams for b in of_stream(x)}
    a, b = str(s.a), str(s.b)
    start = () if s.add else (f"clear({s.acc});",)
    if a in deep:
        text = f"multiply_tiles<{deep[a]}, {deep[b]}>({s.acc}, {a}, {b}, thread_number);"
    else:
        text = f"multiply_weights<{deep[b]}>({s.acc}, {a}, {b});"
    return r.lines(*start, text)


def _map_rows(s: MapRows, spell: Spell, r: Renderer) -> Lines:
    """All values are computed before any of them is kept."""
    body = joined(used(spell(s.body)))
    values = [(b, r.scalar(value).code) for b, value in s.results]
    kept = [f"const float new_{b} = {value};" for b, value in values]
    kept += [f"{b}.at[block] = new_{b};" for b, _ in values]
    return r.lines(BLOCKS, *_in(*_numbers(s.rows), ""), body.indented(), *_in(*kept), "}")


def _for_tile(s: ForTile, spell: Spell, r: Renderer) -> Lines:
    body = joined(used(spell(s.body)))
    names = [f"const float {x.name} = element({acc}, block, part);" for x, acc in _each(s)]
    return _elements(s, r, s.acc, [f"if ({_inside(s, r)}) {{", *_in(*names), body.indented(), "}"])


def _map_tile(s: MapTile, spell: Spell, r: Renderer) -> Lines:
    body = joined(used(spell(s.body)))
    result = r.scalar(s.result).code
    names = [f"const float {x.name} = element({src}, block, part);" for x, src in _each(s)]
    if s.otherwise is None:
        return _elements(
            s, r, s.dst, [*names, body, f"set_element({s.dst}, block, part, {result});"]
        )
    lines = [f"float own_value = {literal(s.otherwise, f32)};", f"if ({_inside(s, r)}) {{"]
    last = [*_in(f"own_value = {result};"), "}", f"set_element({s.dst}, block, part, own_value);"]
    return _elements(s, r, s.dst, [*lines, *_in(*names), body.indented(), *last])


def _each(s: ForTile | MapTile) -> Named:
    """The names of an element, and of those of other fragments at the same place."""
    return ((s.value, s.acc if isinstance(s, ForTile) else s.src), *s.more)


def _inside(s: ForTile | MapTile, r: Renderer) -> str:
    return f"{r.use(s.m.name)} < {r.index(s.m_hi)} && {r.use(s.n.name)} < {r.index(s.n_hi)}"


def _elements(s: ForTile | MapTile, r: Renderer, of: Buffer, inner: list[str | Lines]) -> Lines:
    """The loop over a lane's elements, those of a row together."""
    count = f"Fragment<Tile, {of.dims[1]}>::kParts"
    names = joined(x for x in inner if isinstance(x, Lines)).names | r.uses.names
    row = _row(s.m, s.m_lo, s.rows, r) if s.m.name in names else _numbers(s.rows)
    column = _at(s.n, s.n_lo, "own_column + column_of(part)", r) if s.n.name in names else ""
    body = [x.indented().indented() if isinstance(x, Lines) else f"    {x}" for x in inner]
    return r.lines(
        "LUMIGEN_UNROLL",
        BLOCKS,
        *_in(*row),
        "  LUMIGEN_UNROLL",
        f"  for (int part = 0; part < {count}; ++part) {{",
        *([f"    const {r.place} {column};"] if column else ()),
        *body,
        "  }",
        "}",
    )


def _row(m: Axis, lo: Ix, rows: Named, r: Renderer) -> tuple[str, ...]:
    """The row of a block that a lane has, and its numbers."""
    return (f"const {r.place} {_at(m, lo, 'own_row + 8 * block', r)};", *_numbers(rows))


def _numbers(rows: Named) -> tuple[str, ...]:
    return tuple(f"const float {name.name} = {b}.at[block];" for name, b in rows)


def _at(axis: Axis, lo: Ix, step: str, r: Renderer) -> str:
    return f"{axis.name} = {f'{r.index(lo)} + ' if lo != 0 else ''}{step}"


def _in(*lines: str) -> tuple[str, ...]:
    return tuple(f"  {line}" for line in lines if line)
