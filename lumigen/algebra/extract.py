"""extract: the cheapest program that an e-graph holds, by a roofline: what is computed and what is moved.

A value is computed once for each point that it varies with. Products and reductions are stored, and so is an operand
of a product that is computed of what a run is given; all else is computed where it is read. What is made of weights
alone may be made when the model is opened (`lower.prepare`): then it is only read. Which of two programs is faster on
a machine is measured; this says which are worth it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

from lumigen.algebra.egraph import Classes, ENode
from lumigen.algebra.terms import REDUCED, Axes, AxisTerm, Block, OuterValue, TermKind
from lumigen.dtype import BY_NAME
from lumigen.lower.prepare import MOST
from lumigen.machine import Steps
from lumigen.ops import Op

FUNCTIONS = frozenset(op.value for op in (Op.LOG2, Op.EXP2, Op.SIN, Op.SQRT, Op.RECIP))
PASSES = 6  # over all of a program, each of which has made it cheaper
STEPS = 1000  # rounds, each of which has made something cheaper; blocks are as deep as some fifty
ELEMENT = 4  # bytes that the steps of a machine count as one element that is moved

Costs = Mapping[str, float]  # of what a program computes and reads, each once


@dataclass(frozen=True)
class Prices:
    """What things take, in one unit of time: a step, a function and a term of a product; a byte that is moved.

    With `once`, what is made of weights alone is made when the model is opened.
    """

    step: float
    function: float
    product: float
    byte: float
    once: bool

    @staticmethod
    def of(steps: Steps | None, *, once: bool) -> Prices:
        """Those of a machine; where its row has none, proportions that choose what is worth measuring."""
        if steps is None:
            return Prices(1, 4, 1 / 8, 4, once)
        return Prices(steps.vector, steps.function, steps.product, steps.far / ELEMENT, once)


@dataclass(frozen=True)
class EqualProgram:
    """Terms that compute the roots of a block, and what they cost."""

    terms: tuple[AxisTerm, ...]
    roots: tuple[int, ...]
    cost: float


def as_it_is(block: Block) -> Classes:
    """A block of which nothing is known but itself: each term is a class."""
    names = [f"t{i}" for i in range(len(block.terms))]
    nodes: dict[str, tuple[ENode, ...]] = {}
    fixed: set[str] = set()
    types: dict[str, str] = {}
    for name, t in zip(names, block.terms, strict=True):
        args = tuple(names[a] for a in t.args)
        nodes[name] = (ENode(t.kind, args, t.label),)
        leaf = block.leaves[int(t.label)] if t.kind is TermKind.LEAF else None
        if leaf.is_fixed if leaf else all(a in fixed for a in args):
            fixed.add(name)
        types[name] = _type_of(t, leaf, [types[a] for a in args])
    free = dict(zip(names, block.free(), strict=True))
    roots = tuple(names[r] for r in block.roots)
    return Classes(nodes, free, types, frozenset(fixed), roots, is_saturated=True)


def _type_of(t: AxisTerm, leaf: OuterValue | None, args: list[str]) -> str:
    if leaf is not None:
        return leaf.dtype
    if t.kind is TermKind.NUM:
        return t.label.split(" ")[0]
    if t.kind is TermKind.LESS:
        return "bool"
    cast = t.label.partition(" ")[2] if t.kind is TermKind.MAP else ""
    return cast or args[-1]


def extracted(found: Classes, block: Block, prices: Prices) -> EqualProgram | None:
    """The cheapest program in the e-graph that is found; None if none is found that is no circle.

    Of each class the cheapest node by itself first, which counts what two of its users share for both, and the block
    as it is; from either one node after another is changed, as long as all of the program gets cheaper.
    """
    extraction = _Extraction(found, block, prices)
    greedy = extraction.greedy()
    starts = [greedy, greedy | extraction.own()]
    return extraction.program(min(map(extraction.improved, starts), key=extraction.cost))


@dataclass(frozen=True)
class Way:
    """A node of a class, or its value made once."""

    node: ENode
    is_made_once: bool = False


Ways = dict[str, Way]


class _Extraction:
    def __init__(self, found: Classes, block: Block, prices: Prices) -> None:
        self.found, self.block, self.prices = found, block, prices
        self.sizes = block.sized
        self.points = {c: self._points(axes) for c, axes in found.free.items()}
        self.kept = self._kept() if prices.once else frozenset[str]()

    def _kept(self) -> frozenset[str]:
        """The classes that are made once: of weights alone, and not much larger than those are."""
        of: dict[str, frozenset[str]] = {}  # the weights that each is made of
        fixed = {c: n for c, n in self.found.nodes.items() if c in self.found.fixed}
        while new := {
            c: found
            for c, nodes in fixed.items()
            if c not in of and (found := self._weights(nodes, of)) is not None
        }:
            of |= new
        return frozenset(c for c, names in of.items() if names and self._fits(c, names))

    def _weights(
        self, nodes: Sequence[ENode], of: Mapping[str, frozenset[str]]
    ) -> frozenset[str] | None:
        """Those that the first node is made of whose operands are known."""
        for n in nodes:
            if n.kind is TermKind.LEAF:
                is_read = self.block.leaves[int(n.label)].read > 0
                return frozenset({n.label} if is_read else ())
            if all(a in of for a in n.args):
                return frozenset[str]().union(*(of[a] for a in n.args))
        return None

    def _fits(self, c: str, names: frozenset[str]) -> bool:
        return self._bytes(c) <= MOST * sum(self.block.leaves[int(i)].read for i in names)

    def ways(self, c: str) -> list[Way]:
        """All ways to a class."""
        nodes = self.found.nodes[c]
        is_leaf = any(n.kind is TermKind.LEAF for n in nodes)
        may_be_once = c in self.kept and not is_leaf
        return [
            w
            for n in nodes
            for w in (Way(n), *((Way(n, is_made_once=True),) if may_be_once else ()))
        ]

    def greedy(self) -> Ways:
        """Of each class the cheapest way by itself."""
        users: dict[str, dict[tuple[str, Way], None]] = {}
        ways = {c: self.ways(c) for c in self.found.nodes}
        for c, each in ways.items():
            for w in each:
                for a in w.node.args:
                    users.setdefault(a, {})[c, w] = None
        best: Ways = {}
        costs: dict[str, Costs] = {}
        todo = {(c, w): None for c, each in ways.items() for w in each if not w.node.args}
        for _ in range(STEPS):
            changed: dict[str, None] = {}
            for c, w in todo:
                parts = self._parts(c, w, best, costs)
                if parts is not None and (
                    c not in costs or sum(parts.values()) < sum(costs[c].values())
                ):
                    best[c], costs[c] = w, parts
                    changed[c] = None
            todo = {use: None for c in changed for use in users.get(c, ())}
            if not todo:
                break
        return best

    def own(self) -> Ways:
        """The block as it is."""
        of = {n: c for c, nodes in self.found.nodes.items() for n in nodes}
        places: list[str] = []
        out: Ways = {}
        for t in self.block.terms:
            n = ENode(t.kind, tuple(places[a] for a in t.args), t.label)
            places.append(of[n])
            out.setdefault(of[n], Way(n))
        return out

    def _parts(
        self, c: str, w: Way, best: Ways, costs: Mapping[str, Costs]
    ) -> dict[str, float] | None:
        """What a way costs with the best ways to its operands; None where it has none, or is made of itself."""
        if any(a not in costs for a in w.node.args):
            return None
        own = self._own(c, w, best)
        if w.is_made_once:
            return own
        parts = dict[str, float]()
        for a in w.node.args:
            parts |= costs[a]
        return None if f"= {c}" in parts else parts | own

    def improved(self, ways: Ways) -> Ways:
        """One way after another changed for another one, as long as the whole gets cheaper."""
        cost = self.cost(ways)
        for _ in range(PASSES):
            before = cost
            for c in self._reached(ways) or ():
                for w in self.ways(c):
                    if w == ways[c] or any(a not in ways for a in w.node.args):
                        continue
                    tried = self.cost({**ways, c: w})
                    if tried < cost:
                        ways, cost = {**ways, c: w}, tried
            if cost == before:
                break
        return ways

    def cost(self, ways: Ways) -> float:
        """Of the whole program; infinite where it is a circle."""
        order = self._reached(ways)
        if order is None:
            return inf
        parts: dict[str, float] = {}
        for c in order:
            parts |= self._own(c, ways[c], ways)
        return sum(parts.values())

    def _reached(self, ways: Ways) -> list[str] | None:
        """What a run computes, operands first; None where it is a circle."""
        order: dict[str, None] = {}
        begun: set[str] = set()
        stack = [(c, False) for c in reversed(self.found.roots)]
        while stack:
            c, ready = stack.pop()
            if ready:
                order[c] = None
            elif c not in order:
                if c in begun:
                    return None
                begun.add(c)
                stack.append((c, True))
                args = () if ways[c].is_made_once else ways[c].node.args
                stack.extend((a, False) for a in reversed(args) if a not in order)
        return [*order]

    def _own(self, c: str, w: Way, ways: Ways) -> dict[str, float]:
        """What a way adds to its operands, by what it is for: what two users share counts once."""
        prices, n, out = self.prices, w.node, {f"= {c}": 0.0}
        if w.is_made_once:
            return out | {f"read {c}": self._bytes(c) * prices.byte}
        if n.kind is TermKind.LEAF:
            leaf = self.block.leaves[int(n.label)]
            return out | {f"leaf {n.label}": leaf.read * prices.byte}
        if n.kind is TermKind.NUM:
            return out
        if n.kind in REDUCED.values():
            return out | self._reduction(c, n, ways)
        if n.kind is TermKind.MOVE:  # what is moved after it was computed is stored before
            stored = [a for a in n.args if self._is_computed(ways[a])]
            return out | {f"stored {a}": 2 * self._bytes(a) * prices.byte for a in stored}
        is_function = n.kind is TermKind.MAP and n.label in FUNCTIONS
        step = prices.function if is_function else prices.step
        return {f"= {c}": self.points[c] * step}

    def _reduction(self, c: str, n: ENode, ways: Ways) -> dict[str, float]:
        """A reduction is stored; of a product so is an operand that is computed."""
        (body,) = n.args
        product = self._product_of(body, ways)
        term = self.prices.product - self.prices.step if product else self.prices.step
        stored = [c, *(a for a in product if self._is_computed(ways[a]))]
        out = {f"stored {a}": 2 * self._bytes(a) * self.prices.byte for a in stored}
        return {f"= {c}": self.points[body] * term, **out}

    def _product_of(self, body: str, ways: Ways) -> tuple[str, ...]:
        """The operands of a reduction's body, where it is a product of two that vary with unlike axes."""
        n, free = ways[body].node, self.found.free
        if n.kind is not TermKind.MUL or ways[body].is_made_once:
            return ()
        a, b = n.args
        return n.args if free[a] - free[b] and free[b] - free[a] else ()

    def _is_computed(self, w: Way) -> bool:
        """Whether it is neither stored anyway nor read as it is, or moved."""
        if w.node.kind is TermKind.MOVE:
            return False
        return bool(w.node.args) and not w.is_made_once and w.node.kind not in REDUCED.values()

    def _bytes(self, c: str) -> float:
        return self.points[c] * BY_NAME[self.found.types.get(c, "f32")].itemsize

    def _points(self, axes: Axes) -> float:
        return float(prod(self.sizes[a] for a in axes))

    def program(self, ways: Ways) -> EqualProgram | None:
        """The program as terms."""
        cost = self.cost(ways)
        if cost == inf:
            return None
        terms: dict[AxisTerm, int] = {}
        places: dict[str, int] = {}
        order = self._reached({c: Way(w.node) for c, w in ways.items()})
        if order is None:
            return None
        for c in order:
            n = ways[c].node
            t = AxisTerm(n.kind, tuple(places[a] for a in n.args), n.label)
            places[c] = terms.setdefault(t, len(terms))
        return EqualProgram(tuple(terms), tuple(places[c] for c in self.found.roots), cost)
