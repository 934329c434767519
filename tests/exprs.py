"""A small language to write regions in: what models come down to, without the frontend."""

from __future__ import annotations

import math
import random

from lumigen.condition import Cmp, less
from lumigen.dtype import DType, boolean, f32, i64
from lumigen.index import Axis, Ix, ix
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Prim,
    Reduce,
    Role,
    const,
    holds,
    index,
    prim,
    read,
    rebuild,
    reduce,
    walk,
)

LOG2_E = math.log2(math.e)
INF = math.inf


def axis(name: str, extent: int) -> Axis:
    return Axis(name, ix(extent))


def load(name: str, *axes: Axis | Ix, dtype: DType = f32) -> Expr:
    at = tuple(ix(a) for a in axes)
    dims = tuple(a.extent if isinstance(a, Axis) else ix(1) for a in axes)
    return read(Buffer(name, Role.INPUT, dims, dtype), at)


def num(value: float) -> Expr:
    return const(value, f32)


def add(a: Expr, b: Expr) -> Expr:
    return prim(Op.ADD, (a, b), a.dtype)


def mul(a: Expr, b: Expr) -> Expr:
    return prim(Op.MUL, (a, b), b.dtype if a.dtype is boolean else a.dtype)


def scaled(a: Expr, c: float) -> Expr:
    return mul(a, num(c))


def sub(a: Expr, b: Expr) -> Expr:
    return add(a, scaled(b, -1))


def recip(a: Expr) -> Expr:
    return prim(Op.RECIP, (a,), a.dtype)


def div(a: Expr, b: Expr) -> Expr:
    return mul(a, recip(b))


def exp2(a: Expr) -> Expr:
    return prim(Op.EXP2, (a,), a.dtype)


def exp(a: Expr) -> Expr:
    return exp2(scaled(a, LOG2_E))


def log(a: Expr) -> Expr:
    return scaled(prim(Op.LOG2, (a,), a.dtype), math.log(2))


def sqrt(a: Expr) -> Expr:
    return prim(Op.SQRT, (a,), a.dtype)


def total(body: Expr, *axes: Axis, where: tuple[Cmp, ...] = ()) -> Expr:
    return reduce(Monoid.SUM, axes, body, body.dtype, where)


def largest(body: Expr, *axes: Axis, where: tuple[Cmp, ...] = ()) -> Expr:
    return reduce(Monoid.MAX, axes, body, body.dtype, where)


def below(a: Expr, b: Expr) -> Expr:
    return prim(Op.LESS_THAN, (a, b), boolean)


def negated(a: Expr) -> Expr:
    return below(a, const(True, boolean))


def where(c: Expr, a: Expr, b: Expr) -> Expr:
    return add(mul(c, a), mul(negated(c), b))


def maximum(a: Expr, b: Expr) -> Expr:
    """As the frontend spells it: b where a < b or b is NaN."""
    ordered = below(num(-1), mul(b, b))
    either = negated(mul(negated(below(a, b)), negated(negated(ordered))))
    return where(either, b, a)


def relu(a: Expr) -> Expr:
    return where(below(a, num(0)), num(0), a)


def at_most(a: Axis | Ix, b: Axis | Ix) -> Expr:
    """The condition a <= b."""
    return holds((less(a, ix(b) + 1),))


def position(a: Axis | Ix) -> Expr:
    """An index as a float."""
    return prim(Op.CONTIGUOUS, (index(ix(a), i64),), f32)


def shuffled(exprs: tuple[Expr, ...], seed: int) -> tuple[Expr, ...]:
    """The same values with operands commuted and reduced axes permuted, differently at each use."""
    rng = random.Random(seed)
    done: dict[Expr, list[Expr]] = {}

    def spelling(e: Expr) -> Expr:
        return rng.choice(done[e])

    for e in walk(exprs):
        forms = {rebuild(e, spelling, lambda i: i): None for _ in range(2)}
        for f in list(forms):
            if isinstance(f, Prim) and f.op in (Op.ADD, Op.MUL):
                forms[prim(f.op, f.args[::-1], f.dtype)] = None
            if isinstance(f, Reduce):
                forms[reduce(f.monoid, f.axes[::-1], f.body, f.dtype, f.where)] = None
        done[e] = list(forms)
    return tuple(spelling(e) for e in exprs)
