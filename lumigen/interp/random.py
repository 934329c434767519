"""Counter-based random bits, the same on every target: Philox 4x32-10 (Salmon et al. 2011).

Element n of call site s under key k is the first word (i64: the first two) of the block whose
counter is (low and high half of n, s, 0) and whose key is the two halves of k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def bits_at(keys: Any, places: Any, site: int, dtype: Any) -> np.ndarray[Any, Any]:
    """The bits of some elements, each under its key: arrays of i64, which are broadcast."""
    n = np.asarray(places, np.int64).astype(np.uint64)
    key = np.asarray(keys, np.int64).astype(np.uint64)
    counter = [n & LOW, n >> HALF, np.full_like(n, site), np.zeros_like(n)]
    words = [key & LOW, key >> HALF]
    for _ in range(ROUNDS):
        a = counter[0] * np.uint64(MULTIPLIERS[0])
        b = counter[2] * np.uint64(MULTIPLIERS[1])
        high = [b >> HALF ^ counter[1] ^ words[0], a >> HALF ^ counter[3] ^ words[1]]
        counter = [high[0], b & LOW, high[1], a & LOW]
        words = [w + np.uint64(step) & LOW for w, step in zip(words, WEYL, strict=True)]
    return (counter[0] | counter[1] << HALF).astype(np.int64).astype(dtype)


def bits(key: int, site: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Uniform random integers of the dtype: each of its bits is fair."""
    places = np.arange(int(np.prod(shape, dtype=np.int64)))
    return bits_at(key, places, site, dtype).reshape(shape)
