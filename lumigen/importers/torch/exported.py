# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""exported: a module as a program without effects, of ops that have a row as far as PyTorch can decompose it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from lumigen.importers.torch.aten import reason_of, row_of
from lumigen.importers.torch.faults import fault, refuse_assigned, refuse_shared
from lumigen.importers.torch.graphs import GRAPHS
from lumigen.importers.torch.in_place import as_values, may_lend
from lumigen.importers.torch.logs import OF_SHAPES, quiet
from lumigen.importers.torch.sizes import OF_SIZES
from lumigen.importers.torch.walk import computed, live_nodes, shown

# (input, weight, bias, running mean, running variance, by the statistics of the input, ..)
NORMS = ("aten.batch_norm.default", "aten.instance_norm.default")


def export(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> torch.export.ExportedProgram:
    """torch.export of a module; NotExported, or NotImported for a line at which Python decides by values."""
    name = type(module).__name__
    try:
        with quiet(OF_SHAPES, []), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            given, named = _apart(tuple(args), dict(kwargs or {}))
            program = torch.export.export(module, given, named, dynamic_shapes=dynamic_shapes)
    except Exception as e:  # of PyTorch, or of the module itself
        raise fault(module, name, e) from e
    refuse_assigned(module, name, warned)
    return program


def _apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same inputs, each an object of its own: torch.export takes two that are one tensor for one input."""
    seen: set[int] = set()

    def own(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or id(x) not in seen:
            seen.add(id(x))
            return x
        return x.detach().clone().requires_grad_(x.requires_grad)

    return pytree.tree_map(own, (args, kwargs))


def functional(program: torch.export.ExportedProgram, name: str) -> torch.export.ExportedProgram:
    """The program as values: no write is read but as its result, and each op has a row if PyTorch can decompose it.

    Composites that have a row (attention, norms, convolutions) stay as they are: those are what is fused best. What
    PyTorch needs for this is most of the time of an import, so it is asked only where `as_values` does not do. It takes
    for new memory what an op gives that stays whole, so where writes are seen it decomposes those that may give views.
    """
    program, alone = as_values(program)
    if alone and is_functional(program.graph_module):
        return program
    table = {
        op: rule
        for op, rule in torch.export.default_decompositions().items()
        if not is_known(op) or (not alone and may_lend(op))
    }
    try:
        with quiet(OF_SHAPES, []), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions(table)
    except Exception as e:
        refuse_shared(program, name)
        raise fault(None, name, e) from e


def is_functional(module: Any) -> bool:
    """Whether no op of a graph has effects but writes, and each that an output depends on has a row or a reason."""
    live = live_nodes(module.graph)
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target in OF_SIZES:
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is None and shown(node.target) not in GRAPHS:
            return False
        if schema is not None and updates_statistics(node):
            return False
        if schema is not None and node in live and not is_known(computed(node.target)):
            return False
    return all(is_functional(m) for m in module.children() if isinstance(m, GraphModule))


def updates_statistics(node: Any) -> bool:
    """Whether a norm changes its running mean and variance, which its schema does not say."""
    return str(node.target) in NORMS and node.args[3] is not None and node.args[5] is not False


def is_known(op: Any) -> bool:
    """Whether an op has a row, or a reason."""
    return row_of(str(op)) is not None or reason_of(str(op)) is not None
