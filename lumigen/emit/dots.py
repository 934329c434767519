"""dots: sums over lanes of products with small integers, as a block of weights has them.

    x (n + c) s      dot(x, n, c) * s

What is the same in all lanes multiplies the sum, so that the scale of a block is no factor of each of its elements. An
integer and the whole number added to it become one float in one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from lumigen.dtype import f32
from lumigen.index import Axis
from lumigen.lower.small_integers import added, factors_of, is_of_bytes
from lumigen.ops import Op
from lumigen.region import Expr, free_axes, prim


@dataclass(frozen=True)
class DotOfLanes:
    """Lanes of rest * (integers + more), and what all lanes are multiplied by."""

    rest: Expr
    integers: Expr
    more: float
    scale: Expr | None


def find_dot(e: Expr, lanes: Axis) -> DotOfLanes | None:
    """The value as a product of small integers with something else that varies; None if it is of another form."""
    factors = factors_of(e)
    varying = [x for x in factors if lanes in free_axes(x)]
    shared = [x for x in factors if lanes not in free_axes(x)]
    small = [x for x in varying if is_of_bytes(added(x)[0])]
    if len(small) != 1 or len(varying) < 2:
        return None
    rest = [x for x in varying if x is not small[0]]
    return DotOfLanes(_product(rest), *added(small[0]), _product(shared) if shared else None)


def _product(parts: list[Expr]) -> Expr:
    return reduce(lambda a, b: prim(Op.MUL, (a, b), f32), parts)
