"""positions: which integer selects the one element that a sum over an axis adds, and which integers bound a loop.

Sums (and whether any is true) over a comparison with a position are how reads at an integer that is data are defined:
they become reads where the integer is an index expression (`region.reduce`). This finds the integer in the graph,
whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from lumigen.graph import Edge, Node, axes_of, literal_of
from lumigen.index import Axis, ix
from lumigen.integers import comparable
from lumigen.lower.places import is_whole
from lumigen.ops import Op
from lumigen.region import Expr, as_index
from lumigen.view import position


def picked_by(n: Node) -> Node | None:
    """The integer that a position along the reduced axes equals wherever summands are not zero, or None."""
    adds = n.op is Op.SUM_REDUCE or (n.op is Op.MAX_REDUCE and n.dtype.is_bool)
    if not adds or n.args[0].node.op is not Op.MUL or not is_whole(n.args[0]):
        return None
    shape = n.args[0].node.shape
    reduced = {position(d, shape[d]) for d in axes_of(n)}
    not_below = {pair for a in n.args[0].node.args for pair in _not_below(a)}
    for a, b in not_below:
        is_position = a.node.op is Op.IOTA and _varies(a, reduced)
        if is_position and not _varies(b, reduced) and (b, a) in not_below:
            return b.node
    return None


def bound_by(n: Node) -> Node | None:
    """The integer that a comparison of positions has on its other side, the same for all of them, or None."""
    if n.op is not Op.LESS_THAN or not n.args[0].dtype.is_int:
        return None
    for position_edge, other in (n.args, n.args[::-1]):
        along = frozenset[Axis]().union(*(i.axes for i in position_edge.view.index))
        if position_edge.node.op is Op.IOTA and along and not _varies(other, along):
            return other.node
    return None


def is_compared(value: Expr) -> bool:
    """Whether an integer is an index expression that positions are compared with, as it cannot wrap around."""
    at = as_index(value)
    return at is not None and comparable(at, ix(0))


def _not_below(e: Edge) -> Iterator[tuple[Edge, Edge]]:
    """The pairs of integers of which a condition says that the first is not below the second."""
    if not e.dtype.is_bool or not is_whole(e):
        return
    if e.node.op is Op.MUL:
        for a in e.node.args:
            yield from _not_below(a)
    if e.node.op is Op.LESS_THAN:
        denied, true = e.node.args
        is_negation = true.node.op is Op.CONST and literal_of(true.node) is True
        if is_negation and is_whole(denied) and denied.node.op is Op.LESS_THAN:
            a, b = denied.node.args
            if a.dtype.is_int:
                yield a, b


def _varies(e: Edge, axes: AbstractSet[Axis]) -> bool:
    return any(i.axes & axes for i in e.view.index)
