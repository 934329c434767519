"""places: the integers in which a kernel for GPUs counts and finds its elements.

A multiprocessor adds and multiplies 32 bits at a time, and divides 64 by a function of its own. So a kernel counts in
`int` wherever bounds prove that no place and no step of computing one leaves it; else in `int64_t`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from lumigen.condition import Cmp
from lumigen.index import Atom, Axis, Ix, Lookup, ix, of_atom, parts
from lumigen.lower.scope import address
from lumigen.region import Buffer, Expr, Holds, Index, Read, indices_of, walk
from lumigen.tile import Stmt, StoreTile, TileProgram

WIDE, NARROW = "int64_t", "int"
MOST = 1 << 30  # half of what an int holds: a loop steps past its end, a last vector ends behind it


def counted_in(program: TileProgram) -> str:
    """The type of a program's places."""
    small = all(map(is_small, (ix(d) for d in program.dim_arguments)))
    every = (i for s in program.statements() for i in _indices(s))
    return NARROW if small and is_small(program.tasks) and all(map(is_small, every)) else WIDE


def _indices(s: Stmt) -> Iterator[Ix]:
    """All that a statement itself evaluates."""
    if isinstance(s, StoreTile):
        yield address(s.dst, s.at)
    for f in fields(s):
        value: Any = getattr(s, f.name)
        for x in value if isinstance(value, tuple) else (value,):  # type: ignore[reportUnknownVariableType]
            if isinstance(x, Ix):
                yield x
            elif isinstance(x, Axis):
                yield x.extent
            elif isinstance(x, Cmp):
                yield x.slack
            elif isinstance(x, Expr):
                yield from _read_at(x)


def _read_at(e: Expr) -> Iterator[Ix]:
    """Less what is a value and no place: that is computed in its own type."""
    for x in walk([e]):
        if not isinstance(x, Index | Holds):
            yield from indices_of(x)
        if isinstance(x, Read):
            yield address(x.source, x.at)


@cache
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
