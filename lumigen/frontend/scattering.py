"""Scattering: elements written to positions that are data, as sums over comparisons of indices.

Where several go to one place, the last one stays; sums, products and extrema take them all. Where places or elements
are few, each place compares every index. Else a native kernel puts the elements in groups, one for each place, which
then looks at the elements of its own: a time that grows with places and elements, not with their product.
"""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lumigen.dtype import f32, f64, i64
from lumigen.errors import BadArgument, ShapeMismatch
from lumigen.frontend import indexing, movement, native
from lumigen.frontend.arrangement import counting
from lumigen.frontend.looping import scanned
from lumigen.frontend.operand import Value, choice, filled, is_tensor, raw, where, zeros_like
from lumigen.frontend.primitive import Extent, Scalar, broadcast_shape, fill, size
from lumigen.frontend.sorting import taken
from lumigen.frontend.trace import fail
from lumigen.graph import Edge
from lumigen.index import Axis, Ix, is_less, ix, product
from lumigen.view import Shape, positions

if TYPE_CHECKING:
    from lumigen.frontend.tensor import Tensor

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _as(input: Tensor, value: Value) -> Tensor:
    """An operand in the dtype of a tensor."""
    return input.of(fill("fill", raw(value), input.dtype))


# Comparisons, and places or elements, up to which each place compares every index: then one kernel does it all.
FEW_COMPARISONS, FEW = 4096, 8


def _places(input: Tensor, d: int, index: Tensor) -> _Places:
    """What goes where along dimension `d`, found in one way or the other by the most that the extents may be."""
    places, elements = (_most(x.extents[d]) for x in (input, index))
    few = places * elements <= FEW_COMPARISONS or min(places, elements) <= FEW
    return _Places(input, d, index) if few else _Groups(input, d, index)


def _most(extent: Ix) -> float:
    most = extent.bounds()[1]
    return math.inf if most is None else most


class _Places:
    """What goes where along dimension `d`: `hits[.., i, .., j]` is whether element j goes to i."""

    def __init__(self, input: Tensor, d: int, index: Tensor) -> None:
        self.input, self.d = input, d
        self.shape = tuple(index.extents[k] if k == d else e for k, e in enumerate(input.extents))
        at = index.pad(_missing(index, self.shape), -1)
        self.hits = self.compared(at.movedim(d, -1))

    def compared(self, at: Tensor) -> Tensor:
        """The hits of the indices (.., elements)."""
        x, d = self.input, self.d
        places = counting(x, x.extents[d]).reshape(-1, *(1,) * (x.ndim - d))
        return places == at.unsqueeze(d)

    def written(self, src: Tensor) -> Tensor:
        """The elements (.., elements) in the dtype of what they go to."""
        padded = src.to(self.input.dtype).pad(_missing(src, self.shape))
        return padded.movedim(self.d, -1)

    def elements(self, src: Tensor) -> Tensor:
        """What is written, beside `hits`."""
        return self.written(src).unsqueeze(self.d)

    def touched(self) -> Tensor:
        """Whether anything goes to a place."""
        return self.hits.any(-1)

    def count(self) -> Tensor:
        """How many elements go to each place."""
        return self.hits.sum(-1)

    def sizes(self) -> Tensor:
        """The same."""
        return self.count()

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

    def multiplied(self, src: Tensor) -> Tensor:
        """The product of what goes to each place, 1 of nothing."""
        found = where(self.hits, self.elements(src), _as(self.input, 1))
        return found.all(-1) if found.dtype.is_bool else found.prod(-1, dtype=found.dtype)

    def added(self, src: Tensor) -> Tensor:
        return self.folded(src, "sum", 0)

    def folded(self, src: Tensor, how: str, nothing: Scalar) -> Tensor:
        """The sum or the maximum of what goes to each place, `nothing` of nothing."""
        return _folded(where(self.hits, self.elements(src), _as(self.input, nothing)), how)

    def reduced(self, src: Tensor, how: str, include_self: bool) -> Tensor:
        x = self.input
        touched = self.touched()
        if how in ("sum", "mean"):
            base = x if include_self else where(touched, zeros_like(x), x)
            total = base | self.added(src) if x.dtype.is_bool else base + self.added(src)
            if how == "sum":
                return total
            count = self.sizes() + (1 if include_self else 0)
            count = count.clamp(min=1).type_as(x)
            return total / count if x.dtype.is_float else total // count
        if how == "prod":
            found = self.multiplied(src)
            joint = x & found if x.dtype.is_bool else x * found
        elif how == "amax":
            found = self.folded(src, how, x.dtype.lowest)
            joint = x | found if x.dtype.is_bool else x.maximum(found)
        else:  # a condition on terms bounds a loop if they are neutral where it fails: of a maximum the least
            found = _turned(self.folded(_turned(src.to(x.dtype)), "amax", x.dtype.lowest))
            joint = x & found if x.dtype.is_bool else x.minimum(found)
        return where(touched, joint if include_self else found, x)


