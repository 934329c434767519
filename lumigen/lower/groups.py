"""groups: sums of products whose factors are small integers times numbers that differ from group to group of k.

    sum over k of (x[m, g] a[m, k]) ((q[n, k] - zero) s[n, g] + least[n, g])          g = k // size
    sum over g of x[m, g] (s[n, g] sum over k of a[m, k] (q[n, k] - zero) + least[n, g] sum over k of a[m, k])

The inner sums are of integers of 8 bits and exact. Integers of rows are bytes of memory; those of columns are bits of
bytes in runs, one plane or two: byte r of a run has those of r, r + run, r + 2 run, ... Facts of a product's factors;
they decide nothing, and no format is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from lumigen.dtype import bf16, f16, f32, i8, u8
from lumigen.index import Axis, Ix, extent_of, ix, unravel
from lumigen.lower.factors import asked_for, factored
from lumigen.lower.named import named
from lumigen.lower.scope import address
from lumigen.lower.small_integers import factors_of
from lumigen.memo import remembered
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Const,
    Expr,
    Intrinsic,
    Prim,
    Read,
    Role,
    free_axes,
    prim,
    substitute,
    walk,
)

WORD = 4  # k that are multiplied together
PARTS = 16  # of a block that are written out
RUNS = (256, 128, 64, 32, 16, 8, 4)
PLANES = 2  # of an integer
LARGEST = 256  # group whose sum is one of integers


@dataclass(frozen=True)
class Bits:
    """Some bits of each integer of columns: `bits` of a byte of `source`, in runs, which are worth `1 << place`.

    Column n begins at byte `base + n * stride`. Of 8 bits they have a sign.
    """

    source: Buffer
    base: int
    stride: int
    bits: int
    run: int
    place: int

    @property
    def unit(self) -> int:
        """k of a run of bytes."""
        return 8 // self.bits * self.run


@dataclass(frozen=True)
class Numbers:
    """Numbers of a weight, each for `span` k: that of column n is at base + n * stride + k // span * step.

    They are `factor` times what the weight holds.
    """

    source: Buffer
    base: int
    stride: int
    step: int
    span: int
    factor: float = 1.0


@dataclass(frozen=True)
class GroupedColumns:
    """Columns over (n, group): integers, less `zero`, times `scale`, and `least` more if there is one.

    Each of the two may be a product of numbers that weights hold: then `of_scale` and `of_least` have them.
    """

    planes: tuple[Bits, ...]
    zero: int
    span: int  # k that have the same scale
    scale: Expr
    least: Expr | None
    n: Axis
    group: Axis

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        return (*self.of_scale, *self.of_least)

    @property
    def of_scale(self) -> tuple[Numbers, ...]:
        return self._numbers_beside(self.scale, self.least)

    @property
    def of_least(self) -> tuple[Numbers, ...]:
        return () if self.least is None else self._numbers_beside(self.least, self.scale)

    def _numbers_beside(self, e: Expr, other: Expr | None) -> tuple[Numbers, ...]:
        """The numbers of one of both; none if the other one reads the same weights in another way."""
        found, others = (
            () if x is None else numbers_of(x, self.n, self.group, self.span) for x in (e, other)
        )
        read = {x.source for x in walk([other] if other is not None else []) if isinstance(x, Read)}
        alike = {replace(x, factor=1.0) for x in others}
        return (
            ()
            if any(x.source in read and replace(x, factor=1.0) not in alike for x in found)
            else found
        )

    @property
    def unit(self) -> int:
        """k at a multiple of which all runs and groups begin."""
        spans = (x.span for x in self.numbers if x.step)  # others are the same for all k
        return math.lcm(self.span, *spans, *(p.unit for p in self.planes))


@dataclass(frozen=True)
class GroupedRows:
    """Rows over (m, k): integers of 8 bits that memory has, times `scale`, which is one for `span` k."""

    integers: Expr
    scale: Read
    span: int


@dataclass(frozen=True)
class Groups:
    """Rows and columns of a product that are integers in groups. `size` k have one scale of each."""

    rows: GroupedRows
    columns: GroupedColumns

    @property
    def size(self) -> int:
        return math.gcd(self.rows.span, self.columns.span)

    @property
    def unit(self) -> int:
        """k at a multiple of which a part of the depth may begin."""
        return math.lcm(self.rows.span, self.columns.unit)


def find_groups(rows: Expr, columns: Expr, n: Axis, k: Axis) -> Groups | None:
    """The factors of a product over an axis k as integers in groups; None of any other form."""
    of_rows = grouped_rows(rows, k)
    of_columns = grouped_columns(columns, n, k) if of_rows is not None else None
    if of_rows is None or of_columns is None:
        return None
    found = Groups(of_rows, of_columns)
    return found if found.size % WORD == 0 and k.extent % found.unit == 0 else None


def is_scaled(e: Expr) -> bool:
    """Whether it is an integer of 8 bits of memory as a float, times a number of memory."""
    factors = factors_of(e)
    return (
        len(factors) == 2
        and {_is_byte(f) for f in factors} == {True, False}
        and all(_is_byte(f) or isinstance(f, Read) for f in factors)
    )


def scales_bytes(e: Expr) -> bool:
    """The same of integers and numbers that are computed."""
    factors = factors_of(e)
    casts = [f for f in factors if isinstance(f, Prim) and f.op is Op.CONTIGUOUS]
    return len(factors) > 1 and [c.args[0].dtype for c in casts] == [i8]


def _is_byte(e: Expr) -> bool:
    """Whether it is an integer of 8 bits with a sign that memory has, as a float."""
    if not isinstance(e, Prim) or e.op is not Op.CONTIGUOUS or e.dtype is not f32:
        return False
    (x,) = e.args
    return isinstance(x, Read) and x.source.dtype is i8


@remembered
def grouped_rows(value: Expr, k: Axis) -> GroupedRows | None:
    """Rows over an axis k as integers and scales; None of any other form."""
    if not is_scaled(value) or not k.extent.is_const:
        return None
    (byte,) = (f.args[0] for f in factors_of(value) if isinstance(f, Prim))
    (scale,) = (f for f in factors_of(value) if isinstance(f, Read))
    if scale.source.dtype is not f32:
        return None
    found = factored(scale, (k,), WORD)
    if found is None:
        return None
    own = [a for a in found.axes if a in free_axes(found.body)]
    span = extent_of(found.axes[found.axes.index(own[-1]) + 1 :] if own else found.axes)
    return GroupedRows(byte, scale, span.const)


@remembered
def grouped_columns(value: Expr, n: Axis, k: Axis) -> GroupedColumns | None:
    """Columns over axes n and k as small integers of weights and what their groups have; None of any other form."""
    reads = [e for e in walk([value]) if isinstance(e, Read)]
    if not reads or not k.extent.is_const or not n.extent.is_const:
        return None
    if any(e.source.role is not Role.WEIGHT for e in reads):
        return None
    found = factored(named(value), (k,), WORD)
    if found is None or len(found.axes) < 2:
        return None
    inside = found.axes[-1]
    parts = _affine(found.body, inside)
    if parts is None:
        return None
    scale, integer, least = parts
    shared = [e for e in (scale, least) if e is not None]
    varying = [i for i, a in enumerate(found.axes) if any(a in free_axes(e) for e in shared)]
    end = varying[-1] + 1 if varying else 0
    outer, span = found.axes[:end], extent_of(found.axes[end:]).const
    others = found.axes[:-1]
    short = asked_for(integer, others, PARTS)
    planes = _planes(integer, short, found.places[k], n)
    if planes is None or not outer or not WORD <= span <= LARGEST or scale is None:
        return None
    group = Axis("group", extent_of(outer))
    at = unravel(group, outer)
    own, zero = planes
    least = None if least is None else substitute(least, at)
    return GroupedColumns(own, zero, span, substitute(scale, at), least, n, group)


@remembered
def numbers_of(e: Expr, n: Axis, group: Axis, span: int) -> tuple[Numbers, ...]:
    """The numbers of weights that one over (n, group) is the product of; none if it is anything else."""
    factors = factors_of(e)
    given = [f.value for f in factors if isinstance(f, Const)]
    each = [_numbers(f, n, group, span) for f in factors if not isinstance(f, Const)]
    known = tuple(x for x in each if x is not None)
    sources = {x.source for x in known}
    if not known or not len(known) == len(each) == len(sources):
        return ()
    first, *others = known
    return (replace(first, factor=float(np.prod(given, dtype=np.float32))), *others)


def _numbers(e: Expr, n: Axis, group: Axis, span: int) -> Numbers | None:
    if isinstance(e, Prim) and e.op is Op.CONTIGUOUS and e.dtype is f32:
        (e,) = e.args
        if not isinstance(e, Read) or e.source.dtype not in (i8, u8):
            return None
    if not isinstance(e, Read) or e.source.dtype not in (f32, f16, bf16, i8, u8):
        return None
    at = address(e.source, e.at)
    stride, count = at.coefficient(n), group.extent.const
    if stride is None or not stride.is_const:
        return None
    at -= stride * n
    base = at.substitute({group: ix(0)})
    if not base.is_const:
        return None
    for some in (d for d in range(1, count + 1) if count % d == 0):
        step = at.substitute({group: ix(some % count)}) - base
        if step.is_const and at == base + ix(group) // some * step:
            return Numbers(e.source, base.const, stride.const, step.const, span * some)
    return None


def _affine(e: Expr, inside: Axis) -> tuple[Expr | None, Expr, Expr | None] | None:
    """(scale, what varies inside a group, what is added), where e = scale * that + added; None of any other form."""
    if inside not in free_axes(e):
        return None
    if isinstance(e, Prim) and e.dtype is f32 and e.op in (Op.MUL, Op.ADD):
        for x, c in (e.args, e.args[::-1]):
            if inside in free_axes(c) or isinstance(c, Const):
                continue
            found = _affine(x, inside)
            if found is None:
                return None
            scale, whole, more = found
            if e.op is Op.MUL:
                return _times(scale, c), whole, None if more is None else _times(more, c)
            return scale, whole, c if more is None else prim(Op.ADD, (more, c), f32)
    return None, e, None


def _times(a: Expr | None, b: Expr) -> Expr:
    return b if a is None else prim(Op.MUL, (a, b), f32)


@dataclass(frozen=True)
class _Term:
    """Bits of a byte from `shift` on, times a factor."""

    read: Read
    shift: int
    bits: int
    factor: int


def _terms(e: Expr) -> tuple[list[_Term], int] | None:
    """A whole number as a sum of bits of bytes and a constant; None of any other form."""
    if isinstance(e, Const):
        return ([], int(e.value)) if e.value == int(e.value) else None
    if isinstance(e, Intrinsic) and e.name in ("whole_remainder", "whole_quotient"):
        x, size = e.args
        assert isinstance(size, Const)
        count = int(size.value).bit_length() - 1
        return (
            _parted(_terms(x), count, e.name == "whole_remainder")
            if size.value == 1 << count
            else None
        )
    if isinstance(e, Intrinsic) and e.name == "floor":
        (x,) = e.args
        if (
            isinstance(x, Prim)
            and x.op is Op.MUL
            and isinstance(x.args[1], Const)
            and x.args[1].value
        ):
            count = round(math.log2(abs(1 / x.args[1].value)))
            is_shift = count >= 0 and x.args[1].value == 2.0**-count
            return _parted(_terms(x.args[0]), count, False) if is_shift else None
        return None
    if not isinstance(e, Prim):
        return None
    if e.op is Op.CONTIGUOUS and isinstance(source := e.args[0], Read):
        return ([_Term(source, 0, 8, 1)], 0) if source.source.dtype in (i8, u8) else None
    if e.op not in (Op.ADD, Op.MUL):
        return None
    a, b = map(_terms, e.args)
    if a is None or b is None:
        return None
    if e.op is Op.ADD:
        return [*a[0], *b[0]], a[1] + b[1]
    if b[0]:
        return None
    return [_Term(t.read, t.shift, t.bits, t.factor * b[1]) for t in a[0]], a[1] * b[1]


def _parted(
    found: tuple[list[_Term], int] | None, count: int, low: bool
) -> tuple[list[_Term], int] | None:
    """Of one byte without a sign the lowest bits, or those above them."""
    match found:
        case ([_Term(read=read, shift=shift, bits=bits, factor=1)], 0) if read.source.dtype is u8:
            if low:
                return [_Term(read, shift, min(bits, count), 1)], 0
            return [_Term(read, shift + count, max(bits - count, 0), 1)], 0
        case _:
            return None


def _planes(
    integer: Expr, short: Sequence[Axis], k: Ix, n: Axis
) -> tuple[tuple[Bits, ...], int] | None:
    """The planes of an integer and what is taken away from it, looked at with each point of the short axes."""
    points = [
        dict(zip(short, map(ix, p), strict=True))
        for p in product(*(range(a.extent.const) for a in short))
    ]
    each = [_terms(named(substitute(integer, p))) for p in points]
    if any(e is None for e in each):
        return None
    known = [e for e in each if e is not None]
    counts, constants = {len(terms) for terms, _ in known}, {c for _, c in known}
    if len(counts) != 1 or len(constants) != 1 or not 1 <= counts.pop() <= PLANES:
        return None
    places = [k.substitute(p) for p in points]
    planes = [_plane([terms[i] for terms, _ in known], places, n) for i in range(len(known[0][0]))]
    found = sorted((p for p in planes if p is not None), key=lambda p: p.place)
    zero, top = -constants.pop(), sum(p.bits for p in found)
    fits = found and (
        (top == 8 and len(found) == 1 and zero == 0) or (top < 8 and 0 <= zero <= 128)
    )
    in_order = len(found) == len(planes) and all(
        p.place == sum(q.bits for q in found[:i]) for i, p in enumerate(found)
    )
    return (tuple(found), zero) if fits and in_order else None


def _plane(terms: Sequence[_Term], places: Sequence[Ix], n: Axis) -> Bits | None:
    """Bits that lie in runs of bytes."""
    first = terms[0]
    source, bits, place = first.read.source, first.bits, first.factor.bit_length() - 1
    if any((t.read.source, t.bits, t.factor) != (source, bits, first.factor) for t in terms):
        return None
    if (
        first.factor != 1 << place
        or bits not in (1, 2, 4, 8)
        or (bits == 8) is not (source.dtype is i8)
    ):
        return None
    at = [address(source, t.read.at) for t in terms]
    stride = at[0].coefficient(n)
    if stride is None or not stride.is_const or any(a.coefficient(n) != stride for a in at):
        return None
    at = [a - stride * n for a in at]
    each = 8 // bits
    for run in RUNS if each > 1 else RUNS[-1:]:
        base = at[0] - _byte(places[0], run, each)
        is_run = base.is_const and all(
            a - _byte(p, run, each) == base and p // run % each * bits == t.shift
            for a, p, t in zip(at, places, terms, strict=True)
        )
        if is_run:
            return Bits(source, base.const, stride.const, bits, run, place)
    return None


def _byte(k: Ix, run: int, each: int) -> Ix:
    return k if each == 1 else k // (run * each) * run + k % run
