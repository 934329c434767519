"""contractions: which sums are products of matrices, and how large their factors are.

A product of one row is one whose first factor has no columns of its own: a vector, as a step of one token has. Where
weights are the other factor it is run as other products are, from the same panels, if `one_row` says that the device
has a skeleton for that: what is done to the vector is then done once and not for each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from lumigen.dtype import DType, bf16, f32, i8, i32, u8
from lumigen.index import Axis, Ix, Lookup, extent_of, of_atom, product
from lumigen.lower.groups import scales_bytes
from lumigen.machine import Storing
from lumigen.ops import TRANSCENDENTALS, Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Holds,
    Index,
    Intrinsic,
    Monoid,
    Prim,
    Read,
    Reduce,
    Role,
    buffers_of,
    children,
    free_axes,
    is_zero,
    read,
    walk,
)


class OneRow(Enum):
    """Which products of a vector and a matrix are products like others."""

    NONE = "none"
    WEIGHTS = "weights"  # that are read as they are
    MADE = "made"  # of weights of a byte or less

    def __bool__(self) -> bool:
        return self is not OneRow.NONE


COSTLY = TRANSCENDENTALS | {Op.MOD, Op.RECIP, Op.SQRT}


def is_plain(e: Expr) -> bool:
    """Whether the value is read from memory as it is (guarded perhaps, or a constant), not computed."""
    if isinstance(e, Choose):
        return (
            isinstance(e.condition, Holds) and is_plain(e.then) and isinstance(e.otherwise, Const)
        )
    return isinstance(e, Read | Const | Index)


def is_brought_in(e: Expr) -> bool:
    """Whether the value is plain, but that integers of a byte in memory become floats, which is exact."""
    if isinstance(e, Choose) and isinstance(e.condition, Holds) and isinstance(e.otherwise, Const):
        return is_brought_in(e.then)
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype is f32:
        (e,) = e.args
        return isinstance(e, Read) and e.source.dtype in (i8, u8)
    return is_plain(e)


def is_cheap(e: Expr, storing: Storing) -> bool:
    """Whether to compute the value costs hardly more than to read what it is made of: a few reads, a few steps.

    Not of windows, which would compute it again and again, nor of parts side by side, as a concatenation has: those are
    stored where they are computed.
    """
    inside = walk([e])
    steps = [x for x in inside if isinstance(x, Prim | Choose | Holds)]
    simple = all(isinstance(x, Prim | Choose | Holds | Read | Const | Index) for x in inside)
    joins = any(isinstance(x, Choose) and isinstance(x.condition, Holds) for x in inside)
    costly = any(isinstance(x, Prim) and x.op in COSTLY for x in steps)
    few = (
        sum(isinstance(x, Read) for x in inside) <= storing.few_reads
        and len(steps) <= storing.few_steps
    )
    read = [volume_of(x.source.dims) for x in inside if isinstance(x, Read)]
    once = volume(free_axes(e)) <= max(read, default=volume(free_axes(e)))
    return simple and few and once and not costly and not joins


def is_unpacked(e: Expr, storing: Storing) -> bool:
    """Whether weights are made floats of, in some steps, from fewer bytes than these have.

    Not where they are read as they are: to widen each is a part of its read.
    """
    if is_plain(e):
        return False
    inside = walk([e])
    steps = [x for x in inside if isinstance(x, Prim | Choose | Holds | Intrinsic)]
    others = (Read, Const, Index)
    if len(steps) > storing.unpacked or len(steps) + sum(
        isinstance(x, others) for x in inside
    ) < len(inside):
        return False
    sources = {b for x in inside for b in buffers_of(x)}
    if not sources or any(b.role is not Role.WEIGHT for b in sources):
        return False
    read_in = sum(volume_of(b.dims) * b.dtype.itemsize for b in sources)
    return read_in < volume(free_axes(e)) * f32.itemsize


def multiplied_as(*operands: Expr) -> DType:
    """What a processor may take plain operands of products as: bf16 where memory holds all of them so, else f32."""
    return bf16 if all(map(_is_bf16, operands)) else f32


def _is_bf16(e: Expr) -> bool:
    """Whether memory holds the value in bf16, or zero where a guard fails."""
    if isinstance(e, Choose):
        return isinstance(e.condition, Holds) and _is_bf16(e.then) and is_zero(e.otherwise)
    return isinstance(e, Read) and e.source.dtype is bf16


def is_contraction(
    factors: tuple[Expr, ...], free: tuple[Axis, ...], bound: tuple[Axis, ...]
) -> bool:
    """Whether a sum over `bound` of the product has columns for each of its two factors: a matrix product."""
    if len(factors) != 2:
        return False
    a, b = (free_axes(f) for f in factors)
    reduced = set(bound)
    return bool(a & b & reduced) and bool((a - b) & set(free)) and bool((b - a) & set(free))


def is_expanding(
    value: Expr,
    size: int,
    kept: tuple[Axis, ...],
    contracts: bool,
    storing: Storing,
    *,
    is_short: bool,
) -> bool:
    """Whether a factor, of `size` elements, is much larger than all its contractions read and all it is reduced to.

    What is read beside them, as a bias is, tiles read no more often than a loop that stores the factor. `is_short`:
    the loop over its tiles costs less than to store it. It need not be larger then, unless weights are among what it is
    made of, which each tile reads again. Not where all its contractions are inside its own reductions: no skeleton has
    tiles of one inside two, nor of one of integers. Products with weights in panels, or of short rows, are consumed by
    products alone.
    """
    inner = [r for r in walk([value]) if isinstance(r, Reduce)]
    contractions = [r for r in inner if product_factors(r) is not None]
    if not any(contractions_beside(value, one_row=False)) or any(_nested(r) for r in contractions):
        return False
    if any(r.dtype.is_int for r in contractions):
        return False
    made_of = {e.source for e in walk([value]) if isinstance(e, Read)}
    weighted = any(b.role is Role.WEIGHT and _feeds(b, contractions) for b in made_of)
    is_short_row = volume(free_axes(value) - frozenset(kept)) < storing.long_row
    stored = weighted and (storing.panels or is_short_row)
    if stored and not (contracts and len(list(reductions_beside(value))) == 1):
        return False
    limit = storing.row_of_weights if stored else storing.row
    row = volume(frozenset(kept) - free_axes(value))
    depth = max(volume(frozenset(r.axes)) for r in contractions)
    factors = [e for e in walk(contractions) if isinstance(e, Read)]
    # queries and keys may be parts of one buffer
    taken = (min(volume_of(e.source.dims), volume(free_axes(e))) for e in factors)
    largest = max(taken, default=1)
    large = size >= storing.expansion * largest or (is_short and not weighted)
    return row <= limit and depth <= limit and large


def is_folded(value: Expr, size: int, kept: tuple[Axis, ...], storing: Storing) -> bool:
    """Whether a reduction of a value, of `size` elements, to `kept` is a fold of the rows of products in it.

    So the products need no place but a tile, however deep they are.
    """
    inner = [r for r in walk([value]) if isinstance(r, Reduce)]
    contractions = [r for r in inner if product_factors(r) is not None]
    if not any(contractions_beside(value, one_row=False)) or any(_nested(r) for r in contractions):
        return False
    return set(kept) <= free_axes(value) and size >= storing.expansion * volume(kept)


def is_product_of_one_row(
    factors: tuple[Expr, ...],
    free: tuple[Axis, ...],
    bound: tuple[Axis, ...],
    *,
    one_row: bool | OneRow,
) -> bool:
    """Whether a sum over `bound` of the product is a vector times weights: read as they are, or made."""
    if len(factors) != 2 or not set(bound) <= free_axes(factors[0]) & free_axes(factors[1]):
        return False
    a, b = (free_axes(f) & set(free) for f in factors)
    matrix, vector = factors if b < a else factors[::-1]
    if scales_bytes(vector) and _is_made(matrix):
        return b < a or a < b
    if one_row is OneRow.MADE:
        return _is_made(matrix) and (b < a or a < b)
    found = integer_read(matrix)
    source = found[0] if found else matrix.source if isinstance(matrix, Read) else None
    return source is not None and source.role is Role.WEIGHT and (b < a or a < b)


def integer_read(e: Expr) -> tuple[Buffer, tuple[Ix, ...]] | None:
    """The integer of memory that a value is, read as an index reads it: where it lies. None of any other value."""
    terms = e.value.terms if isinstance(e, Index) and e.value.const == 0 else ()
    match terms:
        case (((Lookup(source=Buffer() as source, at=at),), 1),):
            return source, at
        case _:
            return None


def bytes_of(e: Expr) -> Expr | None:
    """The integers of 8 bits in memory that a value in 32 is, where a guard may choose a number; None of others."""
    found = integer_read(e)
    if found is not None:
        source, at = found
        return read(source, at) if source.dtype in (i8, u8) else None
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype is i32:
        (narrow,) = e.args
        return narrow if narrow.dtype in (i8, u8) and is_plain(narrow) else None
    return None


def _is_made(matrix: Expr) -> bool:
    """Whether it is computed from weights alone, of which some have a byte or less."""
    sources = [e.source for e in walk([matrix]) if isinstance(e, Read)]
    weights = bool(sources) and all(b.role is Role.WEIGHT for b in sources)
    return weights and not is_plain(matrix) and any(b.dtype in (i8, u8) for b in sources)


def multiplies_weights(value: Expr) -> bool:
    """Whether it holds a product with a matrix that is made of weights alone, as they are or computed."""
    for r in reductions_beside(value):
        factors = _factors(r)
        for matrix in factors if len(factors) == 2 else ():
            read_in = [e.source for e in walk([matrix]) if isinstance(e, Read)]
            of_weights = bool(read_in) and all(b.role is Role.WEIGHT for b in read_in)
            if of_weights and free_axes(matrix) & set(r.axes) and free_axes(matrix) - set(r.axes):
                return True
    return False


def is_scored(value: Expr, deepest: int | None = None) -> bool:
    """Whether it is made of products that a fold may be around, of one row perhaps, and of no weight.

    None of them is of another reduction: no skeleton has tiles of one inside two. Nor is one of matrices deeper than
    that, if it is said.
    """
    sums = [r for r in reductions_beside(value) if scored_factors(r, one_row=True) is not None]
    read_in = (e.source for e in walk(sums) if isinstance(e, Read))
    of_weights = any(b.role is Role.WEIGHT for b in read_in)
    matrices = [r for r in sums if scored_factors(r, one_row=False) is not None]
    is_deep = deepest is not None and any(volume(frozenset(r.axes)) > deepest for r in matrices)
    return bool(sums) and not of_weights and not is_deep and not any(map(_nested, sums))


def holds_scores(value: Expr, *, one_row: bool | OneRow) -> bool:
    """Whether it holds products that a fold may be around; of a vector and a weight only if `one_row` says so."""
    sums = (r for r in walk([value]) if isinstance(r, Reduce))
    return any(scored_factors(r, one_row=one_row) is not None or is_scored(r) for r in sums)


def is_large_score(value: Expr, storing: Storing) -> bool:
    """Whether it is a product of plain operands, much larger than these, and loops over its axes are short."""
    factors = product_factors(value) if isinstance(value, Reduce) else None
    if factors is None or not all(map(is_plain, factors)):
        return False
    free = free_axes(value)
    reads = (volume_of(e.source.dims) for e in walk(factors) if isinstance(e, Read))
    is_large = all(volume(free) >= storing.expansion * size for size in reads)
    return is_large and all(volume((a,)) <= storing.short for a in free)


def is_bounded_by_data(value: Expr, bound: tuple[Axis, ...], *, one_row: bool | OneRow) -> bool:
    """Whether a contraction in the value is wanted only where an axis in `bound` fits an integer that is read."""
    if not holds_scores(value, one_row=one_row):
        return False
    asked = (c for e in walk([value]) if isinstance(e, Holds) for c in e.conditions)
    slacks = (c.slack for c in asked if any(isinstance(a, Lookup) for a in c.slack.atoms()))
    # not what is read at a point of the axis and compared with anything else, as the id of a row of a table
    compared = (a for e in slacks for m, _ in e.terms for a in m if not isinstance(a, Lookup))
    return any(of_atom(a).axes & frozenset(bound) for a in compared)


def has_nested_contraction(e: Expr, *, one_row: bool | OneRow) -> bool:
    """Whether a contraction varies with the axes of a reduction around it."""
    return any(
        isinstance(r, Reduce)
        and product_factors(r, one_row=one_row) is not None
        and free_axes(r) & set(outer.axes)
        for outer in walk([e])
        if isinstance(outer, Reduce)
        for r in walk([outer.body])
    )


def has_nested_reduction(e: Expr) -> bool:
    """Whether a reduction varies with the axes of one around it."""
    return any(
        isinstance(r, Reduce) and free_axes(r) & set(outer.axes)
        for outer in walk([e])
        if isinstance(outer, Reduce)
        for r in walk([outer.body])
    )


def product_factors(r: Reduce, *, one_row: bool | OneRow = False) -> tuple[Expr, Expr] | None:
    """The two factors of a contraction, with `one_row` also of one row; None if the reduction is not one."""
    factors, free = _factors(r), tuple(free_axes(r))
    if is_contraction(factors, free, r.axes):
        return factors[0], factors[1]
    of_one_row = one_row and is_product_of_one_row(factors, free, r.axes, one_row=one_row)
    return (factors[0], factors[1]) if of_one_row else None


def scored_factors(r: Reduce, *, one_row: bool | OneRow) -> tuple[Expr, Expr] | None:
    """The two factors of a contraction, with `one_row` also of a vector and any matrix: what a fold may be around."""
    factors = _factors(r)
    if is_contraction(factors, tuple(free_axes(r)), r.axes):
        return factors[0], factors[1]
    if not one_row or len(factors) != 2:
        return None
    if one_row is OneRow.MADE:
        return product_factors(r, one_row=one_row)
    a, b = map(free_axes, factors)
    return (factors[0], factors[1]) if a < b or b < a else None


def _factors(r: Reduce) -> tuple[Expr, ...]:
    """What a sum adds up the products of; nothing where it adds up something else."""
    is_sum = r.monoid is Monoid.SUM and not r.where
    return r.body.args if is_sum and isinstance(r.body, Prim) and r.body.op is Op.MUL else ()


def contractions_beside(e: Expr, *, one_row: bool | OneRow) -> Iterator[Reduce]:
    """The contractions in a value that are inside no other reduction."""
    return (r for r in reductions_beside(e) if product_factors(r, one_row=one_row) is not None)


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
    return extent_of(axes).estimate()


def volume_of(extents: tuple[Ix, ...]) -> int:
    return product(extents).estimate()
