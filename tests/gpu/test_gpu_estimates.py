"""Estimated quotients on a GPU: the nearest number of 16 bits, of zeros, infinities, NaN and the least numbers, too."""

from __future__ import annotations

from itertools import count, product
from pathlib import Path

import numpy as np
import pytest

import lumigen as lg

pytestmark = pytest.mark.gpu

NUMBER = count()  # graphs that live at a time share no name
ENDS = (0.0, -0.0, 1.0, -1.5, 3.0, 6e-8, 6e-5, 65504.0, np.inf, -np.inf, np.nan)
OFF = 2.0**-21  # of a quotient of f32, at the most


def test_quotients_are_rounded_to_the_nearest_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or to the next one, if the quotient is as near to half of both as an estimate is to it."""
    monkeypatch.setenv("LUMIGEN_CACHE", str(tmp_path))
    rng = np.random.default_rng(2)
    drawn = rng.standard_normal((1 << 16, 2)) * np.exp2(rng.integers(-12, 13, (1 << 16, 2)))
    pairs = np.concatenate([np.array([*product(ENDS, ENDS)]), drawn]).astype(np.float16)
    cx, number = lg.Graph(), next(NUMBER)
    x, y = (
        cx.tensor(len(pairs), name=f"{name} {number}", dtype=lg.f16).set(pairs[:, i])
        for i, name in enumerate("xy")
    )
    outs = [(x / y).retrieve(), y.reciprocal().retrieve()]
    cx.compile(lg.CUDACompiler())
    cx.execute()
    with np.errstate(all="ignore"):
        wide = pairs.astype(np.float64)
        for out, right in zip(outs, (wide[:, 0] / wide[:, 1], 1 / wide[:, 1]), strict=True):
            ends = [(right * (1 + off)).astype(np.float16) for off in (-OFF, OFF)]
            found = out.numpy()
            same = np.isnan(found) & np.isnan(right)
            assert np.all(same | (found == ends[0]) | (found == ends[1]))
            assert np.all(same | (np.signbit(found) == np.signbit(right)))
