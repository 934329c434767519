"""schedule_plan: builders, tile sizes and places for the kernels of a plan, the heuristic's choice.

Sites of `panel`: rows and columns of a work tile, `chunk` columns between two epilogues, `depth` of k at a time; of
`windows`, which packs columns, `deep` of k in a tile, `held` rows of products, and whether rows of a tile that are
`alike` in their runs are packed together. A weight of more than `shared`
elements comes from memory and is `streamed`: all rows meet some of its columns before others do. Products of bf16 then
divide columns, not rows, and have `near_rows` else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lumigen.dtype import f32
from lumigen.index import Ix, extent_of
from lumigen.lower.across import across_of
from lumigen.lower.block_fold import schedule_of_rows
from lumigen.lower.cascade import Cascade
from lumigen.lower.contract import (
    Columns,
    Contraction,
    Products,
    find_products,
    is_in_runs,
    is_paired,
)
from lumigen.lower.contractions import is_cheap, is_plain, is_unpacked
from lumigen.lower.few import find_few
from lumigen.lower.held_rows import share_vectors
from lumigen.lower.implicit import rows_alike, rows_place
from lumigen.lower.interchange import are_columns, reads_rows_apart
from lumigen.lower.pipeline import Flat, are_counted, multiplied_in
from lumigen.lower.radix import GROUPING, blocks_of
from lumigen.lower.row_fold import RowFold
from lumigen.lower.runs import terms_of
from lumigen.lower.scope import address, kernel_reductions
from lumigen.lower.several import OF_FOLD
from lumigen.lower.side_by_side import grids_of
from lumigen.lower.simt import Loops, spread
from lumigen.lower.sliding import schedule_of_sliding
from lumigen.lower.split_scan import REDUCED
from lumigen.lower.stream import SITES as STREAM_SITES
from lumigen.lower.streamable import Streamable
from lumigen.lower.streamed import is_of_few_bytes
from lumigen.lower.strips import schedule_of_strips
from lumigen.lower.tile_time import fastest, of_pair
from lumigen.lower.together import are_together
from lumigen.lower.transposed import schedule_of_transposed
from lumigen.lower.turns import has_corrections
from lumigen.lower.widths import width_of
from lumigen.machine import Gpu, Machine, Processor, StreamingGpu, StreamTile, Teams
from lumigen.ops import TRANSCENDENTALS
from lumigen.plan import KernelPlan, Loop, Native, Product, rows_of
from lumigen.region import Prim, Read, Region, Scan, free_axes, walk
from lumigen.schedule import Schedule, schedule

PANELS = {"b": "panels"}


def schedule_of_thread(plan: KernelPlan, machine: Processor) -> Schedule:
    """Of a kernel whose task is one thread's."""
    tiles = machine.tiles
    match _main(plan):
        case Loop(body=(Product() as inner, *_)) as loop if inner.n == loop.axes:
            return _of_rows(RowFold.of(plan), machine)
        case Loop(body=(Product() as inner, *_)):
            most = extent_of(inner.n).bounds()[1]
            if most is not None and most <= tiles.few_columns:
                return schedule("cascade_row", tiles.fold_of_few)
            return schedule("cascade", tiles.fold)
        case Loop(kind="seq", carries=carries) if any(c.correct is not None for c in carries):
            return _of_rows(RowFold.of(plan), machine)
        case Native():
            return schedule("order", {"threads": 1})
        case _ if _scans(plan):
            return schedule("scan", tiles.scans)
        case _:
            return schedule_of_sliding(plan, tiles.sliding) or _of_loops(plan, machine)


def _of_loops(plan: KernelPlan, machine: Processor) -> Schedule:
    """Of vector loops; those of a map may be in many stretches."""
    sizes = schedule("simt", machine.tiles.loops)
    loops = Loops.of(plan)
    held = max(1, min(machine.tiles.held, loops.row.extent.estimate()))
    if loops.read_in_common:
        sizes = sizes.at("visits", sizes["visits"] * held)
        return sizes.at("held", held).at("ahead", machine.tiles.ahead)
    if loops.lanes_in_common:
        held = _sharing(loops, machine)
        own = {site: sizes[site] for site in ("visits", "lanes", "together")}
        sizes = schedule(
            "simt", {**own, "visits": own["visits"] * held, "held": held, "unasked": 1}
        )
        return _in_turns(sizes, loops, machine)
    if any(loop.carries for loop in plan.loops()):
        return _in_turns(sizes, loops, machine)
    return sizes.at("stretches", machine.tiles.stretches)


