"""continuous: choices that do not jump, since what they choose between agrees where their condition turns.

A hyperbolic tangent is a polynomial near zero and a quotient elsewhere, an exponential unit a line and a power. To take
the other one for a number a little less changes the result a little. This is seen from values: of functions of one
number, at each place where the condition turns. Facts of an expression; they decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.interp.region import result_of
from lumigen.intrinsics import INTRINSICS
from lumigen.ops import Op
from lumigen.region import Choose, Const, Expr, Intrinsic, Local, Prim, Read, rebuild, walk

Array = npt.NDArray[Any]

AGREE = 2.0**-14  # of their size: 16 bits have at most 11 digits
NOTHING = 2.0**-126  # less has not all digits in f32: zero
TURNS = 16  # that are looked at
BITS = 64  # of a number, so many halves of the distance of two
_KNOWN = (Local, Read, Const, Prim, Intrinsic, Choose)
_MAGNITUDES = 10.0 ** np.linspace(-38, 38, 1521)
SAMPLES = np.unique(np.concatenate([_MAGNITUDES, -_MAGNITUDES, np.linspace(-128.0, 128.0, 4097)]))


def is_continuous(e: Choose, named: Mapping[Local, Expr]) -> bool:
    """Whether both sides of a choice agree where its condition turns; `named` says what names stand for.

    False too where they are not functions of one number, or the condition never turns. One that turns twice between two
    samples is not seen to turn there.
    """
    sides = _of_one_number((e.condition, e.then, e.otherwise), named)
    if sides is None:
        return False
    condition, then, otherwise, x = sides

    def at(value: Expr, points: Array) -> Array:
        return np.broadcast_to(_values(value, x, points), points.shape)

    is_then = at(condition, SAMPLES).astype(bool)
    turns = np.flatnonzero(is_then[1:] != is_then[:-1])
    if not 0 < turns.size <= TURNS:
        return False
    low, high, begins = _place(SAMPLES[turns]), _place(SAMPLES[turns + 1]), is_then[turns]
    for _ in range(BITS):
        middle = low + (high - low) // 2
        is_before = at(condition, _number(middle)).astype(bool) == begins
        low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
    inside, outside = map(_number, (np.where(begins, low, high), np.where(begins, high, low)))
    one, other = at(then, inside), at(otherwise, outside)
    size = np.maximum(abs(one), abs(other))
    with np.errstate(invalid="ignore"):  # both infinite: they do not agree
        return bool(np.all(abs(one - other) <= np.maximum(AGREE * size, NOTHING)))


def _place(x: Array) -> Array:
    """Where a number of f64 is among all of them."""
    bits = x.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _number(place: Array) -> Array:
    return np.where(place < 0, np.int64(-(2**63)) - place, place).view(np.float64)


def _of_one_number(
    values: tuple[Expr, Expr, Expr], named: Mapping[Local, Expr]
) -> tuple[Expr, Expr, Expr, Expr] | None:
    """The values with names replaced by what they stand for, the last ones first, until one number is left; and it."""
    order = {name: i for i, name in enumerate(named)}
    condition, then, otherwise = values
    while True:
        nodes = walk((condition, then, otherwise))
        if any(e.dtype.is_int or not isinstance(e, _KNOWN) for e in nodes):
            return None
        numbers = [e for e in nodes if isinstance(e, Local | Read)]
        if len(numbers) == 1:
            return condition, then, otherwise, numbers[0]
        known = [e for e in numbers if isinstance(e, Local) and e in order]
        if not known:
            return None
        last = max(known, key=order.__getitem__)
        condition, then, otherwise = (
            _replaced(e, last, named[last]) for e in (condition, then, otherwise)
        )


def _replaced(value: Expr, old: Expr, new: Expr) -> Expr:
    done: dict[Expr, Expr] = {old: new}
    for e in walk([value]):
        if e not in done:
            done[e] = rebuild(e, done.__getitem__, lambda i: i)
    return done[value]


def _values(value: Expr, x: Expr, points: Array) -> Array:
    """The values of a function of x, in f64."""
    done: dict[Expr, Array] = {x: points}
    with np.errstate(all="ignore"):
        for e in walk([value]):
            if e in done:
                continue
            if isinstance(e, Const):
                done[e] = np.asarray(e.value)
            elif isinstance(e, Prim):
                if e.op is Op.CONTIGUOUS:  # truth values add up only as numbers
                    kind = np.bool_ if e.dtype.is_bool else np.float64
                    done[e] = done[e.args[0]].astype(kind)
                else:
                    done[e] = result_of(e, done.__getitem__)
            elif isinstance(e, Intrinsic):
                done[e] = np.asarray(INTRINSICS[e.name].meaning(*(done[a] for a in e.args)))
            else:
                assert isinstance(e, Choose)
                done[e] = np.where(done[e.condition], done[e.then], done[e.otherwise])
    return done[value]
