"""beside: products of the same rows with several weights, each of which stores its own.

Before: a region of several stores.  After: a grid for each of them, side by side in one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

from lumigen.index import Axis, extent_of
from lumigen.lower.contract import Columns, Contraction, Products, find_products, flatten
from lumigen.lower.implicit import has_windows
from lumigen.lower.join import read_the_same
from lumigen.lower.operands import affine
from lumigen.lower.pipeline import multiplied_in
from lumigen.lower.scan import is_scan
from lumigen.lower.simt import team_of
from lumigen.lower.split import split
from lumigen.lower.sweeps import merge_reduced, plan_sweeps
from lumigen.machine import Gpu, Machine, Processor
from lumigen.plan import KernelPlan
from lumigen.region import Expr, Region, Store, substitute, walk
from lumigen.schedule import Schedule


def find_beside(region: Region, machine: Processor) -> tuple[Products, ...] | None:
    """The products of each store, if all have the same rows and weights in panels, and none waits for another."""
    products = _of_each_store(region, one_row=True, integers=machine.storing.integers)
    if products is None:
        return None
    each = [c for p in products for c in p.each]
    in_panels = all(_lies_in_panels(Columns.of(c)) and not _has_windows(c, machine) for c in each)
    return products if in_panels else None


def _lies_in_panels(columns: Columns) -> bool:
    return columns.once is not None or columns.groups is not None


def find_blocks_beside(region: Region) -> tuple[Products, ...] | None:
    """The same for blocks of threads, each of which has a tile of one product: in one type, of no batch.

    Their columns lie alike in memory, as all have one form of tile.
    """
    products = _of_each_store(region, one_row=False)
    if products is None or any(len(p.each) > 1 for p in products):
        return None
    each = [c for p in products for c in p.each]
    forms = {(multiplied_in(c.rows, c.columns), _are_deep(c)) for c in each}
    return products if len(forms) == 1 and not any(c.grid for c in each) else None


def _are_deep(c: Contraction) -> bool:
    """Whether columns are contiguous along the depth."""
    columns = Columns.of(c)
    found = affine(columns.value, columns.n, columns.k)
    return found is not None and found[3] == 1


def _of_each_store(
    region: Region, *, one_row: bool, integers: bool = False
) -> tuple[Products, ...] | None:
    """The products of each store, if all have the same rows, and none waits for another."""
    if not _are_apart(region):
        return None
    found = [
        find_products(s, one_row=one_row, statistics=one_row, integers=integers)
        for s in region.stores
    ]
    products = tuple(p for p in found if p is not None)
    each = [c for p in products for c in p.each]
    return products if len(products) == len(found) and have_rows_in_common(each) else None


def find_loops_beside(
    region: Region, schedule: Callable[[KernelPlan], Schedule], machine: Gpu
) -> tuple[tuple[KernelPlan, Schedule], ...] | None:
    """The vector loops of each store, for blocks of threads that all share their rows alike, if none waits for another.

    Not if a store has another's value on its way, or reads the same elements, which one loop does once, nor a reduction
    that runs in parts, nor a product that has tiles.
    """
    if not _are_apart(region) or any(_shares(a, b) for a, b in permutations(region.stores, 2)):
        return None
    each: list[tuple[KernelPlan, Schedule]] = []
    for store in region.stores:
        own = Region((store,), region.lines)
        if find_products(store) is not None or is_scan(own):
            return None
        if split(merge_reduced(own), machine).parts:
            return None
        plan = plan_sweeps(own, machine)
        if len(plan.root) > 1:
            return None  # a fold of each work tile, which the others have no use for
        sizes = schedule(plan)
        if sizes.builder not in ("simt", "transposed"):
            return None  # blocks that do not share rows
        each.append((plan, sizes))
    each = _of_alike_blocks(each, machine)
    alike = {
        (
            sizes.builder,
            sizes.get("width", 0),
            sizes.get("threads", 0),
            sizes.get("side", 0) or team_of(plan, sizes, machine),
        )
        for plan, sizes in each
    }
    return tuple(each) if len(alike) == 1 else None


def _of_alike_blocks(
    each: list[tuple[KernelPlan, Schedule]], machine: Gpu
) -> list[tuple[KernelPlan, Schedule]]:
    """The loops with the blocks of the one that stores most, where teams are parts of a warp.

    What else a launch stores has few blocks then; small blocks of the largest would be far too many.
    """
    teams = [team_of(plan, sizes, machine) for plan, sizes in each if sizes.builder == "simt"]
    if len(teams) < len(each) or max(teams) > machine.teams.warp:
        return each
    _, largest = max(each, key=lambda one: extent_of(one[0].stores[0].axes).estimate())
    return [(plan, sizes.at("threads", largest["threads"])) for plan, sizes in each]


def _are_apart(region: Region) -> bool:
    """Whether a region has several stores, of which none reads what another one has stored."""
    stored = {s.dst for s in region.stores}
    if region.native or not 2 <= len(stored) == len(region.stores):
        return False
    return not any(a.dst in Region((b,)).reads() for a, b in permutations(region.stores, 2))


def _shares(a: Store, b: Store) -> bool:
    return a.axes == b.axes and (a.value in walk([b.value]) or read_the_same(a, b))


def plan_beside(
    region: Region, grids: tuple[Products, ...], machine: Machine, *, alone: bool = False
) -> KernelPlan:
    """The kernel of a region that has a grid for each store; what follows a product runs `alone`, or over lanes."""
    own = (Region((s,), region.lines) for s in region.stores)
    plans = (p.plan(one, machine, alone=alone) for p, one in zip(grids, own, strict=True))
    return KernelPlan(region, tuple(loop for plan in plans for loop in plan.root))


def have_rows_in_common(each: Iterable[Contraction]) -> bool:
    """Whether all contractions read the same elements in the same order, whatever their axes are called."""
    return len({_rows(c) for c in each}) == 1


def _rows(c: Contraction) -> tuple[Expr, Axis, Axis]:
    (m, m_map), (k, k_map) = flatten(c.m_axes, "m"), flatten(c.reduce.axes, "k")
    return substitute(substitute(c.rows, k_map), m_map), m, k


def _has_windows(c: Contraction, machine: Processor) -> bool:
    return bool(c.m_axes) and has_windows(c, machine)
