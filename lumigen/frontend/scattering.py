"""Scattering: elements written to positions that are data, as sums over comparisons of indices.

Where several go to one place, the last one stays; sums, products and extrema take them all. What it
costs is the product of both extents: each place looks at every element.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lumigen.dtype import i64
from lumigen.errors import BadArgument
from lumigen.frontend import indexing, movement
from lumigen.frontend.arrangement import counting
from lumigen.frontend.operand import Value, choice, is_tensor, raw, where, zeros_like
from lumigen.frontend.primitive import Scalar, broadcast_shape, tensor
from lumigen.frontend.trace import fail
from lumigen.index import Ix, ix, product

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _as(input: Tensor, value: Value) -> Tensor:
    """An operand in the dtype of a tensor."""
    return input.of(tensor(raw(value), input.dtype))


class _Places:
    """What goes where along dimension `d`: `hits[.., i, .., j]` is whether element j goes to i."""

    def __init__(self, input: Tensor, d: int, index: Tensor) -> None:
        self.input, self.d = input, d
        shape = tuple(index.extents[k] if k == d else e for k, e in enumerate(input.extents))
        at = index.pad(_missing(index, shape), -1)
        last = at.movedim(d, -1).unsqueeze(d)  # (.., 1, .., elements)
        places = counting(input, input.extents[d]).reshape(-1, *(1,) * (input.ndim - d))
        self.hits = places == last
        self.shape = shape

    def elements(self, src: Tensor) -> Tensor:
        """What is written, beside `hits`."""
        padded = src.to(self.input.dtype).pad(_missing(src, self.shape))
        return padded.movedim(self.d, -1).unsqueeze(self.d)

    def last(self, src: Tensor) -> Tensor:
        """The last element that goes to each place, else what is there."""
        count = self.hits.extents[-1]
        number = where(self.hits, counting(self.input, count) + 1, 0).amax(-1)
        taken = self.chosen(src, number - 1)
        return where(number > 0, taken, self.input)

    def chosen(self, src: Tensor, number: Tensor) -> Tensor:
        here = counting(self.input, self.hits.extents[-1]) == number.unsqueeze(-1)
        x = where(here, self.elements(src), zeros_like(self.elements(src)))
        return x.any(-1) if x.dtype.is_bool else x.sum(-1, dtype=x.dtype)

    def added(self, src: Tensor) -> Tensor:
        x = where(self.hits, self.elements(src), zeros_like(self.elements(src)))
        return x.any(-1) if x.dtype.is_bool else x.sum(-1, dtype=x.dtype)

    def reduced(self, src: Tensor, how: str, include_self: bool) -> Tensor:
        x, hits = self.input, self.hits
        touched = hits.any(-1)
        if how in ("sum", "mean"):
            base = x if include_self else where(touched, zeros_like(x), x)
            total = base | self.added(src) if x.dtype.is_bool else base + self.added(src)
            if how == "sum":
                return total
            count = hits.sum(-1) + (1 if include_self else 0)
            count = count.clamp(min=1).type_as(x)
            return total / count if x.dtype.is_float else total // count
        fill: Scalar = {"prod": 1, "amax": x.dtype.lowest, "amin": _highest(x)}[how]
        found = where(hits, self.elements(src), _as(x, fill))
        if how == "prod":
            found = found.all(-1) if x.dtype.is_bool else found.prod(-1, dtype=x.dtype)
            joint = x & found if x.dtype.is_bool else x * found
        elif how == "amax":
            found = found.amax(-1)
            joint = x | found if x.dtype.is_bool else x.maximum(found)
        else:
            found = found.amin(-1)
            joint = x & found if x.dtype.is_bool else x.minimum(found)
        return where(touched, joint if include_self else found, x)


def _highest(input: Tensor) -> Scalar:
    return math.inf if input.dtype.is_float else input.dtype.greatest


def _missing(x: Tensor, shape: tuple[Ix, ...]) -> tuple[Ix, ...]:
    """Widths of a padding to a shape; negative where `x` has more."""
    widths: list[Ix] = []
    for have, want in zip(reversed(x.extents), reversed(shape), strict=True):
        widths += [ix(0), want - have]
    return tuple(widths)


def _start(op: str, input: Tensor, dim: int, index: Tensor) -> tuple[Tensor, int, Tensor]:
    """A 0-d tensor counts as one of one element."""
    x = input.reshape(1) if not input.ndim else input
    return x, movement.axis(op, x.edge, dim), index.reshape(1) if not index.ndim else index


def _empty(index: Tensor) -> bool:
    return product(index.extents) == 0


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Value, *, reduce: str | None = None
) -> Tensor:
    """out[.., index[.., j, ..], ..] = src[.., j, ..]; added or multiplied if `reduce` says so."""
    choice("scatter", "reduce", reduce, None, "add", "multiply")
    if reduce is not None:
        how = "sum" if reduce == "add" else "prod"
        return scatter_reduce(input, dim, index, _beside(input, index, src), how)
    if _empty(index):
        return input
    x, d, at = _start("scatter", input, dim, index)
    given = _beside(x, at, src)
    return _Places(x, d, at).last(given).reshape(input.extents)


def _beside(input: Tensor, index: Tensor, src: Value) -> Tensor:
    """What is written, a number as often as there are indices."""
    if is_tensor(src):
        return src.reshape(1) if not src.ndim and index.ndim else src
    return _as(input, src).expand(index.extents)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """out[.., index[.., j, ..], ..] += src[.., j, ..]."""
    return scatter_reduce(input, dim, index, src, "sum")


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The sum, prod, mean, amax or amin of the elements that go to a place, and of what is there."""
    choice("scatter_reduce", "reduce", reduce, *REDUCTIONS)
    if _empty(index):
        return input
    x, d, at = _start("scatter_reduce", input, dim, index)
    given = _beside(x, at, src)
    return _Places(x, d, at).reduced(given, reduce, include_self).reshape(input.extents)


