"""estimates: quotients and powers that end in numbers of 16 bits, where a device has them in less time.

Before: a tile program whose quotients are rounded once, to f32, and whose powers have exponents that are not rounded.
After: the same with `near_quotient` and `near_recip`, which are up to three units in the last place apart, and with
`near_exp2` of rounded products, wherever a value reaches nothing but numbers that are rounded to 16 bits, and nothing
that jumps: no whole part, no place, and no comparison but those of choices that do not jump (`continuous`). A quotient
in a sum whose logarithm or root is taken is rounded once, too: it may be at the edge of what has one. Folds around
products say by themselves how their powers round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

import numpy as np

from lumigen.dtype import bf16, f16, f32
from lumigen.lower.continuous import is_continuous
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Const,
    Expr,
    Gather,
    Intrinsic,
    Local,
    Prim,
    Random,
    Region,
    buffers_of,
    children,
    const,
    intrinsic,
    prim,
    rebuild,
    walk,
)
from lumigen.tile import (
    BitPlane,
    GroupNumbers,
    GroupScales,
    Let,
    Multiply,
    Operand,
    Stmt,
    Streamed,
    TileProgram,
)

SMOOTH = frozenset({"max_ordered", "min_ordered", "max_nan", "min_nan", "abs", "power"})
_STATEMENTS = get_args(Stmt)
_PARTS = (Operand, Streamed, BitPlane, GroupNumbers, GroupScales)


def estimated(program: TileProgram, meaning: Region) -> TileProgram:
    """The program of a region, all of whose results are of 16 bits; any other one as it is."""
    if not all(s.dst.dtype in (f16, bf16) for s in meaning.stores):
        return program
    if not any(isinstance(e, Prim) and e.op in (Op.RECIP, Op.EXP2) for e in walk(_values(program))):
        return program
    powers = not any(isinstance(s, Multiply) for s in program.statements())
    edges = _at_an_edge(program)
    return replace(program, body=_Estimates(_jumping(program), edges, powers).body(program.body))


def _values(program: TileProgram) -> list[Expr]:
    return [e for s in program.statements() for e in _own(s) if isinstance(e, Expr)]


def _own(value: Any) -> Iterator[Buffer | Expr]:
    """The buffers, names and values in the fields of a statement, less those of the statements in it."""
    if isinstance(value, Buffer | Expr):
        yield value
    elif isinstance(value, tuple):
        for x in value:  # pyright: ignore[reportUnknownVariableType]
            yield from () if isinstance(x, _STATEMENTS) else _own(x)
    elif isinstance(value, (*_STATEMENTS, *_PARTS)):
        for f in fields(value):
            yield from _own(getattr(value, f.name))


# ---- what has to be rounded once ----


@dataclass
class _Jumping:
    """Names, buffers and values from which something is made that jumps where a number is a little less."""

    names: set[str | Buffer] = field(default_factory=set[str | Buffer])
    values: set[Expr] = field(default_factory=set[Expr])

    def add(self, e: Expr) -> None:
        for x in walk([e]):
            self.values.add(x)
            self.names.update(_names(x))


def _names(e: Expr) -> tuple[str | Buffer, ...]:
    """What a node is a name of, or reads."""
    return (e.name,) if isinstance(e, Local) else tuple(buffers_of(e))


def _jumping(program: TileProgram) -> _Jumping:
    """Names of a statement stand and fall together, so that what goes from one tile to another is followed."""
    found, known = _Jumping(), -1
    each = [list(_own(s)) for s in program.statements()]
    values = walk(_values(program))
    smooth = _smooth_conditions(values, program)
    for e in values:
        for x in () if e in smooth else _deciding(e, smooth):
            found.add(x)
    while known != len(found.names):
        known = len(found.names)
        for own in each:
            direct = [x for x in own if isinstance(x, Buffer | Local)]
            names = {x.name if isinstance(x, Local) else x for x in direct}
            if not names.isdisjoint(found.names):
                found.names |= names
                for e in own:
                    if isinstance(e, Expr):
                        found.add(e)
    return found


def _smooth_conditions(values: list[Expr], program: TileProgram) -> set[Expr]:
    """Conditions of nothing but choices that do not jump."""
    named = {s.name: s.value for s in program.statements() if isinstance(s, Let)}
    choices = [e for e in values if isinstance(e, Choose)]
    smooth = {e for e in choices if is_continuous(e, named)}
    others = {c for e in values if e not in smooth for c in children(e)}
    others |= {c for e in smooth for c in (e.then, e.otherwise)} | set(named.values())
    return {e.condition for e in smooth} - others


def _deciding(e: Expr, smooth: set[Expr]) -> tuple[Expr, ...]:
    """The operands of which a little less may make a wholly other result."""
    if isinstance(e, Choose):
        return () if e.condition in smooth else (e.condition,)
    if isinstance(e, Gather):
        return e.places
    if isinstance(e, Random):
        return (e.key,)
    if isinstance(e, Intrinsic):
        return () if e.name in SMOOTH else e.args
    if isinstance(e, Prim):
        is_whole = e.op is Op.CONTIGUOUS and not e.dtype.is_float
        return e.args if is_whole or e.op in (Op.LESS_THAN, Op.MOD) else ()
    return ()


def _at_an_edge(program: TileProgram) -> set[Expr]:
    """Reciprocals in a sum whose logarithm or root is taken: 1 - x / x is zero, and a little less has neither."""
    named = {s.name: s.value for s in program.statements() if isinstance(s, Let)}
    found: set[Expr] = set()
    for e in walk(_values(program)):
        if isinstance(e, Prim) and e.op in (Op.LOG2, Op.SQRT):
            sums = [x for x in _below([e], named) if isinstance(x, Prim) and x.op is Op.ADD]
            found.update(x for x in _below(sums, named) if isinstance(x, Prim) and x.op is Op.RECIP)
    return found


def _below(roots: Iterable[Expr], named: Mapping[Local, Expr]) -> list[Expr]:
    """All that values are made of, and what names in them stand for."""
    nodes, known = walk(roots), -1
    while len(nodes) > known:
        known = len(nodes)
        nodes = walk([*nodes, *(named[x] for x in nodes if isinstance(x, Local) and x in named)])
    return nodes


# ---- the program with estimates ----


def _has_reciprocal(value: float) -> bool:
    """Whether f32 has all digits of the number's reciprocal."""
    ends = np.finfo(np.float32)
    return all(ends.tiny <= abs(x) <= ends.max for x in (value, 1 / (value or np.inf)))


