"""Arrangement: parts of a tensor, and tensors side by side, in PyTorch's other words for it.

All of it is movement: other views of the same elements, padded and added where tensors are joined.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lumigen.dtype import i64
from lumigen.errors import BadArgument, ShapeMismatch
from lumigen.frontend import movement, reduction
from lumigen.frontend.extents import check_extent, fixed, need_axes
from lumigen.frontend.operand import filled, listed, one_sequence, where, zeros_like
from lumigen.frontend.primitive import Extent, broadcast_shape, look
from lumigen.frontend.trace import fail
from lumigen.index import Ix, is_nonnegative, ix, minimum
from lumigen.view import View, positions

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Parts in a row along a dimension."""
    if not parts:
        raise fail(BadArgument, op="cat", name="the list", value="empty", expected="a tensor")
    return parts[0].of(movement.cat([p.edge for p in parts], dim))


def several(
    tensors: tuple[Tensor | Sequence[Tensor], ...],
) -> tuple[list[Tensor], bool]:
    """Tensors given one by one or as one sequence, and whether it was one alone."""
    if len(tensors) == 1 and isinstance(tensors[0], Sequence):
        return list(tensors[0]), False
    return [t for t in tensors if not isinstance(t, Sequence)], len(tensors) == 1


def counting(input: Tensor, extent: Extent) -> Tensor:
    """0, 1, .. below an extent, as i64."""
    return input.of(reduction.emit_iota(ix(extent)))


# --- ranks ----------------------------------------------------------------------------------------


def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """With one dimension if there is none."""
    found, alone = several(tensors)
    out = tuple(t.reshape(1) if t.ndim == 0 else t for t in found)
    return out[0] if alone else out


def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """With leading dimensions until there are two."""
    found, alone = several(tensors)
    out = tuple(_two(t) for t in found)
    return out[0] if alone else out


def _two(t: Tensor) -> Tensor:
    return t.reshape(*(1,) * (2 - t.ndim), *t.extents) if t.ndim < 2 else t


def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """With a last dimension for matrices, one on each side for vectors."""
    found, alone = several(tensors)
    out = tuple(_three(t) for t in found)
    return out[0] if alone else out


def _three(t: Tensor) -> Tensor:
    return t if t.ndim > 2 else _two(t).unsqueeze(-1)


def ravel(input: Tensor) -> Tensor:
    """All elements in a row."""
    return input.flatten()


# --- views ----------------------------------------------------------------------------------------


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions moved to other places; the others keep their order."""
    none = not input.ndim  # where 0 and -1 are names as well
    start = [movement.axis("movedim", input.edge, d, none) for d in listed(source)]
    end = [movement.axis("movedim", input.edge, d, none) for d in listed(destination)]
    if len(start) != len(end) or len({*start}) < len(start) or len({*end}) < len(end):
        value, expected = (tuple(start), tuple(end)), "as many places as dimensions, each once"
        raise fail(BadArgument, op="movedim", name="the dims", value=value, expected=expected)
    rest = iter(d for d in range(input.ndim) if d not in start)
    came = dict(zip(end, start, strict=True))
    return input.permute(tuple(came[d] if d in came else next(rest) for d in range(input.ndim)))


def t(input: Tensor) -> Tensor:
    """The two dimensions of a matrix swapped; a vector as it is."""
    if input.ndim > 2:
        expected = "at most 2 dimensions; of more use .mT or .transpose()"
        raise fail(BadArgument, op="t", name="a tensor", value=input, expected=expected)
    return input if input.ndim < 2 else input.transpose(0, 1)


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of another one."""
    return input.expand(other.extents)


def broadcast_to(input: Tensor, size: Sequence[Extent]) -> Tensor:
    """Expanded to a shape."""
    return input.expand(size)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of another one."""
    return input.reshape(other.extents)


def as_strided(
    input: Tensor, size: Sequence[Extent], stride: Sequence[Extent], storage_offset: int = 0
) -> Tensor:
    """Elements at offset + sum_d i[d] stride[d] of all elements in row-major order."""
    flat = input.flatten()
    to = tuple(map(ix, size))
    at = ix(storage_offset)
    for i, step in zip(positions(to), stride, strict=True):
        at = at + ix(i) * ix(step)
    if any(e == 0 for e in to):
        return filled(input, to, 0)
    pairs = zip(to, stride, strict=True)
    last = sum(((e - 1) * ix(step) for e, step in pairs), ix(storage_offset))
    check_extent(
        "as_strided", f"element {last} is read of {flat.extents[0]}", flat.extents[0] - last, 1
    )
    return input.of(look(flat.edge, View(to, (at,))))


def select(input: Tensor, dim: int, index: Extent) -> Tensor:
    """The part at a position of a dimension, without that dimension."""
    d = movement.axis("select", input.edge, dim)
    return input[(slice(None),) * d + (index,)]


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by `k` right angles from the first to the second of two dimensions."""
    a, b = (movement.axis("rot90", input.edge, d) for d in dims)
    if a == b:
        expected = "two different dimensions"
        raise fail(BadArgument, op="rot90", name="dims", value=tuple(dims), expected=expected)
    match k % 4:
        case 0:
            return input
        case 1:
            return input.flip(b).transpose(a, b)
        case 2:
            return input.flip(a, b)
        case _:
            return input.flip(a).transpose(a, b)


