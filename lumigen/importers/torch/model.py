# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""model: an exported program as a model, with one entry or with several that differ in their sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument

from lumigen.dtype import i64
from lumigen.errors import located
from lumigen.frontend import creation
from lumigen.frontend.application import TextGeneration
from lumigen.frontend.model import Model, Original
from lumigen.frontend.spec import Spec, spec
from lumigen.frontend.symbolic import SymbolicSize
from lumigen.frontend.tensor import Tensor
from lumigen.importers.torch.dtypes import DTYPES
from lumigen.importers.torch.exported import functional
from lumigen.importers.torch.original import original_of
from lumigen.importers.torch.ports import RESERVED, identifier, port_names
from lumigen.importers.torch.problems import Problem, not_imported
from lumigen.importers.torch.sizes import Axes, dims_of, extent_of
from lumigen.importers.torch.stored import Contents, check_stored, stored
from lumigen.importers.torch.walk import Walk, live_nodes

ENTRY = "forward"
OBJECTS = ("CUSTOM_OBJ", "TOKEN")
NOT_COMPUTED = "it is a result that only a backward pass reads, and is not computed here"


@dataclass(frozen=True)
class Called:
    """An entry of a program: its name, dims, those that are one number here, and the ranges of integer inputs."""

    name: str
    dims: Mapping[str, Any]
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    ranges: Mapping[str, tuple[int, Any]] = field(default_factory=dict[str, tuple[int, Any]])


def model_of(
    given: ExportedProgram,
    name: str,
    dims: Mapping[str, Any],
    axes: Axes,
    version: str,
) -> Model:
    """The model with one entry, traced; NotImported with all that is in the way."""
    return model_with(given, name, (Called(ENTRY, dims),), axes, version)


def model_with(
    given: ExportedProgram,
    name: str,
    entries: Sequence[Called],
    axes: Axes,
    version: str = "0.1.0",
    apps: Sequence[TextGeneration] = (),
    prefix: str = "",
    noted: list[Problem] | None = None,
) -> Model:
    """The model with these entries, which share weights and states; traced, as `model_of`.

    The names of weights lose `prefix`. `noted` gets every problem, where an error has room for a few.
    """
    check_stored(given)
    program = functional(given, name)
    live = {node.name for node in live_nodes(program.graph)}
    problems = [] if noted is None else noted
    refuse_types(program, name, live, problems)
    held = stored(program, live)
    model = Model(name, held.net, version, rename=lambda n: n.removeprefix(prefix), apps=apps)
    originals: dict[str, Original] = {}
    for called in entries:
        inputs = specs_of(program, called, axes)
        function = entry(program, held, inputs, model, problems)
        function.__name__ = called.name
        model.entry(**dict(inputs.values()))(function)
        ports = {key: port for key, (port, _) in inputs.items()}
        originals[called.name] = original_of(given, program, ports)
    model.originals = originals
    model.source = "a module of PyTorch"
    model.trace()
    return model


def refuse_types(
    program: ExportedProgram, name: str, live: set[str], problems: list[Problem]
) -> None:
    """What has no counterpart: types of inputs and of weights that are read, and objects that are no tensors."""
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


def specs_of(program: ExportedProgram, called: Called, axes: Axes) -> dict[str, tuple[str, Spec]]:
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
    shaped = {ports[name]: value for name, value in tensors.items()}
    dims = dims_of(shaped, program.range_constraints, called.dims, axes)
    found = {symbol: called.fixed.get(dim.name, dim) for symbol, dim in dims.items()}
    out: dict[str, tuple[str, Spec]] = {}
    for name, value in tensors.items():
        shape = [extent_of(e, found) for e in value.shape]
        range = called.ranges.get(ports[name])
        out[name] = ports[name], spec(*shape, dtype=DTYPES[value.dtype], range=range)
    return out


def entry(
    program: ExportedProgram,
    held: Contents,
    inputs: Mapping[str, tuple[str, Spec]],
    model: Model,
    problems: list[Problem],
) -> Any:
    """The function of a model that is traced: the program run on the inputs, outputs by their names."""
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
        walk = Walk(model.values)
        results = walk.run(program.graph_module, values)
        if walk.problems:
            problems.extend(walk.problems)
            raise not_imported(model.name, walk.problems)
        return named(program, held, results, {port for port, _ in inputs.values()}, model.name)

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
