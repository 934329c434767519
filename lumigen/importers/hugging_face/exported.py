# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""exported: a module of `transformers` as torch.export gives it, with the entries that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lumigen.frontend import Model, TextGeneration
from lumigen.importers.hugging_face.original import quiet
from lumigen.importers.torch.model import Called, model_with
from lumigen.importers.torch.problems import Problem
from lumigen.importers.torch.sizes import Axes


@dataclass(frozen=True)
class Exported:
    """The program, and what `model_with` needs of it; `fixed` are sizes that could have been dims."""

    program: Any
    name: str
    entries: tuple[Called, ...]
    axes: Axes
    apps: tuple[TextGeneration, ...] = ()
    prefix: str = ""
    fixed: tuple[tuple[str, int], ...] = ()


def built(e: Exported, noted: list[Problem] | None = None) -> Model:
    """The model, traced; NotImported for what cannot be compiled, all of which `noted` gets."""
    with quiet():
        return model_with(
            e.program, e.name, e.entries, e.axes, apps=e.apps, prefix=e.prefix, noted=noted
        )
