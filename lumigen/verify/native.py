"""What must hold of native kernels that group rows, or order whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lumigen.dtype import DType, i32, i64
from lumigen.region import Expr, Role
from lumigen.tile import GroupPlaces, GroupRows, OrderRows
from lumigen.verify.facts import (
    Facts,
    FactScope,
    broken_indices,
    broken_use,
)
from lumigen.verify.value import broken_value


def broken_native(
    s: OrderRows | GroupPlaces | GroupRows, facts: Facts, scope: FactScope
) -> Iterator[str]:
    """What is wrong with it."""
    is_row = isinstance(s, GroupPlaces)
    yield from _broken_row(s, facts, scope) if is_row else _broken_rows(s, facts, scope)


def _broken_row(s: GroupPlaces, facts: Facts, scope: FactScope) -> Iterator[str]:
    yield from broken_use(s.dst, facts)
    yield from broken_indices((*s.at, s.groups), facts, scope)
    if s.place in scope.axes or scope.lanes is not None:
        yield f"{s.place} has a value already, or there are lanes"
    if s.dst.dtype is not _stored(s) or len(s.at) != len(s.dst.dims):
        yield f"places in {s.dst}, of {s.dst.dtype}, at {s.at}"
    if not s.value.dtype.is_int:
        yield f"groups are numbered by {s.value.dtype}"
    for value in _values(s):
        yield from broken_value(value, facts, replace(scope, axes=scope.axes | {s.place}), None)


def _stored(s: OrderRows | GroupPlaces | GroupRows) -> DType:
    """Places, or sums of values."""
    return i64 if isinstance(s, OrderRows) or s.summed is None else s.summed.dtype


def _values(s: OrderRows | GroupPlaces | GroupRows) -> tuple[Expr, ...]:
    more = None if isinstance(s, OrderRows) else s.summed
    return (s.value,) if more is None else (s.value, more)


def _broken_rows(s: OrderRows | GroupRows, facts: Facts, scope: FactScope) -> Iterator[str]:
    """Every task comes here, and what they leave each other is theirs alone."""
    yield from broken_use(s.dst, facts)
    yield from broken_indices((s.chunks,), facts, scope)
    if scope.given or scope.lanes is not None or {s.row, s.place} & scope.axes:
        yield "not reached by every task, or not once"
    if s.dst.dtype is not _stored(s):
        yield f"places in {s.dst} of {s.dst.dtype}"
    for b in s.shared:
        role = Role.COUNTER if b is s.drawn else Role.WORKSPACE
        yield from broken_use(b, facts)
        if b.role is not role or b.dtype not in (i32, i64, _stored(s)):
            yield f"{b} is no {role.value} of integers, or of sums"
    if isinstance(s, GroupRows):
        yield from broken_indices((s.groups,), facts, scope)
        if not s.value.dtype.is_int:
            yield f"groups are numbered by {s.value.dtype}"
    inside = scope.axes | {s.row, s.place}
    for value in _values(s):
        yield from broken_value(value, facts, replace(scope, axes=inside), None)
