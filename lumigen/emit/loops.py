"""What the rounds of a loop over layers differ in, as a struct with a member for each and a function that fills it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lumigen.emit.contexts import LoopContext, MemberContext
from lumigen.emit.cxx import integer
from lumigen.emit.reroll import Column, Place, Rolled, launches_of
from lumigen.names import common_parts, identifier, short_names
from lumigen.program import (
    ALIGNMENT,
    Argument,
    CompiledModel,
    CounterArg,
    PartArg,
    StateArg,
    WeightArg,
)


@dataclass(frozen=True)
class Changing:
    """How an argument that changes is spelled: which tensor it is, from where on; None for what stays."""

    which: str | None
    begin: str | None


@dataclass(frozen=True)
class LayerLoop:
    """The table of a loop, and the arguments of its launches that come from there."""

    context: LoopContext
    changing: Mapping[Place, Changing]
    labels: Mapping[Place, str]  # what the names of all rounds have in common


@dataclass(frozen=True)
class _Member:
    label: str  # with dots
    values: tuple[int, ...]  # by round
    first: str  # the value of the first round as text
    last: str
    is_row: bool  # of the table of weights


def loop_of(model: CompiledModel, rolled: Rolled, number: int, taken: frozenset[str]) -> LayerLoop:
    """The loop that is the `number`-th of its entry which has a table."""
    found = [_members(model, rolled, column) for column in rolled.columns]
    members = [m for pair in found for m in pair if m is not None]
    names = iter(short_names([m.label for m in members]))
    suffix = str(number + 1) if number else ""
    variable = identifier(f"layer{suffix}", taken)
    counter = identifier("i", taken)
    changing: dict[Place, Changing] = {}
    spelled: list[MemberContext] = []
    for column, pair in zip(rolled.columns, found, strict=True):
        texts: list[str | None] = []
        for m in pair:
            if m is None:
                texts.append(None)
                continue
            name = identifier(next(names))
            texts.append(f"{variable}.{name}")
            spelled.append(_member(m, name, variable, counter))
        changing |= dict.fromkeys(column.places, Changing(*texts))
    rows = [(m.last, s.name) for m, s in zip(members, spelled, strict=True) if m.is_row]
    context = LoopContext(
        counter=counter,
        rounds=rolled.rounds,
        variable=variable,
        type=identifier(f"Layer{suffix}", taken),
        function=identifier(f"layer{suffix}_at", taken),
        members=tuple(spelled),
        last=rows[-1] if rows else None,
    )
    labels = {p: _label(model, rolled, c) for c in rolled.columns for p in c.places}
    return LayerLoop(context, changing, labels)


def _members(
    model: CompiledModel, rolled: Rolled, column: Column
) -> tuple[_Member | None, _Member | None]:
    """(which tensor a column is, from which element on) where these change."""
    label = _label(model, rolled, column)
    rows = {s.name: i for i, s in enumerate(model.weights)}
    offsets = dict(zip((s.name for s in model.states), state_offsets(model)[0], strict=True))
    constants = state_names(model)
    which: list[tuple[int, str]] = []
    begins: list[int] = []
    for a in column.arguments:
        match a:
            case WeightArg(stored, base):
                which.append((rows[stored], f"k_{stored}"))
                begins.append(base)
            case StateArg(name):
                which.append((offsets[name], f"k_{constants[name]}"))
            case CounterArg(number):
                begins.append(number)
            case PartArg(base=base):
                begins.append(int(base.const))
            case _:
                raise AssertionError(f"{a} cannot change from round to round")
    is_row = isinstance(column.arguments[0], WeightArg)
    return (
        _changed(label, [v for v, _ in which], [t for _, t in which], is_row=is_row),
        _changed(f"{label}.begin", begins, [*map(integer, begins)], is_row=False),
    )


def _changed(
    label: str, values: Sequence[int], texts: Sequence[str], *, is_row: bool
) -> _Member | None:
    if len(set(values)) < 2:
        return None
    return _Member(label, tuple(values), texts[0], texts[-1], is_row)


def _label(model: CompiledModel, rolled: Rolled, column: Column) -> str:
    """What the tensors of a column have in common in their names, else the parameter of the kernel."""
    weights = {s.name: s.weight.name for s in model.weights}
    names = [n for a in column.arguments if (n := _name_of(a, weights)) is not None]
    launch, argument = column.places[0]
    kernel = model.kernel(launches_of(rolled.groups)[launch].kernel)
    return common_parts(names) or kernel.parameters[argument].name


def _name_of(a: Argument, weights: Mapping[str, str]) -> str | None:
    match a:
        case WeightArg(stored):
            return weights[stored]
        case StateArg(name):
            return name
        case _:
            return None


def _member(m: _Member, name: str, variable: str, counter: str) -> MemberContext:
    """Its value as a function of the round: a step from row to row where there is one, else listed."""
    ctype = "int32_t" if m.is_row else "int64_t"
    steps = {b - a for a, b in zip(m.values, m.values[1:], strict=False)}
    if len(steps) > 1:
        return MemberContext(
            name, ctype, f"{variable}_{name}[{counter}]", tuple(map(integer, m.values))
        )
    step = steps.pop()
    factor = str(abs(step)) if m.is_row else f"INT64_C({abs(step)})"
    product = counter if abs(step) == 1 and m.is_row else f"{factor} * {counter}"
    return MemberContext(name, ctype, f"{m.first} {'-' if step < 0 else '+'} {product}", ())


# ---- states ----


def state_names(model: CompiledModel) -> dict[str, str]:
    """Each state's name as a C identifier."""
    out: dict[str, str] = {}
    for s in model.states:
        taken = frozenset(out.values())
        out[s.name] = identifier("state_" + re.sub(r"\W", "_", s.name), taken)
    return out


def state_offsets(model: CompiledModel) -> tuple[list[int], int]:
    """Where each state begins in the block of a context, in bytes, and where they end."""
    offsets: list[int] = []
    end = 0
    for s in model.states:
        offsets.append(end)
        end += -(-s.bytes // ALIGNMENT) * ALIGNMENT
    return offsets, end
