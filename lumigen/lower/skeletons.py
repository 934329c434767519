"""skeletons: what cuts ask of a device: which regions its kernels run, and which products need not be stored.

A product is stored nowhere where a kernel folds its elements as they come out, and nobody else reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lumigen.graph import Node
from lumigen.index import Axis
from lumigen.lower.contractions import (
    OneRow,
    is_plain,
    product_factors,
    volume,
    volume_of,
)
from lumigen.lower.cut_graph import MONOIDS, CutGraph
from lumigen.machine import Storing
from lumigen.region import Expr, Read, Reduce, Region, Role, free_axes, walk


@dataclass(frozen=True)
class Skeletons:
    """What they can run.

    `runs_whole`: a region whose contraction is inside another reduction. `in_loops`: whether a region of one
    contraction has no other skeleton than loops over vectors, which may as well hold several. `columns`: how many of a
    region lie side by side in a tile of products, 0 in loops over vectors. `one_row` says which products of a vector
    are contractions too. `computes`: whether a product is to compute its operands itself: rows with statistics of
    each, or what costs little. `makes`: whether products of few rows make columns of weights.
    """

    runs_whole: Callable[[Region], bool]
    in_loops: Callable[[Region], bool]
    columns: Callable[[Region], int]
    storing: Storing
    one_row: OneRow = OneRow.NONE
    computes: Callable[[Region], bool] = lambda _: False
    makes: Callable[[Expr, Sequence[tuple[Axis, ...]]], bool] = lambda _value, _place: False


def is_product(g: CutGraph, skeletons: Skeletons, n: Node) -> bool:
    """Whether a node is a contraction, of one row too where a device has it."""
    value = g.inlined(n)[1]
    if not isinstance(value, Reduce):
        return False
    return product_factors(value, one_row=skeletons.one_row) is not None


def becomes_states(
    g: CutGraph, skeletons: Skeletons, node: Node, value: Expr, bound: tuple[Axis, ...]
) -> bool:
    """Whether all that becomes of a product are states of its rows, with enough rows or columns for every thread.

    Those are numbers, and of many rows sums of short rows of weights beside them if the product is larger than what it
    is made of. Not of windows, which a kernel of their own packs, nor of integers.
    """
    inside, storing = [n for n in g.beside(node) if is_product(g, skeletons, n)], skeletons.storing
    few = volume(free_axes(value) - set(bound)) < storing.rows
    wide = volume(bound) >= (storing.wide if few else storing.long_row)
    if len(inside) != 1 or not storing.rows or not wide:
        return False
    (product,) = inside
    found = g.reduced_to(product)
    is_long = volume(g.bound_axes(product)) > storing.row_of_weights
    if is_long or found is None or product.dtype.is_int:
        return False
    operands = [x for _, x in g.factors(product)]
    reads = [e for e in walk(operands) if isinstance(e, Read)]
    sizes = [(volume(free_axes(e)), volume_of(e.source.dims)) for e in reads]
    if any(seen > held for seen, held in sizes) or not all(map(is_plain, operands)):
        return False
    grows = volume_of(product.shape) >= storing.expansion * max(held for _, held in sizes)
    sums = 0
    for n in found:  # the nearest first: what lies far behind is long before it is cut
        if _is_of_matrices(g, n):
            if few or not grows or not _weighs_short_rows(g, storing, n):
                return False
            sums += 1
    if sums == len(found):
        return False
    return all(n.dtype.is_float or g.asked(skeletons.runs_whole, n) for n in found)


def _is_of_matrices(g: CutGraph, n: Node) -> bool:
    """Whether a reduction is a product of matrices, as `is_contraction` says of values: these may be long."""
    along = g.axes_of_factors(n)
    if len(along) != 2:
        return False
    (a, b), own, bound = along, set(g.own_axes(n)), set(g.bound_axes(n))
    return bool(a & b & bound) and bool((a - b) & own) and bool((b - a) & own)


def _weighs_short_rows(g: CutGraph, storing: Storing, n: Node) -> bool:
    """Whether a product's columns are weights, and few enough for the sums of a tile of rows to stay in a cache."""
    read = [v for _, v in g.factors(n) if isinstance(v, Read) and v.source.role is Role.WEIGHT]
    own = set(g.own_axes(n))
    return any(volume(free_axes(v) & own) <= storing.row_of_weights for v in read)


def is_only_folded(g: CutGraph, skeletons: Skeletons, n: Node, kept: tuple[Axis, ...]) -> bool:
    """Whether all that is made of the contractions in a value comes to as few elements as `kept` has.

    And nobody sees them as they are, nor multiplies them by a matrix, few as its columns may be, and each reduction is
    one that a skeleton runs whole: else what it is of is stored, and the contractions would be computed again. For
    devices without `rows`; `becomes_states` decides on others.
    """
    shown, row = {e.node for e in g.showing()}, volume(kept)
    folds: dict[Node, None] = {}
    stack, seen = [x for x in g.inside(n) if is_product(g, skeletons, x)], set[Node]()
    while stack:
        x = stack.pop()
        large = {u for u in g.users[x] if volume_of(u.shape) > row}
        multiplied = (u for u in g.users[x] if u.op in MONOIDS and is_product(g, skeletons, u))
        if x in shown or x in g.cut or any(u.op in MONOIDS for u in large) or any(multiplied):
            return False
        folds.update((u, None) for u in g.users[x] if u.op in MONOIDS)
        stack, seen = [*stack, *(large - seen)], seen | large
    return all(g.asked(skeletons.runs_whole, u) for u in folds)
