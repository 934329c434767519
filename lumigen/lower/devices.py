"""devices: how each target turns plans into kernels: the plans and builders of a kind of machine.

`space` yields what a region can run as, all of it values: a plan, and a schedule for each of its kernels. The first one
that the builders realise is the heuristic's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from lumigen.condition import Cmp
from lumigen.dtype import DType, f32
from lumigen.errors import LoweringFailed
from lumigen.index import Ix, extent_of
from lumigen.lower import (
    block_fold,
    cascade_row,
    cascade_tiles,
    implicit,
    order,
    panels,
    pipeline,
    roles,
    row_fold_tiles,
    scan,
    simt,
    stream,
    stream_roles,
)
from lumigen.lower.axes import unify_axes
from lumigen.lower.beside import find_beside
from lumigen.lower.block_fold import find_foldable
from lumigen.lower.built import Built
from lumigen.lower.cascade import find_cascade
from lumigen.lower.contract import find_products
from lumigen.lower.order import Keeps, plan_order
from lumigen.lower.plan_region import (
    Candidate,
    Scheduled,
    candidate,
    candidates_of_blocks,
    candidates_of_deep_rows,
    candidates_of_rows,
    candidates_of_threads,
    plan_loops,
)
from lumigen.lower.row_fold import find_row_fold
from lumigen.lower.scan import is_scan, plan_scan
from lumigen.lower.schedule_plan import (
    POINTS_OF_THREAD,
    STREAM_ROWS,
    maps_rows,
    schedule_of_block,
    schedule_of_thread,
)
from lumigen.lower.side_by_side import side_by_side
from lumigen.lower.space import (
    Builder,
    changes,
    each_part,
    sites,
    tiles_of_pipeline,
    tiles_of_roles,
    tiles_of_stream,
    tiles_of_stream_roles,
)
from lumigen.lower.split import Division, Grain
from lumigen.lower.stream import find_streamable
from lumigen.lower.sweeps import plan_sweeps
from lumigen.lower.tile_time import MULTIPROCESSORS
from lumigen.plan import Illegal, KernelPlan, NotRealised, RegionPlan
from lumigen.region import Region
from lumigen.schedule import Schedule
from lumigen.verify.plan import verify as verify_plan

ORDERED = 2048  # elements that a block orders at a time: kOrdered of the device's headers
Products = Callable[[Region, Scheduled], Iterator[Candidate]]


@dataclass(frozen=True)
class Special:
    """Kernels that run on one architecture alone, instead of the one that runs on all.

    `schedules` are those of a plan, each where conditions hold; none of a plan that it does not realise.
    """

    architecture: str
    schedules: Callable[[KernelPlan], tuple[tuple[tuple[Cmp, ...], Schedule], ...]]


@dataclass(frozen=True)
class Device:
    """A row. `products` yields plans of products and of folds around one; vector loops run any region."""

    products: Products
    schedule: Callable[[KernelPlan], Schedule]
    builders: Mapping[str, Builder]
    runs_whole: Callable[[Region, DType], bool]  # with temporaries of f32 held in the type
    division: Division
    keeps: Keeps  # of native kernels that order rows
    rows_in_one_loop: Products | None = None  # where other plans take less time
    special: tuple[Special, ...] = ()
    accumulators: int = 1  # of products that a tile should have; more are elements of the space
    team: bool = False  # a task is a block of threads, the last of which may go on
    one_row: bool = False  # a vector times weights is a product like others
    beside: Callable[[Region], bool] = lambda _: False  # whether a launch has a grid for each store
    maps_rows: Callable[[Region], bool] = lambda _: False  # if a product is to compute its rows
    short: int = 0  # points of a loop over tiles that takes no longer than to store them
    rows: int = (
        0  # of a product that is reduced to numbers of them, for which it is not stored; 0: always
    )
    wide: int = 0  # columns of one of fewer rows, which parts of a fold share

    def space(self, region: Region) -> Iterator[Candidate]:
        """What a canonical region can run as, the heuristic's choice first."""
        if region.native:
            plan = plan_order(region, partial(plan_sweeps, team=self.team), self.keeps)
            yield candidate(plan, self.schedule)
            return
        if is_scan(region):
            plan = RegionPlan(region, (plan_scan(region, team=self.team),))
            yield candidate(plan, self.schedule)
            return
        if not self._is_joined_in_loops(region):
            yield from self.products(region, self.schedule)
        yield candidate(plan_loops(region, self.division, team=self.team), self.schedule)
        if self.rows_in_one_loop is not None:
            yield from self.rows_in_one_loop(region, self.schedule)

    def changes(self, found: Candidate) -> Iterator[Candidate]:
        """Every candidate that is one decision away from another one."""
        return changes(found, self.builders)

    def build(self, plan: KernelPlan, sizes: Schedule) -> Built | Illegal:
        """The kernel that a plan and a schedule say, or why there is none."""
        builder = self.builders.get(sizes.builder)
        if builder is None:
            return Illegal(f"no builder {sizes.builder}: {', '.join(self.builders)}")
        try:
            return builder.build(plan, sizes)
        except NotRealised as why:
            return why.illegal

    def lower(self, region: Region) -> tuple[Candidate, tuple[Built, ...]]:
        """The first of the space that is legal, and its kernels in launch order."""
        reasons: list[str] = []
        for found in self.space(region):
            pairs = zip(verify_plan(found.plan).kernels, found.schedules, strict=True)
            built = [self.build(plan, sizes) for plan, sizes in pairs]
            legal = tuple(b for b in built if isinstance(b, Built))
            if len(legal) == len(built):
                return found, legal
            reasons += [b.reason for b in built if isinstance(b, Illegal)]
        raise LoweringFailed(step="lower", what=f"no plan is realised: {'; '.join(reasons)}")

    def in_loops(self, region: Region) -> bool:
        """Whether a region runs as vector loops."""
        if region.native:
            return False
        no_product = next(self.products(region, self.schedule), None) is None
        return is_scan(region) or no_product or self._is_joined_in_loops(region)

    def columns(self, region: Region) -> int:
        """How many columns of a tile of products lie side by side; 0 in vector loops."""
        if self.in_loops(region):
            return 0
        found = find_products(region.stores[0], one_row=True, statistics=True)
        if found is not None and len(found.each) > self.accumulators:
            return 0
        axes = region.stores[0].axes if found is None else found.each[0].n_axes
        return extent_of(axes).estimate()

    def _is_joined_in_loops(self, region: Region) -> bool:
        """Whether a region has several stores that no fold computes, nor grids: those are of vector loops."""
        several = len(region.stores) > 1
        return several and not self.beside(region) and not self.runs_whole(region, f32)


