"""places: the integers in which a kernel for GPUs counts and addresses its elements.

A multiprocessor adds and multiplies 32 bits at a time, and divides 64 by a function of its own. So a kernel of any
builder counts in `int` wherever bounds prove that no place and no step of computing one leaves it; else in `int64_t`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from typing import Any

from lumigen.condition import Cmp
from lumigen.index import Atom, Axis, Ix, Lookup, is_less, is_nonnegative, ix, of_atom, parts
from lumigen.lower.scope import address
from lumigen.memo import remembered
from lumigen.region import Buffer, Expr, Gather, Holds, Index, Read, indices_of, walk
from lumigen.tile import (
    BitPlane,
    Contract,
    GroupNumbers,
    GroupPlaces,
    GroupScales,
    Operand,
    Order,
    Stmt,
    StoreTile,
    Stream,
    Streamed,
    TileProgram,
)

WIDE, NARROW = "int64_t", "int"
MOST = 1 << 30  # half of what an int holds: a loop steps past its end, a last vector ends behind it
TILE = 256  # majors, and places along the depth, by which a tile may end behind its operand


def counted_in(program: TileProgram) -> str:
    """The type of a program's places."""
    small = all(map(is_small, (ix(d) for d in program.dim_arguments)))
    every = (i for s in program.statements() for i in _indices(s))
    if not program.maps:  # else a copy engine finds the elements of operands
        every = chain(every, (i for s in program.statements() for i in _reaches(s)))
    return NARROW if small and is_small(program.tasks) and all(map(is_small, every)) else WIDE


def _indices(s: Stmt) -> Iterator[Ix]:
    """All that a statement itself evaluates."""
    if isinstance(s, StoreTile):
        yield address(s.dst, s.at)
    if isinstance(s, Order | GroupPlaces):
        yield s.place.extent * 2  # runs are powers of two
    for e in s.elements if isinstance(s, Order) else ():
        yield from _indices(e)
    for f in fields(s):
        yield from _inside_field(getattr(s, f.name))


def _inside_field(value: Any) -> Iterator[Ix]:
    """The indices of a field, less those of statements in it."""
    if isinstance(value, Ix):
        yield value
    elif isinstance(value, Axis):
        yield value.extent
    elif isinstance(value, Cmp):
        yield value.slack
    elif isinstance(value, Expr):
        yield from _read_at(value)
    elif isinstance(value, Streamed | Operand | BitPlane | GroupNumbers | GroupScales):
        for f in fields(value):
            yield from _inside_field(getattr(value, f.name))
    elif isinstance(value, tuple):
        for x in value:  # type: ignore[reportUnknownVariableType]
            yield from _inside_field(x)


def _reaches(s: Stmt) -> Iterator[Ix]:
    """How far the tiles of operands reach that are read by their strides."""
    operands: list[tuple[Operand, Axis, Axis]] = []
    if isinstance(s, Contract):
        operands = [(s.a, s.m, s.k), *((b, s.n, s.k) for b in (s.b, *(b for _, b in s.more)))]
    elif isinstance(s, Stream):
        operands = [(t.operand, t.major, t.depth) for t in s.tiles]
    for o, major, depth in operands:
        if o.stride is not None and o.k_stride is not None:
            yield o.base + (major.extent + TILE) * o.stride + (depth.extent + TILE) * o.k_stride


def _read_at(e: Expr) -> Iterator[Ix]:
    """Less what is a value and no place: that is computed in its own type."""
    for x in walk([e]):
        if not isinstance(x, Index | Holds):
            yield from indices_of(x)
        if isinstance(x, Read | Gather):
            yield address(x.source, x.at)


@remembered
def is_small(i: Ix) -> bool:
    """Whether the sum of its terms' greatest sizes is; then so is every sum on the way to it."""
    total = abs(i.const)
    for monomial, factor in i.terms:
        size = abs(factor)
        for atom in monomial:
            lo, hi = of_atom(atom).bounds()
            if lo is None or hi is None or not all(map(is_small, _inside(atom))):
                return False
            size *= max(1, abs(lo), abs(hi))  # what is beside a 0 is computed too
        total += size
    return total < MOST


def _inside(atom: Atom) -> tuple[Ix, ...]:
    if isinstance(atom, Lookup):
        assert isinstance(atom.source, Buffer)
        return (address(atom.source, atom.at),)
    return parts(atom)


def reads_ahead(at: Ix, asked: tuple[Cmp, ...]) -> bool:
    """Whether a place can be computed before its conditions hold: the integers of memory in it are there anyway.

    They are where bounds show it, and where the first of the conditions reads them.
    """
    read = frozenset(a for c in asked[:1] for a in c.slack.atoms())
    return all(a in read or _is_there(a) for a in at.atoms() if isinstance(a, Lookup))


def _is_there(a: Lookup) -> bool:
    """Whether the tensor has the element, whatever other tensors say."""
    if not isinstance(a.source, Buffer):
        return False
    dims = zip(a.at, a.source.dims, strict=True)
    return all(is_nonnegative(i) and is_less(i, extent) for i, extent in dims)
