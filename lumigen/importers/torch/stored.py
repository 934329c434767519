# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""stored: what an exported program holds: parameters, buffers and constants, and which of them a run changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lumigen.dtype import boolean
from lumigen.errors import BadArgument
from lumigen.frontend import creation, nn
from lumigen.frontend.operand import where
from lumigen.frontend.state import NAME, State
from lumigen.frontend.tensor import Tensor
from lumigen.frontend.trace import fail
from lumigen.importers.torch.dtypes import DTYPES
from lumigen.weights import named_array

WRITTEN = 16  # elements up to which a constant is written into the program

Read = Callable[[], Tensor]


@dataclass(frozen=True)
class Contents:
    """What a program reads, by its placeholders; its states, by their buffers; `net` has the weights.

    `started` is false in the first run of a context, if a state does not begin with zeros.
    """

    net: nn.Module
    reads: Mapping[str, Read]
    states: Mapping[str, State]
    started: State | None


def stored(program: Any, used: set[str]) -> Contents:
    """What the placeholders stand for that the program uses; tied weights are one."""
    constants = Constants(program)
    started = State("_started", (), boolean)
    starts = False
    reads: dict[str, Read] = {}
    states: dict[str, State] = {}
    signature = program.graph_signature
    changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
    for given in signature.input_specs:
        name, target = given.arg.name, given.target
        if target in changed:
            value = constants.value(target)
            state = State(state_name(target), value.shape, DTYPES[value.dtype])
            states[target] = state
            reads[name] = newest(state)
            if bool(torch.count_nonzero(value)):
                starts = True
                reads[name] = from_first(started, state, constants.read(given))
        elif target is not None and name in used:
            reads[name] = constants.read(given)
    return Contents(constants.net, reads, states, started if starts else None)


def check_stored(program: Any) -> None:
    """BadArgument where a stored tensor is not of the type and shape that the program reads."""
    read = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    held = {**program.constants, **program.state_dict}
    for given in program.graph_signature.input_specs:
        here, there = held.get(given.target), read.get(given.arg.name)
        if not (isinstance(here, torch.Tensor) and isinstance(there, torch.Tensor)):
            continue
        if (here.dtype, here.shape) != (there.dtype, there.shape):
            value, expected = (f"{t.dtype} of shape {list(t.shape)}" for t in (here, there))
            raise fail(
                BadArgument,
                op="from_torch",
                name=str(given.target)[:60],
                value=value,
                expected=f"{expected}, as the program reads it",
            )


class Constants:
    """What no run of a program changes; each weight is made when it is first read."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.net = nn.Module()
        self.names: dict[object, str] = {}  # the first name of those that a tensor has
        for target, value in program.state_dict.items():
            self.names.setdefault(place(value), target)
        self.made: dict[str, nn.Parameter] = {}

    def value(self, target: str) -> torch.Tensor:
        """The tensor of a parameter, a buffer or a constant."""
        held = self.program.state_dict
        return held[target] if target in held else self.program.constants[target]

    def read(self, given: Any) -> Read:
        """What no run changes: a weight under its name, or a small constant of the program itself."""
        value = self.value(given.target)
        dtype, array = DTYPES[value.dtype], named_array("from_torch", given.target, value)
        if not value.numel():  # which no weight is
            return lambda: creation.zeros(value.shape, dtype=dtype)
        is_weight = given.target in self.program.state_dict
        if not is_weight and value.numel() <= WRITTEN:
            return lambda: creation.tensor(array, dtype=dtype)
        name = self.names.get(place(value)) or str(given.target)
        if name not in self.made:
            kind = nn.Parameter if given.kind.name == "PARAMETER" else nn.Buffer
            found = self.made[name] = kind(*value.shape, dtype=dtype)
            found.value = array
            if isinstance(found, nn.Buffer):
                found.persistent = is_weight
            self.net.register_parameter(name, found)
        return lambda: self.made[name]


def place(value: torch.Tensor) -> object:
    """What two names of one tensor have alike."""
    memory = value.untyped_storage().data_ptr(), value.storage_offset()
    return memory, value.shape, value.stride(), value.dtype


def newest(state: State) -> Read:
    """The newest version."""
    return lambda: Tensor(state.edge)


def from_first(started: State, state: State, first: Read) -> Read:
    """The newest version; in the first run of a context, whose states are zeros, what the module holds."""
    return lambda: where(Tensor(started.edge), Tensor(state.edge), first())


def state_name(target: str) -> str:
    """The name of a buffer as a state has it."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", target)
    return name if NAME.fullmatch(name) else f"_{name}"
