"""stored: what an exported program holds: parameters, buffers and constants, and which of them a run changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lumigen.frontend import creation, nn
from lumigen.frontend.operand import where
from lumigen.frontend.state import NAME, State
from lumigen.frontend.tensor import Tensor
from lumigen.importers.torch.dtypes import DTYPES
from lumigen.weights import as_array

WRITTEN = 16  # elements up to which a constant is written into the program

Read = Callable[[], Tensor]


@dataclass(frozen=True)
class Stored:
    """What a program reads by the names of its placeholders, the states by the names of buffers, and the module of weights."""

    net: nn.Module
    reads: Mapping[str, Read]
    states: Mapping[str, State]
    started: State | None


def stored(program: Any, used: set[str]) -> Stored:
    """What the placeholders stand for that the program uses; tied weights are one."""
    net = nn.Module()
    seen: dict[object, nn.Parameter] = {}
    reads: dict[str, Read] = {}
    states: dict[str, State] = {}
    changed = set(program.graph_signature.buffers_to_mutate.values())
    started = State("_started", (1,), DTYPES[torch.bool])
    starts = False
    for spec in program.graph_signature.input_specs:
        name, target = spec.arg.name, spec.target
        if target is None or name not in used and target not in changed:
            continue
        value = value_of(program, target)
        if target not in changed:
            reads[name] = constant(net, seen, spec, value)
            continue
        states[target] = state = State(state_name(target), value.shape, DTYPES[value.dtype])
        if bool(torch.count_nonzero(value)):
            starts = True
            reads[name] = from_first(started, state, constant(net, seen, spec, value))
        else:
            reads[name] = current(state)
    return Stored(net, reads, states, started if starts else None)


def value_of(program: Any, target: str) -> torch.Tensor:
    """The tensor of a parameter, a buffer or a constant."""
    held = program.state_dict if target in program.state_dict else program.constants
    return held[target]


def constant(
    net: nn.Module, seen: dict[object, nn.Parameter], spec: Any, value: torch.Tensor
) -> Read:
    """What is never written: a weight under the name of the state_dict; what is no state of a module and small, itself."""
    is_weight = spec.kind.name == "PARAMETER" or spec.persistent
    if not is_weight and value.numel() <= WRITTEN:
        array = as_array(value)
        return lambda: creation.tensor(array, dtype=DTYPES[value.dtype])
    memory = (
        value.untyped_storage().data_ptr(),
        value.storage_offset(),
        value.shape,
        value.stride(),
        value.dtype,
    )
    if memory not in seen:
        made = nn.Parameter if spec.kind.name == "PARAMETER" else nn.Buffer
        found = made(*value.shape, dtype=DTYPES[value.dtype])
        found.value = as_array(value)
        seen[memory] = found
    if is_weight:
        net.register_parameter(spec.target, seen[memory])
    else:
        net.register_buffer(spec.target, seen[memory], persistent=False)
    return lambda: seen[memory]


def current(state: State) -> Read:
    """The newest version."""
    return lambda: Tensor(state.edge)


def from_first(started: State, state: State, first: Read) -> Read:
    """The newest version; before the first run of a context, whose states are zeros, what the module holds."""
    return lambda: where(Tensor(started.edge), Tensor(state.edge), first())


def state_name(target: str) -> str:
    """The name of a buffer as a state has it."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", target)
    return name if NAME.fullmatch(name) else f"_{name}"
