"""rewriting: a model over the programs that the algebra has found for its blocks.

Before: a traced model, with or without its weights.  After: the same entries, with blocks exchanged for cheaper ones
that are equal, as far as the user's numerics allow. With weights at hand, what is made of them alone becomes a weight
of its own, computed now; the model then has other weights than its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.algebra.answer import Answer
from lumigen.algebra.blocks import blocks
from lumigen.algebra.extract import EqualProgram
from lumigen.algebra.named import Named
from lumigen.algebra.terms import Block
from lumigen.algebra.written import written
from lumigen.errors import SourceLocation
from lumigen.frontend import Traced
from lumigen.frontend.model import WeightSpec
from lumigen.graph import (
    Edge,
    Graph,
    Node,
    contiguous,
    edge,
    rebuild,
    source,
    tensor_of,
    toposort,
)
from lumigen.interp.graph import evaluate
from lumigen.lower import GRAPH_PASSES
from lumigen.model_weights import source_of
from lumigen.ops import Op
from lumigen.passes import Entries
from lumigen.verify.graph import verify
from lumigen.view import compose
from lumigen.weights import Weights, fitted

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
ONCE = "weights_made_once"  # beside the names of rules


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
    weights: Weights | Arrays | None
    rules: Mapping[str, int]
    gain: float


def rewritten(
    parts: ModelBlocks, found: Sequence[Answer | None], weights: Weights | Arrays | None
) -> Rewritten | None:
    """The model with the programs that were found; None where there are none."""
    by_block = dict(zip(parts.distinct, found, strict=True))
    fired: Counter[str] = Counter()
    before = after = 0.0
    for each in (b for of in parts.named for b in of):
        said = by_block[each.block]
        if said is None:
            continue
        before += said.before
        after += said.before if said.program is None else said.program.cost
        fired.update(said.rules)
        fired.update([ONCE] if said.program is not None and said.program.once else [])
    if not fired:
        return None
    made = _FoldedNames()
    entries = tuple(
        (name, verify(_over(g, of, by_block, made), "algebra"))
        for (name, g), of in zip(parts.entries, parts.named, strict=True)
    )
    traced = replace(parts.traced, entries=entries)
    specs = {w.name: w for w in (*parts.traced.weights, *made.specs())}
    read = {tensor_of(n).name for _, g in entries for n in g.weights()}
    traced = replace(traced, weights=tuple(w for name, w in specs.items() if name in read))
    arrays = None if weights is None else made.arrays(traced, weights)
    return Rewritten(traced, arrays, dict(sorted(fired.items())), after / before)


class _FoldedNames:
    """Weights that are made of others, each once; by its value, which is a node of a graph."""

    def __init__(self) -> None:
        self.names: dict[Edge, str] = {}

    def weight(self, value: Edge) -> Edge:
        """The weight that stands for a value."""
        if value not in self.names:
            of = [tensor_of(n).name for n in toposort([value.node]) if n.op is Op.WEIGHT]
            base = f"{of[0]}.folded"
            taken = sum(name.startswith(base) for name in self.names.values())
            self.names[value] = f"{base}{taken or ''}"
        return edge(source(Op.WEIGHT, self.names[value], value.shape, value.dtype))

    def specs(self) -> list[WeightSpec]:
        return [
            WeightSpec(name, tuple(e.const for e in value.shape), value.dtype)
            for value, name in self.names.items()
        ]

    def arrays(self, traced: Traced, weights: Weights | Arrays) -> Folded:
        """All weights that the model reads, of which some are made of these."""
        values = {name: value for value, name in self.names.items()}
        return Folded(tuple(w.name for w in traced.weights), values, weights)


@dataclass(frozen=True, eq=False)
class Folded(Mapping[str, Array]):
    """Weights by name, each made when it is asked for: computed in f64 of others, and rounded once."""

    names: tuple[str, ...]
    made: Mapping[str, Edge]
    of: Weights | Arrays

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise KeyError(name)
        value = self.made.get(name)
        if value is None:
            return np.asarray(self.of[name])
        read = [n for n in toposort([value.node]) if n.op is Op.WEIGHT]
        given = {tensor_of(n).name: _fitted(n, self.of) for n in read}
        return evaluate(Graph((), ((name, value),)), {}, given)[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _fitted(n: Node, weights: Weights | Arrays) -> Array:
    name = tensor_of(n).name
    shape = tuple(e.const for e in n.shape)
    return fitted(np.asarray(weights[name]), name, n.dtype, shape, source_of(weights))


def _over(
    graph: Graph, named: Sequence[Named], found: Mapping[Block, Answer | None], made: _FoldedNames
) -> Graph:
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
        program: EqualProgram = said.program

        def once(i: int, value: Edge, program: EqualProgram = program) -> Edge:
            return made.weight(value) if i in program.once else value

        values = written(of, program.terms, program.roots, now, once)
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
