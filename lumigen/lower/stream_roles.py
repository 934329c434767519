"""stream_roles: the form of `stream` for Hopper, whose operands a tensor copy engine brings into shared memory.

Before: a region with a fold around a contraction, of 16-bit operands that the engine can fetch, tiles of it large
enough for wgmma.  After: the tile program of `stream` in which one warpgroup of a block brings the tiles and the others
have 64 rows of the result each.

Sites: `rows` of a block, `columns` and `depth` that hold the result's row and the inner contraction's, `step` points
of the folded axis in a slot of the rings, and `slots`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from lumigen.condition import Cmp
from lumigen.index import Axis
from lumigen.lower.built import Built, check
from lumigen.lower.cascade import Cascade
from lumigen.lower.mapped import Mapped
from lumigen.lower.stream import StreamBuilder
from lumigen.lower.streamable import Streamable
from lumigen.machine import Copies, StreamingGpu
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Expr
from lumigen.schedule import Schedule, schedule
from lumigen.tile import BlockTile, MapTile, Streamed, TileKind, TileProgram, reads_memory

SITES = ("rows", "columns", "depth", "step", "slots")
BATCHES = 2  # dimensions of a map besides lines and elements


def tiles(machine: StreamingGpu) -> tuple[Schedule, ...]:
    """Those that the device's headers have."""
    found = machine.copies.streams if machine.copies is not None else ()
    return tuple(schedule("stream_roles", dict(zip(SITES, t, strict=True))) for _, t in found)


def schedules(
    plan: KernelPlan, machine: StreamingGpu
) -> tuple[tuple[tuple[Cmp, ...], Schedule], ...]:
    """How a fold around a product lies on Hopper; none where the plan is of another form."""
    for sizes in tiles(machine):
        try:
            stream_roles(plan, sizes, machine)
        except NotRealised:
            continue
        return (((), sizes),)
    return ()


def stream_roles(plan: KernelPlan, sizes: Schedule, machine: StreamingGpu) -> Built:
    """The kernel of a plan of a fold around a product; NotRealised where it is of another form."""
    check(sizes, SITES)
    tile, copies = tuple(sizes[s] for s in SITES), machine.copies
    known = {t: length for length, t in copies.streams} if copies is not None else {}
    longest = known.get(tile)
    if copies is None or longest is None:
        raise NotRealised("a tile that the device's headers do not have")
    found = Streamable.of(Cascade.of(plan, machine), plan.stores, sizes["rows"], machine)
    if len(found.cascade.inners) > 1 or len(found.outers) != 1:
        raise NotRealised("a flow of tiles has one inner and one outer product")
    if max(found.sizes) > longest:
        raise NotRealised(f"rows of {max(found.sizes)} in a tile for {longest}")
    builder = _StreamRolesBuilder(plan, found, sizes, machine)
    if not builder.is_fetched():
        raise NotRealised("an operand that a tensor copy engine does not fetch")
    program = builder.program()
    if sizes["rows"] > copies.rows_with_maps and _maps_read_memory(program):
        raise NotRealised("three warpgroups leave no registers for maps that read memory")
    return Built(program, plan.region)


def _maps_read_memory(program: TileProgram) -> bool:
    maps = (s for s in program.statements() if isinstance(s, MapTile))
    return any(reads_memory((*s.body, s.result)) for s in maps)


class _StreamRolesBuilder(StreamBuilder):
    @property
    def copies(self) -> Copies:
        assert self.machine.copies is not None, "asked before"
        return self.machine.copies

    def is_fetched(self) -> bool:
        """Whether the engine takes all operands, and tiles are not mostly empty."""
        operands = self.fetched()
        if operands is None or any(o.source.dtype is not self.found.element for o in operands):
            return False
        axes = {a for x in chain(*self.operands) for a in x[2:]}
        return all(a.extent.estimate() >= self.copies.box for a in axes)

    def fetched(self) -> tuple[Mapped, ...] | None:
        """The operands as the engine sees them."""
        out: list[Mapped] = []
        for _, value, major, depth in chain(*self.operands):
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
        operands, copies = self.fetched(), self.copies
        assert operands is not None, "asked before"
        majors = (self.sizes["rows"], self.sizes["step"], self.sizes["columns"])
        each = tuple((s, self.sizes[s]) for s in SITES)
        deep = tuple(o.is_deep for o in operands)
        tiles = (*self.a_tiles, *self.b_tiles, *self.c_tiles)
        maps = (
            o.boxes(_map_of(tile), lines, copies.box, o.batches())
            for tile, o, lines in zip(tiles, operands, majors, strict=True)
        )
        return replace(
            program,
            skeleton="cascade_roles",
            threads=copies.warpgroup * (1 + self.sizes["rows"] // copies.warpgroup_rows),
            tile=BlockTile(TileKind.CASCADE_ROLES, each, self.found.element, deep),
            maps=tuple(maps),
        )


def _map_of(tile: Buffer) -> str:
    return f"map_{tile.name[0]}"
