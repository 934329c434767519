"""What a region computes, in numpy: the oracle for every plan and every kernel.

Floats are computed in f64 and rounded at casts and stores; integers keep their own type. A value is
an array with one dimension for each axis that it varies with, aligned by broadcasting. Sums of
products run as einsum; `brute` forms every product instead, which proves the shortcut on small
shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lumigen.condition import Cmp
from lumigen.dtype import DType
from lumigen.index import Axis, Dim, Ix, Lookup, ix
from lumigen.interp.graph import cast as to_integer
from lumigen.interp.random import bits_at
from lumigen.ops import ROWS, Op
from lumigen.region import (
    Buffer,
    Carried,
    Choose,
    Const,
    Expr,
    Gather,
    Holds,
    Index,
    Intrinsic,
    Local,
    Monoid,
    Prim,
    Random,
    Read,
    Reduce,
    Region,
    Scan,
    Store,
    angle_of,
)

Array = npt.NDArray[Any]


class Source(Protocol):
    """A tensor that is read at indices, one array for each dimension: an array, or what makes its elements then."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, at: tuple[Array, ...], /) -> Array: ...


def evaluate(
    region: Region,
    buffers: Mapping[str, Array],
    dims: Mapping[Dim, int],
    *,
    brute: bool = False,
) -> dict[str, Array]:
    """Every buffer that the region stores to; one that is given in `buffers` is updated."""
    env = Evaluator(buffers, dims, brute=brute)
    out: dict[str, Array] = {}
    for store in region.stores:
        target = out.get(store.dst.name)
        if target is None:
            target = out[store.dst.name] = env.empty(store.dst)
        env.store(store, target)
    return out


def elements(
    region: Region,
    dst: Buffer,
    wanted: npt.NDArray[np.int64],
    buffers: Mapping[str, Source],
    dims: Mapping[Dim, int],
) -> Array:
    """What `evaluate` leaves in these elements of a buffer that is given, counted row by row.

    Only what they depend on is read and computed.
    """
    if not wanted.size:
        return np.empty(0, dst.dtype.numpy)
    shape = tuple(int(e.evaluate(dims)) for e in dst.dims)
    unique, back = np.unique(wanted, return_inverse=True)
    before = buffers[dst.name][np.unravel_index(unique, shape) if shape else ()]
    out = np.array(before, dst.dtype.numpy).reshape(unique.shape)
    env = Evaluator(buffers, dims)
    for store in (s for s in region.stores if s.dst == dst):
        env.fork().store_elements(store, shape, unique, out)
    return out[back]


def in_order(store: Store) -> bool:
    """Whether the points of a store are the elements of its buffer, one by one."""
    extents = tuple(a.extent for a in store.axes)
    return store.dst.dims == extents and store.at == tuple(ix(a) for a in store.axes)


def value(
    expr: Expr,
    axes: tuple[Axis, ...],
    buffers: Mapping[str, Array],
    dims: Mapping[Dim, int],
    *,
    brute: bool = False,
) -> Array:
    """An expression over the grid of `axes`, one dimension for each, in that order."""
    return Evaluator(buffers, dims, brute=brute).grid(expr, axes)


