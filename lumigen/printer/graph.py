"""The text of a graph: one node a line, numbered by position, so that a diff explains a pass.

Constants stand where they are used. An operand seen as it is shows no index; any other shows the
index expressions of its view over the node's own positions `i0, i1, ...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lumigen.errors import SourceLocation, as_word, printable
from lumigen.graph import (
    Axes,
    Edge,
    Graph,
    Kernel,
    Literal,
    Node,
    RandomStream,
    ScanLoop,
    SourceTensor,
    axes_of,
    tensor_of,
)
from lumigen.index import Dim
from lumigen.ops import Op
from lumigen.view import Shape, positions


def show(graph: Graph, *, origins: bool = True) -> str:
    """The whole graph: its dims, its nodes, what it yields and which states it rebinds; with the user's lines."""
    return "".join(f"{line}\n" for line in _lines(graph, origins=origins))


def _lines(graph: Graph, *, origins: bool) -> Iterator[str]:
    yield from (f"dim {_range_of(d)}" for d in graph.dims())
    names: dict[Node, str] = {}
    count = 0
    for n in graph.nodes():
        if isinstance(n.attr, Literal):
            names[n] = n.attr.text if not n.dtype.is_float else repr(n.attr.value)
            continue
        names[n] = f"%{count}"
        count += 1
        operands = "".join(f" {_operand(e, names)}" for e in n.args)
        origin = _origin(graph.lines.get(n, ())) if origins else ""
        yield f"{names[n]} = {n.op.value}{_attribute(n)}{operands}  {_type(n)}{origin}"
        if isinstance(n.attr, ScanLoop | Kernel):
            inner = n.attr.body if isinstance(n.attr, ScanLoop) else n.attr.meaning
            yield from (f"    {line}" for line in _lines(inner, origins=origins))
    for name, e in graph.outputs:
        yield f"output {name} = {_operand(e, names)}  {e.dtype}{_extents(e.shape)}"
    for state, e in graph.updates:
        yield f"update {as_word(tensor_of(state).name)} = {_operand(e, names)}"


def show_edge(e: Edge, depth: int = 2) -> str:
    """One line: the expression to a depth of nodes, as far as rules look, then `...`."""
    return f"{_nested(e, depth)}  {e.dtype}{_extents(e.shape)}"


def _nested(e: Edge, depth: int) -> str:
    n = e.node
    text = n.op.value
    if isinstance(n.attr, Literal):
        text = n.attr.text if not n.dtype.is_float else repr(n.attr.value)
    elif isinstance(n.attr, SourceTensor):
        text = as_word(n.attr.name)
    elif n.args:
        inside = [_nested(a, depth - 1) for a in n.args] if depth else ["..."]
        text = f"{text}{_attribute(n)}({', '.join(inside)})"
    return _operand(e, {n: text})


def _range_of(dim: Dim) -> str:
    step = f" by {dim.multiple_of}" if dim.multiple_of > 1 else ""
    typical = f", typically {dim.typical}" if dim.typical is not None else ""
    return f"{dim} in {dim.lo}..{dim.hi}{step}{typical}"


def _type(n: Node) -> str:
    held = ""
    if isinstance(n.attr, SourceTensor) and n.attr.range is not None:
        lo, hi = n.attr.range
        held = f" in {lo}..{hi if n.attr.most is None else n.attr.most}"
    return f"{n.dtype}{_extents(n.shape)}{held}"


def _extents(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _attribute(n: Node) -> str:
    match n.attr:
        case SourceTensor(name):
            return f" {as_word(name)}"
        case Axes():
            axes = positions(n.args[0].shape)
            return "".join(f" {axes[d]}<{axes[d].extent}" for d in axes_of(n))
        case RandomStream(site):
            return f" site={site}"
        case ScanLoop(axis=axis, monoid=monoid, carries=carries, result=result):
            more = f" monoid={monoid}" if monoid else ""
            many = f" carries={carries} result={result}" if len(n.attr.body.outputs) > 1 else ""
            return f" axis={axis}<{n.attr.length}{more}{many}"
        case Kernel(name):
            return f" {as_word(name)}"
        case _:
            return ""


def _operand(e: Edge, names: Mapping[Node, str]) -> str:
    name = names[e.node]
    if e.view.is_identity(e.node.shape) or (e.node.op is Op.CONST and not e.view.valid):
        return name
    return f"{name}{e.view}" if not e.view.valid else f"({name}{e.view})"


def _origin(lines: tuple[SourceLocation, ...]) -> str:
    places = dict.fromkeys(printable(str(line)) for line in lines)
    return f"  # {', '.join(places)}" if places else ""
