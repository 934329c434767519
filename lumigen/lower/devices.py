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
from lumigen.lower import roles, stream_roles
from lumigen.lower.axes import unify_axes
from lumigen.lower.beside import find_beside
from lumigen.lower.built import Built
from lumigen.lower.cascade import cascade, find_cascade
from lumigen.lower.cascade_row import cascade_row
from lumigen.lower.chain import chain, find_chain
from lumigen.lower.contract import find_products
from lumigen.lower.implicit import implicit
from lumigen.lower.order import Keeps, order, plan_order
from lumigen.lower.panels import contract
from lumigen.lower.pipeline import pipeline
from lumigen.lower.plan_region import (
    Candidate,
    Scheduled,
    candidate,
    candidates_of_blocks,
    candidates_of_threads,
    plan_loops,
)
from lumigen.lower.scan import is_scan, plan_scan, scan
from lumigen.lower.schedule_plan import (
    STREAM_ROWS,
    maps_rows,
    schedule_of_block,
    schedule_of_thread,
)
from lumigen.lower.side_by_side import side_by_side
from lumigen.lower.simt import simt
from lumigen.lower.split import Division, Grain
from lumigen.lower.stream import find_streamable, stream
from lumigen.lower.sweeps import plan_sweeps
from lumigen.lower.tile_time import MULTIPROCESSORS
from lumigen.plan import Illegal, KernelPlan, NotRealised, RegionPlan
from lumigen.region import Region
from lumigen.schedule import Schedule
from lumigen.verify.plan import verify as verify_plan

ORDERED = 2048  # elements that a block orders at a time: kOrdered of the device's headers
Builder = Callable[[KernelPlan, Schedule], Built]


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

    products: Callable[[Region, Scheduled], Iterator[Candidate]]
    schedule: Callable[[KernelPlan], Schedule]
    builders: Mapping[str, Builder]
    runs_whole: Callable[[Region, DType], bool]  # with temporaries of f32 held in the type
    division: Division
    keeps: Keeps  # of native kernels that order rows
    special: tuple[Special, ...] = ()
    team: bool = False  # a task is a block of threads, the last of which may go on
    one_row: bool = False  # a vector times weights is a product like others
    beside: Callable[[Region], bool] = lambda _: False  # whether a launch has a grid for each store
    maps_rows: Callable[[Region], bool] = lambda _: (
        False
    )  # whether a product is to compute its rows
    short: int = 0  # points of a loop over tiles that takes no longer than to store them

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

    def build(self, plan: KernelPlan, sizes: Schedule) -> Built | Illegal:
        """The kernel that a plan and a schedule say, or why there is none."""
        builder = self.builders.get(sizes.builder)
        if builder is None:
            return Illegal(f"no builder {sizes.builder}: {', '.join(self.builders)}")
        try:
            return builder(plan, sizes)
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
        axes = region.stores[0].axes if found is None else found.each[0].n_axes
        return extent_of(axes).estimate()

    def _is_joined_in_loops(self, region: Region) -> bool:
        """Whether a region has several stores that no fold computes, nor grids: those are of vector loops."""
        several = len(region.stores) > 1
        return several and not self.beside(region) and not self.runs_whole(region, f32)


def _has_skeleton(region: Region, _temporaries: DType) -> bool:
    """Whether a thread runs a contraction inside another reduction without storing it."""
    stores = unify_axes(region).stores
    is_chain = len(stores) == 1 and find_chain(stores[0]) is not None
    return is_chain or find_cascade(stores, one_row=True) is not None


def _streams(region: Region, temporaries: DType) -> bool:
    """The same of blocks of threads."""
    return find_streamable(unify_axes(region).stores, STREAM_ROWS, temporaries) is not None


def _kept_by_blocks(length: Ix, kept: Ix) -> bool:
    """Whether what a block of threads keeps of a row fits with what it compares with it, or all of the row does."""
    most, longest = kept.bounds()[1], length.bounds()[1]
    return (most is not None and most <= ORDERED // 2) or (
        longest is not None and longest <= ORDERED
    )


LOOPS: dict[str, Builder] = {"simt": simt, "scan": scan, "order": order}
PANELS: dict[str, Builder] = {"panel": contract, "windows": implicit, "chain": chain}
CPU = Device(
    products=candidates_of_threads,
    schedule=schedule_of_thread,
    builders=LOOPS
    | PANELS
    | {
        "side_by_side": partial(side_by_side, builders=PANELS),
        "cascade": cascade,
        "cascade_row": cascade_row,
    },
    runs_whole=_has_skeleton,
    # results, 128 to a task, for every core of a large machine; parts of 128 KiB
    division=Division(lanes=64 * 128, row=Grain(128, 1 << 15), column=Grain(1, 256), again=1 << 17),
    keeps=lambda _length, _kept: True,
    beside=lambda region: find_beside(region) is not None,
    maps_rows=maps_rows,
    one_row=True,
)
CUDA = Device(
    products=partial(candidates_of_blocks, rows=STREAM_ROWS),
    schedule=schedule_of_block,
    builders=LOOPS
    | {
        "pipeline": pipeline,
        "stream": stream,
        "roles": roles.roles,
        "stream_roles": stream_roles.stream_roles,
    },
    runs_whole=_streams,
    # four lanes to each of a thousand threads of every multiprocessor; a row is a block's
    division=Division(
        lanes=MULTIPROCESSORS * 4096, row=Grain(1024, 1 << 13, 4), column=Grain(1, 64, 1024)
    ),
    team=True,
    short=512,  # some steps of a block, as against the launches that it saves
    keeps=_kept_by_blocks,
    special=(
        Special("sm_90a", roles.schedules),
        Special("sm_90a", stream_roles.schedules),
    ),
)
DEVICES = {"cpu": CPU, "cuda": CUDA}
