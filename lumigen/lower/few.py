"""few: the skeleton of products of few rows with columns that threads make in registers, and a map behind them.

Before: a region whose value holds products of the same few rows with such columns (`made`).  After: a tile program in
which each warp of a block multiplies all rows with the block's columns, for its share of the depth. Matrix instructions
take the columns as their rows, from the registers in which threads made them of what they read; the warps' sums meet in
shared memory, and the rest of the expression follows.

Sites: `rows` and `columns` of a tile; `depth` that a warp has at a time, and how many times as much it reads `ahead`;
`warps` of a block, and `blocks` of a multiprocessor; whether these are `spread`, no more of them being there at a time,
and whether a block is to `fetch` what all of its columns are made of, 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lumigen.block_tile import BlockTile, TileKind
from lumigen.dtype import f32
from lumigen.index import Axis, Ix, ceildiv, extent_of, ix
from lumigen.lower.beside import have_rows_in_common
from lumigen.lower.built import Built, check
from lumigen.lower.contract import Products, find_products, flatten
from lumigen.lower.made import MadeColumns, runs_of
from lumigen.lower.operands import affine, as_operand
from lumigen.lower.pipeline import Flat, are_counted, for_tile, multiplied_in
from lumigen.lower.scope import Names, Scope
from lumigen.lower.simt import dims_of
from lumigen.machine import FewTile, Gpu
from lumigen.plan import KernelPlan, NotRealised
from lumigen.region import Buffer, Expr, Region, Role, Store, substitute
from lumigen.schedule import Schedule, schedule
from lumigen.tile import Contract, TileProgram

PRODUCTS = 2  # that a tile of the device's headers has at most
SIZES = ("rows", "columns", "depth", "ahead", "warps", "blocks")  # of the headers' tile
FLAGS = ("spread", "fetch")
SITES = (*SIZES, *FLAGS)


def find_few(store: Store, machine: Gpu) -> Products | None:
    """The products of a store, if they are of few rows with columns that threads make in registers; or None."""
    found = find_products(store, one_row=True, packed=False)
    return found if found is not None and _are_few(found, machine) else None


def makes_columns(value: Expr, place: Sequence[tuple[Axis, ...]], machine: Gpu) -> bool:
    """Whether products of few rows make columns of weights, so that these are not stored.

    `place`: the axes of the rows, the columns and the depth. Loops have as many rows at a time where rows are of f32.
    """
    rows, majors, depth = place
    if not has_rows(extent_of(rows), machine) or extent_of(rows).const > machine.teams.together:
        return False
    (n, n_map), (k, k_map) = flatten(majors, "n"), flatten(depth, "k")
    flat = substitute(substitute(value, k_map), n_map)
    return MadeColumns.of(flat, n, k, *_limits(machine)) is not None


def has_rows(rows: Ix | int, machine: Gpu) -> bool:
    """Whether a tile has so many rows, and loops are not as fast."""
    products = machine.products
    most = max((t.rows for t in products.few), default=0)
    return ix(rows).is_const and products.fewest <= ix(rows).const <= most


def _limits(machine: Gpu) -> tuple[int, int]:
    """Neighbours that a thread makes at a time, and the most steps of one."""
    return machine.teams.lane_bytes, 2 * machine.storing.few_steps


def find_few_beside(region: Region, machine: Gpu) -> tuple[Products, ...] | None:
    """The same of each store, if all have the same rows and as many products, and none waits for another."""
    if region.native or len(region.stores) < 2:
        return None
    stored = {s.dst for s in region.stores}
    found = [find_few(s, machine) for s in region.stores]
    products = tuple(p for p in found if p is not None)
    if len(products) < len(found) or stored.intersection(region.reads()):
        return None
    if len({len(p.each) for p in products}) > 1:
        return None  # tiles of another form
    return products if have_rows_in_common(c for p in products for c in p.each) else None


def _are_few(found: Products, machine: Gpu) -> bool:
    if found.statistics or len(found.each) > PRODUCTS:
        return False
    if not has_rows(extent_of(found.each[0].m_axes), machine):
        return False
    flats = map(Flat.of, found.each)
    return all(made_of(flat, machine) is not None for flat in flats) and all(
        extent_of(c.grid) == 1 and are_counted(c.m_axes, c.n_axes, c.reduce.axes)
        for c in found.each
    )


def made_of(flat: Flat, machine: Gpu) -> MadeColumns | None:
    """The columns of a product of 16 bits whose rows lie in memory along the depth; or None."""
    rows, element = affine(flat.rows, flat.m, flat.k), multiplied_in(flat.rows, flat.columns)
    if rows is None or element is f32 or rows[0].dtype is not element or rows[3] != 1:
        return None
    return MadeColumns.of(flat.columns, flat.n, flat.k, *_limits(machine))


def sizes_of(t: FewTile) -> Schedule:
    """The schedule of a tile."""
    return schedule("few", {site: getattr(t, site) for site in SITES})


def schedule_of_few(found: Sequence[Products], machine: Gpu) -> Schedule:
    """The tile with as many rows as the products have: one that reads far ahead where few blocks have all the columns.

    Else more blocks of a multiprocessor read instead.
    """
    rows = extent_of(found[0].each[0].m_axes).estimate()
    columns = sum(extent_of(p.each[0].n_axes).estimate() for p in found)
    fitting = [t for t in machine.products.few if rows <= t.rows]
    same = [t for t in fitting if t.rows == fitting[0].rows]
    at_once = (t for t in same if columns <= t.columns * t.blocks * machine.multiprocessors)
    sizes = sizes_of(next(at_once, same[-1]))
    return sizes if all(map(_are_runs, found)) else sizes.at("fetch", 0)


def _are_runs(found: Products) -> bool:
    """Whether neighbouring columns of each product are made of runs of memory."""
    return all(runs_of(flat.columns, flat.n) for flat in map(Flat.of, found.each))


def few(plan: KernelPlan, sizes: Schedule, machine: Gpu) -> Built:
    """The kernel of a plan of such products and the store after them; NotRealised where it has other steps."""
    check(sizes, SITES)
    if sizes_of_none(sizes, machine):
        raise NotRealised("a tile that the device's headers do not have")
    found, store = Products.of(plan)
    if not _are_few(found, machine):
        raise NotRealised("products of few rows with columns that are made in registers")
    if sizes["fetch"] and not _are_runs(found):
        raise NotRealised("columns that are made of runs of memory")
    return Built(_program(plan.region, store, found, sizes, machine), plan.region)


def sizes_of_none(sizes: Schedule, machine: Gpu) -> bool:
    """Whether no tile of the headers has these sizes."""
    tiles = map(sizes_of, machine.products.few)
    return any(sizes[flag] not in (0, 1) for flag in FLAGS) or all(
        any(t[site] != sizes[site] for site in SIZES) for t in tiles
    )


def _program(
    region: Region, store: Store, found: Products, sizes: Schedule, machine: Gpu
) -> TileProgram:
    flats = [Flat.of(c) for c in found.each]
    flat, first = flats[0], replace(found.each[0], folds=found.folds)
    m, n, k = flat.m, flat.n, flat.k
    m_tiles, n_tiles = ceildiv(m.extent, sizes["rows"]), ceildiv(n.extent, sizes["columns"])
    task = Axis("task", m_tiles * n_tiles)
    top = Scope(Names(), frozenset({task}))
    m0, n0 = Axis("m0", m.extent), Axis("n0", n.extent)
    top.bind(m0, ix(task) % m_tiles * sizes["rows"])
    top.bind(n0, ix(task) // m_tiles * sizes["columns"])
    top.spread(ix(0), first.grid)
    acc = Buffer("acc", Role.SCRATCH, (ix(sizes["rows"]), ix(sizes["columns"])), f32)
    tiles = [replace(acc, name=f"acc{i or ''}") for i in range(len(flats))]
    each = [as_operand(f.columns, n, k) for f in flats]
    a, element = as_operand(flat.rows, m, k), multiplied_in(flat.rows, flat.columns)
    more = tuple(zip(tiles[1:], each[1:], strict=True))
    reach = (ix(m0), ix(n0), ix(0), k.extent)
    fetched = bool(sizes["fetch"])
    top.stmts.append(Contract(acc, a, each[0], m, n, k, *reach, element, more, fetched=fetched))
    others = tuple(zip(found.each[1:], tiles[1:], strict=True))
    top.stmts.append(for_tile(top, store, first, flat, acc, (m0, n0), others))
    return TileProgram(
        "few",
        (*region.reads(), store.dst),
        dims_of(region),
        task,
        task.extent,
        tuple(tiles),
        tuple(top.stmts),
        threads=machine.teams.warp * sizes["warps"],
        width=machine.teams.lane_bytes,
        most=sizes["blocks"] if sizes["spread"] else 0,
        tile=BlockTile(TileKind.FEW, (*((s, sizes[s]) for s in SIZES), ("products", len(flats)))),
    )
