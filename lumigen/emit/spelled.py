"""spelled: how often the text of a value has each of its parts, where every value is written out in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lumigen.index import Axis
from lumigen.lower.scope import is_negation
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Prim, Reduce, Scan, children, free_axes


def uses_of(e: Expr, find: Callable[[Expr], str | None]) -> tuple[dict[Expr, int], set[Expr]]:
    """How often each value is spelled in the text of `e`; those that are evaluated in any case.

    Quotients and differences are spelled by their operands. Inside a reduction only what does not
    vary with it counts.
    """
    uses: dict[Expr, int] = {e: 1}
    always: set[Expr] = {e}
    seen: set[tuple[Expr, frozenset[Axis], bool]] = set()
    none: frozenset[Axis] = frozenset()
    stack = [(e, none, True)]
    while stack:
        x, bound, certain = stack.pop()
        bound &= free_axes(x)
        if (x, bound, certain) in seen or (x is not e and find(x) is not None):
            continue
        first = not any((x, b, c) in seen for b, c in ((bound, True), (bound, False)))
        seen.add((x, bound, certain))
        if isinstance(x, Reduce):
            bound |= frozenset(x.axes)
        for n, c in spelled(x):
            guarded = n > 0 if isinstance(x, Choose) else isinstance(x, Reduce) and bool(x.where)
            reaches = certain and not guarded
            if not free_axes(c) & bound:
                uses[c] = uses.get(c, 0) + first
                if reaches:
                    always.add(c)
            stack.append((c, bound, reaches))
    return uses, always


def spelled(e: Expr) -> Iterator[tuple[int, Expr]]:
    """The operands as the text spells them, each with the number of the operand that it is in.

    The step of a scan is spelled in a loop of its own.
    """
    if isinstance(e, Scan):
        yield 0, e.init
        return
    for n, c in enumerate(children(e)):
        if isinstance(c, Prim) and (c.op is Op.RECIP or is_negation(c)):
            yield from ((n, x) for _, x in spelled(c) if not isinstance(x, Const))
        else:
            yield n, c
