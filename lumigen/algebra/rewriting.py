"""rewriting: a model over the programs that the algebra has found for its blocks.

Before: a traced model.  After: the same entries over the same weights, with blocks exchanged for cheaper ones that are
equal. What a cheaper one makes of weights alone is made when the model is opened (`lower.prepare`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy.typing as npt

from lumigen.algebra.answer import Answer
from lumigen.algebra.blocks import blocks
from lumigen.algebra.named import Named
from lumigen.algebra.terms import Block
from lumigen.algebra.windows import NAME, fewer_products
from lumigen.algebra.written import written
from lumigen.errors import SourceLocation
from lumigen.frontend import Traced
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    contiguous,
    edge,
    rebuild,
)
from lumigen.lower import GRAPH_PASSES
from lumigen.machine import Steps
from lumigen.passes import Entries
from lumigen.verify.graph import verify
from lumigen.view import compose

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class ModelBlocks:
    """A model as it is searched: its entries in normal form, and their blocks, each that is not like one before."""

    traced: Traced
    entries: Entries
    named: tuple[tuple[Named, ...], ...]
    distinct: tuple[Block, ...]

    @staticmethod
    def of(traced: Traced) -> ModelBlocks:
        entries = tuple(
            (name, reduce(lambda g, step: step(g), GRAPH_PASSES, g)) for name, g in traced.entries
        )
        each = tuple(tuple(blocks(g)) for _, g in entries)
        return ModelBlocks(
            traced, entries, each, tuple(dict.fromkeys(b.block for of in each for b in of))
        )


@dataclass(frozen=True)
class Rewritten:
    """A model with other programs for its blocks: by rule how many blocks it has changed.

    `gain` is how much of the time of all blocks is left, as estimated.
    """

    traced: Traced
    rules: Mapping[str, int]
    gain: float


def rewritten(
    model: ModelBlocks, found: Sequence[Answer | None], windows: Steps | None = None
) -> Rewritten | None:
    """The model with the programs that were found; None where there are none.

    With the steps of a machine, `windows` are computed by fewer products, where that takes fewer of them.
    """
    by_block = dict(zip(model.distinct, found, strict=True))
    fired: Counter[str] = Counter()
    before = after = took = saved = 0.0
    for each in (b for of in model.named for b in of):
        said = by_block[each.block]
        if said is None:
            continue
        before += said.before
        after += said.before if said.program is None else said.program.cost
        fired.update(said.rules)
    entries: list[tuple[str, Graph]] = []
    for (name, g), of in zip(model.entries, model.named, strict=True):
        out = _over(g, of, by_block)
        if windows is not None:
            fewer = fewer_products(out, windows)
            out, took, saved = fewer.graph, took + fewer.took, saved + fewer.saved
            fired.update({NAME: fewer.sums} if fewer.sums else {})
        entries.append((name, verify(out, "algebra")))
    if not fired:
        return None
    gain = after / before if before else 1.0
    if saved:  # also of sums that no block has, as those in the steps of a scan
        gain *= 1 - saved / max(before, took)
    return Rewritten(
        replace(model.traced, entries=tuple(entries)), dict(sorted(fired.items())), gain
    )


def _over(graph: Graph, named: Sequence[Named], found: Mapping[Block, Answer | None]) -> Graph:
    """The graph over the programs of its blocks; nodes that they do not change are the same."""
    done: dict[Node, Edge] = {}

    def now(n: Node) -> Edge:
        """What stands for a node: what a block gives, or the same op on what stands for its operands."""
        stack = [n]
        while stack:
            m = stack[-1]
            lacking = [a.node for a in m.args if a.node not in done] if m not in done else []
            stack.extend(lacking)
            if not lacking:
                stack.pop()
                if m not in done:
                    done[m] = edge(rebuild(m, tuple(_seen(a, done[a.node]) for a in m.args)))
        return done[n]

    for of in named:
        said = found[of.block]
        if said is None or said.program is None:
            continue
        values = written(of, said.program.terms, said.program.roots, now)
        done.update((n, e) for (n, _), e in zip(of.roots, values, strict=True))
    outputs = tuple((name, _seen(e, now(e.node))) for name, e in graph.outputs)
    updates = tuple((state, _seen(e, now(e.node))) for state, e in graph.updates)
    lines: dict[Node, tuple[SourceLocation, ...]] = {}
    names: dict[Node, str] = {}
    for old, new in done.items():
        lines[new.node] = (*lines.get(new.node, ()), *graph.lines.get(old, ()))
        if old in graph.names:
            names.setdefault(new.node, graph.names[old])
    out = Graph(graph.inputs, outputs, updates)
    kept = {n: tuple(dict.fromkeys(lines[n])) for n in out.nodes() if lines.get(n)}
    return replace(out, lines=kept, names={n: names[n] for n in out.nodes() if n in names})


def _seen(e: Edge, new: Edge) -> Edge:
    """An edge of the old graph in the new one."""
    view = compose(e.view, new.view, new.node.shape)
    return Edge(contiguous(new), e.view) if view is None else Edge(new.node, view)
