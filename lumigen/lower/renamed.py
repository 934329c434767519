"""renamed: a tile program's statements under other names.

Before: statements over axes, numbers and buffers.  After: the same over those that a mapping gives for them. Axes whose
extents mention a number follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from lumigen.condition import Cmp
from lumigen.index import Axis, Dim, Ix, Lookup, ix, lookup
from lumigen.region import Buffer, Expr, Gather, Local, Read, gather, local, read, rebuild
from lumigen.tile import BitPlane, GroupNumbers, GroupScales, Operand, Stmt

_EXPRESSIONS = get_args(Expr)
_PARTS = (*get_args(Stmt), Operand, BitPlane, GroupNumbers, GroupScales, Cmp)


@dataclass
class Renames:
    """What stands for some dims, axes, buffers and locals."""

    dims: Mapping[Dim, Dim]
    axes: dict[Axis, Axis]
    buffers: Mapping[Buffer, Buffer]
    locals: Mapping[str, str]
    expressions: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])

    def body(self, stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
        """The statements under these names."""
        return tuple(self._any(s) for s in stmts)

    def _any(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(self._any(part) for part in x)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(x, Ix):
            return self.index(x)
        if isinstance(x, Axis):
            return self.axis(x)
        if isinstance(x, Buffer):
            return self.buffers.get(x, x)
        if isinstance(x, _EXPRESSIONS):
            return self.value(x)
        if isinstance(x, _PARTS):
            return replace(x, **{f.name: self._any(getattr(x, f.name)) for f in fields(x)})
        return x

    def axis(self, a: Axis) -> Axis:
        if a not in self.axes:
            self.axes[a] = Axis(a.name, self.index(a.extent))
        return self.axes[a]

    def index(self, i: Ix) -> Ix:
        found: dict[Any, Ix] = {}
        for a in i.atoms():
            if isinstance(a, Axis):
                found[a] = ix(self.axis(a))
            elif isinstance(a, Dim) and a in self.dims:
                found[a] = ix(self.dims[a])
            elif isinstance(a, Lookup) and isinstance(a.source, Buffer):
                at = tuple(map(self.index, a.at))
                found[a] = lookup(self.buffers.get(a.source, a.source), at, a.lo, a.hi)
        return i.substitute(found)

    def value(self, e: Expr) -> Expr:
        if e not in self.expressions:
            self.expressions[e] = self._value(e)
        return self.expressions[e]

    def _value(self, e: Expr) -> Expr:
        if isinstance(e, Local):
            return local(
                self.locals.get(e.name, e.name), frozenset(map(self.axis, e.axes)), e.dtype
            )
        if isinstance(e, Read):
            return read(self.buffers.get(e.source, e.source), tuple(map(self.index, e.at)))
        if isinstance(e, Gather):
            at, places = tuple(map(self.index, e.at)), tuple(map(self.value, e.places))
            axes = tuple(map(self.axis, e.axes))
            return gather(self.buffers.get(e.source, e.source), at, axes, places)
        return rebuild(e, self.value, self.index)
