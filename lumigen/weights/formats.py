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
SIGNED = {8: i8}  # planes of whole bytes have a sign; others are bits of u8


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


class _Arrays:
    def floats(self, x: Array) -> Array:
        return x.astype(np.float32)

    def floor(self, x: Array) -> Array:
        return np.floor(x)

    def join(self, parts: Sequence[Array], axis: int) -> Array:
        return np.concatenate(parts, axis)

    def lookup(self, table: Sequence[float], index: Array) -> Array:
        return np.array(table, np.float32)[index.astype(np.uint8)]


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
        with np.errstate(all="ignore"):  # scales are what the file says, NaN and infinity included
            return self.values({name: self.read(name) for name in self.fields}, ARRAYS)

    @property
    def bits(self) -> int:
        """Of all its fields."""
        return sum(int(np.prod(shape)) * dtype.bits for shape, dtype in self.fields.values())


@dataclass(frozen=True)
class Plane:
    """Some bits of each integer of a block: byte i of a run of bytes has those of the integers i, i + run, ..."""

    bits: int
    run: int


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

        scales * sub_scales * (integer - zero) + minima * sub_minima

    The integers are `planes`, lowest bits first; with a `codebook` they are indices into it. `sub` elements share a
    sub-scale, where there are such. Products and sums are of f32, from left to right.
    """

    items: int
    planes: tuple[Plane, ...]
    zero: int = 0
    codebook: tuple[int, ...] = ()
    scale: DType = f16
    sub: int = 0
    sub_scale: DType | None = None
    has_minima: bool = False

    def fields(self) -> dict[str, tuple[Shape, DType]]:
        """Of a block: shapes and dtypes."""
        found: dict[str, tuple[Shape, DType]] = {}
        for name, plane in zip(PLANES, self.planes, strict=False):
            found[name] = ((self.items * plane.bits // 8,), SIGNED.get(plane.bits, u8))
        found["scales"] = ((), self.scale)
        if self.has_minima:
            found["minima"] = ((), self.scale)
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

    def _numbers(self, fields: Fields, ops: Arithmetic) -> Any:
        found = spread(fields["quants"], self.planes[0], self.axes, ops)
        if self.codebook:
            return ops.lookup(self.codebook, found)
        if len(self.planes) > 1:
            high = spread(fields["high"], self.planes[1], self.axes, ops)
            found = found + high * 2.0 ** self.planes[0].bits
        return found - self.zero if self.zero else found

    def _by_sub(self, name: str, sub: str, fields: Fields, ops: Arithmetic) -> Any:
        of_blocks = fields[name]
        lead, ones = of_blocks.shape, [1] * len(self.axes)
        found = ops.floats(of_blocks.reshape(*lead, *ones))
        if self.sub_scale is None:
            return found
        ends = [math.prod(self.axes[i:]) for i in range(len(self.axes))]
        by_sub = [n if end > self.sub else 1 for n, end in zip(self.axes, ends, strict=True)]
        return found * ops.floats(fields[sub].reshape(*lead, *by_sub))

    def packed(
        self, kind: str, shape: Shape, read: Callable[[str], Array], sources: tuple[str, ...] = ()
    ) -> Packed:
        """A weight in these blocks; `read` gives the fields that are of blocks, as rows of blocks or not."""
        specs = self.fields_of(shape)

        def values(fields: Fields, ops: Arithmetic) -> Any:
            return self.values(fields, ops).reshape(*shape)

        def field(name: str) -> Array:
            return read(name).reshape(specs[name][0])

        return Packed(kind, shape, specs, values, field, sources)


PLANES = ("quants", "high")
