"""Indexing as Python and PyTorch spell it: integers, slices, None, `...`, and tensors of integers.

Indexing with data is defined as a sum over a comparison of indices, sum_i select(i == index, x[i]).
Out of range contributes nothing. The compiler turns it into a read: nothing runs as the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from lumigen.dtype import i64
from lumigen.errors import BadArgument, DimSpecialised, DtypeMismatch, RankMismatch
from lumigen.frontend import compare
from lumigen.frontend.compare import eq, where
from lumigen.frontend.extents import check_extent, enough, of_quotient
from lumigen.frontend.movement import (
    axis,
    narrow,
    permute,
    reshape,
    slice_axis,
    squeeze,
    stack,
    with_ones,
)
from lumigen.frontend.primitive import (
    Edge,
    add,
    both,
    broadcast_shape,
    cast,
    constant,
    expand,
    less,
    mul,
    reduce_max,
    reduce_sum,
    select,
    size,
)
from lumigen.frontend.reduction import emit_iota
from lumigen.frontend.trace import fail
from lumigen.graph import tensor_of
from lumigen.index import (
    Dim,
    Ix,
    Symbolic,
    ceildiv,
    is_less,
    is_nonnegative,
    ix,
    maximum,
    minimum,
    product,
)
from lumigen.ops import Op

Key: TypeAlias = Any  # int, extent, slice, None, ..., or an edge of integers


def getitem(a: Edge, keys: Sequence[Key]) -> Edge:
    """a[keys]; tensors of integers are broadcast, and their axes stand where they stood, or in front if apart."""
    out, d = a, 0
    by_data: dict[int, Edge] = {}
    for key in _without_ellipsis(a, [_tensor_of(k) for k in keys]):
        if key is None:
            out = with_ones(out, (d,))
            d += 1
        elif isinstance(key, Edge):
            by_data[d] = key
            d += 1
        elif isinstance(key, slice):
            out = _sliced(out, d, key)
            d += 1
        else:
            out = _picked(out, d, ix(key))
    return _looked_up(out, by_data) if by_data else out


def _tensor_of(key: Key) -> Key:
    """A list of integers as the tensor of integers that it stands for."""
    if not isinstance(key, list | tuple):
        return key
    items: list[Any] = list(key)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in items):
        return items
    if not items:
        return expand("index", constant(0, i64), (ix(0),))
    return stack([constant(i, i64) for i in items])


def _looked_up(a: Edge, by_data: dict[int, Edge]) -> Edge:
    """Axes replaced by tensors of integers, which are one position in those axes taken as one."""
    dims = list(by_data)
    first, count = dims[0], len(dims)
    if count == 1:
        return index_select_nd(a, first, from_the_end(by_data[first], a.shape[first]))
    if dims != list(range(first, first + count)):
        a = permute(a, (*dims, *(k for k in range(len(a.shape)) if k not in dims)))
        first = 0
    rows = a.shape[first : first + count]
    index, _ = linear(list(by_data.values()), rows)
    flat = reshape(a, (*a.shape[:first], product(rows), *a.shape[first + count :]))
    return index_select_nd(flat, first, index)


def linear(keys: Sequence[Edge], extents: Sequence[Ix]) -> tuple[Edge, tuple[Ix, ...]]:
    """Positions in axes as a position in all of them in a row, in the keys' common shape.

    Positions outside of the first axis stay outside; in the others they are those of its ends, so that no sum wraps
    around.
    """
    total: Edge | None = None
    for key, extent in zip(keys, extents, strict=True):
        at = from_the_end(_need_index("index", key), extent)
        if len(keys) > 1 and not _is_within(at, extent):
            low, high = (-1, extent) if total is None else (0, extent - 1)
            at = compare.minimum(compare.maximum(at, low), size(high))
        total = at if total is None else add(mul(total, size(extent)), at)
    assert total is not None
    return total, total.shape


def _is_within(index: Edge, extent: Ix) -> bool:
    """Whether it is declared to be a position in an axis."""
    if index.node.op is not Op.INPUT:
        return False
    bounds = tensor_of(index.node).range
    return bounds is not None and bounds[0] >= 0 and is_nonnegative(extent - 1 - bounds[1])


def _without_ellipsis(a: Edge, keys: list[Key]) -> list[Key]:
    for key in keys:
        if isinstance(key, Edge):
            _need_index("index", key)
        elif not (
            key is None or key is Ellipsis or isinstance(key, int | Symbolic | Ix | slice)
        ) or (isinstance(key, bool)):
            raise fail(
                BadArgument,
                op="index",
                name="an index",
                value=repr(key),
                expected="integers, slices, None, ..., integer tensors or lists of integers"
                + of_quotient(key),
            )
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    gaps = [i for i, k in enumerate(keys) if k is Ellipsis]
    if used > len(a.shape) or len(gaps) > 1:
        raise fail(
            BadArgument,
            op="index",
            name="the index of " + str(len(keys)) + " keys",
            value=f"used on {len(a.shape)} axes",
            expected="at most one key for each axis and one ...",
        )
    missing: list[Key] = [slice(None)] * (len(a.shape) - used)
    at = gaps[0] if gaps else len(keys)
    return [*keys[:at], *missing, *keys[at + 1 :]]


def _picked(a: Edge, d: int, i: Ix) -> Edge:
    """The element at a position, counted from the end where it is negative."""
    extent = a.shape[d]
    at = i + extent if is_less(i, ix(0)) else i
    if not is_nonnegative(at) or not is_less(at, extent):
        room = extent - at - 1 if is_nonnegative(at) else at
        dim = next((x for x in room.atoms() if isinstance(x, Dim)), None)
        never = is_less(at, ix(0)) or is_nonnegative(at - extent)
        if dim is not None and not never:
            declared = f"{dim.lo}..{dim.hi}"
            needed = f"{enough(room, 0, dim)}, for index {i} of axis {d}, which is {extent}"
            raise fail(DimSpecialised, op="index", dim=dim.name, declared=declared, needed=needed)
        raise fail(
            BadArgument,
            op="index",
            name=f"the index of axis {d}",
            value=i,
            expected=f"one from -{extent} to {extent} - 1",
        )
    return squeeze(slice_axis(a, d, at, ix(1)), d)


def _sliced(a: Edge, d: int, s: Any) -> Edge:
    """Python's slice: bounds are clipped, negative ones count from the end."""
    extent = a.shape[d]
    step = 1 if s.step is None else s.step
    if not isinstance(step, int) or step == 0:
        raise fail(
            BadArgument,
            op="slice",
            name="the step",
            value=step,
            expected="an integer that is not 0",
        )
    if step > 0:
        start = _bound(s.start, extent, ix(0), ix(0), extent)
        stop = _bound(s.stop, extent, extent, ix(0), extent)
        length = maximum(ceildiv(stop - start, step), 0)
    else:
        start = _bound(s.start, extent, extent - 1, ix(-1), extent - 1)
        stop = _bound(s.stop, extent, ix(-1), ix(-1), extent - 1)
        length = maximum(ceildiv(start - stop, -step), 0)
    return slice_axis(a, d, start, length, step)


