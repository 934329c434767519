"""offsets: what is added to all numbers of a row or column of integers leaves their product.

Before: any graph.  After: a sum of products of integers of 8 bits, each with an offset such as a zero point, is one of
the integers as they are, and a term for each offset:

    sum (x + c) w      sum x w + c sum w

Integers wrap around, so both sides are equal. A sum of weights alone is a weight (`prepare`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lumigen.dtype import i8, i32, u8
from lumigen.graph import Edge, Graph, Node, axes_of, binary, edge, rebuild, reduce
from lumigen.index import Ix, ix
from lumigen.ops import Op
from lumigen.pattern import rewrite
from lumigen.view import View, compose, coordinates, positions

EACH = frozenset((Op.ADD, Op.MUL, Op.CONTIGUOUS))  # ops on each element that offsets are made by


def offsets(graph: Graph) -> Graph:
    """The graph with products of integers without offsets."""
    return rewrite(graph, _without)


def _without(n: Node) -> Edge | None:
    """A sum of products of integers as one without offsets, and what they add up to; None of any other node."""
    product = n.args[0].node if n.op is Op.SUM_REDUCE and n.dtype is i32 else None
    if product is None or product.op is not Op.MUL or n.args != (edge(product),):
        return None
    if not all(_is_of_bytes(_split(e, n)[0]) for e in product.args):
        return None
    for x, other in (product.args, product.args[::-1]):
        rest, offset = _split(x, n)
        if offset is not None:
            first = reduce(Op.SUM_REDUCE, edge(binary(Op.MUL, rest, other)), axes_of(n))
            left = _without(first) or edge(first)
            return edge(binary(Op.ADD, left, edge(binary(Op.MUL, _sum(n, other), offset))))
    return None


def _split(e: Edge, n: Node) -> tuple[Edge, Edge | None]:
    """What an operand of a sum of products shows, and what is added to all that one sum adds up, as the sum is seen.

    Nothing is added if it varies with what the sum is over.
    """
    if e.node.op is not Op.ADD or e.view.valid:
        return e, None
    for x, c in (e.node.args, e.node.args[::-1]):
        view = compose(e.view, x.view, x.node.shape)
        of_c = compose(e.view, c.view, c.node.shape)
        shown = None if of_c is None else shared(Edge(c.node, of_c), n)
        if view is not None and x.node.op is not Op.CONST and shown is not None:
            return Edge(x.node, view), shown
    return e, None


def shared(e: Edge, n: Node) -> Edge | None:
    """What an operand shows in each element of the sum; None if that varies with what the sum is over."""
    if e.view.rank != n.args[0].view.rank or e.view.valid:
        return None
    if not e.view.axes & {positions(e.shape)[d] for d in axes_of(n)}:
        return Edge(e.node, _looked(e.view, n.shape, _shown(n)))
    if e.node.op not in EACH:
        return None
    args: list[Edge] = []
    for a in e.node.args:
        view = compose(e.view, a.view, a.node.shape)
        found = None if view is None else shared(Edge(a.node, view), n)
        if found is None:
            return None
        args.append(found)
    return edge(rebuild(e.node, tuple(args)))


def _is_of_bytes(e: Edge) -> bool:
    """Whether it shows integers of 8 bits in 32."""
    source = e.node.args[0] if e.node.op is Op.CONTIGUOUS else None
    return source is not None and e.dtype is i32 and source.dtype in (i8, u8)


@dataclass(frozen=True)
class Alone:
    """An operand over the dimensions of a product that it varies with, and those of the sum, which are `gone`.

    `in_product`: how the product sees a value of this shape; `in_sum`: how the sum sees one without what is gone.
    """

    operand: Edge
    gone: tuple[int, ...]
    in_product: View
    in_sum: View

    @staticmethod
    def of(e: Edge, n: Node) -> Alone:
        gone, along = axes_of(n), positions(e.shape)
        kept = [d for d, a in enumerate(along) if d in gone or a in e.view.axes]
        shape = tuple(e.shape[d] for d in kept)
        at, there, shown = (
            dict(zip(kept, coordinates(shape), strict=True)),
            coordinates(e.shape),
            _shown(n),
        )
        return Alone(
            Edge(e.node, _looked(e.view, shape, at)),
            tuple(kept.index(d) for d in gone),
            View(e.shape, tuple(there[d] for d in kept)),
            View(n.shape, tuple(shown[d] for d in kept if d not in gone)),
        )


def _sum(n: Node, other: Edge) -> Edge:
    """The sum of an operand by itself, taken once for what it varies with, as the sum of products is seen."""
    alone = Alone.of(other, n)
    return Edge(reduce(Op.SUM_REDUCE, alone.operand, alone.gone), alone.in_sum)


def _shown(n: Node) -> dict[int, Ix]:
    """The dimensions of what a sum is of that it keeps, as positions of its own."""
    gone, rank = axes_of(n), n.args[0].view.rank
    return dict(zip([d for d in range(rank) if d not in gone], coordinates(n.shape), strict=True))


def _looked(view: View, shape: tuple[Ix, ...], at: dict[int, Ix]) -> View:
    """The view over another shape, whose positions stand for those of its own that are given; others are 0."""
    index, valid = view.at(tuple(at.get(d, ix(0)) for d in range(view.rank)))
    return View(shape, index, valid, view.fill)
