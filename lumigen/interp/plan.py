"""Folds executed tile by tile, exactly as they are written: the proof that they are right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from lumigen.index import Axis, Dim
from lumigen.interp.region import Array, Evaluator
from lumigen.plan import LoopFold
from lumigen.region import Expr, Monoid


def run_folds(
    folds: Iterable[LoopFold],
    exprs: tuple[Expr, ...],
    axes: tuple[Axis, ...],
    buffers: Mapping[str, Array],
    dims: Mapping[Dim, int],
    *,
    tile: int,
    real: npt.DTypeLike = np.float64,
) -> tuple[Array, ...]:
    """`exprs` over the grid of `axes`, their reductions taken from the folds, run in sequence."""
    env = Evaluator(buffers, dims, real=real)
    for fold in folds:
        env = env.fork()
        env.known.update(run_fold(fold, env, tile=tile))
    return tuple(env.grid(e, axes) for e in exprs)


def run_fold(
    fold: LoopFold, env: Evaluator, *, tile: int, lo: int = 0, hi: int | None = None
) -> dict[Expr, Array]:
    """What each reduction is after the points `lo <= point < hi` of the fold's axes, in tiles."""
    extents = [env.extent(a) for a in fold.axes]
    place = env.position(fold)
    states = [np.asarray(c.identity, env.numpy(c.dtype)) for c in fold.carries]
    end = int(np.prod(extents, dtype=np.int64)) if hi is None else hi
    for start in range(lo, end, tile):
        flat = np.arange(start, min(start + tile, end))
        inner = env.fork()
        for axis, values in zip(fold.axes, np.unravel_index(flat, extents), strict=True):
            inner.bind(axis, place, values)
        inner.carried = {(i, "old"): s for i, s in enumerate(states)}
        for i, carry in enumerate(fold.carries):
            old = states[i]
            total = _reduced(inner.value(carry.tile), carry.monoid, place, len(flat))
            with np.errstate(all="ignore"):
                if carry.correct is not None:
                    correct = inner.value(carry.correct)
                    is_kept = carry.correct.dtype.is_bool
                    old = np.where(correct, old, 0) if is_kept else old * correct
                new = np.maximum(old, total) if carry.monoid is Monoid.MAX else old + total
            states[i] = inner.carried[i, "new"] = np.asarray(new, env.numpy(carry.dtype))
    last = env.fork()
    last.carried = {(i, "new"): s for i, s in enumerate(states)}
    return {original: last.value(e) for original, e in fold.results}


def _reduced(tile: Array, monoid: Monoid, place: int, count: int) -> Array:
    """The tile's total along the dimension of the fold."""
    if tile.ndim <= place:
        return tile if monoid is Monoid.MAX else tile * count
    dim = tile.ndim - 1 - place
    if monoid is Monoid.MAX:
        return np.max(tile, axis=dim, keepdims=True)
    if tile.shape[dim] == 1:
        return tile * count
    return np.sum(tile, axis=dim, keepdims=True, dtype=tile.dtype)
