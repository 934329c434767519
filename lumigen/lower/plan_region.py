"""plan_region: in which kernels and loops a region can run, the heuristic's choice first.

Before: a canonical region.  After: its plans. A fold around a product needs `separate` to allow one loop for all of its
reductions (its scores would be recomputed for each sweep); elsewhere sweeps over rows that stay in the caches are
cheaper than corrections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from lumigen.condition import Cmp
from lumigen.dtype import i32
from lumigen.index import extent_of, ix
from lumigen.lower.apart import parts_apart
from lumigen.lower.beside import find_beside, find_blocks_beside, find_loops_beside, plan_beside
from lumigen.lower.block_fold import find_foldable, parts_of_rows
from lumigen.lower.cascade import find_cascade
from lumigen.lower.contract import Columns, Contraction, Products, find_products
from lumigen.lower.deep_windows import depth_turned
from lumigen.lower.depth import along_memory
from lumigen.lower.factors import split_reductions
from lumigen.lower.few import find_few, find_few_beside, schedule_of_few
from lumigen.lower.float_columns import in_float_columns
from lumigen.lower.implicit import has_windows, rows_packed_before
from lumigen.lower.nested import nested
from lumigen.lower.online import plan_online
from lumigen.lower.pipeline import find_bytes, flat_pair, multiplied_in
from lumigen.lower.row_fold import find_plain_rows, find_row_fold
from lumigen.lower.scan import plan_scan
from lumigen.lower.schedule_plan import (
    are_in_groups,
    computes_in_tiles,
    is_of_numbers,
    length_of_parts,
    other_parts,
    parts_of_blocks,
    parts_of_threads,
    reads_columns_once,
    schedule_of_groups,
    schedule_of_panels,
    schedule_of_teams,
    schedule_of_tiles,
    schedule_of_windows,
    streams_past,
)
from lumigen.lower.sliding import rows_innermost
from lumigen.lower.small_sums import sums_in_floats
from lumigen.lower.split import Split, is_little, split
from lumigen.lower.split_fold import split_fold
from lumigen.lower.split_scan import split_scan
from lumigen.lower.streamable import find_streamable
from lumigen.lower.sweeps import merge_kept, merge_reduced, plan_sweeps
from lumigen.lower.tile_time import fastest
from lumigen.lower.turned import find_turned, rows_side_by_side
from lumigen.machine import Gpu, Machine, Processor, StreamingGpu
from lumigen.plan import KernelPlan, RegionPlan
from lumigen.region import Buffer, Region, Role, Store, const
from lumigen.schedule import Schedule


def plan_loops(region: Region, machine: Machine, *, in_turns: bool = True) -> RegionPlan:
    """Vector loops: those of the parts of long reductions, then those of the rest.

    Of teams the block that ends last goes on to the rest, where that is little.
    """
    whole = sums_in_floats(region) if machine.vectors.integers else region
    if whole is not region:
        return replace(plan_loops(whole, machine, in_turns=in_turns), region=region)
    apart = nested(region)
    if apart is not None:
        rows, rest = (plan_loops(r, machine, in_turns=in_turns) for r in apart)
        temps = (*rows.temps, *(s.dst for s in apart[0].stores), *rest.temps)
        return RegionPlan(region, (*rows.kernels, *rest.kernels), temps)
    merged = split_reductions(merge_kept(merge_reduced(region), machine.teams), machine.vectors)
    merged = in_float_columns(merged, machine)
    if in_turns and (found := plan_online(merged, machine)) is not None:
        return replace(found, region=region)
    pieces = split(merged, machine)
    kernels = tuple(plan_sweeps(r, machine) for r in (*pieces.parts, pieces.rest))
    if isinstance(machine, Processor):
        kernels = tuple(map(rows_innermost, kernels))
    if pieces.parts and is_little(pieces, machine):
        *before, last, rest = kernels
        kernels = (*before, _joined(pieces, last, rest))
    return RegionPlan(region, kernels, pieces.temps)


def parts_beside(plan: RegionPlan, machine: Machine) -> RegionPlan | None:
    """The same with the parts of several reductions as grids of one launch, as those of two products of a row.

    None where there are not several, or one of them reads another.
    """
    *parts, last = plan.kernels
    stores = [s for p in parts for s in p.stores]
    stored = {s.dst for s in stores}
    apart = not any(stored.intersection(p.region.reads()) for p in parts)
    if machine.teams is None or len(parts) < 2 or not apart or last.then is not None:
        return None
    root = tuple(loop for p in parts for loop in p.root)
    beside = KernelPlan(Region(tuple(stores), plan.region.lines), root)
    return replace(plan, kernels=(beside, last))


def _joined(pieces: Split, last: KernelPlan, rest: KernelPlan) -> KernelPlan:
    """One kernel of the last parts and of the rest."""
    arrived = Buffer("arrived", Role.COUNTER, (ix(1),), i32, (0, 0))
    none = Store(arrived, (), (ix(0),), const(0, i32))
    stores = (*last.region.stores, *pieces.after_last.stores, none)
    return KernelPlan(Region(stores, rest.region.lines), last.root, rest)


Scheduled = Callable[[KernelPlan], Schedule]


@dataclass(frozen=True)
class Candidate:
    """A plan of a region, and a schedule for each of its kernels.

    `special` are those of the kernels that architectures have instead, in the order of `Device.places`; where it
    ends the heuristic goes on. `bounded` are candidates that run instead where conditions on dims hold, in the order
    in which they are asked.
    """

    plan: RegionPlan
    schedules: tuple[Schedule, ...]
    special: tuple[Schedule, ...] = ()
    bounded: tuple[tuple[tuple[Cmp, ...], Candidate], ...] = ()


def candidates_of_threads(
    region: Region, schedule: Scheduled, machine: Processor
) -> Iterator[Candidate]:
    """Products and folds around one, for kernels of a thread that read weights in panels."""
    (*others, store) = region.stores
    grids = find_beside(region, machine) if others else None
    if grids is not None:
        parts = tuple(
            schedule_of_groups(found, machine)
            if are_in_groups(found)
            else schedule_of_panels(found, machine)
            for found in grids
        )
        plan = RegionPlan(region, (plan_beside(region, grids, machine),))
        yield Candidate(plan, (Schedule("side_by_side", (), parts=parts),))
    products = (
        None
        if others
        else find_products(store, one_row=True, statistics=True, integers=machine.storing.integers)
    )
    if products is not None and reads_columns_once(products, machine):
        yield from candidates_of_loops(plan_loops(region, machine), schedule)
    turned = find_turned(store) if not others and machine.storing.integers else None
    if turned is not None and (found := find_products(turned, integers=True)) is not None:
        found, of_turned = (
            rows_side_by_side(found, turned),
            replace(region, stores=(turned,)),
        )
        deep = depth_turned(found, of_turned)
        for one, meaning in (*([deep] if deep is not None else ()), (found, of_turned)):
            plan = one.plan(meaning, machine, alone=False)
            yield Candidate(RegionPlan(region, (plan,)), (schedule_of_panels(one, machine),))
    in_groups = products is not None and are_in_groups(products)
    if products is not None and in_groups:
        plan = products.plan(region, machine, alone=False)
        sizes = schedule_of_groups(products, machine)
        yield Candidate(RegionPlan(region, (plan,)), (sizes,))
    if products is not None and computes_in_tiles(products, machine):
        sizes = schedule_of_tiles(products, machine)
        plan = products.plan(region, machine, alone=False)
        yield Candidate(RegionPlan(region, (plan,)), (sizes,))
    if in_groups:
        pass  # there are no floats of columns that could lie in panels
    elif products is not None and len(products.each) == 1:
        yield _product(region, products.each[0], schedule, machine)
    elif products is not None and not any(
        c.m_axes and has_windows(c, machine) for c in products.each
    ):
        yield _in_panels(region, products, schedule, machine)
    of_rows = find_row_fold(region.stores, machine)
    of_columns = find_cascade(region.stores, machine, one_row=True)
    # weights in panels stream past rows; what else has columns side by side is packed least where these are lanes
    first = (of_rows, of_columns) if of_rows and of_rows.in_panels else (of_columns, of_rows)
    for plan in (f.plan(region) for f in first if f is not None):
        whole = candidate(RegionPlan(region, (plan,)), schedule)
        (sizes,) = whole.schedules
        parts, both = parts_of_threads(plan, sizes, machine), [whole]
        pieces = split_fold(plan, parts, machine.tiles.step_of_parts) if parts > 1 else None
        if pieces is not None:
            in_parts = candidate(pieces.plan(region, machine), schedule)
            both.insert(0 if is_of_numbers(plan) else 1, in_parts)
        yield from both


def candidates_of_rows(region: Region, schedule: Scheduled) -> Iterator[Candidate]:
    """One loop over rows that memory has, instead of loops in sequence."""
    found = find_plain_rows(region.stores)
    if found is not None:
        yield candidate(RegionPlan(region, (found.plan(region),)), schedule)


def candidates_of_scans(
    region: Region, schedule: Scheduled, machine: Machine
) -> Iterator[Candidate]:
    """A scan of whole rows, or in parts where rows are few and long."""
    whole = RegionPlan(region, (plan_scan(region, machine),))
    length, in_parts = length_of_parts(region, machine)
    parts = split_scan(region, length, machine)
    for plan in (parts, whole) if in_parts else (whole, parts):
        if plan is not None:
            yield candidate(plan, schedule)


def candidates_of_loops(plan: RegionPlan, schedule: Scheduled) -> Iterator[Candidate]:
    """Vector loops; if folds take terms in turn, also without that, as something else may stand in their loops."""
    found = candidate(plan, schedule)
    yield found
    plain = tuple(s.at("terms", 0) if s.get("terms", 0) else s for s in found.schedules)
    if plain != found.schedules:
        yield replace(found, schedules=plain)


def candidate(plan: RegionPlan, schedule: Scheduled) -> Candidate:
    """A plan with the schedules that the heuristic gives to its kernels."""
    return Candidate(plan, tuple(map(schedule, plan.kernels)))


def _product(
    region: Region, found: Contraction, schedule: Scheduled, machine: Processor
) -> Candidate:
    """A product whose columns are windows, or lie in panels: of weights, or that a kernel before packs."""
    windows = bool(found.m_axes) and has_windows(found, machine)
    if not windows:
        return _in_panels(region, Products((found,)), schedule, machine)
    sizes = schedule_of_windows(found, machine)
    packed = rows_packed_before(found, region)
    if packed is None:
        return Candidate(RegionPlan(region, (found.plan(region, machine, alone=False),)), (sizes,))
    buffer, packing, product, meaning = packed
    kernels = plan_sweeps(packing, machine), product.plan(meaning, machine, alone=False)
    plan = RegionPlan(region, kernels, (buffer,))
    return Candidate(plan, (schedule(kernels[0]), sizes))


def _in_panels(
    region: Region, found: Products, schedule: Scheduled, machine: Processor
) -> Candidate:
    """Products whose columns lie in panels: of weights, or that a kernel before packs."""
    sizes = schedule_of_panels(found, machine)
    meaning, each, kernels, temps = region, list[Contraction](), list[KernelPlan](), list[Buffer]()
    for columns in map(Columns.of, found.each):
        made = columns.found
        if columns.once is None:
            name = f"panels{len(temps) or ''}"
            buffer, packing, made, meaning = columns.packed_before(meaning, name)
            kernels.append(plan_sweeps(packing, machine))
            temps.append(buffer)
        each.append(made)
    product = replace(found, each=tuple(each)).plan(meaning, machine, alone=False)
    plan = RegionPlan(region, (*kernels, product), tuple(temps))
    return Candidate(plan, (*map(schedule, kernels), sizes))


def candidates_of_blocks(
    region: Region, schedule: Scheduled, machine: StreamingGpu
) -> Iterator[Candidate]:
    """The same for blocks of threads."""
    *others, store = region.stores
    yield from _streams(region, schedule, machine, searched=False)
    yield from _block_folds(region, schedule, machine, deep=False)
    yield from _few_rows(region, machine)
    grids = find_blocks_beside(region) if others else None
    if grids is not None:
        grids, meaning = along_memory(grids, region)
        each = [c for p in grids for c in p.each]
        parts = fastest(each, multiplied_in(each[0].rows, each[0].columns), machine)
        plan = RegionPlan(region, (plan_beside(meaning, grids, machine, alone=True),))
        yield Candidate(plan, (Schedule("side_by_side", (), parts=parts),))
    loops = find_loops_beside(region, schedule, machine) if others else None
    if loops is not None:
        stores = tuple(s for plan, _ in loops for s in plan.stores)
        root = tuple(loop for plan, _ in loops for loop in plan.root)
        plan = RegionPlan(region, (KernelPlan(Region(stores, region.lines), root),))
        parts = tuple(sizes for _, sizes in loops)
        yield Candidate(plan, (Schedule("side_by_side", (), parts=parts),))
    products = None if others else find_products(store) or find_bytes(store, machine)
    if products is not None and len(products.each) == 1 and streams_past(products.each[0], machine):
        products = None
    if products is not None and _is_hollow(products, machine):
        loops_alone = candidate(RegionPlan(region, (plan_sweeps(region, machine),)), schedule)
        if loops_alone.schedules[0].builder == "strips":
            yield loops_alone
    if products is not None and (len(products.each) == 1 or flat_pair(products)):
        if len(products.each) == 1:
            yield from _apart(products.each[0], region, schedule, machine)
        (ordered,), meaning = along_memory((products,), region)
        plan = RegionPlan(region, (ordered.plan(meaning, machine, alone=True),))
        yield candidate(plan, schedule)
    yield from _streams(region, schedule, machine, searched=True)


def _is_hollow(products: Products, machine: StreamingGpu) -> bool:
    """Whether groups have so few rows or columns that most of a tile of theirs has none."""
    one, *others = products.each
    sides = (extent_of(axes) for axes in (one.m_axes, one.n_axes))
    few = any(side.is_const and side.const < machine.products.hollow for side in sides)
    return few and bool(one.grid) and not others


def _streams(
    region: Region, schedule: Scheduled, machine: StreamingGpu, *, searched: bool
) -> Iterator[Candidate]:
    """A fold around products, in parts where blocks are few, and whole; or in the other numbers of parts."""
    fold = find_streamable(region.stores, machine)
    cascade = find_cascade(region.stores, machine, one_row=True)
    if fold is None or cascade is None:
        return
    plan = cascade.plan(region)
    whole = candidate(RegionPlan(region, (plan,)), schedule)
    (sizes,) = whole.schedules
    parts = parts_of_blocks(fold, sizes, machine)
    others = (n for n in other_parts(fold, sizes, machine) if n != parts)
    for number in others if searched else dict.fromkeys((parts, 1)):
        pieces = split_fold(plan, number, sizes["step"]) if number > 1 else None
        if pieces is not None:
            yield candidate(pieces.plan(region, machine), schedule)
        elif number == 1:
            yield whole


def _few_rows(region: Region, machine: Gpu) -> Iterator[Candidate]:
    """Products of few rows with columns that threads make in registers, with a grid for each store."""
    *others, store = region.stores
    one = None if others else find_few(store, machine)
    if one is not None:
        plan = RegionPlan(region, (one.plan(region, machine, alone=True),))
        yield Candidate(plan, (schedule_of_few((one,), machine),))
    several = find_few_beside(region, machine) if others else None
    if several is not None:
        plan = RegionPlan(region, (plan_beside(region, several, machine, alone=True),))
        parts = (schedule_of_few(several, machine),) * len(several)
        yield Candidate(plan, (Schedule("side_by_side", (), parts=parts),))


def _apart(
    found: Contraction, region: Region, schedule: Scheduled, machine: StreamingGpu
) -> Iterator[Candidate]:
    """A product whose depth is in parts, and what adds these up."""
    pieces = parts_apart(found, region, machine)
    if pieces is None:
        return
    sums, rest = pieces
    one = find_products(sums.stores[0])
    if one is not None and len(one.each) == 1:
        (ordered,), meaning = along_memory((one,), sums)
        kernels = (ordered.plan(meaning, machine, alone=True), plan_sweeps(rest, machine))
        yield candidate(RegionPlan(region, kernels, (sums.stores[0].dst,)), schedule)


def slower_candidates(
    region: Region, schedule: Scheduled, machine: StreamingGpu
) -> Iterator[Candidate]:
    """Folds of the rows of products that are so deep that to store them costs little beside them.

    And maps that gather what is not along what they store, without tiles.
    """
    yield from _block_folds(region, schedule, machine, deep=True)
    plan = plan_loops(region, machine)
    if any(schedule(kernel).builder == "transposed" for kernel in plan.kernels):
        yield candidate(plan, partial(schedule_of_teams, machine=machine))


def _block_folds(
    region: Region, schedule: Scheduled, machine: StreamingGpu, *, deep: bool
) -> Iterator[Candidate]:
    """A fold of rows in parts, where one launch has too few blocks for a device; and in one launch."""
    found = find_foldable(region.stores, machine, deep=deep)
    if found is None:
        return
    plan, parts = found.plan(region), parts_of_rows(found, machine)
    _, step, *_ = machine.row_folds.one[0]  # of whole tiles is a part
    pieces = split_fold(plan, parts, step) if parts > 1 else None
    if pieces is not None:
        yield candidate(pieces.plan(region, machine), schedule)
    yield candidate(RegionPlan(region, (plan,)), schedule)