@dataclass
class _Estimates:
    """All else of a program."""

    jumping: _Jumping
    edges: set[Expr]  # reciprocals that are rounded once
    powers: bool  # of two, besides quotients
    done: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self._any(s) for s in stmts)

    def _any(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(self._any(part) for part in x)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(x, Expr):
            return self.value(x)
        if isinstance(x, (*_STATEMENTS, *_PARTS)):
            return replace(x, **{f.name: self._any(getattr(x, f.name)) for f in fields(x)})
        return x

    def value(self, e: Expr) -> Expr:
        if e not in self.done:
            is_kept = e in self.jumping.values
            self.done[e] = e if is_kept else self._near(e) or rebuild(e, self.value, lambda i: i)
        return self.done[e]

    def _near(self, e: Expr) -> Expr | None:
        if not isinstance(e, Prim) or e.dtype is not f32:
            return None
        if e.op is Op.RECIP and e not in self.edges:
            return intrinsic("near_recip", (self.value(e.args[0]),), f32)
        if e.op is Op.EXP2 and self.powers:
            return intrinsic("near_exp2", (self.value(e.args[0]),), f32)
        for x, y in (e.args, e.args[::-1]) if e.op is Op.MUL else ():
            is_near = y not in self.jumping.values and y not in self.edges
            if isinstance(y, Prim) and y.op is Op.RECIP and is_near:
                (divisor,) = y.args
                if isinstance(divisor, Const) and _has_reciprocal(divisor.value):
                    return prim(Op.MUL, (self.value(x), const(1 / divisor.value, f32)), f32)
                return intrinsic("near_quotient", (self.value(x), self.value(divisor)), f32)
        return None
