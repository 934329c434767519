"""The ops of ATen: a row for each that is a call of the frontend, a reason for each that is refused.

An op without either is decomposed by PyTorch's own table; one that is not in it is unknown here.
"""

from lumigen.importers.torch.aten.elementwise import ELEMENTWISE
from lumigen.importers.torch.aten.folding import FOLDING
from lumigen.importers.torch.aten.layers import LAYERS
from lumigen.importers.torch.aten.movement import MOVEMENT
from lumigen.importers.torch.aten.recurrent import RECURRENT
from lumigen.importers.torch.aten.refused import REASONS
from lumigen.importers.torch.aten.row import Row, Table

ROWS: Table = {**ELEMENTWISE, **MOVEMENT, **FOLDING, **LAYERS, **RECURRENT}


def row_of(op: str) -> Row | None:
    """The row of an overload such as `add.Tensor`: its own, or that of all overloads."""
    return ROWS.get(op, ROWS.get(op.partition(".")[0]))


def reason_of(op: str) -> str | None:
    """Why an overload is refused; None where no reason is written."""
    return REASONS.get(op, REASONS.get(op.partition(".")[0]))
