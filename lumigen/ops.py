"""The twelve primitive ops, one row each, and the sources and structured nodes beside them.

A row is all that the compiler knows about an op, apart from one spelling per target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Op(Enum):
    """Every kind of node. The first twelve are the language; the others carry no arithmetic."""

    LOG2 = "log2"
    EXP2 = "exp2"
    SIN = "sin"
    SQRT = "sqrt"
    RECIP = "recip"
    ADD = "add"
    MUL = "mul"
    MOD = "mod"
    LESS_THAN = "less_than"
    SUM_REDUCE = "sum_reduce"
    MAX_REDUCE = "max_reduce"
    CONTIGUOUS = "contiguous"

    INPUT = "input"
    WEIGHT = "weight"
    STATE = "state"
    CONST = "const"
    IOTA = "iota"
    RANDOM = "random"

    SCAN = "scan"
    NATIVE = "native"

    # Ops are looked up all the time, and the hash of an Enum is Python's own code.
    __hash__ = object.__hash__


HALF_TURN = math.pi / 2  # what is added to an angle whose cosine a sine is, in all digits of f64


class Form(Enum):
    """What arguments an op takes and what shape it yields."""

    UNARY = "unary"
    BINARY = "binary"
    REDUCE = "reduce"
    CAST = "cast"


class ResultDtype(Enum):
    """How the dtype of the result follows from the operands'."""

    FLOAT = "the operand's, which must be a float"
    SAME = "the operands', which must agree"
    SELECT = "the operands', which must agree; or that of the operand that is not bool"
    NUMBER = "the operands', which must agree and be numbers"
    BOOL = "bool"
    DECLARED = "declared by the node"


@dataclass(frozen=True)
class Row:
    """An op's form, its meaning on numpy arrays and its dtype rule."""

    form: Form
    meaning: Callable[..., Any]
    result: ResultDtype


def multiply(left: Any, right: Any) -> Any:
    """a * b; an operand that alone is bool selects the other one, or Add's neutral element."""
    a: Array = np.asarray(left)
    b: Array = np.asarray(right)
    if a.dtype == np.bool_ and b.dtype == np.bool_:
        return a & b
    if a.dtype == np.bool_:
        return np.where(a, b, neutral(b.dtype))
    if b.dtype == np.bool_:
        return np.where(b, a, neutral(a.dtype))
    return a * b


def neutral(dtype: Any) -> Any:
    """The x for which a + x is a, bit for bit: -0.0 for floats, 0 for integers."""
    return np.zeros((), dtype) if np.dtype(dtype).kind in "iub" else -np.zeros((), dtype)


def maximum_reduce(a: Any, axis: Any = None) -> Any:
    """The maximum over the axes; the neutral element where there is nothing to compare."""
    array: Array = np.asarray(a)
    return np.max(array, axis) if array.size else np.max(array, axis, initial=lowest(array.dtype))


def lowest(dtype: Any) -> Any:
    """The neutral element of Max for a numpy dtype."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return np.iinfo(dtype).min
    return False if kind == "b" else -np.inf


ROWS: dict[Op, Row] = {
    Op.LOG2: Row(Form.UNARY, np.log2, ResultDtype.FLOAT),
    Op.EXP2: Row(Form.UNARY, np.exp2, ResultDtype.FLOAT),
    Op.SIN: Row(Form.UNARY, np.sin, ResultDtype.FLOAT),
    Op.SQRT: Row(Form.UNARY, np.sqrt, ResultDtype.FLOAT),
    Op.RECIP: Row(Form.UNARY, np.reciprocal, ResultDtype.FLOAT),
    Op.ADD: Row(Form.BINARY, np.add, ResultDtype.NUMBER),
    Op.MUL: Row(Form.BINARY, multiply, ResultDtype.SELECT),
    Op.MOD: Row(
        Form.BINARY, np.mod, ResultDtype.NUMBER
    ),  # the result has the sign of the divisor, as in Python
    Op.LESS_THAN: Row(Form.BINARY, np.less, ResultDtype.BOOL),
    Op.SUM_REDUCE: Row(Form.REDUCE, np.sum, ResultDtype.NUMBER),
    Op.MAX_REDUCE: Row(Form.REDUCE, maximum_reduce, ResultDtype.SAME),  # NaN wins
    Op.CONTIGUOUS: Row(Form.CAST, np.asarray, ResultDtype.DECLARED),
}


TRANSCENDENTALS = frozenset({Op.LOG2, Op.EXP2, Op.SIN})  # dozens of instructions each


def order(a: Any, kept: int) -> Any:
    """Where the first `kept` elements of each row lie, by value: NaN after all numbers, equal ones by position."""
    return np.argsort(np.asarray(a), -1, kind="stable")[..., :kept]


def order_descending(a: Any, kept: int) -> Any:
    """The same from the greatest on: NaN before all numbers, equal ones by position."""
    array: Array = np.asarray(a)
    backwards = np.argsort(array[..., ::-1], -1, kind="stable")[..., ::-1]
    return (array.shape[-1] - 1 - backwards)[..., :kept]


def starts(a: Any, kept: int) -> Any:
    """Of each row of numbers of groups 0, .., kept - 2: how many elements are of lesser groups than 0, .., kept - 1."""
    array: Array = np.asarray(a)
    keys: Array = np.clip(array.astype(np.int64), -1, kept - 1)
    out: Array = np.empty((*array.shape[:-1], kept), np.int64)
    for i in np.ndindex(array.shape[:-1]):
        out[i] = np.cumsum(np.bincount(keys[i] + 1, minlength=kept + 1))[:kept]
    return out


def groups(a: Any, kept: int) -> Any:
    """Of each row of numbers of groups: how many elements are of lesser groups, then their places by group.

    A row of n elements has n places, so that `kept` is g + 1 + n for the groups 0, .., g - 1 and one past them.
    What is of no group comes before the first one or after the last one; equal ones by position.
    """
    array: Array = np.asarray(a)
    n = array.shape[-1]
    last = kept - n - 1
    keys: Array = np.clip(array.astype(np.int64), -1, last)
    places: Array = np.argsort(keys, -1, kind="stable")
    return np.concatenate([starts(array, last + 1), places], -1)


def sums(a: Any, values: Any, kept: int) -> Any:
    """Of each row of numbers of groups 0, .., kept - 1: the sum of the values of each, in order; 0 of none."""
    array, terms = np.asarray(a), np.asarray(values)
    out: Array = np.zeros((*array.shape[:-1], kept), terms.dtype)
    for i in np.ndindex(array.shape[:-1]):
        here = (array[i] >= 0) & (array[i] < kept)
        np.add.at(out[i], array[i][here].astype(np.int64), terms[i][here])
    return out


# What native nodes compute, beside their meaning in the twelve ops: of rows, as many results as a row of theirs has.
NATIVE: dict[str, Callable[..., Any]] = {
    "groups": groups,
    "order": order,
    "order_descending": order_descending,
    "starts": starts,
    "sums": sums,
}

SOURCES = frozenset({Op.INPUT, Op.WEIGHT, Op.STATE, Op.CONST, Op.IOTA, Op.RANDOM})