class Evaluator:
    """Values of expressions, each computed once.

    Every axis has a position, counted from the last dimension; an array has size one where it does
    not vary. An axis runs over its whole extent unless `points` binds it to a tile. `known` gives
    whole expressions their values, `carried` the states of an enclosing fold.
    """

    def __init__(
        self,
        buffers: Mapping[str, Source],
        dims: Mapping[Dim, int],
        *,
        brute: bool = False,
        real: npt.DTypeLike = np.float64,
    ) -> None:
        self.buffers = buffers
        self.dims = dims
        self.brute = brute
        self.real = np.dtype(real)
        self.positions: dict[object, int] = {}
        self.points: dict[Axis, tuple[int, Array]] = {}
        self.known: dict[Expr, Array] = {}
        self.carried: dict[tuple[int, str], Array] = {}
        self._memo: dict[Expr, Array] = {}
        self._whole: dict[frozenset[Axis], Evaluator] = {}

    def fork(self) -> Evaluator:
        """An evaluator with the same facts and nothing computed yet."""
        other = Evaluator(self.buffers, self.dims, brute=self.brute, real=self.real)
        other.positions = self.positions
        other.points = dict(self.points)
        other.known = dict(self.known)
        other.carried = dict(self.carried)
        return other

    def position(self, owner: object) -> int:
        """The dimension, counted from the last, that belongs to an axis or to a fold."""
        return self.positions.setdefault(owner, len(self.positions))

    def bind(self, axis: Axis, position: int, values: Array) -> None:
        """Let an axis run over `values`, along the dimension of `position`."""
        self.points[axis] = (position, spread(values, position))

    def extent(self, axis: Axis) -> int:
        return int(axis.extent.evaluate(self.dims))

    def empty(self, buffer: Buffer) -> Array:
        """The buffer as it was given, or zeros."""
        given = self.buffers.get(buffer.name)
        if given is not None:
            return np.array(given, buffer.dtype.numpy, order="C")
        return np.zeros([int(e.evaluate(self.dims)) for e in buffer.dims], buffer.dtype.numpy)

    def grid(self, expr: Expr, axes: tuple[Axis, ...]) -> Array:
        """The value with one dimension for each of `axes`, in that order."""
        return self._spread_over(self.value(expr), axes)

    def _spread_over(self, array: Array, axes: tuple[Axis, ...]) -> Array:
        places = [self._bound(a)[0] for a in axes]
        rank = max([p + 1 for p in places] + [array.ndim])
        full = array.reshape((1,) * (rank - array.ndim) + array.shape)
        order = [rank - 1 - p for p in places]
        rest = [d for d in range(rank) if d not in order]
        assert all(full.shape[d] == 1 for d in rest), (
            "the value varies with an axis that is not asked for"
        )
        shape = [np.size(self._bound(a)[1]) for a in axes]
        return np.broadcast_to(
            np.transpose(full, [*rest, *order]).reshape([full.shape[d] for d in order]), shape
        )

    def store(self, store: Store, target: Array) -> None:
        """Write a store into `target`; points outside it contribute nothing."""
        data = cast(self.grid(store.value, store.axes), store.dst.dtype)
        at = self._addresses(store, target.shape)
        inside = at >= 0
        target.reshape(-1)[at[inside]] = data[inside]

    def store_elements(
        self, store: Store, shape: tuple[int, ...], wanted: Array, out: Array
    ) -> None:
        """Write those elements of a buffer of `shape` that are wanted, each once, to their places in `out`."""
        if in_order(store):
            points, place = wanted, np.arange(wanted.size)
        else:
            number = np.full(int(np.prod(shape, dtype=np.int64)), -1)
            number[wanted] = np.arange(wanted.size)
            at = self._addresses(store, shape)
            place = np.where(at >= 0, number[at], -1).reshape(-1)
            points = np.flatnonzero(place >= 0)
            place = place[points]
        if points.size:
            out[place] = cast(self.at_points(store, points), store.dst.dtype)

    def at_points(self, store: Store, points: Array) -> Array:
        """The value of a store at some of its points, counted row by row.

        The last axis and the others together have a dimension each: what varies with one of the two
        alone, such as an operand of a matrix product, is computed once for each place there.
        """
        columns = self.extent(store.axes[-1]) if store.axes else 1
        index: list[Array] = []
        halves = ((store.axes[:-1], points // columns), (store.axes[-1:], points % columns))
        for number, (axes, flat) in enumerate(halves):
            if axes:
                places, back = np.unique(flat, return_inverse=True)
                index.append(back)
                position = self.position((store, number))
                extents = [self.extent(a) for a in axes]
                for axis, values in zip(axes, np.unravel_index(places, extents), strict=True):
                    self.bind(axis, position, values)
        bound = (*store.axes[:-1][:1], *store.axes[-1:])
        return self.grid(store.value, bound)[tuple(index)].reshape(-1)

    def _addresses(self, store: Store, shape: tuple[int, ...]) -> Array:
        """The element that each point of a store writes in a buffer of `shape`; -1 outside of it."""
        flat = np.zeros([self.extent(a) for a in store.axes], np.int64)
        inside = np.ones(flat.shape, np.bool_)
        for i, size in zip(store.at, shape, strict=True):
            at = self._spread_over(self.ix(i), store.axes)
            inside &= (at >= 0) & (at < size)
            flat = flat * size + at
        return np.where(inside, flat, -1)

    # ---- indices ----

    def _bound(self, axis: Axis) -> tuple[int, Array]:
        found = self.points.get(axis)
        if found is None:
            position = self.position(axis)
            found = self.points[axis] = (position, spread(np.arange(self.extent(axis)), position))
        return found

    def ix(self, i: Ix) -> Array:
        """An index expression on the grid."""
        env: dict[Dim | Axis, Any] = {**self.dims, **{a: self._bound(a)[1] for a in i.axes}}
        return np.asarray(i.evaluate(env, self._lookup), np.int64)

    def _lookup(self, atom: Lookup, env: Mapping[Any, Any]) -> Array:
        if isinstance(atom.source, Buffer):
            source = self.buffers[atom.source.name]
        else:
            raise TypeError(f"no way to read {atom.source}")
        at = [np.asarray(i.evaluate(env, self._lookup), np.int64) for i in atom.at]
        return _gather(source, at)[0].astype(np.int64)

    def holds(self, conditions: Iterable[Cmp]) -> Array:
        out = np.ones((), np.bool_)
        for c in conditions:
            out = out & c.holds(self.ix)
        return out

    # ---- values ----

    def value(self, e: Expr) -> Array:
        """The value of an expression, aligned by position."""
        found = self.known.get(e)
        if found is None:
            found = self._memo.get(e)
        if found is None:
            with np.errstate(all="ignore"):
                found = self._memo[e] = np.asarray(self._value(e))
        return found

    def _value(self, e: Expr) -> Array:
        match e:
            case Const():
                return np.asarray(e.value, self.numpy(e.dtype))
            case Index():
                return self.ix(e.value).astype(self.numpy(e.dtype))
            case Holds():
                return self.holds(e.conditions)
            case Read():
                return self._read(e)
            case Gather():
                return self._gathered(e)
            case Random():
                return bits_at(self.value(e.key), self.ix(e.at), e.site, e.dtype.numpy)
            case Prim():
                return self._prim(e)
            case Choose():
                return np.where(
                    self.value(e.condition), self.value(e.then), self.value(e.otherwise)
                )
            case Reduce():
                return self._reduce(e)
            case Carried():
                return self.carried[e.carry, e.which]
            case Scan():
                return self._scan(e)
            case Local() | Intrinsic():
                raise KeyError(f"{e.name} is named by a tile program and has no value here")

    def numpy(self, dtype: DType) -> np.dtype[Any]:
        """In what numbers values of `dtype` are computed."""
        if dtype.is_float:
            return self.real if dtype.bits <= 32 else np.dtype(np.float64)
        return np.dtype(dtype.numpy)

    def _gathered(self, e: Gather) -> Array:
        """An element for each place, which lies along the dimensions that it varies with."""
        for axis, place in zip(e.axes, e.places, strict=True):
            self.points[axis] = (0, self.value(place))
        data = self._read(e)
        for axis in e.axes:
            del self.points[axis]
        return data

    def _read(self, e: Read | Gather) -> Array:
        source = self.buffers[e.source.name]
        data, inside = _gather(source, [self.ix(i) for i in e.at])
        data = data.astype(self.numpy(e.dtype))
        if e.dtype.is_float and not inside.all():
            return np.where(inside, data, np.nan)  # what leaks from an unreached read must show
        return data

    def _prim(self, e: Prim) -> Array:
        if e.op is Op.CONTIGUOUS:
            return cast(self.value(e.args[0]), e.dtype).astype(self.numpy(e.dtype))
        if not e.dtype.is_float:
            return result_of(e, self.value)
        return result_of(e, lambda a: self.value(a).astype(self.numpy(e.dtype), copy=False))

    def _reduce(self, e: Reduce) -> Array:
        tiled = frozenset(a for a in e.axes if self._is_tiled(a))
        if tiled:
            return self._whole_of(tiled).value(e)
        places = sorted(self._bound(a)[0] for a in e.axes)
        count = int(np.prod([self.extent(a) for a in e.axes], dtype=np.int64))
        wide = self.numpy(e.acc)
        if e.monoid is Monoid.MAX:
            body = self._masked(
                e, places, np.asarray(e.body.dtype.lowest, self.numpy(e.body.dtype))
            )
            out = np.max(body, axis=_dims(body, places), keepdims=True, initial=e.body.dtype.lowest)
        elif count == 0:
            out = np.zeros((), wide)
        else:
            out = None if self.brute else self._contract(e, places, wide)
            if out is None:
                body = self._masked(e, places, np.zeros((), self.numpy(e.body.dtype)))
                out = np.sum(body, axis=_dims(body, places), keepdims=True, dtype=wide)
        return _trim(out).astype(self.numpy(e.dtype))

    def _is_tiled(self, axis: Axis) -> bool:
        if axis not in self.points:
            return False
        position, values = self.points[axis]
        return position != self.positions.get(axis) or np.size(values) != self.extent(axis)

    def _whole_of(self, axes: frozenset[Axis]) -> Evaluator:
        found = self._whole.get(axes)
        if found is None:
            found = self._whole[axes] = self.fork()
            for a in axes:
                del found.points[a]
        return found

    def _masked(self, e: Reduce, places: list[int], absent: Array) -> Array:
        """The body on the whole grid of the reduced axes, `absent` where a condition fails."""
        body = (
            np.where(self.holds(e.where), self.value(e.body), absent)
            if e.where
            else self.value(e.body)
        )
        rank = max([body.ndim, *(p + 1 for p in places)])
        shape = [1] * (rank - body.ndim) + list(body.shape)
        for a in e.axes:
            shape[rank - 1 - self._bound(a)[0]] = self.extent(a)
        return np.broadcast_to(body.reshape([1] * (rank - body.ndim) + list(body.shape)), shape)

    def _contract(self, e: Reduce, places: list[int], wide: np.dtype[Any]) -> Array | None:
        """A sum of products as einsum; None where that would not mean the same."""
        if e.body.dtype.bits < 32 and not e.body.dtype.is_float:
            return None
        factors = [self.value(f).astype(wide) for f in _factors(e.body)]
        for c in e.where:
            held = self.holds((c,))
            covered = False
            for n, f in enumerate(factors):
                if _varies(held) <= _varies(f):
                    factors[n] = np.where(held, f, 0)
                    covered = True
            if not covered:
                factors.append(held.astype(wide))
        if len(factors) == 1 or (e.where and not all(np.isfinite(f).all() for f in factors)):
            return None
        varying = set[int]().union(*(_varies(f) for f in factors))
        kept = sorted(varying - set(places), reverse=True)
        operands: list[Any] = []
        for f in factors:
            labels = sorted(_varies(f), reverse=True)
            operands += [f.reshape([f.shape[f.ndim - 1 - p] for p in labels]), labels]
        out = np.asarray(np.einsum(*operands, kept, optimize=True))
        for a in e.axes:
            if self._bound(a)[0] not in varying:
                out = out * self.extent(a)
        rank = 1 + max(kept, default=-1)
        shape = [1] * rank
        for p, size in zip(kept, out.shape, strict=True):
            shape[rank - 1 - p] = size
        return out.reshape(shape).astype(wide)

    def _scan(self, e: Scan) -> Array:
        """Each place takes the carry of its own step: later ones do not reach it."""
        state = self.value(e.init)
        places = self._bound(e.axis)[1]
        if not places.size:
            return np.zeros(np.broadcast_shapes(state.shape, places.shape), state.dtype)
        states: list[Array] = []
        for i in range(int(np.max(places)) + 1):
            inner = self.fork()
            inner.bind(e.axis, 0, np.asarray([i]))
            if e.part and i % e.part == 0:
                state = inner.value(e.init)
            inner.carried[0, "old"] = state
            if e.element is not None:
                inner.carried[0, "new"] = inner.value(e.element)
            state = inner.value(e.step)
            states.append(state)
        shape = np.broadcast_shapes(*(x.shape for x in states))
        rank = max(len(shape), places.ndim)
        shape = (1,) * (rank - len(shape)) + shape
        steps = np.stack([np.broadcast_to(x, shape) for x in states])
        where = places.reshape((1,) * (rank - places.ndim) + places.shape)
        beside = (spread(np.arange(n), rank - 1 - d) for d, n in enumerate(shape))
        return steps[where, *beside]


def result_of(e: Prim, value: Callable[[Expr], Array]) -> Array:
    """What a primitive gives of the values of its operands; of a cosine the sum is not rounded."""
    angle = angle_of(e)
    return np.cos(value(angle)) if angle is not None else ROWS[e.op].meaning(*map(value, e.args))


def cast(a: Array, dtype: DType) -> Array:
    """`a` rounded to `dtype`, in that type; a float that no integer is near becomes the nearest one."""
    array = np.asarray(a)
    with np.errstate(all="ignore"):
        if array.dtype == np.float64 and dtype.is_int:
            return to_integer(array, dtype)
        return array.astype(dtype.numpy)


def spread(values: Array, position: int) -> Array:
    """A vector laid along the dimension of `position`."""
    return np.asarray(values).reshape((-1,) + (1,) * position)


def _gather(source: Source, at: list[Array]) -> tuple[Array, Array]:
    """The elements at `at`, clipped into the source, and where nothing had to be clipped."""
    inside = np.ones((), np.bool_)
    clipped: list[Array] = []
    for i, size in zip(at, source.shape, strict=True):
        inside = inside & (i >= 0) & (i < size)
        clipped.append(np.clip(i, 0, size - 1))
    return np.asarray(source[tuple(clipped)]), inside


def _varies(a: Array) -> set[int]:
    return {a.ndim - 1 - d for d, size in enumerate(a.shape) if size != 1}


def _dims(a: Array, places: list[int]) -> tuple[int, ...]:
    return tuple(a.ndim - 1 - p for p in places)


def _trim(a: Array) -> Array:
    """Without leading dimensions of size one."""
    lead = next((d for d, size in enumerate(a.shape) if size != 1), a.ndim)
    return a.reshape(a.shape[lead:])


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, Prim) and e.op is Op.MUL and not e.dtype.is_bool:
        return [f for a in e.args for f in _factors(a)]
    return [e]
