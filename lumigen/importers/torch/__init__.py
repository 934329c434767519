"""PyTorch's modules and exported programs as models: `torch.export` traces them, each op of ATen calls the frontend.

torch is imported when the first one is read, and not before.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumigen.errors import (
    BadArgument,
    LumigenError,
    PackageMissing,
    SourceLocation,
    first_line,
    located,
    printable,
)
from lumigen.frontend.model import Model
from lumigen.frontend.symbolic import Dim
from lumigen.frontend.trace import fail
from lumigen.importers.listing import Listing
from lumigen.importers.torch.archive import AGAIN, read, refused

if TYPE_CHECKING:
    import torch

Bounds = int | tuple[int, ...] | Dim | str
# What Python raises of an archive whose parts do not fit, such as a node that reads another that there is not.
MISFITS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    dims: Mapping[str, Bounds] | None = None,
    name: str | None = None,
    version: str = "0.1.0",
) -> Model:
    """A module of PyTorch, or a program that `torch.export` made of one, as a model with the entry `forward`.

    `args`, `kwargs` and `dynamic_shapes` are those of `torch.export.export`: example inputs, and which of their axes
    are dims; sizes begin at 1 here, also where the program takes 0. `dims` has for a dim its least and greatest size
    and perhaps what it is a multiple of, the only one, an `lg.Dim`, or the name of another that it equals. Weights
    come with the model, under their names in the `state_dict`.

    NotImported lists all operations that cannot be compiled, with their lines; BadArgument for a dim without a
    greatest size; NotExported for what `torch.export` refuses, in short: its own error is the cause of this one.
    """
    need_torch()
    from torch.export import ExportedProgram

    from lumigen.importers.torch.exported import export
    from lumigen.importers.torch.model import model_of
    from lumigen.importers.torch.ports import axis_names, model_name

    if isinstance(module, ExportedProgram):
        return model_of(module, name or "model", dims or {}, {}, version)
    if not callable(getattr(module, "forward", None)):
        value, expected = f"of type {type(module).__name__}", "a torch.nn.Module or ExportedProgram"
        raise fail(BadArgument, op="from_torch", name="module", value=value, expected=expected)
    _check_examples(module.forward, args, kwargs or {})
    axes = axis_names(module.forward, args, kwargs or {}, dynamic_shapes)
    program = export(module, args, kwargs, dynamic_shapes)
    return model_of(program, name or model_name(type(module).__name__), dims or {}, axes, version)


def _check_examples(forward: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """BadArgument where a module cannot be called with the example inputs."""
    if not isinstance(args, (tuple, list)):
        value, expected = f"of type {type(args).__name__}", "a tuple of example inputs"
        raise fail(BadArgument, op="from_torch", name="args", value=value, expected=expected)
    try:
        inspect.signature(forward).bind(*args, **kwargs)
    except TypeError as e:
        expected = "the example inputs that forward() takes, by place and by name"
        value = f"these: {e}"
        raise fail(
            BadArgument, op="from_torch", name="args", value=value, expected=expected
        ) from None


def from_pt2(path: Path, dims: Mapping[str, Bounds], *, trust: bool) -> Model:
    """The model of an archive that `torch.export.save` wrote.

    ModelFileError without `trust`, and where the file is no such archive.
    """
    with _program(path, trust=trust) as (program, name):
        model = from_torch(program, dims=dims, name=name)
        model.source = path.name
        return model


def explained(path: Path, dims: Mapping[str, Bounds], *, trust: bool) -> Listing:
    """What is in an archive, and all that cannot be compiled; errors as of `from_pt2`."""
    with _program(path, trust=trust) as (program, name):
        from lumigen.importers.torch.explaining import listed

        return listed(program, name, dims)


@contextmanager
def _program(path: Path, *, trust: bool) -> Generator[tuple[Any, str]]:
    """The program of an archive and its name; what does not fit in it while it is imported is an error of the file."""
    need_torch()
    from lumigen.importers.torch.ports import model_name

    program = read(path, trust=trust)
    try:
        with located(ArchivePlace(str(path), 0)):
            yield program, model_name(path.stem)
    except LumigenError:
        raise
    except MISFITS as e:
        why = f"its parts do not fit ({type(e).__name__}: {first_line(e)[:80].rstrip('.')})"
        raise refused(path, why, AGAIN) from e


class ArchivePlace(SourceLocation):
    """A whole archive, where a program does not say of which line something is."""

    @property
    def spot(self) -> str:
        return ""

    def __str__(self) -> str:
        return printable(self.file)


def need_torch() -> None:
    """PackageMissing where PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise PackageMissing(op="from_torch", package="torch")
