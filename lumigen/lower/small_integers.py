"""small_integers: what is made of the bits of an integer of 8, in products. Facts; they decide nothing."""

from __future__ import annotations

from lumigen.dtype import f32
from lumigen.lower.scope import integers_read, is_safe
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Intrinsic, Prim

FACTORS = 16  # that are looked at
LARGEST = 128  # divisor of which bytes of any sign have the remainder


def added(e: Expr) -> tuple[Expr, float]:
    """A small integer, and the whole number that is added to it; any other value, and none."""
    if not isinstance(e, Prim) or e.op is not Op.ADD or not isinstance(more := e.args[1], Const):
        return e, 0.0
    whole = abs(more.value) <= 1 << 16 and more.value == int(more.value)
    return (e.args[0], more.value) if whole and is_of_bytes(e.args[0]) else (e, 0.0)


@remembered
def is_of_bytes(e: Expr) -> bool:
    """Whether it is made of the bits of an integer of 8, of which a choice may read both sides."""
    if isinstance(e, Choose):
        return is_of_bytes(e.then) and is_of_bytes(e.otherwise) and is_safe(e)
    if isinstance(e, Intrinsic):
        size = e.args[-1]
        small = isinstance(size, Const) and size.value <= LARGEST
        return e.name == "whole_quotient" or (e.name == "whole_remainder" and small)
    source = integers_read(e) if isinstance(e, Prim) else None
    return source is not None and source.source.dtype.bits == 8


def exact(e: Expr) -> Expr:
    """Without a rounding to 16 bits, which have all integers of 8."""
    while isinstance(e, Prim) and e.op is Op.CONTIGUOUS and is_of_bytes(e.args[0]):
        (e,) = e.args
    return e


def factors_of(e: Expr) -> list[Expr]:
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
