"""arithmetic: sums, products and powers in the spelling that a person would use."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lumigen.dtype import f32, f64
from lumigen.emit.horner import is_quotient, polynomial
from lumigen.emit.text import PRODUCT, SUM, TIGHT, Text, literal
from lumigen.emit.widths import int_reach
from lumigen.ops import Op
from lumigen.region import Const, Expr, Prim, angle_of


def arithmetic(e: Prim, render: Callable[[Expr], Text], may_fuse: bool) -> Text:
    """Sums and products in the spelling that a person would use: a - b, a / b, fma, polynomial."""
    a, b = e.args
    terms = polynomial(e) if may_fuse else None
    if terms is not None:
        x, coefficients = terms
        numbers = ", ".join(literal(c.value, c.dtype) for c in coefficients)
        return Text(f"polynomial({render(x).code}, {numbers})")
    if e.op is Op.MUL:
        for x, y in ((a, b), (b, a)):
            if isinstance(y, Prim) and y.op is Op.RECIP:
                return Text(
                    f"{render(x).within(PRODUCT)} / {render(y.args[0]).within(TIGHT)}", PRODUCT
                )
        return Text(f"{render(a).within(PRODUCT)} * {render(b).within(TIGHT)}", PRODUCT)
    for x, y in ((a, b), (b, a)):
        subtracted = negated(y)
        if subtracted is not None:
            return Text(f"{render(x).within(SUM)} - {render(subtracted).within(PRODUCT)}", SUM)
    for x, y in ((b, a), (a, b)):
        if may_fuse and isinstance(y, Prim) and y.op is Op.MUL and not is_quotient(y):
            p, q = (render(z).code for z in y.args)
            return Text(f"fma({p}, {q}, {render(x).code})")
    return Text(f"{render(a).within(SUM)} + {render(b).within(PRODUCT)}", SUM)


def unrounded(
    e: Prim, render: Callable[[Expr], str], *, lanes: bool = False, flushes: bool = False
) -> Text | None:
    """exp2 of a product and sin of a sum that are not rounded: exp, the power of a scale, cos.

    None of anything else. Where small powers may be zero (`flushes`), exponents may be rounded too.
    """
    exponent = e.args[0]
    if e.op is Op.EXP2 and flushes:
        return Text(f"exp2_flushed({render(exponent)})")
    angle = angle_of(e)
    if angle is not None:
        name = "__builtin_cos" if e.dtype is f64 and not lanes else "cos"
        return Text(f"{name}({render(angle)})")
    if e.op is not Op.EXP2 or not isinstance(exponent, Prim) or exponent.op is not Op.MUL:
        return None
    for x, y in (exponent.args, exponent.args[::-1]):
        if isinstance(y, Const) and e.dtype is not f64:
            rest = y.value - float(np.float32(y.value))
            if y.value == math.log2(math.e):
                return Text(f"exp({render(x)})")
            if rest and math.isfinite(rest):
                return Text(
                    f"exp2_scaled({render(x)}, {literal(y.value, f32)}, {literal(rest, f32)})"
                )
    return None


def widened(render: Callable[[Expr], Text]) -> Callable[[Expr], Text]:
    """The same texts, in 64 bits where C++ would compute in an int."""

    def wide(e: Expr) -> Text:
        text = render(e)
        return text if int_reach(e) is None else Text(f"int64_t{{{text.code}}}")

    return wide


def negated(e: Expr) -> Expr | None:
    """x, if the expression is x * -1."""
    if isinstance(e, Prim) and e.op is Op.MUL:
        for x, y in (e.args, e.args[::-1]):
            if isinstance(y, Const) and y.value == -1:
                return x
    return None
