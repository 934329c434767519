# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""faults: what PyTorch raises of a module that it cannot export, as one message with the line of its author."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from lumigen.errors import LumigenError, NotExported, SourceLocation
from lumigen.importers.torch.lines import FRAME, innermost
from lumigen.importers.torch.problems import Problem, not_imported

DECIDED = (
    "Python decides here by a value that is known only when the model runs; torch.where and torch.cond decide in the "
    "model, and as an index such a value stays in it with an axis: x[i[None]]"
)
LONGEST = 240  # characters of PyTorch's text
# What follows tells of PyTorch's own workings.
END = re.compile(
    r" (For more information|If you're using|If you don't|See http|You can|Alternatively, you).*"
)
ASSIGNED = re.compile(r"The tensor attributes? (.+?) (?:was|were) assigned during export")
# What to do, by a part of PyTorch's text.
REMEDIES = (
    ("must always be equal", "Give both sizes one torch.export.Dim."),
    (
        "code specialized it",
        "Give it a fixed size, or rewrite the line that decides it; an example of size 1 fixes a size too.",
    ),
    ("is mutated in the forward", "register_buffer makes it a state of the model."),
    ("aliasing", "Return a copy: x.clone()."),
)
OTHERWISE = (
    "Call the module on the example inputs: where that works, rewrite the line for torch.export."
)
OWN = str(Path(__file__).parent.parent.parent)


def fault(module: Any, name: str, error: Exception) -> LumigenError:
    """What to say where torch.export refuses a module or a program."""
    frames = [tuple(f) for f in traceback.extract_tb(error.__traceback__)]
    frames = [f for f in frames if not str(f[0]).startswith(OWN)]
    if isinstance(error, GuardOnDataDependentSymNode):
        return not_imported(name, [Problem(DECIDED, innermost(frames))])
    told = str(error)
    said = innermost([f for f in FRAME.findall(told) if "site-packages" not in f[0]])
    where = said or own_line(frames) or first_line_of(module)
    remedy = next((text for part, text in REMEDIES if part in told), OTHERWISE)
    return NotExported(where=where, model=name, why=shortened(error), remedy=remedy)


def own_line(frames: Iterable[tuple[Any, ...]]) -> SourceLocation | None:
    """The innermost line that is not of an installed package."""
    return innermost([f for f in frames if "site-packages" not in str(f[0])])


def first_line_of(module: Any) -> SourceLocation | None:
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return SourceLocation(code.co_filename, code.co_firstlineno, "forward") if code else None


def shortened(error: Exception) -> str:
    """What PyTorch says, in a line: of a list of violated constraints the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    listed = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    text = lines[0] if lines else type(error).__name__
    if listed and text.startswith("Constraints violated"):
        text = listed[0]
    elif text.endswith(":") and len(lines) > 1:
        text = f"{text} {lines[1]}"
    return END.sub("", " ".join(text.split()))[:LONGEST].rstrip(". ")


def refuse_assigned(module: torch.nn.Module, name: str, warned: Iterable[Any]) -> None:
    """NotExported where a run assigns a tensor that the module has: PyTorch drops what is assigned."""
    for warning in warned:
        found = ASSIGNED.search(str(warning.message))
        held = [p for p in (found[1].split(", ") if found else []) if is_tensor(module, p)]
        if held:
            why = (
                f"forward assigns {held[0]}, which is no buffer, and the next run would not see it"
            )
            remedy = "register_buffer makes it a state of the model."
            raise NotExported(where=first_line_of(module), model=name, why=why, remedy=remedy)


def is_tensor(module: Any, path: str) -> bool:
    """Whether a path from `self` names a tensor."""
    for part in path.split(".")[1:]:
        module = getattr(module, part, None)
    return isinstance(module, torch.Tensor)


def refuse_shared(program: torch.export.ExportedProgram, name: str) -> None:
    """NotExported where buffers share memory: who changes one changes the other, which PyTorch cannot express."""
    seen: dict[int, str] = {}
    buffers = program.graph_signature.inputs_to_buffers.values()
    for target in buffers:
        value = program.state_dict.get(target, program.constants.get(target))
        if isinstance(value, torch.Tensor) and value.numel():
            first = seen.setdefault(value.untyped_storage().data_ptr(), target)
            if first != target:
                why = (
                    f"the buffers {first} and {target} share memory, and a run changes one of them"
                )
                raise NotExported(model=name, why=why, remedy="Give each its own: x.clone().")
