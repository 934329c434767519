"""leaves: what a tensor depends on: numbers alone can be computed while a model is imported."""

from __future__ import annotations

from lumigen.graph import Graph, tensor_of
from lumigen.index import Dim
from lumigen.ops import Op


def leaves(graph: Graph) -> tuple[list[str], list[str]]:
    """The inputs and the symbolic sizes that a graph depends on."""
    nodes = list(graph.nodes())
    edges = (*graph.roots(), *(a for n in nodes for a in n.args))
    shown = {e for a in edges for e in (*a.view.shape, *a.view.index)}
    atoms = {atom for e in shown | {e for n in nodes for e in n.shape} for atom in e.atoms()}
    inputs = {tensor_of(n).name for n in nodes if n.op in (Op.INPUT, Op.STATE)}
    return sorted(inputs), sorted({a.name for a in atoms if isinstance(a, Dim)})
