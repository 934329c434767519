"""roles: the text of a tile program with a producer and consumers: one call, which hands each tile to the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lumigen.emit.expression import Renderer
from lumigen.emit.statements import INDENT, Statements
from lumigen.tile import Bind, Contract, TileProgram

BAND = 1024  # rows that blocks walk down before the next columns: what they read stays in the cache


def tile_lines(program: TileProgram, dims: Mapping[str, str] | None = None) -> list[str]:
    """The body of the kernel; `dims` spells its dims, which are nameless without it.

    The program begins with the place of its tile: row, column and batch.
    """
    contract = next(s for s in program.body if isinstance(s, Contract))
    place = [s.axis for s in program.body if isinstance(s, Bind)][:3]
    band = max(1, BAND // contract.acc.dims[0].const)
    sizes = (contract.m.extent, contract.n.extent, place[2].extent, contract.k.extent)
    index = Renderer(dims or {}).index
    extent = ", ".join([*(_int(index(i)) for i in sizes), str(band)])
    boxes = [
        f"const Boxes {name} = {{reinterpret_cast<const CUtensorMap*>(&args.{t.name}), {_int(index(t.share))}, false}};"
        for name, t in zip("ab", program.maps, strict=True)
    ]
    starts = zip(place, ("row", "column", "batch"), strict=True)
    inner = [f"const int64_t {axis.name} = at.{field};" for axis, field in starts]
    rest = [s for s in program.body[3:] if not isinstance(s, Contract)]
    inner += Statements(program, dims).lines(rest)
    call, more = ("contract_split", "") if is_split(program) else ("contract_tiles", ", auto&")
    return [
        *boxes,
        f"{call}<Tile>(a, b, Extent{{{extent}}}, shared, [&](auto& {contract.acc}, TileAt at{more}) {{",
        *(INDENT + line for line in _used(inner)),
        "});",
    ]


def is_split(program: TileProgram) -> bool:
    """Whether the blocks of a cluster share a tile, and leave when it is done."""
    return program.tile.startswith("SplitTile")


def box_lines(program: TileProgram) -> str:
    """What the maps say of boxes, as the tile must have it too."""
    a, b = (t.box_lines for t in program.maps)
    return f"Tile::PanelA::kBoxLines == {a} && Tile::PanelB::kBoxLines == {b}"


def _used(lines: list[str]) -> Iterator[str]:
    """Without the places that nothing asks for."""
    for number, line in enumerate(lines):
        named = re.match(r"const int64_t (\w+) = ", line)
        if named is None or _stands_in(named[1], lines[number + 1 :]):
            yield line


def _stands_in(name: str, lines: Iterable[str]) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in lines)


def _int(text: str) -> str:
    return text if text.isdigit() else f"static_cast<int>({text})"
