"""join_grids: products of the same rows are one launch, and so are maps in a row.

Before: the regions of an entry in launch order.  After: those that multiply the same rows with weights of their own,
as queries, keys and values are made of one input, are one region with a store for each; so are maps of elements that
follow each other and need nothing of each other.

It pays at any size. Their tasks are what they were, in one launch without a barrier between them: of small grids,
each of which has too few work tiles for all cores, all run at the same time; of large ones the last tasks of one no
longer leave cores idle before the next begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from lumigen.lower.axes import unify_axes
from lumigen.lower.contract import find_products
from lumigen.lower.contractions import multiplies_weights
from lumigen.lower.join import Asked, Whole, as_one, join_by
from lumigen.region import Buffer, Region, Role

MOST = 4  # grids of a launch: the text of a kernel grows with them, and more gain little
# launches with products that another one may be moved ahead of: what is made long before it is read takes memory
# meanwhile, and layers that all read one value, as a decoder does, are to stay apart
NEAR = 2


def join_grids(
    regions: tuple[Region, ...],
    in_loops: Asked,
    beside: Asked,
    whole: Callable[[Buffer], Buffer] = lambda b: b,
    apart: Asked | None = None,
) -> tuple[Region, ...]:
    """The regions joined where `beside` says that a launch has a grid for each of their stores.

    Rows that more products read than a launch has grids stay with launches of their own: they are what all layers
    read, as a decoder reads what was listened to, and no other number of layers is to have other kernels. What would be
    `apart` is not joined either.
    """
    readers = Counter(_rows(r) for r in regions if _is_product(r))

    def partners(out: list[Whole], made: Whole) -> Iterator[tuple[int, Region]]:
        if _is_map(made):
            yield from _maps(out, made, beside)
        rows = _rows(made.region)
        if not made.reduces or not _is_product(made.region) or readers[rows] > MOST:
            return
        sharing = [i for i, w in enumerate(out) if w.reduces and rows & w.reads]
        passed = 0
        for i in reversed(range(min(sharing, default=len(out)), len(out))):
            earlier = out[i].region
            same_steps = earlier.steps == made.region.steps and not (out[i].is_scan or made.is_scan)
            few = len(earlier.stores) + len(made.region.stores) <= MOST
            if i in sharing and same_steps and few:
                joined = unify_axes(as_one((earlier, made.region)))
                if beside(joined):
                    yield i, joined
            passed += not in_loops(earlier)
            if passed > NEAR:
                return

    return join_by(regions, partners, whole, apart)


def _maps(out: list[Whole], made: Whole, beside: Asked) -> Iterator[tuple[int, Region]]:
    """The maps right before another one, with which it is a launch."""
    for i in reversed(range(len(out))):
        earlier = out[i].region
        if not _is_map(out[i]) or earlier.steps != made.region.steps:
            return
        if len(earlier.stores) + len(made.region.stores) <= MOST:
            joined = unify_axes(as_one((earlier, made.region)))
            if beside(joined):
                yield i, joined


def _is_map(w: Whole) -> bool:
    return not (w.reduces or w.is_scan or w.region.native)


def _rows(region: Region) -> frozenset[Buffer]:
    """What a product reads besides weights."""
    return frozenset(b for b in region.reads() if b.role is not Role.WEIGHT)


def _is_product(region: Region) -> bool:
    store = region.stores[-1]
    found = find_products(store, one_row=True, statistics=True, integers=True)
    return found is not None or multiplies_weights(store.value)
