"""beside: products of the same rows with several weights, each of which stores its own.

Before: a region of several stores.  After: a grid for each of them, side by side in one launch.
"""

from __future__ import annotations

from collections.abc import Iterable

from lumigen.index import Axis
from lumigen.lower.contract import Columns, Contraction, Products, find_products, flatten
from lumigen.lower.implicit import has_windows
from lumigen.machine import Processor
from lumigen.plan import KernelPlan
from lumigen.region import Expr, Region, substitute


def find_beside(region: Region, machine: Processor) -> tuple[Products, ...] | None:
    """The products of each store, if all have the same rows and weights in panels, and none waits for another."""
    stored = {s.dst for s in region.stores}
    if region.native or len(stored) < 2 or len(stored) < len(region.stores):
        return None
    found = [find_products(s, one_row=True, statistics=True) for s in region.stores]
    products = tuple(p for p in found if p is not None)
    each = [c for p in products for c in p.each]
    if len(products) < len(found) or not have_rows_in_common(each):
        return None
    in_panels = all(Columns.of(c).once is not None and not _has_windows(c, machine) for c in each)
    return products if in_panels and not stored & set(region.reads()) else None


def plan_beside(region: Region, grids: tuple[Products, ...], machine: Processor) -> KernelPlan:
    """The kernel of a region that has a grid for each store."""
    own = (Region((s,), region.lines) for s in region.stores)
    plans = (p.plan(one, machine, alone=False) for p, one in zip(grids, own, strict=True))
    return KernelPlan(region, tuple(loop for plan in plans for loop in plan.root))


def have_rows_in_common(each: Iterable[Contraction]) -> bool:
    """Whether all contractions read the same elements in the same order, whatever their axes are called."""
    return len({_rows(c) for c in each}) == 1


def _rows(c: Contraction) -> tuple[Expr, Axis, Axis]:
    (m, m_map), (k, k_map) = flatten(c.m_axes, "m"), flatten(c.reduce.axes, "k")
    return substitute(substitute(c.rows, k_map), m_map), m, k


def _has_windows(c: Contraction, machine: Processor) -> bool:
    return bool(c.m_axes) and has_windows(c, machine)
