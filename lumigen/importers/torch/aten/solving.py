# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
"""solving: the ops of ATen that factor matrices and solve by them, as calls of the frontend."""

from __future__ import annotations

from typing import Any

from lumigen.frontend import functions, linalg
from lumigen.frontend.tensor import Tensor
from lumigen.importers.torch.aten.row import Table, same

OF_TORCH = "cholesky_inverse cholesky_solve geqrf lu_unpack ormqr triangular_solve"
OF_LINALG = """
cholesky cholesky_ex det householder_product inv inv_ex lu lu_factor lu_factor_ex lu_solve matrix_exp qr solve
solve_triangular tensorinv tensorsolve
"""


def solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Any, ...]:
    """X of A X = B, or of X A = B; the factors are left out, which only a backward pass reads."""
    del check_errors
    found = linalg.solve_ex(a, b, left=left)
    return found[0], None, None, found[1]


SOLVING: Table = {
    **same(functions, OF_TORCH),
    **{f"linalg_{name}": row for name, row in same(linalg, OF_LINALG).items()},
    "cholesky": lambda x, upper=False: linalg.cholesky(x, upper=upper),
    "orgqr": linalg.householder_product,
    "_linalg_det": lambda x: (linalg.det(x), None, None),
    "_linalg_slogdet": lambda x: (*linalg.slogdet(x), None, None),
    "_linalg_solve_ex": solve_ex,
}