def _has_skeleton(region: Region, _temporaries: DType) -> bool:
    """Whether a thread runs a contraction inside another reduction without storing it."""
    stores = unify_axes(region).stores
    return find_row_fold(stores) is not None or find_cascade(stores, one_row=True) is not None


def _streams(region: Region, temporaries: DType) -> bool:
    """The same of blocks of threads."""
    stores = unify_axes(region).stores
    streams = find_streamable(stores, STREAM_ROWS, temporaries) is not None
    return streams or find_foldable(stores, temporaries) is not None


def _kept_by_blocks(length: Ix, kept: Ix) -> bool:
    """Whether what a block of threads keeps of a row fits with what it compares with it, or all of the row does."""
    most, longest = kept.bounds()[1], length.bounds()[1]
    return (most is not None and most <= ORDERED // 2) or (
        longest is not None and longest <= ORDERED
    )


LOOPS = {
    "simt": Builder(simt.simt, sites(simt.SITES, simt.SITES_OF_TEAMS)),
    "scan": Builder(scan.scan, sites(scan.SITES, scan.SITES_OF_TEAMS)),
    "order": Builder(order.order, sites()),
}
PANELS = {
    "panel": Builder(panels.contract, sites(panels.SITES)),
    "windows": Builder(implicit.implicit, sites(implicit.SITES)),
}
CPU = Device(
    products=candidates_of_threads,
    schedule=schedule_of_thread,
    builders=LOOPS
    | PANELS
    | {
        "side_by_side": Builder(
            partial(side_by_side, builders={name: b.build for name, b in PANELS.items()}),
            each_part({name: b.near for name, b in PANELS.items()}),
        ),
        "row_fold": Builder(row_fold_tiles.row_fold, sites(row_fold_tiles.SITES)),
        "cascade": Builder(cascade_tiles.cascade, sites(cascade_tiles.SITES)),
        "cascade_row": Builder(cascade_row.cascade_row, sites(cascade_row.SITES)),
    },
    runs_whole=_has_skeleton,
    # results, 128 to a task, for every core of a large machine; parts of 128 KiB
    division=Division(lanes=64 * 128, row=Grain(128, 1 << 15), column=Grain(1, 256), again=1 << 17),
    keeps=lambda _length, _kept: True,
    beside=lambda region: find_beside(region) is not None,
    maps_rows=maps_rows,
    accumulators=8,
    one_row=True,
    rows_in_one_loop=candidates_of_rows,
    rows=64,  # eight threads with eight rows each
    wide=8 * POINTS_OF_THREAD,
)
CUDA = Device(
    products=partial(candidates_of_blocks, rows=STREAM_ROWS),
    schedule=schedule_of_block,
    builders=LOOPS
    | {
        "pipeline": Builder(pipeline.pipeline, tiles_of_pipeline),
        "stream": Builder(stream.stream, tiles_of_stream),
        "block_fold": Builder(block_fold.block_fold, sites(block_fold.SITES)),
        "roles": Builder(roles.roles, tiles_of_roles),
        "stream_roles": Builder(stream_roles.stream_roles, tiles_of_stream_roles),
    },
    runs_whole=_streams,
    rows_in_one_loop=candidates_of_deep_rows,
    # four lanes to each of a thousand threads of every multiprocessor; a row is a block's
    division=Division(
        lanes=MULTIPROCESSORS * 4096, row=Grain(1024, 1 << 13, 4), column=Grain(1, 64, 1024)
    ),
    accumulators=1,  # no kernel with more was seen to be faster than a launch for each
    team=True,
    short=1 << 20,  # blocks share long loops, as against the launches that storing takes
    keeps=_kept_by_blocks,
    special=(
        Special("sm_90a", roles.schedules),
        Special("sm_90a", stream_roles.schedules),
    ),
)
DEVICES = {"cpu": CPU, "cuda": CUDA}
