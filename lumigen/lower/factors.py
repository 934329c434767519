"""factors: an axis of a store becomes several, where its reductions read parts of it.

Before: a store over one axis for each dimension of its buffer.  After: a dimension that is merged, as by a reshape of a
product, has an axis for each of its factors, so that index sets say which of them are rows, columns and batches:

    out[i] = sum over k of a[i//8, k]*b[i%8, k]
    out[8*i_outer + i_inner] = sum over k of a[i_outer, k]*b[i_inner, k]

So do phases, as those of a transposed convolution, which reads an image at (i + 1)//2 and weights at (i + 1)%2.

So does, in vector loops, an axis of a reduction, where all quotients and remainders of it that are read at go away. The
scale of a block is then read once for the block, and what lies in its bits is found without a division:

    sum over k of x[k]*q[k]*s[k//32]
    sum over k_outer, k_inner of x[32*k_outer + k_inner]*q[32*k_outer + k_inner]*s[k_outer]

A short factor that conditions ask for, as the half of a byte that a number lies in, is written out: then the byte is
read once for both halves, and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.axes import unify_axes
from lumigen.lower.scope import address
from lumigen.machine import Vectors
from lumigen.ops import Op
from lumigen.region import (
    Choose,
    Expr,
    Holds,
    Monoid,
    Read,
    Reduce,
    Region,
    Scan,
    Store,
    prim,
    rebuild,
    reduce,
    substitute,
    walk,
)


def split_axes(store: Store) -> Store:
    """The same store over factors of its axes."""
    if any(isinstance(e, Scan) for e in walk([store.value])):
        return store  # which run over one axis
    while parts := list(_parts(store)):
        axis, size = max(parts, key=lambda part: part[1].estimate())
        outer = Axis(f"{axis.name}_outer", axis.extent // size)
        inner = Axis(f"{axis.name}_inner", size)
        both = {axis: ix(outer) * size + inner}
        store = replace(
            store,
            axes=tuple(x for a in store.axes for x in ((outer, inner) if a == axis else (a,))),
            at=tuple(i.substitute(both) for i in store.at),
            value=substitute(store.value, both),
        )
    return store


def _parts(store: Store) -> Iterator[tuple[Axis, Ix]]:
    """The axes of which a reduction reads at quotients or remainders, and what they are divided by.

    Of phases none where the last axis has some: neighbours lie along it.
    """
    reductions = [e for e in walk([store.value]) if isinstance(e, Reduce)]
    reads = [e for e in walk(r.body for r in reductions) if isinstance(e, Read)]
    places = [a for e in reads for a in address(e.source, e.at).atoms()]
    divided = [a for a in places if isinstance(a, Quotient | Remainder)]
    has_phases = not any(store.axes[-1] in a.numerator.axes for a in divided if store.axes)
    for atom in divided:
        for axis in store.axes:
            apart, size = atom.numerator - axis, atom.denominator
            whole = (apart == 0 or (has_phases and apart.is_const)) and not size.axes
            if whole and axis.extent % size == 0 and axis.extent != size:
                yield axis, size


def split_reductions(region: Region, vectors: Vectors) -> Region:
    """The region, its reductions over factors of their axes, of which the innermost are long enough for vectors."""
    memo: dict[Expr, Expr] = {}

    def visit(e: Expr) -> Expr:
        if e not in memo:
            out = rebuild(e, visit, lambda i: i)
            if isinstance(out, Reduce):
                out = _written_out(_over_factors(out, vectors.divided), vectors.written)
            memo[e] = out
        return memo[e]

    if any(isinstance(e, Scan) for e in walk(s.value for s in region.stores)):
        return region
    stores = tuple(replace(s, value=visit(s.value)) for s in region.stores)
    return region if stores == region.stores else unify_axes(replace(region, stores=stores))


def _over_factors(r: Reduce, least: int) -> Reduce:
    """The reduction over factors of its axes; as it is where reads would divide these too."""
    bounded = frozenset(a for c in r.where for a in c.slack.axes)
    found = factored(r.body, r.axes, least, bounded)
    if found is None or found.axes == r.axes:
        return r
    out = reduce(r.monoid, found.axes, found.body, r.dtype, r.where)
    return out if isinstance(out, Reduce) else r


@dataclass(frozen=True)
class Factored:
    """A value over factors of axes, and where in these axes the points of the factors are."""

    axes: tuple[Axis, ...]
    body: Expr
    places: Mapping[Axis, Ix]


def factored(
    body: Expr, axes: tuple[Axis, ...], least: int, bounded: frozenset[Axis] = frozenset()
) -> Factored | None:
    """The value over factors of the axes but for `bounded`; the innermost of an axis have `least` points or more.

    None where there are shorter ones, or where reads would divide what is left. Nothing is divided by where none does.
    """
    places, innermost = {a: ix(a) for a in axes}, dict[Axis, Axis]()
    while sizes := list(_divisors(body, axes, bounded)):
        axis, size = max(sizes, key=lambda found: found[1].const)
        outer = Axis(f"{axis.name}_outer", axis.extent // size)
        inner = Axis(f"{axis.name}_inner", size)
        both = {axis: ix(outer) * size + inner}
        body = substitute(body, both)
        places = {a: i.substitute(both) for a, i in places.items()}
        axes = tuple(x for a in axes for x in ((outer, inner) if a == axis else (a,)))
        innermost = {first: inner if a == axis else a for first, a in innermost.items()}
        if axis in places:
            innermost[axis] = inner
    short = any(a.extent.const < least for a in innermost.values())
    divided = bool(innermost) and any(_parted(body, axes))
    return None if short or divided else Factored(axes, body, places)


def asked_for(body: Expr, axes: Iterable[Axis], most: int) -> tuple[Axis, ...]:
    """The axes of up to so many points that alone decide a choice."""
    asked = (e.condition for e in walk([body]) if isinstance(e, Choose))
    alone = (c.axes for e in asked if isinstance(e, Holds) for c in e.conditions)
    found = {a for axes in alone if len(axes) == 1 for a in axes}
    return tuple(a for a in axes if a in found and a.extent.is_const and a.extent.const <= most)


def _written_out(r: Reduce, most: int) -> Expr:
    """The sum, of an axis of up to so many points that a choice asks for the terms of all of them added up."""
    if r.monoid is not Monoid.SUM or not r.dtype.is_float:
        return r
    bounded = {a for c in r.where for a in c.slack.axes}
    axes = asked_for(r.body, (a for a in r.axes if a not in bounded), most)
    left, body = tuple(a for a in r.axes if a not in axes), r.body
    if not axes or not left:
        return r
    for axis in axes:
        body, *rest = (substitute(body, {axis: ix(i)}) for i in range(axis.extent.const))
        for term in rest:
            body = prim(Op.ADD, (body, term), r.dtype)
    return reduce(r.monoid, left, body, r.dtype, r.where)


def _parted(body: Expr, axes: Iterable[Axis]) -> Iterator[Quotient | Remainder]:
    """What a value reads at that divides an expression of some axes."""
    own = frozenset(axes)
    for e in walk([body]):
        if isinstance(e, Read):
            for atom in address(e.source, e.at).atoms():
                if isinstance(atom, Quotient | Remainder) and atom.numerator.axes & own:
                    yield atom


def _divisors(
    body: Expr, axes: tuple[Axis, ...], bounded: frozenset[Axis]
) -> Iterator[tuple[Axis, Ix]]:
    """The axes that a value reads at quotients or remainders of, and what divides them."""
    for atom in _parted(body, axes):
        size = atom.denominator
        for axis in axes:
            whole = atom.numerator is ix(axis) and size.is_const and axis not in bounded
            if whole and axis.extent % size == 0 and axis.extent != size:
                yield axis, size
