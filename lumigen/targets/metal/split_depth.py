"""split_depth: a deep product of few tiles becomes products of parts of its depth, and a launch that adds these up.

Before: a region that is one product.  After: a region that stores what the parts come to, in f32, and the region
itself, where the sum runs over the parts, in their order. On other GPUs the threadgroup that is there last goes on;
Metal promises no order between threadgroups before its version 3.2.

    y[m, n] = f(sum_k a[m, k] b[k, n])
    parts[p, m, n] = sum_{c < chunk} a[m, chunk p + c] b[chunk p + c, n];  y[m, n] = f(sum_p parts[p, m, n])
"""

from __future__ import annotations

from collections.abc import Iterator

from lumigen.dtype import f32
from lumigen.index import Axis, extent_of
from lumigen.lower.apart import in_parts
from lumigen.lower.contract import Contraction, find_products
from lumigen.lower.plan_region import Candidate, Scheduled, candidate, candidates_of_blocks
from lumigen.lower.sweeps import plan_sweeps
from lumigen.machine import StreamingGpu
from lumigen.plan import RegionPlan
from lumigen.region import Reduce, Region
from lumigen.targets.metal.machines import SPLIT_DEPTH


def candidates_of_metal(
    region: Region, schedule: Scheduled, machine: StreamingGpu
) -> Iterator[Candidate]:
    """Products in parts first, where tiles leave most cores idle; then what other GPUs have."""
    pieces = split_depth(region, machine)
    if pieces is not None:
        parts, rest = pieces
        product = next(candidates_of_blocks(parts, schedule, machine), None)
        if product is not None and len(product.plan.kernels) == 1:
            added = candidate(RegionPlan(rest, (plan_sweeps(rest, machine),)), schedule)
            kernels = (*product.plan.kernels, *added.plan.kernels)
            plan = RegionPlan(region, kernels, (parts.stores[0].dst,))
            yield Candidate(plan, (*product.schedules, *added.schedules))
    yield from candidates_of_blocks(region, schedule, machine)


def split_depth(region: Region, machine: StreamingGpu) -> tuple[Region, Region] | None:
    """(what the parts store, the region that adds them up); None where a product has enough tiles, or little depth."""
    *others, store = region.stores
    products = None if others else find_products(store)
    if products is None or len(products.each) != 1 or products.folds or products.statistics:
        return None
    (found,) = products.each
    count = parts_of(found, machine)
    if count < 2 or found.folds or not found.m_axes:
        return None
    return in_parts(found, region, _longest(found.reduce), count)


def parts_of(found: Contraction, machine: StreamingGpu) -> int:
    """As many parts, all of one length, as give each core something to do; 1 where the product is to stay whole."""
    whole: Reduce = found.reduce
    long = _longest(whole).extent
    if not long.is_const or whole.dtype is not f32:
        return 1
    m, n, batch = (extent_of(a).estimate() for a in (found.m_axes, found.n_axes, found.grid))
    s = SPLIT_DEPTH
    tiles = batch * -(-m // s.tile) * -(-n // s.tile)
    most = min(machine.multiprocessors // tiles, long.const // s.least, s.most)
    return next((count for count in range(most, 1, -1) if long.const % count == 0), 1)


def _longest(whole: Reduce) -> Axis:
    return max(whole.axes, key=lambda a: a.extent.estimate())