def _sharing(loops: Loops, machine: Processor) -> int:
    """Rows folded together, which share vectors: those of any rows, or of a run along the last axis alone.

    Few where folds are short, and where rows are those of an image, whose edges are alike along the last axis.
    """
    (*others, last), lane, tiles = loops.rows, loops.lane, machine.tiles
    is_short = max(map(terms_of, loops.reductions)) < OF_FOLD
    is_one = all(a.extent == 1 for a in others)
    shared = lane is not None and share_vectors(loops.of_lanes, lane, loops.rows)
    few = is_short or (shared and not is_one)
    most = max(1, min(tiles.held if few else tiles.held_lanes, loops.row.extent.estimate()))
    return most if shared else next(n for n in range(most, 0, -1) if last.extent % n == 0)


def _in_turns(sizes: Schedule, loops: Loops, machine: Processor) -> Schedule:
    """Of a fold in a loop over lanes, how many terms it takes for all of them before the next ones."""
    streams = machine.division.streams
    if not are_columns(loops.kind, loops.of_lanes):
        return sizes
    (fold,), lane = loops.of_lanes, loops.lane
    if streams is None or lane is None or not reads_rows_apart(lane, fold, streams):
        return sizes.at("terms", 0)
    return sizes.at("terms", streams.turn).at("lanes", streams.lanes)


def _of_rows(found: RowFold, machine: Processor) -> Schedule:
    """Of a fold of rows: products with weights in panels, other columns in a tile for each part."""

    def place(*products: Contraction) -> str:
        in_panels = all(Columns.of(c).once is not None for c in products)
        return ("panels" if in_panels else "tile") if products else "none"

    first, second, tiles = found.first, found.second, machine.tiles
    if first is None:
        return schedule("row_fold", tiles.rows_of_numbers, {"inner": "none", "outer": "none"})
    pairs = is_paired(second[0] if second else first)
    sizes = tiles.rows_of_pairs if pairs else tiles.rows_of_floats
    if not second and extent_of(found.m) == 1:
        sizes = tiles.row_of_product
    return schedule("row_fold", sizes, {"inner": place(first), "outer": place(*second)})


def schedule_of_windows(found: Contraction, machine: Processor) -> Schedule:
    """Of a product whose columns the kernel packs, where many have the same runs together."""
    sizes = schedule("windows", machine.tiles.windows, {"a": rows_place(found), "b": "windows"})
    many = rows_alike(found, sizes, machine) >= machine.tiles.rows_alike
    return sizes.at("alike", int(many))


