"""What a pass of one's own is written with: the graph, what makes its nodes, and rules that rewrite them.

A pass is a function from `ir.Graph` to `ir.Graph`. A graph never changes: a pass makes a new one, or gives the same
one back. It keeps the names and the shapes of inputs and outputs; dtypes may change. `rewrite` does the walking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy.typing as npt

from lumigen.graph import (
    Edge,
    Graph,
    Node,
    axes_of,
    binary,
    const,
    contiguous,
    edge,
    iota,
    literal_of,
    reduce,
    tensor_of,
    unary,
)
from lumigen.ops import Op
from lumigen.pattern import Rule, constant, first, is_constant, rewrite, var
from lumigen.printer.graph import show
from lumigen.verify.graph import verify

Array: TypeAlias = npt.NDArray[Any]
Executor: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]
Pass: TypeAlias = Callable[[Graph], Graph]


@runtime_checkable
class Backend(Protocol):
    """What ends a list of compilers: `executor` turns the graph into a function from inputs to outputs, by name.

    Arrays have the shapes and dtypes of the graph's inputs and outputs.
    """

    def executor(self, graph: Graph) -> Executor:
        """What runs the graph."""
        ...


__all__ = [
    "Backend",
    "Edge",
    "Graph",
    "Node",
    "Op",
    "Pass",
    "Rule",
    "axes_of",
    "binary",
    "const",
    "constant",
    "contiguous",
    "edge",
    "first",
    "iota",
    "is_constant",
    "literal_of",
    "reduce",
    "rewrite",
    "show",
    "tensor_of",
    "unary",
    "var",
    "verify",
]
