"""devices: how a target turns plans into kernels: its plans and builders, for one machine.

`space` yields what a region can run as, all of it values: a plan, and a schedule for each of its kernels. The first one
that the builders realise is the heuristic's. The rows stand in `targets`, made of a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product

from lumigen.condition import Cmp
from lumigen.dtype import DType, f32
from lumigen.errors import LoweringFailed
from lumigen.index import Axis, extent_of
from lumigen.lower.built import Built, scratch_of
from lumigen.lower.contract import find_products
from lumigen.lower.contractions import OneRow
from lumigen.lower.estimates import estimated
from lumigen.lower.float_columns import stores_types
from lumigen.lower.order import Keeps, PartOf, plan_order
from lumigen.lower.pieces import plan_pieces
from lumigen.lower.plan_region import (
    Candidate,
    Scheduled,
    candidate,
    candidates_of_loops,
    candidates_of_scans,
    parts_beside,
    plan_loops,
)
from lumigen.lower.scan import is_scan
from lumigen.lower.space import Builder, changes
from lumigen.lower.sweeps import plan_sweeps
from lumigen.machine import Machine, Processor
from lumigen.plan import Illegal, KernelPlan, NotRealised, RegionPlan
from lumigen.region import Expr, Region
from lumigen.schedule import Schedule
from lumigen.verify.plan import verify as verify_plan

Products = Callable[[Region, Scheduled], Iterator[Candidate]]
Pick = Callable[
    [Region, Region], Candidate | None
]  # of a canonical region and the same on named buffers


def heuristic(_canonical: Region, _named: Region) -> None:
    """Picks nothing: the first candidate of each space runs."""


Makes = Callable[
    [Expr, Sequence[tuple[Axis, ...]]], bool
]  # of columns, and the axes of the rows, the columns and the depth


GENERAL = Schedule("general", ())  # of an architecture that is to run the kernel of all others


@dataclass(frozen=True)
class Special:
    """Kernels that run on one architecture alone, instead of the one that runs on all.

    `schedules` are those of a plan, each where conditions hold; none of a plan that it does not realise.
    """

    architecture: str
    schedules: Callable[[KernelPlan], tuple[tuple[tuple[Cmp, ...], Schedule], ...]]


@dataclass(frozen=True)
class SpecialPlace:
    """Where an architecture has a kernel instead of a plan's of this number: by the heuristic, and as it is wanted."""

    kernel: int
    architecture: str
    conditions: tuple[Cmp, ...]
    plan: KernelPlan
    heuristic: Schedule
    wanted: Schedule


@dataclass(frozen=True)
class SpecialKernel:
    """What runs instead of a plan's kernel of this number, on an architecture or on all, if conditions hold."""

    kernel: int
    architecture: str
    conditions: tuple[Cmp, ...]
    plan: KernelPlan
    sizes: Schedule
    built: Built

    @property
    def features(self) -> tuple[str, ...]:
        """What a guard asks for."""
        return (self.architecture,) if self.architecture else ()


