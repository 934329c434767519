"""parted: a reduction over a merged axis runs over its factors, where an image in another order is read at parts of it.

Before: the sum over k of x[k//64, k%64, c].  After: the sum over k_outer and k_inner of x[k_outer, k_inner, c].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.contractions import product_factors
from lumigen.region import Expr, Read, Reduce, Region, Scan, rebuild, reduce, substitute, walk


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
            if isinstance(made, Reduce) and product_factors(made) is None:
                made = _of_factors(made)
            memo[e] = made
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
