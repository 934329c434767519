"""The graph: frozen, interned nodes of the primitive ops, with views on the edges between them.

Equal nodes are one object, so common subexpressions merge by construction. Source lines live in a
side table (`Graph.lines`), outside identity, and are united when nodes merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Union

from lumigen.dtype import DType, boolean
from lumigen.errors import SourceLocation
from lumigen.index import Dim, Ix, ix
from lumigen.memo import Nodes
from lumigen.ops import ROWS, Form, Op, ResultDtype
from lumigen.view import Shape, View, identity


@dataclass(frozen=True)
class SourceTensor:
    """What an input, a weight or a state names. `range` and `most`, of dims, bound integer values, inclusive."""

    name: str
    range: tuple[int, int] | None = None
    most: Ix | None = None


@dataclass(frozen=True)
class Literal:
    """A constant. Compared by its text, so that 0.0, -0.0 and NaN are three different literals."""

    text: str
    value: float | int | bool = field(compare=False)


@dataclass(frozen=True)
class Axes:
    """The reduced dimensions of the operand's view, ascending."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class RandomStream:
    """Random bits: the call site's number; the key is the node's argument."""

    site: int


@dataclass(frozen=True)
class ScanLoop:
    """One result of a scan of `length` steps.

    The arguments are `carries` first carries, `elements` tensors of which each step takes one element along `axis`,
    and what is the same in each step. `body` maps carries, elements and the rest to the next carries, and to further
    values of the step. The node is output `result` of the body after each step, stacked along `axis`. `monoid` names
    a declared associative operation, which permits parallel forms.
    """

    axis: int
    body: Graph
    monoid: str | None
    length: Ix
    carries: int = 1
    elements: int = 1
    result: int = 0


@dataclass(frozen=True)
class Kernel:
    """A native kernel by name, with the graph of primitive ops that is its meaning."""

    name: str
    meaning: Graph


Attr = Union[None, SourceTensor, Literal, Axes, RandomStream, ScanLoop, Kernel]


@dataclass(frozen=True, eq=False)
class Node:
    """One op applied to views of other nodes. `node` builds and interns it; compare with `is`."""

    op: Op
    args: tuple[Edge, ...]
    attr: Attr
    shape: Shape
    dtype: DType
    serial: int  # order of creation; orders output, never decides meaning

    def __repr__(self) -> str:
        return f"%{self.serial}:{self.op.value}"

    def __reduce__(self) -> tuple[Callable[..., Node], tuple[object, ...]]:
        return _last, tuple(_rows(toposort([self])))


@dataclass(frozen=True)
class Edge:
    """A node seen through a view."""

    node: Node
    view: View

    @property
    def shape(self) -> Shape:
        return self.view.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype


_TABLE: Nodes[Node] = Nodes(lambda n: (n.op, n.args, n.attr, n.shape, n.dtype))
_SERIALS = count()


def node(op: Op, args: tuple[Edge, ...], attr: Attr, shape: Shape, dtype: DType) -> Node:
    """The one node with these parts."""
    key = (op, args, attr, shape, dtype)
    found = _TABLE.get(key)
    if found is None:
        found = _TABLE.add(key, Node(op, args, attr, shape, dtype, next(_SERIALS)))
    return found


# A pickle of nodes is a list, operands first, so that a long chain has no long stack: an operand is the place of its
# node in the list, and its view.


def _rows(order: Sequence[Node]) -> Iterator[tuple[object, ...]]:
    place = {n: i for i, n in enumerate(order)}
    for n in order:
        args = tuple((place[e.node], e.view) for e in n.args)
        yield n.op, args, n.attr, n.shape, n.dtype


def _from_rows(rows: Iterable[tuple[Any, ...]]) -> list[Node]:
    made: list[Node] = []
    for op, places, attr, extents, dtype in rows:
        operands: tuple[tuple[int, View], ...] = places
        args = tuple(Edge(made[i], view) for i, view in operands)
        made.append(node(op, args, attr, extents, dtype))
    return made


def _last(*rows: tuple[Any, ...]) -> Node:
    return _from_rows(rows)[-1]


def edge(n: Node) -> Edge:
    """A node seen as it is."""
    return Edge(n, identity(n.shape))


