"""factors: an axis of a store becomes several, where its reductions read parts of it.

Before: a store over one axis for each dimension of its buffer.  After: a dimension that is merged, as by a reshape of a
product, has an axis for each of its factors, so that index sets say which of them are rows, columns and batches:

    out[i] = sum over k of a[i//8, k]*b[i%8, k]
    out[8*i_outer + i_inner] = sum over k of a[i_outer, k]*b[i_inner, k]

So do axes that are reduced, where an image in another order is read at parts of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.contractions import product_factors
from lumigen.lower.scope import address
from lumigen.region import (
    Expr,
    Read,
    Reduce,
    Region,
    Scan,
    Store,
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
    """The axes of which a reduction reads at quotients or remainders, and what they are divided by."""
    reductions = [e for e in walk([store.value]) if isinstance(e, Reduce)]
    for e in walk(r.body for r in reductions):
        if isinstance(e, Read):
            for atom in address(e.source, e.at).atoms():
                if isinstance(atom, Quotient | Remainder):
                    size = atom.denominator
                    for axis in store.axes:
                        whole = atom.numerator is ix(axis) and not size.axes
                        if whole and axis.extent % size == 0 and axis.extent != size:
                            yield axis, size


def split_reduced(region: Region) -> Region:
    """The region whose reductions run over factors of their axes, wherever they read parts of these.

    But for products, whose depth is one axis where it is one in an operand.
    """
    values = walk(s.value for s in region.stores)
    if region.native or any(isinstance(e, Scan) for e in values):
        return region
    memo: dict[Expr, Expr] = {}

    def visit(e: Expr) -> Expr:
        if e not in memo:
            made = rebuild(e, visit, lambda i: i)
            is_sum = isinstance(made, Reduce) and product_factors(made) is None
            memo[e] = _of_factors(made) if is_sum else made
        return memo[e]

    stores = tuple(replace(s, value=visit(s.value)) for s in region.stores)
    same = all(a.value is b.value for a, b in zip(stores, region.stores, strict=True))
    return region if same else replace(region, stores=stores)


def _of_factors(r: Reduce) -> Expr:
    while parts := list(_reduced_parts(r)):
        axis, size = max(parts, key=lambda part: part[1].estimate())
        outer = Axis(f"{axis.name}_outer", axis.extent // size)
        inner = Axis(f"{axis.name}_inner", size)
        both = {axis: ix(outer) * size + inner}
        axes = tuple(x for a in r.axes for x in ((outer, inner) if a == axis else (a,)))
        where = tuple(c.substitute(both) for c in r.where)
        made = reduce(r.monoid, axes, substitute(r.body, both), r.dtype, where)
        if not isinstance(made, Reduce):
            return made
        r = made
    return r


def _reduced_parts(r: Reduce) -> Iterator[tuple[Axis, Ix]]:
    """The axes of a reduction that it reads at quotients or remainders, and what they are divided by."""
    for e in walk([r.body]):
        for atom in (a for i in e.at for a in i.atoms()) if isinstance(e, Read) else ():
            if isinstance(atom, Quotient | Remainder):
                size = atom.denominator
                for axis in r.axes:
                    whole = atom.numerator is ix(axis) and not size.axes
                    if whole and axis.extent % size == 0 and axis.extent != size:
                        yield axis, size
