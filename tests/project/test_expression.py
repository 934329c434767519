"""Values as C++: the spelling that a person would use."""

from __future__ import annotations

import pytest

from lumigen.dtype import f32, f64
from lumigen.emit.expression import Renderer
from lumigen.ops import Op
from lumigen.region import Expr, const, local, prim


def horner(x: Expr, *coefficients: float) -> Expr:
    """The coefficients from the highest on."""
    out, *lower = (const(c, x.dtype) for c in coefficients)
    for c in lower:
        out = prim(Op.ADD, (prim(Op.MUL, (out, x), x.dtype), c), x.dtype)
    return out


X, Y = local("x", frozenset(), f32), local("y", frozenset(), f32)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (horner(X, 4.0, 3.0, -2.0, 1.0), "polynomial(x, 4.0f, 3.0f, -2.0f, 1.0f)"),
        (horner(X, 3.0, 2.0, 1.0), "fma(fma(3.0f, x, 2.0f), x, 1.0f)"),  # as short
        (
            prim(Op.ADD, (prim(Op.MUL, (horner(X, 4.0, 3.0, 2.0, 1.0), Y), f32), X), f32),
            "fma(polynomial(x, 4.0f, 3.0f, 2.0f, 1.0f), y, x)",
        ),
        (
            prim(Op.ADD, (prim(Op.MUL, (horner(X, 4.0, 3.0, 2.0), Y), f32), const(1.0, f32)), f32),
            "fma(fma(fma(4.0f, x, 3.0f), x, 2.0f), y, 1.0f)",  # of two variables
        ),
        (horner(local("d", frozenset(), f64), 2.0, 1.0, 1.0, 1.0), "((2.0 * d + 1.0) * d + 1.0) * d + 1.0"),
    ],
)  # fmt: skip
def test_polynomials_are_called_so(value: Expr, text: str) -> None:
    """Only where every step is a fused product and sum, as `polynomial` has it."""
    assert Renderer({}).scalar(value).code == text
