"""devices: how each target turns plans into kernels: the heuristics and skeletons of a kind of machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lumigen.dtype import DType, f32, i32
from lumigen.index import Ix, extent_of, ix
from lumigen.lower.axes import unify_axes
from lumigen.lower.cascade import cascade, find_cascade
from lumigen.lower.cascade_row import cascade_row
from lumigen.lower.chain import chain, find_chain
from lumigen.lower.contract import Form, Lowered, contract, find_contraction
from lumigen.lower.hold import hold_rows
from lumigen.lower.implicit import implicit
from lumigen.lower.order import Keeps, order
from lumigen.lower.pipeline import pipeline
from lumigen.lower.plan_region import plan_blocks, plan_region
from lumigen.lower.roles import roles
from lumigen.lower.scan import is_scan, plan_scan, scan
from lumigen.lower.schedule_plan import (
    STREAM_ROWS,
    VECTOR_LOOPS,
    schedule_blocks,
    schedule_plan,
    vector_loops_of_blocks,
)
from lumigen.lower.simt import Last, simt
from lumigen.lower.split import Division, Grain, Split, is_little, split
from lumigen.lower.stream import find_streamable, stream
from lumigen.lower.stream_roles import stream_roles
from lumigen.lower.sweeps import merge_reduced, plan_sweeps
from lumigen.lower.tile_time import MULTIPROCESSORS
from lumigen.plan import RegionPlan
from lumigen.region import Buffer, Region, Role, Store, const
from lumigen.schedule import Schedule, schedule
from lumigen.tile import TileProgram
from lumigen.verify.plan import verify as verify_plan

BLOCK = 256  # threads: kThreads of the device's headers
ORDERED = 2048  # elements that a block orders at a time: kOrdered of the device's headers


@dataclass(frozen=True)
class Special:
    """Kernels that run on one architecture alone, instead of the one that runs on all. None: of another form."""

    architecture: str
    forms: Callable[[Region], tuple[Form, ...]]


@dataclass(frozen=True)
class Device:
    """A row. `forms` are tried in turn on a plan whose schedule is not of vector loops, which run any plan."""

    plan: Callable[[Region], RegionPlan]
    schedule: Callable[[RegionPlan], Schedule]
    loops: Callable[[RegionPlan], Schedule]
    forms: tuple[Callable[[Region, Schedule], Lowered | None], ...]
    folds: tuple[Callable[[Region, Schedule], Lowered | None], ...]  # those of several stores too
    runs_whole: Callable[[Region, DType], bool]  # with temporaries of f32 held in the type
    division: Division
    keeps: Keeps  # of native kernels that order rows
    threads: int  # of theirs
    special: tuple[Special, ...] = ()
    counts_blocks: bool = False  # the last block of a launch may go on
    one_row: bool = False  # a vector times weights is a product like others
    short: int = 0  # points of a loop over tiles that takes no longer than to store them

    def lower(self, region: Region) -> tuple[RegionPlan, Schedule, Lowered]:
        """The plan, the schedule and the kernels that the heuristics choose for a canonical region."""
        if region.native:
            lowered = order(
                region, lambda r: self._loops(r)[2].kernels[0][0], self.keeps, self.threads
            )
            return RegionPlan(region, (), lowered.temps), schedule("order", {}), lowered
        if is_scan(region):
            plan = verify_plan(plan_scan(region))
            sizes = self.loops(plan)
            return plan, sizes, Lowered(((scan(plan, sizes), region),))
        if self._is_joined_in_loops(region):
            return self._loops(region)
        plan = verify_plan(self.plan(region))
        sizes = self.schedule(plan)
        if sizes.skeleton != "simt":
            forms = self.forms if len(region.stores) == 1 else self.folds
            found = (form(plan.region, sizes) for form in forms)
            lowered = next((f for f in found if f is not None), None)
            if lowered is not None:
                return plan, sizes, lowered
            # else weights that no panel holds, extents that no tile holds
        return self._loops(region)

    def _loops(self, region: Region) -> tuple[RegionPlan, Schedule, Lowered]:
        """Vector loops: those of the parts of long reductions, then those of the rest."""
        pieces = split(merge_reduced(region), self.division)
        plans = [verify_plan(plan_sweeps(r)) for r in (*pieces.parts, pieces.rest)]
        rest = plans[-1]
        kernels: list[tuple[TileProgram, Region]] = []
        if pieces.parts and self.counts_blocks and is_little(pieces, self.division):
            *plans, first, _ = plans
            kernels.append(_counted(pieces, first, rest, self.loops(first)))
        before = ((hold_rows(simt(p, self.loops(p))), p.region) for p in plans)
        return rest, self.loops(rest), Lowered((*before, *kernels), pieces.temps)

    def in_loops(self, region: Region) -> bool:
        """Whether a region runs as vector loops."""
        if region.native:
            return False
        if is_scan(region) or self._is_joined_in_loops(region):
            return True
        return self.schedule(self.plan(region)).skeleton == "simt"

    def columns(self, region: Region) -> int:
        """How many columns of a tile of products lie side by side; 0 in vector loops."""
        if self.in_loops(region):
            return 0
        found = find_contraction(region.stores[0], one_row=True)
        axes = region.stores[0].axes if found is None else found.n_axes
        return extent_of(axes).estimate()

    def _is_joined_in_loops(self, region: Region) -> bool:
        """Whether a region has several stores that no fold computes: those are of vector loops."""
        return len(region.stores) > 1 and not self.runs_whole(region, f32)


def _counted(
    pieces: Split, first: RegionPlan, rest: RegionPlan, sizes: Schedule
) -> tuple[TileProgram, Region]:
    """One kernel of the last parts and of the rest, with its meaning."""
    arrived = Buffer("arrived", Role.COUNTER, (ix(1),), i32, (0, 0))
    none = Store(arrived, (), (ix(0),), const(0, i32))
    stores = (*first.region.stores, *pieces.after_last.stores, none)
    # left to itself the compiler spills registers so that more than two blocks of a multiprocessor have some
    program = replace(simt(first, sizes, Last(rest, arrived)), blocks=2)
    return program, Region(stores, rest.region.lines)


def _has_skeleton(region: Region, _temporaries: DType) -> bool:
    """Whether a skeleton runs a contraction inside another reduction without storing it."""
    stores = unify_axes(region).stores
    is_chain = len(stores) == 1 and find_chain(stores[0]) is not None
    return is_chain or find_cascade(stores, one_row=True) is not None


def _streams(region: Region, temporaries: DType) -> bool:
    """The same of a skeleton for blocks of threads."""
    return find_streamable(unify_axes(region).stores, STREAM_ROWS, temporaries) is not None


def _kept_by_blocks(length: Ix, kept: Ix) -> bool:
    """Whether what a block of threads keeps of a row fits beside what it compares with it, or all of the row does."""
    most, longest = kept.bounds()[1], length.bounds()[1]
    return (most is not None and most <= ORDERED // 2) or (
        longest is not None and longest <= ORDERED
    )


CPU = Device(
    plan=plan_region,
    schedule=schedule_plan,
    loops=lambda _: VECTOR_LOOPS,
    forms=(implicit, contract, chain, cascade_row, cascade),
    folds=(cascade_row, cascade),
    runs_whole=_has_skeleton,
    # results, 128 to a task, for every core of a large machine; parts of 128 KiB
    division=Division(lanes=64 * 128, row=Grain(128, 1 << 15), column=Grain(1, 256), again=1 << 17),
    keeps=lambda _length, _kept: True,
    threads=1,
    one_row=True,
)
CUDA = Device(
    plan=plan_blocks,
    schedule=schedule_blocks,
    loops=vector_loops_of_blocks,
    forms=(pipeline, stream),
    folds=(stream,),
    runs_whole=_streams,
    # four lanes to each of a thousand threads of every multiprocessor; a row is a block's
    division=Division(
        lanes=MULTIPROCESSORS * 4096, row=Grain(1024, 1 << 13, 4), column=Grain(1, 64, 1024)
    ),
    counts_blocks=True,
    short=512,  # some steps of a block, as against the launches that it saves
    keeps=_kept_by_blocks,
    threads=BLOCK,
    special=(Special("sm_90a", roles), Special("sm_90a", stream_roles)),
)
DEVICES = {"cpu": CPU, "cuda": CUDA}
