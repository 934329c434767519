"""contractions: which sums are products of matrices, and how large their factors are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lumigen.index import Axis, Ix, Lookup, product
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Monoid,
    Prim,
    Read,
    Reduce,
    Role,
    children,
    free_axes,
    walk,
)

EXPANSION = 2  # an expanding factor is at least so many times larger than anything it is made of or made into
ON_CHIP = 256  # the most elements of a row of accumulators, and of a row of an inner operand
LONGEST = 1024  # the same where one side is weights, which stream past while the other side stays in the caches


def is_plain(e: Expr) -> bool:
    """Whether the value is read from memory as it is (guarded perhaps, or a constant), not computed."""
    if isinstance(e, Choose):
        return (
            isinstance(e.condition, Holds) and is_plain(e.then) and isinstance(e.otherwise, Const)
        )
    return isinstance(e, Read | Const | Index)


def is_contraction(
    factors: tuple[Expr, ...], free: tuple[Axis, ...], bound: tuple[Axis, ...]
) -> bool:
    """Whether a sum over `bound` of the product has columns for each of its two factors: a matrix product."""
    if len(factors) != 2:
        return False
    a, b = (free_axes(f) for f in factors)
    reduced = set(bound)
    return bool(a & b & reduced) and bool((a - b) & set(free)) and bool((b - a) & set(free))


def is_expanding(value: Expr, size: int, kept: tuple[Axis, ...], contracts: bool) -> bool:
    """Whether a factor, of `size` elements, is much larger than all it is made of and all it is reduced to."""
    inner = [r for r in walk([value]) if isinstance(r, Reduce)]
    contractions = [r for r in inner if product_factors(r) is not None]
    if not contractions or any(_nested(r) for r in contractions):
        return False
    made_of = {e.source for e in walk([value]) if isinstance(e, Read)}
    weighted = any(b.role is Role.WEIGHT and _feeds(b, contractions) for b in made_of)
    if weighted and not (contracts and len(inner) == 1):
        return False  # only a product consumes a product with weights tile by tile
    limit = LONGEST if weighted else ON_CHIP
    row = volume(frozenset(kept) - free_axes(value))
    depth = max(volume(frozenset(r.axes)) for r in contractions)
    largest = max((volume_of(b.dims) for b in made_of), default=1)
    return row <= limit and depth <= limit and size >= EXPANSION * largest


def is_bounded_by_data(value: Expr, bound: tuple[Axis, ...]) -> bool:
    """Whether a contraction in the value is wanted only where an axis in `bound` fits an integer that is read."""
    nodes = walk([value])
    if not any(isinstance(r, Reduce) and product_factors(r) is not None for r in nodes):
        return False
    asked = (c for e in nodes if isinstance(e, Holds) for c in e.conditions)
    return any(
        c.axes & frozenset(bound) and any(isinstance(a, Lookup) for a in c.slack.atoms())
        for c in asked
    )


def has_nested_contraction(e: Expr) -> bool:
    """Whether a contraction varies with the axes of a reduction around it."""
    return any(
        isinstance(r, Reduce) and product_factors(r) is not None and free_axes(r) & set(outer.axes)
        for outer in walk([e])
        if isinstance(outer, Reduce)
        for r in walk([outer.body])
    )


def product_factors(r: Reduce) -> tuple[Expr, Expr] | None:
    """The two factors of a contraction; None if the reduction is not one."""
    if r.monoid is not Monoid.SUM or r.where:
        return None
    if not isinstance(r.body, Prim) or r.body.op is not Op.MUL:
        return None
    a, b = r.body.args
    return (a, b) if is_contraction((a, b), tuple(free_axes(r)), r.axes) else None


def contractions_beside(e: Expr) -> Iterator[Reduce]:
    """The contractions in a value that are inside no other reduction."""
    return (r for r in reductions_beside(e) if product_factors(r) is not None)


def reductions_beside(e: Expr) -> Iterator[Reduce]:
    """The reductions in a value that are inside no other."""
    seen: set[Expr] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if isinstance(x, Reduce):
            yield x
        else:
            stack.extend(children(x))


def _nested(r: Reduce) -> bool:
    return any(isinstance(x, Reduce) and free_axes(x) & set(r.axes) for x in walk([r.body]))


def _feeds(b: Buffer, contractions: list[Reduce]) -> bool:
    return any(isinstance(e, Read) and e.source == b for r in contractions for e in walk([r.body]))


def volume(axes: Iterable[Axis]) -> int:
    """The product of the extents at the dims' typical values."""
    return volume_of(tuple(a.extent for a in axes))


def volume_of(extents: tuple[Ix, ...]) -> int:
    return product(extents).estimate()