# Elements of a part: long runs are folded in parts first, which runs share alike. Fewer than so many parts are none.
PART, PARTS = 256, 64


def _folded(x: Tensor, how: str) -> Tensor:
    """Of the last axis."""
    if how == "sum":
        return x.any(-1) if x.dtype.is_bool else x.sum(-1, dtype=x.dtype)
    return x.amax(-1)


def _joint(a: Tensor, b: Tensor, how: str) -> Tensor:
    if a.dtype.is_bool:
        return a | b
    return a + b if how == "sum" else a.maximum(b)


def _turned(x: Tensor) -> Tensor:
    """What is the greater, the less it was."""
    return -x if x.dtype.is_float else ~x


class _Groups(_Places):
    """The same of many: elements stand by place, so that those of one place are neighbours."""

    def compared(self, at: Tensor) -> Tensor:
        """Whether each number in the order of places is one of those that each place has."""
        count, n = self.input.extents[self.d], at.extents[-1]
        self.index = _narrowed(at)
        groups = self.rows_of(native.groups, count)
        places = groups.narrow(-1, count + 1, n)
        self.order = places.minimum(
            places.of(size(n - 1))
        )  # (.., elements); a place is below n, and a count may be n
        self.first = groups.narrow(-1, 0, count)  # (.., places)
        self.end = groups.narrow(-1, 1, count)
        number = counting(at, n)
        first, end = (e.unsqueeze(-1).movedim(-2, self.d) for e in (self.first, self.end))
        return (number >= first) & (number < end)

    def rows_of(self, kernel: Callable[[Edge, Ix], Edge], count: Ix) -> Tensor:
        """What a native kernel gives of the rows of indices."""
        *rows, n = self.index.extents
        several = [e for e in rows if e != 1]
        found = self.index.of(kernel(self.index.reshape(*several, n).edge, count))
        return found.reshape(*rows, found.extents[-1])

    def elements(self, src: Tensor) -> Tensor:
        """Those of one place side by side."""
        return _at(self.written(src), self.order).unsqueeze(self.d)

    def added(self, src: Tensor) -> Tensor:
        """Of what is the same for all elements nothing is read; single elements are added where they go."""
        if not src.dtype.is_bool and not _is_same(src, self.d):
            return self.summed(src) if self.are_single(src) else super().added(src)
        if src.dtype.is_bool:
            return super().added(src)
        value, sizes = self.written(src).narrow(-1, 0, 1).movedim(-1, self.d), self.sizes()
        return where(sizes > 0, sizes.type_as(value) * value, _as(value, 0))  # not 0 * inf

    def are_single(self, src: Tensor) -> bool:
        """Whether each row of elements has indices of its own: floats that 32 bits hold."""
        shared = zip(self.index.extents[:-1], self.written(src).extents[:-1], strict=True)
        is_float = self.input.dtype.is_float and self.input.dtype is not f64
        return is_float and all(own is e for own, e in shared)

    def summed(self, src: Tensor) -> Tensor:
        """The sum of what goes to each place, by a native kernel."""
        *rows, n = self.index.extents
        several = [e for e in rows if e != 1]
        index = self.index.reshape(*several, n)
        values = self.written(src).to(f32).reshape(*several, n)
        count = self.input.extents[self.d]
        found = self.input.of(native.sums(index.edge, values.edge, count))
        return found.reshape(*rows, count).movedim(-1, self.d).type_as(self.input)

    def sizes(self) -> Tensor:
        """How many elements go to each place, where nothing else of them counts."""
        starts = self.rows_of(native.starts, self.input.extents[self.d])
        count = self.input.extents[self.d]
        return (starts.narrow(-1, 1, count) - starts.narrow(-1, 0, count)).movedim(-1, self.d)

    def folded(self, src: Tensor, how: str, nothing: Scalar) -> Tensor:
        if _most(self.order.extents[-1]) < PART * PARTS:
            return super().folded(src, how, nothing)
        written, count = self.written(src), self.order.extents[-1]
        return self.of_runs(lambda at: _at(written, _at(self.order, at)), count, 1, how, nothing)

    def of_runs(
        self, at: Callable[[Tensor], Tensor], count: Ix, unit: int, how: str, nothing: Scalar
    ) -> Tensor:
        """What the elements of each run come to: `count`, each for `unit` of those that are written.

        Parts that lie in one run are folded first, of others nothing. A run is what is ahead of its parts,
        these, and what is behind them. So no run is folded one element after the other, however long it is.
        """
        neutral, part = _as(self.input, nothing), unit * PART
        first, end = (e.unsqueeze(-1).movedim(-2, self.d) for e in (self.first, self.end))
        place, elements = counting(self.input, count) * unit, at(counting(self.input, count))
        inside = (place >= first - first % unit) & (place < end - end % unit)
        elements = elements.unsqueeze(self.d)
        if _most(count) < PART * PARTS:
            return _folded(where(inside, elements, neutral), how)
        begin = first + (part - first % part) % part
        behind = inside & (place >= begin) & (place >= end - end % part)
        ahead = _folded(where(inside & (place < begin), elements, neutral), how)
        after = _folded(where(behind, elements, neutral), how)
        parts = self.parts(at, count // PART, unit, how, neutral).movedim(self.d, -1)
        whole = self.of_runs(lambda p: _at(parts, p), count // PART, part, how, nothing)
        return _joint(_joint(ahead, whole, how), after, how)

    def parts(
        self, at: Callable[[Tensor], Tensor], count: Ix, unit: int, how: str, neutral: Tensor
    ) -> Tensor:
        """What each part comes to that lies in one run, along `d`."""
        part, within = counting(self.input, count), counting(self.input, ix(PART))
        first = part * (PART * unit)
        owner, last = (
            _at(self.index, _at(self.order, p)) for p in (first, first + (PART * unit - 1))
        )
        length = where(owner == last, PART, 0).unsqueeze(-1).movedim(-2, self.d)
        elements = at((part.unsqueeze(-1) * PART + within).flatten())
        elements = elements.reshape(*elements.extents[:-1], count, PART).movedim(-2, self.d)
        return _folded(where(within < length, elements, neutral), how)

    def touched(self) -> Tensor:
        return (self.end > self.first).movedim(-1, self.d)

    def count(self) -> Tensor:
        return (self.end - self.first).movedim(-1, self.d)

    def last(self, src: Tensor) -> Tensor:
        return self.at_end(_at(self.written(src), self.order), self.input)

    def at_end(self, ordered: Tensor, nothing: Tensor) -> Tensor:
        """What stands at the last element of each place, and what is where there is none."""
        found = _at(ordered, self.end - 1).movedim(-1, self.d)
        return where(self.touched(), found, nothing)

    def multiplied(self, src: Tensor) -> Tensor:
        """A product begins anew with each place, and is whole at the last of its elements."""
        x, n = _at(self.written(src), self.order), self.order.extents[-1]
        place = _at(self.index.to(i64), self.order).clamp(min=0)
        begins = counting(x, n) == _at(self.first, place)

        def body(carries: list[Edge], elements: list[Edge]) -> tuple[list[Edge], list[Edge]]:
            so_far, element, anew = (x.of(e) for e in (*carries, *elements))
            joint = so_far & element if x.dtype.is_bool else so_far * element
            return [where(anew, element, joint).edge], []

        one = filled(x, x.extents[:-1], 1).edge
        given = [x.edge, begins.expand(x.extents).edge]
        (products,), _ = scanned(body, [one], given, axis=x.ndim - 1, length=n)
        return self.at_end(x.of(products), _as(self.input, 1))


def _narrowed(x: Tensor) -> Tensor:
    """The tensor with one point of each axis but the last that it does not vary with."""
    for d in range(x.ndim - 1):
        x = x.narrow(d, 0, 1) if _is_same(x, d) else x
    return x


def _is_same(x: Tensor, d: int) -> bool:
    """Whether all along dimension `d` is one element as the view of the tensor says."""
    axes = positions(x.extents)
    at, valid = x.edge.view.at(tuple(map(ix, axes)))
    return axes[d] not in frozenset[Axis]().union(*(i.axes for i in at), *(c.axes for c in valid))


def _at(rows: Tensor, places: Tensor) -> Tensor:
    """The elements of rows (.., n) at places (.., k) of them; either may have one row for all."""
    shape = broadcast_shape("scatter", rows.extents[:-1], places.extents[:-1])
    wide = places.expand(*shape, places.extents[-1])
    return taken(rows.expand(*shape, rows.extents[-1]), wide)


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


def _check_indices(op: str, input: Tensor, d: int, index: Tensor, src: Tensor) -> None:
    """An index for no more than there are: elements of `src`, and places of the input beside `d`."""
    if not input.ndim == index.ndim == src.ndim:
        rule = "the input, the index and what is written have as many axes"
        other = input if index.ndim == src.ndim else src
        raise _unfit(op, index.extents, other.extents, rule, "Add or remove axes.")
    for k in range(input.ndim):
        for other, what in ((src, "what is written"), (input, "the input")):
            if (other is src or k != d) and is_less(other.extents[k], index.extents[k]):
                rule = f"axis {k} of the index is longer than that of {what}"
                remedy = "Pass an index for each element."
                raise _unfit(op, index.extents, other.extents, rule, remedy)


def _check_slices(op: str, input: Tensor, d: int, index: Tensor, source: Tensor) -> None:
    """A slice for each index, of the extents that the input has beside `d`."""
    wanted = tuple(index.extents[0] if k == d else e for k, e in enumerate(input.extents))
    pairs = zip(source.extents, wanted, strict=False)
    if source.ndim != input.ndim or any(is_less(a, b) or is_less(b, a) for a, b in pairs):
        rule = f"the source has a slice along axis {d} for each index, and is else as the input"
        raise _unfit(op, source.extents, wanted, rule, "Correct the index or the source.")


def _unfit(op: str, have: Shape, other: Shape, rule: str, remedy: str) -> Exception:
    return fail(ShapeMismatch, op=op, lhs=have, rhs=other, rule=rule, remedy=remedy)


def _empty(index: Tensor) -> bool:
    return product(index.extents) == 0


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Value, *, reduce: str | None = None
) -> Tensor:
    """out[.., index[.., j, ..], ..] = src[.., j, ..]; added or multiplied if `reduce` says so.

    What goes to an index that names no element, such as -1, is left out.
    """
    choice("scatter", "reduce", reduce, None, "add", "multiply")
    if reduce is not None:
        how = "sum" if reduce == "add" else "prod"
        return scatter_reduce(input, dim, index, _beside(input, index, src), how)
    if _empty(index):
        return input
    x, d, at = _start("scatter", input, dim, index)
    given = _beside(x, at, src)
    _check_indices("scatter", x, d, at, given)
    return _places(x, d, at).last(given).reshape(input.extents)


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
    _check_indices("scatter_reduce", x, d, at, given)
    return _places(x, d, at).reduced(given, reduce, include_self).reshape(input.extents)


# --- along one dimension, by a list of positions --------------------------------------------------


def _rows(
    op: str, input: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[_Places, Tensor]:
    """The places of slices, and the slices."""
    x = input.reshape(1) if not input.ndim else input
    d = movement.axis(op, x.edge, dim)
    slices = source.reshape(1) if not source.ndim else source
    at = index.reshape(-1)
    _check_slices(op, x, d, at, slices)
    wide = at.reshape(-1, *(1,) * (x.ndim - 1 - d)).expand(
        tuple(at.extents[0] if k == d else e for k, e in enumerate(x.extents))
    )
    return _places(x, d, wide), slices


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


def counted(index: Tensor, places: Extent) -> Tensor:
    """How many of the indices (n,) name each place below `places`, as i64."""
    found = _places(index.new_zeros(places, dtype=i64), 0, index)
    return found.sizes()


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


def rank(mask: Tensor) -> Tensor:
    """How many elements of a mask are true before each one, in row-major order."""
    flat = mask.flatten().to(i64)
    return (flat.cumsum(0) - flat).reshape(mask.extents)


def _masked_put(input: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Values where the mask, of the first axes, holds; with an axis of their own for each true one."""
    rest = input.extents[mask.ndim :]
    wide = mask.reshape(*mask.extents, *(1,) * len(rest))
    given = values.type_as(input)
    if given.ndim > len(rest):
        given = given.expand(given.extents[0], *rest) if rest else given
        many = given.extents[0] != 1
        given = given[rank(mask)] if many else given.squeeze(0)
    if accumulate:
        given = input | given if input.dtype.is_bool else input + given
    return where(wide, given, input)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of `source` in row-major order, where the mask holds."""
    shape = broadcast_shape("masked_scatter", input.extents, mask.extents)
    everywhere = mask.expand(shape)
    taken = source.flatten().type_as(input)[rank(everywhere)]
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
