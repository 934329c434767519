"""Random sentences and the masks that tests ask about."""

from __future__ import annotations

import numpy as np

VOCABULARY = 30522
KINDS = ("ones", "single", "ragged")


def ids(batch: int, length: int) -> np.ndarray:
    rng = np.random.default_rng(1000 * batch + length)
    return rng.integers(0, VOCABULARY, (batch, length))


def mask(kind: str, batch: int, length: int) -> np.ndarray:
    """`ragged`: sentences of all lengths, the first of one token, the last as long as can be."""
    lengths = {
        "ones": np.full(batch, length),
        "single": np.ones(batch, np.int64),
        "ragged": np.linspace(1, length, batch).round()
        if batch > 1
        else np.array([-(-length // 2)]),
    }
    return (np.arange(length) < lengths[kind][:, None]).astype(np.int64)
