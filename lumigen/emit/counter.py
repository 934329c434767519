"""The numbers of an emitted project's tests: `random_bits`, `fill` and `sample` of tests/testing.h in numpy.

Promises the same bits. `fill` goes a block of counters at a time, so that what is between stays in the cache.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lumigen.dtype import DType, bf16, f32

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint64]

BLOCK = 1 << 15
STREAM, COUNTER, WORD = 0xD1342543DE82EF95, 0x9E3779B97F4A7C15, (1 << 64) - 1
STEPS: Words = np.arange(1, BLOCK + 1, dtype=np.uint64) * np.uint64(COUNTER)
PAIRS, LOW = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
ENDS, INNER = 40, 200  # elements that are compared
FEW_ENDS, FEW_INNER = 8, 32  # that are stored of a kernel


def fill(dtype: DType, count: int, stream: int, lo: int, hi: int, scale: float = 1.0) -> Array:
    """Floats about normal with deviation `scale`, integers in lo .. hi."""
    out = np.empty(count, dtype.numpy)
    for start in range(0, count, BLOCK):
        part = out[start : start + BLOCK]
        _write(part, dtype, random_bits(stream, start, part.size), lo, hi, scale)
    return out


def elements(dtype: DType, at: npt.NDArray[np.int64], stream: int, lo: int, hi: int) -> Array:
    """Those elements of what `fill` makes, in the shape of `at`."""
    counters = at.reshape(-1).astype(np.uint64) + np.uint64(1)
    out = np.empty(counters.size, dtype.numpy)
    words = _mixed(counters * np.uint64(COUNTER) + np.uint64(stream * STREAM & WORD))
    _write(out, dtype, words, lo, hi, 1.0)
    return out.reshape(at.shape)


def sample(count: int, ends: int = ENDS, inner: int = INNER) -> npt.NDArray[np.int64]:
    """Which elements of a buffer are compared: both ends, and some in between."""
    if count <= 2 * ends + inner:
        return np.arange(count)
    between = _integers(random_bits(7, 0, inner), ends, count - ends - 1)
    return np.concatenate([np.arange(ends), between, np.arange(count - ends, count)])


def few(count: int) -> npt.NDArray[np.int64]:
    """Which elements of a kernel's output are stored."""
    return sample(count, FEW_ENDS, FEW_INNER)


def random_bits(stream: int, start: int, count: int) -> Words:
    """The bits at counters start .. start + count - 1, of which there are at most BLOCK."""
    return _mixed(STEPS[:count] + np.uint64((stream * STREAM + start * COUNTER) & WORD))


def _mixed(x: Words) -> Words:
    """The bits of what `random_bits` starts from, written over it."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _write(out: Array, dtype: DType, words: Words, lo: int, hi: int, scale: float) -> None:
    """The elements that the bits stand for."""
    if dtype.is_float:
        np.take(_normals(dtype, scale), _sums(words), out=out, mode="clip")
    else:
        out[:] = _integers(words, lo, hi).astype(dtype.numpy)


def _sums(words: Words) -> npt.NDArray[np.int64]:
    """Of the four 16-bit parts of each word."""
    pairs = (words & PAIRS) + (words >> np.uint64(16) & PAIRS)
    return (pairs + (pairs >> np.uint64(32)) & LOW).view(np.int64)


@cache
def _normals(dtype: DType, scale: float) -> Array:
    """`random_normal` for each sum, times the scale, rounded to the dtype."""
    sums = np.arange(4 * 0xFFFF + 1, dtype=np.float64)
    values = (sums - 2.0 * 65535.0) / 65536.0 * 1.7320508075688772 * scale
    return values.astype(f32.numpy if dtype is bf16 else np.float64).astype(dtype.numpy)


def _integers(words: Words, lo: int, hi: int) -> npt.NDArray[np.int64]:
    span = hi - lo + 1
    offsets = words if span > WORD else words % np.uint64(span)
    return (offsets + np.uint64(lo & WORD)).view(np.int64)
