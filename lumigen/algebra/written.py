"""written: a block's terms as nodes of a graph again, over what its leaves read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lumigen.algebra.named import Named, Reading
from lumigen.algebra.terms import OPS, REDUCED, AxisTerm, TermKind, number_of
from lumigen.dtype import BY_NAME
from lumigen.graph import Edge, Node, binary, const, contiguous, edge, reduce, unary
from lumigen.index import Axis, Ix, ix
from lumigen.ops import Op
from lumigen.view import Shape, View, compose, coordinates

Dims = Sequence[Axis | None]  # of an operand; None where there is one point
Leaves = Callable[[Node], Edge]  # what the graph has now of a node that is read


@dataclass(frozen=True)
class _Value:
    """An edge whose dimensions are these axes."""

    edge: Edge
    axes: tuple[Axis, ...]

    def at(self, dims: Dims) -> Edge:
        """The value with these dimensions, of which it has its own; along others it is the same."""
        shape = tuple(ix(1) if a is None else a.extent for a in dims)
        where = _places(dims, shape)
        return _seen_through(View(shape, tuple(where[a] for a in self.axes)), self.edge)


def written(of: Named, terms: Sequence[AxisTerm], roots: Sequence[int], leaf: Leaves) -> list[Edge]:
    """The roots of the block as the terms compute them, with the dimensions that they had.

    What is computed on the way has its dimensions in the order of a value of the block with the same ones, if there is
    one: an image stays one.
    """
    values: list[_Value] = []
    for t in terms:
        values.append(_value(of, t, [values[a] for a in t.args], leaf))
    return [values[r].at(dims) for r, (_, dims) in zip(roots, of.roots, strict=True)]


def _value(of: Named, t: AxisTerm, args: list[_Value], leaf: Leaves) -> _Value:
    if t.kind is TermKind.LEAF:
        n, seen = of.leaves[int(t.label)]
        return _read(leaf(n), seen)
    if t.kind is TermKind.NUM:
        name, text = t.label.split(" ")
        dtype = BY_NAME[name]
        number = float.fromhex(text) if dtype.is_float else int(text)
        return _Value(edge(const(number, dtype)), ())
    if t.kind is TermKind.MOVE:
        takes, seen = of.moves[int(t.label)]
        return _read(args[0].at(takes), seen)
    axes = _in_order(of, dict.fromkeys(a for v in args for a in v.axes))
    if t.kind in REDUCED.values():
        kept = _in_order(of, [a for a in axes if a.name not in t.axes])
        gone = tuple(of.axes[name] for name in sorted(t.axes, key=number_of))
        last = range(len(kept), len(kept) + len(gone))
        return _Value(edge(reduce(OPS[t.kind], args[0].at((*kept, *gone)), last)), kept)
    operands = [v.at(axes) for v in args]
    if t.kind is TermKind.MAP:
        name, _, dtype = t.label.partition(" ")
        (e,) = operands
        return _Value(edge(contiguous(e, BY_NAME[dtype]) if dtype else unary(Op(name), e)), axes)
    return _Value(edge(binary(OPS[t.kind], *operands)), axes)


def _in_order(of: Named, axes: Iterable[Axis]) -> tuple[Axis, ...]:
    found = tuple(axes)
    return of.orders.get(frozenset(found), found)


def _read(e: Edge, seen: Reading) -> _Value:
    axes = tuple(sorted(seen.axes, key=lambda a: number_of(a.name)))
    shape = tuple(a.extent for a in axes)
    where = _places(axes, shape)
    index = tuple(i.substitute(where) for i in seen.index)
    valid = tuple(c.substitute(where) for c in seen.valid)
    return _Value(_seen_through(View(shape, index, valid, seen.fill), e), axes)


def _places(dims: Dims, shape: Shape) -> Mapping[Axis, Ix]:
    """Of each axis its position."""
    return {a: i for a, i in zip(dims, coordinates(shape), strict=True) if a is not None}


def _seen_through(view: View, e: Edge) -> Edge:
    """The edge through a view; stored first where the two views are none."""
    both = compose(view, e.view, e.node.shape)
    return Edge(contiguous(e), view) if both is None else Edge(e.node, both)
