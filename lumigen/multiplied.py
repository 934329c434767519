"""multiplied: by what an entry multiplies the elements of its weights, as sums of squares beside its outputs.

Before: an entry.  After: the same with an output more for each product with one of these weights:

    y[m, n] = sum over k of x[m, k] weight[n, k]     squares[k] = sum over m of x[m, k] ** 2

An element that is d from what it was moves y by d x[m, k], so all of y by d ** 2 squares[k], in the sum of squares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import f32
from lumigen.graph import Edge, Graph, Node, binary, contiguous, edge, reduce, tensor_of
from lumigen.index import Axis, ix
from lumigen.interp.read import grid
from lumigen.lower.canonicalize import canonicalize
from lumigen.ops import Op
from lumigen.view import Shape, View, compose, coordinates, positions

Array = npt.NDArray[Any]

MOVING = (Op.INPUT, Op.STATE, Op.RANDOM)  # what differs from run to run


@dataclass(frozen=True)
class Squares:
    """What a product multiplies a weight by: an output that has the sums of squares over `kept` dimensions of it.

    `view` is how the product sees the weight, of shape `shape`.
    """

    weight: str
    shape: tuple[int, ...]
    output: str
    view: View
    kept: tuple[int, ...]

    def at_elements(self, squares: Array) -> Array:
        """Those of the elements of the weight, in f64: of its shape, 1 where they are the same along a dimension."""
        along = positions(self.view.shape)
        own = {along[d] for d in self.kept}
        varied = [d for d, e in enumerate(self.view.index) if e.axes & own]
        seen = own.union(*(self.view.index[d].axes for d in varied))
        dims = [d for d, a in enumerate(along) if a in seen]
        at = grid([along[d] for d in dims], [self.view.shape[d].const for d in dims])
        spread = squares.reshape([self.view.shape[d].const if d in self.kept else 1 for d in dims])
        found = np.zeros([n if d in varied else 1 for d, n in enumerate(self.shape)])
        index = [
            np.asarray(e.evaluate(at)) if d in varied else np.zeros((), np.int64)
            for d, e in enumerate(self.view.index)
        ]
        np.add.at(found, tuple(index), spread.astype(np.float64))
        return found


def with_squares(graph: Graph, weights: Collection[str]) -> tuple[Graph, tuple[Squares, ...]]:
    """The graph with outputs more: of each product of one of these weights with what differs from run to run.

    Left out are products whose other factor is the same along the weight's last dimension, or chooses its elements, or
    is of a size that runs decide; and those in the body of a loop.
    """
    graph = canonicalize(graph)
    taken = {name for name, _ in graph.outputs}
    names = (name for i in count() if (name := f"squares{i}") not in taken)
    outputs: list[tuple[str, Edge]] = []
    found: list[Squares] = []
    for factor, weight in _products(graph, weights):
        along = positions(weight.shape)
        own = [d for d, a in enumerate(along) if a in _axes(factor.view)]
        kept = tuple(d for d in own if any(along[d] in e.axes for e in weight.view.index))
        sizes = {d for d, a in enumerate(along) if any(a in e.axes for e in weight.view.index)}
        is_along = any(along[d] in weight.view.index[-1].axes for d in kept)
        if not is_along or not all(weight.shape[d].is_const for d in sizes):
            continue
        name = next(names)
        outputs.append((name, _summed(factor, own, kept)))
        shape = tuple(e.const for e in weight.node.shape)
        found.append(Squares(tensor_of(weight.node).name, shape, name, weight.view, kept))
    return replace(graph, outputs=(*graph.outputs, *outputs)), tuple(found)


def total(squares: Collection[Squares], outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The sums of squares that the elements of each weight are multiplied by, in all products with it."""
    out: dict[str, Array] = {}
    for each in squares:
        here = each.at_elements(outputs[each.output])
        out[each.weight] = out[each.weight] + here if each.weight in out else here
    return out


def _products(graph: Graph, weights: Collection[str]) -> Iterator[tuple[Edge, Edge]]:
    """(what multiplies, the weight as the product sees it)."""
    moving: set[Node] = set()
    for n in graph.nodes():
        if n.op in MOVING or any(a.node in moving for a in n.args):
            moving.add(n)
        if n.op is not Op.MUL or not all(a.dtype.is_float for a in n.args):
            continue
        for x, w in (n.args, n.args[::-1]):
            weight = _weight(w)
            if weight and tensor_of(weight.node).name in weights and x.node in moving:
                yield x, weight


def _weight(e: Edge) -> Edge | None:
    """A weight behind casts; None where something else is there, or a product sees more than the weight."""
    while e.node.op is Op.CONTIGUOUS:
        x = e.node.args[0]
        view = compose(e.view, x.view, x.node.shape)
        if view is None:
            return None
        e = Edge(x.node, view)
    return e if e.node.op is Op.WEIGHT and not e.view.valid else None


def _summed(e: Edge, own: list[int], kept: tuple[int, ...]) -> Edge:
    """The sums of squares of what is seen, over all dimensions that it varies with but those that are kept."""
    shape: Shape = tuple(e.shape[d] for d in own)
    at = dict(zip(own, coordinates(shape), strict=True))
    index, valid = e.view.at(tuple(at.get(d, ix(0)) for d in range(e.view.rank)))
    seen = edge(contiguous(Edge(e.node, View(shape, index, valid, e.view.fill)), f32))
    squares = edge(binary(Op.MUL, seen, seen))
    gone = [i for i, d in enumerate(own) if d not in kept]
    return edge(reduce(Op.SUM_REDUCE, squares, gone)) if gone else squares


def _axes(view: View) -> frozenset[Axis]:
    return frozenset[Axis]().union(
        *(i.axes for i in view.index), *(c.slack.axes for c in view.valid)
    )
