"""filled: the stores of a loop, with the values that they need in place.

Before: stores over the axes of a scope.  After: statements. What vectors store as integers stays what lanes have of it
until then: floats, or integers of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from lumigen.condition import Cmp
from lumigen.dtype import f32, i32
from lumigen.index import Axis
from lumigen.lower.scope import Scope
from lumigen.lower.vector_forms import whole_floats
from lumigen.ops import Op
from lumigen.region import Expr, Store, prim
from lumigen.tile import StoreTile, whole_of


def fill(scope: Scope, stores: Sequence[Store], lanes: Axis | None, where: tuple[Cmp, ...]) -> None:
    """The stores of a loop, over `lanes` or point by point, where these conditions hold."""
    held = [_in_lanes(s, scope) if lanes else None for s in stores]
    values = scope.values([x or s.value for x, s in zip(held, stores, strict=True)])
    for s, x, value in zip(stores, held, values, strict=True):
        if x is not None and x.dtype is f32:
            value = prim(Op.CONTIGUOUS, (value,), i32)  # noqa: PLW2901
        if x is not None and s.dst.dtype is not value.dtype:  # a store of vectors widens
            value = prim(Op.CONTIGUOUS, (value,), s.dst.dtype)  # noqa: PLW2901
        scope.stmts.append(StoreTile(s.dst, s.at, value, lanes, where))


def _in_lanes(s: Store, scope: Scope) -> Expr | None:
    """What lanes have of integers that vectors store: themselves in 32 bits, or the floats of a team that they cast."""
    whole = whole_of(s.value, s.dst.dtype)
    if whole is None or i32 in scope.dtypes:
        return whole
    return whole_floats(whole) if scope.team else None
