"""activations: rows that products with integer weights multiply, rounded to 8 bits as the model runs.

Where a weight in a sum of products is an integer of 8 bits times what is the same for all that one sum adds up, as the
scale of a row, the factor rule takes that out of the sum:

    sum x (s w)      s a sum round(x / a) w,   a = max |x| / 127 of the row

The sum on the right is one of integers, and exact: a sum of more terms than i32 holds for certain stays as it is. What
rounds is x, to 8 bits of the greatest of its row: a user asks for that. No format is known here: a weight is whatever
arithmetic the model has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lumigen.dtype import f32, i8, i32
from lumigen.errors import BadArgument
from lumigen.frontend import Tensor, Traced
from lumigen.frontend.functions import where
from lumigen.graph import Edge, Node, axes_of, binary, contiguous, edge, reduce, tensor_of, toposort
from lumigen.index import is_nonnegative
from lumigen.index import product as points
from lumigen.lower.canonicalize import canonicalize
from lumigen.lower.offsets import Alone, shared
from lumigen.ops import Op
from lumigen.pattern import rewrite
from lumigen.view import View, compose
from lumigen.weights.formats import Packed

MOST = 127.0  # in magnitude, so that both signs are alike
TERMS = int(i32.greatest // (MOST * -i8.lowest))  # that a sum has at most
LEAST = (
    1e-36  # rows whose greatest number is not above it are 0: MOST divided by that may be infinite
)
ROWS = 32  # on which the error is measured


@dataclass(frozen=True)
class RoundedRows:
    """A model whose products round their rows, and the fields of the weights of these products."""

    traced: Traced
    fields: tuple[str, ...]
    asked: bool = False


def rounded(traced: Traced, dtype: str | None) -> RoundedRows:
    """Rows of products with integer weights in 8 bits, if the user asks for `i8`; BadArgument for any other dtype."""
    if dtype is None:
        return RoundedRows(traced, ())
    if dtype != i8.name:
        raise BadArgument(op="compile", name="activations dtype", value=dtype, expected=i8.name)
    found: dict[str, None] = {}

    def step(n: Node) -> Edge | None:
        made = _in_integers(n)
        if made is not None:
            found.update(dict.fromkeys(made[1]))
        return None if made is None else made[0]

    entries = tuple((name, rewrite(canonicalize(g), step)) for name, g in traced.entries)
    return RoundedRows(replace(traced, entries=entries), tuple(found), asked=True)


def _in_integers(n: Node) -> tuple[Edge, Sequence[str]] | None:
    """A sum of products in integers, and the weights that it reads; None where it has no integer weight."""
    product = n.args[0].node if n.op is Op.SUM_REDUCE and n.dtype is f32 else None
    if product is None or product.op is not Op.MUL or n.args != (edge(product),):
        return None
    if not is_nonnegative(TERMS - points(tuple(product.shape[d] for d in axes_of(n)))):
        return None
    for x, w in (product.args, product.args[::-1]):
        whole, factors = _split(w, n)
        if whole is None or x.view.valid or _weights_of(x.node) is not None:
            continue
        rows, scale = _rows(x, n)
        pairs = binary(Op.MUL, rows, edge(contiguous(whole, i32)))
        total = edge(contiguous(edge(reduce(Op.SUM_REDUCE, edge(pairs), axes_of(n))), f32))
        for factor in (scale, *factors):
            total = edge(binary(Op.MUL, total, factor))
        return total, _weights_of(whole.node) or ()
    return None


def _split(e: Edge, n: Node) -> tuple[Edge | None, list[Edge]]:
    """The integers of 8 bits that a weight has, and what multiplies all that one sum adds up, as the sum is seen."""
    factors: list[Edge] = []
    e = _as_it_is(e)
    while e.node.op is Op.MUL and not e.view.valid:
        for x, c in (e.node.args, e.node.args[::-1]):
            view, of_c = (compose(e.view, s.view, s.node.shape) for s in (x, c))
            factor = None if of_c is None else shared(Edge(c.node, of_c), n)
            if view is not None and factor is not None and factor.dtype is f32:
                factors.append(factor)
                e = _as_it_is(Edge(x.node, view))
                break
        else:
            return None, []
    source = e.node.args[0] if e.node.op is Op.CONTIGUOUS else None
    if source is None or source.dtype is not i8 or e.view.valid or _weights_of(source.node) is None:
        return None, []
    view = compose(e.view, source.view, source.node.shape)
    return (None if view is None else Edge(source.node, view)), factors


def _rows(x: Edge, n: Node) -> tuple[Edge, Edge]:
    """Rows as integers in i32, as the product sees them, and what one of them stands for, as the sum is seen."""
    alone = Alone.of(x, n)
    t = Tensor(alone.operand)
    most = t.abs().amax(alone.gone, keepdim=True)
    by = where(most > LEAST, MOST / most, 0.0)
    whole = (t * by + 0.5).floor().to(i8).to(i32)
    kept = tuple(e for d, e in enumerate(t.edge.shape) if d not in alone.gone)
    step = (most / MOST).reshape(*kept)
    return _seen(whole.edge, alone.in_product), _seen(step.edge, alone.in_sum)


def _as_it_is(e: Edge) -> Edge:
    """Behind casts to what it is already."""
    while e.node.op is Op.CONTIGUOUS and (x := e.node.args[0]).dtype is e.dtype:
        view = compose(e.view, x.view, x.node.shape)
        if view is None:
            break
        e = Edge(x.node, view)
    return e


def _seen(e: Edge, view: View) -> Edge:
    found = compose(view, e.view, e.node.shape)
    return Edge(contiguous(e), view) if found is None else Edge(e.node, found)


def _weights_of(n: Node) -> tuple[str, ...] | None:
    """The names of the weights that alone decide a value; None where something else does."""
    names: dict[str, None] = {}
    for x in toposort([n]):
        if x.op in (Op.INPUT, Op.STATE, Op.RANDOM, Op.NATIVE, Op.SCAN):
            return None
        if x.op is Op.WEIGHT:
            names[tensor_of(x).name] = None
    return tuple(names) or None


def error_of(packed: Mapping[str, Packed], fields: Sequence[str]) -> tuple[float, str]:
    """How far rounding N(0, 1) moves the product of a matrix the most, by norm, and which one it is."""
    rng, worst = np.random.default_rng(0), (0.0, "")
    for name, weight in packed.items():
        if len(weight.shape) != 2 or not any(
            f"{name}.{field}" in fields for field in weight.fields
        ):
            continue
        x = rng.standard_normal((ROWS, weight.shape[-1])).astype(np.float32)
        step = np.abs(x).max(-1, keepdims=True) / MOST
        apart, meant = (np.rint(x / step) * step - x) @ (w := weight.decoded()).T, x @ w.T
        size = float(np.linalg.norm(meant))
        worst = max(worst, (float(np.linalg.norm(apart)) / size if size else 0.0, name))
    return worst


def said(packed: Mapping[str, Packed], found: RoundedRows) -> str:
    """The products and the error in a line for a person; empty where nobody asked."""
    if not found.fields:
        few = f"no weight is integers of 8 bits with one scale for a row of at most {TERMS:,}, as q8-row has them"
        return f"{few}: no activations are rounded" if found.asked else ""
    apart, name = error_of(packed, found.fields)
    far = (
        f"; of rows of N(0, 1) this moves {name} the most, by {apart:.2%} of its norm"
        if name
        else ""
    )
    return f"rows that {len(found.fields)} matrices multiply are rounded to 8 bits{far}"
