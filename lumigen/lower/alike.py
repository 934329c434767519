"""alike: regions of one graph that compute the same on other buffers, as those of equal layers do.

A form says what regions compute without names, and is made of the graph: no expression is written down for it. So what
is asked of a region is asked once of all that are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lumigen.graph import Node
from lumigen.ops import Op

if TYPE_CHECKING:
    from lumigen.lower.cut_graph import CutGraph

Form = tuple[tuple[int, ...], ...]


@dataclass
class Alike:
    """What is known of the forms of a graph, however it is cut."""

    kinds: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    of_nodes: dict[tuple[Node, bool], int] = field(default_factory=dict[tuple[Node, bool], int])
    answers: dict[tuple[Callable[..., Any], Form], Any] = field(
        default_factory=dict[tuple[Callable[..., Any], Form], Any]
    )

    def kind(self, g: CutGraph, n: Node, *, is_computed: bool) -> int:
        """The number of what a node is, apart from its operands: of its place where it is read."""
        if (n, is_computed) not in self.of_nodes:
            key = _computed(n) if is_computed else _read(g, n)
            self.of_nodes[n, is_computed] = self.kinds.setdefault(key, len(self.kinds))
        return self.of_nodes[n, is_computed]


def _computed(n: Node) -> Hashable:
    return n.op, n.attr, n.shape, n.dtype, tuple(e.view for e in n.args)


def _read(g: CutGraph, n: Node) -> Hashable:
    if n in g.given or n.op in (Op.CONST, Op.IOTA):
        return n
    place = g.place(n)
    b = place.buffer
    held = b.role, b.dims, b.dtype, b.range
    return held, place.before, place.axis, place.skipped, n in g.loops


def form_of(g: CutGraph, root: Node) -> Form:
    """What the region of a node computes, as the graph is cut so far; the same for equal ones over other buffers.

    Nodes have the numbers in which they are met: what is shared differs from what is alike.
    """
    numbers: dict[Node, int] = {}
    out: list[tuple[int, ...]] = [(g.alike.kind(g, root, is_computed=False),)]
    stack, seen = [root], set[Node]()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        is_computed = n is root or g.is_inlined(n)
        inner = [e.node for e in n.args] if is_computed else []
        places = (numbers.setdefault(a, len(numbers)) for a in (n, *inner))
        out.append((g.alike.kind(g, n, is_computed=is_computed), *places))
        stack += inner
    return tuple(out)