def source(
    op: Op,
    name: str,
    shape: Shape,
    dtype: DType,
    bounds: tuple[int, int] | None = None,
    most: Ix | None = None,
) -> Node:
    """An input, a weight or a state."""
    return node(op, (), SourceTensor(name, bounds, most), shape, dtype)


def const(value: float | int | bool, dtype: DType) -> Node:
    """A 0-d constant."""
    if dtype.is_float:
        number: float | int | bool = float(value)
        return node(Op.CONST, (), Literal(number.hex(), number), (), dtype)
    number = bool(value) if dtype.is_bool else int(value)
    return node(Op.CONST, (), Literal(str(number), number), (), dtype)


def iota(extent: Ix, dtype: DType) -> Node:
    """0, 1, 2, ... along one dimension."""
    return node(Op.IOTA, (), None, (extent,), dtype)


def unary(op: Op, a: Edge) -> Node:
    """An elementwise op of one operand."""
    return node(op, (a,), None, a.shape, result_dtype(op, (a.dtype,)))


def binary(op: Op, a: Edge, b: Edge) -> Node:
    """An elementwise op of two operands of equal shape."""
    return node(op, (a, b), None, a.shape, result_dtype(op, (a.dtype, b.dtype)))


def reduce(op: Op, a: Edge, axes: Iterable[int]) -> Node:
    """Sum or maximum over `axes` (not negative), which disappear."""
    gone = tuple(sorted(set(axes)))
    shape = tuple(e for d, e in enumerate(a.shape) if d not in gone)
    return node(op, (a,), Axes(gone), shape, result_dtype(op, (a.dtype,)))


def native(name: str, args: tuple[Edge, ...], meaning: Graph) -> Node:
    """A native kernel of `ops.NATIVE` on the rows of its operands."""
    (_, out) = meaning.outputs[0]
    return node(Op.NATIVE, args, Kernel(name, meaning), out.shape, out.dtype)


def scan(loop: ScanLoop, args: tuple[Edge, ...]) -> Node:
    """What the body of a loop yields in each step, stacked."""
    _, out = loop.body.outputs[loop.result]
    stacked = (*out.shape[: loop.axis], loop.length, *out.shape[loop.axis :])
    return node(Op.SCAN, args, loop, stacked, out.dtype)


def contiguous(a: Edge, dtype: DType | None = None) -> Node:
    """The operand's elements in row-major order; with another dtype it is the cast."""
    return node(Op.CONTIGUOUS, (a,), None, a.shape, dtype or a.dtype)


def result_dtype(op: Op, dtypes: tuple[DType, ...]) -> DType:
    """The dtype that the op's rule gives; ValueError with the reason if it gives none."""
    rule = ROWS[op].result
    first = dtypes[0]
    if rule is ResultDtype.SELECT and len({d for d in dtypes if not d.is_bool}) == 1:
        return next(d for d in dtypes if not d.is_bool)
    if len(set(dtypes)) != 1:
        raise ValueError(
            f"{op.value} takes operands of one dtype, got {' and '.join(map(str, dtypes))}"
        )
    if rule is ResultDtype.FLOAT and not first.is_float:
        raise ValueError(f"{op.value} takes floats, got {first}")
    if rule is ResultDtype.NUMBER and first.is_bool:
        raise ValueError(f"{op.value} takes numbers, got {first}")
    return boolean if rule is ResultDtype.BOOL else first