def _bound(given: Any, extent: Ix, default: Ix, low: Ix, high: Ix) -> Ix:
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int | Symbolic | Ix):
        raise fail(
            BadArgument,
            op="slice",
            name="a bound",
            value=repr(given),
            expected=f"integers or extents such as x.shape[1]{of_quotient(given)}",
        )
    at = ix(given)
    if is_less(at, ix(0)):
        at = at + extent
    elif not at.is_const:
        # a bound below zero counts from the end, which no expression of dims can choose to do
        check_extent("slice", f"the bound {at} may be negative and count from the end", at)
    return minimum(maximum(at, low), high)


# --- tensors as indices ---------------------------------------------------------------------------


def _need_index(op: str, index: Edge) -> Edge:
    if not index.dtype.is_int:
        raise fail(
            DtypeMismatch,
            op=op,
            name="the index",
            got=index.dtype,
            expected="of integers: how many places a mask chooses is known only when the model runs"
            if index.dtype.is_bool
            else "an integer type",
            remedy="Use where() or masked_fill()."
            if index.dtype.is_bool
            else "Cast it with .to(lg.i64).",
        )
    return cast(index, i64)


def from_the_end(index: Edge, extent: Ix) -> Edge:
    """Negative indices count from the end, in i64; those declared not to be negative stay as they are."""
    if index.node.op is Op.INPUT:
        bounds = tensor_of(index.node).range
        if bounds is not None and bounds[0] >= 0:
            return index
    if index.node.op is Op.IOTA:
        return index
    index = cast(index, i64)  # a narrower type may not hold what is added
    return where(less(index, 0), add(index, size(extent)), index)


