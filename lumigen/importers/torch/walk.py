# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""walk: an exported program is run once on tensors of the frontend, node by node.

Promises that every node of the graph knows the line of its author, and that all that cannot be compiled is found, but
for what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from lumigen import graph
from lumigen.errors import LumigenError, located
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import current
from lumigen.importers.torch.aten import reason_of, row_of
from lumigen.importers.torch.aten.refused import OWN
from lumigen.importers.torch.dtypes import DTYPES
from lumigen.importers.torch.graphs import GRAPHS, Refused
from lumigen.importers.torch.in_place import value_op, writes
from lumigen.importers.torch.lines import line_of, result_names
from lumigen.importers.torch.places import check_places
from lumigen.importers.torch.problems import Problem
from lumigen.importers.torch.sizes import OF_SIZES

# What says only where and how a tensor lies in memory.
OF_MEMORY = frozenset(
    {"device", "layout", "memory_format", "non_blocking", "pin_memory", "copy", "generator"}
    | {"requires_grad", "sparse_grad", "assume_unique"}
)
UNKNOWN = "lumigen has no row for it, and PyTorch no decomposition"


class Missing:
    """The value of what cannot be compiled, or of what depends on it."""


MISSING = Missing()


class Depends(Exception):
    """A graph in the program has what cannot be compiled, which is noted already."""


class Walk:
    """One run; `problems` are what it could not compile, `weights` gives the arrays of the model by name."""

    def __init__(self, weights: Callable[[], Mapping[str, Any]]) -> None:
        self.problems: list[Problem] = []
        self.weights = weights
        self.fixed: dict[graph.Node, bool] = {}

    def run(self, module: GraphModule, given: Sequence[Any]) -> Any:
        """The outputs of a graph, given the values of its placeholders."""
        values: dict[Node, Any] = {}
        inputs = iter(given)
        live = live_nodes(module.graph)
        names = result_names(module.graph)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = attribute(module, str(node.target))
            elif node.op == "output":
                return valued(node.args[0], values)
            elif node in live:
                values[node] = self.value(node, values)
                name_result(values[node], names.get(node))
        raise AssertionError

    def value(self, node: Node, values: Mapping[Node, Any]) -> Any:
        """What a node computes; MISSING, with its problem noted, where it cannot be compiled."""
        line = line_of(node)
        given = [values[n] for n in node.all_input_nodes]
        if any(v is MISSING for v in given):
            if not is_known(node.target):  # whatever its operands are
                self.problems.append(
                    Problem(f"{shown(node.target)}: {reason(computed(node.target))}", line)
                )
            for graph in (g for g in given if isinstance(g, GraphModule)):
                self.run(graph, [MISSING for n in graph.graph.nodes if n.op == "placeholder"])
            return MISSING
        try:
            with located(line):
                return self.called(node, values)
        except Depends:
            pass
        except Refused as e:
            self.problems.append(Problem(f"{shown(node.target)}: {e}", line))
        except LumigenError as e:
            self.problems.append(Problem(f"{shown(node.target)}: {without_place(e)}", line))
        except Exception as e:
            e.add_note(f"while {node.target} of {line} was imported")
            raise
        return MISSING

    def called(self, node: Node, values: Mapping[Node, Any]) -> Any:
        args = [valued(a, values) for a in node.args]
        named = {k: valued(a, values) for k, a in node.kwargs.items() if k not in OF_MEMORY}
        target: Any = node.target
        if target in OF_SIZES:
            return OF_SIZES[target](*args, **named)
        name = shown(target)
        if name in GRAPHS:
            return GRAPHS[name](self.inside, *args)
        name = computed(target)
        row = row_of(name)
        if row is None:
            raise Refused(reason(name))
        check_places(name, args, named, self.weights, self.fixed)
        result = row(*args, **named)
        if writes(target) and result.dtype is not args[0].dtype:
            return result.to(args[0].dtype)
        return result

    def inside(self, module: GraphModule, given: Sequence[Any]) -> Any:
        """The results of a graph that an operator runs; Depends where one of them is missing."""
        results = self.run(module, given)
        if any(r is MISSING for r in (results if isinstance(results, list) else [results])):
            raise Depends
        return results


def valued(arg: Any, values: Mapping[Node, Any]) -> Any:
    """An argument with the values of nodes in it; dtypes as ours, devices and layouts as None."""
    if isinstance(arg, Node):
        return values[arg]
    if isinstance(arg, list | tuple):
        return [valued(a, values) for a in arg]
    if isinstance(arg, torch.dtype):
        if arg not in DTYPES:
            raise Refused(f"{arg} has no counterpart here")
        return DTYPES[arg]
    if isinstance(arg, torch.device | torch.layout | torch.memory_format):
        return None
    return arg


def live_nodes(graph: Any) -> set[Node]:
    """The nodes that an output depends on: none is one that only checks what the ranges of dims promise."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in found:
            found.update(node.all_input_nodes)
    return found


def attribute(module: Any, path: str) -> Any:
    """A graph or a tensor inside a module."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def name_result(value: Any, path: str | None) -> None:
    """What a module ends with is called by its path; a number alone is no name."""
    scope = current()
    if scope is None or path is None or not isinstance(value, Tensor):
        return
    if not path.rpartition(".")[2].isdecimal():
        scope.returned.setdefault(value.edge.node, path)


def shown(target: Any) -> str:
    """An operator with its namespace and overload, `aten.add.Tensor`; anything else by its name."""
    return str(target) if hasattr(target, "_schema") else getattr(target, "__name__", str(target))


def computed(target: Any) -> str:
    """The operator of which the row is: of an op in place, the one that computes what it writes."""
    return value_op(str(target)) if writes(target) else shown(target)


def is_known(target: Any) -> bool:
    """Whether an operator is one of sizes, runs a graph, or has a row."""
    return target in OF_SIZES or shown(target) in GRAPHS or row_of(computed(target)) is not None


def reason(op: str) -> str:
    """Why an operator is not compiled."""
    return reason_of(op) or (UNKNOWN if op.startswith("aten.") else OWN)


def without_place(error: LumigenError) -> str:
    """The text of an error without the line and the operator, which stand before it."""
    text = str(error)
    place = f"{error.where}: " if error.where else ""
    return text.removeprefix(place)
