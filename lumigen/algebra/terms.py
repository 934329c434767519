"""terms: a part of a graph over named axes, where broadcasts and transposes are nothing but names.

A value varies with its free axes. A reduction takes some away, and every other view of a computed value is a move: it
takes the axes that it reads along and gives others. So equal computations of any layout and spelling are equal terms,
and a rule needs no strides. Axes and leaves are numbered as they appear: layers that are alike are equal blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lumigen.ops import Op


class TermKind(Enum):
    """Every kind of term; the value is its name in rules."""

    LEAF = "Leaf"  # label: its number
    NUM = "Num"  # label: its dtype and its value
    MAP = "Map"  # label: the op of one operand, of a cast with its dtype
    ADD = "Add"
    MUL = "Mul"
    PICK = "Pick"  # a product with a mask, which selects: of the mask and the value
    LESS = "Less"
    MOD = "Mod"
    SUM = "Sum"  # label: the axes that are gone
    MAX = "Max"
    MOVE = "Move"  # label: its number

    __hash__ = object.__hash__


BINARY = {
    Op.ADD: TermKind.ADD,
    Op.MUL: TermKind.MUL,
    Op.LESS_THAN: TermKind.LESS,
    Op.MOD: TermKind.MOD,
}
REDUCED = {Op.SUM_REDUCE: TermKind.SUM, Op.MAX_REDUCE: TermKind.MAX}
OPS = {
    **{kind: op for op, kind in (BINARY | REDUCED).items()},
    TermKind.PICK: Op.MUL,
}
GIVEN = frozenset({TermKind.LEAF, TermKind.NUM})
BETWEEN = " "  # between the parts of a label

Axes = frozenset[str]


@dataclass(frozen=True)
class AxisTerm:
    """`args` are places of earlier terms in the block."""

    kind: TermKind
    args: tuple[int, ...] = ()
    label: str = ""

    @property
    def axes(self) -> Axes:
        """Of a reduction, those that are gone."""
        return frozenset(self.label.split(BETWEEN))


@dataclass(frozen=True)
class OuterValue:
    """A value from outside: what it varies with, bytes that it is read from, whether it is made of weights alone."""

    axes: Axes
    dtype: str
    read: int
    is_fixed: bool


@dataclass(frozen=True)
class Move:
    """The axes that a move takes, in the order of its operand's dimensions, and those that it gives.

    It `is_whole` if all that it gives is of its operand, and no number stands where conditions fail.
    """

    takes: tuple[str, ...]
    gives: tuple[str, ...]
    is_whole: bool = True


@dataclass(frozen=True)
class Block:
    """Terms, operands before users, with what is known of them. `sizes` are extents at the typical dims."""

    terms: tuple[AxisTerm, ...]
    roots: tuple[int, ...]
    leaves: tuple[OuterValue, ...]
    moves: tuple[Move, ...]
    sizes: tuple[tuple[str, int], ...]

    @property
    def sized(self) -> Mapping[str, int]:
        return dict(self.sizes)

    def free(self) -> tuple[Axes, ...]:
        """The axes that each term varies with."""
        out: list[Axes] = []
        for t in self.terms:
            out.append(self.free_of(t, tuple(out[a] for a in t.args)))
        return tuple(out)

    def free_of(self, t: AxisTerm, args: tuple[Axes, ...]) -> Axes:
        """The axes that a term varies with, by those of its operands."""
        if t.kind is TermKind.LEAF:
            return self.leaves[int(t.label)].axes
        if t.kind is TermKind.MOVE:
            return frozenset(self.moves[int(t.label)].gives)
        if t.kind in REDUCED.values():
            return args[0] - t.axes
        return frozenset[str]().union(*args)


def label_of(axes: Axes) -> str:
    """The axes of a reduction as a label: `a2` before `a10`."""
    return BETWEEN.join(sorted(axes, key=number_of))


def number_of(axis: str) -> int:
    return int(axis[1:])
