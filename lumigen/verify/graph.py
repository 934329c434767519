"""The rules that a graph keeps; `verify` checks them all and names the node that breaks one."""

from __future__ import annotations

from collections.abc import Iterable

from lumigen.dtype import DType, i32, i64
from lumigen.errors import VerifyFailed
from lumigen.graph import (
    Axes,
    Graph,
    Kernel,
    Literal,
    Node,
    RandomStream,
    ScanLoop,
    SourceTensor,
    axes_of,
    result_dtype,
    scan,
    tensor_of,
)
from lumigen.index import Ix
from lumigen.memo import remembered
from lumigen.ops import NATIVE, ROWS, Form, Op
from lumigen.view import Shape, View, positions, proven

ARITY = {Form.UNARY: 1, Form.BINARY: 2, Form.REDUCE: 1, Form.CAST: 1}
ATTRS: dict[Op, type] = {
    Op.SUM_REDUCE: Axes,
    Op.MAX_REDUCE: Axes,
    Op.INPUT: SourceTensor,
    Op.WEIGHT: SourceTensor,
    Op.STATE: SourceTensor,
    Op.CONST: Literal,
    Op.RANDOM: RandomStream,
    Op.SCAN: ScanLoop,
    Op.NATIVE: Kernel,
}


def verify(graph: Graph, after: str = "verify") -> Graph:
    """The graph itself, if it keeps every rule; `after` names the pass that made it."""
    for n in graph.nodes():
        for broken in _broken_by_node(n, after):
            where = next(iter(graph.lines.get(n, ())), None)
            raise VerifyFailed(after=after, what=f"{_text(n)}: {broken}", where=where)
    for broken in _broken_by_graph(graph):
        raise VerifyFailed(after=after, what=broken)
    return graph


def _text(n: Node) -> str:
    attr = f" {n.attr}" if isinstance(n.attr, SourceTensor | Axes | Literal) else ""
    args = "".join(f" {e.node.op.value} {_type(e.dtype, e.node.shape)}{e.view}" for e in n.args)
    return f"{n.op.value}{attr}{args} as {_type(n.dtype, n.shape)}"


def _type(dtype: DType, shape: tuple[Ix, ...]) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _broken_by_graph(graph: Graph) -> Iterable[str]:
    if not graph.roots():
        yield "nothing is computed"
    nodes = list(graph.nodes())
    for op in (Op.INPUT, Op.WEIGHT, Op.STATE):
        yield from _repeated(f"the {op.value}", [tensor_of(n).name for n in nodes if n.op is op])
    yield from _repeated("the output", [name for name, _ in graph.outputs])
    for n in nodes:
        if n.op is Op.INPUT and n not in graph.inputs:
            yield f"{tensor_of(n).name} is read but is no input of the graph"
    for n in graph.inputs:
        if n.op is not Op.INPUT:
            yield f"{n.op.value} stands among the inputs"
    for name, e in graph.outputs:
        if not name:
            yield "an output has no name"
        yield from _broken_by_view(e.view, e.node.shape)
    for state, e in graph.updates:
        if state.op is not Op.STATE:
            yield f"{state.op.value} is updated, which is no state"
        elif (e.shape, e.dtype) != (state.shape, state.dtype):
            new, old = _type(e.dtype, e.shape), _type(state.dtype, state.shape)
            yield f"state {tensor_of(state).name} is {old} but is set to {new}"
        yield from _broken_by_view(e.view, e.node.shape)


def _repeated(what: str, names: list[str]) -> Iterable[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what} {name} stands more than once"


