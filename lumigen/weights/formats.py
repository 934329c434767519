"""formats: what weights of few bits are: fields of plain numbers, and the formula that gives the weight from them.

A description has no code of its own for a reader or a target. Promises one meaning: the same formula computes with
numpy (`ARRAYS`), and with the operations of the compiler, which is how a model reads such a weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from lumigen.dtype import DType, f16, i8, u8
from lumigen.weights.stored import Array

Shape = tuple[int, ...]
Fields = Mapping[str, Any]  # arrays, or tensors of a model
AT_A_TIME = 1 << 22  # elements that are decoded together


class Arithmetic(Protocol):
    """What a formula needs besides operators, indices and `reshape`."""

    def floats(self, x: Any) -> Any:
        """Numbers in f32."""
        ...

    def floor(self, x: Any) -> Any:
        """The next whole number below."""
        ...

    def join(self, parts: Sequence[Any], axis: int) -> Any:
        """One after the other."""
        ...

    def lookup(self, table: Sequence[float], index: Any) -> Any:
        """Numbers of a small table, by whole numbers in f32 that are all inside."""
        ...

    def columns(self, x: Any, order: Any) -> Any:
        """Elements of the last axis, by indices that are all inside."""
        ...


class _Arrays:
    def floats(self, x: Array) -> Array:
        return x.astype(np.float32)

    def floor(self, x: Array) -> Array:
        return np.floor(x)

    def join(self, parts: Sequence[Array], axis: int) -> Array:
        return np.concatenate(parts, axis)

    def lookup(self, table: Sequence[float], index: Array) -> Array:
        return np.array(table, np.float32)[index.astype(np.uint8)]

    def columns(self, x: Array, order: Array) -> Array:
        return x[..., order]


ARRAYS: Arithmetic = _Arrays()


@dataclass(frozen=True)
class Packed:
    """A weight of `shape` that is `values` of its fields; `read` gives a field's numbers.

    `fields` has the shape and the dtype of each; those that are not `shared` have the rows of the weight. `values` is
    a tensor of f32. `sources` are the tensors of the file that it is made of.
    """

    kind: str
    shape: Shape
    fields: Mapping[str, tuple[Shape, DType]]
    values: Callable[[Fields, Arithmetic], Any]
    read: Callable[[str], Array]
    sources: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    def decoded(self) -> Array:
        """The weight in f32."""
        fields = {name: self.read(name) for name in self.fields}
        out = np.empty(self.shape, np.float32)
        rows = out.reshape(self.shape[0] if self.shape else 1, -1)
        step = max(1, AT_A_TIME // max(rows.shape[1], 1))
        with np.errstate(all="ignore"):  # scales are what the file says, NaN and infinity included
            for i in range(0, len(rows), step):
                part = {n: a if n in self.shared else a[i : i + step] for n, a in fields.items()}
                rows[i : i + step] = self.values(part, ARRAYS).reshape(-1, rows.shape[1])
        return out

    @property
    def bits(self) -> int:
        """Of all its fields."""
        return sum(int(np.prod(shape)) * dtype.bits for shape, dtype in self.fields.values())


def stacked(parts: Sequence[Packed | None]) -> Packed | None:
    """Weights of one shape along a new first axis; None unless all have fields, and the same ones.

    Fields that are shared are those of one weight, so that there is no such stack of them.
    """
    found = [p for p in parts if p is not None]
    if not found or len(found) < len(parts):
        return None
    first, count = found[0], len(found)
    if any((p.kind, p.shape, p.fields) != (first.kind, first.shape, first.fields) for p in found):
        return None
    if any(p.shared for p in found):
        return None
    specs = {n: ((count, *shape), dtype) for n, (shape, dtype) in first.fields.items()}

    def values(fields: Fields, ops: Arithmetic) -> Any:
        rows = {n: fields[n].reshape(-1, *shape[1:]) for n, (shape, _) in first.fields.items()}
        return first.values(rows, ops).reshape(-1, *first.shape)

    def read(name: str) -> Array:
        return np.stack([p.read(name) for p in found])

    sources = tuple(s for p in found for s in p.sources)
    return Packed(first.kind, (count, *first.shape), specs, values, read, sources)


@dataclass(frozen=True)
class Plane:
    """Some bits of each integer of a block: byte i of a run of bytes has those of the integers i, i + run, ..."""

    bits: int
    run: int
    is_signed: bool = False

    @property
    def dtype(self) -> DType:
        return i8 if self.is_signed else u8


@dataclass(frozen=True)
class SmallFloat:
    """Floats of 8 bits: a sign, an exponent less a bias, a fraction. The codes from `end` on are no numbers."""

    exponent: int
    fraction: int
    bias: int
    end: int

    def values(self, code: Any, ops: Arithmetic) -> Any:
        """Of codes in f32; each step is exact."""
        parts = 2.0**self.fraction
        powers = [2.0 ** (max(e, 1) - self.bias - self.fraction) for e in range(1 << self.exponent)]
        size = code % 128.0
        exponent = ops.floor(size / parts)
        digits = size % parts + ops.floats(size >= parts) * parts
        sign = ops.floats(code < 128.0) * 2.0 - 1.0
        return digits * ops.lookup(powers, exponent) * sign


E4M3 = SmallFloat(4, 3, 7, 127)
E5M2 = SmallFloat(5, 2, 15, 124)


def planes_of(bits: int, items: int) -> tuple[Plane, ...]:
    """The planes of unsigned integers of so many bits in a block of so many."""
    widths = {1: (1,), 2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 8: (8,)}[bits]
    return tuple(Plane(width, items * width // 8) for width in widths)


def in_planes(x: Array, row: Plane) -> Array:
    """Bytes (blocks, ...) of small integers (blocks, items): what `spread` undoes."""
    parts = x.astype(np.uint8).reshape(len(x), -1, 8 // row.bits, row.run)
    shifts = np.arange(0, 8, row.bits, dtype=np.uint8)[:, None]
    return np.bitwise_or.reduce(parts << shifts, axis=2).reshape(len(x), -1)


def spread(plane: Any, row: Plane, axes: Shape, ops: Arithmetic) -> Any:
    """(..., bytes) -> (..., *axes), integers in f32: a byte becomes halves along each axis that its parts are of.

    `axes` are those of a block, the innermost last; each is a whole part of the run, or of its repetitions.
    """
    strides = [math.prod(axes[i + 1 :]) for i in range(len(axes))]
    parts = 8 // row.bits
    is_part = [row.run <= stride < row.run * parts for stride in strides]
    inside = tuple(1 if part else n for n, part in zip(axes, is_part, strict=True))
    found = ops.floats(plane.reshape(*plane.shape[:-1], *inside))
    bits = 8
    for i, part in enumerate(is_part):
        if part:
            bits //= 2
            at = i - len(axes)
            found = ops.join([found % 2.0**bits, ops.floor(found * 2.0**-bits)], at)
    return found


@dataclass(frozen=True)
class Blocks:
    """Runs of `items` elements of a row, whose integers share scales.

        scales * sub_scales * (integer - zero - zeros) + minima * sub_minima

    The integers are `planes`, lowest bits first; with a `codebook` they are indices into it, and as a `code` they are
    floats of 8 bits. `sub` elements share a
    sub-scale, where there are such. Products and sums are of f32, from left to right.
    """

    items: int
    planes: tuple[Plane, ...]
    zero: int = 0
    codebook: tuple[float, ...] = ()
    scale: DType = f16
    sub: int = 0
    sub_scale: DType | None = None
    has_minima: bool = False
    zeros: DType | None = None
    code: SmallFloat | None = None

    def fields(self) -> dict[str, tuple[Shape, DType]]:
        """Of a block: shapes and dtypes."""
        found: dict[str, tuple[Shape, DType]] = {}
        for name, plane in zip(PLANES, self.planes, strict=False):
            found[name] = ((self.items * plane.bits // 8,), plane.dtype)
        found["scales"] = ((), self.scale)
        if self.has_minima:
            found["minima"] = ((), self.scale)
        if self.zeros is not None:
            found["zeros"] = ((), self.zeros)
        if self.sub_scale is not None:
            found["sub_scales"] = ((self.items // self.sub,), self.sub_scale)
            if self.has_minima:
                found["sub_minima"] = ((self.items // self.sub,), self.sub_scale)
        return found

    def fields_of(self, shape: Shape) -> dict[str, tuple[Shape, DType]]:
        """Of a weight whose rows are whole blocks."""
        lead = (*shape[:-1], shape[-1] // self.items)
        return {name: (lead + inner, dtype) for name, (inner, dtype) in self.fields().items()}

    @cached_property
    def axes(self) -> Shape:
        """The axes of a block, so that each part of it that differs from its neighbour is one of them."""
        ends = {self.items, *([self.sub] if self.sub else [])}
        for plane in self.planes:
            ends |= {plane.run << i for i in range((8 // plane.bits).bit_length())}
        ordered = sorted(ends)
        steps = [ordered[0], *(b // a for a, b in pairwise(ordered))]
        assert math.prod(steps) == self.items
        return tuple(reversed(steps))

    def values(self, fields: Fields, ops: Arithmetic) -> Any:
        """(..., K / items, *axes), in f32."""
        found = self._numbers(fields, ops) * self._by_sub("scales", "sub_scales", fields, ops)
        if self.has_minima:
            found = found + self._by_sub("minima", "sub_minima", fields, ops)
        return found

    def integers(self, fields: Fields, ops: Arithmetic) -> Any:
        """(..., K / items, *axes), in f32, none below 0 if they have no sign."""
        found = spread(fields["quants"], self.planes[0], self.axes, ops)
        if len(self.planes) > 1:
            high = spread(fields["high"], self.planes[1], self.axes, ops)
            found = found + high * 2.0 ** self.planes[0].bits
        return found

    def _numbers(self, fields: Fields, ops: Arithmetic) -> Any:
        found = self.integers(fields, ops)
        if self.codebook:
            return ops.lookup(self.codebook, found)
        if self.code is not None:
            return self.code.values(found, ops)
        found = found - self.zero if self.zero else found
        return found if self.zeros is None else found - self._of_blocks(fields["zeros"], ops)

    def _of_blocks(self, field: Any, ops: Arithmetic) -> Any:
        return ops.floats(field.reshape(*field.shape, *[1] * len(self.axes)))

    def _by_sub(self, name: str, sub: str, fields: Fields, ops: Arithmetic) -> Any:
        lead, found = fields[name].shape, self._of_blocks(fields[name], ops)
        if self.sub_scale is None:
            return found
        ends = [math.prod(self.axes[i:]) for i in range(len(self.axes))]
        by_sub = [n if end > self.sub else 1 for n, end in zip(self.axes, ends, strict=True)]
        return found * ops.floats(fields[sub].reshape(*lead, *by_sub))

    def planed(self, integers: Array) -> dict[str, Array]:
        """The planes of integers (blocks, items)."""
        found: dict[str, Array] = {}
        shift = 0
        for name, plane in zip(PLANES, self.planes, strict=False):
            part = integers >> shift & ((1 << plane.bits) - 1) if plane.bits < 8 else integers
            found[name] = part if plane.bits == 8 else in_planes(part, plane)
            shift += plane.bits
        return found

    def packed(
        self, kind: str, shape: Shape, read: Callable[[str], Array], sources: tuple[str, ...] = ()
    ) -> Packed:
        """A weight in these blocks; `read` gives the fields that are of blocks, as rows of blocks or not."""
        specs = self.fields_of(shape)

        def values(fields: Fields, ops: Arithmetic) -> Any:
            return self.values(fields, ops).reshape(-1, *shape[1:])

        def field(name: str) -> Array:
            return read(name).reshape(specs[name][0])

        return Packed(kind, shape, specs, values, field, sources)


PLANES = ("quants", "high")
