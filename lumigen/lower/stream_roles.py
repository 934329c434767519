"""stream_roles: the form of `stream` for Hopper, whose operands a tensor copy engine brings into shared memory.

Before: a region with a fold around a contraction, of 16-bit operands that the engine can fetch, tiles of it large
enough for wgmma.  After: the tile program of `stream` in which one warpgroup of a block brings the tiles and the others
have 64 rows of the result each.

Sites: `rows` of a block, 64 to a warpgroup, `columns` and `depth` that hold the result's row and the inner
contraction's, `step` points of the folded axis in a slot of the rings, `slots`, and `blocks` that share a
multiprocessor. `overlap`: 1 where the outer product of a step is under way while the inner one of the next is computed,
which takes registers for the weights of one beside the scores of the other. `turns`: 1 where warpgroups begin their
products one after the other. `raster` is that of `stream`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from lumigen.block_tile import BlockTile, TileKind
from lumigen.condition import Cmp
from lumigen.index import Axis, extent_of
from lumigen.lower.built import Built, check
from lumigen.lower.cascade import Cascade
from lumigen.lower.mapped import Mapped
from lumigen.lower.stream import StreamBuilder
from lumigen.lower.streamable import Streamable
from lumigen.machine import Copies, FlowTile, StreamingGpu
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Expr
from lumigen.schedule import Schedule, schedule
from lumigen.tile import MapTile, Streamed, TileProgram, reads_memory

TILE = FlowTile._fields
SITES = (*TILE, "raster")
BATCHES = 2  # dimensions of a map besides lines and elements


def sizes_of(t: FlowTile, raster: int) -> Schedule:
    """The schedule of a tile."""
    sites = {site: int(size) for site, size in zip(TILE, t, strict=True)}
    return schedule("stream_roles", {**sites, "raster": raster})


def schedules(
    plan: KernelPlan, machine: StreamingGpu
) -> tuple[tuple[tuple[Cmp, ...], Schedule], ...]:
    """How a fold around a product lies on Hopper; none where the plan is of another form.

    The first tile that fits, unless one for rows as long has far less rows behind the end. Where blocks are few rounds
    and rows fold different points, the longest ones of all batches begin first, as the last round would wait for one of
    them; else blocks that begin together have one batch and share its points.
    """
    copies = machine.copies
    if copies is None:
        return ()
    first = next((t for t in copies.streams if _is_realised(plan, t, machine)), None)
    if first is None:
        return ()
    found = Streamable.of(Cascade.of(plan, machine), plan.stores, first.rows, machine)
    rows, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))

    def computed(t: FlowTile) -> int:
        return -(-rows // t.rows) * t.rows

    most = computed(first) * (copies.behind - 1) // copies.behind
    as_long = (t for t in copies.streams if (t.columns, t.depth) == (first.columns, first.depth))
    less = sorted((t for t in as_long if computed(t) <= most), key=computed)
    t = next((t for t in less if _is_realised(plan, t, machine)), first)
    few = computed(t) // t.rows * batch <= copies.rounds * machine.multiprocessors
    return (((), sizes_of(t, int(found.is_bounded and few))),)


def _is_realised(plan: KernelPlan, t: FlowTile, machine: StreamingGpu) -> bool:
    try:
        stream_roles(plan, sizes_of(t, 0), machine)
    except NotRealised:
        return False
    return True


def stream_roles(plan: KernelPlan, sizes: Schedule, machine: StreamingGpu) -> Built:
    """The kernel of a plan of a fold around a product; NotRealised where it is of another form."""
    check(sizes, SITES)
    copies = machine.copies
    if copies is None:
        raise NotRealised("a device without a tensor copy engine")
    _check_tile(sizes, copies)
    _check_shared(sizes, machine)
    found = Streamable.of(Cascade.of(plan, machine), plan.stores, sizes["rows"], machine)
    if len(found.cascade.inners) > 1 or len(found.outers) != 1:
        raise NotRealised("a flow of tiles has one inner and one outer product")
    if sizes["columns"] < found.sizes[0] or sizes["depth"] < found.sizes[1]:
        these = f"tiles of {sizes['columns']} and {sizes['depth']}"
        raise NotRealised(f"{these} for rows of {found.sizes}")
    builder = _StreamRolesBuilder(plan, found, sizes, machine)
    if not builder.is_fetched():
        raise NotRealised("an operand that a tensor copy engine does not fetch")
    program = builder.program()
    _check_registers(sizes, copies.maps * _maps_read_memory(program), machine)
    return Built(program, plan.region)


def _check_tile(sizes: Schedule, copies: Copies) -> None:
    """Whether warpgroups and boxes have whole parts of a tile."""
    whole = {
        "rows": copies.warpgroup_rows,
        **dict.fromkeys(("columns", "depth", "step"), copies.box),
    }
    for site, part in whole.items():
        if sizes[site] == 0 or sizes[site] % part or sizes[site] > copies.widest:
            raise NotRealised(f"{site} of {sizes[site]}: multiples of {part} up to {copies.widest}")
    for site in ("overlap", "turns", "raster"):
        if sizes[site] > 1:
            raise NotRealised(f"{site} of {sizes[site]}: 0 or 1")
    if sizes["slots"] == 0 or sizes["blocks"] == 0:
        raise NotRealised(f"{sizes['slots']} slots, {sizes['blocks']} blocks of a multiprocessor")
    if sizes["turns"] and sizes["rows"] == copies.warpgroup_rows:
        raise NotRealised("one warpgroup has no other to take turns with")


def _check_shared(sizes: Schedule, machine: StreamingGpu) -> None:
    """Whether the blocks of a multiprocessor have the shared memory for their rings, as CascadeRolesTile has them."""
    copies = machine.copies
    assert copies is not None, "asked before"
    slots, part = sizes["slots"], copies.aligned
    each = ((1, "rows", "depth"), (slots, "step", "depth"), (slots, "columns", "step"))
    rings = sum(n * 2 * sizes[a] * sizes[b] + part for n, a, b in each)  # barriers end each
    has = (machine.shared_bytes + part) // sizes["blocks"] - part  # each block takes as much
    if part + rings > has:
        raise NotRealised(f"{part + rings} bytes of shared memory, {has} of which a block has")


def _check_registers(sizes: Schedule, more: int, machine: StreamingGpu) -> None:
    """Whether a thread has the registers for its fragments, for states and places, and for so many more."""
    copies, teams = machine.copies, machine.teams
    assert copies is not None, "asked before"
    groups = sizes["rows"] // copies.warpgroup_rows
    threads = copies.warpgroup * (1 + groups)
    granted = teams.registers // (threads * sizes["blocks"]) // teams.granted * teams.granted
    share = (granted * (1 + groups) - copies.feeding) // groups
    has = min(copies.most, share // teams.granted * teams.granted)
    of_thread = copies.warpgroup // copies.warpgroup_rows  # threads of a row
    fragments = (sizes["columns"] + sizes["step"]) // of_thread
    fragments += sizes["overlap"] * sizes["step"] // of_thread // 2  # two weights in a register
    if fragments + copies.places + more > has:
        needs = f"fragments of {fragments} registers and {copies.places + more} more"
        raise NotRealised(f"{needs}, {has} of which a thread has")


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
        each = tuple((s, self.sizes[s]) for s in TILE)
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
