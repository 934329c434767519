"""meaning: terms in numpy, at any extents of their axes: what audits of rules and every use of them compare.

Leaves are whatever they are given as. A move gives the elements of its operand in some order that its number decides:
whatever is true of every order is true of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.algebra.terms import Axes, AxisTerm, Block, Move, TermKind, number_of
from lumigen.dtype import BY_NAME
from lumigen.ops import ROWS, Op

Array = npt.NDArray[Any]
STRIDE = 7919  # a prime: neighbours come from far apart

MEANINGS = {
    TermKind.ADD: Op.ADD,
    TermKind.MUL: Op.MUL,
    TermKind.PICK: Op.MUL,
    TermKind.LESS: Op.LESS_THAN,
    TermKind.MOD: Op.MOD,
}


class Meaning:
    """Values over all axes of a block: an axis that a value does not vary with has one point."""

    def __init__(self, block: Block, sizes: Mapping[str, int], leaves: Sequence[Array]) -> None:
        self.sizes, self.leaves, self.moves = sizes, leaves, block.moves
        self.names = sorted(sizes, key=number_of)
        self.place = {a: i for i, a in enumerate(self.names)}

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Of a value that varies with these axes."""
        return tuple(self.sizes[a] if a in axes else 1 for a in self.names)

    def values(self, terms: Sequence[AxisTerm]) -> list[Array]:
        """Of all terms, operands first."""
        out: list[Array] = []
        with np.errstate(all="ignore"):
            for t in terms:
                out.append(self.value(t, [out[a] for a in t.args]))
        return out

    def value(self, t: AxisTerm, args: Sequence[Array]) -> Array:
        if t.kind is TermKind.LEAF:
            return self.leaves[int(t.label)]
        if t.kind is TermKind.NUM:
            name, text = t.label.split(" ")
            dtype = self._kind(BY_NAME[name].numpy)
            number = float.fromhex(text) if BY_NAME[name].is_float else int(text)
            return np.full((1,) * len(self.names), number, dtype)
        if t.kind is TermKind.MOVE:
            return self._moved(self.moves[int(t.label)], args[0], int(t.label))
        if t.kind in {TermKind.SUM, TermKind.MAX}:
            return self._reduced(t, args[0])
        if t.kind is TermKind.MAP:
            name, _, dtype = t.label.partition(" ")
            if dtype:
                return np.asarray(args[0]).astype(self._kind(BY_NAME[dtype].numpy))
            return np.asarray(ROWS[Op(name)].meaning(args[0]))
        return np.asarray(ROWS[MEANINGS[t.kind]].meaning(*args))

    def _kind(self, dtype: Any) -> Any:
        """Floats are those of the leaves, so that an audit chooses how exact they are."""
        floats = [a.dtype for a in self.leaves if a.dtype.kind == "f"]
        return floats[0] if floats and np.dtype(dtype).kind not in "iub" else np.dtype(dtype)

    def _reduced(self, t: AxisTerm, a: Array) -> Array:
        """An axis that the operand does not vary with has all its points."""
        over = tuple(self.place[name] for name in t.axes)
        shape = [self.sizes[self.names[i]] if i in over else n for i, n in enumerate(a.shape)]
        whole = np.broadcast_to(a, shape)
        return np.asarray(
            (np.sum if t.kind is TermKind.SUM else np.max)(whole, over, keepdims=True)
        )

    def _moved(self, move: Move, a: Array, number: int) -> Array:
        whole = np.broadcast_to(a, self.shape(frozenset(move.takes))).reshape(-1)
        shape = self.shape(frozenset(move.gives))
        at = (np.arange(int(np.prod(shape))) * STRIDE + number) % whole.size
        return whole[at].reshape(shape)
