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
from lumigen.lower.scope import integers_read
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Intrinsic, Prim, free_axes, prim

FACTORS = 16  # that are looked at


@dataclass(frozen=True)
class DotOfLanes:
    """Lanes of rest * (integers + more), and what all lanes are multiplied by."""

    rest: Expr
    integers: Expr
    more: float
    scale: Expr | None


def find_dot(e: Expr, lanes: Axis) -> DotOfLanes | None:
    """The value as a product of small integers with something else that varies; None if it is of another form."""
    factors = _factors(e)
    varying = [x for x in factors if lanes in free_axes(x)]
    shared = [x for x in factors if lanes not in free_axes(x)]
    small = [x for x in varying if is_of_bytes(added(x)[0])]
    if len(small) != 1 or len(varying) < 2:
        return None
    rest = [x for x in varying if x is not small[0]]
    return DotOfLanes(_product(rest), *added(small[0]), _product(shared) if shared else None)


def added(e: Expr) -> tuple[Expr, float]:
    """A small integer, and the whole number that is added to it; any other value, and none."""
    if not isinstance(e, Prim) or e.op is not Op.ADD or not isinstance(more := e.args[1], Const):
        return e, 0.0
    whole = abs(more.value) <= 1 << 16 and more.value == int(more.value)
    return (e.args[0], more.value) if whole and is_of_bytes(e.args[0]) else (e, 0.0)


@remembered
def is_of_bytes(e: Expr) -> bool:
    """Whether it is made of the bits of an integer of 8."""
    if isinstance(e, Choose):
        return is_of_bytes(e.then) and is_of_bytes(e.otherwise)
    if isinstance(e, Intrinsic):
        return e.name in ("whole_quotient", "whole_remainder")
    source = integers_read(e) if isinstance(e, Prim) else None
    return source is not None and source.source.dtype.bits == 8


def _factors(e: Expr) -> list[Expr]:
    """What a product multiplies; it alone where that is much, as where factors are squared again and again."""
    out, stack = list[Expr](), [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Prim) and x.op is Op.MUL and x.dtype is f32:
            stack += reversed(x.args)
        else:
            out.append(x)
        if len(out) + len(stack) > FACTORS:
            return [e]
    return out


def _product(parts: list[Expr]) -> Expr:
    return reduce(lambda a, b: prim(Op.MUL, (a, b), f32), parts)
