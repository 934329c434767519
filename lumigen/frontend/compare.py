"""Comparisons, choice and logic, all built from LessThan and the selecting Mul.

Promises IEEE 754's answers: beside NaN every comparison but `ne` is false, infinities are ordinary,
-0.0 equals 0.0; and a choice that never lets the unchosen side through.
"""

from __future__ import annotations

import math

from lumigen.dtype import boolean
from lumigen.errors import DtypeMismatch
from lumigen.frontend.primitive import (
    Edge,
    Operand,
    add,
    both,
    broadcast,
    cast,
    complement,
    constant,
    dtype_of,
    either,
    fill,
    is_ordered,
    known_value,
    less,
    matched,
    mul,
    select,
    vote,
)
from lumigen.frontend.promote import result_type
from lumigen.frontend.trace import fail

INF = math.inf


def may_be_nan(a: Operand) -> bool:
    """Whether an operand can hold NaN, as far as its type and value tell."""
    value = known_value(a)
    return dtype_of(a).is_float and not (value is not None and not math.isnan(value))


def _and_ordered(condition: Edge, *operands: Edge) -> Edge:
    for a in operands:
        if may_be_nan(a):
            condition = both(condition, is_ordered(a))
    return condition


def gt(a: Operand, b: Operand) -> Edge:
    return less(b, a, "gt")


def le(a: Operand, b: Operand, op: str = "le") -> Edge:
    """Not b < a, and neither is NaN."""
    left, right = matched(op, a, b)
    return _and_ordered(complement(less(right, left)), left, right)


def ge(a: Operand, b: Operand) -> Edge:
    return le(b, a, "ge")


def eq(a: Operand, b: Operand, op: str = "eq") -> Edge:
    """Neither a < b nor b < a, and no NaN. Of integers: (a < b) < true and (b < a) < true."""
    left, right = matched(op, a, b)
    same = both(complement(less(left, right)), complement(less(right, left)))
    return _and_ordered(same, left, right)


def ne(a: Operand, b: Operand) -> Edge:
    return complement(eq(a, b, "ne"))


def isnan(a: Edge) -> Edge:
    return complement(is_ordered(a)) if may_be_nan(a) else nowhere(a)


def isfinite(a: Edge) -> Edge:
    """-inf < a < inf."""
    if not a.dtype.is_float:
        return complement(nowhere(a))
    return both(less(a, constant(INF, a.dtype)), less(constant(-INF, a.dtype), a))


def isinf(a: Edge) -> Edge:
    if not a.dtype.is_float:
        return nowhere(a)
    return both(complement(isfinite(a)), is_ordered(a))


def nowhere(a: Edge) -> Edge:
    """False in the shape of `a`."""
    false = constant(value=False, dtype=boolean)
    return broadcast("isnan", false, a)[0]


# --- logic ----------------------------------------------------------------------------------------


def _truths(op: str, a: Operand, b: Operand) -> tuple[Edge, Edge]:
    left, right = matched(op, a, b)
    if not left.dtype.is_bool:
        raise fail(
            DtypeMismatch,
            op=op,
            name="an operand",
            got=left.dtype,
            expected="bool",
            remedy="Compare it first, as in x != 0.",
        )
    return left, right


def logical_and(a: Operand, b: Operand) -> Edge:
    return both(*_truths("and", a, b))


def logical_or(a: Operand, b: Operand) -> Edge:
    return either(*_truths("or", a, b))


def logical_xor(a: Operand, b: Operand) -> Edge:
    left, right = _truths("xor", a, b)
    return either(less(left, right), less(right, left))


def logical_not(a: Edge) -> Edge:
    return complement(_truths("not", a, a)[0])


# --- choice ---------------------------------------------------------------------------------------


def where(condition: Edge, a: Operand, b: Operand) -> Edge:
    """`a` where the condition holds, else `b`: condition * a + (not condition) * b, selecting."""
    if not condition.dtype.is_bool:
        raise fail(
            DtypeMismatch,
            op="where",
            name="the condition",
            got=condition.dtype,
            expected="bool",
            remedy="Compare it first, as in x != 0.",
        )
    dtype = result_type("where", (vote(a), vote(b)))
    condition, left, right = broadcast(
        "where", condition, fill("where", a, dtype), fill("where", b, dtype)
    )
    if dtype.is_bool:
        return either(both(condition, left), both(complement(condition), right))
    return add(select(condition, left), select(complement(condition), right))


def maximum(a: Operand, b: Operand) -> Edge:
    """The greater, NaN if one is: where(a < b, b, a), whose condition also takes a NaN of b."""
    left, right = matched("maximum", a, b)
    if may_be_nan(right) and not may_be_nan(left):
        left, right = right, left
    return where(_or_nan(less(left, right), right), right, left)


def minimum(a: Operand, b: Operand) -> Edge:
    """The lesser, NaN if one is NaN: where(b < a, b, a), whose condition also takes a NaN of b."""
    left, right = matched("minimum", a, b)
    if may_be_nan(right) and not may_be_nan(left):
        left, right = right, left
    return where(_or_nan(less(right, left), right), right, left)


def _or_nan(condition: Edge, b: Edge) -> Edge:
    return either(condition, isnan(b)) if may_be_nan(b) else condition


def clamp(a: Edge, low: Operand | None, high: Operand | None) -> Edge:
    """min(max(a, low), high); where low > high it is high."""
    bounds = [b for b in (low, high) if b is not None]
    dtype = result_type("clamp", tuple(map(vote, (a, *bounds))))
    a = cast(a, dtype)
    if low is not None:
        a = maximum(a, fill("clamp", low, dtype))
    return a if high is None else minimum(a, fill("clamp", high, dtype))


def sign(a: Edge) -> Edge:
    """1, 0 or -1: (0 < a) - (a < 0), which is 0 for NaN."""
    if a.dtype.is_bool:
        return a
    zero = constant(0, a.dtype)
    above, below = cast(less(zero, a), a.dtype), cast(less(a, zero), a.dtype)
    return add(above, mul(below, -1))
