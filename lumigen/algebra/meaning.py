"""meaning: terms in numpy, at any extents of their axes: what audits of rules and every use of them compare.

Leaves are whatever they are given as. A move gives the elements of its operand in some order that its number decides:
whatever is true of every order is true of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.algebra.terms import OPS, Axes, AxisTerm, Block, Move, TermKind, number_of
from lumigen.dtype import BY_NAME
from lumigen.ops import ROWS, Op

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]
STRIDE = 7919  # a prime: neighbours come from far apart


def in_order(axes: Axes) -> tuple[str, ...]:
    """The axes as the dimensions of a value."""
    return tuple(sorted(axes, key=number_of))


def shape_of(axes: Axes, sizes: Sizes) -> tuple[int, ...]:
    """Of a value that varies with these axes."""
    return tuple(sizes[a] for a in in_order(axes))


@dataclass(frozen=True, eq=False)
class AxisArray:
    """A value and the axes that it varies with, its dimensions in order."""

    axes: Axes
    array: Array

    def along(self, axes: Axes) -> Array:
        """With a dimension for each of these axes, which has one point where it does not vary."""
        at = tuple(slice(None) if a in self.axes else None for a in in_order(axes))
        return self.array[at]

    def whole(self, axes: Axes, sizes: Sizes) -> Array:
        """At all points of these axes, with which it may vary."""
        return np.broadcast_to(self.along(axes | self.axes), shape_of(axes | self.axes, sizes))


def aligned(*values: AxisArray) -> tuple[list[Array], Axes]:
    """Their arrays over all of their axes."""
    axes = frozenset[str]().union(*(v.axes for v in values))
    return [v.along(axes) for v in values], axes


class Meaning:
    """The values of terms, by what leaves are: arrays over their axes in order."""

    def __init__(self, block: Block, sizes: Sizes, leaves: Sequence[Array]) -> None:
        self.sizes, self.moves = sizes, block.moves
        pairs = zip(block.leaves, leaves, strict=True)
        self.leaves = [AxisArray(leaf.axes, a) for leaf, a in pairs]
        floats = [a.dtype for a in leaves if a.dtype.kind == "f"]
        self.exact = floats[0] if floats else np.dtype(np.float64)

    def values(self, terms: Sequence[AxisTerm]) -> list[AxisArray]:
        """Of all terms, operands first."""
        out: list[AxisArray] = []
        for t in terms:
            out.append(self.value(t, [out[a] for a in t.args]))
        return out

    def value(self, t: AxisTerm, args: Sequence[AxisArray]) -> AxisArray:
        """Of a term, by the values of its operands."""
        with np.errstate(all="ignore"):
            if t.kind is TermKind.LEAF:
                return self.leaves[int(t.label)]
            if t.kind is TermKind.NUM:
                name, text = t.label.split(" ")
                number = float.fromhex(text) if BY_NAME[name].is_float else int(text)
                return AxisArray(frozenset(), np.asarray(number, self._kind(name)))
            if t.kind is TermKind.MOVE:
                return self._moved(self.moves[int(t.label)], args[0], int(t.label))
            if t.kind in {TermKind.SUM, TermKind.MAX}:
                return self._reduced(t, args[0])
            arrays, axes = aligned(*args)
            if t.kind is TermKind.MAP:
                name, _, dtype = t.label.partition(" ")
                made = arrays[0].astype(self._kind(dtype)) if dtype else _op(Op(name), arrays)
                return AxisArray(axes, made)
            return AxisArray(axes, _op(OPS[t.kind], arrays))

    def _kind(self, dtype: str) -> Any:
        """Floats are those of the leaves, so that an audit chooses how exact they are."""
        return self.exact if BY_NAME[dtype].is_float else np.dtype(BY_NAME[dtype].numpy)

    def _reduced(self, t: AxisTerm, a: AxisArray) -> AxisArray:
        """An axis that the operand does not vary with has all its points."""
        axes = a.axes | t.axes
        over = tuple(i for i, name in enumerate(in_order(axes)) if name in t.axes)
        reduce = np.sum if t.kind is TermKind.SUM else np.max
        return AxisArray(axes - t.axes, np.asarray(reduce(a.whole(axes, self.sizes), over)))

    def _moved(self, move: Move, a: AxisArray, number: int) -> AxisArray:
        """The operand may vary with fewer axes than the move takes, and with no others."""
        gives = frozenset(move.gives)
        flat = a.whole(frozenset(move.takes), self.sizes).reshape(-1)
        shape = shape_of(gives, self.sizes)
        at = (np.arange(int(np.prod(shape))) * STRIDE + number) % flat.size
        return AxisArray(gives, flat[at].reshape(shape))


def _op(op: Op, args: Sequence[Array]) -> Array:
    return np.asarray(ROWS[op].meaning(*args))
