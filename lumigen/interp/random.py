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


def bits(key: int, site: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Uniform random integers of the dtype: each of its bits is fair."""
    n = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64)
    counter = [n & LOW, n >> HALF, np.full_like(n, site), np.zeros_like(n)]
    words = (key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF)
    for _ in range(ROUNDS):
        a = counter[0] * np.uint64(MULTIPLIERS[0])
        b = counter[2] * np.uint64(MULTIPLIERS[1])
        k0, k1 = (np.uint64(w) for w in words)
        counter = [b >> HALF ^ counter[1] ^ k0, b & LOW, a >> HALF ^ counter[3] ^ k1, a & LOW]
        words = ((words[0] + WEYL[0]) & 0xFFFFFFFF, (words[1] + WEYL[1]) & 0xFFFFFFFF)
    out = counter[0] | counter[1] << HALF
    return out.astype(np.int64).astype(dtype).reshape(shape)
