# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""exported: a module as a program without effects, of ops that have a row as far as PyTorch can decompose it."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from lumigen.importers.torch.aten import reason_of, row_of
from lumigen.importers.torch.lines import innermost
from lumigen.importers.torch.problems import Problem, not_imported

DECIDED = (
    "Python decides here by a value that is known only when the model runs; "
    "torch.where and torch.cond decide in the model"
)


def export(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> torch.export.ExportedProgram:
    """torch.export of a module; NotImported for a line at which Python decides by values, any other error as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(
                module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes
            )
    except GuardOnDataDependentSymNode as e:
        where = innermost([tuple(frame) for frame in traceback.extract_tb(e.__traceback__)])
        raise not_imported(type(module).__name__, [Problem(DECIDED, where)]) from e


def functional(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without ops in place, and without ops that have no row where PyTorch has a decomposition.

    Composites that have a row (attention, norms, convolutions) stay as they are: those are what is fused best.
    """
    table = {
        op: rule for op, rule in torch.export.default_decompositions().items() if not is_known(op)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.run_decompositions(table)


def is_known(op: Any) -> bool:
    """Whether an op has a row, or a reason."""
    return row_of(str(op)) is not None or reason_of(str(op)) is not None
