"""blocks: a graph in parts that are searched one by one; layers that are alike are alike as blocks.

A block ends where all that is left of reductions is one value that several nodes read, as the residual stream between
two layers is, and where it would be too long. Masks, positions and tables, which are maps, do not count: every layer
reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lumigen.algebra.named import Named, is_named, named
from lumigen.algebra.terms import REDUCED
from lumigen.graph import Graph, Node
from lumigen.ops import Op

LONGEST = 80  # nodes of a block: half a block of a transformer has some fifty; the time grows with the square
LEAST = 12  # nodes of a block that ends before: a norm and the product after it belong together


@dataclass(frozen=True)
class _Uses:
    """Which nodes read a node, and whether it leaves the graph."""

    users: dict[Node, list[Node]]
    outside: frozenset[Node]

    @staticmethod
    def of(graph: Graph, order: Sequence[Node]) -> _Uses:
        users: dict[Node, list[Node]] = {}
        for n in order:
            for m in dict.fromkeys(e.node for e in n.args):
                users.setdefault(m, []).append(n)
        return _Uses(users, frozenset(e.node for e in graph.roots()))


def fixed_nodes(order: Sequence[Node]) -> frozenset[Node]:
    """What is made of weights and constants alone."""
    out: set[Node] = set()
    for n in order:
        is_given = n.op in {Op.WEIGHT, Op.CONST, Op.IOTA}
        if is_given or (is_named(n) and all(e.node in out for e in n.args)):
            out.add(n)
    return frozenset(out)


def blocks(graph: Graph) -> Iterator[Named]:
    """The blocks of a graph, in order; between them are nodes that no rule knows."""
    order = [*graph.nodes()]
    uses, fixed = _Uses.of(graph, order), fixed_nodes(order)
    for part in _parts(order, uses):
        inside = frozenset(part)
        roots = [
            n
            for n in part
            if n in uses.outside or any(m not in inside for m in uses.users.get(n, ()))
        ]
        if roots:
            yield named(part, roots, fixed)


def _parts(order: Sequence[Node], uses: _Uses) -> Iterator[list[Node]]:
    made = _reduced(order)
    last = {n: i for i, n in enumerate(order) for n in [*(e.node for e in n.args)]}
    part: list[Node] = []
    alive: set[Node] = set()
    for i, n in enumerate(order):
        alive = {m for m in alive if last.get(m, -1) > i}
        if n in made and last.get(n, -1) > i:
            alive.add(n)
        if is_named(n):
            part.append(n)
        is_stream = alive == {n} and len(uses.users[n]) > 1 and len(part) >= LEAST
        if part and (is_stream or len(part) >= LONGEST or not (is_named(n) or not n.args)):
            yield part
            part = []
    if part:
        yield part


def _reduced(order: Sequence[Node]) -> frozenset[Node]:
    """What a reduction is in."""
    out: set[Node] = set()
    for n in order:
        if n.op in REDUCED or any(e.node in out for e in n.args):
            out.add(n)
    return frozenset(out)
