"""prepare: what follows from weights alone is computed once, when a model is opened.

Before: any graphs.  After: values that cost more than a multiplication for each element and that weights alone decide
are weights themselves, made by a graph of their own: the factor of a batch norm, the rows of a weight norm. So is
what several weights decide of a factor of products. What is
much larger than the weights that it is made of, such as a table of small integers, is not kept: those are read faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from lumigen.graph import Edge, Graph, Node, binary, edge, rebuild, source, tensor_of
from lumigen.index import Dim
from lumigen.names import numbered
from lumigen.ops import Op
from lumigen.view import View, identity

WORTH = frozenset((Op.LOG2, Op.EXP2, Op.SIN, Op.SQRT, Op.RECIP, Op.SUM_REDUCE, Op.MAX_REDUCE))
Entries = tuple[tuple[str, Graph], ...]
NOT_MADE = frozenset((Op.INPUT, Op.STATE, Op.RANDOM, Op.SCAN, Op.NATIVE))
OPENING = "model_open"  # what made weights are computed by; no entry of a user's can be called so
MOST = 2  # times the bytes of the weights: f32 of f16


@dataclass(frozen=True)
class Prepared:
    """The entries over weights that `made` computes: its outputs are called as the weights are."""

    entries: Entries
    made: Graph | None


def prepare(entries: Entries) -> Prepared:
    """The entries without what follows from weights alone, and the graph of that."""
    facts: dict[Node, _Fact] = {}
    entries = tuple((name, _together(g, facts)) for name, g in entries)
    chosen = list(dict.fromkeys(n for _, g in entries for n in _chosen(g, facts)))
    if not chosen:
        return Prepared(entries, None)
    taken = {tensor_of(n).name for _, g in entries for n in g.weights()}
    made: dict[Node, Node] = {}
    for n in chosen:
        first = min(tensor_of(w).name for w in facts[n].weights)
        name = numbered(f"{first}.prepared", taken)
        taken.add(name)
        made[n] = source(Op.WEIGHT, name, n.shape, n.dtype)
    lines = {n: found for _, g in entries for n, found in g.lines.items()}
    outputs = tuple((tensor_of(w).name, edge(n)) for n, w in made.items())
    return Prepared(
        tuple((name, _over(g, made)) for name, g in entries), Graph((), outputs, lines=lines)
    )


@dataclass(frozen=True)
class _Fact:
    """Of a value that weights and constants alone decide: the weights, and whether it is worth to keep it."""

    weights: frozenset[Node]
    is_worth: bool


_Facts = dict[Node, _Fact]


def _fact_of(n: Node, facts: _Facts, *, is_worth: bool = False) -> None:
    """Notes a value whose operands are noted."""
    if n in facts or n.op in NOT_MADE or not all(e.is_const for e in n.shape):
        return
    if n.op is Op.WEIGHT:
        facts[n] = _Fact(frozenset((n,)), False)
    elif all(e.node in facts and not _has_dims(e) for e in n.args):
        of = [facts[e.node] for e in n.args]
        weights = frozenset[Node]().union(*(f.weights for f in of))
        worth = is_worth or n.op in WORTH or any(f.is_worth for f in of)
        facts[n] = _Fact(weights, worth)


def _together(graph: Graph, facts: _Facts) -> Graph:
    """The graph with `x * a * b` as `x * (a * b)` where a and b follow from weights; sums alike.

    Reassociates. It needs a and b to lie in the result alike, as the factors of a norm do. Notes all its values.
    """
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        new = rebuild(n, tuple(Edge(done[e.node], e.view) for e in n.args))
        found = _grouped(new, facts)
        if found is not None:
            value, ours, view = found
            _fact_of(ours, facts, is_worth=True)
            new = binary(n.op, value, Edge(ours, view))
        _fact_of(new, facts)
        done[n] = new
    return _with(graph, done)


def _grouped(n: Node, facts: _Facts) -> tuple[Edge, Node, View] | None:
    """x, a * b and how this lies in the result; None where the node is no such chain.

    A constant is left where it is: `x * a - x * a` is 0, as both are rounded alike.
    """
    if n.op not in (Op.ADD, Op.MUL) or not n.dtype.is_float or n in facts:
        return None
    for value, b in (n.args, n.args[::-1]):
        of = value.node
        if of.op is not n.op or not _is_of_weights(b, facts) or value.view != identity(of.shape):
            continue
        for x, a in (of.args, of.args[::-1]):
            alike = (a.view, a.node.shape, a.dtype) == (b.view, b.node.shape, b.dtype)
            if alike and a.dtype is n.dtype and _is_of_weights(a, facts) and x.node not in facts:
                return x, binary(n.op, edge(a.node), edge(b.node)), a.view
    return None


def _is_of_weights(e: Edge, facts: _Facts) -> bool:
    return e.node in facts and bool(facts[e.node].weights)


def _has_dims(e: Edge) -> bool:
    """Whether the view depends on the dims of a call."""
    every = (*e.view.shape, *e.view.index, *(c.slack for c in e.view.valid))
    return any(isinstance(a, Dim) for i in every for a in i.atoms())


def _chosen(graph: Graph, facts: _Facts) -> Iterator[Node]:
    """The last values that weights alone decide, or, where these are not kept, values that they are made of."""
    users = [n for n in graph.nodes() if n not in facts]
    factors = {n for m in users for n in _factors(m, facts)}
    stack = [e.node for n in users for e in n.args] + [e.node for e in graph.roots()]
    seen: set[Node] = set()
    stack.reverse()
    while stack:
        n = stack.pop()
        if n in seen or n not in facts or not (facts[n].is_worth or n in factors):
            continue
        seen.add(n)
        room = MOST * sum(map(_bytes, facts[n].weights))
        if _bytes(n) <= room and not _hides(n, facts):
            yield n
        else:
            stack += [e.node for e in reversed(n.args)]


def _factors(n: Node, facts: _Facts) -> Iterator[Node]:
    """Of a sum of products what several weights decide of a factor: each run would store it first."""
    of = n.args[0].node if n.op is Op.SUM_REDUCE else None
    for e in of.args if of is not None and of.op is Op.MUL else ():
        if e.node in facts and e.node.op in (Op.ADD, Op.MUL) and len(facts[e.node].weights) > 1:
            yield e.node


def _hides(n: Node, facts: _Facts) -> bool:
    """Whether conditions on positions choose what it is: a product with a mask leaves out where that is zero."""
    stack, seen = [n], set[Node]()  # terms may share terms
    while stack:
        term = stack.pop()
        if term in seen:
            continue
        seen.add(term)
        if term.op is Op.ADD:
            stack += [e.node for e in term.args]
        elif term.op is Op.MUL and any(
            e.dtype.is_bool and not facts[e.node].weights for e in term.args
        ):
            return True
    return False


def _bytes(n: Node) -> int:
    return prod(e.const for e in n.shape) * n.dtype.itemsize


def _over(graph: Graph, made: Mapping[Node, Node]) -> Graph:
    """The graph, with weights in the place of what was made."""
    done: dict[Node, Node] = {}
    for n in graph.nodes():
        done[n] = made.get(n) or rebuild(n, tuple(Edge(done[e.node], e.view) for e in n.args))
    return _with(graph, done)


def _with(graph: Graph, done: Mapping[Node, Node]) -> Graph:
    """The graph of what its nodes have become."""
    outputs = tuple((name, Edge(done[e.node], e.view)) for name, e in graph.outputs)
    updates = tuple((done.get(s, s), Edge(done[e.node], e.view)) for s, e in graph.updates)
    lines = {done[n]: found for n, found in graph.lines.items() if n in done}
    names = {done[n]: name for n, name in graph.names.items() if n in done}
    return Graph(graph.inputs, outputs, updates, lines, names)
