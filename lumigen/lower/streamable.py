"""streamable: which folds around products run as `stream` has it, and what of them depends on what.

Before: a cascade.  After: it with rows that a block has and operands of one type, or the reason why there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumigen.dtype import DType, f16, f32, i8, u8
from lumigen.index import Axis, extent_of
from lumigen.lower.bounds import assuming, held_in_steps
from lumigen.lower.cascade import Cascade, Outer, find_cascade
from lumigen.lower.contract import flatten
from lumigen.lower.pipeline import are_counted
from lumigen.lower.scaling import unscaled
from lumigen.lower.scope import address
from lumigen.machine import StreamingGpu, StreamTiles
from lumigen.ops import Op
from lumigen.plan import Carry, NotRealised
from lumigen.region import (
    Carried,
    Choose,
    Expr,
    Prim,
    Read,
    Role,
    Store,
    choose,
    free_axes,
    prim,
    walk,
)


@dataclass(frozen=True)
class Streamable:
    """A cascade that can run so. Carries in `first` depend on no other; those in `second` on the first alone.

    Without `outers` all of its states are of rows. `sizes`: the least tiles that hold a row of the result, and one of
    each inner product.
    """

    cascade: Cascade
    element: DType
    m_axes: tuple[Axis, ...]
    grid: tuple[Axis, ...]
    outers: tuple[Outer, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    sizes: tuple[int, int]

    @property
    def is_bounded(self) -> bool:
        """Whether rows fold different points."""
        return any(c.axes & {*self.m_axes} for c in self.cascade.fold.where)

    @property
    def carries(self) -> tuple[Carry, ...]:
        return self.cascade.fold.carries

    @staticmethod
    def of(
        found: Cascade,
        stores: tuple[Store, ...],
        rows: int,
        machine: StreamingGpu,
        temporaries: DType = f32,
    ) -> Streamable:
        """The cascade in blocks of so many rows; its temporaries of f32 are held as `temporaries`.

        NotRealised where its states depend on each other too deeply, or its rows are too long.
        """
        if len(found.inners) > 2 or len(found.outers) > len(found.inners):
            raise NotRealised("a block has two inner products at most, and no more outer ones")
        if not are_counted(found.columns, found.fold.axes):
            raise NotRealised("a product with more rows than an int counts")
        found = unscaled(found)
        element = _held_in(found.operands, temporaries)
        sizes = _sizes(found, machine.streams)
        _check(found, stores[-1], max(sizes), machine.streams)
        carries = found.fold.carries
        first = tuple(i for i in found.vectors if not _needs(carries[i]))
        second = tuple(i for i in found.vectors if i not in first)
        last = (*second, *(o.carry for o in found.outers))
        if any(n not in first for i in last for n in _needs(carries[i])):
            raise NotRealised("a state that depends on one that depends on others")
        if element is f16 and any(carries[o.carry].correct is None for o in found.outers):
            element = f32  # weights that no maximum bounds may not fit
        outers = tuple(replace(o, weights=_not_rounded(o.weights, element)) for o in found.outers)
        # A block has rows of one axis alone where these fill it: bounds of k differ between rows of others.
        long = [a for a in found.columns if a.extent.estimate() >= rows]
        joined = tuple(long[-1:]) or found.columns
        grid = tuple(a for a in stores[-1].axes if a not in (*joined, *found.rows))
        return Streamable(found, element, joined, grid, outers, first, second, sizes)


def in_steps(found: Streamable, step: int) -> Streamable:
    """The same without asking for conditions where all of a tile that is met fulfils them, as those of a part are."""
    fold = found.cascade.fold
    conditions = (c for c in fold.where if not c.axes & {*found.cascade.columns})
    held = held_in_steps(conditions, fold.axes[0], step)
    carries = tuple(replace(c, tile=assuming(c.tile, held)) for c in fold.carries)
    outers = tuple(replace(o, weights=assuming(o.weights, held)) for o in found.outers)
    cascade = replace(found.cascade, fold=replace(fold, carries=carries))
    return replace(found, cascade=cascade, outers=outers)


def _sizes(found: Cascade, streams: StreamTiles) -> tuple[int, int]:
    inner = max(size(p.value.axes, streams) for p in found.inners)
    return size(found.rows, streams), inner


def _check(found: Cascade, store: Store, longest: int, streams: StreamTiles) -> None:
    stores = [*(s for s in found.others if found.has_rows(s)), replace(store, value=found.after)]
    if found.outers:
        e, e_map = flatten(found.rows, "e")
        to = [address(s.dst, tuple(i.substitute(e_map) for i in s.at)) for s in stores]
        widest = streams.widest if len(found.inners) == 1 else streams.widest_of_two
        if longest > widest:
            raise NotRealised(f"rows longer than {widest}")
        if any(place.coefficient(e) is None for place in to):
            raise NotRealised("a row of the result whose elements lie at no stride")
    if len(found.inners) > 1 and not found.outers:
        raise NotRealised("two inner products without an outer one")
    sums = {o.carry for o in found.outers}
    if any(len(sums & states_of(s.value)) > 1 for s in stores):
        raise NotRealised("a store of several sums")
    corrections = [c.correct for c in found.fold.carries if c.correct is not None]
    if any(free_axes(c) & {*found.columns, *found.fold.axes} for c in corrections):
        raise NotRealised("a correction that varies inside a tile")


def find_streamable(
    stores: tuple[Store, ...], machine: StreamingGpu, temporaries: DType = f32
) -> Streamable | None:
    """The cascade of a region in blocks of threads, or None; its temporaries of f32 are held as `temporaries`."""
    found = find_cascade(stores, machine, one_row=True)
    if found is None:
        return None
    try:
        return Streamable.of(found, stores, machine.streams.rows, machine, temporaries)
    except NotRealised:
        return None


def size(axes: tuple[Axis, ...], streams: StreamTiles) -> int:
    """The least tile that holds the product of so many points: a power of two."""
    most = extent_of(axes).bounds()[1]
    assert most is not None, "find_cascade bounds it"
    return max(streams.narrowest, 1 << (most - 1).bit_length())


def _not_rounded(e: Expr, element: DType) -> Expr:
    """The weights without a cast to what they are rounded to as operands, guarded perhaps."""
    if isinstance(e, Choose):
        return choose(e.condition, _not_rounded(e.then, element), e.otherwise)
    rounded = prim(Op.CONTIGUOUS, (e,), element)
    if isinstance(e, Prim) and isinstance(rounded, Prim) and rounded in e.args:
        return rounded.args[0]  # so e widens what is rounded
    return e


def _held_in(operands: tuple[Expr, ...], temporaries: DType) -> DType:
    """The 16-bit type in which memory holds all that is read of the operands; else f32, which holds any of it.

    Integers of a byte are exact in each of these types.
    """
    reads = [e.source for e in walk(operands) if isinstance(e, Read)]
    sources = [b for b in reads if b.dtype not in (i8, u8)]
    held = {temporaries if b.role is Role.TEMP and b.dtype is f32 else b.dtype for b in sources}
    element = held.pop() if len(held) == 1 else f32
    return element if element.is_float and element.bits == 16 else f32


def _needs(c: Carry) -> set[int]:
    """The states that a carry is computed from."""
    roots = [c.tile] + ([c.correct] if c.correct is not None else [])
    return states_of(*roots)


def states_of(*roots: Expr) -> set[int]:
    return {e.carry for e in walk(roots) if isinstance(e, Carried)}