@dataclass(frozen=True)
class Graph:
    """One entry of a model: named inputs and outputs, and the new versions of states, in order.

    The last version of a state is what the next run finds. `lines` maps nodes to the user's lines they
    come from, `names` to what the model calls what they hold: a variable, or the path of the module that returned it.
    Neither takes part in equality.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[tuple[str, Edge], ...]
    updates: tuple[tuple[Node, Edge], ...] = ()
    lines: Mapping[Node, tuple[SourceLocation, ...]] = field(
        default_factory=dict[Node, tuple[SourceLocation, ...]], compare=False
    )
    names: Mapping[Node, str] = field(default_factory=dict[Node, str], compare=False)

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[object, ...]]:
        order = toposort(
            (
                *self.inputs,
                *(e.node for e in self.roots()),
                *(s for s, _ in self.updates),
                *self.lines,
                *self.names,
            )
        )
        place = {n: i for i, n in enumerate(order)}
        inputs = tuple(place[n] for n in self.inputs)
        outputs = tuple((name, place[e.node], e.view) for name, e in self.outputs)
        updates = tuple((place[s], place[e.node], e.view) for s, e in self.updates)
        lines = tuple((place[n], lines) for n, lines in self.lines.items())
        names = tuple((place[n], name) for n, name in self.names.items())
        return _graph, (tuple(_rows(order)), inputs, outputs, updates, lines, names)

    def roots(self) -> tuple[Edge, ...]:
        return (*(e for _, e in self.outputs), *(e for _, e in self.updates))

    def nodes(self) -> Iterator[Node]:
        """Every node once, operands before users, inputs first."""
        yield from toposort((*self.inputs, *(e.node for e in self.roots())))

    def weights(self) -> tuple[Node, ...]:
        """The weights used, in order of name."""
        found = [n for n in self.nodes() if n.op is Op.WEIGHT]
        return tuple(sorted(found, key=lambda n: tensor_of(n).name))

    def states(self) -> tuple[Node, ...]:
        """The states read or rebound, in order of name."""
        found = [n for n in self.nodes() if n.op is Op.STATE]
        found += [s for s, _ in self.updates if s not in found]
        return tuple(sorted(dict.fromkeys(found), key=lambda n: tensor_of(n).name))

    def dims(self) -> tuple[Dim, ...]:
        """The symbolic dims of the inputs, in order of appearance."""
        seen: dict[Dim, None] = {}
        for n in self.inputs:
            for extent in n.shape:
                seen.update({a: None for a in extent.atoms() if isinstance(a, Dim)})
        return tuple(seen)


def _graph(
    rows: tuple[tuple[Any, ...], ...],
    inputs: tuple[int, ...],
    outputs: tuple[tuple[str, int, View], ...],
    updates: tuple[tuple[int, int, View], ...],
    lines: tuple[tuple[int, tuple[SourceLocation, ...]], ...],
    names: tuple[tuple[int, str], ...],
) -> Graph:
    """From what `Graph.__reduce__` gives."""
    at = _from_rows(rows)
    return Graph(
        tuple(at[i] for i in inputs),
        tuple((name, Edge(at[i], view)) for name, i, view in outputs),
        tuple((at[s], Edge(at[i], view)) for s, i, view in updates),
        lines={at[i]: places for i, places in lines},
        names={at[i]: name for i, name in names},
    )


def tensor_of(n: Node) -> SourceTensor:
    """The name and range of an input, weight or state."""
    assert isinstance(n.attr, SourceTensor)
    return n.attr


def axes_of(n: Node) -> tuple[int, ...]:
    """The reduced dimensions of a reduction."""
    assert isinstance(n.attr, Axes)
    return n.attr.axes


def literal_of(n: Node) -> float | int | bool:
    """The value of a constant."""
    assert isinstance(n.attr, Literal)
    return n.attr.value


def toposort(roots: Iterable[Node]) -> list[Node]:
    """Operands before users, without recursion, in a stable order."""
    order: list[Node] = []
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(list(roots))]
    while stack:
        n, ready = stack.pop()
        if n in done:
            continue
        if ready:
            done.add(n)
            order.append(n)
            continue
        stack.append((n, True))
        stack.extend((a.node, False) for a in reversed(n.args) if a.node not in done)
    return order


def rebuild(n: Node, args: tuple[Edge, ...]) -> Node:
    """The same op on other arguments; the node itself if they are the same."""
    if args == n.args:
        return n
    form = ROWS[n.op].form if n.op in ROWS else None
    if form is Form.UNARY:
        return unary(n.op, args[0])
    if form is Form.BINARY:
        return binary(n.op, *args)
    if form is Form.REDUCE:
        return reduce(n.op, args[0], axes_of(n))
    if form is Form.CAST:
        return contiguous(args[0], n.dtype)
    return node(n.op, args, n.attr, n.shape, n.dtype)


def shape(*extents: int | Dim | Ix) -> Shape:
    """A shape from ints, dims and expressions."""
    return tuple(ix(e) for e in extents)
