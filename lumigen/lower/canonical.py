"""canonical: the same computation on other buffers is the same kernel.

Before: a region over the buffers of a model.  After: the region over x0, x1, ... (what is read), w0, ... (weights)
and out, and which buffer each of them is. A layer repeated N times gives one region, lowered once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from lumigen.index import Ix, Lookup, lookup
from lumigen.lower.axes import unify_axes
from lumigen.memo import remembered
from lumigen.region import (
    Buffer,
    Expr,
    Gather,
    Read,
    Region,
    Role,
    buffers_of,
    gather,
    indices_of,
    read,
    rebuild,
    walk,
)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Canonical:
    """A region over canonical buffers; `binding` says what each stands for.

    They come in order of first use, `out` last; but first what is read and stored too.
    """

    region: Region
    binding: tuple[tuple[Buffer, Buffer], ...]


@remembered
def canonical(region: Region) -> Canonical:
    names: dict[Buffer, Buffer] = {}
    counts = {"x": 0, "w": 0, "out": 0}

    def rename(b: Buffer, stem: str) -> None:
        if b not in names:
            number = counts[stem]
            counts[stem] += 1
            name = "out" if stem == "out" and number == 0 else f"{stem}{number}"
            role = (
                Role.WEIGHT
                if b.role is Role.WEIGHT
                else Role.OUTPUT
                if stem == "out"
                else Role.TEMP
            )
            names[b] = Buffer(name, role, b.dims, b.dtype, b.range)

    over = {s.dst for s in region.stores} & set(region.reads())
    for b in (s.dst for s in region.stores if s.dst in over):
        rename(b, "out")
    for e in walk([s.value for s in region.stores]):
        for b in buffers_of(e):
            rename(b, "w" if b.role is Role.WEIGHT else "x")
    for s in region.stores:
        rename(s.dst, "out")
    bare = replace(region, lines=(), steps=())
    return Canonical(with_buffers(bare, names), tuple((new, old) for old, new in names.items()))


def asked_once(question: Callable[[Region], Answer]) -> Callable[[Region], Answer]:
    """The question, asked once of all regions that differ in their axes and buffers alone, as those of layers do."""
    known = cache(question)
    return lambda region: known(canonical(unify_axes(region)).region)


def with_buffers(region: Region, names: Mapping[Buffer, Buffer]) -> Region:
    """The same on other buffers; those that `names` does not have stay."""
    memo: dict[Expr, Expr] = {}

    def index(i: Ix) -> Ix:
        found = {
            a: lookup(names.get(a.source, a.source), tuple(index(x) for x in a.at), a.lo, a.hi)
            for a in i.atoms()
            if isinstance(a, Lookup) and isinstance(a.source, Buffer)
        }
        return i.substitute(found) if found else i

    def visit(e: Expr) -> Expr:
        if e not in memo:
            if isinstance(e, Read):
                memo[e] = read(names.get(e.source, e.source), tuple(index(i) for i in e.at))
            elif isinstance(e, Gather):
                at, places = tuple(index(i) for i in e.at), tuple(visit(p) for p in e.places)
                memo[e] = gather(names.get(e.source, e.source), at, e.axes, places)
            else:
                memo[e] = rebuild(e, visit, index)
        return memo[e]

    stores = tuple(
        replace(
            s,
            dst=names.get(s.dst, s.dst),
            at=tuple(index(i) for i in s.at),
            value=visit(s.value),
        )
        for s in region.stores
    )
    return replace(region, stores=stores)


__all__ = ["Canonical", "canonical", "indices_of"]