# --- along one dimension, by a list of positions --------------------------------------------------


def _rows(
    op: str, input: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[_Places, Tensor]:
    """The places of slices, and the slices."""
    x = input.reshape(1) if not input.ndim else input
    d = movement.axis(op, x.edge, dim)
    slices = source.reshape(1) if not source.ndim else source
    at = index.reshape(-1)
    wide = at.reshape(-1, *(1,) * (x.ndim - 1 - d)).expand(
        tuple(at.extents[0] if k == d else e for k, e in enumerate(x.extents))
    )
    return _Places(x, d, wide), slices


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1
) -> Tensor:
    """out[.., index[j], ..] += alpha source[.., j, ..]."""
    if _empty(index):
        return input
    places, slices = _rows("index_add", input, dim, index, source)
    given = slices if alpha == 1 else slices * alpha
    return places.reduced(given, "sum", include_self=True).reshape(input.extents)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """out[.., index[j], ..] = source[.., j, ..]."""
    if _empty(index):
        return input
    places, slices = _rows("index_copy", input, dim, index, source)
    return places.last(slices).reshape(input.extents)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Value) -> Tensor:
    """out[.., index[j], ..] = value."""
    x = input.reshape(1) if not input.ndim else input
    d = movement.axis("index_fill", x.edge, dim)
    at = index.of(indexing.from_the_end(index.to(i64).edge, x.extents[d])).reshape(-1)
    hit = (counting(x, x.extents[d]).unsqueeze(-1) == at).any(-1)
    hit = hit.reshape(-1, *(1,) * (x.ndim - 1 - d))
    return where(hit, _as(x, value), x).reshape(input.extents)


def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """The prod, mean, amax or amin of the slices that go to a place, and of what is there."""
    choice("index_reduce", "reduce", reduce, "prod", "mean", "amax", "amin")
    if _empty(index):
        return input
    places, slices = _rows("index_reduce", input, dim, index, source)
    return places.reduced(slices, reduce, include_self).reshape(input.extents)


# --- by several tensors, and by masks -------------------------------------------------------------


def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """out[indices] = values, or += if `accumulate`; one mask alone takes one value."""
    if len(indices) == 1 and indices[0].dtype.is_bool:
        return _masked_put(input, indices[0], values, accumulate)
    masks = [k for k in indices if k.dtype.is_bool]
    if masks:
        expected = "one mask alone, or integers"
        value = f"{len(indices)} tensors, a mask among them"
        raise fail(BadArgument, op="index_put", name="indices", value=value, expected=expected)
    count = len(indices)
    rows, rest = input.extents[:count], input.extents[count:]
    flat_index, shape = indexing.linear([k.edge for k in indices], rows)
    at = input.of(flat_index).flatten()
    flat = input.reshape(product(rows), *rest)
    given = values.type_as(input).expand(*shape, *rest).reshape(product(shape), *rest)
    done = index_add(flat, 0, at, given) if accumulate else index_copy(flat, 0, at, given)
    return done.reshape(input.extents)


def _rank(mask: Tensor) -> Tensor:
    """How many elements of a mask are true before each one, in row-major order."""
    flat = mask.flatten()
    i = counting(mask, flat.extents[0])
    before = flat & (i < i.unsqueeze(1))
    return before.sum(1).reshape(mask.extents)


def _masked_put(input: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Values where the mask, of the first axes, holds; with an axis of their own for each true one."""
    rest = input.extents[mask.ndim :]
    wide = mask.reshape(*mask.extents, *(1,) * len(rest))
    given = values.type_as(input)
    if given.ndim > len(rest):
        given = given.expand(given.extents[0], *rest) if rest else given
        many = given.extents[0] != 1
        given = given[_rank(mask)] if many else given.squeeze(0)
    if accumulate:
        given = input | given if input.dtype.is_bool else input + given
    return where(wide, given, input)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of `source` in row-major order, where the mask holds."""
    shape = broadcast_shape("masked_scatter", input.extents, mask.extents)
    everywhere = mask.expand(shape)
    taken = source.flatten().type_as(input)[_rank(everywhere)]
    return where(everywhere, taken, input.expand(shape))


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements written to positions in row-major order."""
    flat, at = input.flatten(), index.flatten()
    at = index.of(indexing.from_the_end(at.edge, flat.extents[0]))
    given = source.flatten()
    out = index_add(flat, 0, at, given) if accumulate else index_copy(flat, 0, at, given)
    return out.reshape(input.extents)


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions in row-major order, in the shape of the index."""
    return input.flatten()[index]
