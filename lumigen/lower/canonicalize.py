"""canonicalize: bring the graph to a normal form, so that later passes match one spelling.

Before: any graph. After: constants stand on the right and masks on the left; neutral elements,
inverse pairs and ops on constants alone are gone; a chain of constant factors or terms is one.

Every rule is right for NaN, infinities and signed zeros, or states its licence in a comment. Therefore
absent: `x + 0` (for x = -0.0 it is 0.0), `x * 0` of floats, and
`log2(exp2(x))`, which would turn an overflow into a finite number.
"""

from __future__ import annotations

from functools import partial
from math import copysign, isfinite

import numpy as np

from lumigen.dtype import DType, boolean
from lumigen.graph import Edge, Graph, Node, axes_of, binary, const, contiguous, edge, literal_of
from lumigen.index import Ix, ix
from lumigen.interp.graph import number
from lumigen.lower.fold import everywhere, fold_node, result_of, seen_as
from lumigen.ops import HALF_TURN, Op, neutral
from lumigen.pattern import (
    Bindings,
    Made,
    Rule,
    constant,
    is_constant,
    op,
    pattern,
    rewrite,
    var,
)
from lumigen.view import View, compose, coordinates

SIGNIFICANDS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


def canonicalize(graph: Graph) -> Graph:
    """The graph in normal form."""
    return rewrite(graph, fold_node, drop_reduction, *RULES)


def drop_reduction(n: Node) -> Edge | None:
    """A sum or maximum over extents of 1 is its operand."""
    if n.op not in {Op.SUM_REDUCE, Op.MAX_REDUCE}:
        return None
    (e,) = n.args
    gone = axes_of(n)
    if any(e.shape[d] != 1 for d in gone):
        return None
    kept = iter(coordinates(n.shape))
    index: tuple[Ix, ...] = tuple(ix(0) if d in gone else next(kept) for d in range(e.view.rank))
    view = compose(View(n.shape, index), e.view, e.node.shape)
    return None if view is None else Edge(e.node, view)


def _is_mask(e: Edge) -> bool:
    return e.dtype.is_bool and not is_constant(e)


def _is_neutral(a: Edge) -> bool:
    """Whether x + a is x, bit for bit: -0.0, not 0.0; 0 of integers."""
    value = literal_of(a.node)
    return not a.dtype.is_bool and value == 0 and (a.dtype.is_int or copysign(1, value) < 0)


def _unselected(m: Bindings) -> Edge:
    """What a Mul gives whose mask is false."""
    e = m["x"]
    return everywhere(neutral(np.dtype(e.dtype.numpy)), e.dtype, e.shape)


def _nowhere(m: Bindings) -> Edge:
    return seen_as(edge(const(value=False, dtype=boolean)), m["x"].shape)


def _joined(op: Op, m: Bindings) -> Edge:
    """The constant `a op b`."""
    a, b = m["a"], m["b"]
    with np.errstate(all="ignore"):
        value = result_of(binary(op, a, b), [number(a.node), number(b.node)])
        return everywhere(value, a.dtype, a.shape)


def _of_one_type(m: Bindings) -> bool:
    return m["x"].dtype is m["a"].dtype is m["b"].dtype and not m["x"].dtype.is_bool


def _factors_join(m: Bindings) -> bool:
    """Integers wrap around; the product of floats has to be a normal number.

    A change of sign stays by itself: as part of the constant it would hide that a value is subtracted, which
    rounds as it does elsewhere, and is not fused with the sum.
    """
    if not _of_one_type(m) or m["x"].dtype.is_int:
        return _of_one_type(m)
    if [literal_of(m[name].node) for name in ("a", "b")].count(-1) == 1:
        return False
    joined = literal_of(_joined(Op.MUL, m).node)
    return isfinite(joined) and abs(joined) >= float(np.finfo(np.float32).tiny)


def _terms_join(m: Bindings) -> bool:
    """Integers wrap around; floats of opposite sign may be there to round x (x + 2**23 - 2**23)."""
    if not _of_one_type(m) or m["x"].dtype.is_int:
        return _of_one_type(m)
    if HALF_TURN in (literal_of(m[name].node) for name in ("a", "b")):
        return False  # of a cosine, as which it would not be known
    signs = {copysign(1, literal_of(m[name].node)) for name in ("a", "b")}
    return isfinite(literal_of(_joined(Op.ADD, m).node)) and len(signs) == 1


def _is_copy(m: Bindings) -> bool:
    """Whether a Contiguous neither casts nor resets a view."""
    x = m["x"]
    return x.dtype is m["c"].dtype and x.view.is_identity(x.node.shape)


def _is_widened(m: Bindings) -> bool:
    """Whether the inner cast keeps every value of x's type, and is seen as it is."""
    c = m["c"]
    return _holds(c.dtype, m["x"].dtype) and c.view.is_identity(c.node.shape)


def _holds(wide: DType, narrow: DType) -> bool:
    if wide.is_bool or narrow.is_bool:
        return narrow.is_bool and not wide.is_bool
    if narrow.is_int and wide.is_float:
        return narrow.bits - (narrow.name[0] == "i") <= SIGNIFICANDS[wide.name]
    return wide.kind is narrow.kind and narrow.bits < wide.bits


def _cast(m: Bindings) -> Edge:
    return edge(contiguous(m["x"], m["d"].dtype))


x, y, a, b = var("x"), var("y"), constant("a"), constant("b")
yes, no = pattern(True), pattern(False)
recip, copy, less = op(Op.RECIP), op(Op.CONTIGUOUS), op(Op.LESS_THAN)
sum_of, product_of = Made(partial(_joined, Op.ADD)), Made(partial(_joined, Op.MUL))

RULES = (
    Rule("const_right_add", a + x, x + a, lambda m: not is_constant(m["x"])),
    Rule("const_right_mul", a * x, x * a, lambda m: not is_constant(m["x"])),
    Rule("mask_left", x * y, y * x, lambda m: _is_mask(m["y"]) and not m["x"].dtype.is_bool),
    Rule("add_neutral", x + a, x, lambda m: _is_neutral(m["a"])),
    Rule("mul_one", x * 1, x, lambda m: not m["x"].dtype.is_bool),
    Rule("select_true", x * yes, x),
    Rule("select_false", x * no, Made(_unselected)),
    Rule("select_neutral", x * a, a, lambda m: m["x"].dtype.is_bool and _is_neutral(m["a"])),
    Rule("select_twice", x * (x * y), x * y, lambda m: m["x"].dtype.is_bool),
    Rule("and_self", x * x, x, lambda m: m["x"].dtype.is_bool),
    Rule("not_not", (x < yes) < yes, x),
    Rule("true_only", no < x, x),
    Rule("less_self", less(x, x), Made(_nowhere)),
    Rule("less_false", x < no, Made(_nowhere)),
    # Licensed by reassociation: two roundings become one.
    Rule("mul_mul_const", (x * a) * b, x * product_of, _factors_join),
    Rule("add_add_const", (x + a) + b, x + sum_of, _terms_join),
    # Licensed likewise; a denormal stays itself instead of becoming 0.
    Rule("recip_recip", recip(recip(x)), x),
    Rule("copy", copy(x).named("c"), x, _is_copy),
    Rule("widen_cast", copy(copy(x).named("c")).named("d"), Made(_cast), _is_widened),
)