@dataclass(frozen=True)
class Device:
    """A row. `products` yields plans of products and of folds around one; vector loops run any region."""

    machine: Machine  # that all other fields were made for
    products: Products
    schedule: Callable[[KernelPlan], Schedule]
    builders: Mapping[str, Builder]
    runs_whole: Callable[[Region, DType], bool]  # with temporaries of f32 held in the type
    keeps: Keeps  # of native kernels that order rows
    part_of: PartOf = lambda _length, _kept: 0  # the same
    selects: Callable[[Region], bool] = lambda _: False  # whether teams do that hold its rows
    rows_in_one_loop: Products | None = None  # where other plans take less time
    special: tuple[Special, ...] = ()
    one_row: OneRow = OneRow.NONE  # which products of a vector are products like others
    beside: Callable[[Region], bool] = lambda _: False  # whether a launch has a grid for each store
    computes: Callable[[Region], bool] = lambda _: False  # if a product is to compute its operands
    multiplies_all: Callable[[Region], bool] = lambda _: False  # however many products it has
    makes: Makes = lambda _value, _place: False  # if products of few rows make columns of weights

    def space(self, region: Region) -> Iterator[Candidate]:
        """What a canonical region can run as, the heuristic's choice first."""
        if region.native:
            copied = partial(plan_sweeps, machine=self.machine)
            plan = plan_order(region, copied, self.keeps, self.part_of)
            yield candidate(plan, self.schedule)
            return
        if is_scan(region):
            yield from candidates_of_scans(region, self.schedule, self.machine)
            return
        if not self._is_joined_in_loops(region):
            yield from self.products(region, self.schedule)
        pieces = plan_pieces(region, self.machine)
        if pieces is not None:
            yield candidate(RegionPlan(region, (pieces,)), self.schedule)
        if _is_one_nest(region):
            loops = plan_loops(region, self.machine)
            for plan in (parts_beside(loops, self.machine), loops):
                if plan is not None:
                    yield from candidates_of_loops(plan, self.schedule)
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
            built = builder.build(plan, sizes)
        except NotRealised as why:
            return why.illegal
        except ZeroDivisionError:  # a file of schedules may say anything
            return Illegal(f"{sizes.builder} has a size that no whole part fits in: {sizes.tile}")
        if isinstance(self.machine, Processor):
            used, most = scratch_of(built.program), self.machine.scratch
            if used > most:
                return Illegal(f"{used} bytes of scratch for each thread, of which {most} may be")
        if self.machine.vectors.estimates:
            return replace(built, program=estimated(built.program, built.meaning))
        return built

    def realise(self, found: Candidate) -> tuple[Built, ...] | Illegal:
        """The kernels of a candidate in launch order, or why one of them cannot be."""
        out: list[Built] = []
        for plan, sizes in zip(verify_plan(found.plan).kernels, found.schedules, strict=True):
            built = self.build(plan, sizes)
            if isinstance(built, Illegal):
                return built
            out.append(built)
        return tuple(out)

    def lower(
        self, region: Region, wanted: Candidate | None = None
    ) -> tuple[Candidate, tuple[Built, ...]]:
        """What is wanted if it is legal, else the first of the space that is; and its kernels in launch order."""
        reasons: list[str] = []
        for found in chain(() if wanted is None else (wanted,), self.space(region)):
            built = self.realise(found)
            if not isinstance(built, Illegal):
                return found, built
            reasons.append(built.reason)
        raise LoweringFailed(step="lower", what=f"no plan is realised: {'; '.join(reasons)}")

    def variants(self, found: Candidate, architectures: Collection[str]) -> Iterator[SpecialKernel]:
        """What runs instead of a plan's kernels on some of these architectures, each in the order that it is asked.

        None where `found` wants the general kernel. A schedule that it wants and that its builder refuses is the
        heuristic's.
        """
        for place in self.places(found, architectures):
            own, plan = place.wanted, place.plan
            if own == GENERAL:
                continue
            built = self.build(plan, own)
            if isinstance(built, Illegal):
                own, built = place.heuristic, self.build(plan, place.heuristic)
            if isinstance(built, Illegal):
                raise LoweringFailed(step="variants", what=built.reason)
            yield SpecialKernel(
                place.kernel, place.architecture, place.conditions, plan, own, built
            )

    def places(self, found: Candidate, architectures: Collection[str]) -> Iterator[SpecialPlace]:
        """Where kernels of some of these architectures may run instead of a plan's, in the order of `found.special`.

        Of several kernels only products have some: parts of a fold are for blocks without a copy engine.
        """
        kernels, wanted = found.plan.kernels, iter(found.special)
        if found.plan.region.native:
            return
        alone = len(kernels) == 1
        each = ((n, p) for n, p in enumerate(kernels) if alone or p.begins_with_product)
        for (number, plan), special in product(each, self.special):
            if special.architecture not in architectures:
                continue
            for conditions, heuristic in special.schedules(plan):
                own = next(wanted, heuristic)
                yield SpecialPlace(number, special.architecture, conditions, plan, heuristic, own)

    def instead(
        self, found: Candidate, built: tuple[Built, ...], architectures: Collection[str]
    ) -> Iterator[SpecialKernel]:
        """All that may run instead of a candidate, as it was built, each in the order that it is asked."""
        yield from self.variants(found, architectures)
        bounded = self.bounded(found, built, architectures)
        yield from (v for v in bounded if not isinstance(v, Illegal))

    def bounded(
        self, found: Candidate, built: tuple[Built, ...], architectures: Collection[str]
    ) -> Iterator[SpecialKernel | Illegal]:
        """What runs instead of a candidate, as it was built, where conditions on dims hold; or why it does not.

        It takes the same arguments, so that whichever runs there is one arena and one form of each weight.
        """
        if found.bounded and next(self.variants(found, architectures), None) is not None:
            yield Illegal("an architecture has kernels of its own, each for other dims")
            return
        for conditions, other in found.bounded:
            if len(built) != 1 or len(other.plan.kernels) != 1:
                yield Illegal("one kernel runs instead of one, and here are several")
                continue
            plan, sizes, general = other.plan.kernels[0], other.schedules[0], built[0]
            made = self.build(plan, sizes)
            if isinstance(made, Illegal):
                yield made
            elif not (_takes(made) <= _takes(general)) or made.temps:
                yield Illegal("it takes arguments that the kernel beside it does not")
            elif not set(general.program.overwrites) <= set(made.program.overwrites):
                yield Illegal("it reads what the kernel beside it may have written over")
            else:
                yield SpecialKernel(0, "", conditions, plan, sizes, made)

    def in_loops(self, region: Region) -> bool:
        """Whether a region runs as vector loops."""
        if region.native:
            return False
        no_product = next(self.products(region, self.schedule), None) is None
        return is_scan(region) or no_product or self._is_joined_in_loops(region)

    def stores_types(self, region: Region) -> bool:
        """Whether loops compute floats and integers of a region together."""
        return stores_types(region, self.machine)

    def columns(self, region: Region) -> int:
        """How many columns of a tile of products lie side by side; 0 in vector loops."""
        if self.in_loops(region):
            return 0
        integers = self.machine.storing.integers
        found = find_products(region.stores[0], one_row=True, statistics=True, integers=integers)
        several = found is not None and len(found.each) > self.machine.accumulators
        if several and not self.multiplies_all(region):
            return 0
        axes = region.stores[0].axes if found is None else found.each[0].n_axes
        return extent_of(axes).estimate()

    def _is_joined_in_loops(self, region: Region) -> bool:
        """Whether a region has several stores that no fold computes, nor grids: those are of vector loops."""
        several = len(region.stores) > 1
        return several and not self.beside(region) and not self.runs_whole(region, f32)


def _is_one_nest(region: Region) -> bool:
    """Whether loops around one of its stores go over the axes of all: grids side by side have axes of their own."""
    axes = [frozenset(s.axes) for s in region.stores]
    return any(all(other <= own for other in axes) for own in axes)


def _takes(built: Built) -> set[object]:
    """What a kernel is given: its arguments, and how weights are packed for it."""
    return {*built.program.args, *built.packs}
