"""explaining: what an ONNX model holds and what of it cannot be compiled, all of it at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lumigen.errors import DimsWithoutRange, UserError
from lumigen.frontend import Tensor, trace_entry
from lumigen.importers.onnx.importing import entry_of, opened
from lumigen.importers.onnx.ports import example_of, identifier

ANY_SIZE = (1, 64)  # of a dim that nobody has given, to go on with


@dataclass(frozen=True)
class Explained:
    """An ONNX model: its ports as text, how often each operator occurs, and each problem.

    `ranges` are the options that would give all sizes one; empty where none is missing.
    """

    name: str
    versions: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: Mapping[str, int]
    problems: tuple[str, ...]
    ranges: str = ""


def explained(model: Any, dims: Mapping[str, Any], inputs: Mapping[str, Any]) -> Explained:
    """The model walked to its end, problems collected; what depends on one of them is left out."""
    missing: DimsWithoutRange | None = None
    try:
        imported = opened(model, dims, inputs)
    except DimsWithoutRange as e:
        missing = e
        lacking = cast("list[str]", e.facts["dims"])
        imported = opened(model, {**dims, **dict.fromkeys(lacking, ANY_SIZE)}, inputs)
    session = imported.session
    session.problems = []
    entry, found = entry_of(imported)
    try:
        trace_entry(entry, {})
    except UserError as e:  # of the model as a whole, such as an output that is empty
        if found or not session.problems:  # else there are no outputs, for reasons that are listed
            session.problems.append(e)
    if missing is not None:
        missing = _corrected(missing, session.problems)
        session.problems.insert(0, missing)
    return Explained(
        imported.name,
        session.versions,
        tuple(
            f"{name} {s.dtype}[{', '.join(map(str, s.shape))}]" for _, name, s in imported.inputs
        ),
        tuple(_port(name, found) for _, name in imported.outputs),
        dict(session.counts.most_common()),
        tuple(map(str, session.problems)),
        "" if missing is None else str(missing.facts["example"]),
    )


def _corrected(missing: DimsWithoutRange, problems: Sequence[Exception]) -> DimsWithoutRange:
    """The same, without a range for sizes that others of the problems name: 1..64 was tried of each."""
    texts = [str(p) for p in problems]
    names = cast("list[str]", missing.facts["dims"])
    words = {n: rf"\b({re.escape(n)}|{re.escape(identifier(n, ()))})\b" for n in names}
    refused = [n for n in names if any(re.search(words[n], t) for t in texts)]
    return DimsWithoutRange(
        file=missing.facts["file"], dims=names, example=example_of(names, refused)
    )


def _port(name: str, found: Mapping[str, Tensor]) -> str:
    if name not in found:
        return f"{name} (not known)"
    x = found[name]
    return f"{name} {x.dtype}[{', '.join(map(str, x.shape))}]"
