"""plan_region: in which kernels and loops a region can run, the heuristic's choice first.

Before: a canonical region.  After: its plans. A fold around a product needs `separate` to allow one loop for all of its
reductions (its scores would be recomputed for each sweep); elsewhere sweeps over rows that stay in the caches are
cheaper than corrections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lumigen.dtype import i32
from lumigen.index import ix
from lumigen.lower.beside import find_beside, plan_beside
from lumigen.lower.block_fold import STEP_OF_ROWS, find_foldable, parts_of_rows
from lumigen.lower.cascade import find_cascade
from lumigen.lower.contract import Columns, Contraction, Products, find_products
from lumigen.lower.implicit import has_windows, rows_packed_before, rows_place
from lumigen.lower.pipeline import flat_pair
from lumigen.lower.row_fold import find_plain_rows, find_row_fold
from lumigen.lower.schedule_plan import (
    STEP_OF_PARTS,
    is_of_numbers,
    parts_of_blocks,
    parts_of_threads,
    schedule_of_panels,
    schedule_of_windows,
)
from lumigen.lower.split import Division, Split, is_little, split
from lumigen.lower.split_fold import split_fold
from lumigen.lower.stream import find_streamable
from lumigen.lower.sweeps import merge_reduced, plan_sweeps
from lumigen.plan import KernelPlan, RegionPlan
from lumigen.region import Buffer, Region, Role, Store, const
from lumigen.schedule import Schedule


def plan_loops(region: Region, division: Division, *, team: bool = False) -> RegionPlan:
    """Vector loops: those of the parts of long reductions, then those of the rest.

    Of a `team` the block that ends last goes on to the rest, where that is little.
    """
    pieces = split(merge_reduced(region), division)
    kernels = tuple(plan_sweeps(r, team=team) for r in (*pieces.parts, pieces.rest))
    if team and pieces.parts and is_little(pieces, division):
        *before, last, rest = kernels
        kernels = (*before, _joined(pieces, last, rest))
    return RegionPlan(region, kernels, pieces.temps)


def _joined(pieces: Split, last: KernelPlan, rest: KernelPlan) -> KernelPlan:
    """One kernel of the last parts and of the rest."""
    arrived = Buffer("arrived", Role.COUNTER, (ix(1),), i32, (0, 0))
    none = Store(arrived, (), (ix(0),), const(0, i32))
    stores = (*last.region.stores, *pieces.after_last.stores, none)
    return KernelPlan(Region(stores, rest.region.lines), last.root, rest)


Scheduled = Callable[[KernelPlan], Schedule]


@dataclass(frozen=True)
class Candidate:
    """A plan of a region, and a schedule for each of its kernels."""

    plan: RegionPlan
    schedules: tuple[Schedule, ...]


def candidates_of_threads(region: Region, schedule: Scheduled) -> Iterator[Candidate]:
    """Products and folds around one, for kernels of a thread that read weights in panels."""
    (*others, store) = region.stores
    grids = find_beside(region) if others else None
    if grids is not None:
        parts = tuple(map(schedule_of_panels, grids))
        plan = RegionPlan(region, (plan_beside(region, grids),))
        yield Candidate(plan, (Schedule("side_by_side", (), parts=parts),))
    products = None if others else find_products(store, one_row=True, statistics=True)
    if products is not None and len(products.each) == 1:
        yield _product(region, products.each[0], schedule)
    elif products is not None and not any(c.m_axes and has_windows(c) for c in products.each):
        yield _in_panels(region, products, schedule)
    of_rows, of_columns = find_row_fold(region.stores), find_cascade(region.stores, one_row=True)
    # weights in panels stream past rows; what else has columns side by side is packed least where these are lanes
    first = (of_rows, of_columns) if of_rows and of_rows.in_panels else (of_columns, of_rows)
    for plan in (f.plan(region) for f in first if f is not None):
        both = [candidate(RegionPlan(region, (plan,)), schedule)]
        parts = parts_of_threads(plan, *both[0].schedules)
        pieces = split_fold(plan, parts, STEP_OF_PARTS) if parts > 1 else None
        if pieces is not None:
            both.insert(0 if is_of_numbers(plan) else 1, candidate(pieces.plan(region), schedule))
        yield from both


def candidates_of_rows(region: Region, schedule: Scheduled) -> Iterator[Candidate]:
    """One loop over rows that memory has, instead of loops in sequence."""
    found = find_plain_rows(region.stores)
    if found is not None:
        yield candidate(RegionPlan(region, (found.plan(region),)), schedule)


def candidate(plan: RegionPlan, schedule: Scheduled) -> Candidate:
    """A plan with the schedules that the heuristic gives to its kernels."""
    return Candidate(plan, tuple(map(schedule, plan.kernels)))


def _product(region: Region, found: Contraction, schedule: Scheduled) -> Candidate:
    """A product whose columns are windows, or lie in panels: of weights, or that a kernel before packs."""
    windows = bool(found.m_axes) and has_windows(found)
    if not windows:
        return _in_panels(region, Products((found,)), schedule)
    sizes = schedule_of_windows(rows_place(found))
    packed = rows_packed_before(found, region)
    if packed is None:
        return Candidate(RegionPlan(region, (found.plan(region, alone=False),)), (sizes,))
    buffer, packing, product, meaning = packed
    kernels = plan_sweeps(packing), product.plan(meaning, alone=False)
    plan = RegionPlan(region, kernels, (buffer,))
    return Candidate(plan, (schedule(kernels[0]), sizes))


def _in_panels(region: Region, found: Products, schedule: Scheduled) -> Candidate:
    """Products whose columns lie in panels: of weights, or that a kernel before packs."""
    sizes = schedule_of_panels(found)
    meaning, each, kernels, temps = region, list[Contraction](), list[KernelPlan](), list[Buffer]()
    for columns in map(Columns.of, found.each):
        made = columns.found
        if columns.once is None:
            name = f"panels{len(temps) or ''}"
            buffer, packing, made, meaning = columns.packed_before(meaning, name)
            kernels.append(plan_sweeps(packing))
            temps.append(buffer)
        each.append(made)
    product = replace(found, each=tuple(each)).plan(meaning, alone=False)
    plan = RegionPlan(region, (*kernels, product), tuple(temps))
    return Candidate(plan, (*map(schedule, kernels), sizes))


def candidates_of_blocks(region: Region, schedule: Scheduled, *, rows: int) -> Iterator[Candidate]:
    """The same for blocks of threads, which have so many rows of a fold at least."""
    *others, store = region.stores
    fold = find_streamable(region.stores, rows)
    if fold is not None:
        cascade = find_cascade(region.stores, one_row=True)
        assert cascade is not None
        plan = cascade.plan(region)
        whole = candidate(RegionPlan(region, (plan,)), schedule)
        (sizes,) = whole.schedules
        parts = parts_of_blocks(fold, sizes)
        pieces = split_fold(plan, parts, sizes["step"]) if parts > 1 else None
        if pieces is not None:
            yield candidate(pieces.plan(region, team=True), schedule)
        yield whole
    yield from _block_folds(region, schedule, deep=False)
    products = None if others else find_products(store)
    if products is not None and (len(products.each) == 1 or flat_pair(products)):
        plan = RegionPlan(region, (products.plan(region, alone=True),))
        yield candidate(plan, schedule)


def candidates_of_deep_rows(region: Region, schedule: Scheduled) -> Iterator[Candidate]:
    """Folds of the rows of products that are so deep that to store them costs little beside them."""
    yield from _block_folds(region, schedule, deep=True)


def _block_folds(region: Region, schedule: Scheduled, *, deep: bool) -> Iterator[Candidate]:
    """A fold of rows in parts, where one launch has too few blocks for a device; and in one launch."""
    found = find_foldable(region.stores, deep=deep)
    if found is None:
        return
    plan, parts = found.plan(region), parts_of_rows(found)
    pieces = split_fold(plan, parts, STEP_OF_ROWS) if parts > 1 else None
    if pieces is not None:
        yield candidate(pieces.plan(region, team=True), schedule)
    yield candidate(RegionPlan(region, (plan,)), schedule)
