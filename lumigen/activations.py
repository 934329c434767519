"""activations: rows that products with integer weights multiply, rounded to 8 bits as the model runs.

Where a weight in a sum of products is an integer of 8 bits times what is the same for all that one sum adds up, as the
scale of a row, the factor rule takes that out of the sum:

    sum x (s w)      s a sum round(x / a) w,   a = max |x| / 127 of the row

The sum on the right is one of integers, and exact: a sum of more terms than i32 holds for certain stays as it is.

Where what multiplies the integers differs from group to group, x is rounded in groups of 32 as well, and stays what it
was, an integer times a number: products that have integers in groups (`lower.groups`) take the integers as they are.

    sum x[k] w[k]      sum (a[k // 32] round(x[k] / a[k // 32])) w[k]

What rounds is x, to 8 bits of the greatest of its row or group: a user asks for that. No format is known here: a weight
is whatever arithmetic the model has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lumigen.dtype import f32, i8, i32
from lumigen.errors import BadArgument
from lumigen.frontend import Tensor, Traced
from lumigen.frontend.functions import where
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    axes_of,
    binary,
    contiguous,
    edge,
    reduce,
    tensor_of,
    toposort,
)
from lumigen.index import Axis, extent_of, is_nonnegative, ix, unravel
from lumigen.index import product as points
from lumigen.lower.canonicalize import canonicalize
from lumigen.lower.cut_graph import CutGraph
from lumigen.lower.groups import grouped_columns
from lumigen.lower.offsets import Alone, shared
from lumigen.ops import Op
from lumigen.pattern import rewrite
from lumigen.region import free_axes, substitute
from lumigen.view import View, compose
from lumigen.weights.formats import Packed

MOST = 127.0  # in magnitude, so that both signs are alike
TERMS = int(i32.greatest // (MOST * -i8.lowest))  # that a sum has at most
LEAST = (
    1e-36  # rows whose greatest number is not above it are 0: MOST divided by that may be infinite
)
ROWS = 32  # on which the error is measured
GROUP = 32  # of a row with a step of its own


@dataclass(frozen=True)
class RoundedRows:
    """A model whose products round their rows, and the integers of the weights of these products.

    `groups`: those whose rows are rounded in groups.
    """

    traced: Traced
    fields: tuple[str, ...]
    asked: bool = False
    groups: frozenset[str] = frozenset()


def rounded(traced: Traced, dtype: str | None) -> RoundedRows:
    """Rows of products with integer weights in 8 bits, if the user asks for `i8`; BadArgument for any other dtype."""
    if dtype is None:
        return RoundedRows(traced, ())
    if dtype != i8.name:
        raise BadArgument(op="compile", name="activations dtype", value=dtype, expected=i8.name)
    found: dict[str, None] = {}
    groups: set[str] = set()

    def step(n: Node) -> Edge | None:
        made = _in_integers(n)
        if made is not None:
            found.update(dict.fromkeys(made[1]))
            return made[0]
        made = _in_groups(n)
        if made is None:
            return None
        found.update(dict.fromkeys(made[1]))
        groups.update(made[1])
        return made[0]

    entries = tuple((name, rewrite(canonicalize(g), step)) for name, g in traced.entries)
    return RoundedRows(replace(traced, entries=entries), tuple(found), True, frozenset(groups))


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


def _in_groups(n: Node) -> tuple[Edge, Sequence[str]] | None:
    """A sum of products with rows that are rounded in groups, and the integers of the weight; None of any other."""
    product = n.args[0].node if n.op is Op.SUM_REDUCE and n.dtype is f32 else None
    if product is None or product.op is not Op.MUL or n.args != (edge(product),):
        return None
    if len(gone := axes_of(n)) != 1 or product.shape[gone[0]] % GROUP != 0:
        return None
    for x, w in (product.args, product.args[::-1]):
        if x.view.valid or _weights_of(x.node) is not None or _is_rounded(x.node):
            continue
        names = _integers_in_groups(w, gone[0])
        alone = Alone.of(x, n)
        if not names or alone.gone != (len(alone.operand.shape) - 1,):
            continue
        t = Tensor(alone.operand)
        parts = t.reshape(*t.edge.shape[:-1], t.edge.shape[-1] // GROUP, GROUP)
        by, step = _steps(parts, (-1,))
        whole = (parts * by + 0.5).floor().to(i8)
        rows = (Tensor(edge(contiguous(whole.edge, f32))) * step).reshape(*t.edge.shape)
        pairs = binary(Op.MUL, _seen(rows.edge, alone.in_product), w)
        return edge(reduce(Op.SUM_REDUCE, edge(pairs), gone)), names
    return None


def _is_rounded(n: Node) -> bool:
    """Whether it is integers of 8 bits times numbers."""
    casts = (_as_it_is(a).node for a in n.args) if n.op is Op.MUL else ()
    return any(c.op is Op.CONTIGUOUS and c.args[0].dtype is i8 for c in casts)


def _integers_in_groups(w: Edge, depth: int) -> tuple[str, ...]:
    """The weights that hold the integers of a factor over a dimension `depth`; none where it has no such form."""
    if w.view.valid or _weights_of(w.node) is None:
        return ()
    axes = tuple(Axis(f"x{d}", e) for d, e in enumerate(w.shape))
    value = CutGraph(Graph((), (("w", w),))).at_edge(w, tuple(map(ix, axes)))
    majors = tuple(a for a in axes if a in free_axes(value) and a != axes[depth])
    n = Axis("n", extent_of(majors))
    found = grouped_columns(substitute(value, unravel(n, majors)), n, axes[depth])
    return () if found is None else tuple(p.source.name for p in found.planes)


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
    by, step = _steps(t, alone.gone)
    whole = (t * by + 0.5).floor().to(i8).to(i32)
    kept = tuple(e for d, e in enumerate(t.edge.shape) if d not in alone.gone)
    step = step.reshape(*kept)
    return _seen(whole.edge, alone.in_product), _seen(step.edge, alone.in_sum)


def _steps(t: Tensor, gone: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """What makes integers of what has these dimensions in common, and what one of them stands for."""
    most = t.abs().amax(gone, keepdim=True)
    return where(most > LEAST, MOST / most, 0.0), most / MOST


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


def error_of(
    packed: Mapping[str, Packed], fields: Sequence[str], groups: frozenset[str] = frozenset()
) -> tuple[float, str]:
    """How far rounding N(0, 1) moves the product of a matrix the most, by norm, and which one it is.

    Rows that are multiplied by integers in `groups` have a step for each 32 of them.
    """
    rng, worst = np.random.default_rng(0), (0.0, "")
    for name, weight in packed.items():
        if len(weight.shape) != 2 or not any(
            f"{name}.{field}" in fields for field in weight.fields
        ):
            continue
        x = rng.standard_normal((ROWS, weight.shape[-1])).astype(np.float32)
        in_groups = any(f"{name}.{field}" in groups for field in weight.fields)
        parts = x.reshape(ROWS, -1, GROUP if in_groups else weight.shape[-1])
        step = np.abs(parts).max(-1, keepdims=True) / MOST
        moved = (np.rint(parts / step) * step - parts).reshape(x.shape)
        apart, meant = moved @ (w := weight.decoded()).T, x @ w.T
        size = float(np.linalg.norm(meant))
        worst = max(worst, (float(np.linalg.norm(apart)) / size if size else 0.0, name))
    return worst


def said(packed: Mapping[str, Packed], found: RoundedRows) -> str:
    """The products and the error in a line for a person; empty where nobody asked."""
    if not found.fields:
        few = (
            "no weight is small integers with a scale for each row or group, as q8 and q4 have them"
        )
        return f"{few}: no activations are rounded" if found.asked else ""
    apart, name = error_of(packed, found.fields, found.groups)
    far = (
        f"; of rows of N(0, 1) this moves {name} the most, by {apart:.2%} of its norm"
        if name
        else ""
    )
    matrices = len({field.rpartition(".")[0] for field in found.fields})
    which = "a matrix multiplies" if matrices == 1 else f"{matrices} matrices multiply"
    return f"rows that {which} are rounded to 8 bits{far}"
