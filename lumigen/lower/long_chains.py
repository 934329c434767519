"""long_chains: where to store something of a value that is made of too much.

A step of a long chain that reads memory at what the step before has given is written as a sum over a comparison, which
has a point for each element that might be read. What is stored there would be as many times as large. And where two
steps read the same one before them, to store one of them leaves the chain to the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from lumigen.graph import Node
from lumigen.lower.contractions import volume_of
from lumigen.lower.cut_graph import CutGraph
from lumigen.ops import SOURCES

LEFT = (
    0.75  # of what the value is made of: what it may still be made of, if something in it is stored
)
DEEP = 16  # steps from memory: fewer are computed again


def stored_of_chain(g: CutGraph, n: Node) -> Node:
    """The value itself, or what it is made of: the smallest, then that of which least else is read, then the last."""
    inside = g.inside(n)

    def cost(x: Node) -> tuple[int, int, int]:
        return volume_of(x.shape) * x.dtype.itemsize, _read_elsewhere(g, x), -g.number[x]

    candidates = (x for x in inside if x.op not in SOURCES and x not in g.cut)
    return min((x for x in candidates if x is n or _shortens(g, n, x, len(inside))), key=cost)


def _shortens(g: CutGraph, n: Node, x: Node, whole: int) -> bool:
    return len(g.inside(n, x)) <= LEFT * whole


def _read_elsewhere(g: CutGraph, x: Node) -> int:
    """How many values on the way to one are read by others too, those near to memory aside."""
    own = set(g.inside(x))
    return sum(_is_read(g, y, own) for y in own if y is not x and g.sizes.depth[y] > DEEP)


def _is_read(g: CutGraph, y: Node, own: Iterable[Node]) -> bool:
    return any(user not in own for user in g.users[y])
