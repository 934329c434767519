"""offsets: what is added to all numbers of a row or column of integers leaves their product.

Before: any graph.  After: a sum of products of integers of 8 bits, each with an offset such as a zero point, is one of
the integers as they are, and a term for each offset:

    sum (x + c) w      sum x w + c sum w

Integers wrap around, so both sides are equal. A sum of weights alone is a weight (`prepare`).
"""

from __future__ import annotations

from lumigen.dtype import i8, i32, u8
from lumigen.graph import Edge, Graph, Node, axes_of, binary, edge, reduce
from lumigen.index import Axis, Ix, ix
from lumigen.ops import Op
from lumigen.pattern import rewrite
from lumigen.view import View, compose, coordinates, positions


def offsets(graph: Graph) -> Graph:
    """The graph with products of integers without offsets."""
    return rewrite(graph, _without)


def _without(n: Node) -> Edge | None:
    """A sum of products of integers as one without offsets, and what they add up to; None of any other node."""
    product = n.args[0].node if n.op is Op.SUM_REDUCE and n.dtype is i32 else None
    if product is None or product.op is not Op.MUL or n.args != (edge(product),):
        return None
    gone = axes_of(n)
    if not all(_is_of_bytes(_split(e, gone)[0]) for e in product.args):
        return None
    for x, other in (product.args, product.args[::-1]):
        rest, offset = _split(x, gone)
        if offset is not None:
            first = reduce(Op.SUM_REDUCE, edge(binary(Op.MUL, rest, other)), gone)
            left = _without(first) or edge(first)
            return edge(binary(Op.ADD, left, edge(_times_sum(n, other, offset))))
    return None


def _split(e: Edge, gone: tuple[int, ...]) -> tuple[Edge, Edge | None]:
    """What an operand shows, and what is added to all of it along the dimensions that a sum is over, if anything is."""
    if e.node.op is not Op.ADD or e.view.valid:
        return e, None
    summed = {positions(e.shape)[d] for d in gone}
    for x, c in (e.node.args, e.node.args[::-1]):
        views = compose(e.view, x.view, x.node.shape), compose(e.view, c.view, c.node.shape)
        if None in views or x.node.op is Op.CONST:
            continue
        rest, offset = (Edge(s.node, v) for s, v in zip((x, c), views, strict=True) if v is not None)
        if not offset.view.valid and not _axes(offset.view) & summed:
            return rest, offset
    return e, None


def _is_of_bytes(e: Edge) -> bool:
    """Whether it shows integers of 8 bits in 32."""
    source = e.node.args[0] if e.node.op is Op.CONTIGUOUS else None
    return source is not None and e.dtype is i32 and source.dtype in (i8, u8)


def _times_sum(n: Node, other: Edge, offset: Edge) -> Node:
    """The offset times the sum of the other operand, which is taken once for what it varies with."""
    gone, along = axes_of(n), positions(other.shape)
    kept = [d for d, a in enumerate(along) if d in gone or a in _axes(other.view)]
    shape = tuple(other.shape[d] for d in kept)
    at = dict(zip(kept, coordinates(shape), strict=True))
    operand = Edge(other.node, _looked(other.view, shape, at))
    total = reduce(Op.SUM_REDUCE, operand, [kept.index(d) for d in gone])
    shown = dict(zip([d for d in range(len(along)) if d not in gone], coordinates(n.shape), strict=True))
    of_total = View(n.shape, tuple(shown[d] for d in kept if d not in gone))
    return binary(Op.MUL, Edge(total, of_total), Edge(offset.node, _looked(offset.view, n.shape, shown)))


def _looked(view: View, shape: tuple[Ix, ...], at: dict[int, Ix]) -> View:
    """The view over another shape, whose positions stand for those of its own that are given; others are 0."""
    index, valid = view.at(tuple(at.get(d, ix(0)) for d in range(view.rank)))
    return View(shape, index, valid, view.fill)


def _axes(view: View) -> frozenset[Axis]:
    return frozenset[Axis]().union(*(i.axes for i in view.index), *(c.slack.axes for c in view.valid))
