"""horner: polynomials in the sums and products of an expression."""

from __future__ import annotations

from lumigen.lower.scope import is_negation
from lumigen.ops import Op
from lumigen.region import Const, Expr, Prim


def polynomial(e: Prim) -> tuple[Expr, list[Const]] | None:
    """(x, the coefficients from the highest on) of a polynomial of degree 3 or more that is summed by Horner's rule.

    Every step is the product and the sum that `fma` would be written for: the text is shorter, the value the same.
    """
    first = _step(e)
    if first is None:
        return None
    for x in first[0].args:
        lower: list[Const] = []
        rest: Expr = e
        while (step := _step(rest)) is not None and x in step[0].args:
            product, constant = step
            lower.append(constant)
            rest = product.args[product.args[0] is x]
        if isinstance(rest, Const) and len(lower) >= 3:
            return x, [rest, *reversed(lower)]
    return None


def _step(e: Expr) -> tuple[Prim, Const] | None:
    """(product, constant) of their sum."""
    if not isinstance(e, Prim) or e.op is not Op.ADD:
        return None
    for y, c in (e.args, e.args[::-1]):
        if isinstance(c, Const) and isinstance(y, Prim) and y.op is Op.MUL:
            return None if is_quotient(y) or is_negation(y) else (y, c)
    return None


def is_quotient(e: Prim) -> bool:
    """Whether a product is written as a division: the reciprocal alone might overflow."""
    return any(isinstance(a, Prim) and a.op is Op.RECIP for a in e.args)
