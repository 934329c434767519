"""named: nodes of a graph as a block of terms, and what leaves and moves of the block stand for.

Dimensions that are seen as they are, through views that only permute and repeat, get one name. Where two names would
meet in one value, as those of the queries and the keys that are made of one x, one use becomes a move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeVar

from lumigen.algebra.terms import (
    BINARY,
    REDUCED,
    Axes,
    AxisTerm,
    Block,
    Move,
    OuterValue,
    TermKind,
    label_of,
)
from lumigen.condition import Cmp
from lumigen.graph import Edge, Node, axes_of, literal_of
from lumigen.index import Axis, Dim, Ix, ix, product
from lumigen.ops import ROWS, Form, Op
from lumigen.pattern import is_constant
from lumigen.view import Shape, position

K = TypeVar("K")
F = TypeVar("F")
Variable = tuple[
    Node, int
]  # a dimension of a node's operands: of what it gives, or of what it reduces


@dataclass(frozen=True)
class Reading:
    """What is read at named axes: which element at which of their points, and what stands where conditions fail."""

    index: tuple[Ix, ...]
    valid: tuple[Cmp, ...] = ()
    fill: float | int = 0
    fill_text: str = ""

    @property
    def axes(self) -> frozenset[Axis]:
        each = (*(i.axes for i in self.index), *(c.axes for c in self.valid))
        return frozenset[Axis]().union(*each)


@dataclass(frozen=True)
class Named:
    """A block, the nodes that its leaves read, and how; how its moves see what they take; its roots with their axes.

    `takes` are the dimensions of what a move reads; None where the extent is 1. `orders` are those in which values that
    vary with some axes have them as dimensions.
    """

    block: Block
    leaves: tuple[tuple[Node, Reading], ...]
    moves: tuple[tuple[tuple[Axis | None, ...], Reading], ...]
    axes: Mapping[str, Axis]
    roots: tuple[tuple[Node, tuple[Axis | None, ...]], ...]
    orders: Mapping[frozenset[Axis], tuple[Axis, ...]]


def is_named(n: Node) -> bool:
    """Whether a node is a term: one of the twelve ops."""
    return n.op in ROWS


def named(nodes: Sequence[Node], roots: Sequence[Node], fixed: frozenset[Node]) -> Named:
    """The block of some nodes, operands first. Others are leaves; `fixed` are made of weights alone."""
    return _Naming(nodes, fixed).block(roots)


def positions_of(n: Node) -> Shape:
    """The points at which a node computes: those of its result, or those that it reduces."""
    return n.args[0].shape if ROWS[n.op].form is Form.REDUCE else n.shape


def result_positions(n: Node) -> tuple[int, ...]:
    """Of each dimension of the result, the position that it is."""
    gone = axes_of(n) if ROWS[n.op].form is Form.REDUCE else ()
    return tuple(d for d in range(len(positions_of(n))) if d not in gone)


@dataclass
class _Classes:
    """Variables that are one axis; a node has no two of its variables in one. What is outside has dimensions too."""

    parent: dict[Variable, Variable] = field(default_factory=dict[Variable, Variable])
    members: dict[Variable, list[Variable]] = field(default_factory=dict[Variable, list[Variable]])

    def find(self, v: Variable) -> Variable:
        while (up := self.parent.get(v, v)) != v:
            v = up
        return v

    def unite(self, pairs: Sequence[tuple[Variable, Variable]]) -> bool:
        """All pairs, or none of them where a node would have an axis twice."""
        before = dict(self.parent), {k: [*v] for k, v in self.members.items()}
        for a, b in pairs:
            if not self._unite(self.find(a), self.find(b)):
                self.parent, self.members = before
                return False
        return True

    def _unite(self, a: Variable, b: Variable) -> bool:
        if a == b:
            return True
        of_a, of_b = self.members.get(a, [a]), self.members.get(b, [b])
        nodes = {n for n, _ in of_a}
        if any(n in nodes for n, _ in of_b):
            return False
        self.parent[b] = a
        self.members[a] = [*of_a, *of_b]
        return True


def _plain(e: Edge) -> list[tuple[int, int]] | None:
    """(position, dimension) of each axis of a view that permutes and repeats; None for any other view."""
    if e.view.valid:
        return None
    at = {ix(position(i, extent)): i for i, extent in enumerate(e.shape)}
    pairs: list[tuple[int, int]] = []
    for d, (index, extent) in enumerate(zip(e.view.index, e.node.shape, strict=True)):
        if extent == 1:
            continue
        i = at.get(index)
        if i is None or e.shape[i] != extent:
            return None
        pairs.append((i, d))
    return pairs if len({i for i, _ in pairs}) == len(pairs) else None


class _Naming:
    """Axes of the nodes, and the terms that are made so far."""

    def __init__(self, nodes: Sequence[Node], fixed: frozenset[Node]) -> None:
        self.nodes, self.fixed = nodes, fixed
        self.inside = frozenset(nodes)
        self.classes = _Classes()
        self.same: set[tuple[Node, int]] = set()  # operands that are seen by the names of their own
        for n in reversed(nodes):  # users first: a value is named by the last of them
            for i, e in enumerate(n.args):
                if self._unite(n, e) and e.node in self.inside:
                    self.same.add((n, i))
        self.axes: dict[Variable, Axis] = {}
        self.terms: dict[AxisTerm, int] = {}
        self.place: dict[Node, int] = {}
        self.leaves: dict[tuple[Node, Reading], OuterValue] = {}
        self.moves: dict[tuple[tuple[Axis | None, ...], Reading], Move] = {}

    def _unite(self, n: Node, e: Edge) -> bool:
        pairs = _plain(e)
        if pairs is None:
            return False
        of = result_positions(e.node) if e.node in self.inside else range(len(e.node.shape))
        return self.classes.unite([((n, i), (e.node, of[d])) for i, d in pairs])

    def block(self, roots: Sequence[Node]) -> Named:
        for n in self.nodes:
            self.place[n] = self._term(n)
        sizes = {a.name: size_of(a.extent) for a in self.axes.values()}
        block = Block(
            tuple(self.terms),
            tuple(self.place[n] for n in roots),
            tuple(self.leaves.values()),
            tuple(self.moves.values()),
            tuple(sizes.items()),
        )
        shown = tuple((n, self._dims(n)) for n in roots)
        axes = {a.name: a for a in self.axes.values()}
        dims = [tuple(a for a in self._dims(n) if a is not None) for n in self.nodes]
        orders = {frozenset(d): d for d in dims}
        return Named(block, tuple(self.leaves), tuple(self.moves), axes, shown, orders)

    def _axis(self, n: Node, at: int) -> Axis | None:
        """The axis of a position, or of a dimension of what is outside; None where there is one point."""
        extent = (positions_of(n) if n in self.inside else n.shape)[at]
        if extent == 1:
            return None
        key = self.classes.find((n, at))
        if key not in self.axes:
            self.axes[key] = Axis(f"a{len(self.axes)}", extent)
        return self.axes[key]

    def _dims(self, n: Node) -> tuple[Axis | None, ...]:
        return tuple(self._axis(n, p) for p in result_positions(n))

    def _term(self, n: Node) -> int:
        args = [self._operand(n, i) for i in range(len(n.args))]
        if n.op in REDUCED:
            gone = (self._axis(n, p) for p in axes_of(n))
            names = frozenset(a.name for a in gone if a is not None)
            return self._added(REDUCED[n.op], args, label_of(names)) if names else args[0]
        if n.op is Op.MUL and any(e.dtype.is_bool for e in n.args):
            turned = args[::-1] if not n.args[0].dtype.is_bool else args
            return self._added(TermKind.PICK, turned)
        if n.op in BINARY:
            return self._added(BINARY[n.op], args)
        if n.op is Op.CONTIGUOUS:
            return self._added(TermKind.MAP, args, f"{n.op.value} {n.dtype}")
        return self._added(TermKind.MAP, args, n.op.value)

    def _added(self, kind: TermKind, args: Sequence[int], label: str = "") -> int:
        return self.terms.setdefault(AxisTerm(kind, tuple(args), label), len(self.terms))

    def _operand(self, n: Node, i: int) -> int:
        e = n.args[i]
        if (n, i) in self.same:
            return self.place[e.node]
        if is_constant(e) and not e.dtype.is_bool and isfinite(literal_of(e.node)):
            value = literal_of(e.node)
            text = float(value).hex() if e.dtype.is_float else value
            return self._added(TermKind.NUM, (), f"{e.dtype} {text}")
        seen = self._seen(n, e)
        if e.node in self.inside:
            return self._moved(self.place[e.node], self._dims(e.node), seen)
        if not seen.valid and _repeats(e, seen):
            dims = tuple(self._axis(e.node, d) for d in range(len(e.node.shape)))
            own = Reading(tuple(ix(0) if a is None else ix(a) for a in dims))
            label = _number(self.leaves, (e.node, own), self._leaf(e, own))
            return self._moved(self._added(TermKind.LEAF, (), str(label)), dims, seen)
        label = _number(self.leaves, (e.node, seen), self._leaf(e, seen))
        return self._added(TermKind.LEAF, (), str(label))

    def _moved(self, place: int, takes: tuple[Axis | None, ...], seen: Reading) -> int:
        move = Move(_names(takes), tuple(sorted(a.name for a in seen.axes)), not seen.valid)
        return self._added(TermKind.MOVE, (place,), str(_number(self.moves, (takes, seen), move)))

    def _seen(self, n: Node, e: Edge) -> Reading:
        """The operand at the named axes of its user."""
        extents = positions_of(n)
        axes = (self._axis(n, i) for i in range(len(extents)))
        where = tuple(ix(0) if a is None else ix(a) for a in axes)
        index, valid = e.view.at(where)
        return Reading(index, valid, e.view.fill if valid else 0, e.view.fill_text if valid else "")

    def _leaf(self, e: Edge, seen: Reading) -> OuterValue:
        axes: Axes = frozenset(a.name for a in seen.axes)
        read = min(
            size_of(product(e.node.shape)), size_of(product(tuple(a.extent for a in seen.axes)))
        )
        is_made = e.node.op in {Op.CONST, Op.IOTA}
        return OuterValue(
            axes, str(e.dtype), 0 if is_made else read * e.dtype.itemsize, e.node in self.fixed
        )


def _repeats(e: Edge, seen: Reading) -> bool:
    """Whether a view shows elements several times, otherwise than along an axis of its own, as windows do."""
    return size_of(product(e.node.shape)) < size_of(product(tuple(a.extent for a in seen.axes)))


def _names(axes: Sequence[Axis | None]) -> tuple[str, ...]:
    return tuple(a.name for a in axes if a is not None)


def _number(known: dict[K, F], key: K, fact: F) -> int:
    """The number of a key, which is new or has been there."""
    known.setdefault(key, fact)
    return [*known].index(key)


def size_of(extent: Ix) -> int:
    """At the typical dims; what lookups and axes say beside them counts as nothing."""
    dims = {a: ix(a.estimate) for a in extent.atoms() if isinstance(a, Dim)}
    found = extent.substitute(dims)
    return max(1, found.const if found.is_const else 1)
