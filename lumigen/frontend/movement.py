"""Movement: other views of the same elements; a node only where two fills cannot be one view.

Extents may be symbolic; what must hold of them is decided for every value, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumigen import view
from lumigen.condition import less
from lumigen.errors import BadArgument, BadAxis, BadReshape, DimSpecialised, ShapeMismatch
from lumigen.frontend.extents import check_count, check_extent, check_extents, counted
from lumigen.frontend.primitive import (
    Edge,
    Extent,
    add,
    cast,
    constant,
    expand,
    held,
    look,
    unequal,
)
from lumigen.frontend.promote import Vote, result_type
from lumigen.frontend.trace import fail
from lumigen.index import Dim, Ix, ceildiv, is_less, is_nonnegative, ix, maximum, minimum, product
from lumigen.ops import neutral
from lumigen.view import Shape, View


def axis(op: str, a: Edge, dim: object, extra: int = 0) -> int:
    """A dimension counted from 0; `extra` more than there are may be named."""
    rank = len(a.shape) + extra
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise fail(BadAxis, op=op, axis=dim, shape=a.shape)
    return dim % rank


def axes(op: str, a: Edge, dims: int | Sequence[int] | None) -> tuple[int, ...]:
    """Dimensions counted from 0, ascending; None is all of them. A 0-d tensor has none, called 0 or -1."""
    if dims is None:
        return tuple(range(len(a.shape)))
    listed = [dims] if isinstance(dims, int) else list(dims)
    if not a.shape and all(d in (0, -1) for d in listed) and len(listed) < 2:
        return ()
    found = [axis(op, a, d) for d in listed]
    if len(set(found)) != len(found):
        raise fail(BadAxis, op=op, axis=listed, shape=a.shape)
    return tuple(sorted(found))


# --- shape ----------------------------------------------------------------------------------------


def reshape(a: Edge, shape: Sequence[Extent]) -> Edge:
    """The elements in row-major order under another shape; one extent may be -1."""
    to = _with_inferred(a, shape)
    if to == a.shape:
        return a
    if product(to) is not product(a.shape):
        raise _bad_reshape(a, to)
    if product(to) == 0:
        return expand("reshape", constant(0, a.dtype), to)  # nothing is looked at
    return look(a, view.reshape(a.shape, to))


def _with_inferred(a: Edge, shape: Sequence[Extent]) -> Shape:
    to = [ix(e) for e in shape]
    unknown = [d for d, e in enumerate(to) if e == -1]
    if any(is_less(e, ix(0)) for d, e in enumerate(to) if d not in unknown) or len(unknown) > 1:
        raise fail(
            BadReshape,
            shape=a.shape,
            target=tuple(shape),
            op="reshape",
            why="extents are positive, and at most one may be -1",
        )
    if unknown:
        total = product(a.shape)
        rest = product(tuple(e for d, e in enumerate(to) if d not in unknown))
        quotient = total // rest if is_less(ix(0), rest) else ix(0)
        if quotient * rest is not total:
            why = f"{total} elements are not known to be a multiple of {rest}"
            if total.is_const and rest.is_const:
                why = f"{total} elements are no multiple of {rest}"
            raise fail(BadReshape, op="reshape", shape=a.shape, target=tuple(shape), why=why)
        to[unknown[0]] = quotient
    return tuple(to)


def _bad_reshape(a: Edge, to: Shape) -> Exception:
    have, want = product(a.shape), product(to)
    dim = next((d for d in (have - want).atoms() if isinstance(d, Dim)), None)
    if dim is None or is_less(have, want) or is_less(want, have):
        why = f"{have} elements cannot fill {want}"
        return fail(BadReshape, op="reshape", shape=a.shape, target=to, why=why)
    needed = f"such that {have} elements are {want}"
    return fail(
        DimSpecialised, op="reshape", dim=dim.name, declared=f"{dim.lo}..{dim.hi}", needed=needed
    )


def permute(a: Edge, dims: Sequence[int]) -> Edge:
    order = tuple(axis("permute", a, d) for d in dims)
    if sorted(order) != list(range(len(a.shape))):
        raise fail(BadAxis, op="permute", axis=list(dims), shape=a.shape)
    return look(a, view.permute(a.shape, order))


def transpose(a: Edge, dim0: int, dim1: int) -> Edge:
    if not a.shape and {dim0, dim1} <= {0, -1}:
        return a
    order = list(range(len(a.shape)))
    i, j = axis("transpose", a, dim0), axis("transpose", a, dim1)
    order[i], order[j] = order[j], order[i]
    return look(a, view.permute(a.shape, tuple(order)))


def unsqueeze(a: Edge, dim: int) -> Edge:
    """A new dimension of extent 1 at `dim`."""
    at = axis("unsqueeze", a, dim, extra=1)
    return with_ones(a, (at,))


def with_ones(a: Edge, at: tuple[int, ...]) -> Edge:
    """New dimensions of extent 1 at these places of the result, ascending."""
    to = list(a.shape)
    for d in at:
        to.insert(d, ix(1))
    kept = [p for d, p in enumerate(view.positions(tuple(to))) if d not in at]
    return look(a, View(tuple(to), tuple(ix(p) for p in kept)))


def squeeze(a: Edge, dim: int | Sequence[int] | None = None) -> Edge:
    """Without dimensions of extent 1: all of them, or those named that are 1."""
    named = axes("squeeze", a, dim)
    gone = {d for d in named if a.shape[d] == 1}
    to = tuple(e for d, e in enumerate(a.shape) if d not in gone)
    left = iter(view.positions(to))
    index = tuple(ix(0) if d in gone else ix(next(left)) for d in range(len(a.shape)))
    return look(a, View(to, index)) if gone else a


def expand_to(a: Edge, shape: Sequence[Extent]) -> Edge:
    """Repeat along dimensions of extent 1 and along new leading ones; -1 keeps an extent."""
    new = len(shape) - len(a.shape)
    if new < 0:
        raise fail(
            BadArgument,
            op="expand",
            name="the shape",
            value=tuple(shape),
            expected=f"at least {len(a.shape)} extents",
        )
    if any(ix(e) == -1 for e in shape[:new]):
        expected = "extents for new axes; -1 keeps the extent of an axis that there is"
        raise fail(BadArgument, op="expand", name="a new axis", value=-1, expected=expected)
    to = tuple(a.shape[d - new] if d >= new and ix(e) == -1 else ix(e) for d, e in enumerate(shape))
    check_extents("expand", to)
    return expand("expand", a, to)


def flatten(a: Edge, start: int = 0, end: int = -1) -> Edge:
    """One dimension for those from `start` to `end`; 0-d becomes 1-d."""
    if not a.shape:
        return reshape(a, (1,))
    i, j = axis("flatten", a, start), axis("flatten", a, end)
    if i > j:
        expected = "a dimension that is not after end_dim"
        raise fail(BadArgument, op="flatten", name="start_dim", value=start, expected=expected)
    return reshape(a, (*a.shape[:i], product(a.shape[i : j + 1]), *a.shape[j + 1 :]))


def unflatten(a: Edge, dim: int, sizes: Sequence[Extent]) -> Edge:
    """The dimension split into `sizes`, one of which may be -1."""
    d = axis("unflatten", a, dim)
    known = [ix(s) for s in sizes if ix(s) != -1]
    divisor = product(tuple(known))
    rest = a.shape[d] // divisor if len(known) < len(sizes) and is_less(ix(0), divisor) else ix(1)
    return reshape(
        a, (*a.shape[:d], *(rest if ix(s) == -1 else s for s in sizes), *a.shape[d + 1 :])
    )


def flip(a: Edge, dims: int | Sequence[int]) -> Edge:
    return look(a, view.flip(a.shape, axes("flip", a, dims)))


# --- parts ----------------------------------------------------------------------------------------


def slice_axis(a: Edge, dim: int, start: Ix, length: Ix, step: int = 1) -> Edge:
    """`length` elements of a dimension from `start`, `step` apart, all of which exist."""
    starts = tuple(start if d == dim else ix(0) for d in range(len(a.shape)))
    sizes = tuple(length if d == dim else e for d, e in enumerate(a.shape))
    steps = tuple(step if d == dim else 1 for d in range(len(a.shape)))
    if start == 0 and step == 1 and length == a.shape[dim]:
        return a
    return look(a, view.slice_view(a.shape, starts, sizes, steps))


def narrow(a: Edge, dim: int, start: Extent, length: Extent) -> Edge:
    """`length` elements from `start`, which must lie inside for every value of every dim."""
    d = axis("narrow", a, dim)
    first, count, extent = ix(start), ix(length), a.shape[d]
    check_extent("narrow", f"axis {d} would have extent {count}", count)
    rule = f"elements {first} to {first + count} must lie within {extent}"
    for room in (first, extent - first - count):
        if is_less(room, ix(0)):
            shapes = {"lhs": a.shape, "rhs": (count,)}
            raise fail(ShapeMismatch, op="narrow", **shapes, rule=rule, remedy="Slice with less.")
        check_extent("narrow", rule, room)
    return slice_axis(a, d, first, count)


COUNTED = (
    ", which Python counts while the model is traced. A dim can be split by a list of sizes, or by tensor_split into "
    "up to 3 parts; where each part is treated alike, make an axis of parts with unflatten"
)


def split(a: Edge, sizes: Extent | Sequence[Extent], dim: int = 0) -> list[Edge]:
    """Consecutive parts: of one size (the last may be shorter), or of the sizes listed."""
    d = axis("split", a, dim)
    if not isinstance(sizes, Sequence):
        extent, size = a.shape[d], counted("split", "the size", sizes)
        whole, rest = extent // size, extent % size
        if not whole.is_const or not (rest == 0 or is_less(ix(0), rest)):
            raise _fixed(
                "split", (extent, size), f"it decides how many parts of {size} there are{COUNTED}"
            )
        sizes = [size] * whole.const + ([] if rest == 0 else [rest]) or [ix(0)]
    check_extents("split", tuple(map(ix, sizes)))
    total = sum((ix(s) for s in sizes), ix(0))
    if total is not a.shape[d]:
        rule = f"the parts add up to {total}, axis {d} is {a.shape[d]}"
        raise unequal(
            "split", total, a.shape[d], a.shape, tuple(map(ix, sizes)), rule, "Correct the sizes."
        )
    parts: list[Edge] = []
    start = ix(0)
    for length in sizes:
        parts.append(slice_axis(a, d, start, ix(length)))
        start = start + ix(length)
    return parts


def chunk(a: Edge, chunks: int, dim: int = 0) -> list[Edge]:
    """Up to `chunks` parts of equal size; the last may be shorter."""
    check_count("chunk", "the number of chunks", chunks)
    extent = a.shape[axis("chunk", a, dim)]
    size = ceildiv(extent, chunks)
    if size * chunks is extent or is_less(size * (chunks - 1), extent):
        return split(a, [*[size] * (chunks - 1), extent - size * (chunks - 1)], dim)
    if not size.is_const:
        raise _fixed(
            "chunk", (extent,), f"it decides how many of {chunks} parts there are{COUNTED}"
        )
    return split(a, size.const, dim)


def _fixed(op: str, varying: Sequence[Ix], why: str) -> Exception:
    dim = next(d for e in varying for d in e.atoms() if isinstance(d, Dim))
    needed = f"a fixed number, since {why}"
    return fail(DimSpecialised, op=op, dim=dim.name, declared=f"{dim.lo}..{dim.hi}", needed=needed)


def unfold(a: Edge, dim: int, size: Extent, step: Extent = 1, dilation: int = 1) -> Edge:
    """Sliding windows: the dimension counts windows, a last one of `size` is added."""
    if not a.shape:
        return (
            look(a, View((ix(size),), ()))
            if size in (0, 1)
            else unfold(reshape(a, (1,)), dim, size)
        )
    d = axis("unfold", a, dim)
    check_count("unfold", "the dilation", dilation)
    size, step = counted("unfold", "the size", size), counted("unfold", "the step", step)
    window = (size - 1) * dilation + 1
    fits = f"a window of {window} must fit into axis {d}, which is {a.shape[d]}"
    if is_less(a.shape[d], window):
        shapes = {"lhs": a.shape, "rhs": (window,)}
        raise fail(ShapeMismatch, op="unfold", **shapes, rule=fits, remedy="Pad it first.")
    check_extent("unfold", fits, a.shape[d] - window, least=0)
    return look(a, view.windows(a.shape, d, size, step, dilation))


# --- joining --------------------------------------------------------------------------------------


def pad(a: Edge, widths: Sequence[Extent], value: Any = 0) -> Edge:
    """Before and after the last dimension, then of the one before it; negative widths crop."""
    rank = len(a.shape)
    if not isinstance(value, int | float):
        raise fail(BadArgument, op="pad", name="the value", value=repr(value), expected="a number")
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise fail(
            BadArgument,
            op="pad",
            name="the padding",
            value=tuple(widths),
            expected=f"two widths for each of the last axes, at most {2 * rank}",
        )
    before, after = [ix(0)] * rank, [ix(0)] * rank
    for k in range(len(widths) // 2):
        d = rank - 1 - k
        before[d], after[d] = ix(widths[2 * k]), ix(widths[2 * k + 1])
        crop = [-w.const if w.is_const and w.const < 0 else 0 for w in (before[d], after[d])]
        if any(crop):
            left = a.shape[d] - sum(crop)
            check_extent("pad", f"cropping {sum(crop)} would leave {left} of axis {d}", left)
            a = slice_axis(a, d, ix(crop[0]), left)
            before[d], after[d] = (
                ix(0) if c else w for c, w in zip(crop, (before[d], after[d]), strict=True)
            )
        for width in (before[d], after[d]):
            check_extent("pad", f"axis {d} is padded with {width}", width)
    fill = held("pad", value, a.dtype, wraps=False)
    return look(a, view.pad(a.shape, tuple(before), tuple(after), fill))


def cat(parts: Sequence[Edge], dim: int = 0) -> Edge:
    """Parts in a row: each padded with what leaves sums alone (-0.0, 0, false), then added."""
    if not parts:
        raise fail(
            BadArgument, op="cat", name="the list of parts", value="empty", expected="at least one"
        )
    dtype = result_type("cat", tuple(Vote(p.dtype, p.shape) for p in parts))
    parts = [p for p in parts if p.shape != (ix(0),)] or parts[:1]  # which PyTorch skips
    d = axis("cat", parts[0], dim)
    for p in parts:
        _check_joinable(parts[0], p, d)
    total = sum((p.shape[d] for p in parts), ix(0))
    fill = float(neutral(dtype.numpy)) if dtype.is_float else 0
    out: Edge | None = None
    start = ix(0)
    for p in parts:
        before = tuple(start if k == d else ix(0) for k in range(len(p.shape)))
        after = tuple(total - start - p.shape[d] if k == d else ix(0) for k in range(len(p.shape)))
        piece = look(cast(p, dtype), view.pad(p.shape, before, after, fill))
        start = start + p.shape[d]
        out = piece if out is None else add(out, piece, "cat")
    assert out is not None
    return out


def _check_joinable(first: Edge, p: Edge, d: int) -> None:
    rule = "all axes but the joined one must agree"
    if len(first.shape) != len(p.shape):
        never = (ix(len(first.shape)), ix(len(p.shape)))
        raise unequal("cat", *never, first.shape, p.shape, rule, "Add the missing axes.")
    for k, (x, y) in enumerate(zip(first.shape, p.shape, strict=True)):
        if k != d and x is not y:
            raise unequal(
                "cat", x, y, first.shape, p.shape, f"{rule}, axis {k} does not", "Slice or pad one."
            )


def stack(parts: Sequence[Edge], dim: int = 0) -> Edge:
    """Parts along a new dimension."""
    return cat([unsqueeze(p, dim) for p in parts], dim)


def roll(a: Edge, shift: Extent, dim: int) -> Edge:
    """Element i moves to i + shift, around the end: two slices, joined."""
    d = axis("roll", a, dim)
    extent = a.shape[d]
    k = ix(shift) % maximum(extent, 1)
    if not is_nonnegative(extent - k):
        k = minimum(k, extent)  # the same, and seen to be no more
    if not (is_nonnegative(k) and is_nonnegative(extent - k)):
        raise _fixed("roll", (extent,), f"it is rolled by {k}, which may be negative or more")
    if k == 0:
        return a
    return cat([slice_axis(a, d, extent - k, k), slice_axis(a, d, ix(0), extent - k)], d)


def tile_axis(a: Edge, dim: int, times: Extent) -> Edge:
    """Each element `times` times in a row along a dimension."""
    d = axis("repeat_interleave", a, dim)
    count = counted("repeat_interleave", "the count", times, 0)
    wide = with_ones(a, (d + 1,))
    to = (*a.shape[: d + 1], count, *a.shape[d + 1 :])
    return reshape(
        expand("repeat_interleave", wide, to), (*a.shape[:d], a.shape[d] * count, *a.shape[d + 1 :])
    )


def repeat(a: Edge, times: Sequence[Extent]) -> Edge:
    """The whole tensor `times[d]` times along each dimension, new leading ones included."""
    new = len(times) - len(a.shape)
    if new < 0:
        raise fail(
            BadArgument,
            op="repeat",
            name="the counts",
            value=tuple(times),
            expected=f"at least {len(a.shape)} of them",
        )
    counts = [counted("repeat", "a count", t, 0) for t in times]
    a = with_ones(a, tuple(range(new)))
    ones = with_ones(a, tuple(range(0, 2 * len(times), 2)))
    to = tuple(x for t, e in zip(counts, a.shape, strict=True) for x in (t, e))
    out = tuple(e * t for t, e in zip(counts, a.shape, strict=True))
    return reshape(expand("repeat", ones, to), out)


# --- positions computed from positions ------------------------------------------------------------


def at_positions(a: Edge, dim: int, extent: Extent, position: Callable[[Ix], Ix]) -> Edge:
    """A dimension of another extent, whose element i is element `position(i)`, which exists."""
    to = tuple(ix(extent) if d == dim else e for d, e in enumerate(a.shape))
    index = list(view.coordinates(to))
    index[dim] = position(index[dim])
    return look(a, View(to, tuple(index)))


def pieces(
    a: Edge, dim: int, count: Extent, start: Callable[[Ix], Ix], end: Callable[[Ix], Ix], fill: Any
) -> Edge:
    """Piece i of a dimension has its elements from start(i) to end(i); a last dimension is inside it.

    It is as long as the longest piece where that is known, else as long as any may be; others end in `fill`.
    """
    count = ix(count)
    each = range(count.const if count.is_const else 0)
    lengths = {end(ix(i)) - start(ix(i)) for i in each}
    known = count.is_const and all(n.is_const for n in lengths)
    longest = ix(max(n.const for n in lengths)) if known else ceildiv(a.shape[dim], count) + 1
    to = (*(count if d == dim else e for d, e in enumerate(a.shape)), longest)
    *index, inner = view.coordinates(to)
    first, past = start(index[dim]), end(index[dim])
    index[dim] = first + inner
    inside = (
        ()
        if known and len(lengths) == 1
        else (less(index[dim], past), less(index[dim], a.shape[dim]))
    )
    return look(a, View(to, tuple(index), inside, fill))
