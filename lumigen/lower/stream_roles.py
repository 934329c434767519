"""stream_roles: the form of `stream` for Hopper, whose operands a tensor copy engine brings into shared memory.

Before: a region with a fold around a contraction, of 16-bit operands that the engine can fetch, tiles of it large
enough for wgmma.  After: the tile program of `stream` in which one warpgroup of a block brings the tiles and the others
have 64 rows of the result each.

Sites: `rows` of a block, `columns` and `depth` that hold the result's row and the inner contraction's, `step` points
of the folded axis in a slot of the rings, and `slots`.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.index import Axis
from lumigen.lower.contract import Form
from lumigen.lower.mapped import BOX, Mapped
from lumigen.lower.stream import StreamBuilder, find_streamable, size
from lumigen.region import Buffer, Expr, Region
from lumigen.schedule import schedule
from lumigen.tile import BlockTile, MapTile, Streamed, TileKind, TileProgram, reads_memory

SITES = ("rows", "columns", "depth", "step", "slots")
# For the longest of a row of the result and of the inner contraction: what fills the registers and shared memory.
# Rows of 64 leave them to three warpgroups, but not where maps of the scores read memory as well.
TILES = (
    (64, (192, 64, 64, 128, 2)),
    (64, (128, 64, 64, 128, 2)),
    (128, (128, 128, 128, 128, 2)),
    (256, (128, 256, 256, 64, 1)),
)
ROWS_OF_TWO = 128  # of two warpgroups
BATCHES = 2  # dimensions of a map beside lines and elements


def stream_roles(region: Region) -> tuple[Form, ...]:
    """How a region's cascade lies on Hopper; none if it has another form."""
    for longest, tile in TILES:
        sizes = schedule("cascade_roles", dict(zip(SITES, tile, strict=True)))
        found = find_streamable(region.stores, sizes["rows"])
        if found is None:
            return ()
        if max(size(found.cascade.rows), size(found.cascade.inner.axes)) > longest:
            continue
        builder = _Builder(region, found, sizes)
        if not builder.is_fetched():
            return ()
        program = builder.program()
        if sizes["rows"] <= ROWS_OF_TWO or not _maps_read_memory(program):
            return (Form(sizes, program),)
    return ()


def _maps_read_memory(program: TileProgram) -> bool:
    maps = (s for s in program.statements() if isinstance(s, MapTile))
    return any(reads_memory((*s.body, s.result)) for s in maps)


class _Builder(StreamBuilder):
    def is_fetched(self) -> bool:
        """Whether the engine takes all operands, and tiles are not mostly empty."""
        operands = self.fetched()
        if operands is None or any(o.source.dtype is not self.found.element for o in operands):
            return False
        return all(x.extent.estimate() >= BOX for x in (self.m, self.k, self.e, self.d))

    def fetched(self) -> tuple[Mapped, ...] | None:
        """The operands as the engine sees them."""
        out: list[Mapped] = []
        for _, value, major, depth in self.operands:
            found = Mapped.of(self.over(value), major, depth, self.found.grid)
            if found is None or len(found.batches()) > BATCHES:
                return None
            out.append(found)
        return tuple(out)

    def streamed(self, tile: Buffer, e: Expr, major: Axis, depth: Axis) -> Streamed:
        found = Mapped.of(self.over(e), major, depth, self.found.grid)
        assert found is not None, "asked before"
        batch = tuple(b.at for b in found.batches())
        return replace(super().streamed(tile, e, major, depth), map=_map_of(tile), batch=batch)

    def placed(self, program: TileProgram) -> TileProgram:
        operands = self.fetched()
        assert operands is not None, "asked before"
        majors = (self.sizes["rows"], self.sizes["step"], self.sizes["columns"])
        each = tuple((s, self.sizes[s]) for s in SITES)
        deep = tuple(o.is_deep for o in operands)
        tiles = (self.a_tile, self.b_tile, self.c_tile)
        maps = (
            o.boxes(_map_of(tile), lines, o.batches())
            for tile, o, lines in zip(tiles, operands, majors, strict=True)
        )
        return replace(
            program,
            skeleton="cascade_roles",
            threads=128 * (1 + self.sizes["rows"] // 64),
            tile=BlockTile(TileKind.CASCADE_ROLES, each, self.found.element, deep),
            maps=tuple(maps),
        )


def _map_of(tile: Buffer) -> str:
    return f"map_{tile.name[0]}"
