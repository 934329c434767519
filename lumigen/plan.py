"""Plans: in which kernels and loops a region runs. A plan is the program: what is built from it does what it says.

Canonical, frozen and hashable, so that a plan is the key of what was measured of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

from lumigen.condition import Cmp
from lumigen.dtype import DType, accumulator
from lumigen.index import Axis, Ix
from lumigen.ops import Op
from lumigen.region import (
    Buffer,
    Expr,
    Monoid,
    Reduce,
    Region,
    Store,
    choose,
    const,
    prim,
)


@dataclass(frozen=True)
class Product:
    """A sum of products as a step: `value`, the sum over its axes of `rows * columns`, for all of `m` and `n` at once.

    `m` are axes that only `rows` has, `n` those that only `columns` has; a product of one row, or of one column, has
    none of them. Axes that both have are points of the loops around the step.
    """

    value: Reduce
    rows: Expr
    columns: Expr
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]


@dataclass(frozen=True)
class Carry:
    """A state of a fold: after a tile it is `combine(old * correct, monoid over the tile of `tile`)`.

    `tile` is the body for one point of the folded axis; it may read the states with smaller numbers as
    Carried(i, "new"). `correct` (None: no correction) may read Carried(i, "old") and Carried(i, "new"); where it is a
    truth value it says whether the state is kept, else it is 0.
    With a `product` the tile is `rows * columns` of it, and the state has the product's axes `m` and `n`.
    """

    value: Expr
    monoid: Monoid
    tile: Expr
    correct: Expr | None
    product: Product | None = None

    @property
    def dtype(self) -> DType:
        """The type of the accumulator."""
        return accumulator(self.value.dtype)

    @property
    def identity(self) -> float | int:
        """The state before the first tile."""
        return self.value.dtype.lowest if self.monoid is Monoid.MAX else 0


def corrected(state: Expr, correct: Expr) -> Expr:
    """A state with its correction, which keeps it or not, or is a factor."""
    if correct.dtype.is_bool:
        return choose(correct, state, const(0, state.dtype))
    return prim(Op.MUL, (state, correct), state.dtype)


@dataclass(frozen=True)
class LoopFold:
    """Reductions over the product of `axes` that one loop computes.

    `carries` stand in order of dependency. `results` pairs each original reduction with the expression over
    Carried(i, "new") that it equals after the loop. A point of the axes for which one of `where` fails contributes to
    no carry. `cancelling`: some state adds terms of opposite signs and may lose digits, so that several loops in
    sequence are better.
    """

    axes: tuple[Axis, ...]
    carries: tuple[Carry, ...]
    results: tuple[tuple[Expr, Expr], ...]
    where: tuple[Cmp, ...] = ()
    cancelling: bool = False


KINDS = ("grid", "lanes", "threads", "seq")


@dataclass(frozen=True)
class Loop:
    """A loop over the product of `axes`, over those points for which all of `where` hold.

    kind: "grid" (independent points, shared out in work tiles), "seq" (in order); of the last axis, "lanes" (vectors of
    neighbouring points) or "threads" (shared out to the threads of a team, a point at a time). With `carries` it is a
    fold, whose `body` computes what the tiles of its carries read: products, and folds inside. `results` are those of
    `Fold`.
    """

    axes: tuple[Axis, ...]
    kind: str
    body: tuple[Step, ...] = ()
    carries: tuple[Carry, ...] = ()
    results: tuple[tuple[Expr, Expr], ...] = ()
    where: tuple[Cmp, ...] = ()

    @property
    def fold(self) -> LoopFold:
        """The loop as a fold alone."""
        return LoopFold(self.axes, self.carries, self.results, self.where)


@dataclass(frozen=True)
class Native:
    """A kernel of `ops.NATIVE` for each point of the loops around it; `store` says what it means.

    It orders or groups the first `count` points of `place` by `key`, and stores what is `shown` of each; `elements` are
    further stores of an order, with what each has of a point. Or it stores the sums of what is `summed`, by group.
    """

    kernel: str
    store: Store
    place: Axis
    count: Ix
    key: Expr
    shown: Ix
    elements: tuple[tuple[Store, Expr], ...] = ()
    summed: Expr | None = None


Step = Union[Loop, Product, Native, Store]


def rows_of(region: Region) -> tuple[Buffer, ...]:
    """What a native kernel reads: the rows that it orders or groups; then the values of their elements that it sums."""
    found = Region(region.stores[:1]).reads()
    return (
        tuple(sorted(found, key=lambda b: b.dtype.is_float)) if region.native == "sums" else found
    )


@dataclass(frozen=True)
class KernelPlan:
    """One launch. `region` is what it computes over its own buffers, `root` its loops.

    A fold at the root runs once in each work tile. The block that ends last goes on to all of `then`, if there is one,
    which reads what all blocks have stored; `region` means both.
    """

    region: Region
    root: tuple[Loop, ...]
    then: KernelPlan | None = None

    def loops(self) -> Iterator[Loop]:
        """Every loop of the root, outer ones first."""
        stack = list(reversed(self.root))
        while stack:
            loop = stack.pop()
            yield loop
            stack.extend(s for s in reversed(loop.body) if isinstance(s, Loop))

    def steps(self) -> Iterator[Step]:
        """Every step of the root, in order."""
        for loop in self.loops():
            yield from loop.body

    @property
    def begins_with_product(self) -> bool:
        """Whether its blocks have tiles of a product, and go on from there."""
        return isinstance(self.root[-1].body[0], Product)

    @property
    def stores(self) -> tuple[Store, ...]:
        """What its root stores."""
        return tuple(s for s in self.steps() if isinstance(s, Store))


@dataclass(frozen=True)
class RegionPlan:
    """How a region runs: its launches in order, and the buffers `temps` that they pass on."""

    region: Region
    kernels: tuple[KernelPlan, ...]
    temps: tuple[Buffer, ...] = ()


@dataclass(frozen=True)
class Illegal:
    """Why a plan cannot be realised with a schedule."""

    reason: str


class NotRealised(Exception):
    """What a builder raises where it cannot do what a plan and a schedule say."""

    @property
    def illegal(self) -> Illegal:
        """The reason as a value."""
        return Illegal(str(self))
