"""drawn: which integers an input is given beside its original, as its graph tells.

An input that places of a table, or the kinds of a weight, are compared with for equality is drawn from all of them:
so are ids of an embedding, indices, and what is encoded as one of several. What a graph says nothing of is drawn from
the two least of its range, which suit masks, flags and counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lumigen.emit.contract import test_range
from lumigen.graph import Edge, Graph, Node, literal_of, tensor_of
from lumigen.interp.graph import ports
from lumigen.ops import Op
from lumigen.program import Port
from lumigen.weights import Array

Bounds = tuple[int, int]


def drawn(graph: Graph, weights: Mapping[str, Array]) -> dict[str, Bounds]:
    """The least and the greatest integer of each input, by its name; `weights` are those that the graph reads."""
    kinds: dict[str, list[Bounds]] = {}
    for known, other in _equal(graph):
        bounds = _bounds(known, weights)
        if bounds is None:
            continue
        found: dict[str, list[Bounds]] = {}
        for name, more in _inputs(other):
            found.setdefault(name, []).append((bounds[0] - more, bounds[1] - more))
        for name, ways in found.items():  # negative ones count from the end: a way of their own
            kinds.setdefault(name, []).append(max(ways))
    return {p.name: _chosen(p, kinds.get(p.name, [])) for p in ports(graph)}


def _chosen(port: Port, kinds: list[Bounds]) -> Bounds:
    lo, hi = test_range(port)
    if kinds and port.bounds is None:
        held = np.iinfo(port.dtype.numpy)
        least = max(int(held.min), *(a for a, _ in kinds))
        greatest = min(int(held.max), *(b for _, b in kinds))
        if least <= greatest:
            return least, greatest
    return lo, min(lo + 1, hi)


def _equal(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """(a, b) of integers that are each compared whether they are below the other."""
    pairs = {n.args for n in graph.nodes() if n.op is Op.LESS_THAN and n.args[0].dtype.is_int}
    yield from ((a.node, b.node) for a, b in pairs if (b, a) in pairs)


def _bounds(n: Node, weights: Mapping[str, Array]) -> Bounds | None:
    """The least and the greatest of several known integers."""
    if n.op is Op.IOTA:
        least, _ = n.shape[0].bounds()  # places that are there at all sizes
        return (0, least - 1) if least else None
    if n.op is not Op.WEIGHT:
        return None
    array = weights[tensor_of(n).name]
    return (int(np.min(array)), int(np.max(array))) if array.size > 1 else None


def _inputs(n: Node) -> Iterator[tuple[str, int]]:
    """Inputs that a value is, with what constants add to them; a choice is one or the other."""
    todo: list[tuple[Node, int]] = [(n, 0)]
    done: set[tuple[Node, int]] = set()
    while todo:
        at = todo.pop()
        if at in done:
            continue
        done.add(at)
        node, more = at
        if node.op is Op.INPUT:
            yield tensor_of(node).name, more
        elif node.op is Op.CONTIGUOUS and node.args[0].dtype.is_int:
            todo.append((node.args[0].node, more))
        elif node.op is Op.ADD:
            todo += _of_sum(node.args, more)


def _of_sum(args: tuple[Edge, ...], more: int) -> list[tuple[Node, int]]:
    a, b = args
    for x, c in ((a, b), (b, a)):
        if c.node.op is Op.CONST and not c.view.valid:
            return [(x.node, more + int(literal_of(c.node)))]
    one, other = _selected(a), _selected(b)
    return [] if one is None or other is None else [(one, more), (other, more)]


def _selected(e: Edge) -> Node | None:
    """What a condition chooses, and zero else."""
    if e.node.op is not Op.MUL:
        return None
    for condition, x in (e.node.args, e.node.args[::-1]):
        if condition.dtype.is_bool and x.dtype.is_int:
            return x.node
    return None
