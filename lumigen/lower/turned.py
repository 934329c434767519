"""turned: products of integers that have weights as rows, as products that have them as columns.

Before: a store of a sum of products of integers of 8 bits whose last axes are those of an image, as in a convolution:
rows are weights, columns are windows.  After: the same store over its axes in another order, so that weights are
columns, which lie in panels, and windows are rows. Sums of integers are the same in any order.
"""

from __future__ import annotations

from dataclasses import replace

from lumigen.dtype import i8, i32
from lumigen.lower.contract import Products, find_products, flatten
from lumigen.lower.contractions import bytes_of, integer_read, product_factors
from lumigen.lower.scope import address, kernel_reductions
from lumigen.memo import remembered
from lumigen.region import Expr, Reduce, Role, Store, free_axes


@remembered
def find_turned(store: Store) -> Store | None:
    """The store of a product of integers with its axes so that weights are columns, where they are not; else None."""
    sums = [r for r in kernel_reductions([store.value]) if r.dtype is i32]
    factors = _factors(sums[0]) if len(sums) == 1 else None
    if factors is None:
        return None
    x, weight = factors
    own = free_axes(weight) - free_axes(x)
    axes = (*(a for a in store.axes if a not in own), *(a for a in store.axes if a in own))
    turned = replace(store, axes=axes)
    return turned if axes != store.axes and find_products(turned, integers=True) else None


def rows_side_by_side(found: Products, store: Store) -> Products:
    """The products of one image at a time: rows lie side by side where they are stored, and others are the grid's."""
    (first, *_), place = found.each, address(store.dst, store.at)
    axes = first.m_axes
    while len(axes) > 1:
        m, to = flatten(axes, "m")
        if place.substitute(to).coefficient(m) is not None:
            break
        axes = axes[1:]
    others = first.m_axes[: len(first.m_axes) - len(axes)]
    each = (replace(c, grid=(*c.grid, *others), m_axes=axes) for c in found.each)
    return replace(found, each=tuple(each))


def _factors(r: Reduce) -> tuple[Expr, Expr] | None:
    """The bytes of a sum that are no weight, and those that are one."""
    factors = product_factors(r)
    for x, weight in (factors, factors[::-1]) if factors is not None else ():
        found = integer_read(weight)
        of_weight = found is not None and found[0].role is Role.WEIGHT and found[0].dtype is i8
        if of_weight and bytes_of(x) is not None:
            return x, weight
    return None
