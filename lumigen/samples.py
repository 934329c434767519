"""samples: inputs of a model, as a user gives them for calibration: calls of one entry, in order.

Arrays are the inputs of an entry by name, for one call, or for as many as a dimension more in front of each says.
A text is what a program around the model would read of it: parts of it, one after the other in one context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from lumigen.application import TextProgram
from lumigen.errors import BadArgument, BadInput, FileRefused
from lumigen.frontend import Traced
from lumigen.graph import Graph
from lumigen.interp.graph import bind_dims, ports
from lumigen.missing import advice
from lumigen.program import Port
from lumigen.tokenizer import encode
from lumigen.weights import Array, open_weights

Given: TypeAlias = str | Path | Mapping[str, Any]

ARRAYS = (".npz", ".safetensors")
HELD = 5  # one of so many is held back
MOST_HELD = 256  # tokens of a text: each is a call
LEAST_TOKENS = 2


@dataclass(frozen=True)
class Sample:
    """One call. It begins with new states or goes on; what is held back says how good a calibration is."""

    inputs: Mapping[str, Array]
    is_new: bool = True
    is_held: bool = False


@dataclass(frozen=True)
class Samples:
    """Calls of an entry, in order: first those that calibrate, then those that are held back."""

    entry: str
    calls: tuple[Sample, ...]

    @property
    def held(self) -> int:
        """How many are held back."""
        return sum(call.is_held for call in self.calls)

    @property
    def measured(self) -> tuple[Sample, ...]:
        """Those that are held back, all where none is, and what comes before them in the context of the first one."""
        first = len(self.calls) - self.held if self.held else 0
        begin = max(i for i in range(first + 1) if self.calls[i].is_new)
        return self.calls[begin:]


def samples(traced: Traced, given: Given) -> Samples:
    """The calls that a user gives: arrays by name, a file of these (.npz, .safetensors), or a file of text.

    The last fifth is held back; of a text that is at most 256 tokens, in calls of one token each. BadArgument for
    what is no such file, for names that are not those of an entry's inputs, for numbers that are not finite, and for
    a text where the model has no tokenizer; BadInput for an input that does not fit; FileRefused
    for a path that is no file.
    """
    if isinstance(given, Mapping):
        return _of_arrays(traced, dict(given), "the arrays")
    path = Path(given)
    if not path.is_file():
        why = "it is no regular file" if path.exists() else "there is no such file"
        remedy = advice(path, f"Name a file of text, {' or '.join(ARRAYS)}.")
        raise FileRefused(command="compile", file=path, why=why, remedy=remedy)
    if path.suffix in ARRAYS:
        opened = open_weights(path)
        return _of_arrays(traced, {name: opened[name] for name in opened}, str(path))
    if traced.text is None:
        expected = f"inputs of {_entries(traced)}, in a file that ends in {' or '.join(ARRAYS)}"
        _refuse(f"{path}, a text: no tokenizer is of this model's program", expected)
    return _of_text(traced, traced.text, path)


def _refuse(value: str, expected: str) -> NoReturn:
    raise BadArgument(op="compile", name="calibrate", value=value, expected=expected)


def _entries(traced: Traced) -> str:
    """The entries and their inputs, for errors."""
    each = (f"{name}({', '.join(map(_declared, ports(g)))})" for name, g in traced.entries)
    return " or ".join(each)


def _declared(port: Port) -> str:
    return f"{port.name}: {port.dtype}[{', '.join(map(str, port.shape))}]"


# --- arrays ---------------------------------------------------------------------------------------


def _of_arrays(traced: Traced, arrays: dict[str, Any], source: str) -> Samples:
    found = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    fitting = [(n, g) for n, g in traced.entries if {p.name for p in ports(g)} == found.keys()]
    if not found or not fitting:
        names = ", ".join(sorted(found)) or "nothing"
        _refuse(f"{source} of {names}", f"all inputs of an entry: {_entries(traced)}")
    for name, array in found.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            _refuse(f"{source} with {name}, which has NaN or infinity", "finite numbers")
    wrong: list[BadInput] = []
    for entry, graph in fitting:
        try:
            return Samples(entry, tuple(_held(_calls(graph, found))))
        except BadInput as e:
            facts = {name: e.facts[name] for name in ("name", "got", "expected", "remedy")}
            wrong.append(BadInput(entry=entry, where=None, layer="", **facts))
    raise wrong[0]


def _calls(graph: Graph, arrays: Mapping[str, Array]) -> list[Mapping[str, Array]]:
    """One call, or those that the first dimension of each array counts; BadInput where one does not fit."""
    wanted = ports(graph)
    counts = {arrays[p.name].shape[:1] for p in wanted}
    is_counted = all(arrays[p.name].ndim == len(p.shape) + 1 for p in wanted)
    calls: list[Mapping[str, Array]] = [arrays]
    if is_counted and len(counts) == 1:
        calls = [{n: np.asarray(a[i]) for n, a in arrays.items()} for i in range(*counts.pop())]
    if not calls:
        _refuse("of no call", "one call or more: the first dimension of each array counts them")
    for inputs in calls:
        bind_dims(wanted, inputs)
    return calls


def _held(calls: list[Mapping[str, Array]]) -> Iterator[Sample]:
    count = max(len(calls) // HELD, int(len(calls) > 1))
    for i, inputs in enumerate(calls):
        yield Sample(inputs, is_held=i >= len(calls) - count)


# --- texts ----------------------------------------------------------------------------------------


def _of_text(traced: Traced, program: TextProgram, path: Path) -> Samples:
    ids = encode(program.tokenizer, path.read_bytes(), add_special=False, parse_special=False)
    if len(ids) < LEAST_TOKENS:
        _refuse(f"{path}, a text of {len(ids)} tokens", "a text of some thousand tokens")
    entry = program.prefill.entry
    wanted = {port.name: port for port in ports(dict(traced.entries)[entry])}
    of_ids, of_position = wanted[program.prefill.ids], wanted[program.prefill.position]

    def inputs(part: list[int], position: int) -> dict[str, Array]:
        line = np.array(part, of_ids.dtype.numpy).reshape([*[1] * (len(of_ids.shape) - 1), -1])
        return {of_ids.name: line, of_position.name: np.array(position, of_position.dtype.numpy)}

    parts = _parts(program, ids)
    return Samples(entry, tuple(Sample(inputs(p.ids, p.at), p.at == 0, p.is_held) for p in parts))


class TextPart(NamedTuple):
    """Tokens of one call, and the position of the first of them in its context."""

    ids: list[int]
    at: int
    is_held: bool


def _parts(program: TextProgram, ids: list[int]) -> Iterator[TextPart]:
    """Contexts as long as the model has them, each with what comes before a text; what is held back token by token."""
    before = list(program.tokenizer.before)
    held = len(ids) - min(max(len(ids) // HELD, 1), MOST_HELD)
    room = program.length - len(before)
    for start in range(0, len(ids), room):
        text = before + ids[start : start + room]
        first = held - start + len(before)  # of this context that is held back
        at = 0
        while at < len(text):
            end = at + 1 if at >= first else min(at + program.chunk, first, len(text))
            yield TextPart(text[at:end], at, at >= first)
            at = end