def index_select_nd(a: Edge, d: int, index: Edge) -> Edge:
    """Dimension `d` replaced by those of `index`: sum_i select(i == index, a[.., i, ..])."""
    index = _need_index("index_select", index)
    rank, extra = len(a.shape), len(index.shape)
    before, n, after = a.shape[:d], a.shape[d], a.shape[d + 1 :]
    to = (*before, *index.shape, *after, n)
    at = with_ones(index, (*range(d), *range(d + extra, rank + extra)))
    position = with_ones(emit_iota(n), tuple(range(len(to) - 1)))
    moved = permute(a, (*(k for k in range(rank) if k != d), d))
    source = with_ones(moved, tuple(range(d, d + extra)))
    return _sifted(position, at, source, to)


def _sifted(position: Edge, index: Edge, source: Edge, to: tuple[Ix, ...]) -> Edge:
    hit = eq(expand("index", position, to), expand("index", index, to))
    last = (len(to) - 1,)
    if source.dtype.is_bool:
        return reduce_max(both(hit, expand("index", source, to)), last)
    return reduce_sum(select(hit, expand("index", source, to)), last)


def index_select(a: Edge, dim: int, index: Edge) -> Edge:
    """PyTorch's index_select: `index` is 1-d."""
    if not a.shape:
        return reshape(index_select(reshape(a, (1,)), dim, index), ())
    d = axis("index_select", a, dim)
    if len(index.shape) > 1:
        raise fail(
            RankMismatch,
            op="index_select",
            name="the index",
            shape=index.shape,
            expected="1 axis",
            remedy="Flatten it, or use x[..., index].",
        )
    return index_select_nd(a, d, index if index.shape else reshape(index, (1,)))


def gather(a: Edge, dim: int, index: Edge) -> Edge:
    """out[.., j, ..] = a[.., index[.., j, ..], ..]; other dimensions of `index` may be smaller."""
    if not a.shape or not index.shape:
        one = tuple(reshape(x, (1,)) if not x.shape else x for x in (a, index))
        return reshape(gather(one[0], dim, one[1]), index.shape)
    d = axis("gather", a, dim)
    if any(e == 0 for e in index.shape):
        return expand("gather", constant(0, a.dtype), index.shape)
    _same_rank("gather", a, index)
    index = _need_index("gather", index)
    for k in range(len(a.shape)):
        if k != d:
            a = narrow(a, k, 0, index.shape[k])
    return _gathered(a, d, index)


def take_along_dim(a: Edge, index: Edge, dim: int) -> Edge:
    """As gather, with the other dimensions broadcast."""
    d = axis("take_along_dim", a, dim)
    _same_rank("take_along_dim", a, index)
    index = from_the_end(_need_index("take_along_dim", index), a.shape[d])
    one = ix(1)
    others = broadcast_shape(
        "take_along_dim",
        tuple(one if k == d else e for k, e in enumerate(a.shape)),
        tuple(one if k == d else e for k, e in enumerate(index.shape)),
    )
    index = expand(
        "gather", index, tuple(index.shape[k] if k == d else e for k, e in enumerate(others))
    )
    a = expand("gather", a, tuple(a.shape[k] if k == d else e for k, e in enumerate(others)))
    return _gathered(a, d, index)


def _gathered(a: Edge, d: int, index: Edge) -> Edge:
    rank, n = len(a.shape), a.shape[d]
    to = (*index.shape, n)
    source = with_ones(permute(a, (*(k for k in range(rank) if k != d), d)), (d,))
    position = with_ones(emit_iota(n), tuple(range(rank)))
    return _sifted(position, with_ones(index, (rank,)), source, to)


def _same_rank(op: str, a: Edge, index: Edge) -> None:
    if len(a.shape) != len(index.shape):
        raise fail(
            RankMismatch,
            op=op,
            name="the index",
            shape=index.shape,
            expected=f"{len(a.shape)} axes, as the tensor {tuple(map(str, a.shape))}",
            remedy="Unsqueeze the one that has fewer.",
        )