def schedule_of_panels(found: Products, machine: Processor) -> Schedule:
    """Of products whose columns lie in panels."""
    once = [Columns.of(c).once for c in found.each]
    pairs, number, tiles = (
        any(Columns.of(c).side > 1 for c in found.each),
        len(found.each),
        machine.tiles,
    )
    given = tiles.pairs if pairs else tiles.floats
    if not found.each[0].m_axes:
        # a vector streams the panels past: each to its end, and so few of them that every thread has its share
        given = tiles.one_row
    elif any(map(is_in_runs, found.each)):
        return schedule("panel", {**tiles.runs_of_bytes, "streamed": 0}, PANELS)
    sizes = dict(given)
    shared, near_rows = sizes.pop("shared"), sizes.pop("near_rows")
    large = any(c is not None and c[1].n * c[1].k > shared for c in once)
    streamed = large and None not in once
    if pairs and not streamed:
        sizes["rows"] = near_rows
    if found.each[0].m_axes and number > 1:
        # they share what one has in the caches: its columns, and the sums that wait for the epilogue
        for site in ("columns", "chunk"):
            most = tiles.least_columns
            least = min(sizes[site], most)
            sizes[site] = max(least, sizes[site] // number // most * most)
    return schedule("panel", sizes | {"streamed": int(streamed)}, PANELS)


def are_in_groups(found: Products) -> bool:
    """Whether all products are of integers in groups."""
    return all(Columns.of(c).groups is not None for c in found.each)


def schedule_of_groups(found: Products, machine: Processor) -> Schedule:
    """Of products of integers in groups: bytes of columns stay in the second cache for many rows."""
    sizes = machine.tiles.groups
    if not found.each[0].m_axes:
        sizes = {**sizes, "rows": 1}
    return schedule("panel", {**sizes, "streamed": 0}, PANELS)


def reads_columns_once(found: Products, machine: Processor) -> bool:
    """Whether a product has so few rows that one loop folds them all, past columns that are no weights.

    To pack columns takes as long as to multiply them with a few rows.
    """
    one, *others = found.each
    rows = extent_of(one.m_axes)
    few = rows.is_const and rows.const <= machine.tiles.held
    if others or not one.m_axes or not few or not isinstance(one.columns, Read):
        return False
    if not is_plain(one.rows):
        return False
    step = address(one.columns.source, one.columns.at).coefficient(one.n_axes[-1])
    return Columns.of(one).once is None and step == 1


def computes_in_tiles(found: Products, machine: Processor) -> bool:
    """Whether tasks are to compute an operand of a product without weights: each has nearly all of the other one.

    Or columns that are made of weights of fewer bytes, once for many rows.
    """
    if unpacks_in_tiles(found, machine):
        return True
    one, *others = found.each
    if others or not one.m_axes or kernel_reductions([one.rows, one.columns]):
        return False
    computed = [e for e in (one.rows, one.columns) if not is_plain(e)]
    cheap = all(is_cheap(e, machine.storing) for e in computed)
    if Columns.of(one).once is not None or not computed or not cheap:
        return False
    rows, columns = (extent_of(axes).estimate() for axes in (one.m_axes, one.n_axes))
    floats, again = machine.tiles.floats, machine.tiles.computed_again
    few = is_plain(one.columns) or rows <= floats["rows"]
    return few and (is_plain(one.rows) or columns <= again * floats["columns"])


def unpacks_in_tiles(found: Products, machine: Processor) -> bool:
    """Whether columns of a product are floats that tasks make of weights of fewer bytes, and the others are weights."""
    columns = [Columns.of(c) for c in found.each if Columns.of(c).once is None]
    if not columns or not found.each[0].m_axes or kernel_reductions(c.rows for c in found.each):
        return False
    return all(is_unpacked(b.value, machine.storing) for b in columns)


def schedule_of_tiles(found: Products, machine: Processor) -> Schedule:
    """Of products whose columns each task packs: so many at a time that they stay in the second cache."""
    if unpacks_in_tiles(found, machine):
        tiles, rows = machine.tiles, extent_of(found.each[0].m_axes).estimate()
        given = tiles.unpacked_for_few if rows <= tiles.unpacked_for_few["rows"] else tiles.unpacked
        return schedule("panel", {**given, "streamed": 0}, PANELS).placed("b", "tile")
    near = schedule_of_panels(found, machine)
    return near.placed("b", "tile").at("chunk", machine.tiles.least_columns)


def threads_compute(region: Region, machine: Processor) -> bool:
    """Whether a product of a computed operand takes no longer than if that were stored before.

    Each tile of columns computes rows again, with statistics of each perhaps: two passes over a row, as against its
    products with all columns of the tile, which is up to a twenty-fifth of the time. A launch less makes up for it
    while tiles are few. Not where a matrix unit has so many rows in a tile that what waits to be packed does not stay
    in a cache. One row is nothing beside the weights that stream past it.
    """
    (store,) = region.stores
    found = find_products(store, one_row=True, statistics=True, integers=machine.storing.integers)
    one, *others = found.each if found is not None else (None,)
    if found is None or one is None or others:
        return False
    if Columns.of(one).once is None:
        return computes_in_tiles(found, machine)
    if is_plain(one.rows) or not (
        kernel_reductions([one.rows]) or is_cheap(one.rows, machine.storing)
    ):
        return False
    costly = (e for e in walk([one.rows]) if isinstance(e, Prim) and e.op in TRANSCENDENTALS)
    if any(free_axes(e) & set(one.reduce.axes) for e in costly):
        return False
    sizes = schedule_of_panels(found, machine)
    if not one.m_axes:
        return True
    tiles = -(-extent_of(one.n_axes).estimate() // sizes["columns"])
    return tiles <= machine.tiles.computed_again and not (is_paired(one) and sizes["streamed"])


def blocks_compute(region: Region, machine: Gpu) -> bool:
    """Whether a product of an operand that is computed takes no longer than if that were stored before.

    A tile computes it as it comes in, so that it is computed once for each tile along the other operand. In one pass
    that costs less than to store it and to read it again.
    """
    (store,) = region.stores
    if find_few(store, machine) is not None:
        return True
    found = find_products(store)
    one, *others = found.each if found is not None else (None,)
    if one is None or others or not are_counted(one.m_axes, one.n_axes, one.reduce.axes):
        return False
    if streams_past(one, machine):
        return True
    computed = [e for e in (one.rows, one.columns) if not is_plain(e)]
    if not computed or not all(is_cheap(e, machine.storing) for e in computed):
        return False
    (tile,) = fastest((one,), multiplied_in(one.rows, one.columns), machine)
    rows, columns = (extent_of(axes).estimate() for axes in (one.m_axes, one.n_axes))
    return (is_plain(one.rows) or columns <= tile["columns"]) and (
        is_plain(one.columns) or rows <= tile["rows"]
    )


def streams_past(one: Contraction, machine: Gpu) -> bool:
    """Whether loops over rows of the columns, which compute them, take few rows of a product along (`together`)."""
    rows, flat = extent_of(one.m_axes), Flat.of(one)
    few = rows.is_const and rows.const <= machine.teams.together and not one.grid
    is_one = machine.teams.together > 1 and few
    operand, most = (flat.columns, flat.n, flat.k), 2 * machine.storing.few_steps
    return is_one and is_of_few_bytes(*operand, machine.teams.lane_bytes, most)


def _main(plan: KernelPlan) -> object:
    """The first step inside the grid, which says what kind of kernel it is."""
    return plan.root[-1].body[0]


def _scans(plan: KernelPlan) -> bool:
    return any(isinstance(s.value, Scan) for s in plan.region.stores)


def schedule_of_block(plan: KernelPlan, machine: Gpu) -> Schedule:
    """Of a kernel whose task is a block's: vector loops, or tiles of a product; several grids side by side."""
    teams = machine.teams
    if len(plan.root) > 1 and all(loop.kind == "grid" for loop in plan.root):
        parts = tuple(schedule_of_block(grid, machine) for grid in grids_of(plan))
        return Schedule("side_by_side", (), parts=parts)
    match _main(plan):
        case Product():
            several, _ = Products.of(plan)
            found, *others = several.each
            if others:
                return of_pair(found, machine)
            (sizes,) = fastest((found,), multiplied_in(found.rows, found.columns), machine)
            return sizes
        case Native() as step:
            return _of_native(step, machine)
        case _ if _scans(plan):
            return schedule(
                "scan", {"threads": teams.threads, "width": width_of(plan.region, teams)}
            )
        case _:
            tiles = schedule_of_transposed(plan, machine, width_of(plan.region, teams))
            tiles = tiles or schedule_of_strips(plan, machine)
            return schedule_of_teams(plan, machine) if tiles is None else tiles


def schedule_of_teams(plan: KernelPlan, machine: Gpu) -> Schedule:
    """Of vector loops: teams share out rows, or the folds of a stretch of lanes."""
    teams, joined = machine.teams, plan.then is not None
    sizes = {
        "threads": teams.threads,
        "width": width_of(plan.region, teams),
        "hold": int(not joined and not are_together(plan.stores)),
    }
    in_turns = any(has_corrections(loop) for loop in plan.loops())
    of_lanes = in_turns and any(map(has_corrections, Loops.of(plan).of_lanes))
    is_apart = not joined and (of_lanes or not in_turns)
    team = across_of(plan.region, machine, in_turns=of_lanes).team if is_apart else 0
    if in_turns:
        sizes |= {"turn": _turn(plan, teams)}
    if team:
        return schedule("across", sizes | {"team": team})
    sizes |= {"vectors": teams.vectors, "repeated": teams.repeated}
    sizes |= {"blocks": teams.joined_blocks * joined}
    if are_together(plan.stores):
        several = (
            len(plan.stores) > teams.together
        )  # rows that share what they read are held as well
        blocks = teams.blocks_of_several if several else teams.blocks_together
        sizes |= {"threads": teams.threads_together, "blocks": blocks}
    whole = schedule("simt", sizes)
    return whole if joined else spread(plan, whole, machine)


def _turn(plan: KernelPlan, teams: Teams) -> int:
    """Vectors of a turn: fewer where folds read several rows, since all of these are held."""
    tiles = [c.tile for loop in plan.loops() if has_corrections(loop) for c in loop.carries]
    rows = {e for e in walk(tiles) if isinstance(e, Read) and free_axes(e)}
    return max(1, teams.turn // max(1, len(rows)))


def _of_native(step: Native, machine: Gpu) -> Schedule:
    """A team holds a row of which it selects some; what it cannot hold is a block's, in memory, or that of many."""
    teams, selection = machine.teams, machine.selection
    sizes = {"threads": teams.threads}
    if selection is None:
        return schedule("order", sizes)
    length, kept = step.place.extent, step.store.axes[-1].extent
    team = 0 if step.kernel in GROUPING else _selecting_team(length, kept, machine)
    if not team:
        source, *_ = rows_of(Region((step.store,), native=step.kernel))
        return schedule(
            "order", sizes | {"team": 1, "held": 0, "blocks": blocks_of(step, source, machine)}
        )
    held = -(-(length.bounds()[1] or 0) // team)
    return schedule("order", sizes | {"team": team, "held": held, "blocks": 0})


def _selecting_team(length: Ix, kept: Ix, machine: Gpu) -> int:
    """Threads that hold a row and select the first of it; 0 where none do, as of a longer row that is sorted whole."""
    selection, teams, longest, most = machine.selection, machine.teams, *_most(length, kept)
    if selection is None or longest is None or most is None:
        return 0
    if longest <= selection.rows and most <= selection.by_warp:
        return teams.warp
    is_held = longest <= selection.held * teams.threads and most <= selection.by_block
    return teams.threads if is_held and length != kept else 0


def _most(*extents: Ix) -> tuple[int | None, ...]:
    return tuple(e.bounds()[1] for e in extents)


def selects(region: Region, machine: Gpu) -> bool:
    """Whether teams that hold its rows, or their parts, run a region that orders rows."""
    if region.native in GROUPING:
        return False
    (source,) = rows_of(region)
    length, kept = source.dims[-1], region.stores[0].axes[-1].extent
    return part_of_row(length, kept, machine) > 0 or _selecting_team(length, kept, machine) > 0


def part_of_row(length: Ix, kept: Ix, machine: Gpu) -> int:
    """Elements of a row that a block selects from at a time; 0 where it has no more, or too many are kept."""
    selection, longest, most = machine.selection, *_most(length, kept)
    if selection is None or longest is None or most is None or most > selection.by_block:
        return 0
    whole = selection.held * machine.teams.threads
    return whole if longest > whole else 0


def schedule_of_streaming(plan: KernelPlan, machine: StreamingGpu) -> Schedule:
    """The same of a GPU whose blocks also fold around products."""
    match _main(plan):
        case Loop(body=(Product(), *_)) as loop if not any(c.product for c in loop.carries):
            return schedule_of_rows(plan, machine)
        case Loop(body=(Product(), *_)):
            found = Cascade.of(plan, machine)
            return _stream(
                Streamable.of(found, plan.stores, machine.streams.rows, machine), machine
            )
        case _:
            return schedule_of_block(plan, machine)


def _stream(found: Streamable, machine: StreamingGpu) -> Schedule:
    """Of rows past which tiles stream by."""
    s = machine.streams
    columns, depth = found.sizes
    longest, several = max(columns, depth), len(found.cascade.inners) > 1
    step = s.step_of_long if longest > s.long // (1 + several) else s.step
    tiles: Sequence[StreamTile] = (StreamTile(s.rows, step, s.warps, s.slots),)
    if found.element is f32:
        streams = s.scalar_of_two if several else s.scalar
        tiles = next(t for most, t in streams.items() if longest <= most)
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    few = s.few_of_floats if found.element is f32 else s.few
    one = next((t for most, t in few.items() if longest <= most), None)
    if one is not None and m <= one.rows:
        tiles = (one._replace(slots=s.slots) if several else one,)
    busy = (t for t in tiles if -(-m // t.rows) * batch >= machine.multiprocessors)
    rows, step, warps, slots = next(busy, tiles[-1])
    # products of f32 take so long that nothing needs to be shared
    raster = int(found.element is f32 and found.is_bounded)
    sizes = (rows, columns, depth, step, warps, slots, raster)
    return schedule("stream", dict(zip(STREAM_SITES, sizes, strict=True)))


def length_of_parts(region: Region, machine: Machine) -> tuple[int, bool]:
    """(elements of a part of a scan, whether it is to be in parts): where rows leave most of a device idle.

    Parts are half as much work again, or twice as much where no reduction says what a part comes to. So a processor
    has them for one row, of a sum or a maximum, as two threads gain by them then; a GPU where rows are too few blocks.
    Not of a recurrence: what it multiplies with, over all of a part, may overflow where no element of it does.
    """
    (store,) = region.stores
    assert isinstance(store.value, Scan)
    length = store.value.axis.extent.estimate()
    rows = extent_of(a for a in store.axes if a != store.value.axis).estimate()
    parts, teams = machine.scans, machine.teams
    least, whole = parts.least, parts.whole
    of_columns = store.axes[-1] != store.value.axis
    if teams is not None and of_columns:  # a block has as many columns as its threads
        columns = teams.threads * width_of(region, teams)
        rows, least, whole = -(-rows // columns), -(-least // columns), 1
    each = max(least, -(-length * rows // parts.workers // whole) * whole)
    few = 2 * rows <= parts.workers
    if teams is None:
        few = rows == 1 and store.value.monoid in REDUCED
    few &= store.value.monoid is not None
    return each, few and length >= parts.fewest * each


def parts_of_threads(plan: KernelPlan, sizes: Schedule, machine: Processor) -> int:
    """Into how many parts to split a fold that threads share; 1 where they have enough to do as it is."""
    loop = _main(plan)
    assert isinstance(loop, Loop)
    grid, inners = plan.root[-1].axes, (s for s in loop.body if isinstance(s, Product))
    of_inner = {a for p in inners for a in (*p.m, *p.n)}
    own = {a for c in loop.carries if c.product for a in (*c.product.m, *c.product.n)}
    rows = extent_of(a for a in grid if a in of_inner).estimate()
    others = extent_of(a for a in grid if a not in of_inner | own).estimate()
    tasks = others * -(-rows // sizes.get("least_rows", 1))
    points = extent_of(loop.axes).estimate()
    return max(1, min(machine.threads // tasks, points // machine.tiles.points_of_part))


def is_of_numbers(plan: KernelPlan) -> bool:
    """Whether a fold carries numbers of its rows alone, which its parts merge in no time."""
    loop = _main(plan)
    return isinstance(loop, Loop) and not any(c.product for c in loop.carries)


def parts_of_blocks(found: Streamable, sizes: Schedule, machine: StreamingGpu) -> int:
    """Into how many parts to split a fold; 1 where blocks that have all of its points do as well.

    Only where the device is not busy, or of so few rows that scores are hardly more than what they are made of: others
    should meet what streams by in large tiles.
    """
    rows, step, s = sizes["rows"], sizes["step"], machine.streams
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    points = extent_of(found.cascade.fold.axes).estimate()
    deepest = max(extent_of(p.value.axes).estimate() for p in found.cascade.inners)
    tiles = -(-m // rows) * batch
    is_large = m >= machine.storing.expansion * deepest
    is_idle = 2 * tiles <= machine.multiprocessors  # more than half of the device, without parts
    is_narrow = found.element is not f32  # of f32 nothing is known
    if (is_large and not (is_idle and is_narrow)) or points < s.steps_to_split * step:
        return 1
    blocks = machine.multiprocessors * s.warps_of_parts // sizes["warps"]
    parts = min(blocks // tiles, points // (s.steps_of_part * step), s.most_parts)
    return parts if parts >= s.least_parts or is_idle else 1


def other_parts(found: Streamable, sizes: Schedule, machine: StreamingGpu) -> Iterator[int]:
    """The numbers of parts that a search tries: powers of two of which each has enough points, up to a few rounds."""
    s = machine.streams
    m, batch = (extent_of(axes).estimate() for axes in (found.m_axes, found.grid))
    points = extent_of(found.cascade.fold.axes).estimate()
    rounds = 4 * machine.multiprocessors * s.warps_of_parts // sizes["warps"]
    most = min(
        s.most_parts,
        points // (s.steps_of_part * sizes["step"]),
        rounds // (-(-m // sizes["rows"]) * batch),
    )
    yield from (n for n in (1 << i for i in range(1, s.most_parts)) if n <= most)
