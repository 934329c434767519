"""factors: an axis of a store becomes several, where its reductions read parts of it.

Before: a store over one axis for each dimension of its buffer.  After: a dimension that is merged, as by a reshape of a
product, has an axis for each of its factors, so that index sets say which of them are rows, columns and batches:

    out[i] = sum over k of a[i//8, k]*b[i%8, k]
    out[8*i_outer + i_inner] = sum over k of a[i_outer, k]*b[i_inner, k]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.index import Axis, Ix, Quotient, Remainder, ix
from lumigen.lower.scope import address
from lumigen.region import Read, Reduce, Scan, Store, substitute, walk


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