def fliplr(input: Tensor) -> Tensor:
    """The second dimension reversed."""
    return input.flip(1)


def flipud(input: Tensor) -> Tensor:
    """The first dimension reversed."""
    return input.flip(0)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x[i, i + offset] of two dimensions, as a last one."""
    a = movement.axis("diagonal", input.edge, dim1)
    b = movement.axis("diagonal", input.edge, dim2)
    if a == b:
        expected = "another dimension than dim1"
        raise fail(BadArgument, op="diagonal", name="dim2", value=dim2, expected=expected)
    moved = movedim(input, (a, b), (-2, -1))
    *rest, rows, columns = moved.extents
    down, right = minimum(rows, ix(max(-offset, 0))), minimum(columns, ix(max(offset, 0)))
    count = minimum(rows - down, columns - right)
    to = (*rest, count)
    *outer, i = positions(to)
    index = (*map(ix, outer), ix(i) + down, ix(i) + right)
    if count == 0:
        return filled(input, to, 0)
    return input.of(look(moved.edge, View(to, index)))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices, in two new dimensions, that are 0 but for x on a diagonal."""
    need_axes("diag_embed", input.extents, 1)
    down, right = max(-offset, 0), max(offset, 0)
    size = input.extents[-1] + abs(offset)
    spread = input.pad((down, right)).unsqueeze(-1)  # (.., size, 1)
    i = counting(input, size)
    hit = i.unsqueeze(-1) + offset == i
    out = where(hit, spread, zeros_like(spread))
    rank = input.ndim + 1
    return movedim(out, (-2, -1), (dim1 % rank, dim2 % rank))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix; of a vector the matrix with that diagonal."""
    return diag_embed(input, diagonal) if input.ndim == 1 else _diagonal(input, diagonal)


_diagonal = diagonal


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix whose diagonal has all elements in a row."""
    return diag_embed(input.flatten(), offset)


