"""Reading an array at index expressions over a grid: what a view means in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lumigen.condition import Cmp
from lumigen.dtype import of_numpy
from lumigen.index import Axis, Ix
from lumigen.view import View, positions

Array = np.ndarray[Any, Any]
Env = Mapping[Any, Any]  # the values of dims and axes


def widen(array: Array) -> Array:
    """A tensor as the interpreters hold it: floats in f64."""
    if array.dtype == np.float64:
        return array
    dtype = of_numpy(array.dtype)
    return array.astype(np.float64) if dtype is not None and dtype.is_float else array


def grid(axes: Sequence[Axis], sizes: Sequence[int]) -> dict[Axis, Array]:
    """For each axis its values: an array of rank len(axes) that varies along its dimension only."""
    rank = len(axes)
    return {
        a: np.arange(n, dtype=np.int64).reshape([-1 if d == i else 1 for d in range(rank)])
        for i, (a, n) in enumerate(zip(axes, sizes, strict=True))
    }


def concrete(shape: Sequence[Ix], dims: Env) -> tuple[int, ...]:
    """The shape as integers."""
    return tuple(int(e.evaluate(dims)) for e in shape)


def seen(array: Array, view: View, dims: Env, fill_dtype: np.dtype[Any] | None = None) -> Array:
    """What a view shows of an array, as a read-only array that shares memory where numpy can."""
    sizes = concrete(view.shape, dims)
    axes = positions(view.shape)
    out = gather(array, view.index, view.valid, view.fill, axes, {**dims, **grid(axes, sizes)})
    if fill_dtype is not None and out.dtype != fill_dtype:
        out = out.astype(fill_dtype)
    return np.broadcast_to(out, sizes)


def gather(
    array: Array,
    at: tuple[Ix, ...],
    valid: tuple[Cmp, ...],
    fill: float | int,
    axes: Sequence[Axis],
    env: Env,
) -> Array:
    """`array[at] if all(valid) else fill`, of rank len(axes), with extent 1 where nothing varies.

    Floats come out in f64.

    `env` gives every dim its value and every axis an array of that rank.
    """
    rank = len(axes)
    if not valid:
        sliced = _sliced(array, at, axes, env)
        if sliced is not None:
            return widen(sliced)
    index = [np.asarray(e.evaluate(env), np.int64) for e in at]
    inside = np.asarray(True)
    for c in valid:
        inside = inside & (np.asarray(c.slack.evaluate(env)) >= 0)
    for d, i in enumerate(index):
        good = (i >= 0) & (i < array.shape[d])
        if not np.all(good | ~inside):
            raise IndexError(
                f"dimension {d} of extent {array.shape[d]} is read at {at[d]}, outside of it"
            )
    if valid and array.size == 0:
        shape = np.broadcast_shapes(inside.shape, *(i.shape for i in index))
        return _ranked(np.full(shape, fill, widen(array).dtype), rank)
    if valid:
        index = [np.where(inside, i, 0) for i in index]
    out = widen(array[tuple(index)] if index else array)
    if valid:
        out = np.where(inside, out, np.asarray(fill, out.dtype))
    return _ranked(np.asarray(out), rank)


def _ranked(array: Array, rank: int) -> Array:
    return array if array.ndim == rank else array.reshape((1,) * (rank - array.ndim) + array.shape)


def _sliced(array: Array, at: tuple[Ix, ...], axes: Sequence[Axis], env: Env) -> Array | None:
    """The read as slices, a transposition and new axes, if each index is affine in its own axis."""
    rank = len(axes)
    slices: list[slice | int] = []
    used: list[int] = []
    for e, extent in zip(at, array.shape, strict=True):
        depends = e.axes
        if not depends:
            start = int(e.evaluate(env))
            if not 0 <= start < extent:
                raise IndexError(f"an extent of {extent} is read at {e}, outside of it")
            slices.append(start)
            continue
        axis = next(iter(depends))
        if len(depends) > 1 or axis not in axes or axes.index(axis) in used:
            return None
        factor = e.coefficient(axis)
        if factor is None or factor.axes:
            return None
        values: Array = np.asarray(env[axis])
        d = axes.index(axis)
        count = values.shape[d] if values.ndim == rank else 0
        if (
            values.size != count
            or count == 0
            or not np.array_equal(values.ravel(), np.arange(count, dtype=np.int64))
        ):
            return None
        step = int(factor.evaluate(env))
        start = int(e.evaluate({**env, axis: 0}))
        last = start + step * (count - 1)
        if step == 0 or not (0 <= start < extent and 0 <= last < extent):
            return None
        stop = last + (1 if step > 0 else -1)
        slices.append(slice(start, stop if stop >= 0 else None, step))
        used.append(d)
    out = array[tuple(slices)]
    out = out.transpose(sorted(range(len(used)), key=used.__getitem__))
    return out.reshape([out.shape[sorted(used).index(d)] if d in used else 1 for d in range(rank)])
