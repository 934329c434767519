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

from collections.abc import Iterator
from dataclasses import replace

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
    out = r
    while sizes := list(_divisors(out)):
        axis, size = max(sizes, key=lambda found: found[1].const)
        outer = Axis(f"{axis.name}_outer", axis.extent // size)
        inner = Axis(f"{axis.name}_inner", size)
        body = substitute(out.body, {axis: ix(outer) * size + inner})
        axes = tuple(x for a in out.axes for x in ((outer, inner) if a == axis else (a,)))
        divided = reduce(out.monoid, axes, body, out.dtype, out.where)
        if not isinstance(divided, Reduce) or size.const < least:
            return r
        out = divided
    return out if out is r or not any(_parted(out)) else r


def _written_out(r: Reduce, most: int) -> Expr:
    """The sum, of an axis of up to so many points that a choice asks for the terms of all of them added up."""
    if r.monoid is not Monoid.SUM or not r.dtype.is_float:
        return r
    asked = (e.condition for e in walk([r.body]) if isinstance(e, Choose))
    alone = (c.axes for e in asked if isinstance(e, Holds) for c in e.conditions)
    bounded = {a for c in r.where for a in c.slack.axes}
    found = {a for axes in alone if len(axes) == 1 for a in axes} - bounded
    axes = [a for a in r.axes if a in found and a.extent.is_const and a.extent.const <= most]
    body = r.body
    for axis in axes:
        first, *rest = (substitute(body, {axis: ix(i)}) for i in range(axis.extent.const))
        body = first
        for term in rest:
            body = prim(Op.ADD, (body, term), r.dtype)
    left = tuple(a for a in r.axes if a not in axes)
    return reduce(r.monoid, left, body, r.dtype, r.where) if axes and left else r


def _parted(r: Reduce) -> Iterator[Quotient | Remainder]:
    """What the body reads at that divides an expression of the reduction's own axes."""
    for e in walk([r.body]):
        if isinstance(e, Read):
            for atom in address(e.source, e.at).atoms():
                if isinstance(atom, Quotient | Remainder) and atom.numerator.axes & set(r.axes):
                    yield atom


def _divisors(r: Reduce) -> Iterator[tuple[Axis, Ix]]:
    """The axes that the body reads at quotients or remainders of, and what divides them."""
    bounded = {a for c in r.where for a in c.slack.axes}
    for atom in _parted(r):
        size = atom.denominator
        for axis in r.axes:
            whole = atom.numerator is ix(axis) and size.is_const and axis not in bounded
            if whole and axis.extent % size == 0 and axis.extent != size:
                yield axis, size
