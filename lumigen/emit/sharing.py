"""sharing: the values in an expression that get a name where no statement can give them one.

The branch of a choice is evaluated only if it is chosen, and what has no vector form is evaluated lane by lane: both
are spelled as expressions. One that uses its parts again and again would grow with every use.
"""

from __future__ import annotations

from collections.abc import Callable

from lumigen.dtype import DType
from lumigen.index import Axis
from lumigen.lower.scope import count_uses, is_per_lane, is_safe
from lumigen.memo import remembered
from lumigen.region import (
    Choose,
    Expr,
    Gather,
    Holds,
    Index,
    Intrinsic,
    Prim,
    Read,
    children,
    free_axes,
    walk,
)

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
        leaves = (y for y in walk([x]) if isinstance(y, Read | Gather | Index | Holds))
        return x in sure or all(y in sure or is_safe(y) for y in leaves)

    values = (x for x in walk([e]) if isinstance(x, Prim | Choose | Intrinsic) and uses[x] > 1)
    return [x for x in values if can_stand_ahead(x)]


def shared_vectors(
    e: Expr, lanes: Axis, dtypes: frozenset[DType], one_side: Callable[[Choose], bool]
) -> list[Expr]:
    """The same ahead of a vector: nothing that a single lane asks for, which has another number.

    `one_side`: whether all lanes choose alike, each side then a vector.
    """
    again = shared(e)
    if not again:
        return again
    single = [x for x in walk([e]) if is_per_lane(x, lanes, dtypes)]
    single = [
        x for x in single if not (isinstance(x, Choose) and x.dtype in dtypes and one_side(x))
    ]
    asked = set(walk(child for x in single for child in children(x)))
    return [x for x in again if lanes not in free_axes(x) or (x not in asked and x.dtype in dtypes)]


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
