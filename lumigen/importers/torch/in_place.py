# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
"""in_place: ops that write into a tensor, as ops that compute another: what is read afterwards reads their results.

Promises that the program which is given back is the same; and also where each op in place is taken as its value op,
if it says so.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from lumigen.importers.torch.sizes import OF_SIZES

# Of the ops that PyTorch writes in terms of others, those whose results never lie in the memory of an argument. Of
# the others that have no kernel of their own nobody knows: dropout gives its argument back, einsum a view of it.
OF_OTHERS = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d avg_pool1d batch_norm concat conv1d
conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d group_norm hstack instance_norm layer_norm linear
log_softmax matmul max_pool1d max_pool2d max_pool3d relu6 rms_norm scaled_dot_product_attention selu softmax
std true_divide upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_trilinear3d var vstack where
"""
ANEW = frozenset(OF_OTHERS.split())


def as_values(program: ExportedProgram) -> tuple[ExportedProgram, bool]:
    """The program, in which each read after a write in place reads its result; and whether nothing else sees a write.

    A view sees it that is read afterwards, and so does who reads an input, a buffer, or what a graph that an operator
    runs has written.
    """
    modules = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    written = [any(writes(node.target) for node in m.graph.nodes) for m in modules]
    if any(written[1:]) or not written[0]:
        return program, not any(written)
    graph, names, alone = renamed(program.graph)
    signature = copy.deepcopy(program.graph_signature)
    for given in signature.output_specs:
        if isinstance(getattr(given.arg, "name", None), str):
            given.arg.name = names[given.arg.name]
    made = ExportedProgram(
        program.graph_module,
        graph,
        signature,
        program.state_dict,
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        program.constants,
        verifiers=program.verifiers,
    )
    return made, alone


def renamed(graph: Graph) -> tuple[Graph, dict[str, str], bool]:
    """A copy that reads results of writes; what each node is called at the end; whether nothing else sees them."""
    nodes = list(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    last = {node: max((place[user] for user in node.users), default=-1) for node in nodes}
    memory: dict[Node, set[Node]] = {}  # all that may lie where a node does
    same: dict[Node, list[Node]] = {}  # the nodes that are one tensor
    made, newest, alone = Graph(), dict[Node, Node](), True
    for node in nodes:
        given = given_back(node)
        newest[node] = newest[given] if given else copied(made, node, newest)
        share(memory, node)
        target = given or (passed(node).get("self") if writes_first(node.target) else None)
        same[node] = same[target] if isinstance(target, Node) else []
        same[node].append(node)
        if writes(node.target):
            seen = memory[node].difference(same[node])
            alone &= len(same[node]) > 1 and not any(last[n] > place[node] for n in seen)
            alone &= all(n.op == "call_function" for n in memory[node])
            newest.update(dict.fromkeys(same[node], newest[node]))
    return made, {old.name: new.name for old, new in newest.items()}, alone


def copied(graph: Graph, node: Node, newest: Mapping[Node, Node]) -> Node:
    """The copy of a node in a graph; it keeps its name, by which the signature knows it."""
    made = graph.node_copy(node, newest.__getitem__)
    made.name = node.name
    return made


def given_back(node: Node) -> Node | None:
    """The argument that an op gives back as it is: of a dropout in evaluation, where PyTorch's decomposition copies."""
    names = ("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
    if str(node.target) not in names:
        return None
    given = passed(node)
    is_idle = given.get("train") is False or given.get("p") == 0
    return given.get("input") if is_idle else None


def passed(node: Node) -> dict[str, Any]:
    """The arguments of an op by their names in its schema."""
    arguments: Any = node.target._schema.arguments  # type: ignore[union-attr]  # noqa: SLF001
    return {**dict(zip((a.name for a in arguments), node.args, strict=False)), **node.kwargs}


def share(memory: dict[Node, set[Node]], node: Node) -> None:
    """Note where a node may lie: with each argument whose memory it may be."""
    memory[node] = {node}
    for other in lent(node):
        few, many = sorted((memory[node], memory[other]), key=len)
        if few is not many:
            many |= few
            memory.update(dict.fromkeys(few, many))


def lent(node: Node) -> Iterator[Node]:
    """The arguments in whose memory a result may lie."""
    target: Any = node.target
    if node.op != "call_function" or is_number(node):
        return
    schema = getattr(target, "_schema", None)
    if schema is None:
        is_size = target in OF_SIZES and "getitem" not in target.__name__
        yield from () if is_size else node.all_input_nodes
    elif any(result.alias_info is not None for result in schema.returns):
        given = passed(node)
        for argument in schema.arguments:
            if argument.alias_info is not None:
                values = listed(given.get(argument.name))
                yield from (n for n in node.all_input_nodes if n in values)
    elif may_lend(target):
        yield from (n for n in node.all_input_nodes if not is_number(n))


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def may_lend(target: Any) -> bool:
    """Whether an op whose schema says nothing may give back memory of an argument."""
    name = target._schema.name.removeprefix("aten::")  # noqa: SLF001
    if "unsafe" in name:
        return True
    written_in_others = torch._C._dispatch_has_kernel_for_dispatch_key(  # noqa: SLF001
        target.name(), "CompositeImplicitAutograd"
    )
    return written_in_others and name not in ANEW


def is_number(node: Node) -> bool:
    """Whether a node is a size, or arithmetic on sizes."""
    return isinstance(
        node.meta.get("val"), int | float | torch.SymInt | torch.SymFloat | torch.SymBool
    )


def writes(target: Any) -> bool:
    """Whether an op changes an argument."""
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable


def writes_first(target: Any) -> bool:
    """Whether an op changes its first argument alone, and gives it back: `relu_`, `add_`."""
    if not writes(target):
        return False
    first, *others = target._schema.arguments  # noqa: SLF001
    written = first.alias_info is not None and first.alias_info.is_write
    return (
        written
        and target._schema.name.endswith("_")  # noqa: SLF001
        and not any(a.alias_info is not None for a in others)
        and len(target._schema.returns) == 1  # noqa: SLF001
    )


def value_op(op: str) -> str:
    """The op that computes what `aten.relu_.default` writes: `aten.relu.default`."""
    namespace, name, overload = op.split(".")
    return f"{namespace}.{name.removesuffix('_')}.{overload}"
