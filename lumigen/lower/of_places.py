"""of_places: what lies at the places that a native kernel orders is stored by the same launch.

Before: a region that orders rows, and a map over the same axes that reads at each of its places alone.  After: one
region, whose further stores are maps of the elements at these places. Of such a place the order says that it is the sum
of all places, each where it is the one of this rank; so a map of it is the sum of what it is of each place.

    places[i, r] = sum_p (p if rank(i, p) = r);  y[i, r] = sum_p (x[i, p] if rank(i, p) = r)
"""

from __future__ import annotations

from lumigen.index import Axis, Ix, Lookup, ix
from lumigen.region import (
    Choose,
    Expr,
    Holds,
    Index,
    Random,
    Read,
    Reduce,
    Region,
    Scan,
    Store,
    choose,
    const,
    index,
    indices_of,
    rebuild,
    reduce,
    walk,
)

ORDERS = ("order", "order_descending")


def with_elements(first: Region, second: Region) -> Region | None:
    """Both as one region; None where the second does more than to map what lies at places of the first."""
    (places, *_), (store, *others) = first.stores, second.stores
    if first.native not in ORDERS or second.native or others or first.steps != second.steps:
        return None
    if store.axes != places.axes or store.at != tuple(map(ix, store.axes)):
        return None
    whole = places.value
    if not isinstance(whole, Reduce) or not isinstance(whole.body, Choose) or whole.where:
        return None
    (place,) = whole.axes
    value = _at_place(store.value, places, place)
    if value is None:
        return None
    body = choose(whole.body.condition, value, const(0, value.dtype))
    total = reduce(whole.monoid, whole.axes, body, value.dtype)
    if element_of(total) is not value:
        return None
    stores = (*first.stores, Store(store.dst, store.axes, store.at, total))
    lines = tuple(dict.fromkeys((*first.lines, *second.lines)))
    return Region(stores, lines, first.native, first.steps)


def element_of(value: Expr) -> Expr | None:
    """What a store of a region that orders rows has of the place that its sum runs over."""
    if isinstance(value, Reduce) and isinstance(value.body, Choose):
        return value.body.then
    return None


def _at_place(value: Expr, places: Store, place: Axis) -> Expr | None:
    """A map as it is at a place, in numbers that a sum is of; None if it needs more than one, or a choice."""
    nodes = walk([value])
    if value.dtype.is_bool or any(isinstance(e, Reduce | Scan | Random) for e in nodes):
        return None
    found = {a for e in nodes for i in indices_of(e) for a in i.atoms() if _reads(a, places)}
    if not found or any(isinstance(a, Lookup) and a.at != places.at for a in found):
        return None

    def here(i: Ix) -> Ix:
        return i.substitute(dict.fromkeys(found, ix(place)))

    def visit(e: Expr) -> Expr:
        if isinstance(e, Read) and e.source == places.dst and e.at == places.at:
            return index(ix(place), e.dtype)
        return rebuild(e, visit, here)

    out = visit(value)
    left = walk([out])
    again = any(isinstance(e, Read) and e.source == places.dst for e in left)
    return None if again or any(isinstance(e, Choose | Holds | Index) for e in left) else out


def _reads(atom: object, places: Store) -> bool:
    return isinstance(atom, Lookup) and atom.source == places.dst
