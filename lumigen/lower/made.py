"""made: columns of a product that threads make of fewer bytes, in the registers of which matrix instructions read them.

They are made of few reads (`streamed`). Where they are small integers times what neighbours share, as the quants of a
block and its scale, the integers are exact in 16 bits, and what all of a column share multiplies its sum. Any other
value is rounded. Facts of an operand; they decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from lumigen.dtype import f32, i8
from lumigen.index import Axis, ix
from lumigen.lower.named import named
from lumigen.lower.scope import address
from lumigen.lower.small_integers import added, exact, factors_of, is_of_bytes
from lumigen.lower.streamed import is_of_few_bytes
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Choose,
    Expr,
    Index,
    Intrinsic,
    Prim,
    Read,
    free_axes,
    indices_of,
    prim,
    substitute,
    walk,
)


@dataclass(frozen=True)
class Run:
    """What a column reads of an array: some of `length` elements from `first` + `step` * column on."""

    source: Buffer
    step: int
    first: int
    length: int


def runs_of(value: Expr, major: Axis) -> tuple[Run, ...]:
    """Runs of memory that neighbouring columns of an operand are made of, one after another; none of other reads."""
    runs = dict[Run, None]()
    for e in walk([value]):
        if not isinstance(e, Read):
            continue
        at = address(e.source, e.at)
        step = at.coefficient(major)
        if step is None or not step.is_const or step.const <= 0:
            continue
        first, last = (at - ix(major) * step).bounds()
        if first is not None and last is not None and last - first < step.const:
            runs[Run(e.source, step.const, first, last - first + 1)] = None
    return tuple(runs)


VECTORS = (8, 4, 2, 1)  # that may share a number, the most first


@dataclass(frozen=True)
class MadeColumns:
    """An operand over (major, k): (part + more) * scale, where neighbours along k share the scale, `span` of them.

    `part` is small integers, or what is rounded; no scale is one. A span of 0 is the whole depth.
    """

    major: Axis
    k: Axis
    part: Expr
    more: float = 0.0
    scale: Expr | None = None
    span: int = 0

    @staticmethod
    def of(value: Expr, major: Axis, k: Axis, lanes: int, most: int) -> MadeColumns | None:
        """The operand by vectors of so many lanes, in `most` steps; None if it is of another form. Errors: none."""
        if not is_of_few_bytes(value, major, k, lanes, most):
            return None
        value = named(value)
        if any(_is_whole(e) and not _is_shared(e, k, lanes) for e in walk([value])):
            return None
        factors = [exact(e) for e in factors_of(value)]
        small = [e for e in factors if is_of_bytes(added(e)[0])]
        spans = [_span(e, k, lanes) for e in factors if e not in small]
        if len(small) != 1 or None in spans or not _is_exact(*added(small[0])):
            return MadeColumns(major, k, value)
        scales = [e for e in factors if e not in small]
        scale = reduce(lambda a, b: prim(Op.MUL, (a, b), f32), scales) if scales else None
        return MadeColumns(
            major, k, *added(small[0]), scale, min((s for s in spans if s), default=0)
        )


def _is_whole(e: Expr) -> bool:
    """Whether it is worked out in integers, of which there are no vectors."""
    return e.dtype.is_int and isinstance(e, Prim | Choose | Intrinsic | Index)


def _is_exact(e: Expr, more: float) -> bool:
    """Whether bf16 has all sums of a small integer with a number, and both: whole numbers up to 256."""
    signed = any(isinstance(x, Read) and x.source.dtype is i8 for x in walk([e]))
    return more >= -128 and (127 if signed else 255) + more <= 256


def _span(e: Expr, k: Axis, lanes: int) -> int | None:
    """How many neighbours along k have the same value, 0 if all do; None if fewer than a vector has."""
    if k not in free_axes(e):
        return 0
    counts = (n * lanes for n in VECTORS)
    return next((n for n in counts if k.extent % n == 0 and _is_shared(e, k, n)), None)


def _is_shared(e: Expr, k: Axis, count: int) -> bool:
    lane, vector = Axis("lane", ix(count)), Axis("vector", k.extent // count)
    moved = substitute(e, {k: ix(vector) * count + lane})
    return lane not in free_axes(moved) and all(
        lane not in i.axes for x in walk([moved]) for i in indices_of(x)
    )
