"""Softmax next to a product, in blocks of keys, where the scores are far from zero: as good as where they are near."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_programs import Library, SmallProgram

import lumigen as lg

N = lg.Dim("n", 1, 600)
LOWEST = float(np.finfo(np.float32).min)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return {"out": (q @ k.T * 0.25 + mask).softmax(-1) @ v}


PROGRAM = SmallProgram(
    "attention",
    attention,
    tuple({"q": lg.spec(N, 8), "k": lg.spec(N, 8), "v": lg.spec(N, 8), "mask": lg.spec(N)}.items()),
)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library([PROGRAM], "-O2")


def error(library: Library, keys: int, mask: np.ndarray) -> float:
    """The greatest one, relative to the greatest value, against float64 on the same float32 scores."""
    arrays, _ = PROGRAM.arrays({"n": keys})
    arrays["mask"] = mask.astype(np.float32)
    found = library.lanes["attention"].run("attention", arrays, {})["out"]
    scores = (arrays["q"] @ arrays["k"].T * np.float32(0.25) + arrays["mask"]).astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ arrays["v"]
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


@pytest.mark.parametrize("shift", [0, -1e2, -1e4, -1e6, -1e9, -1e30, 1e6])
def test_a_shift_of_all_scores(library: Library, shift: float) -> None:
    # products of 8 numbers round differently in another order; scores near the shift hide that
    assert error(library, 500, np.full(500, shift)) < 3e-6


@pytest.mark.parametrize("keys", [3, 65, 130])
@pytest.mark.parametrize("lowest", [-1e9, -1e30, LOWEST])
def test_masks_that_are_numbers(library: Library, keys: int, lowest: float) -> None:
    everything, last = np.full(keys, lowest), np.full(keys, lowest)
    last[-1] = 0
    for mask in (everything, last, last[::-1]):
        assert error(library, keys, mask) < 3e-6