def _broken_by_node(n: Node, after: str) -> Iterable[str]:
    wanted = ATTRS.get(n.op)
    if type(n.attr) is not (wanted or type(None)):
        yield f"its attribute is {n.attr}"
        return
    if n.op in ROWS:
        yield from _broken_by_op(n)
    elif isinstance(n.attr, ScanLoop):
        verify(n.attr.body, after)
        yield from _broken_by_loop(n, n.attr)
    elif isinstance(n.attr, Kernel):
        body = n.attr.meaning
        verify(body, after)
        if n.attr.name not in NATIVE:
            yield f"no device has a kernel {n.attr.name}"
        if len(body.inputs) != len(n.args) or len(body.roots()) != 1:
            yield f"its body maps {len(body.inputs)} values to {len(body.roots())}"
    elif len(n.args) != (1 if n.op is Op.RANDOM else 0):
        yield f"a source has {len(n.args)} operands"
    elif n.op is Op.RANDOM and (n.args[0].shape or n.args[0].dtype is not i64):
        yield "a key is one i64"
    elif n.op is Op.RANDOM and n.dtype not in (i32, i64):
        yield "random bits are those of i32 or i64"
    elif n.op is Op.CONST and n.shape:
        yield "a constant has no dimensions"
    elif n.op is Op.IOTA and (len(n.shape) != 1 or n.dtype.is_bool):
        yield "an iota has one dimension, of numbers"
    for e in n.args:
        yield from _broken_by_view(e.view, e.node.shape)


def _broken_by_loop(n: Node, loop: ScanLoop) -> Iterable[str]:
    inputs, outputs = loop.body.inputs, loop.body.outputs
    if len(inputs) != len(n.args) or loop.body.updates:
        yield f"its body takes {len(inputs)} values, and is given {len(n.args)}"
        return
    if not 0 <= loop.carries <= len(outputs) or not 0 <= loop.result < len(outputs):
        yield f"it has {loop.carries} carries and shows {loop.result} of {len(outputs)} results"
        return
    for number, (i, e) in enumerate(zip(inputs, n.args, strict=True)):
        is_element = loop.carries <= number < loop.carries + loop.elements
        at = (*i.shape[: loop.axis], loop.length, *i.shape[loop.axis :])
        wanted = at if is_element else i.shape
        if (e.shape, e.dtype) != (wanted, i.dtype):
            yield f"argument {number} is {_type(e.dtype, e.shape)}, not {_type(i.dtype, wanted)}"
    for i, (name, e) in zip(inputs[: loop.carries], outputs, strict=False):
        if (e.shape, e.dtype) != (i.shape, i.dtype):
            new, old = _type(e.dtype, e.shape), _type(i.dtype, i.shape)
            yield f"{name} becomes {new}, and was {old}"
    _, out = outputs[loop.result]
    if scan(loop, n.args).shape != n.shape or out.dtype is not n.dtype:
        yield f"its results are {_type(out.dtype, out.shape)}"


def _broken_by_op(n: Node) -> Iterable[str]:
    form = ROWS[n.op].form
    if len(n.args) != ARITY[form]:
        yield f"it takes {ARITY[form]} operands"
        return
    if form is Form.REDUCE:
        yield from _broken_by_axes(n)
    elif any(e.shape != n.shape for e in n.args):
        yield "its operands have other shapes"
    if form is Form.CAST:
        return
    try:
        dtype = result_dtype(n.op, tuple(e.dtype for e in n.args))
    except ValueError as e:
        yield str(e)
    else:
        if dtype is not n.dtype:
            yield f"its dtype follows as {dtype}"


def _broken_by_axes(n: Node) -> Iterable[str]:
    axes, operand = axes_of(n), n.args[0].shape
    if not axes or list(axes) != sorted(set(axes)) or axes[0] < 0 or axes[-1] >= len(operand):
        yield f"its axes are {axes}"
    elif tuple(e for d, e in enumerate(operand) if d not in axes) != n.shape:
        yield "its shape is not that of its operand less the axes"


@remembered  # passes keep most views
def _broken_by_view(view: View, source: Shape) -> tuple[str, ...]:
    return tuple(_broken_indices(view, source))


def _broken_indices(view: View, source: Shape) -> Iterable[str]:
    if len(view.index) != len(source):
        yield f"view {view} has {len(view.index)} indices for {len(source)} dimensions"
        return
    known = set(positions(view.shape))
    used = {a for i in view.index for a in i.axes} | {a for c in view.valid for a in c.axes}
    if used - known:
        yield f"view {view} reads axes {', '.join(sorted(str(a) for a in used - known))}"
    for index, extent in zip(view.index, source, strict=True):
        if not proven(index, view.valid):
            yield f"index {index} of view {view} may be negative"
        if not proven(extent - 1 - index, view.valid):
            yield f"index {index} of view {view} may reach the extent {extent}"
