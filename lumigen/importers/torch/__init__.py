"""PyTorch's modules and exported programs as models: `torch.export` traces them, and each op of ATen calls the frontend.

torch is imported when the first one is read, and not before.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumigen.errors import BadArgument, ModelFileError
from lumigen.frontend.model import Model
from lumigen.frontend.symbolic import Dim
from lumigen.frontend.trace import fail

if TYPE_CHECKING:
    import torch

TRUST = (
    "torch.export.load unpickles parts of the archive, which can run any code as you. "
    "Pass --trust if you know who made it, or export the module again in Python with lg.from_torch"
)


def from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    dims: Mapping[str, int | tuple[int, int] | Dim] | None = None,
    name: str | None = None,
    version: str = "0.1.0",
) -> Model:
    """A module of PyTorch, or a program that `torch.export` made of one, as a model with the entry `forward`.

    `args`, `kwargs` and `dynamic_shapes` are those of `torch.export.export`: example inputs, and which of their axes are
    dims. `dims` gives a dim its greatest size, both, or is an `lg.Dim`. Weights come with the model, under their names in
    the `state_dict`. NotImported lists all operations that cannot be compiled, with their lines; BadArgument for a dim without
    a greatest size. What `torch.export` raises stays as it is.
    """
    need_torch()
    from torch.export import ExportedProgram

    from lumigen.importers.torch.exported import export
    from lumigen.importers.torch.model import model_of
    from lumigen.importers.torch.ports import axis_names, identifier

    if isinstance(module, ExportedProgram):
        return model_of(module, name or "model", dims or {}, {}, version)
    if not callable(getattr(module, "forward", None)):
        value, expected = f"of type {type(module).__name__}", "a torch.nn.Module or ExportedProgram"
        raise fail(BadArgument, op="from_torch", name="module", value=value, expected=expected)
    axes = axis_names(module.forward, args, kwargs or {}, dynamic_shapes)
    program = export(module, args, kwargs, dynamic_shapes)
    chosen = name or identifier(type(module).__name__.lower(), kind="model")
    return model_of(program, chosen, dims or {}, axes, version)


def from_pt2(
    path: Path, *, trust: bool, dims: Mapping[str, int | tuple[int, int] | Dim], name: str | None
) -> Model:
    """The model of an archive that `torch.export.save` wrote; ModelFileError without `trust`, and where it is none."""
    need_torch()
    import torch

    from lumigen.importers.torch.ports import identifier

    if not path.is_file():
        raise ModelFileError(file=str(path), why="there is no such file", remedy="Correct the path")
    if not trust:
        raise ModelFileError(file=str(path), why="it is not trusted", remedy=f"{TRUST}.")
    try:
        program = torch.export.load(path)
    except Exception as e:  # noqa: BLE001  # a damaged archive raises whatever its reader meets
        why = f"torch.export.load cannot read it: {type(e).__name__}"
        remedy = (
            "Save it again with torch.export.save, and with the version of PyTorch that is here."
        )
        raise ModelFileError(file=str(path), why=why, remedy=remedy) from e
    return from_torch(program, dims=dims, name=name or identifier(path.stem, kind="model"))


def need_torch() -> None:
    """BadArgument where PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        expected = "installed: pip install 'lumigen[torch]'"
        raise fail(
            BadArgument, op="from_torch", name="torch", value="not installed", expected=expected
        )
