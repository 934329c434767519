"""Softmax next to a product, where the scores are far from zero: as good as where they are near.

In blocks of keys, and with scores stored; in f32, and with what is of 16 bits around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_programs import TOLERANCE, Library, SmallProgram

import lumigen as lg
from lumigen import functional

N = lg.Dim("n", 1, 600)
LOWEST = float(np.finfo(np.float32).min)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return {"out": (q @ k.T * 0.25 + mask).softmax(-1) @ v}


PROGRAM = SmallProgram(
    "attention",
    attention,
    tuple({"q": lg.spec(N, 8), "k": lg.spec(N, 8), "v": lg.spec(N, 8), "mask": lg.spec(N)}.items()),
)


HALVES = {"f16": lg.f16, "bf16": lg.bf16}
POSITIONS = {"fixed": (64, 64), "dynamic": (2, 3, N, 8)}  # and features
SCALES = {"near": 2**-4, "far": 2**4}  # of scores that are whole numbers up to some thousands
FACTOR = 1.7  # which some operands are computed by, and rounded behind


def of_16_bits(dtype: lg.DType, positions: str, masks: str, scale: str) -> SmallProgram:
    """Attention of tensors that are declared so, by PyTorch's function."""
    shape = POSITIONS[positions]

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        if masks == "computed":
            q, k = q * FACTOR, k * FACTOR
        options = {"causal": {"is_causal": True}, "added": {"attn_mask": mask}}.get(masks, {})
        of = functional.scaled_dot_product_attention
        return {"out": of(q, k, v, scale=SCALES[scale], **options)}

    inputs = {name: lg.spec(*shape, dtype=dtype) for name in "qkv"}
    inputs["mask"] = lg.spec(shape[-2], shape[-2], dtype=dtype)
    name = f"{dtype}_{positions}_{masks}_{scale}"
    return SmallProgram(name, attend, tuple(inputs.items()))


MASKS = ("none", "causal", "added", "computed")
CASES = [(d, p, m, s) for d in HALVES for p in POSITIONS for m in MASKS for s in SCALES]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library([PROGRAM], "-O2")


@pytest.fixture(scope="module")
def halves() -> Library:
    return Library(of_16_bits(HALVES[d], *case) for d, *case in CASES)


def error(library: Library, keys: int, mask: np.ndarray) -> float:
    """The greatest one, relative to the greatest value, against float64 on the same float32 scores."""
    arrays, _ = PROGRAM.arrays({"n": keys})
    arrays["mask"] = mask.astype(np.float32)
    found = library.lanes["attention"].run("attention", arrays, {})["out"]
    scores = (arrays["q"] @ arrays["k"].T * np.float32(0.25) + arrays["mask"]).astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ arrays["v"]
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


@pytest.mark.slow
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


@pytest.mark.parametrize(("dtype", "positions", "masks", "scale"), CASES)
def test_scores_of_16_bits_are_f32(
    halves: Library, dtype: str, positions: str, masks: str, scale: str
) -> None:
    """Against float64 on the same numbers: scores of f16 may be beyond 65504, and near ones are told apart."""
    program = of_16_bits(HALVES[dtype], positions, masks, scale)
    arrays, _ = program.arrays({"n": 40})
    for name in "qk":
        whole = np.round(arrays[name].astype(np.float32) * 60).clip(-256, 256)
        arrays[name] = whole.astype(arrays[name].dtype)
    found = halves.lanes[program.name].run(program.name, arrays, {})["out"]
    if masks == "computed":
        for name in "qk":
            arrays[name] = (arrays[name] * np.float32(FACTOR)).astype(arrays[name].dtype)
    q, k, v, mask = (arrays[name].astype(np.float64) for name in ("q", "k", "v", "mask"))
    scores = q @ np.swapaxes(k, -1, -2) * SCALES[scale]
    if masks == "added":
        scores += mask
    if masks == "causal":
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    assert np.abs(scores[np.isfinite(scores)]).max() > (65504 if scale == "far" else 256)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    worst = np.max(np.abs(found.astype(np.float64) - wanted)) / np.max(np.abs(wanted))
    assert worst < TOLERANCE[dtype]
