"""soundness: what a file must be before its graph is walked: each name made once, and no more nodes than are visited.

Promises that a file which is refused here costs a walk over its own nodes, however often functions would repeat them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from lumigen.importers.onnx.node import domain_of

Functions = Mapping[tuple[str, str], Any]


def repeated(proto: Any) -> str:
    """Why the names of a model's graphs are not made once, as a clause; empty where they are."""
    todo: list[Any] = [proto.graph, *proto.functions]
    while todo:
        graph = todo.pop()
        is_function = not hasattr(graph, "initializer")
        inputs = list(graph.input) if is_function else [i.name for i in graph.input]
        stored = [] if is_function else _stored(graph)
        for names, what in ((inputs, "inputs"), (stored, "initialisers")):
            for name, count in Counter(names).items():
                if count > 1:
                    return f"it has {count} {what} of the name {name[:60]!r}"
        todo += (g for node in graph.node for g in graphs_of(node))
    return ""


def _stored(graph: Any) -> list[str]:
    return [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]


def graphs_of(node: Any) -> Iterator[Any]:
    """The graphs that stand in the attributes of a node."""
    for a in node.attribute:
        yield from a.graphs
        if a.HasField("g"):
            yield a.g


def nodes_within(
    node: Any, versions: Mapping[str, int], functions: Functions
) -> Iterator[tuple[Any, Mapping[str, int]]]:
    """The node, those of graphs in its attributes and of functions that are called, each with its operator sets."""
    todo, called = [(node, versions)], set[tuple[str, str]]()
    while todo:
        one, versions = todo.pop()
        yield one, versions
        todo += ((n, versions) for g in graphs_of(one) for n in g.node)
        key = domain_of(one), str(one.op_type)
        if key in functions and key not in called:
            called.add(key)
            own = {domain_of(o): int(o.version) for o in functions[key].opset_import}
            todo += ((n, {**versions, **own}) for n in functions[key].node)


def least_steps(graph: Any, functions: Functions, deepest: int) -> int:
    """How many nodes a walk visits at least: those of a function at each call, of branches one, of a loop once."""
    known: dict[tuple[str, str], int] = {}

    def of_function(key: tuple[str, str], depth: int) -> int:
        if key not in known and depth < deepest:
            known[key] = 0  # of one that calls itself, which the walk refuses
            known[key] = of_nodes(functions[key], depth + 1)
        return known.get(key, 0)

    def of_nodes(part: Any, depth: int) -> int:
        count = 0
        for node in part.node:
            key = domain_of(node), str(node.op_type)
            count += 1 + (of_function(key, depth) if key in functions else 0)
            if depth < deepest:
                count += max((of_nodes(g, depth + 1) for g in graphs_of(node)), default=0)
        return count

    return of_nodes(graph, 0)
