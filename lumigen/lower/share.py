"""share: counts of groups are read of the groups of the same rows, where these are needed as well.

Before: any graph.  After: no native kernel `starts` beside `groups` of the same rows, which a mean has that a model
writes as a sum over a count.
"""

from __future__ import annotations

from collections.abc import Mapping

from lumigen.graph import Edge, Graph, Kernel, Node
from lumigen.index import Ix
from lumigen.ops import Op
from lumigen.pattern import rewrite
from lumigen.view import slice_view

Grouped = Mapping[tuple[Edge, Ix], Node]  # by the rows, and how many counts stand ahead of places


def share(graph: Graph) -> Graph:
    """The graph with views of groups for their counts."""
    natives = [n for n in graph.nodes() if n.op is Op.NATIVE]
    grouped: Grouped = {
        (n.args[0], n.shape[-1] - n.args[0].shape[-1]): n
        for n in natives
        if isinstance(n.attr, Kernel) and n.attr.name == "groups"
    }
    return rewrite(graph, lambda n: _counts_of(n, grouped)) if grouped else graph


def _counts_of(n: Node, grouped: Grouped) -> Edge | None:
    if not isinstance(n.attr, Kernel) or n.attr.name != "starts":
        return None
    found = grouped.get((n.args[0], n.shape[-1]))
    if found is None:
        return None
    none, steps = tuple(0 for _ in n.shape), tuple(1 for _ in n.shape)
    return Edge(found, slice_view(found.shape, none, n.shape, steps))
