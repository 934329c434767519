"""roles: the text of a tile program with a producer and consumers, whose operands come through tensor maps.

Of a contraction it is one call, which hands each tile to the rest; of a stream it is the producer's part, then the
consumers'.
"""

from __future__ import annotations

from collections.abc import Mapping

from lumigen.emit.expression import Renderer
from lumigen.emit.lines import Lines, joined, used
from lumigen.index import ix
from lumigen.targets.cuda.block import count, declarations, statements_of
from lumigen.tile import Bind, Contract, ForTile, Stream, TensorMap, TileKind, TileProgram

BAND = 2048  # rows that blocks walk down before the next columns: what they read stays in the cache


def role_lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    """The body of the kernel; `dims` spells its dims."""
    if any(isinstance(s, Stream) for s in program.body):
        return _flow_lines(program, dims)
    return _contract_lines(program, dims)


def _flow_lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    """What bounds the stream, its producer, and the rest, in which the stream's loop is one of the consumers'."""
    stream = next(s for s in program.body if isinstance(s, Stream))
    place = [s for s in program.body if isinstance(s, Bind)]
    rest = [s for s in program.body if not isinstance(s, Bind)]
    statements = statements_of(program, dims)
    r = Renderer(dims, place=statements.place)
    batches: list[str] = []
    for name, t, tile in zip("abc", program.maps, stream.tiles, strict=True):
        group, batch = (*(ix(0),) * (2 - len(tile.batch)), *tile.batch)
        at = f"{count(r, batch)}, {count(r, group)}"
        batches.append(f"const Batch {name} = {{{_map(t)}, {at}}};")
    row, lo, hi = (count(r, i) for i in (stream.rows[0].major_lo, stream.lo, stream.hi))
    producer = r.lines(
        *batches,
        f"const Flow<Tile> flow(a, b, c, {row}, {lo}, {hi}, shared);",
        "if (flow.feeds()) return flow.feed();",
        "grow_registers<Tile::kRegisters>();",
    )
    ahead = statements.lines(place)
    return joined([ahead, producer, declarations(program), statements.lines(rest)])


def _contract_lines(program: TileProgram, dims: Mapping[str, str]) -> Lines:
    """The program begins with the place of its tile: row, column and batch."""
    contract = next(s for s in program.body if isinstance(s, Contract))
    place = [s.axis for s in program.body if isinstance(s, Bind)][:3]
    band = max(1, BAND // contract.acc.dims[0].const)
    sizes = (contract.m.extent, contract.n.extent, place[2].extent, contract.k.extent)
    statements = statements_of(program, dims)
    r = Renderer(dims, place=statements.place)
    extent = ", ".join([*(count(r, i) for i in sizes), str(band)])
    boxes = [
        f"const Boxes {name} = {{{_map(t)}, {count(r, t.share)}}};"
        for name, t in zip("ab", program.maps, strict=True)
    ]
    rest = [s for s in program.body[3:] if not isinstance(s, Contract)]
    if statements.packets is not None:
        starts = {s.axis: s.value for s in program.body if isinstance(s, Bind)}
        for s in rest:
            if isinstance(s, ForTile):
                statements.packets.starts[s.n] = s.n_lo.substitute(starts)
    fields = zip(place, ("row", "column", "batch"), strict=True)
    inner = [Lines((f"const {r.place} {a.name} = at.{f};",), binds=a.name) for a, f in fields]
    inner = joined(used([*inner, *statements.parts(rest)]))
    call, more = (
        ("contract_split", "") if is_split(program) else ("contract_tiles", ", auto& stage")
    )
    function = f"[&](auto& {contract.acc}, TileAt at{more}) {{"
    head = f"{call}<Tile>(a, b, Extent{{{extent}}}, shared, {function}"
    return r.lines(*boxes, head, inner.indented(), "});")


def is_split(program: TileProgram) -> bool:
    """Whether the blocks of a cluster share a tile, and leave when it is done."""
    return program.tile is not None and program.tile.kind is TileKind.SPLIT


def box_lines(program: TileProgram) -> str:
    """What the maps say of boxes, as the tile must have it too."""
    boxes = ((t.name[-1].upper(), t.box_lines) for t in program.maps)
    return " && ".join(f"Tile::Panel{name}::kBoxLines == {lines}" for name, lines in boxes)


def _map(t: TensorMap) -> str:
    return f"reinterpret_cast<const CUtensorMap*>(&args.{t.name})"