def _band(x: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column numbers of the last two dimensions."""
    return counting(x, x.extents[-2]).unsqueeze(1), counting(x, x.extents[-1])


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """`x` where column <= row + diagonal, else 0."""
    need_axes("tril", input.extents, 2)
    i, j = _band(input)
    return where((i + diagonal >= j).expand(input.extents), input, zeros_like(input))


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """`x` where column >= row + diagonal, else 0."""
    need_axes("triu", input.extents, 2)
    i, j = _band(input)
    return where((j >= i + diagonal).expand(input.extents), input, zeros_like(input))


def sum_to_size(input: Tensor, *size: Extent | Sequence[Extent]) -> Tensor:
    """Summed over what broadcasting would have repeated, to a shape."""
    to = tuple(map(ix, one_sequence(size)))
    new = input.ndim - len(to)
    if new < 0 or any(e != 1 and e is not x for e, x in zip(to, input.extents[new:], strict=True)):
        raise fail(
            ShapeMismatch,
            op="sum_to_size",
            lhs=input.extents,
            rhs=to,
            rule="the shape must broadcast to that of the tensor",
            remedy="Correct the size.",
        )
    dims = (*range(new), *(new + d for d, e in enumerate(to) if e is not input.extents[new + d]))
    if not dims:
        return input if to or input.dtype.is_float else input.to(i64)
    return input.sum(dims).reshape(to)


# --- parts ----------------------------------------------------------------------------------------


def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """So many parts, the first of which may be longer by one; or parts that end at these positions."""
    d = movement.axis("tensor_split", input.edge, dim)
    head = (slice(None),) * d
    if isinstance(indices_or_sections, int):
        n, extent = indices_or_sections, input.extents[d]
        if n < 1:
            expected = "at least 1"
            raise fail(BadArgument, op="tensor_split", name="sections", value=n, expected=expected)
        lengths = [(extent + n - 1 - k) // n for k in range(n - 1)]
        last = extent - sum(lengths, ix(0))
        if not is_nonnegative(last):
            fixed("tensor_split", f"split into {n} parts", extent)
        return input.split([*lengths, last], d)
    ends = list(indices_or_sections)
    starts = [None, *ends]
    return tuple(input[(*head, slice(a, b))] for a, b in zip(starts, [*ends, None], strict=True))


def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along the second dimension, of vectors along the first."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along the first dimension."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension."""
    return tensor_split(input, indices_or_sections, 2)


# --- parts replaced -------------------------------------------------------------------------------


def _placed(input: Tensor, src: Tensor, d: int, at: Tensor) -> Tensor:
    """`src` at the positions of a dimension where `at`, its index there or -1, is not negative."""
    tail = (1,) * (input.ndim - 1 - d)
    inside = (at >= 0).reshape(-1, *tail)
    taken = src.index_select(d, at.clamp(min=0)) if src.size(d) != 1 else src
    return where(inside, taken.type_as(input).expand(input.extents), input)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """The tensor with `src` at a position of a dimension."""
    d = movement.axis("select_scatter", input.edge, dim)
    here = counting(input, input.extents[d]) == index % input.extents[d]
    tail = (1,) * (input.ndim - 1 - d)
    return where(here.reshape(-1, *tail), src.type_as(input).unsqueeze(d), input)


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """The tensor with `src` at a slice of a dimension."""
    d = movement.axis("slice_scatter", input.edge, dim)
    kept = src.extents[d]
    i = counting(input, input.extents[d])
    picked = i[slice(start, end, step)]
    if kept == 0:
        return input
    first = picked[0]
    past = i - first
    inside = (past >= 0) & (past < kept * step) & (past % step == 0)
    return _placed(input, src, d, where(inside, past // step, -1))


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """The tensor with `src` on a diagonal of two dimensions."""
    moved = movedim(input, (dim1, dim2), (-2, -1))
    i, j = _band(moved)
    rows, columns = moved.extents[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    spread = src.type_as(input).unsqueeze(-1)  # (.., count, 1)
    count = src.extents[-1]
    spread = spread.pad((0, 0, down, rows - down - count)).expand(*moved.extents)
    del right, columns
    return movedim(where(i + offset == j, spread, moved), (-2, -1), (dim1, dim2))


# --- tensors side by side -------------------------------------------------------------------------


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side along the second dimension, vectors along the first."""
    parts = [p.reshape(1) if p.ndim == 0 else p for p in tensors]
    return joined(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other along the first dimension, vectors as rows."""
    return joined([_two(p) for p in tensors], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One after the other along the third dimension."""
    return joined([_three(p) for p in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side along the second dimension, vectors as columns."""
    return joined([p.reshape(-1, 1) if p.ndim < 2 else p for p in tensors], 1)


def tile(input: Tensor, *dims: Extent | Sequence[Extent]) -> Tensor:
    """The whole tensor so many times along each of the last dimensions."""
    times = one_sequence(dims)
    return input.repeat(*(1,) * (input.ndim - len(times)), *times)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along a diagonal, 0 elsewhere; vectors are rows."""
    parts = [_two(p) for p in tensors]
    width = sum((p.extents[1] for p in parts), ix(0))
    rows: list[Tensor] = []
    left = ix(0)
    for p in parts:
        rows.append(p.pad((left, width - left - p.extents[1])))
        left = left + p.extents[1]
    return joined(rows, 0)


def broadcast_shapes(*shapes: int | Sequence[Extent]) -> tuple[Ix, ...]:
    """The shape that operands of these shapes have in common."""
    out: tuple[Ix, ...] = ()
    for shape in shapes:
        out = broadcast_shape("broadcast_shapes", out, tuple(map(ix, listed(shape))))
    return out


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All expanded to their common shape."""
    to = broadcast_shapes(*(x.extents for x in tensors))
    return tuple(x.expand(to) for x in tensors)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Each vector along its own dimension of a common grid; `xy` swaps the first two dimensions."""
    found, _ = several(tensors)
    vectors = [x.reshape(-1) for x in found]
    swap = indexing == "xy" and len(vectors) > 1
    order = [1, 0, *range(2, len(vectors))] if swap else list(range(len(vectors)))
    rank = len(vectors)
    spread = [
        x.reshape(*(1,) * order[k], -1, *(1,) * (rank - 1 - order[k]))
        for k, x in enumerate(vectors)
    ]
    return broadcast_tensors(*spread)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    grids = [g.flatten() for g in meshgrid(*tensors)]
    return grids[0].of(movement.stack([g.edge for g in grids], 1))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector of known extent, as rows."""
    count = range(len(input))
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(chosen(count, r))
    if not rows or not r:
        return filled(input, (0,) if not r else (0, r), 0)
    parts = [input[list(column)] for column in zip(*rows, strict=True)]
    return input.of(movement.stack([p.edge for p in parts], 1))


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Positions in a row as positions in a shape, a tensor for each dimension."""
    sizes = listed(shape)
    found: list[Tensor] = []
    rest = indices.to(i64)
    for size in reversed(sizes):
        found.append(rest % size)
        rest = rest // size
    return tuple(reversed(found))
