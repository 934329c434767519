"""Plans: in which kernels and loops a region runs. Canonical, so that a plan is the key of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from lumigen.condition import Cmp
from lumigen.dtype import DType, accumulator
from lumigen.index import Axis, Ix
from lumigen.region import Buffer, Expr, Monoid, Region, Store


@dataclass(frozen=True)
class Carry:
    """A state of a fold: after a tile it is `combine(old * correct, monoid over the tile of `tile`)`.

    `tile` is the body for one point of the folded axis; it may read the states with smaller numbers as
    Carried(i, "new"). `correct` (None: no correction) may read Carried(i, "old") and Carried(i, "new").
    `init` is the identity of the monoid, or "peel" where the first tile must stand alone.
    `cancelling` marks a state whose terms have opposite signs and may lose digits.
    """

    value: Expr
    monoid: Monoid
    tile: Expr
    correct: Expr | None
    init: str = "identity"
    cancelling: bool = False

    @property
    def dtype(self) -> DType:
        """The type that the state is held in."""
        return accumulator(self.value.dtype)

    @property
    def identity(self) -> float | int:
        """What the state holds before the first tile."""
        return self.value.dtype.lowest if self.monoid is Monoid.MAX else 0


@dataclass(frozen=True)
class Fold:
    """Reductions over the product of `axes` that one loop computes.

    `carries` stand in order of dependency. `results` pairs each original reduction with the expression over
    Carried(i, "new") that it equals once the loop has ended. A point of the axes for which one of `where` fails
    contributes to no carry: the loop may skip it.
    """

    axes: tuple[Axis, ...]
    carries: tuple[Carry, ...]
    results: tuple[tuple[Expr, Expr], ...]
    where: tuple[Cmp, ...] = ()

    @property
    def cancelling(self) -> bool:
        """Whether some state may lose digits, so that several loops in sequence are better."""
        return any(c.cancelling for c in self.carries)


@dataclass(frozen=True)
class Loop:
    """A loop over the product of `axes`, from `lo` up to `hi` (of the one axis, if it is one).

    kind: "grid" (independent work tiles), "seq" (in order), "split" (parts merged afterwards; `part` is their axis).
    No carries: a map. Some: a fold. `results` name what the folded values are once the loop has ended:
    pairs of the original expression and the one over Carried(i, "new") that replaces it.
    """

    axes: tuple[Axis, ...]
    kind: str
    lo: Ix
    hi: Ix
    carries: tuple[Carry, ...] = ()
    body: tuple[Step, ...] = ()
    part: Axis | None = None
    results: tuple[tuple[Expr, Expr], ...] = ()


Step = Union[Loop, Store]


@dataclass(frozen=True)
class KernelPlan:
    """One launch: its loop trees, and those that merge split states afterwards."""

    root: tuple[Loop, ...]
    merge: tuple[Loop, ...] = ()


@dataclass(frozen=True)
class RegionPlan:
    """How a region runs. `temps` are the buffers that this plan materialises."""

    region: Region
    kernels: tuple[KernelPlan, ...]
    temps: tuple[Buffer, ...] = ()
