"""safe: whether an expression reads within its buffers wherever it is evaluated."""

from __future__ import annotations

from lumigen.index import Ix, Lookup, is_less, is_nonnegative
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Gather,
    Holds,
    Read,
    Reduce,
    Role,
    children,
    indices_of,
)


def is_safe(e: Expr, *, inside: bool = False) -> bool:
    """Whether every read is within its buffer wherever the expression is evaluated.

    A reduction can run anywhere (`guard`), so its reads count only if they are asked for (`inside`). Nor does a read
    count that a choice within the expression asks for itself, however the place was found.
    """
    stack = [e]
    seen: set[Expr] = set()
    while stack:
        x = stack.pop()
        if x in seen or (isinstance(x, Reduce) and not inside) or (x is not e and _is_asked(x)):
            continue
        seen.add(x)
        if isinstance(x, Read | Gather) and not _is_within(x.source, x.at):
            return False
        if not all(is_safe_index(i) for i in indices_of(x)):
            return False
        stack.extend(children(x))
    return True


def _is_asked(e: Expr) -> bool:
    """Whether it is an element at an integer from memory, chosen where that is a place, and a constant elsewhere."""
    if not isinstance(e, Choose) or not isinstance(e.then, Read):
        return False
    if not isinstance(e.condition, Holds) or not isinstance(e.otherwise, Const):
        return False
    looked_up = any(isinstance(a, Lookup) for i in e.then.at for a in i.atoms())
    if not looked_up or not all(map(is_safe_index, (*e.then.at, *indices_of(e.condition)))):
        return False
    pairs = zip(e.then.at, e.then.source.dims, strict=True)
    wanted = (s for i, extent in pairs for s in (i, extent - 1 - i))
    given = [c.slack for c in e.condition.conditions]
    return all(is_nonnegative(s) or any(is_nonnegative(s - g) for g in given) for s in wanted)


def is_safe_index(i: Ix) -> bool:
    """Whether the integers that an index reads are within their buffers."""
    lookups = [a for a in i.atoms() if isinstance(a, Lookup)]
    return all(_is_within(a.source, a.at) for a in lookups if isinstance(a.source, Buffer))


def _is_within(source: Buffer, at: tuple[Ix, ...]) -> bool:
    if source.role is Role.SCRATCH:
        return True  # a tile is read only where the program has just written it
    return all(
        is_nonnegative(i) and is_less(i, extent) for extent, i in zip(source.dims, at, strict=True)
    )
