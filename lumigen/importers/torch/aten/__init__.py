"""The ops of ATen: a row for each that is a call of the frontend, a reason for each that is refused.

Ops of other libraries have their namespace in front: `transformers.grouped_mm_fallback`.

An op without either is decomposed by PyTorch's own table; one that is not in it is unknown here.
"""

from collections.abc import Mapping
from typing import TypeVar

from lumigen.importers.torch.aten.elementwise import ELEMENTWISE
from lumigen.importers.torch.aten.folding import FOLDING
from lumigen.importers.torch.aten.layers import LAYERS
from lumigen.importers.torch.aten.movement import MOVEMENT
from lumigen.importers.torch.aten.recurrent import RECURRENT
from lumigen.importers.torch.aten.refused import HIGHER, REASONS
from lumigen.importers.torch.aten.row import Row, Table
from lumigen.importers.torch.aten.solving import SOLVING

T = TypeVar("T")

ROWS: Table = {**ELEMENTWISE, **MOVEMENT, **FOLDING, **LAYERS, **RECURRENT, **SOLVING}


def row_of(op: str) -> Row | None:
    """The row of an overload such as `aten.add.Tensor`: its own, or that of all overloads."""
    return found_in(ROWS, op)


def reason_of(op: str) -> str | None:
    """Why an overload is refused; None where no reason is written."""
    return found_in(REASONS, op) or HIGHER.get(op)


def found_in(table: Mapping[str, T], op: str) -> T | None:
    """What a table says of an overload, or of all overloads of its op."""
    name = op.removeprefix("aten.")
    return table.get(name, table.get(name.rpartition(".")[0]))
