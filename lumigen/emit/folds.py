"""folds: loops whose additions would wait for each other, or for memory, if they were written one after the other.

A run of rows is read together; a sum of products multiplies and adds in one step.
"""

from __future__ import annotations

from lumigen.dtype import DType, f32
from lumigen.emit.text import literal
from lumigen.index import Lookup
from lumigen.ops import Op
from lumigen.region import Expr, Monoid, Prim, free_axes
from lumigen.tile import Accumulate, For, Let

TERMS = 256  # of a sum that are looked at, one by one


def folded_run(s: For) -> Accumulate | None:
    """The one fold of floats in a loop whose ends are read from memory, behind values that it names."""
    *lets, last = s.body
    if s.dealt or s.step != 1 or not isinstance(last, Accumulate) or last.into.dtype is not f32:
        return None
    ends = (*s.lo.atoms(), *s.hi.atoms())
    is_run = any(isinstance(a, Lookup) for a in ends) and s.axis in free_axes(last.value)
    return last if is_run and all(isinstance(x, Let) for x in lets) else None


def terms_of(e: Expr) -> list[Expr]:
    """What a sum adds up; it alone where that is much, as where it is doubled again and again."""
    out, stack = list[Expr](), [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Prim) and x.op is Op.ADD:
            stack += reversed(x.args)
        else:
            out.append(x)
        if len(out) + len(stack) > TERMS:
            return [e]
    return out


def is_product(e: Expr) -> bool:
    """Whether vectors multiply; a quotient is none."""
    if not isinstance(e, Prim) or e.op is not Op.MUL or not e.dtype.is_float:
        return False
    return not any((isinstance(x, Prim) and x.op is Op.RECIP) or x.dtype.is_bool for x in e.args)


def neutral(monoid: Monoid, dtype: DType) -> str:
    """Where an accumulator starts."""
    return literal(dtype.lowest if monoid is Monoid.MAX else 0, dtype)
