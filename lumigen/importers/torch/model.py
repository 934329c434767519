# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""model: an exported program as a model with one entry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument

from lumigen.dtype import i64
from lumigen.errors import located
from lumigen.frontend import creation
from lumigen.frontend.model import Model
from lumigen.frontend.spec import Spec, spec
from lumigen.frontend.symbolic import SymbolicSize
from lumigen.frontend.tensor import Tensor
from lumigen.importers.torch.dtypes import DTYPES
from lumigen.importers.torch.exported import functional
from lumigen.importers.torch.original import original_of
from lumigen.importers.torch.ports import RESERVED, identifier, port_names
from lumigen.importers.torch.problems import Problem, not_imported
from lumigen.importers.torch.sizes import Axes, dims_of, extent_of
from lumigen.importers.torch.stored import Contents, stored
from lumigen.importers.torch.walk import Walk, live_nodes

ENTRY = "forward"
OBJECTS = ("CUSTOM_OBJ", "TOKEN")
NOT_COMPUTED = "it is a result that only a backward pass reads, and is not computed here"


def model_of(
    given: ExportedProgram,
    name: str,
    dims: Mapping[str, Any],
    axes: Axes,
    version: str,
) -> Model:
    """The model, traced; NotImported with all that is in the way."""
    program = functional(given, name)
    live = {node.name for node in live_nodes(program.graph)}
    refuse_types(program, name, live)
    held = stored(program, live)
    inputs = specs_of(program, dims, axes)
    model = Model(name, held.net, version)
    model.entry(**dict(inputs.values()))(entry(program, held, inputs, name))
    model.original = original_of(given, program, {key: port for key, (port, _) in inputs.items()})
    model.trace()
    return model


def refuse_types(program: ExportedProgram, name: str, live: set[str]) -> None:
    """What has no counterpart: types of inputs and of weights that are read, and objects that are no tensors."""
    problems: list[Problem] = []
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    for given in program.graph_signature.input_specs:
        what, value = given.target or given.arg.name, values.get(given.arg.name)
        if given.target and given.arg.name not in live:
            continue
        if isinstance(value, torch.Tensor) and value.dtype not in DTYPES:
            problems.append(Problem(f"{what}: {value.dtype} has no counterpart here", None))
        elif given.kind.name in OBJECTS or isinstance(value, torch.SymInt):
            problems.append(Problem(f"{what}: it is neither a tensor nor fixed", None))
    if problems:
        raise not_imported(name, problems)


def specs_of(
    program: ExportedProgram, dims: Mapping[str, Any], axes: Axes
) -> dict[str, tuple[str, Spec]]:
    """The inputs by the names of their placeholders: the name of each, and its shape and dtype."""
    tensors: dict[str, torch.Tensor] = {
        node.name: node.meta["val"]
        for node in program.graph.nodes
        if node.name in program.graph_signature.user_inputs
        and isinstance(node.meta.get("val"), torch.Tensor)
    }
    ports: dict[str, str] = {}
    for name in tensors:
        ports[name] = identifier(name, {*RESERVED, *ports.values()})
    called = {ports[name]: value for name, value in tensors.items()}
    found = dims_of(called, program.range_constraints, dims, axes)
    out: dict[str, tuple[str, Spec]] = {}
    for name, value in tensors.items():
        shape = [extent_of(e, found) for e in value.shape]
        out[name] = ports[name], spec(*shape, dtype=DTYPES[value.dtype])
    return out


def entry(
    program: ExportedProgram, held: Contents, inputs: Mapping[str, tuple[str, Spec]], name: str
) -> Any:
    """The function that is traced: the program run on the inputs, outputs by their names."""
    signature = program.graph_signature

    def forward(**given: Tensor) -> dict[str, Tensor]:
        values: list[Any] = []
        for placed in signature.input_specs:
            placeholder = placed.arg.name
            if placeholder in inputs:
                values.append(given[inputs[placeholder][0]])
            elif placeholder in held.reads:
                with located(None):
                    values.append(held.reads[placeholder]())
            else:
                values.append(getattr(placed.arg, "value", None))
        walk = Walk()
        results = walk.run(program.graph_module, values)
        if walk.problems:
            raise not_imported(name, walk.problems)
        return named(program, held, results, {port for port, _ in inputs.values()}, name)

    forward.__name__ = ENTRY
    return forward


def named(
    program: ExportedProgram, held: Contents, results: Any, used: Collection[str], model: str
) -> dict[str, Tensor]:
    """The outputs by their names; buffers that the run changes become the states of the next one."""
    out: dict[str, Tensor] = {}
    specs = program.graph_signature.output_specs
    for given, name, value in zip(specs, port_names(program, used), results, strict=True):
        if name is None:
            held.states[str(given.target)][...] = value
        elif isinstance(value, Tensor):
            out[name] = value
        elif isinstance(value, int | SymbolicSize) and not isinstance(value, bool):
            out[name] = creation.full((), value, i64)
        elif value is None and isinstance(given.arg, TensorArgument):
            raise not_imported(model, [Problem(f"{name}: {NOT_COMPUTED}", None)])
    if held.started is not None:
        held.started[...] = True
    return out
