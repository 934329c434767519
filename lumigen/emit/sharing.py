"""sharing: the values in an expression that get a name where no statement can give them one.

The branch of a choice is evaluated only if it is chosen, and what has no vector form is evaluated lane by lane: both
are spelled as expressions. One that uses its parts again and again would grow with every use.
"""

from __future__ import annotations

from lumigen.lower.scope import count_uses, is_safe
from lumigen.memo import remembered
from lumigen.region import Choose, Expr, Holds, Index, Intrinsic, Prim, Read, children, walk

READABLE = 100  # nodes of an expression; shorter ones are spelled as they are


@remembered
def spelled(e: Expr) -> int:
    """How many nodes the text of an expression has if nothing in it has a name."""
    return 1 + sum(map(spelled, children(e)))


def shared(e: Expr) -> list[Expr]:
    """What to name ahead of an expression, operands before users; nothing unless its text would be long.

    All of it can be evaluated wherever the expression can.
    """
    if spelled(e) <= READABLE or spelled(e) <= 2 * len(walk([e])):
        return []
    sure = always(e)
    uses = count_uses([e])

    def can_stand_ahead(x: Expr) -> bool:
        leaves = (y for y in walk([x]) if isinstance(y, Read | Index | Holds))
        return x in sure or all(y in sure or is_safe(y) for y in leaves)

    values = (x for x in walk([e]) if isinstance(x, Prim | Choose | Intrinsic) and uses[x] > 1)
    return [x for x in values if can_stand_ahead(x)]


def always(e: Expr) -> set[Expr]:
    """What is evaluated whichever branches are taken."""
    out: set[Expr] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if x not in out:
            out.add(x)
            stack.extend([x.condition] if isinstance(x, Choose) else children(x))
    return out
